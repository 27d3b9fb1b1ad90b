import Foundation

/// An X server of a test's own, Debian's Xvfb, which ends with it.
package final class XServer: Sendable {
    /// Its name: `:7`.
    package let display: String
    private let process: ChildProcess
    private let windowManager: ChildProcess?

    /// The packages of Debian with what these tests run.
    package static let packages =
        "xvfb openbox xterm xclip xdotool x11-apps x11-utils x11-xserver-utils x11-xkb-utils xkb-data"
    private static let programs = [
        "Xvfb", "openbox", "xterm", "xclip", "xdotool", "xwd", "xlogo", "xrandr", "xsetroot", "setxkbmap", "xprop",
    ]

    /// Whether all of them are there; says so once when not.
    package static let isInstalled: Bool = {
        let missing = programs.filter { !FileManager.default.isExecutableFile(atPath: "/usr/bin/\($0)") }
        if !missing.isEmpty { print("Skipped without \(missing.joined(separator: ", ")): apt-get install \(packages)") }
        return missing.isEmpty
    }()

    /// Starts one with a screen of this size, at a display that is free.
    package convenience init(_ size: String = "800x600x24", isManaged: Bool = false, arguments: [String] = []) throws {
        try self.init(
            "/usr/bin/Xvfb", ["-screen", "0", size, "-nolisten", "tcp", "-noreset"] + arguments, isManaged: isManaged)
    }

    /// Starts `program`, which writes the number of its display where `-displayfd` says.
    package init(_ program: String, _ arguments: [String], isManaged: Bool = false) throws {
        process = try ChildProcess(program, ["-displayfd", "1"] + arguments, output: .connected)
        var line = Data()
        while let more = try process.output?.read(upToCount: 1), more.first != 0x0A {
            guard !more.isEmpty else { break }
            line += more
        }
        display = ":" + String(decoding: line, as: UTF8.self)
        windowManager = try isManaged ? ChildProcess("/usr/bin/openbox", environment: ["DISPLAY": display]) : nil
    }

    /// Waits until the window manager has taken over: it moves the focus when it does.
    package func isManaged() async throws {
        try await eventually {
            let check = try await run("xprop", ["-root", "_NET_SUPPORTING_WM_CHECK"])
            return String(decoding: check, as: UTF8.self).contains("window id")
        }
    }

    /// Ends it as a crash would.
    package func kill() {
        process.kill()
        process.waitUntilExit()
    }

    /// Starts a program on it.
    package func start(
        _ program: String, _ arguments: [String] = [], input: ChildProcess.Stream = .nothing,
        output: ChildProcess.Stream = .nothing
    ) throws -> ChildProcess {
        try ChildProcess(
            "/usr/bin/\(program)", arguments, environment: ["DISPLAY": display, "LC_ALL": "C.UTF-8"], input: input,
            output: output)
    }

    /// Runs a program on it to its end; returns what it printed.
    ///
    /// - Throws: ``Failure`` when it says that it failed.
    @discardableResult package func run(_ program: String, _ arguments: [String] = []) async throws -> [UInt8] {
        let process = try start(program, arguments, output: .connected)
        return try await onThread {
            let output = try process.output?.readToEnd() ?? Data()
            let status = process.waitUntilExit()
            guard status == 0 else { throw Failure(program: program, status: status) }
            return Array(output)
        }
    }

    /// A program that did not end well.
    package struct Failure: Error {
        package let program: String
        package let status: Int32
    }

    deinit { windowManager?.kill() }
}
