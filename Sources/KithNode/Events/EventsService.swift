import KithAPI
import KithIO
import KithIdentity
import KithWire

/// Publishes and delivers events for callers at the doors, and for other devices.
struct EventsService: Service {
    let hub: EventHub
    /// Happens when the device stops: what would go on for ever ends then.
    let shutdown: AsyncEvent

    var handlers: [Handler] {
        [
            .call(Events.Publish.self) { input, context in
                let options = PublishOptions(
                    retain: input.retainMilliseconds.map { Duration(untrustedMilliseconds: $0) },
                    isLocal: input.isLocal, isGuaranteed: input.isGuaranteed)
                let published = try hub.publish(
                    input.message, to: TopicPath(input.topic), options: options, sender: context.caller.device)
                return Events.Publish.Output(published, hub)
            },
            .stream(Events.Subscribe.self) { input, context, pending in
                var options = SubscriptionOptions(
                    lookBack: input.lookBackMilliseconds.map { Duration(untrustedMilliseconds: $0) },
                    // Another device follows those whose events it wants itself.
                    from: context.caller == .owner ? input.from : .here)
                options.retainedPerTopic = Int(min(input.retainedPerTopic, UInt64(RetainedEvents.perTopic)))
                options.buffer = Int(min(input.buffer, 4_096))
                options.overflow = input.overflow
                let subscription = try Subscription<Events.Message>(hub, to: TopicPath(input.topic), options)
                let stream = try await pending.accept(
                    Events.Subscribe.Output(epoch: hub.epoch, sequence: subscription.sequence))
                try await send(subscription, to: stream)
            }.endingAtShutdown(),
            // A connection that was lost may take a while to end.
            .stream(Events.Follow.self) { input, context, pending in
                try await serve(input, context, pending)
            }.limited(to: 4),
        ]
    }

    /// Sends what is delivered until the other end finishes, or is gone.
    private func send(
        _ subscription: Subscription<Events.Message>, to stream: MethodStream<Nothing, Events.Delivery>
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                for try await delivery in subscription.deliveries {
                    switch delivery {
                    case .event(let event): try await stream.send(.event(Events.Event(event)))
                    case .gap(let gap): try await stream.send(.gap(gap))
                    }
                }
            }
            group.addTask { try await stream.end() }
            try await group.next()
        }
        try await stream.finish()
    }

    // MARK: - Other devices that follow this one

    private func serve(
        _ input: Events.Follow.Input, _ context: CallContext, _ pending: PendingStream<Events.Follow>
    ) async throws {
        guard case .device(let device, _, _) = context.caller else {
            throw KithError(.invalid, "Only another device follows this one; events.subscribe is for its own programs.")
        }
        let follower = Follower(device, patterns: try Self.patterns(input.patterns), grants: context.grants)
        guard follower.patterns.count <= Events.Follow.patternLimit else { throw Self.tooMany }
        let position = hub.add(follower, resume: input.resume)
        defer { hub.remove(follower) }
        // Nothing is refused: each event is sent or not, by the grants of that moment.
        let deliveries = Deliveries(clock: hub.clock, timers: hub.timers)
        try context.narrow("events") { grants in
            follower.setGrants(grants)
            deliveries.lookAgain()
            return nil
        }
        let stream = try await pending.accept(position)
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                while let item = await follower.box.next() { try await stream.send(Events.Follow.Item(item)) }
            }
            group.addTask { [hub] in
                while let request = try await stream.receive() {
                    try Self.take(request, for: follower, deliveries, hub)
                }
            }
            group.addTask { [hub, shutdown] in
                if let outbox = hub.outbox { try await outbox.send(to: follower, through: deliveries) }
                await shutdown.wait()
            }
            group.addTask { [shutdown] in await shutdown.wait() }
            try await group.next()
        }
        try await stream.finish()
    }

    private static func take(
        _ request: Events.Follow.Request, for follower: Follower, _ deliveries: Deliveries, _ hub: EventHub
    ) throws {
        try hub.outbox?.take(
            delivered: request.delivered, failed: request.failed, from: follower.device, deliveries)
        for pattern in try patterns(request.remove) { hub.remove(pattern, for: follower) }
        for pattern in try patterns(request.add) {
            guard follower.patterns.count < Events.Follow.patternLimit else { throw tooMany }
            hub.add(pattern, for: follower)
        }
        if !request.add.isEmpty { deliveries.lookAgain() }
        guard request.lookBack.count <= Events.Follow.patternLimit else { throw tooMany }
        for lookBack in request.lookBack {
            hub.lookBack(
                lookBack.number, try TopicPath(lookBack.pattern),
                within: Duration(untrustedMilliseconds: lookBack.milliseconds),
                perTopic: Int(min(lookBack.perTopic, UInt64(RetainedEvents.perTopic))), for: follower)
        }
    }

    private static func patterns(_ texts: [String]) throws -> [TopicPath] {
        guard texts.count <= 2 * Events.Follow.patternLimit else { throw tooMany }
        return try texts.map { try TopicPath($0) }
    }

    private static let tooMany = KithError(
        .exhausted, "A device wants at most \(Events.Follow.patternLimit) patterns of another.")
}

extension Events.Follow.Item {
    /// What waits for a device, as it is sent.
    fileprivate init(_ item: EventMailbox.Item) {
        switch item {
        case .gap(let gap): self.init(gap: gap)
        case .event(let shared, let lookBack, let receipt):
            let event = shared.event
            self.init(
                event: Events.Follow.Published(
                    topic: event.topic, message: event.message, epoch: event.epoch, sequence: event.sequence,
                    time: event.time, sender: event.sender),
                lookBack: lookBack, delivery: receipt?.number)
        }
    }
}

extension Events.Event {
    /// The event as it is delivered at doors.
    init(_ event: Event<Events.Message>) {
        self.init(
            topic: event.topic.text, message: event.message, publisher: event.publisher, epoch: event.epoch,
            sequence: event.sequence, time: event.time, sender: event.sender, isRetained: event.isRetained)
    }
}
