import KithIO
public import KithIdentity
import KithQUIC
public import KithWire
import NIOCore
import Synchronization

/// An encrypted connection to one other device, both ends proven by their keys.
///
/// It lives until either end closes it, the other end falls silent, or the ``Endpoint`` shuts down;
/// holding it, or letting it go, changes nothing.
public final class Connection: Sendable {
    /// The identity of the other end, as proven by the handshake.
    @nonexhaustive
    public enum Peer: Hashable, Sendable {
        /// A device.
        case device(DeviceID)
        /// A foreign peer with these certificates (DER, leaf first); empty when it presented none.
        case certificates([[UInt8]])
    }

    private struct State {
        var reason: CloseReason?
        var waiters: [Promise<CloseReason>] = []
        var isRetired = false
        var isComplete = false
        var completionWaiters: [Promise<Bool>] = []
        var explainer: Explainer?
    }

    /// Tells the other end why its stream of that number fails; returns when it has, or cannot.
    package typealias Explainer = @Sendable (_ stream: UInt64, _ error: KithError) async -> Void

    /// The identity of the other end.
    public let peer: Peer
    /// Unique among the connections of this process, for logs and tables.
    public let id: UInt64
    /// Indicates whether this end dialed.
    public let isDialed: Bool
    /// The application protocol both ends agreed on.
    public let negotiatedALPN: String
    let driver: ConnectionDriver
    let established: Timestamp
    private let paths = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let incoming: BoundedQueue<QUICStream>
    let incomingDatagrams = AsyncStream.makeStream(of: [UInt8].self, bufferingPolicy: .bufferingNewest(256))
    private let state = Mutex(State())

    private static let lastID = Atomic<UInt64>(0)

    init(driver: ConnectionDriver, peer: Peer, isDialed: Bool, alpn: String, streamLimit: Int) {
        self.driver = driver
        self.peer = peer
        self.isDialed = isDialed
        negotiatedALPN = alpn
        id = Self.lastID.wrappingAdd(1, ordering: .relaxed).newValue
        established = .now()
        incoming = BoundedQueue(capacity: max(1, streamLimit))
    }

    /// The other device, unless it is a foreign peer.
    public var peerID: DeviceID? {
        if case .device(let id) = peer { id } else { nil }
    }

    /// The address of the other end when the connection began; nil when it began through a relay.
    public var firstAddress: NetworkAddress? { RelayedAddresses.outside(driver.dialed) }

    /// Lifts the limits of a device that was admitted as ``Endpoint/Admission/limited``.
    public func liftLimits() {
        let driver = self.driver
        driver.loop.execute { driver.liftLimits() }
    }

    /// Checks each second whether the other end is still there, or only every ``Endpoint/Options/keepAlive``.
    ///
    /// For the time in which a person waits for the other end, and nothing is sent.
    public func watch(closely: Bool) {
        let driver = self.driver
        driver.loop.execute { driver.watch(closely: closely) }
    }

    /// Tells `body`, on the endpoint's thread, how long something sent has waited for a sign of the other end, from which
    /// nothing has come since; zero while nothing waits.
    package func silence(_ body: @escaping @Sendable (Duration) -> Void) {
        let driver = self.driver
        driver.loop.execute { body(driver.silence) }
    }

    /// Indicates whether streams can still be opened.
    public var isOpen: Bool { state.withLock { $0.reason == nil } }

    /// True once the handshake is complete; before, only early data is carried, see ``handshakeCompleted()``.
    public var isHandshakeComplete: Bool { state.withLock { $0.isComplete } }

    /// Waits until both ends have proven themselves anew; false when the connection, or the task, ended before.
    ///
    /// Most connections are handed out then only, and this returns at once. ``Endpoint/connectEarly(to:at:timeout:)``
    /// returns one that resumes a session: until this returns, an eavesdropper can replay what is sent on it.
    public func handshakeCompleted() async -> Bool {
        let promise = Promise<Bool>()
        state.withLock { state in
            if state.isComplete || state.reason != nil {
                promise.fulfil(state.isComplete)
            } else {
                state.completionWaiters.removeAll { $0.isFulfilled }
                state.completionWaiters.append(promise)
            }
        }
        return await withTaskCancellationHandler {
            await promise.value()
        } onCancel: {
            promise.fulfil(false)
        }
    }

    /// Has the other end told why a stream of its own fails, before it is reset.
    package func explainFailures(by explainer: @escaping Explainer) { state.withLock { $0.explainer = explainer } }

    var explainer: Explainer? { state.withLock { $0.explainer } }

    /// Takes the reason the other end gives for the reset of a stream of ours that is to come.
    package func explain(_ stream: UInt64, _ error: KithError) {
        let driver = self.driver
        driver.loop.execute { driver.explain(StreamID(rawValue: stream), error) }
    }

    /// Opens a bidirectional stream, waiting while the other end's limit is reached.
    ///
    /// The other end learns of it with the first byte, or the end, written.
    ///
    /// - Throws: `KithError` with the code of the connection's end, or `.cancelled`.
    public func openStream() async throws(KithError) -> QUICStream {
        let cancelled = KithError(.cancelled, "It was cancelled.")
        if Task.isCancelled { throw cancelled }
        if let stream = openStreamNow() { return stream }
        let driver = self.driver
        let promise = Promise<Result<QUICStream, KithError>>()
        let result = await withTaskCancellationHandler {
            driver.loop.execute { driver.open(promise) }
            return await promise.value()
        } onCancel: {
            promise.fulfil(.failure(cancelled))
        }
        return try result.get()
    }

    /// Opens a stream, unless that has to be waited for.
    package func openStreamNow() -> QUICStream? { driver.openNow() }

    /// The thread of the endpoint, which reads the network: for tasks that take streams and never block.
    public var executor: any TaskExecutor { driver.loop }

    /// The streams the other end opens, in order, until the connection ends.
    ///
    /// One consumer. At most ``Endpoint/Options/maxIncomingStreams`` can be open, so at most that many wait here.
    public var incomingStreams: IncomingStreams { IncomingStreams(queue: incoming) }

    /// Closes the connection at once; the streams of both ends fail with the reason.
    ///
    /// Calling it again does nothing.
    public func close(code: KithError.Code = .closed, reason: String = "") {
        let driver = self.driver
        driver.loop.execute { driver.close(code: code, reason: reason) }
    }

    /// Lets no new stream begin, waits until the open ones are done or `deadline` has passed, then closes.
    ///
    /// Cancelling the task closes at once.
    public func drain(deadline: Duration) async {
        let done = Promise<Void>()
        let driver = self.driver
        let timer = driver.loop.scheduleTask(in: .nanoseconds(max(0, deadline.clampedNanoseconds))) {
            _ = done.fulfil(())
        }
        await withTaskCancellationHandler {
            driver.loop.execute { driver.drain(done) }
            await done.value()
        } onCancel: {
            done.fulfil(())
        }
        timer.cancel()
        close()
        _ = await closed()
    }

    /// Waits for the end of the connection and says why.
    ///
    /// Any number of tasks may wait. When the task is cancelled, it returns at once with a reason of code `.cancelled`.
    public func closed() async -> CloseReason {
        let promise = Promise<CloseReason>()
        let known = state.withLock { state in
            if state.reason == nil {
                state.waiters.removeAll { $0.isFulfilled }
                state.waiters.append(promise)
            }
            return state.reason
        }
        if let known { return known }
        return await withTaskCancellationHandler {
            await promise.value()
        } onCancel: {
            promise.fulfil(
                CloseReason(origin: .local, code: .cancelled, message: "Waiting for the connection was cancelled."))
        }
    }

    /// Returns the statistics of the connection and its path so far.
    public func statistics() async -> ConnectionStatistics {
        let promise = Promise<ConnectionStatistics>()
        let driver = self.driver
        let established = self.established
        driver.loop.execute { promise.fulfil(driver.statistics(since: established)) }
        return await promise.value()
    }

    /// Yields when another address of the other device has been validated: see ``statistics()``.
    ///
    /// One consumer; what happens while it is busy is one piece of news. Ends with the connection.
    public var pathChanges: AsyncStream<Void> { paths.stream }

    /// Derives `count` bytes that only the two ends of this connection can know (RFC 8446 §7.5); the same at both.
    ///
    /// - Throws: `KithError` `.closed` when the connection's secrets are gone.
    public func exportKeyingMaterial(label: String, context: [UInt8], count: Int) async throws(KithError) -> [UInt8] {
        let promise = Promise<[UInt8]?>()
        let driver = self.driver
        driver.loop.execute {
            promise.fulfil(driver.engine.exportKeyingMaterial(label: label, context: context, count: count))
        }
        guard let bytes = await promise.value() else {
            throw KithError(.closed, "The connection is over: nothing can be derived from its keys.")
        }
        return bytes
    }

    /// The streams the other end opens.
    public struct IncomingStreams: AsyncSequence, Sendable {
        fileprivate let queue: BoundedQueue<QUICStream>

        /// Starts, or continues, taking streams.
        public func makeAsyncIterator() -> Iterator { Iterator(queue: queue) }

        /// Takes one stream after the other.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let queue: BoundedQueue<QUICStream>

            /// Waits for the next stream; `nil` when the connection has ended or the task is cancelled.
            public mutating func next() async -> QUICStream? { await queue.next() }

            /// Waits for the next stream; `nil` when the connection has ended or the task is cancelled.
            public mutating func next(isolation actor: isolated (any Actor)?) async -> QUICStream? {
                await queue.next()
            }
        }
    }

    // MARK: - The loop's side

    /// Queues a stream the other end opened; false when there is no room, or the connection is over.
    func offer(_ stream: QUICStream) -> Bool { incoming.offered(stream) }

    /// Notes that a path has been validated, or another one is in use.
    func pathsChanged() { paths.continuation.yield() }

    /// Queues a datagram from the other end.
    func received(_ datagram: [UInt8]) { incomingDatagrams.continuation.yield(datagram) }

    /// The handshake is complete.
    func completed() {
        let waiters = state.withLock { state in
            if state.reason == nil { state.isComplete = true }
            defer { state.completionWaiters = [] }
            return state.completionWaiters
        }
        for waiter in waiters { waiter.fulfil(isHandshakeComplete) }
    }

    /// Notes that it is over: no stream can be opened any more.
    func ending(_ reason: CloseReason) {
        let waiters = state.withLock { state in
            state.reason = reason
            defer { state.completionWaiters = [] }
            return state.completionWaiters
        }
        for waiter in waiters { waiter.fulfil(false) }
    }

    /// Notes that it and its streams are over, and wakes the tasks that wait for that.
    func ended(_ reason: CloseReason) {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.fulfil(reason) }
        paths.continuation.finish()
        incomingDatagrams.continuation.finish()
        incoming.finish()
        _ = incoming.removeAll()
    }
}

extension Duration {
    /// The duration in nanoseconds, as far as 64 bits reach.
    var clampedNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let (sum, carry) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return carry ? (seconds < 0 ? .min : .max) : sum
    }
}
