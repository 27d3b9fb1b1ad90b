import Foundation
import KithTesting
import Testing

/// A terminal of a person's: a tmux server of its own, 80 by 24.
final class Tmux: Sendable {
    private let socket = "kith-\(UUID().uuidString.prefix(8))"

    /// Runs `kith` of a machine in it.
    convenience init(_ machine: Machine, _ arguments: [String]) throws {
        let words = ([Machine.program.path] + arguments).map { "'\($0)'" }.joined(separator: " ")
        try self.init(line: "env KITH_DATA='\(machine.data)' \(words); sleep 100")
    }

    /// Runs a line of a shell in it.
    init(line: String) throws { try run("-u", "new-session", "-d", "-x", "80", "-y", "24", line) }

    func type(_ line: String) throws {
        try run("send-keys", "-l", "--", line)
        try run("send-keys", "Enter")
    }

    func press(_ keys: String...) throws { for key in keys { try run("send-keys", key) } }

    /// Sends characters, without an Enter.
    func send(_ text: String) throws { try run("send-keys", "-l", "--", text) }

    /// Gives the window another size.
    func resize(columns: Int, rows: Int) throws { try run("resize-window", "-x", "\(columns)", "-y", "\(rows)") }

    /// The text on the screen.
    func screen() throws -> String { try run("capture-pane", "-p") }

    /// The value of a format of tmux, as `#{alternate_on}`.
    func value(_ format: String) throws -> String {
        try run("display-message", "-p", format).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Waits until the screen shows a text, wherever its lines are broken.
    func show(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let letters = text.filter { !$0.isWhitespace }
        var screen = ""
        do {
            try await eventually(within: .seconds(60)) {
                screen = try self.screen()
                let words = screen.split(whereSeparator: \.isWhitespace).joined(separator: " ")
                // A terminal breaks a line in the middle of a word.
                return screen.contains(text) || words.contains(text) || words.filter { $0 != " " }.contains(letters)
            }
        } catch let error as NotInTime {
            Issue.record(
                error, "the screen does not show \(text.debugDescription):\n\(screen)", sourceLocation: sourceLocation)
        }
    }

    /// Ends what runs in it, as a closed window does.
    ///
    /// Not kill-server: that is a SIGTERM, which a test's process and all it starts may have blocked.
    func end() { _ = try? Self.run(socket, ["kill-session"]) }  // one that ended already is fine

    @discardableResult
    private func run(_ arguments: String...) throws -> String { try Self.run(socket, arguments) }

    /// Runs a command of the tmux server at `socket`; gives what `capture-pane` and `display-message` print.
    @discardableResult
    static func run(_ socket: some StringProtocol, _ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        // Foundation takes a process for running as long as anybody holds a descriptor it was given, as the server.
        let program =
            "for f in /dev/fd/*; do n=${f##*/}; (( n > 2 )) && eval \"exec $n>&-\"; done; exec tmux \"$@\""
        process.arguments = ["-c", program, "tmux", "-L", String(socket), "-f", "/dev/null"] + arguments
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        guard ["capture-pane", "display-message"].contains(arguments.first) else {
            // The server would keep a pipe open.
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            return ""
        }
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self)
    }
}
