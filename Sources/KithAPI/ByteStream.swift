import KithIO
public import KithWire

/// A bidirectional stream of bytes to one other party: a QUIC stream, a Unix socket, or a pipe in this process.
///
/// Both directions end on their own: ``finish()`` ends ours, a `nil` from ``read(upTo:)`` says theirs has ended.
/// One task may read while another writes; two concurrent readers, or two concurrent writers, are a programming error.
public protocol ByteStream: AnyObject, Sendable {
    /// Waits for bytes and returns at least one and at most `limit` of them, or `nil` after the other end finished.
    ///
    /// Not reading stops the sender: flow control is the stream's own.
    ///
    /// - Throws: `KithError` with the code the other end reset with, or `.closed` when the connection ended.
    ///   `CancellationError` when the calling task is cancelled; no byte is lost then.
    func read(upTo limit: Int) async throws -> [UInt8]?

    /// Writes all of `bytes`, waiting while the other end is slow.
    ///
    /// Returning means the bytes are in this end's bounded send buffer, in order; not that they arrived.
    func write(_ bytes: [UInt8]) async throws

    /// Ends our direction; what was written before still arrives. Calling it again does nothing.
    func finish() async throws

    /// Writes all of `bytes` and ends our direction, together where the stream can: the end needs no packet of its own then.
    ///
    /// Waits and fails as ``write(_:)`` does.
    func finish(writing bytes: [UInt8]) async throws

    /// Abandons both directions at once, telling the other end `code`. Does not wait. Safe to call at any time.
    func abort(_ code: KithError.Code)

    /// Abandons both directions at once, telling the other end why, as far as it can be told: at least the code of `error`.
    ///
    /// Does not wait. Safe to call at any time.
    func fail(_ error: KithError)

    /// Takes no more of the other end's direction, telling it `code`; ours stays open. Does not wait.
    ///
    /// A stream that cannot tell the other end does nothing.
    func stopReading(_ code: KithError.Code)

    /// Waits until the other end takes no more of what is written, though it may still have something to say.
    ///
    /// Returns at once on a stream whose direction has ended; on one that cannot know, waits for the task's cancellation.
    /// One task may wait.
    ///
    /// - Throws: `KithError`: why the stream ended otherwise. `CancellationError` when the calling task is cancelled.
    func stopped() async throws

    /// The executor on which a task that waits for this stream resumes without waking another thread; `nil`: no
    /// particular one.
    ///
    /// For `withTaskExecutorPreference` around work that never blocks and is never long: the thread waits for other streams
    /// as well.
    var executor: (any TaskExecutor)? { get }
}

extension ByteStream {
    /// Writes, then finishes.
    public func finish(writing bytes: [UInt8]) async throws {
        try await write(bytes)
        try await finish()
    }

    /// Nowhere in particular.
    public var executor: (any TaskExecutor)? { nil }

    /// Tells the code alone.
    public func fail(_ error: KithError) { abort(error.code) }

    /// Nothing.
    public func stopReading(_ code: KithError.Code) {}

    /// Waits until the task is cancelled: nobody says more.
    public func stopped() async throws {
        await AsyncEvent().wait()
        try Task.checkCancellation()
    }
}

/// The cause of a failure to write: the other end has said that it reads no more.
///
/// It may still have something to say.
package struct ReadingStopped: Error {
    /// Makes the cause.
    package init() {}
}
