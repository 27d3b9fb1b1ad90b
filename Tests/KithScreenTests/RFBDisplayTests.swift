import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithNode
import KithRFB
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// The adapter for VNC viewers and the source that is a VNC server, each against the other: between them are sockets.
@Suite("A screen, by way of the remote framebuffer protocol", .timeLimit(.minutes(4)))
struct RFBDisplayTests {
    @Test("Two viewers see the host's picture, bit for bit, and follow its size")
    func pictures() async throws {
        let stage = try RFBStage()
        try await stage.shown {
            let (first, second) = try await (stage.source(), stage.source("localhost"))
            try await stage.source.scribble(40)
            for source in [first, second] {
                try await eventually { try await colours(of: source) == stage.source.pixels }
            }
            stage.source.resize(width: 211, height: 307)
            for source in [first, second] {
                try await eventually { try await colours(of: source) == stage.source.pixels }
                #expect(try await source.displays[0].bounds == Screen.Rectangle(width: 211, height: 307))
                await source.close()
            }
            try await eventually {
                stage.notices.value.filter { if case .left = $0 { true } else { false } }.count == 2
            }
        }
    }

    @Test("Keys, buttons and the wheel arrive as they were, and nothing stays pressed when a viewer goes")
    func input() async throws {
        let stage = try RFBStage()
        try await stage.shown {
            let source = try await stage.source()
            let inputs: [ScreenInput] = [
                .move(x: 17, y: 33), .button(.left, isDown: true), .move(x: 20, y: 40), .button(.left, isDown: false),
                .button(.forward, isDown: true), .button(.forward, isDown: false), .scroll(x: 0, y: 120),
                .scroll(x: -120, y: 0), .key(.init(symbol: 0x61, code: 30), isDown: true),
                .key(.init(symbol: 0x61, code: 30), isDown: false),
                .key(.init(symbol: 0xFF53, code: 106), isDown: true),
                .key(.init(symbol: 0xFF53, code: 106), isDown: false),
                .key(.init(symbol: 0x100_20AC), isDown: true), .key(.init(symbol: 0x100_20AC), isDown: false),
            ]
            for input in inputs { try await source.perform(input) }
            try await eventually { stage.source.performed.count >= inputs.count }
            #expect(stage.source.performed == inputs)
            try await source.perform(.key(.init(symbol: 0xFFE3, code: 29), isDown: true))
            try await source.perform(.button(.right, isDown: true))
            try await eventually { stage.source.performed.count == inputs.count + 2 }
            // As a program that is killed: nothing is let go first.
            source.breakOff()
            try await eventually { stage.source.performed.count == inputs.count + 4 }
            #expect(
                stage.source.performed.suffix(2) == [
                    .key(.init(symbol: 0xFFE3, code: 29), isDown: false), .button(.right, isDown: false),
                ])
        }
    }

    @Test("A viewer of a session that is for viewing only types nothing, and is not held up by it")
    func viewing() async throws {
        let stage = try RFBStage(wants: .init())
        try await stage.shown {
            let source = try await stage.source()
            for number in 0..<3_000 { try await source.perform(.move(x: Int32(number % 300), y: 1)) }
            stage.source.fill(x: 0, y: 0, width: 100, height: 100) { _, _ in 0xABCDEF }
            try await eventually { try await colours(of: source) == stage.source.pixels }
            #expect(stage.source.performed.isEmpty)
            await source.close()
        }
    }

    @Test(
        "What is copied at either end is pasted at the other, in text and HTML", arguments: ["Grüße, 東京 🎉\nzwei", "x"])
    func clipboard(text: String) async throws {
        let stage = try RFBStage()
        try await stage.shown {
            let source = try await stage.source()
            let html = "<b>\(text)</b>"
            // From the screen to the viewer.
            stage.source.copy([.text: Array(text.utf8), .html: Array(html.utf8)])
            try await eventually { (try? await source.clipboard(.clipboard, as: .text)) == Array(text.utf8) }
            #expect(try await source.clipboard(.clipboard, as: .html) == Array(html.utf8))
            await #expect(throws: KithError.self) { try await source.clipboard(.clipboard, as: .png) }
            await #expect(throws: KithError.self) { try await source.clipboard(.primary, as: .text) }
            // And back.
            try await source.offerClipboard(.clipboard, formats: [.text, .html, .png]) { format in
                Array((format == .text ? text + "!" : html + "!").utf8)
            }
            try await eventually { stage.source.offered.contains(.text) }
            #expect(try await stage.source.paste(.text) == Array((text + "!").utf8))
            #expect(try await stage.source.paste(.html) == Array((html + "!").utf8))
            await source.close()
        }
    }

    @Test("The pointer's shape is sent to those that draw it")
    func pointer() async throws {
        let stage = try RFBStage()
        try await stage.shown {
            let source = try await stage.source()
            // Opaque and clear: the protocol's masks have nothing between.
            let pixels: [UInt8] = (0..<12).flatMap { index -> [UInt8] in
                index % 3 == 0 ? [0, 0, 0, 0] : [UInt8(index * 20), 7, 200, 255]
            }
            let image = CursorImage(width: 4, height: 3, hotX: 1, hotY: 2, pixels: pixels)
            stage.source.change(.cursor(image))
            while true {
                let changes = try await source.nextChanges()
                if changes.contains(.cursor(image)) { break }
            }
            await source.close()
        }
    }

    @Test("Wrong passwords begin a pause, in which the right one is of no use either")
    func passwords() async throws {
        let stage = try RFBStage()
        try await stage.shown {
            for _ in 0..<RFBAdmission.patience {
                let error = await #expect(throws: KithError.self) { try await stage.source(password: "wrong") }
                #expect(error?.code == .denied && error?.message.contains("The password is wrong.") == true, "\(error)")
            }
            try await eventually { stage.notices.value.count == RFBAdmission.patience + 1 }
            let error = await #expect(throws: KithError.self) { try await stage.source() }
            #expect(error?.message.contains("Too many wrong passwords") == true, "\(error)")
        }
    }

    @Test(
        "Only so many viewers are let in at once, and those that do not prove themselves do not keep out the others for ever"
    )
    func many() async throws {
        let stage = try RFBStage()
        try await stage.shown {
            let reactor = try Reactor(name: "test")
            var silent: [RFBCaller] = []
            for _ in 0..<RFBAdmission.limit {
                let caller = try await RFBCaller(stage.port, on: reactor)
                #expect(try await caller.read(12) == Array("RFB 003.008\n".utf8))
                silent.append(caller)
            }
            let error = await #expect(throws: KithError.self) { try await stage.source() }
            #expect(error?.message.contains("Too many viewers") == true, "\(error)")
            silent = []
            try await eventually {
                guard let source = try? await stage.source() else { return false }
                await source.close()
                return true
            }
        }
    }

    @Test("At a Unix socket a viewer of this user needs no password, and the socket is nobody else's")
    func unixSocket() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/laptop.sock"
        let stage = try RFBStage(at: .socket(path: path))
        try await stage.shown {
            var status = stat()
            #expect(lstat(path, &status) == 0 && status.st_mode & 0o077 == 0)
            let descriptor = kith_stream_connect_path(path)
            let socket = try StreamSocket(owning: descriptor, on: Reactor(name: "test"))
            try await socket.write(Array("RFB 003.008\n\u{1}\u{1}".utf8))
            var bytes: [UInt8] = []
            // Version, one kind of security (none), its result, and the screen's size.
            while bytes.count < 22, let more = try await socket.read(upTo: 22 - bytes.count) { bytes += more }
            #expect(bytes == Array("RFB 003.008\n".utf8) + [1, 1, 0, 0, 0, 0, 1, 64, 0, 200])
        }
    }

    @Test("A screen that goes away is told of, and the next session opens another one")
    func gone() async throws {
        let stage = try RFBStage()
        let source = try await stage.shown { try await stage.source() }
        // The viewer's task was cancelled: the adapter is gone.
        await #expect(throws: KithError.self) { while true { _ = try await source.nextChanges() } }
        let error = await #expect(throws: KithError.self) { try await source.displays }
        #expect(error?.code == .unreachable)
        await #expect(throws: KithError.self) { try await source.perform(.move(x: 1, y: 1)) }
        await source.close()
    }
}
