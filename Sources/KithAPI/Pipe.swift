import KithIO
package import KithWire
import Synchronization

/// Two ends of a byte stream inside this process.
///
/// Each end reads what the other writes. Each direction holds at most `capacity` bytes; a writer waits beyond that.
///
/// ```swift
/// let pipe = Pipe()
/// try await pipe.left.write([1, 2, 3])
/// try await pipe.left.finish()
/// while let bytes = try await pipe.right.read(upTo: 4096) { print(bytes) }
/// ```
public struct Pipe: Sendable {
    /// One end.
    public let left: any ByteStream
    /// The other end.
    public let right: any ByteStream

    /// Makes a pipe whose directions hold `capacity` bytes each; at least one.
    public init(capacity: Int = 256 << 10) {
        let toRight = ByteQueue(capacity: capacity)
        let toLeft = ByteQueue(capacity: capacity)
        left = PipeEnd(incoming: toLeft, outgoing: toRight)
        right = PipeEnd(incoming: toRight, outgoing: toLeft)
    }
}

/// One end of a ``Pipe``.
///
/// An end nobody holds any more aborts the other with `.closed` unless both directions ended.
private final class PipeEnd: ByteStream {
    private let incoming: ByteQueue
    private let outgoing: ByteQueue

    init(incoming: ByteQueue, outgoing: ByteQueue) {
        self.incoming = incoming
        self.outgoing = outgoing
    }

    deinit {
        // A finished queue keeps its bytes and its end: what was written before still arrives.
        outgoing.abandonWriting()
        incoming.stop(.closed)
    }

    func read(upTo limit: Int) async throws -> [UInt8]? { try await incoming.read(upTo: limit) }
    func write(_ bytes: [UInt8]) async throws { try await outgoing.write(bytes) }
    func finish() async throws { try outgoing.finish() }

    func stopReading(_ code: KithError.Code) { incoming.stop(code) }
    func stopped() async throws { try await outgoing.stopped() }

    func abort(_ code: KithError.Code) {
        incoming.abort(code)
        outgoing.abort(code)
    }

    func fail(_ error: KithError) {
        incoming.abort(error)
        outgoing.abort(error)
    }
}

/// A bounded first-in-first-out queue of bytes between one writing and one reading task.
package final class ByteQueue: Sendable {
    /// Writes of fewer bytes are put together, where more than a few wait.
    private static let small = 1 << 10
    private static let few = 64

    private struct State {
        var chunks: [[UInt8]] = []
        /// The first chunk still holding unread bytes, and how many of it were read.
        var head = 0
        var offset = 0
        var count = 0
        var isFinished = false
        var aborted: KithError?
        var reader: Waiter<Void>?
        var writer: Waiter<Void>?
        /// Waits for the reader to stop.
        var observer: Waiter<Void>?

        mutating func takeWaiters() -> [Waiter<Void>] {
            defer {
                reader = nil
                writer = nil
                observer = nil
            }
            return [reader, writer, observer].compactMap { $0 }
        }

        mutating func take(upTo limit: Int) -> [UInt8] {
            let chunk = chunks[head]
            let left = chunk.count - offset
            let bytes: [UInt8]
            if left <= limit {
                bytes = offset == 0 ? chunk : Array(chunk[offset...])
                chunks[head] = []
                head += 1
                offset = 0
            } else {
                bytes = Array(chunk[offset..<offset + limit])
                offset += limit
            }
            if head == chunks.count {
                chunks.removeAll(keepingCapacity: true)
                head = 0
            } else if head >= 64, head * 2 >= chunks.count {
                chunks.removeFirst(head)
                head = 0
            }
            count -= bytes.count
            return bytes
        }
    }

    private let capacity: Int
    private let state = Mutex(State())

    /// Makes an empty queue of at most `capacity` bytes, at least one.
    package init(capacity: Int) {
        self.capacity = max(capacity, 1)
    }

    /// Waits for bytes; `nil` at the end.
    ///
    /// Throws what the queue was aborted with, or `CancellationError`.
    package func read(upTo limit: Int) async throws -> [UInt8]? {
        precondition(limit > 0, "read(upTo:) needs room for at least one byte")
        while true {
            try Task.checkCancellation()
            let (bytes, isEnd, wake) = try state.withLock { state throws -> ([UInt8]?, Bool, Waiter<Void>?) in
                if let error = state.aborted { throw error }
                if state.count > 0 {
                    let bytes = state.take(upTo: limit)
                    let writer = state.writer
                    // Half empty before the writer runs again: fewer switches, with more bytes each.
                    guard state.count * 2 <= self.capacity else { return (bytes, false, nil) }
                    state.writer = nil
                    return (bytes, false, writer)
                }
                return (nil, state.isFinished, nil)
            }
            wake?.resume()
            if let bytes { return bytes }
            if isEnd { return nil }
            await state.wait(in: { $1(&$0.reader) }) { $0.count > 0 || $0.isFinished || $0.aborted != nil }
        }
    }

    /// Appends all of `bytes`, waiting while the queue is full.
    package func write(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let (taken, wake) = try state.withLock { state throws -> (Int, Waiter<Void>?) in
                if let error = state.aborted { throw error }
                precondition(!state.isFinished, "a stream was written to after finish()")
                let taken = min(rest.count, self.capacity - state.count)
                guard taken > 0 else { return (0, nil) }
                // An array of its own for each byte would cost fifty.
                if taken < Self.small, state.chunks.count - state.head > Self.few, let last = state.chunks.last,
                    last.count < Self.small
                {
                    state.chunks[state.chunks.count - 1] += rest.prefix(taken)
                } else {
                    state.chunks.append(taken == bytes.count ? bytes : Array(rest.prefix(taken)))
                }
                state.count += taken
                let reader = state.reader
                state.reader = nil
                return (taken, reader)
            }
            wake?.resume()
            rest = rest.dropFirst(taken)
            if !rest.isEmpty {
                await state.wait(in: { $1(&$0.writer) }) { $0.count < self.capacity || $0.aborted != nil }
            }
        }
    }

    /// Ends the queue after what it holds.
    package func finish() throws {
        let wake = try state.withLock { state throws -> [Waiter<Void>] in
            if let error = state.aborted { throw error }
            state.isFinished = true
            return state.takeWaiters()
        }
        for waiter in wake { waiter.resume() }
    }

    /// Waits until the reader takes no more, or the queue was finished.
    ///
    /// - Throws: what the queue was aborted with otherwise, or `CancellationError`.
    func stopped() async throws {
        while true {
            try Task.checkCancellation()
            let isOver = try state.withLock { state throws -> Bool in
                if let error = state.aborted, !(error.cause is ReadingStopped) { throw error }
                return state.aborted != nil || state.isFinished
            }
            if isOver { return }
            await state.wait(in: { $1(&$0.observer) }) { $0.isFinished || $0.aborted != nil }
        }
    }

    /// The reader takes no more: the writer fails with `code` from now on.
    func stop(_ code: KithError.Code) {
        abort(KithError(code, Self.failure(code).message, cause: ReadingStopped()))
    }

    /// Discards what it holds; both sides fail with `code` from now on.
    ///
    /// The first code stays.
    package func abort(_ code: KithError.Code) { abort(Self.failure(code)) }

    /// Discards what it holds; both sides fail with `error` from now on.
    ///
    /// The first error stays.
    func abort(_ error: KithError) {
        let wake = state.withLock { state -> [Waiter<Void>] in
            // A direction that has ended and was read to its end ended well.
            guard state.aborted == nil, !(state.isFinished && state.count == 0) else { return [] }
            state.aborted = error
            state.chunks = []
            state.head = 0
            state.offset = 0
            state.count = 0
            return state.takeWaiters()
        }
        for waiter in wake { waiter.resume() }
    }

    /// Notes that the writer is gone: unless it called ``finish()`` before, the reader fails with `.closed`.
    fileprivate func abandonWriting() {
        let isFinished = state.withLock { $0.isFinished }
        if !isFinished { abort(.closed) }
    }

    private static func failure(_ code: KithError.Code) -> KithError {
        KithError(
            code, code == .closed ? "The other end hung up." : "It was broken off (\(code.rawValue)).")
    }
}
