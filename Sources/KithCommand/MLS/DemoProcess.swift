import ArgumentParser
import Foundation
import KithWire

/// An output line of a member.
struct DemoLine: Codable {
    /// A message that was reported as sent.
    var sent: String?
    /// A message that came, and the event's number.
    var heard: String?
    var number: UInt64?
    /// True when the request is done.
    var isDone: Bool?
    var epoch: UInt64?
    /// A hash of the epoch's exporter secret.
    var exporter: String?
    var error: String?
}

/// A member's process, seen from outside.
final class DemoProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var buffer = Data()

    init(_ name: String, folder: URL) throws {
        guard let program = Bundle.main.executableURL else {
            throw KithError(.internal, "Could not find the path of the kith command itself.")
        }
        process.executableURL = program
        process.arguments = ["mls", "demo-member", name, "--folder", folder.path]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    func write(_ command: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
    }

    /// The next line; nil when the process has ended.
    func read() throws -> DemoLine? {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let line = buffer[buffer.startIndex..<end]
                buffer = Data(buffer[(end + 1)...])
                return try JSONDecoder().decode(DemoLine.self, from: line)
            }
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { return nil }
            buffer += more
        }
    }

    /// Kills the process; gives what it had said that nobody had read.
    func end() -> [DemoLine] {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
        // A line that was cut off is ignored.
        var lines: [DemoLine] = []
        while let line = try? read() { lines.append(line) }
        return lines
    }
}
