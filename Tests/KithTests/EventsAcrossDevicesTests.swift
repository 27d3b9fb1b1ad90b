import Kith
import KithAPI
import KithIdentity
import KithNode
import KithRPC
import KithTesting
import KithWire
import Synchronization
import Testing

/// A service that fails at its first try of number 2.
private final class Worker: Service {
    let tried = Mutex<[Int: Int]>([:])

    var handlers: [Handler] {
        [
            .on("work/*", options: SubscriptionOptions(from: .paired)) { (number: Int, event) in
                let tries = self.tried.withLock { tried in
                    tried[number, default: 0] += 1
                    return tried[number] ?? 0
                }
                if number == 2, tries == 1 { throw KithError(.internal, "As asked.") }
                try event.publish(number, to: "done")
            }
        ]
    }
}

@Suite(.timeLimit(.minutes(4))) struct `Events between devices` {
    /// Runs two devices that are paired: `phone` holds `grants` on `laptop`, and `laptop` holds `back` there.
    private func withDevices(
        grants: [Grant], back: [Grant] = [], _ body: (_ phone: Device, _ laptop: Device) async throws -> Void
    ) async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var (options, other) = (onLoopback, onLoopback)
        (options.name, other.name) = ("laptop", "phone")
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: other)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: grants)
                if !back.isEmpty {
                    _ = try await phone.client.call(
                        Devices.ChangeGrants.self, .init(device: "laptop", add: back, remove: []))
                }
                try await body(phone, laptop)
            }
        }
    }

    /// Subscribes on `device`, and waits until the other one sends what it publishes.
    private func subscribe(
        _ device: Device, to pattern: String, following other: Device, from: Events.Publishers = .paired
    ) async throws -> Subscription<Int>.AsyncIterator {
        // What is retained there comes when the subscription has arrived.
        try other.publish(-1, to: "marker", options: .init(retain: .seconds(600)))
        var options = SubscriptionOptions(from: from)
        options.buffer = 4_096
        let subscription = try device.subscribe(pattern, as: Int.self, options: options)
        let marker = try device.subscribe(
            "marker", as: Int.self, options: SubscriptionOptions(lookBack: .seconds(600), from: .paired))
        var markers = marker.makeAsyncIterator()
        #expect(try await markers.next()?.publisher == other.id)
        return subscription.makeAsyncIterator()
    }

    private let all: [Grant] = [.node(pattern: "*")]

    @Test func `published there arrive here, in their order, from the device that published them`() async throws {
        try await withDevices(grants: all) { phone, laptop in
            var events = try await subscribe(phone, to: "sensors/*/temperature", following: laptop)
            for number in 1...500 { try laptop.publish(number, to: "sensors/\(number % 3)/temperature") }
            for number in 1...500 {
                let event = try #require(try await events.next())
                #expect(event.message == number && event.publisher == laptop.id && !event.isRetained)
            }
            // What stays there, and what is its own, does not come.
            try laptop.publish(501, to: "sensors/1/temperature", options: .init(isLocal: true))
            try laptop.publish(502, to: "sensors/1/temperature")
            #expect(try await events.next()?.message == 502)
        }
    }

    @Test func `retained there come to whoever looks back here, once each, and to no other subscriber`() async throws {
        try await withDevices(grants: all) { phone, laptop in
            for number in 1...3 {
                try laptop.publish(number, to: "state/door", options: .init(retain: .seconds(600)))
            }
            try laptop.publish(9, to: "state/door", options: .init(retain: .seconds(600), isLocal: true))
            var first = try await subscribe(phone, to: "state/*", following: laptop)
            var options = SubscriptionOptions(lookBack: .seconds(600), from: .paired)
            options.retainedPerTopic = 3
            var second = try phone.subscribe("state/*", as: Int.self, options: options).makeAsyncIterator()
            for number in 2...3 {
                let event = try #require(try await second.next())
                #expect(event.message == number && event.isRetained)
            }
            try laptop.publish(4, to: "state/door")
            #expect(try await second.next()?.message == 4)
            #expect(try await first.next()?.message == 4)
        }
    }

    @Test func `come only of topics that are granted, as the grants are at that moment`() async throws {
        try await withDevices(grants: [.node(pattern: "chat/*"), .node(pattern: "marker")]) { phone, laptop in
            var events = try await subscribe(phone, to: ">", following: laptop)
            try laptop.publish(1, to: "secret/plan")
            try laptop.publish(2, to: "chat/family")
            #expect(try await events.next()?.message == 2)
            _ = try await laptop.client.call(
                Devices.ChangeGrants.self,
                .init(device: "phone", add: [.node(pattern: "secret/*")], remove: [.node(pattern: "chat/*")]))
            try laptop.publish(3, to: "chat/family")
            try laptop.publish(4, to: "secret/plan")
            #expect(try await events.next()?.message == 4)
        }
    }

    @Test func `of a device that is merely paired do not come to those who did not ask for that`() async throws {
        try await withDevices(grants: all) { phone, laptop in
            let careful = try phone.subscribe("home/door", as: Int.self)
            var open = try await subscribe(phone, to: "home/door", following: laptop)
            try laptop.publish(1, to: "home/door")
            #expect(try await open.next()?.message == 1)
            _ = try await phone.client.call(
                Devices.ChangeGrants.self, .init(device: "laptop", add: [.node(pattern: "home/*")], remove: []))
            try laptop.publish(2, to: "home/door")
            #expect(try await open.next()?.message == 2)
            var iterator = careful.makeAsyncIterator()
            #expect(try await iterator.next()?.message == 2)
        }
    }

    @Test func `that were missed while the connection was lost come afterwards`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var (options, other) = (onLoopback, onLoopback)
        (options.name, other.name) = ("laptop", "phone")
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: other)
        try await laptop.whileRunning {
            let events = try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: all)
                var events = try await subscribe(phone, to: "numbers", following: laptop)
                try laptop.publish(1, to: "numbers")
                #expect(try await events.next()?.message == 1)
                return events
            }
            for number in 2...50 { try laptop.publish(number, to: "numbers") }
            var rest = events
            try await phone.whileRunning {
                // The phone reaches the laptop by itself: it wants something of it.
                for number in 2...50 { #expect(try await rest.next()?.message == number) }
                try laptop.publish(51, to: "numbers")
                #expect(try await rest.next()?.message == 51)
            }
        }
    }

    @Test func `of a publisher that was started anew begin with a gap`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var (options, other) = (onLoopback, onLoopback)
        (options.name, other.name) = ("laptop", "phone")
        let phone = try await Device.open(directory: here.path, options: other)
        try await phone.whileRunning {
            let subscription = try phone.subscribe(
                "numbers", as: Int.self, options: SubscriptionOptions(lookBack: .seconds(600), from: .paired))
            var deliveries = subscription.deliveries.makeAsyncIterator()
            let first = try await Device.open(directory: there.path, options: options)
            try first.publish(1, to: "numbers", options: .init(retain: .seconds(600)))
            try await first.whileRunning {
                try await pair(phone, with: first, grants: all)
                guard case .event(let event)? = try await deliveries.next() else { throw CancellationError() }
                #expect(event.message == 1)
            }
            let second = try await Device.open(directory: there.path, options: options)
            try second.publish(2, to: "numbers", options: .init(retain: .seconds(600)))
            try await second.whileRunning {
                var seen: Set<String> = []
                for _ in 0..<2 {
                    switch try await deliveries.next() {
                    case .event(let event): seen.insert("\(event.message)")
                    case .gap(let gap): seen.insert("\(gap.reason) \(gap.publisher == second.id)")
                    case nil: break
                    }
                }
                #expect(seen == ["2", "restarted true"])
            }
        }
    }

    @Test func `are passed on to nobody`() async throws {
        let folders = try [TemporaryFolder(), TemporaryFolder(), TemporaryFolder()]
        var devices: [Device] = []
        for (folder, name) in zip(folders, ["a", "b", "c"]) {
            var options = onLoopback
            options.name = name
            devices.append(try await Device.open(directory: folder.path, options: options))
        }
        let (a, b, c) = (devices[0], devices[1], devices[2])
        try await a.whileRunning {
            try await b.whileRunning {
                try await c.whileRunning {
                    try await pair(b, with: a, grants: all)
                    try await pair(c, with: b, grants: all)
                    try await pair(b, with: c, grants: all)
                    var middle = try await subscribe(b, to: "topic", following: a)
                    var far = try await subscribe(c, to: "topic", following: b)
                    try a.publish(1, to: "topic")
                    let event = try #require(try await middle.next())
                    #expect(event.message == 1 && event.publisher == a.id)
                    try b.publish(2, to: "topic")
                    let next = try #require(try await far.next())
                    #expect(next.message == 2 && next.publisher == b.id)
                    // One that b publishes comes to b once.
                    #expect(try await middle.next()?.message == 2)
                    try b.publish(3, to: "topic")
                    #expect(try await middle.next()?.message == 3)
                }
            }
        }
    }

    @Test func `that are guaranteed come to a service until it has handled them, also after both were stopped`()
        async throws
    {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var (options, other) = (onLoopback, onLoopback)
        (options.name, other.name) = ("laptop", "phone")
        let phone = try await Device.open(directory: here.path, options: other)
        try await phone.whileRunning {
            let first = try await Device.open(directory: there.path, options: options)
            try await first.whileRunning { try await pair(phone, with: first, grants: all) }
        }
        let publisher = try await Device.open(directory: there.path, options: options)
        for number in 1...3 {
            let published = try publisher.publish(number, to: "work/\(number)", options: .init(isGuaranteed: true))
            #expect(published.devices == 1)
        }
        try await publisher.whileRunning {}
        let laptop = try await Device.open(directory: there.path, options: options)
        let service = Worker()
        try phone.add(service)
        var done = try phone.subscribe("done", as: Int.self).makeAsyncIterator()
        try await laptop.whileRunning {
            try await phone.whileRunning {
                var numbers: Set<Int> = []
                while numbers.count < 3 { numbers.insert(try #require(try await done.next()).message) }
                #expect(numbers == [1, 2, 3])
            }
        }
        // The second one failed at first.
        #expect(service.tried.withLock { $0[2] ?? 0 } >= 2)
    }

    // MARK: - Direct

    @Test func `are published on another device by whoever holds the topic's grant there`() async throws {
        try await withDevices(grants: [.node(pattern: "chat/*")]) { phone, laptop in
            let subscription = try laptop.subscribe("chat/*", as: String.self)
            func publish(_ topic: String) async throws {
                _ = try await phone.client.call(
                    Events.Publish.self, .init(topic: topic, message: .init("hello")), on: "laptop")
            }
            try await publish("chat/family")
            var iterator = subscription.makeAsyncIterator()
            let event = try #require(try await iterator.next())
            #expect(event.message == "hello" && event.sender == phone.id && event.publisher == laptop.id)
            for topic in ["secret/plan", "$registry/services/math/state", "chat/>", "chat:family"] {
                let error = await #expect(throws: KithError.self) { try await publish(topic) }
                #expect([.denied, .invalid].contains(error?.code), "\(topic)")
            }
        }
    }

    @Test func `of another device are subscribed to by whoever holds the grant there, as long as it does`()
        async throws
    {
        try await withDevices(grants: [.node(pattern: "chat/*")]) { phone, laptop in
            func subscribe(_ topic: String) async throws -> MethodStream<Events.Delivery, Nothing> {
                try await phone.client.open(Events.Subscribe.self, .init(topic: topic), on: "laptop").stream
            }
            for topic in [">", "secret/plan", "$registry/>"] {
                let error = await #expect(throws: KithError.self) { try await subscribe(topic) }
                #expect(error?.code == .denied, "\(topic)")
            }
            let stream = try await subscribe("chat/family")
            try laptop.publish("hello", to: "chat/family")
            guard case .event(let event)? = try await stream.receive() else { throw CancellationError() }
            #expect(try event.message.decode(String.self) == "hello")
            _ = try await laptop.client.call(
                Devices.ChangeGrants.self, .init(device: "phone", add: [], remove: [.node(pattern: "chat/*")]))
            let error = await #expect(throws: KithError.self) { try await stream.receive() }
            #expect(error?.code == .denied)
            try await eventually { try laptop.publish(1, to: "chat/family").subscribers == 0 }
        }
    }

    @Test func `a device that follows and does not read harms nobody, and is told what it lost`() async throws {
        try await withDevices(grants: all) { phone, laptop in
            let stream = try await phone.client.open(
                Events.Follow.self, .init(patterns: ["flood", "flood/>"]), on: "laptop"
            ).stream
            var here = try laptop.subscribe("flood", as: ByteString.self).makeAsyncIterator()
            let payload = ByteString([UInt8](repeating: 7, count: 64 << 10))
            var last: UInt64 = 0
            for _ in 0..<1_000 {
                last = try laptop.publish(payload, to: "flood").sequence
                #expect(try await here.next()?.sequence == last)
            }
            var (count, lost): (UInt64, UInt64) = (0, 0)
            while let item = try await stream.receive() {
                if let gap = item.gap { lost += try #require(gap.count) }
                guard let event = item.event else { continue }
                count += 1
                if event.sequence == last { break }
            }
            #expect(count + lost == 1_000 && lost > 0)
            stream.abort(.cancelled)
        }
    }

    @Test func `only another device follows`() async throws {
        try await withDevices(grants: []) { phone, _ in
            let error = await #expect(throws: KithError.self) {
                try await phone.client.open(Events.Follow.self, .init(patterns: [">"]))
            }
            #expect(error?.code == .invalid)
        }
    }

    // MARK: - Lifetime

    @Test func `a device that stops and runs again keeps its subscriptions and its retained events`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        let subscription = try device.subscribe("state", as: Int.self)
        _ = try await device.whileRunning {
            try device.publish(1, to: "state", options: .init(retain: .seconds(600)))
        }
        try device.publish(2, to: "state")
        try await device.whileRunning {
            try device.publish(3, to: "state")
            var iterator = subscription.makeAsyncIterator()
            for number in 1...3 { #expect(try await iterator.next()?.message == number) }
            let past = try device.once("state", as: Int.self, lookBack: .seconds(600))
            #expect(try await past.value().message == 1)
            // The doors have the same.
            let stream = try await device.client.open(
                named: "events.subscribe", ["topic": "state", "lookBackMilliseconds": 600_000])
            guard case .object(let delivery)? = try await stream.next(),
                case .object(let event)? = delivery["event"]
            else { throw CancellationError() }
            #expect(event["message"] == 1 && event["topic"] == "state")
            _ = try await device.client.call(
                named: "events.publish", ["topic": "state", "message": ["n": [1, .null]]])
            guard case .object(let next)? = try await stream.next(), case .object(let live)? = next["event"]
            else { throw CancellationError() }
            #expect(live["message"] == ["n": [1, .null]])
            stream.cancel()
        }
    }
}
