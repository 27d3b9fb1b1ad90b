import KithAPI
import KithIO
import KithIdentity
import KithStore
import KithWire
import Logging
import Synchronization

/// The events that are kept on disk until the devices they are for have acknowledged them.
///
/// One is for every paired device that holds the grant of its topic when it is published. It is sent when that device
/// follows and wants the topic, and again after a connection was lost, until it is acknowledged: it may come twice, with the same
/// number. One that was sent ten times, or has waited a day, becomes an event of `$dead/TOPIC`.
final class Outbox: Sendable {
    /// The most times a delivery is sent.
    static let tries = 10
    /// The time after which a delivery is given up.
    static let lifetime = Duration.seconds(86_400)
    /// The time for which a dead letter is retained.
    static let deadRetention = Duration.seconds(7 * 86_400)
    /// The most deliveries to one device that wait for its acknowledgement.
    static let window = 64

    private let store: Store
    private let own: DeviceID
    private let logger: Logger
    private let signals = Mutex<[UInt64: @Sendable () -> Void]>([:])
    private let lastSignal = Atomic<UInt64>(0)

    init(_ store: Store, own: DeviceID, logger: Logger) {
        self.store = store
        self.own = own
        self.logger = logger
    }

    /// The paired devices that may have events of a topic.
    func devices(for topic: TopicPath) throws(KithError) -> [DeviceID] {
        try store.devices().filter { $0.grants.allows(.node(pattern: topic.grantName)) }.map(\.id)
    }

    /// Keeps an event for its devices; returns when it is on the disk.
    func add(_ event: Events.Event, for devices: [DeviceID]) throws(KithError) {
        try store.addToOutbox(
            OutboxEvent(
                topic: event.topic, message: event.message.bytes, epoch: event.epoch, sequence: event.sequence,
                time: event.time, sender: event.sender,
                expiry: event.time.addingReportingOverflow(Int64(Self.lifetime.milliseconds)).partialValue),
            for: devices)
    }

    /// Has those who send look again.
    func wake() { for body in signals.withLock({ Array($0.values) }) { body() } }

    /// Has `body` called at each ``wake()``, until ``remove(_:)``.
    func observe(_ body: @escaping @Sendable () -> Void) -> UInt64 {
        let number = lastSignal.wrappingAdd(1, ordering: .relaxed).newValue
        signals.withLock { $0[number] = body }
        return number
    }

    /// Calls an observer no more.
    func remove(_ observer: UInt64) {
        let body = signals.withLock { $0.removeValue(forKey: observer) }
        _ = body  // what it holds is let go of outside the lock
    }

    // MARK: - Sending

    /// Puts what a device wants into its box, in the order of publication, until the task is cancelled.
    func send(to follower: Follower, through deliveries: Deliveries) async throws {
        let observer = observe { deliveries.look() }
        defer { remove(observer) }
        while true {
            deliveries.begin()
            while let (last, look) = deliveries.room(upTo: Self.window) {
                let batch = try store.outbox(for: follower.device, after: last, limit: Self.window)
                guard let end = batch.last?.number else { break }
                let wanted = batch.filter { delivery in
                    guard let topic = try? TopicPath(delivery.event.topic), delivery.tries <= Self.tries else {
                        return false
                    }
                    return follower.wants(topic) && follower.mayHave(topic) && deliveries.claim(delivery.number)
                }
                deliveries.passed(end, in: look)
                try store.countTries(wanted.map(\.number))
                for delivery in wanted where delivery.tries < Self.tries {
                    put(delivery, into: follower.box, deliveries)
                }
                // One try too many: it is given up.
                let refused = wanted.filter { $0.tries == Self.tries }.map(\.number)
                deliveries.delivered(refused)
                if !refused.isEmpty { wake() }
            }
            guard await deliveries.wait() else { throw CancellationError() }
        }
    }

    private func put(_ delivery: OutboxDelivery, into box: EventBox, _ deliveries: Deliveries) {
        // It was a topic a moment ago.
        guard let topic = try? TopicPath(delivery.event.topic),
            let message = try? CBORDecoder().decode(Events.Message.self, from: delivery.event.message)
        else { return }
        let event = SharedEvent(
            Events.Event(
                topic: topic.text, message: message, publisher: own,
                epoch: delivery.event.epoch, sequence: delivery.event.sequence, time: delivery.event.time,
                sender: delivery.event.sender),
            topic: topic)
        let number = delivery.number
        // One that found no room is tried again; of one that was sent, the device says what became of it.
        let receipt = EventReceipt(number: number) { if !$0 { deliveries.failed([number]) } }
        box.put(event, receipt: receipt)?.resume()
    }

    /// Takes what a device says of deliveries.
    func take(delivered: [UInt64], failed: [UInt64], from device: DeviceID, _ deliveries: Deliveries) throws(KithError)
    {
        // Of others it was sent nothing: they are not looked up one by one.
        let (delivered, failed) = (deliveries.inFlight(among: delivered), deliveries.inFlight(among: failed))
        try store.removeFromOutbox(delivered, of: device)
        deliveries.delivered(delivered)
        deliveries.failed(failed)
        if !failed.isEmpty { wake() }
    }

    // MARK: - Dead letters

    /// Makes dead letters of what is given up; returns when to look again, in milliseconds since 1970.
    func bury(in hub: EventHub) throws -> Int64? {
        while case let abandoned = try store.abandonedDeliveries(at: hub.now(), tries: Self.tries + 1, limit: 64),
            !abandoned.isEmpty
        {
            for delivery in abandoned {
                let letter = Events.DeadLetter(delivery, isExpired: delivery.event.expiry <= hub.now())
                let topic = try? TopicPath("$dead/\(delivery.event.topic)")
                try hub.publish(
                    Events.Message(letter), to: topic ?? TopicPath("$dead"),
                    options: PublishOptions(retain: Self.deadRetention), isOwn: true)
                logger.warning(
                    "an event was not taken",
                    metadata: ["topic": "\(delivery.event.topic)", "peer": "\(delivery.device.short)"])
                // After the letter: at worst there are two of it.
                try store.removeFromOutbox([delivery.number], of: delivery.device)
            }
        }
        return try store.nextOutboxExpiry()
    }
}

extension Events.DeadLetter {
    fileprivate init(_ delivery: OutboxDelivery, isExpired: Bool) {
        self.init(
            topic: delivery.event.topic,
            // What the disk has spoilt is lost; the rest of the letter is not.
            message: (try? CBORDecoder().decode(Events.Message.self, from: delivery.event.message)) ?? .nothing,
            device: delivery.device, epoch: delivery.event.epoch, sequence: delivery.event.sequence,
            time: delivery.event.time, tries: UInt64(min(max(0, delivery.tries), Outbox.tries)),
            reason: isExpired ? .expired : .refused)
    }
}

/// The deliveries to one device over one stream.
final class Deliveries: Sendable {
    private struct State {
        /// Those that were sent, or are about to be.
        var inFlight: Set<UInt64> = []
        /// Those that failed, and when they may be tried again.
        var waiting: [UInt64: ContinuousClock.Instant] = [:]
        var failures: [UInt64: Int] = [:]
        /// The last one that was looked at.
        var last: UInt64 = 0
        /// The number of times that all were to be looked at again.
        var look = 0
    }

    private let state = Mutex(State())
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private let clock: any Ticker
    private let timers: TimerQueue

    init(clock: any Ticker, timers: TimerQueue) {
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.clock = clock
        self.timers = timers
    }

    /// Looks at new deliveries.
    func look() { signal.yield() }

    /// Looks at all deliveries again: something else is wanted, or may be had.
    func lookAgain() {
        state.withLock { state in
            state.last = 0
            state.look += 1
        }
        signal.yield()
    }

    /// Waits for a reason to look; false when the task is cancelled.
    func wait() async -> Bool {
        for await _ in signals { return !Task.isCancelled }
        return false
    }

    /// Begins to look: what has waited long enough is tried again.
    func begin() {
        state.withLock { state in
            let now = clock.now
            let due = state.waiting.filter { $0.value <= now }.map(\.key)
            for number in due { state.waiting[number] = nil }
            if let first = due.min() { state.last = min(state.last, first - 1) }
        }
    }

    /// The number behind which to look, while fewer than `limit` are in flight.
    func room(upTo limit: Int) -> (last: UInt64, look: Int)? {
        state.withLock { $0.inFlight.count < limit ? ($0.last, $0.look) : nil }
    }

    /// All up to `number` have been looked at, unless all are to be looked at again since.
    func passed(_ number: UInt64, in look: Int) {
        state.withLock { if $0.look == look { $0.last = max($0.last, number) } }
    }

    /// Those of them that are in flight, each once.
    func inFlight(among numbers: [UInt64]) -> [UInt64] {
        state.withLock { state in Array(Set(numbers.lazy.filter(state.inFlight.contains))) }
    }

    /// Takes a delivery on; false when it is in flight, or has to wait.
    func claim(_ number: UInt64) -> Bool {
        state.withLock { $0.waiting[number] == nil && $0.inFlight.insert(number).inserted }
    }

    /// The device has them.
    func delivered(_ numbers: [UInt64]) {
        state.withLock { state in
            for number in numbers {
                state.inFlight.remove(number)
                state.failures[number] = nil
            }
        }
        if !numbers.isEmpty { signal.yield() }
    }

    /// The device does not have them: they are tried again, after a second at first, and then after twice the time.
    func failed(_ numbers: [UInt64]) {
        guard !numbers.isEmpty else { return }
        let next = state.withLock { state -> ContinuousClock.Instant? in
            for number in numbers where state.inFlight.remove(number) != nil {
                let count = state.failures[number, default: 0]
                state.failures[number] = count + 1
                state.waiting[number] = clock.now.advanced(by: .seconds(1 << min(count, 6)))
            }
            return state.waiting.values.min()
        }
        if let next { _ = timers.schedule(at: next) { [signal] in signal.yield() } }
    }
}
