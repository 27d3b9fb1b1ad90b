import KithAPI
import KithWire
import Synchronization

/// One running shell and the stream its caller holds: carries bytes between them until either ends.
///
///     stream ──frames──▶ receive ──input (at most the window)──▶ feed ──▶ process
///     stream ◀──frames── sink ◀───────────── forward ◀── output, exit ─── process
///
/// The two directions know nothing of each other: however much output waits for a slow caller, a key is passed on.
/// Output is read only after the last of it was handed to the stream, so a flood stays in the process's own pipe.
struct ShellServerSession: Sendable {
    let process: ShellProcess
    let stream: any ByteStream

    /// Runs until the process has ended and the caller was told how.
    ///
    /// Every process of the session has been ended when this throws.
    ///
    /// - Throws: `.closed` and the like when the caller has gone, `.invalid` when it breaks the protocol,
    ///   `CancellationError` when the task is cancelled: a revoked grant, a node that stops.
    func run() async throws {
        let sink = FrameSink(stream)
        do {
            let exit = try await carry(sink)
            try await sink.send(.exited(exit))
            try await sink.finish()
        } catch {
            stream.abort((error as? KithError)?.code ?? .cancelled)
            await process.close(endingAll: true)
            throw error
        }
        await process.close(endingAll: false)
        await drain()
    }

    /// Takes what the caller had already sent, so that a write it is still in the middle of ends.
    private func drain() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    while try await stream.read(upTo: 64 << 10) != nil {}
                } catch {
                    // Whatever happened to the caller, nothing runs for it any more.
                }
            }
            group.addTask { try? await Task.sleep(for: .seconds(5)) }  // ends early only when cancelled
            await group.next()
            group.cancelAll()
        }
    }

    private func carry(_ sink: FrameSink) async throws -> ShellExit {
        let input = InputQueue()
        return try await withThrowingTaskGroup(of: ShellExit?.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await forward(to: sink) }
            group.addTask {
                try await receive(into: input)
                return nil
            }
            group.addTask {
                try await feed(from: input, sink: sink)
                return nil
            }
            while let exit = try await group.next() {
                if let exit { return exit }
            }
            throw CancellationError()
        }
    }

    // MARK: - Out

    /// Carries output until the process has ended and, on pipes, nobody writes any more.
    private func forward(to sink: FrameSink) async throws -> ShellExit {
        var buffer = [UInt8](repeating: 0, count: 32 << 10)
        var sources: [ShellProcess.Source] = process.isTerminal ? [.output] : [.output, .errorOutput]
        var exit: ShellExit?
        while true {
            var isQuiet = true
            for source in sources {
                switch try process.read(source, using: &buffer) {
                case .bytes(let bytes):
                    isQuiet = false
                    try await sink.send(source == .output ? .output(bytes) : .errorOutput(bytes))
                case .nothingYet: break
                case .end: sources.removeAll { $0 == source }
                }
            }
            if exit == nil {
                exit = try process.exit()
                // What it wrote last may have come after the reads above.
                if exit != nil { continue }
            }
            guard isQuiet else { continue }
            if let exit {
                // A terminal may be held open by background processes for ever; what they say now, nobody asked for.
                if process.isTerminal || sources.isEmpty { return exit }
            }
            try await process.wait(for: sources, exit: exit == nil)
        }
    }

    // MARK: - In

    /// Takes frames off the stream.
    ///
    /// Never waits for the process, so a signal always gets through.
    private func receive(into input: InputQueue) async throws {
        defer { input.finish() }
        var decoder = ShellFrameDecoder()
        while let bytes = try await stream.read(upTo: 64 << 10) {
            decoder.append(bytes)
            while let frame = try decoder.next() {
                switch frame {
                case .input(let bytes): try input.append(bytes)
                case .endOfInput: input.finish()
                case .resize(let size): process.resize(size)
                case .signal(let signal): process.signal(signal)
                case .output, .errorOutput, .exited, .taken:
                    throw KithError(.invalid, "The caller sent a frame that only a device sends.")
                }
            }
        }
        throw KithError(.closed, "The caller hung up.")
    }

    /// Writes what has been received to the process, and lets the caller send as much again.
    private func feed(from input: InputQueue, sink: FrameSink) async throws {
        var owed = 0
        for await bytes in input.chunks {
            try await process.write(bytes)
            input.took(bytes.count)
            owed += bytes.count
            // Rarely: typing never causes an answer of its own.
            if owed >= ShellFrame.inputWindow / 8 {
                try await sink.send(.taken(owed))
                owed = 0
            }
        }
        try Task.checkCancellation()
        try await process.endInput()
    }
}

/// Received input the process has not read yet: at most the window, because more than that is a broken caller.
private final class InputQueue: Sendable {
    let chunks: AsyncStream<[UInt8]>
    private let continuation: AsyncStream<[UInt8]>.Continuation
    private let waiting = Mutex(0)

    init() { (chunks, continuation) = AsyncStream.makeStream(of: [UInt8].self) }

    func append(_ bytes: [UInt8]) throws(KithError) {
        let total = waiting.withLock { waiting in
            waiting += bytes.count
            return waiting
        }
        guard total <= ShellFrame.inputWindow else {
            throw KithError(.invalid, "The caller sent more input than it was allowed to.")
        }
        if !bytes.isEmpty { continuation.yield(bytes) }
    }

    func took(_ count: Int) { waiting.withLock { $0 -= count } }

    func finish() { continuation.finish() }
}
