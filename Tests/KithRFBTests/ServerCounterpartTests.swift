import Foundation
import KithRFBCodecs
import KithTesting
import Testing

@testable import KithRFB

private let hasViewer =
    XDisplay.has("xwd", "xdotool", "xclip", package: "x11-apps, xdotool and xclip")
    && XDisplay.has("vncviewer", "Xvfb", package: "tigervnc-viewer and xvfb")

private func hasModule(_ module: String) -> Bool {
    let code = try? ChildProcess("/usr/bin/env", ["python3", "-c", "import \(module)"]).waitUntilExit()
    if code != 0 { print("skipped: the Python package \(module) is not installed") }
    return code == 0
}

private let hasAsyncVNC = hasModule("asyncvnc")
private let hasVNCDoTool = hasModule("vncdotool")

/// Our server and a viewer over a socket.
struct ServerSession: ~Copyable {
    var server: RFBServer
    let socket: LoopbackSocket
    var events: [RFBServer.Event] = []
    var isOpen = true
    /// Where in the display the viewer shows the picture, once that was found.
    var origin: (x: Int, y: Int)?

    init(_ socket: LoopbackSocket?, _ frame: RFBFrameBuffer, password: String? = nil) throws {
        guard let socket else { throw LoopbackSocket.Failure(description: "no viewer called") }
        var options = RFBServer.Options(name: "Kith", password: password.map { Array($0.utf8) })
        options.takesDesktopSize = true
        let screen = try RFBServer(
            options, width: frame.width, height: frame.height,
            challenge: (0..<16).map { _ in UInt8.random(in: 0...255) }, jpeg: TurboJPEG())
        server = screen
        self.socket = socket
    }

    /// Serves for a while, or until an event is there; ends early when the viewer closes.
    mutating func run(
        _ frame: RFBFrameBuffer, for time: Duration, until isDone: (RFBServer.Event) -> Bool = { _ in false }
    ) throws {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end, isOpen {
            while let event = try server.nextEvent(at: .now) {
                events.append(event)
                if isDone(event) { return try socket.send(server.takeOutput()) }
            }
            server.update(from: frame)
            try socket.send(server.takeOutput())
            guard let bytes = socket.receive(within: 10) else {
                isOpen = false
                return
            }
            try server.receive(bytes)
        }
    }

    /// Serves until the viewer's window shows the frame; returns in what it differs at last.
    mutating func settle(_ frame: RFBFrameBuffer, _ display: XDisplay) throws -> String {
        let end = ContinuousClock.now + .seconds(8)
        var difference = ""
        repeat {
            try run(frame, for: .milliseconds(120))
            let screen = try display.picture()
            origin = origin ?? Self.origin(of: frame, on: screen)
            guard let shown = origin.flatMap({ screen.part(frame.bounds.offset(x: $0.x, y: $0.y)) }) else {
                difference = "the picture is nowhere"
                continue
            }
            difference = shown.differences(from: frame)
        } while difference != "" && ContinuousClock.now < end && isOpen
        return difference
    }
}

extension ServerSession {
    /// The place near the corner at which a picture is shown: the toolkit leaves room for a frame that nobody draws.
    static func origin(of frame: RFBFrameBuffer, on screen: RFBFrameBuffer) -> (x: Int, y: Int)? {
        for y in 0...40 {
            for x in 0...40 {
                let samples = (0..<200).allSatisfy { index in
                    let (column, row) = (index * 37 % frame.width, index * 53 % frame.height)
                    guard x + column < screen.width, y + row < screen.height else { return false }
                    return screen[x + column, y + row] == frame[column, row]
                }
                if samples { return (x, y) }
            }
        }
        return nil
    }
}

extension RFBFrameBuffer {
    /// A part as a picture of its own; `nil` when it is not inside.
    func part(_ rectangle: RFBRectangle) -> RFBFrameBuffer? {
        guard bounds.contains(rectangle),
            var result = try? RFBFrameBuffer(
                width: rectangle.width, height: rectangle.height)
        else { return nil }
        var colors: [UInt32] = []
        forEachRow(of: rectangle) { colors.append(contentsOf: $0) }
        result.write(colors, into: result.bounds)
        return result
    }
}

@Suite(.serialized) struct ServerCounterpartTests {
    private func start(_ display: XDisplay, _ port: UInt16, _ folder: TemporaryFolder, _ arguments: [String]) throws {
        try display.start(
            "vncviewer",
            arguments + [
                "-AutoSelect=0", "-RemoteResize=0", "-Shared=1", "-ReconnectOnError=0", "-AlertOnFatalError=0",
                "-geometry", "300x200+0+0", "127.0.0.1::\(port)",
            ])
    }

    @Test(.enabled(if: hasViewer), arguments: ["Tight", "ZRLE", "Raw"])
    func `vncviewer shows our picture exactly`(encoding: String) throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let folder = try TemporaryFolder()
        try folder.write(ClientCounterpartTests.passwordFile("secret"), to: "password")
        let display = try XDisplay("/usr/bin/Xvfb", ["-screen", "0", "400x280x24", "-nolisten", "tcp"])
        let (listener, port) = try LoopbackSocket.listen()
        try start(
            display, port, folder,
            ["-PreferredEncoding=\(encoding)", "-NoJPEG=1", "-PasswordFile", "\(folder.path)/password"])
        var frame = try Pictures.desktop(300, 200, &random)
        var session = try ServerSession(listener.accept(within: 20_000), frame, password: "secret")
        let first = try session.settle(frame, display)
        #expect(first == "", "\(random)")
        session.server.setCursor(
            RFBCursor(width: 8, height: 8, hotX: 1, hotY: 1, pixels: [UInt32](repeating: 0xFF20_4060, count: 64)))
        for step in 0..<3 {
            let target = RFBRectangle(x: 0, y: 20, width: 300, height: 180)
            frame.copy(fromX: 0, y: 0, to: target)
            session.server.moved(to: target, fromX: 0, y: 0)
            let part = Pictures.rectangle(in: frame.bounds, &random)
            Pictures.strokes(in: part, &frame, &random)
            session.server.changed(part)
            let shown = try session.settle(frame, display)
            #expect(shown == "", "step \(step), \(random)")
        }
        let isContinuous = session.server.continuous != nil
        let preferred = session.server.viewer.preferred
        print("vncviewer, \(encoding): exact, encoding \(preferred.rawValue), continuous: \(isContinuous)")
        #expect(preferred == ["Tight": .tight, "ZRLE": .zrle, "Raw": .raw][encoding])
        #expect(isContinuous)
    }

    @Test(.enabled(if: hasViewer))
    func `keys, the pointer, the size and the clipboard work with vncviewer`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let folder = try TemporaryFolder()
        let display = try XDisplay("/usr/bin/Xvfb", ["-screen", "0", "400x280x24", "-nolisten", "tcp"])
        let (listener, port) = try LoopbackSocket.listen()
        try start(display, port, folder, ["-NoJPEG=1"])
        var frame = try Pictures.desktop(300, 200, &random)
        var session = try ServerSession(listener.accept(within: 20_000), frame)
        let first = try session.settle(frame, display)
        #expect(first == "", "\(random)")
        session.events = []
        let origin = session.origin ?? (0, 0)
        try display.run("xdotool", ["mousemove", "\(origin.x + 120)", "\(origin.y + 80)", "mousedown", "1"])
        try session.run(frame, for: .seconds(5)) { $0 == .pointer(x: 120, y: 80, buttons: [.left]) }
        #expect(session.events.last == .pointer(x: 120, y: 80, buttons: [.left]))
        // There is no window manager to give it the keyboard.
        try display.run("xdotool", ["mouseup", "1", "search", "--onlyvisible", "--name", "Kith", "windowfocus"])
        try session.run(frame, for: .milliseconds(200))
        try display.run("xdotool", ["keydown", "a"])
        let isA: (RFBServer.Event) -> Bool = {
            if case .key(0x61, 0x1E?, true) = $0 { true } else { false }
        }
        try session.run(frame, for: .seconds(5), until: isA)
        #expect(session.events.last.map(isA) == true, "\(session.events)")
        try display.run("xdotool", ["keyup", "a"])
        try session.run(frame, for: .milliseconds(300))
        #expect(session.server.releaseInput().isEmpty)

        // Its clipboard, when it is asked for; and ours.
        try folder.write(Array("von dort: ü日".utf8), to: "clip")
        try display.start("xclip", ["-selection", "clipboard", "\(folder.path)/clip"])
        try session.run(frame, for: .seconds(5)) { $0 == .clipboard(.offered([.text])) }
        session.server.requestClipboard([.text])
        let expected = RFBServer.Event.clipboard(.received(RFBClipboard(text: "von dort: ü日")))
        try session.run(frame, for: .seconds(5)) { $0 == expected }
        #expect(session.events.last == expected)
        try session.server.offerClipboard(RFBClipboard(text: "von uns: 日本\nzwei"))
        try session.run(frame, for: .milliseconds(500))
        let paste = try ChildProcess(
            "/usr/bin/env", ["xclip", "-o", "-selection", "clipboard", "-t", "UTF8_STRING"],
            environment: ["DISPLAY": display.name], output: .connected)
        let reader = paste.output
        try session.run(frame, for: .seconds(1))
        #expect(String(decoding: try reader?.readToEnd() ?? Data(), as: UTF8.self) == "von uns: 日本\nzwei")

        frame = try Pictures.desktop(340, 220, &random)
        try session.server.resize(width: 340, height: 220, screens: [])
        let resized = try session.settle(frame, display)
        #expect(resized == "", "\(random)")
    }

    @Test(.enabled(if: hasViewer)) func `vncviewer shows our picture in eight bits and as JPEG`() throws {
        var random = SeededRandom.fromEnvironment()
        let folder = try TemporaryFolder()
        let frame = try Pictures.desktop(300, 200, &random)
        for (arguments, tolerance) in [(["-FullColor=0", "-LowColorLevel=1"], 60), (["-QualityLevel=9"], 40)] {
            let display = try XDisplay("/usr/bin/Xvfb", ["-screen", "0", "400x280x24", "-nolisten", "tcp"])
            let (listener, port) = try LoopbackSocket.listen()
            try start(display, port, folder, arguments + ["-PreferredEncoding=Tight"])
            var session = try ServerSession(listener.accept(within: 20_000), frame)
            var worst = 256
            let end = ContinuousClock.now + .seconds(8)
            while worst > tolerance, ContinuousClock.now < end {
                try session.run(frame, for: .milliseconds(200))
                worst = try Self.worst(frame, display.picture())
            }
            let bits = session.server.viewer.format.bitsPerPixel
            print("vncviewer \(arguments), \(bits) bits: colours differ by at most \(worst)")
            #expect(worst <= tolerance, "\(arguments), \(random)")
        }
    }

    /// The largest difference of a colour, at the place near the corner where the pictures are most alike.
    private static func worst(_ frame: RFBFrameBuffer, _ screen: RFBFrameBuffer) -> Int {
        var best = 256
        for y in 0...40 {
            for x in 0...40 {
                var worst = 0
                for row in stride(from: 0, to: frame.height, by: 5) where worst < best {
                    for column in stride(from: row % 7, to: frame.width, by: 7) where worst < best {
                        let (ours, theirs) = (frame[column, row], screen[x + column, y + row])
                        for shift: UInt32 in [8, 16] {
                            worst = max(worst, abs(Int(ours >> shift & 0xFF) - Int(theirs >> shift & 0xFF)))
                        }
                    }
                }
                best = min(best, worst)
            }
        }
        return best
    }

    // MARK: - Python

    /// Serves until the program ends; returns the events.
    private func serve(
        _ script: String, _ arguments: [String], _ listener: LoopbackSocket, _ frame: RFBFrameBuffer
    ) throws -> [RFBServer.Event] {
        let process = try ChildProcess(
            "/usr/bin/env", ["python3", "-c", script] + arguments, output: .inherited, errors: .inherited)
        var session = try ServerSession(listener.accept(within: 20_000), frame)
        let end = ContinuousClock.now + .seconds(15)
        while process.isRunning, ContinuousClock.now < end {
            try session.run(frame, for: .milliseconds(50))
            if !session.isOpen { break }
        }
        #expect(process.waitUntilExit() == 0)
        return session.events
    }

    private func check(_ bytes: [UInt8], _ frame: RFBFrameBuffer, size: Int) {
        guard bytes.count == frame.width * frame.height * size else {
            Issue.record("a picture of \(bytes.count) bytes")
            return
        }
        for index in 0..<frame.width * frame.height {
            let color = bytes[index * size..<index * size + 3].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            guard color == frame.pixels[index] & 0xFF_FFFF else {
                Issue.record("pixel \(index) is \(String(color, radix: 16))")
                return
            }
        }
    }

    @Test(.enabled(if: hasAsyncVNC)) func `asyncvnc sees our picture, and its keys arrive`() throws {
        var random = SeededRandom.fromEnvironment()
        let folder = try TemporaryFolder()
        let frame = try Pictures.desktop(200, 150, &random)
        let (listener, port) = try LoopbackSocket.listen()
        let events = try serve(
            """
            import asyncio, asyncvnc, sys
            async def main():
                async with asyncvnc.connect('127.0.0.1', int(sys.argv[1])) as client:
                    pixels = await client.screenshot()
                    open(sys.argv[2], 'wb').write(pixels.tobytes())
                    client.mouse.move(20, 30)
                    client.keyboard.press('a')
                    await client.drain()
                    await asyncio.sleep(0.3)
            asyncio.run(main())
            """, ["\(port)", "\(folder.path)/pixels"], listener, frame)
        check(try folder.bytes("pixels"), frame, size: 4)
        #expect(events.contains(.pointer(x: 20, y: 30, buttons: [])))
        #expect(events.contains(.key(keysym: 0x61, code: nil, isDown: true)), "\(events)")
    }

    @Test(.enabled(if: hasVNCDoTool)) func `vncdotool sees our picture, and its keys arrive`() throws {
        var random = SeededRandom.fromEnvironment()
        let folder = try TemporaryFolder()
        let frame = try Pictures.desktop(200, 150, &random)
        let (listener, port) = try LoopbackSocket.listen()
        let events = try serve(
            """
            import sys
            from vncdotool import api
            from PIL import Image
            client = api.connect('127.0.0.1::' + sys.argv[1])
            client.mouseMove(20, 30)
            client.keyPress('a')
            client.captureScreen(sys.argv[2] + '.png')
            open(sys.argv[2], 'wb').write(Image.open(sys.argv[2] + '.png').convert('RGB').tobytes())
            client.disconnect()
            api.shutdown()
            """, ["\(port)", "\(folder.path)/pixels"], listener, frame)
        check(try folder.bytes("pixels"), frame, size: 3)
        #expect(events.contains(.pointer(x: 20, y: 30, buttons: [])))
        #expect(events.contains(.key(keysym: 0x61, code: nil, isDown: true)))
    }
}
