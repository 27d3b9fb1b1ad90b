import Foundation
import KithRFBCodecs
import KithTesting
import Testing

@testable import KithRFB

private let hasTools = XDisplay.has("xwd", "xwud", "xterm", "xclip", package: "x11-apps, xterm and xclip")
private let hasTigerVNC = hasTools && XDisplay.has("Xtigervnc", package: "tigervnc-standalone-server")
private let hasX11VNC = hasTools && XDisplay.has("x11vnc", "Xvfb", package: "x11vnc and xvfb")

/// Our client and a server over a socket.
struct ClientSession: ~Copyable {
    var client: RFBClient
    let socket: LoopbackSocket
    var events: [RFBClient.Event] = []

    /// Connects, and returns once the picture's size is known.
    static func open(_ port: UInt16, _ options: RFBClient.Options) throws -> ClientSession {
        var session = try ClientSession(port: port, options)
        try session.run(for: .seconds(10)) { if case .connected = $0 { true } else { false } }
        return session
    }

    private init(port: UInt16, _ options: RFBClient.Options) throws {
        let end = ContinuousClock.now + .seconds(20)
        var connected: LoopbackSocket?
        while connected == nil, ContinuousClock.now < end {
            connected = try LoopbackSocket.connect(port)
            // Real time: a program starts.
            if connected == nil { usleep(20_000) }
        }
        guard let connected else { throw LoopbackSocket.Failure(description: "nobody listens on \(port)") }
        let viewer = try RFBClient(options, jpeg: TurboJPEG())
        client = viewer
        socket = connected
    }

    /// Reads for a while, or until an event is there.
    mutating func run(for time: Duration, until isDone: (RFBClient.Event) -> Bool = { _ in false }) throws {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end {
            while let event = try client.nextEvent() {
                events.append(event)
                if isDone(event) { return try socket.send(client.takeOutput()) }
            }
            try socket.send(client.takeOutput())
            guard let bytes = socket.receive(within: 20) else {
                throw LoopbackSocket.Failure(description: "the server closed the connection")
            }
            try client.receive(bytes)
        }
    }

    /// Reads until the picture is what the display shows; returns in what it differs at last.
    mutating func settle(_ display: XDisplay, within time: Duration = .seconds(6)) throws -> String {
        // While the pointer is not where we put it, a server may draw it into the picture.
        client.sendPointer(x: 100, y: 100, buttons: [])
        let end = ContinuousClock.now + time
        var difference = ""
        repeat {
            try run(for: .milliseconds(150))
            difference = client.frameBuffer.differences(from: try display.picture())
        } while difference != "" && ContinuousClock.now < end
        return difference
    }
}

@Suite(.serialized) struct ClientCounterpartTests {
    static let encodings: [RFBEncoding] = [.raw, .rre, .hextile, .zrle, .tight]

    private func options(_ encoding: RFBEncoding) -> RFBClient.Options {
        var options = RFBClient.Options()
        options.encodings = encoding == .raw ? [.raw] : [encoding, .copyRect]
        return options
    }

    @Test(.enabled(if: hasTigerVNC))
    func `the picture of Xtigervnc is exact in every encoding, with and without a password`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let folder = try TemporaryFolder()
        let port = try LoopbackSocket.freePort()
        // The file holds the password encrypted with the key that all of VNC knows.
        try folder.write(Self.passwordFile("secret"), to: "password")
        let display = try XDisplay(
            "/usr/bin/Xtigervnc",
            [
                "-geometry", "640x480", "-depth", "24", "-rfbport", "\(port)", "-localhost", "-SecurityTypes",
                "VncAuth",
                "-PasswordFile", "\(folder.path)/password", "-AlwaysShared",
            ])
        try display.show(try Pictures.desktop(640, 480, &random), in: folder)
        try display.start("xterm", ["-geometry", "60x20+40+60", "-e", "ls -l /usr/bin | head -60; sleep 600"])
        for encoding in Self.encodings {
            var options = options(encoding)
            options.password = Array("secret".utf8)
            var session = try ClientSession.open(port, options)
            let difference = try session.settle(display)
            #expect(difference == "", "encoding \(encoding.rawValue), \(random)")
            let part = try Pictures.desktop(640, 480, &random)
            try display.show(part, in: folder)
            let second = try session.settle(display)
            #expect(second == "", "encoding \(encoding.rawValue) after a change, \(random)")
            print("Xtigervnc, encoding \(encoding.rawValue): exact")
            let isContinuous = session.client.isContinuous
            #expect(isContinuous)
        }
        var wrong = RFBClient.Options()
        wrong.password = Array("guess".utf8)
        #expect(throws: RFBError.self) { _ = try ClientSession.open(port, wrong) }
    }

    @Test(.enabled(if: hasTigerVNC))
    func `keys, the size, the clipboard and scrolling work with Xtigervnc`() throws {
        let folder = try TemporaryFolder()
        let port = try LoopbackSocket.freePort()
        let display = try XDisplay(
            "/usr/bin/Xtigervnc",
            [
                "-geometry", "640x480", "-depth", "24", "-rfbport", "\(port)", "-localhost", "-SecurityTypes", "None",
                "-AcceptSetDesktopSize",
            ])
        try display.start("xterm", ["-geometry", "80x24+0+0", "-e", "cat > \(folder.path)/typed"])
        var session = try ClientSession.open(port, .init())
        let first = try session.settle(display)
        #expect(first == "")
        let takes = (session.client.takesKeyCodes, session.client.takesDesktopSize, session.client.takesFences)
        #expect(takes.0 && takes.1 && takes.2)
        // The window under the pointer, where it is now, has the keyboard: there is no window manager. It is there once
        // the program in it runs.
        let start = ContinuousClock.now + .seconds(10)
        while try !folder.files().contains("typed"), ContinuousClock.now < start {
            try session.run(for: .milliseconds(50))
        }
        try session.run(for: .milliseconds(200))
        for _ in 0..<30 {
            for key in Array("hallo\r".utf8) {
                let keysym: UInt32 = key == 13 ? 0xFF0D : UInt32(key)
                session.client.sendKey(keysym, isDown: true)
                session.client.sendKey(keysym, isDown: false)
            }
            try session.run(for: .milliseconds(20))
        }
        let expectedText = String(repeating: "hallo\n", count: 30)
        var typed = ""
        let end = ContinuousClock.now + .seconds(10)
        repeat {
            try session.run(for: .milliseconds(50))
            typed = String(decoding: try folder.bytes("typed"), as: UTF8.self)
        } while typed != expectedText && ContinuousClock.now < end
        #expect(typed == expectedText)
        let scrolled = try session.settle(display)
        #expect(scrolled == "")

        session.client.requestDesktopSize(
            width: 800, height: 500,
            screens: [
                RFBScreen(id: session.client.screens.first?.id ?? 0, frame: .init(x: 0, y: 0, width: 800, height: 500))
            ])
        try session.run(for: .seconds(5)) {
            guard case .resized(_, .done?) = $0 else { return false }
            return true
        }
        let size = session.client.frameBuffer.bounds
        #expect(size == RFBRectangle(x: 0, y: 0, width: 800, height: 500))
        let resized = try session.settle(display)
        #expect(resized == "")

        // Both ways, with characters that Latin-1 has not.
        try session.client.offerClipboard(RFBClipboard(text: "von uns: 日本\nzwei"))
        try session.run(for: .milliseconds(500))
        let paste = try ChildProcess(
            "/usr/bin/env", ["xclip", "-o", "-selection", "clipboard", "-t", "UTF8_STRING"],
            environment: ["DISPLAY": display.name], output: .connected)
        let reader = paste.output
        // It waits for us to be asked.
        try session.run(for: .seconds(1))
        let pasted = String(decoding: try reader?.readToEnd() ?? Data(), as: UTF8.self)
        #expect(pasted == "von uns: 日本\nzwei")
        try folder.write(Array("von dort: ü日".utf8), to: "clip")
        try display.start("xclip", ["-selection", "clipboard", "\(folder.path)/clip"])
        try session.run(for: .seconds(5)) { $0 == .clipboard(.offered([.text])) }
        session.client.requestClipboard([.text])
        let expected = RFBClient.Event.clipboard(.received(RFBClipboard(text: "von dort: ü日")))
        try session.run(for: .seconds(5)) { $0 == expected }
        #expect(session.events.last == expected)
    }

    @Test(.enabled(if: hasX11VNC))
    func `the picture of x11vnc is exact in every encoding`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let folder = try TemporaryFolder()
        let port = try LoopbackSocket.freePort()
        let display = try XDisplay("/usr/bin/Xvfb", ["-screen", "0", "500x400x24", "-nolisten", "tcp"])
        try display.show(try Pictures.desktop(500, 400, &random), in: folder)
        try display.start(
            "x11vnc",
            [
                "-display", display.name, "-rfbport", "\(port)", "-localhost", "-forever", "-shared", "-nopw",
                "-noipv6",
                "-nocursorpos", "-noxdamage", "-wait", "10", "-defer", "10",
            ])
        for encoding in Self.encodings {
            var session = try ClientSession.open(port, options(encoding))
            let difference = try session.settle(display)
            #expect(difference == "", "encoding \(encoding.rawValue), \(random)")
            print("x11vnc, encoding \(encoding.rawValue): exact")
        }
        // With a quality asked for, pictures come as JPEG: nearly the same, and not exactly.
        var lossy = options(.tight)
        lossy.quality = 9
        var session = try ClientSession.open(port, lossy)
        try session.run(for: .seconds(10)) { if case .updated = $0 { true } else { false } }
        try session.run(for: .milliseconds(500))
        let (ours, theirs) = (session.client.frameBuffer, try display.picture())
        var worst = 0
        for y in 0..<400 {
            for x in 0..<500 { worst = max(worst, abs(Int(ours[x, y] & 0xFF00) - Int(theirs[x, y] & 0xFF00)) >> 8) }
        }
        print("x11vnc, Tight with JPEG: green differs by at most \(worst)")
        #expect(worst < 64)
    }

    /// A password file as `vncpasswd -f` writes it: DES with a key that is public (TigerVNC, `d3des`).
    static func passwordFile(_ password: String) -> [UInt8] {
        // The key 17526b06234e5807 with the bits of each byte reversed, as challenges have it.
        let key: [UInt8] = [0x17, 0x52, 0x6B, 0x06, 0x23, 0x4E, 0x58, 0x07]
        let plain = (Array(password.utf8.prefix(8)) + [UInt8](repeating: 0, count: 8)).prefix(8)
        return DES.response(to: Array(plain), password: key)
    }
}
