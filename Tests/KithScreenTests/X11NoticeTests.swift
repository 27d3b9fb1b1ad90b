#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import Foundation
import KithAPI
import KithIO
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithScreen

/// Notices on a screen, and who may answer them.
///
/// `xdotool` and the source itself use the devices for tests, as a viewer does. A person's devices are the server's own
/// mouse and keyboard: XTEST can act for one of those when it is named, which the source never does.
@Suite(.needsX11, .serialized, .timeLimit(.minutes(8))) struct X11NoticeTests {
    private final class Answers: Sendable {
        let all = Mutex<[ScreenNotice.Answer]>([])
        func append(_ answer: ScreenNotice.Answer) { all.withLock { $0.append(answer) } }
        var now: [ScreenNotice.Answer] { all.withLock { $0 } }
    }

    private let waiting = ScreenNotice.waiting(
        session: "s1", name: "phone", Screen.Permissions(control: true, clipboard: true))
    private let active = ScreenNotice.active(session: "s2", name: "desk", Screen.Permissions())

    /// Shows notices; returns the places of the buttons on the screen, in the order of the lines.
    private func show(
        _ notices: [ScreenNotice], _ source: X11Source, _ person: Person, _ answers: Answers
    ) async throws -> [(x: Int16, y: Int16)] {
        #expect(await source.show(notices) { answers.append($0) })
        let layout = try #require(await source.noticeLayout)
        let corner = 800 - Int32(layout.width)
        return layout.buttons.map { button in
            (
                Int16(corner + button.area.x + Int32(button.area.width) / 2),
                Int16(button.area.y + Int32(button.area.height) / 2)
            )
        }
    }

    @Test func `a person's click answers, and says which`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let (person, answers) = (try Person(server), Answers())
        let buttons = try await show([active, waiting], source, person, answers)
        #expect(buttons.count == 3)
        let expected: [ScreenNotice.Answer] = [
            .decided(session: "s1", isLetIn: true), .decided(session: "s1", isLetIn: false),
            .decided(session: "s2", isLetIn: false),
        ]
        for (index, button) in buttons.enumerated() {
            try await eventually {
                try person.click(button.x, button.y)
                return answers.now.last == expected[index]
            }
        }
        await source.close()
    }

    @Test func `a viewer cannot click for a person, by any program`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let (person, answers) = (try Person(server), Answers())
        let buttons = try await show([waiting, active], source, person, answers)
        // Longer than a button has to be seen.
        try await eventually {
            try person.click(buttons[0].x, buttons[0].y)
            return !answers.now.isEmpty
        }
        try await settle(source)
        let before = answers.now
        for button in buttons {
            try await source.perform(.move(x: Int32(button.x), y: Int32(button.y)))
            try await source.perform(.button(.left, isDown: true))
            try await source.perform(.button(.left, isDown: false))
            try await server.run("xdotool", ["mousemove", "\(button.x)", "\(button.y)", "click", "1"])
            // A program that moves the pointer is no person either.
            try await server.run("xdotool", ["mousemove", "5", "5", "mousemove", "\(button.x)", "\(button.y)"])
            try person.press()
            // The pointer was brought there by a viewer: a person who clicks just then means something else.
            try await source.perform(.move(x: Int32(button.x), y: Int32(button.y)))
            try person.press()
            // Down by a person and up by a viewer is nobody's click.
            try person.move(button.x, button.y)
            try person.button(1, isDown: true)
            try await source.perform(.button(.left, isDown: true))
            try await source.perform(.button(.left, isDown: false))
            try person.button(1, isDown: false)
        }
        try await settle(source)
        #expect(answers.now == before)
        await source.close()
    }

    @Test(arguments: [["Control_L", "Alt_L", "Pause"], ["Control_L", "Alt_L", "Shift_L", "q"]])
    func `the panic key ends all, by a person's keyboard alone`(_ keys: [String]) async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let (person, answers) = (try Person(server), Answers())
        _ = try await show([active], source, person, answers)
        for key in keys { try await source.perform(.down(key)) }
        await source.releaseAll()
        try await server.run("xdotool", ["key", keys.joined(separator: "+").replacing("_L", with: "")])
        try await settle(source)
        #expect(answers.now.isEmpty)
        // What a viewer pressed is not kept from the keyboard of others.
        let witness = try Witness(server, of: source)
        try await source.perform(.text("x"))
        #expect(try await witness.characters() == "x")
        try person.strike(keys)
        try await eventually { answers.now == [.panic] }
        // Nobody sees the screen any more: the key is everybody's again.
        #expect(await source.show([]) { answers.append($0) })
        try await settle(source)
        try person.strike(keys)
        try await settle(source)
        #expect(answers.now == [.panic])
        await source.close()
    }

    @Test func `the window is seen in the corner, and goes`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        try await server.run("xsetroot", ["-solid", "#000000"])
        #expect(await source.show([waiting]) { _ in })
        let layout = try #require(await source.noticeLayout)
        let seen = try await pixels(of: source, 800, 600)
        func isBlack(_ x: Int, _ y: Int) -> Bool {
            let start = (y * 800 + x) * 4
            return seen[start..<start + 3].allSatisfy { $0 == 0 }
        }
        #expect(!isBlack(799, 0) && !isBlack(800 - Int(layout.width), Int(layout.height) - 1))
        #expect(isBlack(799 - Int(layout.width), 0) && isBlack(799, Int(layout.height)))
        // Letters, buttons and what is behind them.
        #expect(Set(seen.chunked(4)).count == 4)
        #expect(await source.show([]) { _ in })
        #expect(try await pixels(of: source, 800, 600).chunked(4).allSatisfy { Array($0) == [0, 0, 0, 0xFF] })
        await source.close()
    }

    @Test func `the layout says who, asks those first who wait, and hides nothing`() {
        func layout(_ notices: [ScreenNotice]) -> X11NoticeLayout {
            X11NoticeLayout(notices, characterWidth: 9, ascent: 12, descent: 3, hint: "hint")
        }
        let both = layout([active, waiting])
        #expect(
            both.lines.map(\.text) == [
                "phone asks to see and control this screen, and its clipboard", "desk sees this screen", "hint",
            ])
        #expect(both.buttons.map(\.label) == ["Allow", "Refuse", "End"])
        for (index, button) in both.buttons.enumerated() {
            #expect(both.button(atX: button.area.x, y: button.area.y) == index)
            #expect(both.button(atX: button.area.x + Int32(button.area.width), y: button.area.y) != index)
            #expect(button.area.x + Int32(button.area.width) <= Int32(both.width))
        }
        let name = "a\u{202E}b\n" + String(repeating: "c", count: 900)
        let hostile = layout([.waiting(session: "s", name: name, .init())])
        #expect(hostile.lines[0].text == "ab\(String(repeating: "c", count: 30)) asks to see this screen")
        #expect(layout([.active(session: "s", name: "\u{200B}", .init())]).lines[0].text == "A device sees this screen")
        let many = layout((0..<20).map { .active(session: "\($0)", name: "n\($0)", .init()) })
        #expect(many.lines.count == 9 && many.lines[8].text == "and 12 more. hint")
    }

    @Test func `a line that somebody wrote looks like no notice, and moves no button`() {
        func layout(_ notices: [ScreenNotice]) -> X11NoticeLayout {
            X11NoticeLayout(notices, characterWidth: 8, ascent: 12, descent: 4, hint: String(repeating: "h", count: 42))
        }
        let plain = layout([active])
        let forged = "ok" + String(repeating: ".", count: 30) + " phone controls this screen, and records it 😀e\u{301}"
        let said = layout([active, .said(name: "desk", forged)])
        #expect(said.buttons == plain.buttons && said.width == plain.width)
        let texts = said.lines.map(\.text)
        #expect(texts[1].hasPrefix("desk: “ok...") && texts[2].hasPrefix("    phone controls"), "\(texts)")
        #expect(texts.contains { $0.hasSuffix("□e”") } && texts.dropLast(2).allSatisfy { $0.count <= 42 }, "\(texts)")
        let long = layout([active, .said(name: "desk", String(repeating: "word ", count: 100))])
        #expect(long.lines.count == 8 && long.lines[5].text.hasSuffix("…”"))
    }

    @Test func `a click counts when a person placed the pointer on a button that was seen`() {
        let start = ContinuousClock.now
        func at(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }
        var clicks = X11ClickGuard()
        clicks.show(at: at(0))
        clicks.move(isPerson: true)
        func click(_ time: Int, person: Bool = true, up: Int = 1) -> Int? {
            clicks.press(1, device: 6, isPerson: person, at: at(time))
            return clicks.release(up, device: 6, isPerson: person)
        }
        #expect(click(499) == nil)
        #expect(click(500) == 1)
        #expect(click(600, person: false) == nil)
        #expect(click(600, up: 2) == nil)
        clicks.inject(at: at(700))
        #expect(click(2_000) == nil)
        clicks.move(isPerson: true)
        #expect(click(1_199) == nil)
        #expect(click(1_200) == 1)
        clicks.move(isPerson: false)
        #expect(click(3_000) == nil)
        clicks.move(isPerson: true)
        clicks.press(1, device: 6, isPerson: true, at: at(3_000))
        #expect(clicks.release(1, device: 7, isPerson: true) == nil)
        clicks.press(1, device: 6, isPerson: true, at: at(3_000))
        clicks.show(at: at(3_000))
        #expect(clicks.release(1, device: 6, isPerson: true) == nil)
    }
}

extension X11Source {
    fileprivate var noticeLayout: X11NoticeLayout? { session?.notices.layout }
}
#endif
