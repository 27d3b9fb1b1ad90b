package import KithAPI
import KithIO

/// The sending side of a shell's stream, for several tasks: whole frames, one after the other, first come first served.
package final class FrameSink: Sendable {
    private let stream: any ByteStream
    private let lock = AsyncMutex()
    private let isFinished = Locked(false)

    /// Makes the only writer of `stream`.
    package init(_ stream: any ByteStream) { self.stream = stream }

    /// Sends a frame, waiting while the other end is slow; after ``finish()`` it is dropped.
    package func send(_ frame: ShellFrame) async throws {
        await lock.lock()
        defer { lock.unlock() }
        if isFinished.value { return }
        try await stream.write(frame.encoded)
    }

    /// Ends this direction after what was sent.
    package func finish() async throws {
        await lock.lock()
        defer { lock.unlock() }
        isFinished.set(true)
        try await stream.finish()
    }
}
