#if Screen && os(Linux) && canImport(CXCB)
import Foundation
import KithAPI
import KithTesting
import KithWindow
import KithWire
import Testing

@testable import KithRFB
@testable import KithScreen

/// True when all of these programs are there; says which is not.
private func has(_ programs: String..., package: String) -> Bool {
    let missing = programs.filter { !FileManager.default.isExecutableFile(atPath: "/usr/bin/\($0)") }
    if !missing.isEmpty { print("Skipped without \(missing.joined(separator: ", ")): apt-get install \(package)") }
    return missing.isEmpty
}

private let hasXtigervnc = XServer.isInstalled && has("Xtigervnc", package: "tigervnc-standalone-server")
private let hasX11vnc = XServer.isInstalled && has("x11vnc", package: "x11vnc")
private let hasViewer = XServer.isInstalled && has("vncviewer", package: "tigervnc-viewer")
private let hasWayvnc = has("sway", "foot", "wayvnc", package: "sway foot wayvnc")

/// A port that was free a moment ago.
private func freePort() throws -> UInt16 {
    let display = try RFBDisplay(at: .loopback(port: 0, password: [1]), name: "") { _ in }
    guard case .address(let address)? = display.endpoints.first else { return 0 }
    return address.port
}

/// The VNC servers and the viewer that people have.
@Suite(.serialized, .timeLimit(.minutes(4))) struct RFBCounterpartTests {
    /// Opens a server that may not be there yet.
    private func open(_ text: String) async throws -> RFBSource {
        var source: RFBSource?
        try await eventually(within: .seconds(30)) {
            source = try? await RFBSource.open(RFBAddress(parsing: text))  // not yet
            return source != nil
        }
        return try #require(source)
    }

    /// What a server's screen shows, by `xwd`: 0xFFRRGGBB.
    private func picture(_ server: XServer) async throws -> [UInt32] {
        let picture = try await XWDPicture(server.run("xwd", ["-root", "-silent"]))
        return picture.pixels.chunked(4).map { $0.reversed().reduce(0) { $0 << 8 | UInt32($1) } }
    }

    private func type(_ text: String, on source: RFBSource) async throws {
        for scalar in text.unicodeScalars {
            let symbol = KeyNames.symbol(of: scalar)
            try await source.perform(.key(.init(symbol: symbol), isDown: true))
            try await source.perform(.key(.init(symbol: symbol), isDown: false))
        }
    }

    private func content(_ folder: TemporaryFolder, _ name: String) -> String {
        (try? String(contentsOfFile: folder.path + "/" + name, encoding: .utf8)) ?? ""
    }

    /// A screen of an X server by its VNC server: exact, and what is typed arrives.
    private func check(_ source: RFBSource, _ server: XServer, _ folder: TemporaryFolder) async throws {
        let logo = try server.start("xlogo", ["-geometry", "200x150+390+300", "-fg", "#c0392b", "-bg", "#16a085"])
        let terminal = try server.start(
            "xterm", ["-geometry", "50x12+0+0", "-e", "cat > \(folder.path)/typed"])
        defer { for program in [logo, terminal] { program.kill() } }
        try await eventually {
            let shown = try await picture(server)
            guard Set(shown).count > 3 else { return false }
            return try await colours(of: source) == shown
        }
        try await eventually {
            // The window may not have the keyboard yet: without a window manager the pointer's has it.
            try await source.perform(.move(x: 40, y: 40))
            try await type("x\n", on: source)
            return content(folder, "typed").contains("x")
        }
        try await type("Hello, 42!\n", on: source)
        try await eventually { content(folder, "typed").hasSuffix("Hello, 42!\n") }
        try await eventually { try await colours(of: source) == picture(server) }
    }

    @Test(.enabled(if: hasXtigervnc))
    func `the screen of Xtigervnc is exact, is typed into, and exchanges its clipboard`() async throws {
        let (folder, port) = (try TemporaryFolder(), try freePort())
        let server = try XServer(
            "/usr/bin/Xtigervnc",
            [
                "-geometry", "640x480", "-depth", "24", "-rfbport", "\(port)", "-localhost", "-SecurityTypes", "None",
                "-AlwaysShared",
            ])
        let source = try await open("vnc://localhost:\(port)")
        try await check(source, server, folder)
        // Both ways, in UTF-8.
        let text = "Grüße, 東京 🎉"
        try folder.write(Array(text.utf8), to: "content")
        let owner = try server.start("xclip", ["-quiet", "-selection", "clipboard", "-i", "\(folder.path)/content"])
        try await eventually {
            (try? await source.clipboard(.clipboard, as: .text)).map { String(decoding: $0, as: UTF8.self) } == text
        }
        owner.kill()
        try await source.offerClipboard(.clipboard, formats: [.text]) { _ in Array("zurück ✓".utf8) }
        try await eventually {
            let pasted = try? await server.run("xclip", ["-selection", "clipboard", "-o"])
            return pasted.map { String(decoding: $0, as: UTF8.self) } == "zurück ✓"
        }
        // Another size while it runs.
        try await server.run("xrandr", ["-s", "800x600"])
        try await eventually {
            guard try await source.displays[0].bounds == Screen.Rectangle(width: 800, height: 600) else { return false }
            return try await colours(of: source) == picture(server)
        }
        server.kill()
        await #expect(throws: KithError.self) { while true { _ = try await source.nextChanges() } }
        #expect(await outcome { _ = try await source.displays } == .unreachable)
        await source.close()
    }

    @Test(.enabled(if: hasX11vnc))
    func `the screen of x11vnc is exact and is typed into`() async throws {
        let (folder, port) = (try TemporaryFolder(), try freePort())
        let server = try XServer("640x480x24")
        let vnc = try server.start(
            "x11vnc",
            [
                "-display", server.display, "-rfbport", "\(port)", "-localhost", "-forever", "-shared", "-nopw",
                "-quiet",
                "-noxdamage", "-nocursor", "-nowf", "-noscr",
            ])
        defer { vnc.kill() }
        let source = try await open("vnc://127.0.0.1:\(port)")
        try await check(source, server, folder)
        await source.close()
    }

    @Test(.enabled(if: hasWayvnc))
    func `the screen of a Wayland compositor, by wayvnc, is seen and typed into`() async throws {
        let (folder, port) = (try TemporaryFolder(), try freePort())
        let compositor = try await Compositor(folder, port)
        defer { compositor.end() }
        let source = try await open("vnc://127.0.0.1:\(port)")
        #expect(try await source.displays[0].bounds == Screen.Rectangle(width: 640, height: 480))
        // The background of the terminal, which covers all but its text.
        try await eventually {
            let seen = try await colours(of: source)
            return seen.filter { $0 == 0xFF20_3040 }.count > 200_000 && Set(seen).count > 1
        }
        try await source.perform(.move(x: 300, y: 300))
        try await type("hello\n", on: source)
        try await eventually { content(folder, "typed").contains("hello\n") }
        await source.close()
    }

    @Test(.enabled(if: hasViewer))
    func `TigerVNC's viewer shows the screen exactly, types, turns the wheel and pastes`() async throws {
        let stage = try RFBStage(width: 300, height: 200)
        let folder = try TemporaryFolder()
        let window = try XServer("500x400x24")
        // As `vncpasswd -f` writes it: DES with a key that is public (TigerVNC, `d3des`).
        let key: [UInt8] = [0x17, 0x52, 0x6B, 0x06, 0x23, 0x4E, 0x58, 0x07]
        try folder.write(DES.response(to: Array(RFBStage.password.utf8), password: key), to: "password")
        try await stage.shown {
            var random = SeededRandom.fromEnvironment()
            for _ in 0..<12 {
                let colour = UInt32.random(in: 0...0xFF_FFFF, using: &random)
                stage.source.fill(
                    x: Int.random(in: 0..<250, using: &random), y: Int.random(in: 0..<150, using: &random), width: 50,
                    height: 40
                ) { x, y in colour &* UInt32(x / 5 + 1) &+ UInt32(y) & 0xFF_FFFF }
            }
            let viewer = try window.start(
                "vncviewer",
                [
                    "-passwd", "\(folder.path)/password", "-AutoSelect=0", "-PreferredEncoding=Tight",
                    "-QualityLevel=7",
                    "-RemoteResize=0", "-ReconnectOnError=0", "-AlertOnFatalError=0", "-geometry", "300x200+0+0",
                    "127.0.0.1::\(stage.port)",
                ])
            defer { viewer.kill() }
            // Its JPEG is replaced by what is exact as soon as the picture rests.
            var corner: (x: Int, y: Int)?
            try await eventually(within: .seconds(60)) {
                corner = try await place(of: stage.source.pixels, 300, 200, on: picture(window), 500, 400)
                return corner != nil
            }
            let (x, y) = try #require(corner)
            try await window.run("xdotool", ["mousemove", "\(x + 40)", "\(y + 30)", "click", "1", "click", "4"])
            // There is no window manager to give it the keyboard.
            try await window.run("xdotool", ["search", "--onlyvisible", "--name", "laptop", "windowfocus"])
            try await window.run("xdotool", ["type", "--delay", "5", "aB1"])
            try await eventually {
                stage.source.performed.filter { if case .key = $0 { true } else { false } }.count >= 6
            }
            let performed = stage.source.performed
            #expect(performed.contains(.move(x: 40, y: 30)))
            #expect(performed.contains(.button(.left, isDown: true)) && performed.contains(.scroll(x: 0, y: -120)))
            let typed = performed.compactMap { input -> UInt32? in
                guard case .key(let key, isDown: true) = input, key.symbol < 0xFF00 else { return nil }
                return key.symbol
            }
            #expect(typed == [0x61, 0x42, 0x31])
            #expect(performed.contains(.key(.init(symbol: 0x61, code: 30), isDown: true)), "\(performed)")
            // Both clipboards.
            stage.source.copy([.text: Array("vom Schirm ✓".utf8)])
            try await eventually {
                let pasted = try? await window.run("xclip", ["-selection", "clipboard", "-o"])
                return pasted.map { String(decoding: $0, as: UTF8.self) } == "vom Schirm ✓"
            }
            try folder.write(Array("zum Schirm 🎉".utf8), to: "content")
            let owner = try window.start(
                "xclip", ["-quiet", "-selection", "clipboard", "-i", "\(folder.path)/content"])
            defer { owner.kill() }
            try await eventually {
                // The viewer looks when it is given the keyboard.
                try await window.run("xdotool", ["mousemove", "450", "380", "mousemove", "\(x + 50)", "\(y + 50)"])
                return (try? await stage.source.paste(.text)).map { String(decoding: $0, as: UTF8.self) }
                    == "zum Schirm 🎉"
            }
            stage.source.resize(width: 260, height: 180)
            try await eventually(within: .seconds(60)) {
                try await place(of: stage.source.pixels, 260, 180, on: picture(window), 500, 400) != nil
            }
        }
    }

    /// The place near the corner at which a picture is shown; `nil` when it is not there.
    private func place(
        of pixels: [UInt32], _ width: Int, _ height: Int, on screen: [UInt32], _ columns: Int, _ rows: Int
    ) -> (x: Int, y: Int)? {
        for y in 0...60 {
            for x in 0...60 where x + width <= columns && y + height <= rows && screen[y * columns + x] == pixels[0] {
                // All but what the pointer covers, which is somewhere else.
                let isThere = (0..<height).allSatisfy { line in
                    screen[(y + line) * columns + x..<(y + line) * columns + x + width].elementsEqual(
                        pixels[line * width..<(line + 1) * width])
                }
                if isThere { return (x, y) }
            }
        }
        return nil
    }
}

/// A Wayland compositor without a screen of its own, with a terminal on it and wayvnc: 640×480.
///
/// Neither runs as root: they are another user's then.
private final class Compositor {
    private var programs: [ChildProcess] = []

    init(_ folder: TemporaryFolder, _ port: UInt16) async throws {
        let configuration = """
            output HEADLESS-1 mode 640x480 position 0 0
            seat seat0 fallback true
            default_border none
            exec foot -o colors.background=203040 sh -c 'echo hello; exec cat > \(folder.path)/typed'
            """
        try folder.write(Array(configuration.utf8), to: "sway")
        let isRoot = geteuid() == 0
        if isRoot { for path in [folder.path, folder.path + "/sway"] { #expect(chown(path, 65_534, 65_534) == 0) } }
        let environment = [
            "HOME": folder.path, "XDG_RUNTIME_DIR": folder.path, "WLR_BACKENDS": "headless",
            "WLR_LIBINPUT_NO_DEVICES": "1", "WLR_RENDERER": "pixman", "WAYLAND_DISPLAY": "",
        ]
        func start(_ arguments: [String], _ more: [String: String] = [:]) throws -> ChildProcess {
            try ChildProcess(
                "/usr/bin/env",
                (isRoot ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : []) + arguments,
                environment: environment.merging(more) { $1 }, output: .nothing)
        }
        programs.append(try start(["sway", "-c", folder.path + "/sway"]))
        func socket() throws -> String? {
            try FileManager.default.contentsOfDirectory(atPath: folder.path).first {
                $0.hasPrefix("wayland-") && !$0.hasSuffix(".lock")
            }
        }
        try await eventually { try socket() != nil }
        programs.append(
            try start(["wayvnc", "127.0.0.1", "\(port)"], ["WAYLAND_DISPLAY": try socket() ?? "wayland-1"]))
    }

    deinit { end() }

    func end() {
        for program in programs.reversed() { program.kill() }
        programs = []
    }
}
#endif
