#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import Foundation
import KithAPI
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// Controlling a screen, as the programs on it see it.
@Suite(.needsX11, .serialized, .timeLimit(.minutes(8))) struct X11InputTests {
    @Test func `the pointer is exact to the pixel, and stays on the screen`() async throws {
        let server = try XServer("801x599x24")
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        for (x, y) in [(0, 0), (800, 598), (1, 597), (400, 300), (799, 0)] as [(Int32, Int32)] {
            try await source.perform(.move(x: x, y: y))
            #expect(try await witness.pointer() == [x, y])
        }
        try await source.perform(.move(x: -5, y: .max))
        #expect(try await witness.pointer() == [0, 598])
        await source.close()
    }

    @Test func `buttons have their numbers, and the wheel turns by whole notches`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        for button in ScreenInput.Button.allCases {
            try await source.perform(.button(button, isDown: true))
            try await source.perform(.button(button, isDown: false))
        }
        let clicks = [1, 2, 3, 8, 9].flatMap { ["button \($0)", "button \($0) up"] }
        #expect(try await witness.events().map(\.description) == clicks)
        for _ in 0..<7 { try await source.perform(.scroll(x: 0, y: 50)) }  // 350 of 120ths
        #expect(try await witness.events().filter(\.isDown).map(\.description) == ["button 5", "button 5"])
        try await source.perform(.scroll(x: -240, y: -110))  // 110 were left
        #expect(try await witness.events().filter(\.isDown).map(\.description) == ["button 6", "button 6"])
        try await source.perform(.scroll(x: 120, y: -120))
        #expect(try await witness.events().filter(\.isDown).map(\.description) == ["button 4", "button 7"])
        await source.close()
    }

    @Test func `a key has the meaning the viewer saw, whatever is held`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        func typed(_ inputs: [ScreenInput]) async throws -> [String] {
            for input in inputs { try await source.perform(input) }
            return try await witness.events().filter(\.isDown).map(\.description)
        }
        #expect(try await typed(.tap("a")) == ["a"])
        #expect(try await typed(.tap("A")) == ["Shift_L", "A"])
        #expect(try await typed([.down("Shift_L")] + .tap("A") + [.up("Shift_L")]) == ["Shift_L", "A"])
        // The viewer's layout has / on Shift+7; here it needs no Shift, which is held again after it.
        #expect(
            try await typed([.down("Shift_L")] + .tap("/") + .tap("B") + [.up("Shift_L")])
                == ["Shift_L", "/", "Shift_L", "B"])
        #expect(try await typed([.down("Shift_L")] + .tap("Tab") + [.up("Shift_L")]) == ["Shift_L", "ISO_Left_Tab"])
        #expect(
            try await typed([.down("Control_L"), .down("Alt_L")] + .tap("t") + [.up("Alt_L"), .up("Control_L")])
                == ["Control_L", "Alt_L", "t"])
        #expect(try await typed(.tap("F5") + .tap("Return") + .tap("KP_7")).contains("F5"))
        #expect(try await witness.pressedKeys().isEmpty)
        await source.close()
    }

    @Test func `another layout is followed while it runs`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        try await source.perform(.text("z@"))
        #expect(try await witness.characters() == "z@")
        try await server.run("setxkbmap", ["de"])
        try await source.perform(.text("zy@ß{ÄÖ"))
        #expect(try await witness.characters() == "zy@ß{ÄÖ")
        try await server.run("setxkbmap", ["us,ru"])
        try await source.perform(.text("Zürich Привет"))
        #expect(try await witness.characters() == "Zürich Привет")
        await source.close()
    }

    @Test func `caps lock does not change what is typed`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        for input in [ScreenInput].tap("Caps_Lock") { try await source.perform(input) }
        try await source.perform(.text("aB1!жЖé"))
        #expect(try await witness.characters() == "aB1!жЖé")
        await source.close()
    }

    @Test func `text in many scripts reaches a program, each character once and in order`() async throws {
        let server = try XServer(isManaged: true)
        try await server.isManaged()
        let folder = try TemporaryFolder()
        let source = try await X11Source.open(display: server.display)
        let shell = "stty -echo; echo ready > \(folder.path)/ready; cat > \(folder.path)/typed"
        let terminal = try server.start("xterm", ["-u8", "-T", "typed", "-e", "sh", "-c", shell])
        try await eventually { try folder.files().contains("ready") }
        try await eventually {
            // Neither is there yet, perhaps.
            _ = try? await server.run("xdotool", ["search", "--onlyvisible", "--class", "XTerm", "windowfocus"])
            let title = try? await server.run("xdotool", ["getwindowfocus", "getwindowname"])
            return title == Array("typed\n".utf8)
        }
        let text = """
            The quick brown fox, 0123456789 {[(<@#$%^&*~`|\\>)]}
            Zwölf Boxkämpfer jagen Eva quer über den großen Sylter Deich; ça va, señor Łódź?
            Съешь же ещё этих мягких французских булок, да выпей чаю.
            Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. שלום עולם
            色は匂へど散りぬるを我が世誰ぞ常ならむ有為の奥山今日越えて浅き夢見じ酔ひもせず 안녕하세요 中文输入
            😀🎉👩‍💻 ∑∞≠

            """
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            try await source.perform(.text(line + "\n"))
        }
        // What does not come shows in the comparison.
        try? await eventually(within: .seconds(15)) { try folder.bytes("typed").count >= text.utf8.count }
        let typed = try String(decoding: folder.bytes("typed"), as: UTF8.self)
        #expect(typed == text)
        await source.close()
        terminal.kill()
    }

    @Test func `keys lent to characters come back`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let connection = try X11Connection(display: server.display, name: "x11")
        let before = try connection.keyMap().unusedKeycodes
        try await source.perform(.text("漢字"))
        #expect(try connection.keyMap().unusedKeycodes.count == before.count - 1)  // both are on one
        try await eventually { try connection.keyMap().unusedKeycodes == before }
        try await source.perform(.text("漢"))
        await source.close()
        #expect(try connection.keyMap().unusedKeycodes == before)
    }

    @Test func `everything held is let go of, also while text is typed`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        for input in [.down("Control_L"), .down("Shift_L"), .down("a"), .down("漢"), .down("F1")] as [ScreenInput] {
            try await source.perform(input)
        }
        try await source.perform(.button(.left, isDown: true))
        try await source.perform(.button(.forward, isDown: true))
        #expect(try await witness.pressedKeys().count == 5)
        await source.releaseAll()
        #expect(try await witness.pressedKeys().isEmpty)
        let last = try await witness.events().filter { !$0.isDown }.map(\.description).suffix(2)
        #expect(last.sorted() == ["button 1 up", "button 9 up"])

        // So many that keys have to be waited for.
        let many = String(String.UnicodeScalarView((0x4E00..<0x4F00).compactMap(Unicode.Scalar.init)))
        try await source.perform(.key(.named("Shift_L"), isDown: true))
        async let typing: Void = source.perform(.text(many))
        try await eventually { try await !witness.characters().isEmpty }
        await source.releaseAll()
        try await typing
        #expect(try await witness.pressedKeys().isEmpty)
        try await source.perform(.text("x"))
        #expect(try await witness.characters().hasSuffix("x"))
        await source.close()
    }

    @Test func `a key that is held repeats when the viewer says so, not by itself`() async throws {
        let hasty = ["-ardelay", "50", "-arinterval", "10"]
        let server = try XServer(arguments: hasty)
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        // What the same server does to the same key elsewhere, pressed later.
        let other = try XServer(arguments: hasty)
        let reference = try Witness(other)
        try await source.perform(.down("a"))
        try await other.run("xdotool", ["keydown", "a"])
        var repeated = 0
        try await eventually {
            repeated += try await reference.characters().count
            return repeated > 20
        }
        #expect(try await witness.characters() == "a")
        for _ in 0..<2 { try await source.perform(.down("a")) }
        try await source.perform(.up("a"))
        #expect(try await witness.characters() == "aa")
        #expect(try await witness.pressedKeys().isEmpty)
        await source.close()
    }

    @Test func `a key is lent to characters alone`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        let before = try witness.connection.keyMap().unusedKeycodes
        // Ends the server, breaks grabs, another program's key, nothing, no number of a key.
        for symbol in [0xFED5, 0x1008_FE21, 0x1008_FF4A, 0, 0xFFFF_FFFF] as [UInt32] {
            try await source.perform(.key(ScreenInput.Key(symbol: symbol), isDown: true))
        }
        #expect(try witness.connection.keyMap().unusedKeycodes == before)
        let isQuiet = try await witness.events().filter { $0.scalar != nil }.isEmpty
        #expect(isQuiet)
        try await source.perform(.text("x"))
        #expect(try await witness.characters() == "x")
        await source.close()
    }

    @Test func `a source that nobody holds any more lets go, too`() async throws {
        let server = try XServer()
        let witness = try Witness(server)
        var source: X11Source? = try await X11Source.open(display: server.display)
        try await source?.perform(.down("Alt_L"))
        try await eventually { try await witness.pressedKeys().count == 1 }
        source = nil
        try await eventually { try await witness.pressedKeys().isEmpty }
    }

    @Test func `close lets go of what is held`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let witness = try Witness(server, of: source)
        try await source.perform(.key(.named("Alt_L"), isDown: true))
        #expect(try await witness.pressedKeys().count == 1)
        await source.close()
        #expect(try await witness.pressedKeys().isEmpty)
    }
}

extension ScreenInput.Key {
    /// The key with a name of X11's, or that types a character.
    static func named(_ name: String) -> Self {
        let scalars = name.unicodeScalars
        if scalars.count == 1, let scalar = scalars.first {
            return Self(symbol: scalar.value < 0x100 ? scalar.value : 0x100_0000 | scalar.value)
        }
        return Self(symbol: xkb_keysym_from_name(name, XKB_KEYSYM_NO_FLAGS))
    }
}

extension ScreenInput {
    static func down(_ name: String) -> Self { .key(.named(name), isDown: true) }
    static func up(_ name: String) -> Self { .key(.named(name), isDown: false) }
}

extension [ScreenInput] {
    static func tap(_ name: String) -> Self { [.down(name), .up(name)] }
}
#endif
