internal import Foundation
internal import KithWire
internal import Synchronization

/// A Python process of `Tests/Interop` that prints one JSON object per line and runs until its input is closed.
public final class PythonPeer: Sendable {
    private let input: FileHandle
    private let lines: AsyncStream<String>

    /// Whether `module` can be imported, and if not why the tests that need it are skipped.
    public static func isInstalled(_ module: String) -> Bool {
        do {
            let process = try ChildProcess("/usr/bin/env", ["python3", "-c", "import \(module)"])
            let isThere = process.waitUntilExit() == 0
            if !isThere { print("skipped: the Python package \(module) is not installed") }
            return isThere
        } catch {
            print("skipped: python3 could not be started: \(error)")
            return false
        }
    }

    private init(input: FileHandle, lines: AsyncStream<String>) {
        self.input = input
        self.lines = lines
    }

    /// Runs `script` with `arguments` while `body` runs.
    public static func run(
        _ script: String, _ arguments: [String], _ body: (PythonPeer) async throws -> Void
    ) async throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Tests/Interop")
        let process = try ChildProcess(
            "/usr/bin/env", ["python3", "-B", folder.appendingPathComponent(script).path] + arguments,
            input: .connected, output: .connected, errors: .inherited)
        defer { process.kill() }
        guard let input = process.input, let output = process.output else { preconditionFailure("both are connected") }
        let (lines, feed) = AsyncStream.makeStream(of: String.self)
        let partial = Mutex(Data())
        output.readabilityHandler = { handle in
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
        try await body(PythonPeer(input: input, lines: lines))
    }

    /// Writes a line to its input.
    public func send(_ line: String) {
        // When it has ended, the next line that is waited for says so.
        try? input.write(contentsOf: Data((line + "\n").utf8))
    }

    /// Waits for the next line and reads it.
    public func next<Line: Decodable>(_ type: Line.Type) async throws -> Line {
        var iterator = lines.makeAsyncIterator()
        guard let line = await iterator.next() else {
            throw KithError(.closed, "The Python peer ended without an answer.")
        }
        return try JSONDecoder().decode(type, from: Data(line.utf8))
    }
}
