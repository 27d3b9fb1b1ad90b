public import KithAPI
public import KithWire

/// What events are published through: a node, a device, the context of a call.
public protocol EventSpace: Sendable {
    /// The topics; `nil` where no node stands behind.
    var events: EventHub? { get }
}

extension EventSpace {
    private func hub() throws(KithError) -> EventHub {
        guard let events else { throw KithError(.unsupported, "Events need a node, and here is none.") }
        return events
    }

    /// Publishes a message to a topic: to the subscribers on this device, and on those that may have it.
    ///
    /// Nobody is waited for. Events published one after the other arrive at each subscriber in that order.
    ///
    /// - Throws: `KithError` `.invalid` for a pattern or what is no path, `.denied` for a topic that begins with `$`,
    ///   `.exhausted` for a message that is too large.
    @discardableResult
    public func publish<Message: Encodable & Sendable>(
        _ message: Message, to topic: String, options: PublishOptions = PublishOptions()
    ) throws -> Events.Publish.Output {
        try publish(message, to: TopicPath(topic), options: options)
    }

    /// Publishes a message to a topic.
    @discardableResult
    public func publish<Message: Encodable & Sendable>(
        _ message: Message, to topic: TopicPath, options: PublishOptions = PublishOptions()
    ) throws -> Events.Publish.Output {
        let hub = try hub()
        let encoded = try message as? Events.Message ?? Events.Message(message)
        let published = try hub.publish(encoded, value: message, to: topic, options: options)
        return Events.Publish.Output(published, hub)
    }

    /// Subscribes to a topic or a pattern: `sensors/*/temperature`, `sensors/>`.
    ///
    /// The subscription is in place when this returns, on this device; other devices learn of it as soon as they are
    /// connected.
    ///
    /// Another device's events come only when that device has granted this one `node:TOPIC`, as by `kith grant phone --add
    /// 'node:sensors/>'` there; with the usual ``SubscriptionOptions/from`` this one must have granted it the same, too. In
    /// a grant, unlike here, a `*` at the end stands for any number of names: `node:sensors/*` is enough for all beneath
    /// `sensors`.
    ///
    /// - Throws: `KithError` `.invalid` for what is no path.
    public func subscribe<Message: Decodable & Sendable>(
        _ pattern: String, as type: Message.Type = Message.self, options: SubscriptionOptions = SubscriptionOptions()
    ) throws -> Subscription<Message> {
        try Subscription(hub(), to: TopicPath(pattern), options)
    }

    /// Subscribes to a topic or a pattern, with the retained events that are no older than `lookBack` first.
    public func subscribe<Message: Decodable & Sendable>(
        _ pattern: String, as type: Message.Type = Message.self, lookBack: Duration
    ) throws -> Subscription<Message> {
        try subscribe(pattern, as: type, options: SubscriptionOptions(lookBack: lookBack))
    }

    /// Subscribes to the next event of a topic or a pattern.
    ///
    /// What is published from now on counts, not only from when somebody waits:
    ///
    /// ```swift
    /// let answer = try node.once("chat/answer", as: String.self)
    /// try node.publish("Are you there?", to: "chat/question")
    /// print(try await answer.value().message)
    /// ```
    ///
    /// With a look-back, the newest retained event that is no older than that will do.
    public func once<Message: Decodable & Sendable>(
        _ pattern: String, as type: Message.Type = Message.self, timeout: Duration = .seconds(5),
        lookBack: Duration? = nil
    ) throws -> FirstEvent<Message> {
        try FirstEvent(hub(), TopicPath(pattern), timeout: timeout, SubscriptionOptions(lookBack: lookBack))
    }

    /// Drops the retained events of a topic, or of those that a pattern stands for, that were published here.
    ///
    /// - Returns: the number of events.
    @discardableResult public func clearRetained(_ pattern: String) throws -> Int {
        try hub().clearRetained(TopicPath(pattern))
    }
}

extension Events.Publish.Output {
    init(_ published: EventHub.Publication, _ hub: EventHub) {
        self.init(
            epoch: hub.epoch, sequence: published.sequence, subscribers: UInt64(published.subscribers),
            devices: UInt64(published.devices))
    }
}

extension Node: EventSpace {}
