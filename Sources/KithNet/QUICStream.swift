public import KithAPI
import KithQUIC
public import KithWire

/// One stream of a connection: bytes both ways, each direction ending on its own.
///
/// Reading and writing do not visit the event loop as long as there are bytes, or room: see `StreamCore`.
/// At most 1 MiB is kept ahead of a reader and 512 KiB plus one write behind a writer; the rest waits at the sender.
/// A stream nobody holds any more and that was not finished is aborted with `.cancelled`.
public final class QUICStream: ByteStream {
    /// The stream's number on its connection (RFC 9000 §2.1).
    public var id: UInt64 { core.id.rawValue }
    /// The connection it belongs to.
    public let connection: Connection
    /// True if the stream failed before the other end saw any of it; a new connection may then ask for it again.
    ///
    /// So it is when the other end answers with a stateless reset (RFC 9000 §10.3), having restarted since the
    /// connection was last used, or its machine says that it runs no more, and nothing was heard from it after the
    /// stream was opened.
    public var isUndelivered: Bool { core.isUndelivered }
    /// Indicates whether the other end opened it before the handshake was complete.
    ///
    /// Its request may be a replay by somebody who listened (RFC 9001 §9.2). For anything
    /// that must not be done twice, wait for ``Connection/handshakeCompleted()`` first.
    public let isEarly: Bool
    private let core: StreamCore

    init(_ core: StreamCore, connection: Connection, isEarly: Bool = false) {
        self.isEarly = isEarly
        self.core = core
        self.connection = connection
    }

    deinit { core.abandon() }

    /// The thread of the endpoint, which reads the network.
    public var executor: (any TaskExecutor)? { core.driver.loop }

    /// Waits for bytes and returns at least one and at most `limit` of them, or `nil` after the other end finished.
    ///
    /// - Throws: `KithError` with the code the other end reset with, or with that of the connection's end.
    ///   `CancellationError` when the calling task is cancelled; no byte is lost then.
    public func read(upTo limit: Int) async throws -> [UInt8]? {
        try await core.read(upTo: limit)
    }

    /// Writes all of `bytes`, waiting while the other end is slow.
    ///
    /// - Throws: `KithError` with the code the other end stopped us with, or with that of the connection's end.
    ///   `CancellationError` when the calling task is cancelled while it waits; nothing of `bytes` is sent then.
    public func write(_ bytes: [UInt8]) async throws {
        try await core.write(bytes)
    }

    /// Writes all of `bytes` and ends our direction, in one packet where both fit.
    ///
    /// - Throws: as ``write(_:)`` does.
    public func finish(writing bytes: [UInt8]) async throws {
        try await core.write(bytes, isLast: true)
    }

    /// Ends our direction; what was written before still arrives.
    ///
    /// Calling it again does nothing.
    public func finish() async throws {
        try core.finish()
    }

    /// Abandons both directions at once, telling the other end `code`.
    public func abort(_ code: KithError.Code) {
        core.abort(code)
    }

    /// Abandons both directions, here at once.
    ///
    /// The other end learns the code; of a stream that it opened, first the whole of `error`, where somebody tells it
    /// (`Connection.explainFailures(by:)`).
    public func fail(_ error: KithError) {
        let abandoned = core.fail(error)
        guard !abandoned.isNone, core.id.isClientInitiated != connection.isDialed, let explain = connection.explainer
        else { return core.order(abandoned, error.code) }
        let core = core
        Task(name: "kith failure") {
            await explain(core.id.rawValue, error)
            core.order(abandoned, error.code)
        }
    }

    /// Stops the other end's direction only, telling it `code`; ours stays open.
    public func stopReading(_ code: KithError.Code) {
        core.stopReading(code)
    }

    /// Waits until the other end has stopped reading (STOP_SENDING, RFC 9000 §3.5), or has everything and the end.
    ///
    /// - Throws: `KithError` with the code of what ended the stream otherwise. `CancellationError` when the calling task is
    ///   cancelled.
    public func stopped() async throws {
        try await core.stopped()
    }

    /// Waits until everything written, and the end, has been acknowledged by the other end's transport.
    ///
    /// - Throws: `KithError` `.invalid` before ``finish()``, or the error that ended the stream first;
    ///   `CancellationError` when the calling task is cancelled.
    public func flushed() async throws {
        try await core.flushed()
    }

    /// Sets the priority when the connection cannot carry everything at once: larger before smaller; 0 by default.
    ///
    /// See ``StreamPriority`` for the values that nodes use. Values beyond ±127 are cut to that.
    public func setPriority(_ priority: Int32) {
        core.setPriority(UInt8(128 - max(-127, min(127, priority))))
    }
}

extension QUICStream {
    /// Says that this stream alone does not keep the connection open where unused ones are closed.
    package func isInBackground() {
        let (driver, id) = (core.driver, core.id)
        driver.loop.execute { driver.isInBackground(id) }
    }
}

extension QUICStream: PrioritizedStream {}

extension QUICStream: CallStream {
    /// Has our direction end after the other one, in a packet that is sent anyway, or 5 ms later.
    package func finishWithInput() { core.finishWithInput() }
    /// Says that the other end finishes its direction by itself.
    package func expectInputEnd() { core.expectInputEnd() }
    /// Has `body` called when the other end breaks its direction off, or the connection ends.
    package func whenInputFails(_ body: (@Sendable (KithError) -> Void)?) { core.whenInputFails(body) }
}

/// The priorities by which a connection decides what goes first when it cannot carry everything at once.
public enum StreamPriority {
    /// Keystrokes and pointer movements.
    public static let input: Int32 = 100
    /// Files, and whatever else is sent as fast as it goes.
    public static let bulk: Int32 = -10
}
