import Foundation
import Glibc
import KithTesting

/// Avahi at one end of a bridged network, on a message bus of its own.
final class Avahi {
    private let bridge: Bridge
    private let end: Int
    private let folder: URL
    private var daemon: Running?
    private var others: [Running] = []

    /// A program, and the one that waits for it.
    private struct Running {
        let parent: Process
        let pid: pid_t

        func end(_ signal: Int32) {
            kill(pid, signal)
            parent.waitUntilExit()
        }
    }

    /// Why there can be none here, or nil.
    static let obstacle: String? = {
        if let obstacle = Bridge.obstacle { return obstacle }
        for program in ["dbus-daemon", "avahi-daemon", "avahi-publish", "avahi-browse"] where !isInstalled(program) {
            return "\(program) is not installed (scripts/bootstrap --test)"
        }
        do {
            let bridge = try Bridge()
            defer { bridge.remove() }
            let avahi = try Avahi(bridge, 0)
            avahi.remove()
            return nil
        } catch {
            return "avahi-daemon does not run here: \(error)"
        }
    }()

    /// Whether there can be one; says so if not.
    static let isPossible: Bool = {
        if let obstacle { print("skipped: \(obstacle)") }
        return obstacle == nil
    }()

    private static func isInstalled(_ program: String) -> Bool {
        ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"].contains {
            FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
        }
    }

    /// Starts both, and waits until they answer.
    init(_ bridge: Bridge, _ end: Int) throws {
        (self.bridge, self.end) = (bridge, end)
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-avahi-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // Everybody may do everything on it: its socket is in a folder of this test's.
        try """
        <busconfig><listen>unix:path=\(socket)</listen><auth>EXTERNAL</auth>
        <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>
        </policy></busconfig>
        """.write(to: folder.appendingPathComponent("bus.conf"), atomically: true, encoding: .utf8)
        try "[server]\nallow-interfaces=eth0\n[publish]\npublish-workstation=no\n"
            .write(to: folder.appendingPathComponent("avahi.conf"), atomically: true, encoding: .utf8)
        do {
            others.append(
                try start(
                    [
                        "dbus-daemon", "--nofork", "--nosyslog", "--config-file=\(folder.path)/bus.conf",
                        "--print-address",
                    ],
                    until: "unix:"))
            try startDaemon()
        } catch {
            remove()
            throw error
        }
    }

    private var socket: String { folder.appendingPathComponent("bus").path }

    /// The address of its bus.
    var address: String { "unix:path=\(socket)" }

    /// The words before a command that talks to this Avahi.
    var environment: [String] { ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(address)"] }

    /// Starts the daemon (again), and waits until it has a name on the network.
    func startDaemon() throws {
        // Its own /run: two of them would take each other for the one that is there already.
        daemon = try start(
            [
                "avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits", "-f", "\(folder.path)/avahi.conf",
            ],
            after: "mount -t tmpfs none /run && mkdir /run/avahi-daemon && ", until: "Server startup complete")
    }

    /// Ends the daemon: without a word, or with a goodbye of all that it offers.
    func killDaemon(_ signal: Int32 = SIGKILL) {
        daemon?.end(signal)
        daemon = nil
    }

    /// Registers a service until the test is over.
    func publish(_ name: String, _ strings: [String]) throws {
        others.append(
            try start(["avahi-publish", "-s", name, "_kith._udp", "4433"] + strings, until: "Established"))
    }

    /// What the tool sees of services, ours by default; resolved, in lines of fields.
    func browse(_ type: String = "_kith._udp") throws -> [[String]] {
        let process = try prepare(["avahi-browse", "-rpt", type])
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return text.split(separator: "\n").filter { $0.hasPrefix("=") }.map { line in
            line.split(separator: ";", omittingEmptySubsequences: false).map(String.init)
        }
    }

    /// Ends everything.
    func remove() {
        for running in [daemon].compactMap(\.self) + others.reversed() { running.end(SIGKILL) }
        (others, daemon) = ([], nil)
        try? FileManager.default.removeItem(at: folder)  // the next boot empties /tmp at the latest
    }

    private func prepare(_ words: [String]) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = bridge.command(at: end, environment + words)
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }

    /// Starts a program, and waits until it has printed that.
    ///
    /// Another one stays in between: the daemon closes all descriptors it was given, and Foundation takes a program that
    /// does so for one that has ended. That one lets all signals through: threads of the task pool block most of them, and
    /// children inherit that.
    private func start(_ words: [String], after first: String = "", until text: String) throws -> Running {
        let between = """
            import ctypes, signal, subprocess, sys
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            with_us = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            child = subprocess.Popen(sys.argv[1:], stderr=subprocess.STDOUT, preexec_fn=with_us)
            print("pid", child.pid, flush=True)
            child.wait()
            """
        let process = try prepare(["python3", "-c", between, "sh", "-c", first + "exec \"$@\"", "sh"] + words)
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        var printed = ""
        // Not on a line of its own where the program writes one piece by piece.
        let number = /pid (\d+)\n/
        while !printed.contains(text) || !printed.contains(number) {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { throw LinkError("\(words[0]) ended before it was ready: \(printed)") }
            printed += String(decoding: more, as: UTF8.self)
        }
        // It goes on printing; nobody's pipe fills.
        output.fileHandleForReading.readabilityHandler = { handle in
            if handle.availableData.isEmpty { handle.readabilityHandler = nil }
        }
        guard let line = printed.firstMatch(of: number), let pid = pid_t(line.1) else {
            process.terminate()
            throw LinkError("\(words[0]) has no number: \(printed)")
        }
        return Running(parent: process, pid: pid)
    }
}
