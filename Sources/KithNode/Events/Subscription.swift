public import KithAPI
public import KithIdentity
public import KithWire
import Synchronization

/// An event with its message.
public struct Event<Message: Sendable>: Sendable {
    /// The message.
    public var message: Message
    /// The topic.
    public var topic: TopicPath
    /// The device on which it was published.
    public var publisher: DeviceID
    /// The time at which the publisher began to count, in milliseconds since 1970.
    public var epoch: UInt64
    /// Its number among the publisher's events of that epoch, from 1.
    ///
    /// One that is delivered twice, as guaranteed events may be, has the same number again.
    public var sequence: UInt64
    /// The time of publication by the publisher's clock, in milliseconds since 1970.
    public var time: Int64
    /// The device that had it published there; `nil`: that device's own person or services.
    public var sender: DeviceID?
    /// True when it was published before the subscription, and comes because of its look-back.
    public var isRetained: Bool

    init(_ shared: SharedEvent, _ message: Message, isRetained: Bool) {
        self.message = message
        topic = shared.topic
        publisher = shared.event.publisher
        epoch = shared.event.epoch
        sequence = shared.event.sequence
        time = shared.event.time
        sender = shared.event.sender
        self.isRetained = isRetained
    }
}

/// What comes on a subscription.
@frozen
public enum Delivery<Message: Sendable>: Sendable {
    /// An event.
    case event(Event<Message>)
    /// Events are missing here.
    case gap(Events.Gap)
}

/// The options of a subscription.
public struct SubscriptionOptions: Hashable, Sendable {
    /// Delivers retained events first that are no older than this; `nil`: only what is published from now on.
    public var lookBack: Duration?
    /// The most retained events of one topic; the newest are delivered, in the order of their publication.
    public var retainedPerTopic = 16
    /// The publishers whose events it takes.
    ///
    /// By default those that this device has granted `node:TOPIC`: a device that is merely paired cannot make this one's
    /// services react.
    public var from = Events.Publishers.granted
    /// The number of events kept while the subscriber is slow, 1 to 4,096; and no more than 8 MiB of them.
    public var buffer = 256
    /// What becomes of those for which there is no room.
    public var overflow = Events.Overflow.dropOldest

    /// The defaults.
    public init(lookBack: Duration? = nil, from: Events.Publishers = .granted) {
        self.lookBack = lookBack
        self.from = from
    }

    /// The same, within what is allowed.
    var bounded: SubscriptionOptions {
        var options = self
        options.buffer = min(max(1, buffer), 4_096)
        return options
    }
}

/// The options of a publication.
public struct PublishOptions: Hashable, Sendable {
    /// The time for which it is kept for those who subscribe later and look back; `nil`: it is not.
    public var retain: Duration?
    /// True to keep it on this device.
    public var isLocal: Bool
    /// True to keep it, on disk, for each paired device that may have it, until that has acknowledged it.
    public var isGuaranteed: Bool

    /// The defaults: to all who subscribe now.
    public init(retain: Duration? = nil, isLocal: Bool = false, isGuaranteed: Bool = false) {
        self.retain = retain
        self.isLocal = isLocal
        self.isGuaranteed = isGuaranteed
    }
}

/// The events of a topic, or of those that a pattern stands for.
///
/// It lasts until the last reference is dropped, ``cancel()`` is called, or a task that waits for it is cancelled.
/// Whoever is too slow loses events, the oldest as a rule, and is told; nobody waits for anybody. One task iterates.
///
/// ```swift
/// for try await event in try node.subscribe("sensors/*/temperature", as: Double.self) {
///     print(event.topic, event.message)
/// }
/// ```
public final class Subscription<Message: Decodable & Sendable>: AsyncSequence, Sendable {
    private let hub: EventHub
    private let id: EventHub.SubscriberID
    private let box: EventBox
    /// The number of the device's last event before the subscription.
    public let sequence: UInt64

    init(
        _ hub: EventHub, to pattern: TopicPath, _ options: SubscriptionOptions,
        after position: Events.Follow.Position? = nil
    ) throws(KithError) {
        let added = try hub.subscribe(to: pattern, options.bounded, after: position)
        self.hub = hub
        id = added.id
        box = added.subscriber.box
        sequence = added.sequence
    }

    deinit { hub.remove(id) }

    /// Ends it: nothing more is delivered.
    public func cancel() { hub.remove(id) }

    /// The number of events lost because the subscriber was too slow.
    public var lostCount: UInt64 { box.lostCount }

    /// The events, without what is said about missing ones.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(deliveries: deliveries.makeAsyncIterator()) }

    /// Gives one event after the other.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var deliveries: Deliveries.AsyncIterator

        /// Waits for the next event; `nil` after the end.
        ///
        /// - Throws: `KithError` `.invalid` for an event whose message is of another type; the next call goes on behind
        ///   it.
        public mutating func next() async throws -> Event<Message>? {
            while let delivery = try await deliveries.next() {
                if case .event(let event) = delivery { return event }
            }
            return nil
        }
    }

    /// The events, and the gaps among them.
    public var deliveries: Deliveries { Deliveries(subscription: self) }

    /// The events of a subscription, and the gaps among them.
    public struct Deliveries: AsyncSequence, Sendable {
        fileprivate let subscription: Subscription

        /// Begins, or goes on.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(subscription: subscription) }

        /// Gives one delivery after the other.
        public struct AsyncIterator: AsyncIteratorProtocol {
            fileprivate let subscription: Subscription
            /// The last event counts as taken when the next is asked for.
            private var receipt: EventReceipt?

            fileprivate init(subscription: Subscription) { self.subscription = subscription }

            /// As ``Subscription/AsyncIterator/next()``.
            public mutating func next() async throws -> Delivery<Message>? {
                receipt = nil
                guard let (item, receipt) = await subscription.take() else { return nil }
                self.receipt = receipt
                switch item {
                case .event(let shared, let lookBack, _):
                    return .event(
                        Event(shared, try shared.message(as: Message.self), isRetained: lookBack != nil))
                case .gap(let gap): return .gap(gap)
                }
            }
        }
    }

    /// Waits for what is first, as it is; `nil` at the end, and when the task is cancelled.
    func take() async -> (item: EventMailbox.Item, receipt: EventReceipt?)? {
        guard let item = await box.next() else {
            cancel()
            return nil
        }
        if case .event(_, _, let receipt) = item { return (item, receipt) }
        return (item, nil)
    }
}

extension SharedEvent {
    /// The message as a value of the type that a subscriber asked for.
    func message<Message: Decodable>(as type: Message.Type) throws(KithError) -> Message {
        if let message = value as? Message { return message }
        do {
            return try event.message.decode(type)
        } catch {
            throw KithError(.invalid, "An event of \(event.topic) is not what the subscriber takes.", cause: error)
        }
    }
}

/// The first event of a topic, or of those that a pattern stands for, after the subscription.
///
/// The subscription is in place from the beginning, not only when somebody waits for ``value()``.
public final class FirstEvent<Message: Decodable & Sendable>: Sendable {
    private let subscription: Subscription<Message>
    private let deadline: ContinuousClock.Instant
    private let clock: any Ticker
    private let what: String

    init(
        _ hub: EventHub, _ pattern: TopicPath, timeout: Duration, _ options: SubscriptionOptions
    ) throws(KithError) {
        clock = hub.clock
        deadline = hub.clock.now.advanced(by: timeout)
        what = pattern.text
        var options = options
        options.overflow = .dropNewest
        options.buffer = 1
        options.retainedPerTopic = 1
        subscription = try Subscription(hub, to: pattern, options)
    }

    /// Waits for the event.
    ///
    /// - Throws: `KithError` `.timedOut`, `.cancelled` when the task is cancelled, `.invalid` when its message is of
    ///   another type.
    public func value() async throws -> Event<Message> {
        defer { subscription.cancel() }
        do {
            return try await withDeadline(deadline, on: clock) { [subscription] in
                var iterator = subscription.makeAsyncIterator()
                guard let event = try await iterator.next() else { throw CancellationError() }
                return event
            }
        } catch let error as KithError where error.code == .timedOut {
            throw KithError(.timedOut, "No event of \(what) came in time.")
        } catch is CancellationError {
            throw KithError(.cancelled, "Waiting for an event of \(what) was cancelled.")
        }
    }
}
