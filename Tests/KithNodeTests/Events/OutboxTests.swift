import KithAPI
import KithIO
import KithIdentity
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNode
@testable import KithStore

/// A hub whose guaranteed events are on a disk, with one device paired that may have those of `work/*`.
private final class Desk {
    let folder: TemporaryFolder
    let clock = ManualClock()
    let now = Locked<Int64>(1_700_000_000_000)
    let phone: DeviceID
    private(set) var store: Store
    private(set) var hub: EventHub
    private(set) var outbox: Outbox

    init() throws {
        folder = try TemporaryFolder()
        store = try Store.open(directory: folder.path, logger: .quiet)
        phone = try Friends.id(2)
        _ = try store.add(
            PairedDevice(id: phone, name: "phone", grants: [.node(pattern: "work/*")], pairedAt: 0))
        (hub, outbox) = try Self.make(store, clock, now)
    }

    private static func make(
        _ store: Store, _ clock: ManualClock, _ now: Locked<Int64>
    ) throws -> (EventHub, Outbox) {
        let id = try Friends.id(1)
        let hub = EventHub(publisher: id, clock: clock, now: { now.value })
        let outbox = Outbox(store, own: id, logger: .quiet)
        hub.use(outbox)
        return (hub, outbox)
    }

    deinit { store.close() }

    /// The process ends, and begins again later.
    func restart() throws {
        store.close()
        now.set(now.value + 1_000)
        store = try Store.open(directory: folder.path, logger: .quiet)
        (hub, outbox) = try Self.make(store, clock, now)
    }

    func publish(_ number: Int, to topic: String = "work/a") throws -> EventHub.Publication {
        try hub.publish(
            Events.Message(number), to: TopicPath(topic), options: PublishOptions(isGuaranteed: true))
    }

    /// Has the phone follow; returns what it is sent, and where its answers go.
    func follow(
        _ body: (
            _ next: () async -> (number: Int, sequence: UInt64, delivery: UInt64)?, _ deliveries: Deliveries
        ) async throws -> Void
    ) async throws {
        let follower = Follower(phone, patterns: [try TopicPath("work/>")], grants: [.node(pattern: "work/*")])
        _ = hub.add(follower, resume: nil)
        let deliveries = Deliveries(clock: hub.clock, timers: hub.timers)
        let sending = Task { [outbox] in try await outbox.send(to: follower, through: deliveries) }
        try await body(
            {
                guard case .event(let shared, _, let receipt?) = await follower.box.next() else { return nil }
                let number = try? shared.event.message.decode(Int.self)
                return (number ?? -1, shared.event.sequence, receipt.number)
            }, deliveries)
        sending.cancel()
        _ = await sending.result
        hub.remove(follower)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `Guaranteed events` {
    @Test func `are sent again after a lost connection and after a restart, until they are acknowledged`() async throws
    {
        let desk = try Desk()
        for number in 1...3 { #expect(try desk.publish(number).devices == 1) }
        var first: [UInt64] = []
        try await desk.follow { next, deliveries in
            for number in 1...3 {
                let event = try #require(await next())
                #expect(event.number == number)
                first.append(event.sequence)
                if number == 1 {
                    try desk.outbox.take(
                        delivered: [event.delivery], failed: [], from: desk.phone, deliveries)
                }
            }
        }
        try desk.restart()
        try await desk.follow { next, deliveries in
            for number in 2...3 {
                let event = try #require(await next())
                // The same number tells that it may be the second time.
                #expect(event.number == number && event.sequence == first[number - 1])
                try desk.outbox.take(delivered: [event.delivery], failed: [], from: desk.phone, deliveries)
            }
            #expect(try desk.publish(4).sequence == 1)
            #expect(await next()?.number == 4)
        }
        #expect(try desk.store.outbox(for: desk.phone, after: 0, limit: 10).map(\.event.sequence) == [1])
    }

    @Test func `are kept for those that may have them, and acknowledged by nobody else`() async throws {
        let desk = try Desk()
        #expect(try desk.publish(1, to: "secret").devices == 0)
        #expect(try desk.publish(2).devices == 1)
        let delivery = try #require(try desk.store.outbox(for: desk.phone, after: 0, limit: 10).first)
        try desk.store.removeFromOutbox([delivery.number], of: try Friends.id(3))
        #expect(try desk.store.outbox(for: desk.phone, after: 0, limit: 10).count == 1)
        try desk.store.removeFromOutbox([delivery.number], of: desk.phone)
        #expect(try desk.store.nextOutboxExpiry() == nil)
        // Those of a device that is forgotten go with it.
        _ = try desk.publish(3)
        _ = try desk.store.forget(desk.phone)
        #expect(try desk.store.outbox(for: desk.phone, after: 0, limit: 10).isEmpty)
    }

    @Test func `that are refused come again, later each time, and become dead letters`() async throws {
        let desk = try Desk()
        let letters = try desk.hub.subscribe(to: TopicPath("$dead/>"), SubscriptionOptions()).subscriber
        _ = try desk.publish(7)
        try await desk.follow { next, deliveries in
            for attempt in 0..<Outbox.tries {
                let event = try #require(await next())
                #expect(event.number == 7)
                try desk.outbox.take(delivered: [], failed: [event.delivery], from: desk.phone, deliveries)
                try await eventually { desk.clock.sleeperCount == 1 }
                desk.clock.advance(by: .seconds(1 << min(attempt, 6)))
            }
            try await eventually { try desk.store.outbox(for: desk.phone, after: 0, limit: 1).first?.tries == 11 }
        }
        _ = try desk.outbox.bury(in: desk.hub)
        guard case .event(let shared, _, _)? = letters.box.poll() else {
            Issue.record("there is no letter")
            return
        }
        let letter = try shared.event.message.decode(Events.DeadLetter.self)
        #expect(shared.event.topic == "$dead/work/a" && letter.reason == .refused && letter.tries == 10)
        #expect(letter.device == desk.phone && letter.topic == "work/a")
        #expect(try letter.message.decode(Int.self) == 7)
        #expect(try desk.store.nextOutboxExpiry() == nil)
    }

    @Test func `that nobody takes within a day become dead letters, which are retained`() async throws {
        let desk = try Desk()
        _ = try desk.publish(1)
        let next = try #require(try desk.outbox.bury(in: desk.hub))
        #expect(next == desk.now.value + 86_400_000)
        desk.now.set(next)
        #expect(try desk.outbox.bury(in: desk.hub) == nil)
        var options = SubscriptionOptions(lookBack: .seconds(60))
        options.retainedPerTopic = 1
        let letters = try desk.hub.subscribe(to: TopicPath("$dead/work/a"), options).subscriber
        guard case .event(let shared, _, _)? = letters.box.poll() else {
            Issue.record("there is no letter")
            return
        }
        #expect(try shared.event.message.decode(Events.DeadLetter.self).reason == .expired)
    }

    @Test func `are bounded: one too many is refused, and changes nothing`() throws {
        let desk = try Desk()
        let event = OutboxEvent(
            topic: "work/a", message: [UInt8](repeating: 0, count: 60 << 20), epoch: 1, sequence: 1, time: 0,
            sender: nil,
            expiry: 1)
        try desk.store.addToOutbox(event, for: [desk.phone])
        var second = event
        second.message = [UInt8](repeating: 0, count: 5 << 20)
        let error = #expect(throws: KithError.self) { try desk.store.addToOutbox(second, for: [desk.phone]) }
        #expect(error?.code == .exhausted)
        #expect(try desk.store.outbox(for: desk.phone, after: 0, limit: 10).count == 1)
    }

    @Test func `wait on when the device is paired anew, and go with it when it is forgotten`() throws {
        let desk = try Desk()
        _ = try desk.publish(1)
        _ = try desk.store.add(PairedDevice(id: desk.phone, name: "phone", grants: [], pairedAt: 1))
        #expect(try desk.store.outbox(for: desk.phone, after: 0, limit: 10).count == 1)
        #expect(try desk.store.nextOutboxExpiry() != nil)
        _ = try desk.store.forget(desk.phone)
        #expect(try desk.store.nextOutboxExpiry() == nil)
    }

    @Test func `are looked at again although a batch of them is being read`() {
        let hub = ManualClock()
        let deliveries = Deliveries(clock: hub, timers: TimerQueue())
        guard let (last, look) = deliveries.room(upTo: 64) else { return }
        #expect(last == 0)
        deliveries.lookAgain()
        deliveries.passed(9, in: look)
        #expect(deliveries.room(upTo: 64)?.last == 0)
        guard let (_, now) = deliveries.room(upTo: 64) else { return }
        deliveries.passed(9, in: now)
        #expect(deliveries.room(upTo: 64)?.last == 9)
        #expect(deliveries.claim(10) && deliveries.inFlight(among: [10, 10, 11]) == [10])
    }

    @Test func `need a disk`() throws {
        let space = try HubSpace()
        let error = #expect(throws: KithError.self) {
            try space.publish(1, to: "work/a", options: PublishOptions(isGuaranteed: true))
        }
        #expect(error?.code == .closed)
    }
}
