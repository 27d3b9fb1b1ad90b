import KithAPI
import KithWire
import Testing

@testable import KithNode

@Suite(.timeLimit(.minutes(4))) struct `Events of the device itself` {
    private func publish(_ number: Int, to topic: String, as kind: EventHub.OwnEvent, _ hub: EventHub) throws {
        _ = try hub.publish(Events.Message(number), value: number, to: TopicPath(topic), isOwn: true, as: kind)
    }

    private func follow(
        _ hub: EventHub, buffer: Int = 16, after: Events.Follow.Position? = nil
    ) throws -> Subscription<Int> {
        try hub.follow(TopicPath("$own/>"), as: Int.self, buffer: buffer, after: after)
    }

    private func taken(_ subscription: Subscription<Int>, _ count: Int) async throws -> [String] {
        var (texts, iterator) = ([String](), subscription.deliveries.makeAsyncIterator())
        for _ in 0..<count {
            switch try #require(try await iterator.next()) {
            case .event(let event): texts.append("\(event.message)")
            case .gap(let gap): texts.append("\(gap.reason.rawValue) \(gap.count.map { "\($0)" } ?? "?")")
            }
        }
        return texts
    }

    @Test func `are caught up with behind a position, in order, and no other topic's`() async throws {
        let hub = try HubSpace().hub
        try publish(0, to: "$own/a", as: .remembered, hub)
        hub.remember()
        for number in 1...4 { try publish(number, to: "$own/\(number)", as: .remembered, hub) }
        try publish(9, to: "$other/a", as: .remembered, hub)
        let behind = Events.Follow.Position(epoch: hub.epoch, sequence: 3)
        let subscription = try follow(hub, after: behind)
        try publish(5, to: "$own/a", as: .remembered, hub)
        #expect(try await taken(subscription, 3) == ["3", "4", "5"])
        #expect(subscription.sequence == 6)
    }

    @Test func `that are not kept any more, or are another epoch's, are a gap`() async throws {
        let hub = try HubSpace().hub
        let none = try follow(hub, after: Events.Follow.Position(epoch: hub.epoch, sequence: 0))
        #expect(try await taken(none, 1) == ["disconnected ?"])
        hub.remember()
        for number in 0..<1_030 { try publish(number, to: "$own/a", as: .remembered, hub) }
        let old = try follow(hub, after: Events.Follow.Position(epoch: hub.epoch, sequence: 2))
        #expect(try await taken(old, 2) == ["disconnected ?", "6"])
        // All that is kept has room, however small the buffer that was asked for.
        let all = try follow(hub, buffer: 1, after: Events.Follow.Position(epoch: hub.epoch, sequence: 6))
        #expect(try await taken(all, 1_024).last == "1029")
        for place in [
            Events.Follow.Position(epoch: 7, sequence: 1), Events.Follow.Position(epoch: hub.epoch, sequence: .max),
        ] {
            let other = try follow(hub, after: place)
            #expect(try await taken(other, 1) == ["restarted ?"])
        }
    }

    @Test func `that are a state replace the one before that was not taken, and cost no room`() async throws {
        let hub = try HubSpace().hub
        let subscription = try follow(hub, buffer: 2)
        try publish(1, to: "$own/a", as: .passing, hub)
        for number in 100..<200 { try publish(number, to: "$own/scans/1", as: .state, hub) }
        try publish(300, to: "$own/scans/2", as: .state, hub)
        try publish(2, to: "$own/a", as: .passing, hub)
        #expect(try await taken(subscription, 4) == ["1", "199", "300", "2"])
        // However many topics there are.
        for number in 0..<1_000 { try publish(number, to: "$own/scans/\(number)", as: .state, hub) }
        try publish(3, to: "$own/a", as: .passing, hub)
        #expect(try await taken(subscription, 257).suffix(2) == ["999", "3"])
        #expect(subscription.lostCount == 0)
    }

    @Test func `leave nothing behind when a subscription is dropped`() async throws {
        let hub = try HubSpace().hub
        hub.remember()
        let before = hub.counts
        do {
            let subscription = try follow(hub, after: Events.Follow.Position(epoch: hub.epoch, sequence: 0))
            #expect(hub.counts.subscriptions == before.subscriptions + 1)
            _ = subscription.sequence
        }
        #expect(hub.counts == before)
    }
}
