public import KithAPI
import KithIO
public import KithIdentity
public import KithWire
import Logging
import Synchronization

/// The circumstances of an event, for the handler of a service that reacts to it.
public struct EventContext: EventSpace {
    /// The topic.
    public let topic: TopicPath
    /// The values of the pattern's parameters: of `rooms/{room}/light`, `room`.
    public let parameters: [String: String]
    /// The device on which it was published.
    public let publisher: DeviceID
    /// The time at which the publisher began to count, in milliseconds since 1970.
    public let epoch: UInt64
    /// Its number among the publisher's events of that epoch.
    public let sequence: UInt64
    /// The time of publication by the publisher's clock, in milliseconds since 1970.
    public let time: Int64
    /// The device that had it published there; `nil`: that device's own person or services.
    public let sender: DeviceID?
    /// True when it was published before the service subscribed.
    public let isRetained: Bool
    /// True when it was published on this device.
    public let isLocal: Bool
    /// Calls methods as this device: on itself (`on: nil`) and on the devices it is paired with.
    public let client: Client
    /// The topics of this device.
    public let events: EventHub?

    init(_ shared: SharedEvent, isRetained: Bool, pattern: TopicPath, node: Node) {
        topic = shared.topic
        // A pattern without parameters has none, whether it is a template or not.
        parameters = pattern.isTemplate ? (try? shared.topic.parameters(in: pattern)) ?? [:] : [:]
        publisher = shared.event.publisher
        epoch = shared.event.epoch
        sequence = shared.event.sequence
        time = shared.event.time
        sender = shared.event.sender
        self.isRetained = isRetained
        isLocal = shared.event.publisher == node.id
        client = node.client
        events = node.events
    }
}

/// What a service does at events.
package struct EventHandler: Sendable {
    let pattern: String
    let options: SubscriptionOptions
    let body: @Sendable (SharedEvent, EventContext) async throws -> Void
}

extension Handler {
    /// Reacts to the events of a topic or a pattern: `sensors/*/temperature`, `rooms/{room}/light`.
    ///
    /// One after the other, in the order of their publication; what comes faster than it is handled waits, as ``SubscriptionOptions``
    /// say. An error is logged and counted, and hurts nobody else; of a guaranteed event another try comes later. There are
    /// no events while the service is paused.
    ///
    /// ```swift
    /// .on("sensors/*/temperature") { (celsius: Double, event) in
    ///     if celsius > 90 { try event.publish("Fire!", to: "alarm/fire") }
    /// }
    /// ```
    public static func on<Message: Decodable & Sendable>(
        _ pattern: String, options: SubscriptionOptions = SubscriptionOptions(),
        _ body: @escaping @Sendable (Message, EventContext) async throws -> Void
    ) -> Handler {
        Handler(
            reactingTo: EventHandler(pattern: pattern, options: options) { shared, context in
                try await body(try shared.message(as: Message.self), context)
            })
    }
}

/// A handler of events at work: one task, which takes one event after the other.
final class EventListener: Sendable {
    private let handler: EventHandler
    private let pattern: TopicPath
    private let hub: EventHub
    private let logger: Logger
    private let node: WeakNode
    private let state = Mutex(State())

    private struct State {
        var task: Task<Void, Never>?
        var subscription: Subscription<Events.Message>?
        /// Happens when the task is over.
        var end: AsyncEvent?
        var failures: UInt64 = 0
    }

    /// The node owns its listeners.
    private struct WeakNode: Sendable {
        weak let node: Node?
    }

    /// - Throws: `KithError` `.invalid` when the handler's pattern is no path.
    init(_ handler: EventHandler, _ hub: EventHub, of node: Node) throws(KithError) {
        self.handler = handler
        pattern = try TopicPath(handler.pattern)
        self.hub = hub
        logger = node.logger
        self.node = WeakNode(node: node)
    }

    deinit { stop() }

    /// The number of events that the handler failed to handle.
    var failureCount: UInt64 { state.withLock { $0.failures } }

    /// Subscribes, and begins to handle what comes; again does nothing.
    func start() throws {
        try state.withLock { state in
            guard state.task == nil else { return }
            let subscription = try Subscription<Events.Message>(hub, to: pattern, handler.options)
            let end = AsyncEvent()
            state.end = end
            state.subscription = subscription
            state.task = Task(name: "kith events \(pattern.text)") { [weak self, handler, node, pattern, logger] in
                defer { end.happen() }
                while let (item, receipt) = await subscription.take() {
                    guard let node = node.node else { return }
                    switch item {
                    case .gap(let gap):
                        logger.warning(
                            "a service missed events",
                            metadata: ["pattern": "\(pattern.text)", "count": "\(gap.count.map { "\($0)" } ?? "?")"])
                    case .event(let shared, let lookBack, _):
                        let context = EventContext(
                            shared, isRetained: lookBack != nil, pattern: pattern, node: node)
                        do {
                            try await handler.body(shared, context)
                        } catch {
                            receipt?.fail()
                            if Task.isCancelled { return }
                            self?.failed(error, shared)
                        }
                    }
                }
            }
        }
    }

    /// Ends the subscription, and unless `finishesPresent` the handling of the present event; ``start()`` begins anew.
    func stop(finishesPresent: Bool = false) {
        let (task, subscription) = state.withLock { ($0.task.take(), $0.subscription.take()) }
        // Nothing more is delivered from now on, whenever the task learns of it.
        subscription?.cancel()
        if !finishesPresent { task?.cancel() }
    }

    /// Waits until nothing is handled any more, or the task is cancelled.
    func waitUntilIdle() async {
        let end = state.withLock { $0.task == nil ? $0.end : nil }
        await end?.wait()
    }

    private func failed(_ error: any Error, _ event: SharedEvent) {
        state.withLock { $0.failures += 1 }
        logger.error(
            "a service failed to handle an event",
            metadata: ["topic": "\(event.topic.text)", "error": "\(Node.outward(error).code.rawValue)"])
    }
}
