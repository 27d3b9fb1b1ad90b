import KithAPI
import KithIO
import KithQUIC
import KithWire
import Synchronization

/// The two bounded buffers between the tasks that use a stream and the event loop that moves it.
///
/// Tasks put bytes in and take bytes out under a lock, without visiting the event loop; the loop is only told
/// that there is something to do. It fills the inbox ahead of the reader, up to a limit that grows while the
/// reader keeps up, and leaves the rest in the engine, where flow control stops the sender.
final class StreamCore: Sendable {
    /// The most bytes kept ahead of a reader.
    static let maxInbox = 1 << 20
    /// A writer waits while more than this is queued.
    static let outboxLimit = 512 << 10
    /// What a call of 64 KiB takes, its header included, goes through in one go.
    ///
    /// A write of at most this is sent at once, if little else is on its way; and this much is kept ahead of a reader that
    /// has not shown yet how fast it is.
    private static let atOnce = 80 << 10
    /// Pieces below this size are joined to the previous one.
    private static let smallPiece = 32 << 10

    let id: StreamID
    let driver: ConnectionDriver
    private let state = Mutex(State())

    private enum InputEnd {
        case finished
        case failed(KithError)
    }

    private struct State {
        // Input.
        var inbox = ChunkQueue()
        var inboxLimit = StreamCore.atOnce
        var inputEnd: InputEnd?
        var reader: Waiter<Void>?
        /// The loop stopped filling because the inbox was full.
        var wantsFill = false
        /// The other end is expected to finish by itself.
        var expectsInputEnd = false
        /// Nobody holds the stream; its end is all that is still to come.
        var awaitsInputEnd = false
        var whenInputFails: (@Sendable (KithError) -> Void)?
        // Output.
        var outbox = ChunkQueue()
        var outputError: KithError?
        var isFinishing = false
        var finishesWithInput = false
        var isFlushed = false
        var writer: Waiter<Void>?
        var flushers: [Promise<Result<Void, KithError>>] = []
        /// Waits for the other end to stop reading.
        var observer: Waiter<Void>?
        var isUndelivered = false
        /// The reason the other end gave for the reset that is to come.
        var explanation: KithError?
        // Orders for the loop.
        var orders = Orders()
        var isScheduled = false
    }

    /// The orders of tasks to the loop, apart from moving bytes.
    struct Orders {
        var reset: UInt64?
        var stopReading: UInt64?
        var priority: UInt8?
    }

    init(id: StreamID, driver: ConnectionDriver) {
        self.id = id
        self.driver = driver
    }

    // MARK: - Tasks' side

    var isUndelivered: Bool { state.withLock { $0.isUndelivered } }

    private enum Taken {
        case bytes([UInt8], refill: Bool)
        case end
        case failed(KithError)
        case wait
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        guard limit > 0 else { throw KithError(.invalid, "A read must ask for at least one byte.") }
        while true {
            let taken = state.withLock { state -> Taken in
                if let bytes = state.inbox.take(upTo: limit) {
                    if state.inbox.isEmpty { state.inboxLimit = min(state.inboxLimit * 2, Self.maxInbox) }
                    let refill = state.wantsFill && state.inbox.count * 2 <= state.inboxLimit
                    guard refill else { return .bytes(bytes, refill: false) }
                    state.wantsFill = false
                    return .bytes(bytes, refill: Self.mark(&state))
                }
                switch state.inputEnd {
                case .finished: return .end
                case .failed(let error): return .failed(error)
                case nil: return .wait
                }
            }
            switch taken {
            case .bytes(let bytes, let refill):
                if refill { driver.schedule(self) }
                return bytes
            case .end: return nil
            case .failed(let error): throw error
            case .wait:
                try Task.checkCancellation()
                await state.wait(in: { $1(&$0.reader) }) { !$0.inbox.isEmpty || $0.inputEnd != nil }
            }
        }
    }

    func write(_ bytes: [UInt8], isLast: Bool = false) async throws {
        guard !bytes.isEmpty else {
            if isLast { try finish() }
            return
        }
        while true {
            let outcome = try state.withLock { state throws(KithError) -> (isQueued: Bool, schedule: Bool) in
                if let error = state.outputError { throw error }
                if state.isFinishing {
                    throw KithError(.invalid, "Writing to a stream after finishing it is not possible.")
                }
                guard state.outbox.count <= Self.outboxLimit else { return (false, false) }
                state.outbox.append(bytes)
                if isLast { state.isFinishing = true }
                return (true, Self.mark(&state))
            }
            if outcome.isQueued {
                if outcome.schedule { driver.schedule(self, isUrgent: bytes.count <= Self.atOnce) }
                return
            }
            try Task.checkCancellation()
            await state.wait(in: { $1(&$0.writer) }) {
                $0.outbox.count <= Self.outboxLimit || $0.outputError != nil
            }
        }
    }

    func finish() throws(KithError) {
        let schedule = try state.withLock { state throws(KithError) in
            if state.isFinishing { return false }
            if let error = state.outputError { throw error }
            state.isFinishing = true
            return Self.mark(&state)
        }
        // Where little is on the way, the end is too: the other end can forget the stream, and no thread is woken for it.
        if schedule { driver.schedule(self, isUrgent: true) }
    }

    func finishWithInput() { state.withLock { $0.finishesWithInput = true } }

    func expectInputEnd() { state.withLock { $0.expectsInputEnd = true } }

    func whenInputFails(_ body: (@Sendable (KithError) -> Void)?) {
        let failure = state.withLock { state -> KithError? in
            if case .failed(let error) = state.inputEnd { return error }
            state.whenInputFails = body
            return nil
        }
        if let failure { body?(failure) }
    }

    func flushed() async throws {
        let promise = Promise<Result<Void, KithError>>()
        let outcome = state.withLock { state -> Result<Void, KithError>? in
            if state.isFlushed { return .success(()) }
            if let error = state.outputError { return .failure(error) }
            guard state.isFinishing else {
                return .failure(KithError(.invalid, "Only a finished stream can be waited for."))
            }
            state.flushers.append(promise)
            return nil
        }
        if let outcome { return try outcome.get() }
        let result = await withTaskCancellationHandler {
            await promise.value()
        } onCancel: {
            promise.fulfil(.failure(KithError(.cancelled, "Waiting for the other device was cancelled.")))
        }
        if case .failure(let error) = result, error.code == .cancelled { try Task.checkCancellation() }
        try result.get()
    }

    /// Waits until the other end has stopped reading, or our direction has ended.
    ///
    /// - Throws: why the stream ended otherwise; `CancellationError`.
    func stopped() async throws {
        while true {
            try Task.checkCancellation()
            let isOver = try state.withLock { state throws -> Bool in
                if let error = state.outputError, !(error.cause is ReadingStopped) { throw error }
                return state.outputError != nil || state.isFlushed
            }
            if isOver { return }
            await state.wait(in: { $1(&$0.observer) }) { $0.outputError != nil || $0.isFlushed }
        }
    }

    func abort(_ code: KithError.Code) {
        order(fail(KithError(code, "It was broken off on this device.")), code)
    }

    /// The directions the other end has to be told of.
    struct Abandoned {
        var input = false
        var output = false
        var isNone: Bool { !input && !output }
    }

    /// Abandons both directions on this end; ``order(_:_:)`` tells the other.
    func fail(_ error: KithError) -> Abandoned {
        let (abandoned, wake) = state.withLock { state -> (Abandoned, Wake) in
            var (abandoned, wake) = (Abandoned(), Wake())
            if state.inputEnd == nil || !state.inbox.isEmpty {
                abandoned.input = state.inputEnd == nil
                state.inbox = ChunkQueue()
                Self.failInput(&state, error, &wake)
            }
            if state.outputError == nil, !state.isFlushed {
                abandoned.output = true
                Self.failOutput(&state, error, &wake)
            }
            return (abandoned, wake)
        }
        wake.run()
        return abandoned
    }

    /// Tells the other end that directions are abandoned.
    func order(_ abandoned: Abandoned, _ code: KithError.Code) {
        if abandoned.isNone { return }
        let schedule = state.withLock { state in
            if abandoned.input { state.orders.stopReading = code.wireCode }
            if abandoned.output { state.orders.reset = code.wireCode }
            return Self.mark(&state)
        }
        if schedule { driver.schedule(self) }
    }

    /// Takes the reason the other end gives for the reset that is to come; only the first counts.
    func explain(_ error: KithError) {
        state.withLock { state in
            if state.explanation == nil { state.explanation = error }
        }
    }

    func stopReading(_ code: KithError.Code) {
        let (schedule, wake) = state.withLock { state -> (Bool, Wake) in
            var wake = Wake()
            guard state.inputEnd == nil else { return (false, wake) }
            state.orders.stopReading = code.wireCode
            state.inbox = ChunkQueue()
            Self.failInput(&state, KithError(code, "Reading was stopped on this device."), &wake)
            return (Self.mark(&state), wake)
        }
        wake.run()
        if schedule { driver.schedule(self) }
    }

    func setPriority(_ urgency: UInt8) {
        let schedule = state.withLock { state in
            state.orders.priority = urgency
            return Self.mark(&state)
        }
        if schedule { driver.schedule(self) }
    }

    /// Abandons what is unfinished, because the stream is not held any more; what was finished still arrives.
    func abandon() {
        let schedule = state.withLock { state in
            var hasOrder = false
            state.whenInputFails = nil
            if state.inputEnd == nil, state.expectsInputEnd, state.isFinishing, state.inbox.isEmpty, !state.wantsFill {
                state.awaitsInputEnd = true
            } else if state.inputEnd == nil {
                state.orders.stopReading = KithError.Code.cancelled.wireCode
                state.inputEnd = .failed(KithError(.cancelled, "It was given up on this device."))
                hasOrder = true
            }
            state.inbox = ChunkQueue()
            if !state.isFinishing, state.outputError == nil {
                state.orders.reset = KithError.Code.cancelled.wireCode
                state.outputError = KithError(.cancelled, "It was given up on this device.")
                state.outbox = ChunkQueue()
                hasOrder = true
            }
            return hasOrder && Self.mark(&state)
        }
        if schedule { driver.schedule(self) }
    }

    // MARK: - The loop's side

    /// Tasks to resume once the lock is let go.
    struct Wake {
        fileprivate var tasks: [Waiter<Void>] = []
        fileprivate var inputFailed: (() -> Void)?
        fileprivate var flushers: [Promise<Result<Void, KithError>>] = []
        fileprivate var result: Result<Void, KithError> = .success(())

        fileprivate func run() {
            inputFailed?()
            for task in tasks { task.resume() }
            for flusher in flushers { flusher.fulfil(result) }
        }
    }

    /// Takes the orders, and notes that the loop has seen them.
    func takeOrders() -> Orders {
        state.withLock { state in
            state.isScheduled = false
            defer { state.orders = Orders() }
            return state.orders
        }
    }

    /// True when nobody holds the stream, and its end is all that is still to come.
    var awaitsInputEnd: Bool { state.withLock { $0.awaitsInputEnd } }

    /// Returns the number of bytes the inbox takes now; 0 makes the reader ask again once it has taken some.
    func roomForInput() -> Int {
        state.withLock { state in
            guard state.inputEnd == nil else { return 0 }
            let room = state.inboxLimit - state.inbox.count
            if room <= 0 { state.wantsFill = true }
            return max(0, room)
        }
    }

    /// Appends what the engine delivered, and the end after it if `isFinished`.
    ///
    /// - Returns: whether there is an end to write now.
    func received(_ bytes: UnsafeRawBufferPointer, isFinished: Bool) -> Bool {
        let (reader, finishes) = state.withLock { state -> (Waiter<Void>?, Bool) in
            guard state.inputEnd == nil else { return (nil, false) }
            unsafe state.inbox.append(copying: bytes, joiningBelow: Self.smallPiece)
            var finishes = false
            if isFinished {
                state.inputEnd = .finished
                state.whenInputFails = nil
                finishes = state.finishesWithInput && !state.isFinishing && state.outputError == nil
                if finishes { state.isFinishing = true }
            }
            defer { state.reader = nil }
            return (state.reader, finishes)
        }
        reader?.resume()
        return finishes
    }

    /// Ends our input with an error of the peer or the connection.
    ///
    /// Bytes that arrived before it can still be read.
    func inputFailed(_ error: KithError) {
        let wake = state.withLock { state in
            var wake = Wake()
            if state.inputEnd == nil { Self.failInput(&state, Self.explained(error, state), &wake) }
            return wake
        }
        wake.run()
    }

    /// Ends our output with an error of the peer or the connection.
    func outputFailed(_ error: KithError) {
        let wake = state.withLock { state in
            var wake = Wake()
            if state.outputError == nil, !state.isFlushed {
                Self.failOutput(&state, Self.explained(error, state), &wake)
            }
            return wake
        }
        wake.run()
    }

    /// Notes that the connection ended because the peer had forgotten it before it saw anything of this stream.
    ///
    /// Comes before the failures of both directions.
    func neverDelivered() { state.withLock { $0.isUndelivered = true } }

    /// The next output for the loop to write.
    enum Output {
        case bytes([UInt8], from: Int)
        case finish
        case none
    }

    func nextOutput() -> Output {
        state.withLock { state in
            guard state.outputError == nil else { return .none }
            if let (chunk, offset) = state.outbox.first { return .bytes(chunk, from: offset) }
            return state.isFinishing ? .finish : .none
        }
    }

    /// Notes that the engine took `count` bytes of what ``nextOutput()`` offered.
    func outputTaken(_ count: Int) {
        let writer = state.withLock { state -> Waiter<Void>? in
            state.outbox.drop(count)
            guard state.outbox.count <= Self.outboxLimit else { return nil }
            defer { state.writer = nil }
            return state.writer
        }
        writer?.resume()
    }

    /// Notes that everything written, and the end, has been acknowledged.
    func outputFlushed() {
        let wake = state.withLock { state in
            state.isFlushed = true
            defer { state.flushers = [] }
            return Wake(tasks: [state.observer.take()].compactMap { $0 }, flushers: state.flushers)
        }
        wake.run()
    }

    /// Marks the stream as having work for the loop; false when the loop knows already.
    private static func mark(_ state: inout State) -> Bool {
        if state.isScheduled { return false }
        state.isScheduled = true
        return true
    }

    /// The other end's own reason, where it gave one for this code.
    private static func explained(_ error: KithError, _ state: borrowing State) -> KithError {
        guard var explanation = state.explanation, explanation.code == error.code else { return error }
        explanation.cause = error.cause
        return explanation
    }

    private static func failInput(_ state: inout State, _ error: KithError, _ wake: inout Wake) {
        state.inputEnd = .failed(error)
        if let reader = state.reader { wake.tasks.append(reader) }
        state.reader = nil
        if let body = state.whenInputFails.take() { wake.inputFailed = { body(error) } }
    }

    private static func failOutput(_ state: inout State, _ error: KithError, _ wake: inout Wake) {
        state.outputError = error
        state.outbox = ChunkQueue()
        for waiter in [state.writer.take(), state.observer.take()] {
            if let waiter { wake.tasks.append(waiter) }
        }
        wake.flushers = state.flushers
        wake.result = .failure(error)
        state.flushers = []
    }
}
