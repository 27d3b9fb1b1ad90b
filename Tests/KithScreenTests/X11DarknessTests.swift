#if Screen && os(Linux) && canImport(CXCB)
import CKithSystem
import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithScreen

private let hasDummy: Bool = {
    let missing = ["/usr/bin/Xorg", "/usr/lib/xorg/modules/drivers/dummy_drv.so"].filter {
        !FileManager.default.fileExists(atPath: $0)
    }
    if !missing.isEmpty {
        let packages = "xserver-xorg-core xserver-xorg-video-dummy"
        print("Skipped without \(missing.joined(separator: ", ")): apt-get install \(packages)")
    } else if geteuid() != 0 {
        print("Skipped: Xorg takes a configuration of a test's own from root alone.")
    }
    guard missing.isEmpty, geteuid() == 0, XServer.isInstalled else { return false }
    // A machine may have no terminal to give it.
    let folder = try? TemporaryFolder()
    let server = folder.flatMap { try? xorg($0) }
    server?.kill()
    let starts = server.map { $0.display != ":" } ?? false
    if !starts { print("Skipped: Xorg does not start here.") }
    return starts
}()

/// Starts Xorg with a monitor that is none.
private func xorg(_ folder: TemporaryFolder) throws -> XServer {
    let configuration = """
        Section "Device"
          Identifier "card"
          Driver "dummy"
        EndSection
        Section "Screen"
          Identifier "screen"
          Device "card"
          DefaultDepth 24
          SubSection "Display"
            Depth 24
            Modes "1024x768"
          EndSubSection
        EndSection
        """
    try folder.write(Array(configuration.utf8), to: "xorg.conf")
    return try XServer(
        "/usr/bin/Xorg",
        [
            "-config", folder.path + "/xorg.conf", "-logfile", folder.path + "/log", "-noreset", "-nolisten", "tcp",
            "-novtswitch", "-sharevts",
        ])
}

/// A screen that is dark for whoever is in front of it, on Xorg with a monitor that is none: it has the tables of one.
@Suite(.enabled(if: hasDummy), .serialized, .timeLimit(.minutes(4))) struct X11DarknessTests {
    private static let program = builtProgram("kith-dark")

    /// What `xrandr` says of the monitor's light.
    private func light(_ server: XServer) async throws -> [Substring] {
        String(decoding: try await server.run("xrandr", ["--verbose"]), as: UTF8.self).split(separator: "\n")
            .filter { $0.contains("Gamma:") || $0.contains("Brightness:") }
    }

    private func isDark(_ server: XServer) async throws -> Bool {
        try await light(server).contains { $0.contains("Brightness: 0.0") }
    }

    @Test func `it is dark there, is seen as ever, and has its colours of before again`() async throws {
        let folder = try TemporaryFolder()
        let server = try xorg(folder)
        try await server.run("xsetroot", ["-solid", "#16a085"])
        try await server.run("xrandr", ["--output", "DUMMY0", "--gamma", "0.8:0.9:1.0"])
        let before = try await light(server)
        let source = try await X11Source.open(display: server.display, darkness: Self.program)
        try await source.setDark(true)
        #expect(try await isDark(server))
        #expect(Set(try await colours(of: source)) == [0xFF16_A085])
        // Again, as other programs set it.
        try await server.run("xrandr", ["--output", "DUMMY0", "--gamma", "1.0:0.7:0.7"])
        try await eventually { try await isDark(server) }
        try await source.setDark(false)
        #expect(try await light(server) == before)
        try await source.setDark(true)
        await source.close()
        #expect(try await light(server) == before)
        server.kill()
    }

    @Test func `when the process that darkened it is gone, it is lit`() async throws {
        let folder = try TemporaryFolder()
        let server = try xorg(folder)
        let before = try await light(server)
        let environment = (Array("DISPLAY=\(server.display)".utf8) + [0]).map { CChar(bitPattern: $0) }
        var (socket, process): (Int32, Int32) = (-1, -1)
        #expect(kith_helper_start_with(Self.program, environment, environment.count, &socket, &process) == 0)
        try await eventually { try await isDark(server) }
        // What is left of a process that is killed: closed files, and a helper that is somebody else's child.
        kith_socket_close(socket)
        try await eventually { try await light(server) == before }
        _ = kith_helper_end(process)
        server.kill()
    }

    @Test(arguments: [SIGKILL, SIGSTOP])
    func `when the program that darkened it is killed or stands still, it is dark and lit all the same`(
        signal: Int32
    ) async throws {
        let folder = try TemporaryFolder()
        let server = try xorg(folder)
        let source = try await X11Source.open(display: server.display, darkness: Self.program)
        try await source.setDark(true)
        let first = try await program(server)
        #expect(kill(first, signal) == 0)
        if signal == SIGKILL { try await eventually { try await program(server) != first } }
        #expect(try await isDark(server))
        // Meanwhile it is seen as ever.
        async let lit: Void = source.setDark(false)
        #expect(try await colours(of: source).count == 1_024 * 768)
        try await lit
        try await eventually { try await !isDark(server) }
        await source.close()
        server.kill()
    }

    /// The number of the `kith-dark` on a server that was not killed.
    private func program(_ server: XServer) async throws -> pid_t {
        var found: pid_t = 0
        try await eventually {
            for entry in try FileManager.default.contentsOfDirectory(atPath: "/proc") {
                // Most are no processes, or end meanwhile.
                guard let number = pid_t(entry),
                    let environment = try? Data(contentsOf: URL(fileURLWithPath: "/proc/\(entry)/environ")),
                    let words = try? Data(contentsOf: URL(fileURLWithPath: "/proc/\(entry)/cmdline")),
                    String(decoding: words, as: UTF8.self).contains("/kith-dark"),
                    String(decoding: environment, as: UTF8.self).hasPrefix("DISPLAY=\(server.display)\0")
                else { continue }
                found = number
                return true
            }
            return false
        }
        return found
    }

    @Test func `the program does nothing for a person who starts it`() throws {
        let process = try ChildProcess(Self.program, ["--help"], errors: .connected)
        #expect(process.waitUntilExit() == 64)
        let text = String(decoding: try process.errors?.readToEnd() ?? Data(), as: UTF8.self)
        #expect(text.contains("kith, which starts it"))
    }

    @Test func `without the program, and without a server, it says why not`() async throws {
        let server = try XServer()
        let source = try await X11Source.open(display: server.display)
        let missing = await #expect(throws: KithError.self) { try await source.setDark(true) }
        #expect(missing?.code == .unsupported && missing?.message.contains("kith-dark") == true)
        await source.close()
        // The display of a server that has ended is soon that of the next.
        let unreachable = await #expect(throws: KithError.self) {
            try await X11Darkness(Self.program, display: ":59000")
        }
        #expect(unreachable?.code == .unsupported)
    }
}
#endif
