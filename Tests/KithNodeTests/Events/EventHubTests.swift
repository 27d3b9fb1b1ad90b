import KithAPI
import KithIO
import KithIdentity
import KithRPC
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNode

/// A hub alone, on a clock that stands still.
struct HubSpace: EventSpace {
    let clock = ManualClock()
    let hub: EventHub
    var events: EventHub? { hub }

    init() throws {
        hub = EventHub(publisher: try Friends.id(1), clock: clock, now: { 1_700_000_000_000 })
    }
}

/// A message of a type of its own.
struct Reading: Codable, Sendable, Hashable {
    var celsius: Double
    var room: String?
}

@Suite(.timeLimit(.minutes(4))) struct `Events on one device` {
    @Test func `reach subscribers of their topic, of one segment and of the rest, and nobody else`() async throws {
        let space = try HubSpace()
        var exact = try space.subscribe("sensors/kitchen/temperature", as: Reading.self).makeAsyncIterator()
        var one = try space.subscribe("sensors/*/temperature", as: Reading.self).makeAsyncIterator()
        var rest = try space.subscribe("sensors/>", as: JSONValue.self).makeAsyncIterator()
        let others = try ["sensors", "sensors/*", "sensors/kitchen/*/>", "sensors/hall/temperature", "work:sensors/>"]
            .map { try space.subscribe($0, as: JSONValue.self) }
        let published = try space.publish(Reading(celsius: 21), to: "sensors/kitchen/temperature")
        #expect(published.subscribers == 3 && published.sequence == 1)
        let event = try #require(try await exact.next())
        #expect(event.message == Reading(celsius: 21) && event.topic.text == "sensors/kitchen/temperature")
        #expect(event.publisher == space.hub.publisher && event.epoch == space.hub.epoch && !event.isRetained)
        #expect(try await one.next()?.message.celsius == 21)
        #expect(try await rest.next()?.message == ["celsius": .number(21)])
        for subscription in others { #expect(subscription.sequence == 0) }
        #expect(space.hub.counts.subscriptions == 8)
    }

    @Test func `a wildcard in the first place does not stand for a device's own topics`() async throws {
        let space = try HubSpace()
        let (all, own) = (try space.subscribe(">", as: Int.self), try space.subscribe("$registry/>", as: Int.self))
        let topic = try TopicPath("$registry/services/math/state")
        #expect(throws: KithError.self) { try space.publish(1, to: topic) }
        let published = try space.hub.publish(Events.Message(1), to: topic, isOwn: true)
        #expect(published.subscribers == 1)
        var iterator = own.makeAsyncIterator()
        #expect(try await iterator.next()?.message == 1)
        all.cancel()
        var ended = all.makeAsyncIterator()
        #expect(try await ended.next() == nil)
    }

    @Test(arguments: ["a/*", "a/>", "a/{b}", "", "a:b:c"])
    func `only a topic is published to`(_ text: String) throws {
        let space = try HubSpace()
        #expect(throws: KithError.self) { try space.publish(1, to: text) }
    }

    @Test func `arrive in the order of each publisher`() async throws {
        let space = try HubSpace()
        var options = SubscriptionOptions()
        options.buffer = 4_096
        let subscription = try space.subscribe("order/*", as: Int.self, options: options)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for publisher in 0..<8 {
                group.addTask {
                    for number in 0..<200 { try space.publish(number, to: "order/\(publisher)") }
                }
            }
            try await group.waitForAll()
        }
        var last: [String: Int] = [:]
        var sequence: UInt64 = 0
        var iterator = subscription.makeAsyncIterator()
        for _ in 0..<1_600 {
            let event = try #require(try await iterator.next())
            #expect(event.sequence == sequence + 1)
            sequence = event.sequence
            #expect(event.message == (last[event.topic.text] ?? -1) + 1)
            last[event.topic.text] = event.message
        }
    }

    @Test func `of a wrong type fail for that subscriber, and the next comes all the same`() async throws {
        let space = try HubSpace()
        var numbers = try space.subscribe("mixed", as: Int.self).makeAsyncIterator()
        var anything = try space.subscribe("mixed", as: JSONValue.self).makeAsyncIterator()
        try space.publish("text", to: "mixed")
        try space.publish(7, to: "mixed")
        let error = await #expect(throws: KithError.self) { try await numbers.next() }
        #expect(error?.code == .invalid)
        #expect(try await numbers.next()?.message == 7)
        #expect(try await anything.next()?.message == "text")
        #expect(try await anything.next()?.message == 7)
    }

    @Test func `that nobody gets are numbered and checked all the same`() throws {
        let hub = try HubSpace().hub
        let first = try hub.publish(Events.Message("a"), to: TopicPath("a/b"))
        #expect(first == EventHub.Publication(sequence: 1, subscribers: 0, devices: 0))
        #expect(throws: KithError(.invalid, "")) { try hub.publish(Events.Message("b"), to: TopicPath("a/*")) }
        let retained = try hub.publish(
            Events.Message("c"), to: TopicPath("a/b"), options: PublishOptions(retain: .seconds(60)))
        #expect(retained.sequence == 2 && hub.counts.retained == 1)
        #expect(try hub.publish(Events.Message("d"), to: TopicPath("a/b")).sequence == 3)
    }

    @Test func `too large or too deep are refused`() throws {
        let space = try HubSpace()
        let limit = Events.messageLimit
        #expect(throws: KithError.self) { try space.publish(ByteString([UInt8](repeating: 0, count: limit)), to: "a") }
        try space.publish(ByteString([UInt8](repeating: 0, count: limit - 5)), to: "a")
        var deep: JSONValue = 1
        for _ in 0..<40 { deep = .array([deep]) }
        let nested = deep
        let error = #expect(throws: KithError.self) { try space.publish(nested, to: "a") }
        #expect(error?.code == .exhausted)
    }

    // MARK: - Endings

    @Test func `a hundred thousand subscriptions leave nothing behind`() async throws {
        let space = try HubSpace()
        let kept = try space.subscribe("room/*/light", as: Int.self)
        let before = space.hub.counts
        for number in 0..<100_000 {
            let pattern = ["room/\(number % 100)/light", "room/*/light", "room/>"][number % 3]
            let subscription = try space.subscribe(pattern, as: Int.self, lookBack: .seconds(1))
            if number % 7 == 0 { subscription.cancel() }
            if number % 1_000 == 0 { try space.publish(number, to: "room/1/light") }
        }
        let after = space.hub.counts
        #expect(after == before && after.subscriptions == 1 && after.wanted == 1)
        #expect(kept.lostCount == 0)
    }

    @Test func `a subscription ends with the task that waits for it`() async throws {
        let space = try HubSpace()
        let subscription = try space.subscribe("quiet", as: Int.self)
        let task = Task {
            var iterator = subscription.makeAsyncIterator()
            return try await iterator.next() == nil
        }
        task.cancel()
        #expect(try await task.value)
        #expect(space.hub.counts.subscriptions == 0)
        subscription.cancel()
        #expect(try space.publish(1, to: "quiet").subscribers == 0)
    }

    @Test func `a subscription ends with the loop that reads it`() async throws {
        let space = try HubSpace()
        let first = try space.once("ready", as: Int.self, timeout: .seconds(60))
        let reading = Task {
            try space.publish(0, to: "ready")
            for try await event in try space.subscribe("numbers", as: Int.self) where event.message == 3 { return }
        }
        #expect(try await first.value().message == 0)
        try await eventually { space.hub.counts.subscriptions == 1 }
        for number in 0...3 { try space.publish(number, to: "numbers") }
        try await reading.value
        #expect(space.hub.counts.subscriptions == 0)
    }

    // MARK: - Slow subscribers

    @Test func `a subscriber that never reads harms nobody, and learns what it lost`() async throws {
        let space = try HubSpace()
        let slow = try space.subscribe("fast", as: Int.self)
        var quick = try space.subscribe("fast", as: Int.self).makeAsyncIterator()
        for number in 0..<10_000 {
            try space.publish(number, to: "fast")
            #expect(try await quick.next()?.message == number)
        }
        #expect(slow.lostCount == 10_000 - 256)
        var deliveries = slow.deliveries.makeAsyncIterator()
        guard case .gap(let gap)? = try await deliveries.next() else {
            Issue.record("a gap comes first")
            return
        }
        #expect(gap == Events.Gap(count: 10_000 - 256, publisher: space.hub.publisher, reason: .slow))
        guard case .event(let event)? = try await deliveries.next() else {
            Issue.record("then the events that are left")
            return
        }
        #expect(event.message == 10_000 - 256)
    }

    @Test func `a subscriber may keep the oldest instead, and the gap stands behind them`() async throws {
        let space = try HubSpace()
        var options = SubscriptionOptions()
        (options.buffer, options.overflow) = (2, .dropNewest)
        let subscription = try space.subscribe("fast", as: Int.self, options: options)
        for number in 0..<5 { try space.publish(number, to: "fast") }
        var deliveries = subscription.deliveries.makeAsyncIterator()
        var seen: [String] = []
        for _ in 0..<3 {
            switch try await deliveries.next() {
            case .event(let event): seen.append("\(event.message)")
            case .gap(let gap): seen.append("lost \(gap.count ?? 0)")
            case nil: break
            }
        }
        #expect(seen == ["0", "1", "lost 3"])
    }

    @Test func `what waits for a subscriber is bounded in bytes, too`() throws {
        let space = try HubSpace()
        let slow = try space.subscribe("large", as: ByteString.self)
        let message = try Events.Message(ByteString([UInt8](repeating: 1, count: 200 << 10)))
        for _ in 0..<100 { try space.publish(message, to: "large") }
        #expect(slow.lostCount >= 100 - UInt64(EventMailbox.byteLimit / (200 << 10)))
    }

    // MARK: - Retained events

    @Test func `retained events come to whoever looks back, sixteen of a topic at most, and to nobody else`()
        async throws
    {
        let space = try HubSpace()
        for number in 0..<20 { try space.publish(number, to: "state/a", options: .init(retain: .seconds(60))) }
        try space.publish(100, to: "state/b", options: .init(retain: .seconds(60)))
        let plain = try space.subscribe("state/>", as: Int.self)
        var past = try space.subscribe("state/>", as: Int.self, lookBack: .seconds(60)).makeAsyncIterator()
        for number in 4..<20 {
            let event = try #require(try await past.next())
            #expect(event.message == number && event.isRetained)
        }
        #expect(try await past.next()?.message == 100)
        try space.publish(200, to: "state/b")
        let next = try #require(try await past.next())
        #expect(next.message == 200 && !next.isRetained)
        var now = plain.makeAsyncIterator()
        #expect(try await now.next()?.message == 200)
        var options = SubscriptionOptions(lookBack: .seconds(60))
        options.retainedPerTopic = 1
        var newest = try space.subscribe("state/*", as: Int.self, options: options).makeAsyncIterator()
        #expect(try await newest.next()?.message == 19)
        #expect(try await newest.next()?.message == 100)
    }

    @Test func `a look-back ends where it says, and a retained event when its time is up`() async throws {
        let space = try HubSpace()
        try space.publish(1, to: "state", options: .init(retain: .seconds(30)))
        space.clock.advance(by: .seconds(10))
        try space.publish(2, to: "state", options: .init(retain: .seconds(60)))
        space.clock.advance(by: .seconds(5))
        var recent = try space.subscribe("state", as: Int.self, lookBack: .seconds(5)).makeAsyncIterator()
        #expect(try await recent.next()?.message == 2)
        #expect(space.hub.counts.retained == 2)
        // Nobody publishes, and nobody asks.
        try await eventually { space.clock.sleeperCount == 1 }
        space.clock.advance(by: .seconds(15))
        try await eventually { space.hub.counts.retained == 1 }
        var rest = try space.subscribe("state", as: Int.self, lookBack: .seconds(300)).makeAsyncIterator()
        #expect(try await rest.next()?.message == 2)
        #expect(try space.clearRetained(">") == 1)
        #expect(space.hub.counts.retained == 0)
    }

    @Test func `a device that sleeps keeps retained events without a timer, and ends what is over when it wakes`()
        async throws
    {
        let space = try HubSpace()
        try space.publish(1, to: "state", options: .init(retain: .seconds(30)))
        try await eventually { space.clock.sleeperCount == 1 }
        space.hub.sleep()
        try await eventually { space.clock.sleeperCount == 0 }
        space.clock.advance(by: .seconds(60))
        var past = try space.once("state", as: Int.self, timeout: .zero, lookBack: .seconds(300))
        let error = await #expect(throws: KithError.self) { try await past.value() }
        #expect(error?.code == .timedOut)
        #expect(space.hub.counts.retained == 1)
        space.hub.wake()
        #expect(space.hub.counts.retained == 0)
        try space.publish(2, to: "state", options: .init(retain: .seconds(30)))
        past = try space.once("state", as: Int.self, lookBack: .seconds(300))
        #expect(try await past.value().message == 2)
    }

    @Test func `retained events are bounded in topics and bytes, and leave nothing when they are gone`() throws {
        let clock = ManualClock()
        var retained = RetainedEvents()
        func event(_ topic: String, _ size: Int) throws -> SharedEvent {
            let message = try Events.Message(ByteString([UInt8](repeating: 0, count: size)))
            let path = try TopicPath(topic)
            return SharedEvent(
                Events.Event(
                    topic: path.text, message: message, publisher: try Friends.id(1), epoch: 1, sequence: 1, time: 0),
                topic: path)
        }
        for number in 0..<RetainedEvents.topicLimit + 100 {
            retained.retain(
                try event("topic/\(number)", 1), until: clock.now + .seconds(100 + number), at: clock.now)
        }
        #expect(retained.topicCount == RetainedEvents.topicLimit)
        // What would have been over first has made room.
        let first = try TopicPath("topic/0")
        #expect(retained.events(for: first, within: .seconds(1), perTopic: 16, at: clock.now).isEmpty)
        for number in 0..<200 {
            retained.retain(
                try event("large/\(number)", 200 << 10), until: clock.now + .seconds(10_000), at: clock.now)
        }
        #expect(retained.bytes <= RetainedEvents.byteLimit)
        for _ in 0..<10_000 { retained.retain(try event("same", 1), until: clock.now + .seconds(9), at: clock.now) }
        #expect(retained.endCount <= 2 * retained.count + 65)
        retained.expire(at: clock.now + .seconds(1_000_000))
        #expect(retained.count == 0 && retained.bytes == 0 && retained.nodeCount == 0 && retained.endCount == 0)
    }

    // MARK: - Once

    @Test func `once is hot, gives the first event, and leaves nothing`() async throws {
        let space = try HubSpace()
        let first = try space.once("answer/*", as: String.self)
        try space.publish("one", to: "answer/a")
        try space.publish("two", to: "answer/a")
        #expect(try await first.value().message == "one")
        #expect(space.hub.counts.subscriptions == 0)
        try space.publish("old", to: "state", options: .init(retain: .seconds(60)))
        try space.publish("new", to: "state", options: .init(retain: .seconds(60)))
        #expect(try await space.once("state", as: String.self, lookBack: .seconds(60)).value().message == "new")
    }

    @Test func `once gives up in time, and when it is cancelled`() async throws {
        let space = try HubSpace()
        let first = try space.once("never", as: Int.self, timeout: .seconds(5))
        let error = await #expect(throws: KithError.self) {
            try await space.clock.advance(by: .seconds(1)) { try await first.value().message }
        }
        #expect(error?.code == .timedOut)
        let other = try space.once("never", as: Int.self, timeout: .seconds(5))
        let task = Task { try await other.value().message }
        task.cancel()
        let cancelled = await #expect(throws: KithError.self) { try await task.value }
        #expect(cancelled?.code == .cancelled)
        #expect(space.hub.counts.subscriptions == 0)
    }
}
