import Foundation
import Glibc
import Synchronization

/// A process that prints one JSON object per line and ends when its input is closed.
final class Program: Sendable {
    private let process: Mutex<Process>
    private let input: FileHandle
    /// What it prints, line by line, until it closes its output.
    let lines: AsyncStream<String>

    private init(process: Process, input: FileHandle, lines: AsyncStream<String>) {
        self.process = Mutex(process)
        self.input = input
        self.lines = lines
    }

    /// Starts `command`, with nothing to read; what it prints is nobody's business unless there is an output.
    static func start(_ command: [String], output: Pipe? = nil) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output ?? FileHandle.nullDevice
        process.standardError = output ?? FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Whether `command` ends with status 0; what it prints is nobody's business.
    static func succeeds(_ command: [String]) -> Bool {
        do {
            let process = try start(command)
            process.waitUntilExit()
            return process.terminationStatus == 0
        } catch {
            return false
        }
    }

    /// Runs `command` to its end, and gives what it printed.
    ///
    /// - Throws: ``LinkError``, with what it printed, when its status is not 0.
    @discardableResult static func output(of command: [String]) throws -> String {
        let pipe = Pipe()
        let process = try start(command, output: pipe)
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw LinkError("\(command): \(text)") }
        return text
    }

    /// Runs `command` while `body` runs; what a quiet one says of its errors is nobody's business.
    static func run<Result>(
        _ command: [String], isQuiet: Bool = false, _ body: (Program) async throws -> Result
    ) async throws -> Result {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        let (output, input) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardInput = input
        if isQuiet { process.standardError = FileHandle.nullDevice }
        let (lines, feed) = AsyncStream.makeStream(of: String.self)
        try process.run()
        // A thread rather than a readability handler: libdispatch crashes when many come and go at once.
        let reader = output.fileHandleForReading
        Thread.detachNewThread { Self.read(reader, into: feed) }
        let program = Program(process: process, input: input.fileHandleForWriting, lines: lines)
        // Nothing it holds is worth waiting for, and what it started would keep our output open.
        defer { program.kill() }
        return try await body(program)
    }

    private static func read(_ output: FileHandle, into feed: AsyncStream<String>.Continuation) {
        defer { feed.finish() }
        var partial = Data()
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(output.fileDescriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            // An error ends it like the end does.
            guard count > 0 else { return }
            partial += piece[..<count]
            while let end = partial.firstIndex(of: 0x0A) {
                feed.yield(String(decoding: partial[..<end], as: UTF8.self))
                partial = Data(partial[(end + 1)...])
            }
        }
    }

    /// Ends it at once, by SIGKILL.
    func kill() { process.withLock { _ = Glibc.kill($0.processIdentifier, SIGKILL) } }

    /// Sends one line.
    func say(_ line: String) throws {
        try input.write(contentsOf: Data((line + "\n").utf8))
    }

    /// Closes the program's input and waits for it to have closed its output.
    func finish() async throws {
        try input.close()
        for await _ in lines {}
    }

    /// Waits for the next line and reads it.
    func next<Line: Decodable>(_ type: Line.Type = Line.self) async throws -> Line {
        var iterator = lines.makeAsyncIterator()
        guard let line = await iterator.next() else { throw LinkError("the program ended without an answer") }
        do {
            return try JSONDecoder().decode(type, from: Data(line.utf8))
        } catch {
            throw LinkError("the program said: \(line)")
        }
    }
}
