import Foundation

/// A program that runs beside the measurement, and is ended with it.
final class Program {
    private let process = Process()
    private let output = Pipe()

    /// Starts it; what it says on standard error is thrown away.
    init(_ path: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    /// Starts it in a network namespace, if one is named.
    convenience init(_ space: String?, _ path: String, _ arguments: [String]) throws {
        if let space {
            // It becomes the program: the number is that of both.
            try self.init("/usr/bin/nsenter", ["--net=" + space, path] + arguments)
        } else {
            try self.init(path, arguments)
        }
    }

    deinit { end() }

    /// Its number.
    var id: Int32 { process.processIdentifier }

    func end() {
        guard process.isRunning else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// The next line it prints.
    func line() -> String {
        var line = Data()
        while let byte = try? output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty, byte.first != 0x0A {
            line += byte
        }
        return String(decoding: line, as: UTF8.self)
    }

    /// Runs a program to its end; gives what it printed, `nil` when it failed.
    static func output(_ path: String, _ arguments: [String], environment: [String: String] = [:]) throws -> String? {
        let program = try Program(path, arguments, environment: environment)
        let bytes = program.output.fileHandleForReading.readDataToEndOfFile()
        program.process.waitUntilExit()
        return program.process.terminationStatus == 0 ? String(decoding: bytes, as: UTF8.self) : nil
    }

    /// The processor time it has used, in seconds.
    var processorTime: Double {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        else { return 0 }
        // Behind the name: state is the third field, user and system time the 14th and 15th.
        let fields = text[end...].split(separator: " ")
        guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// The most memory it has had, in megabytes.
    var peakMegabytes: Double { megabytes("VmHWM:") }

    /// The memory it has now that is no file's, in megabytes: the system can drop the pages of a program and bring them
    /// back.
    var ownMegabytes: Double { megabytes("RssAnon:") + megabytes("RssShmem:") }

    private func megabytes(_ row: String) -> Double {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix(row) }),
            let kilobytes = line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Double($0) })
        else { return 0 }
        return kilobytes / 1_024
    }
}

/// An X server, and the same windows on each: a terminal that echoes, or one whose text scrolls.
final class Desktop {
    /// Its name: `:7`.
    let display: String
    private let server: Program
    private var terminal: Program?

    /// What a terminal does with what is typed.
    enum Content {
        /// Shows it.
        case echo
        /// Prints the next line of a long text at each Return.
        case scroll
    }

    init(server: Program, display: String) {
        (self.server, self.display) = (server, display)
    }

    /// Starts an X server without a screen to look at.
    static func virtual(_ size: String) throws -> Desktop {
        let server = try Program(
            "/usr/bin/Xvfb", ["-displayfd", "1", "-screen", "0", "\(size)x24", "-nolisten", "tcp"])
        return Desktop(server: server, display: ":" + server.line())
    }

    /// Opens a terminal in place of the one before; it has the focus, as there is no window manager.
    func show(_ content: Content) throws {
        terminal?.end()
        let script =
            switch content {
            case .echo: "exec cat"
            case .scroll:
                """
                text=/usr/share/common-licenses/GPL-3; n=100; head -n $n $text; stty -echo
                while read -r x; do n=$((n+1)); sed -n "${n}p" $text; done
                """
            }
        terminal = try Program(
            "/usr/bin/xterm", ["-geometry", "150x50+0+0", "-e", "sh", "-c", script], environment: ["DISPLAY": display])
        for _ in 0..<200 {
            let found = try Program.output(
                "/usr/bin/xdotool", ["search", "--class", "xterm", "windowfocus"], environment: ["DISPLAY": display])
            if found != nil { break }
            usleep(20_000)
        }
        usleep(700_000)
    }

    func end() {
        terminal?.end()
        server.end()
    }
}
