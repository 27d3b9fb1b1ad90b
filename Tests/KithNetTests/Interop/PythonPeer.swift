import Foundation
import KithTesting
import Synchronization

/// A Python process of `Tests/Interop` that prints one JSON object per line and runs until its input is closed.
final class PythonPeer: Sendable {
    private let process: Mutex<Process>
    private let input: FileHandle
    private let lines: AsyncStream<String>

    /// Whether `module` can be imported, and if not why the tests that need it are skipped.
    static func isInstalled(_ module: String) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", "import \(module)"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            print("skipped: python3 could not be started: \(error)")
            return false
        }
        process.waitUntilExit()
        if process.terminationStatus != 0 { print("skipped: the Python package \(module) is not installed") }
        return process.terminationStatus == 0
    }

    private init(process: Process, input: FileHandle, lines: AsyncStream<String>) {
        self.process = Mutex(process)
        self.input = input
        self.lines = lines
    }

    /// Runs `script` with `arguments` while `body` runs.
    static func run(
        _ script: String, _ arguments: [String], _ body: (PythonPeer) async throws -> Void
    ) async throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Interop")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-B", folder.appendingPathComponent(script).path] + arguments
        process.currentDirectoryURL = folder
        let (output, input) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardInput = input
        let (lines, feed) = AsyncStream.makeStream(of: String.self)
        let partial = Mutex(Data())
        output.fileHandleForReading.readabilityHandler = { handle in
            let data = handle.availableData
            guard !data.isEmpty else {
                handle.readabilityHandler = nil
                feed.finish()
                return
            }
            let complete = partial.withLock { partial in
                partial += data
                var complete: [String] = []
                while let end = partial.firstIndex(of: 0x0A) {
                    complete.append(String(decoding: partial[..<end], as: UTF8.self))
                    partial = Data(partial[(end + 1)...])
                }
                return complete
            }
            for line in complete { feed.yield(line) }
        }
        try process.run()
        let peer = PythonPeer(process: process, input: input.fileHandleForWriting, lines: lines)
        defer { peer.process.withLock { $0.end() } }
        try await body(peer)
    }

    /// Waits for the next line and reads it.
    func next<Line: Decodable>(_ type: Line.Type) async throws -> Line {
        var iterator = lines.makeAsyncIterator()
        guard let line = await iterator.next() else { throw TestError("the Python peer ended without an answer") }
        return try JSONDecoder().decode(type, from: Data(line.utf8))
    }
}
