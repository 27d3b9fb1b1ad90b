import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// What a device believes of what it hears on its network, and when it announces itself; no socket, no clock.
@Suite struct DiscoveryEngineTests {
    /// Two devices, the time as both have it, and what the one has heard.
    private struct Scene {
        let own = DeviceKey()
        let other = DeviceKey()
        var now = ContinuousClock.now
        var time: UInt64 = 1_800_000_000_000
        var engine: DiscoveryEngine

        init() {
            engine = DiscoveryEngine(
                id: own.id, interval: .seconds(30), lastNumber: 0, random: SeededRandom(seed: 14), at: now)
        }

        mutating func pass(_ seconds: Int) {
            now += .seconds(seconds)
            time += UInt64(seconds) * 1_000
        }

        func announcement(
            _ number: UInt64? = nil, at addresses: [NetworkAddress] = [.host(7)], lifetime: UInt32 = 90,
            by key: DeviceKey? = nil
        ) throws -> ReceivedAnnouncement {
            let key = key ?? other
            let made = LocalAnnouncement(
                id: key.id, number: number ?? time, lifetime: lifetime, addresses: addresses)
            return try ReceivedAnnouncement(made.signed(by: key))
        }

        mutating func hear(
            _ announcement: ReceivedAnnouncement, isKnown: Bool = true, isFromHere: Bool = false
        ) -> DiscoveryEngine.Reception {
            engine.receive(announcement, isKnown: isKnown, isFromHere: isFromHere, at: now, time: time)
        }
    }

    @Test func `a paired device is found, moves, and leaves`() throws {
        var scene = Scene()
        let id = scene.other.id
        #expect(scene.hear(try scene.announcement()) == .found(id, [.host(7)]))
        #expect(scene.engine.addresses(of: id) == [.host(7)])
        scene.pass(30)
        #expect(scene.hear(try scene.announcement()) == .renewed(id))
        scene.pass(30)
        // The address of before stays behind the new one: another interface may still announce it.
        #expect(scene.hear(try scene.announcement(at: [.host(8)])) == .moved(id, [.host(8), .host(7)]))
        scene.pass(30)
        #expect(scene.hear(try scene.announcement(at: [.host(8)])) == .renewed(id))
        #expect(scene.engine.addresses(of: id) == [.host(8)])
        #expect(scene.hear(try scene.announcement(scene.time + 1, at: [], lifetime: 0)) == .left(id))
        #expect(scene.engine.addresses(of: id).isEmpty && scene.engine.heard.isEmpty)
    }

    @Test func `what a device says on several interfaces at once belongs together`() throws {
        var scene = Scene()
        let id = scene.other.id
        #expect(scene.hear(try scene.announcement(at: [.host(7)])) == .found(id, [.host(7)]))
        #expect(scene.hear(try scene.announcement(at: [.host(9)])) == .moved(id, [.host(7), .host(9)]))
        // The next round, in the other order, is no news.
        scene.pass(30)
        #expect(scene.hear(try scene.announcement(at: [.host(9)])) == .renewed(id))
        #expect(scene.hear(try scene.announcement(at: [.host(7)])) == .renewed(id))
        #expect(scene.engine.addresses(of: id) == [.host(9), .host(7)])
    }

    @Test func `on a network only its own addresses are believed, if that is all that may be named`() throws {
        var scene = Scene()
        let near = NetworkAddress(ipv4: (10, 9, 0, 7), port: 4_433)
        let far = NetworkAddress(ipv4: (192, 168, 1, 1), port: 4_433)
        func hear(_ addresses: [NetworkAddress], lifetime: UInt32 = 90) throws -> DiscoveryEngine.Reception {
            scene.pass(1)
            let announcement = try scene.announcement(at: addresses, lifetime: lifetime)
            return scene.engine.receive(
                announcement, isKnown: true, isFromHere: false,
                networks: [NetworkPrefix(of: NetworkAddress(ipv4: (10, 9, 0, 1), port: 0), length: 24)], at: scene.now,
                time: scene.time)
        }
        let id = scene.other.id
        #expect(try hear([far]) == .refused(.otherNetwork))
        #expect(try hear([]) == .refused(.otherNetwork))
        #expect(try hear([far, near]) == .found(id, [near]))
        #expect(try hear([], lifetime: 0) == .left(id))
    }

    @Test func `a device that falls silent is gone when what it said last holds no more`() throws {
        var scene = Scene()
        _ = scene.hear(try scene.announcement(lifetime: 90))
        scene.pass(89)
        #expect(scene.engine.timedOut(at: scene.now, time: scene.time).gone.isEmpty)
        #expect(scene.engine.nextDeadline <= scene.now + .seconds(1))
        scene.pass(1)
        #expect(scene.engine.timedOut(at: scene.now, time: scene.time).gone == [scene.other.id])
        #expect(scene.engine.addresses(of: scene.other.id).isEmpty)
        #expect(scene.engine.timedOut(at: scene.now, time: scene.time).gone.isEmpty)
        #expect(scene.hear(try scene.announcement()) == .found(scene.other.id, [.host(7)]))
    }

    @Test func `repetitions and older announcements are refused, also after a goodbye and after a silence`() throws {
        var scene = Scene()
        let first = try scene.announcement()
        _ = scene.hear(first)
        #expect(scene.hear(first) == .refused(.old))
        #expect(scene.hear(try scene.announcement(scene.time - 1, at: [.host(66)])) == .refused(.old))
        let goodbye = try scene.announcement(scene.time + 1, at: [], lifetime: 0)
        scene.pass(1)
        _ = scene.hear(goodbye)
        scene.pass(1)
        #expect(scene.hear(first) == .refused(.old))
        #expect(scene.hear(goodbye) == .refused(.old))
        // Again there; the old goodbye does not send it away.
        _ = scene.hear(try scene.announcement())
        #expect(scene.hear(goodbye) == .refused(.old))
        #expect(scene.engine.addresses(of: scene.other.id) == [.host(7)])
        scene.pass(600)
        _ = scene.engine.timedOut(at: scene.now, time: scene.time)
        #expect(scene.hear(first) == .refused(.old))
    }

    @Test func `an announcement recorded days ago is not believed by a device that hears for the first time`() throws {
        var scene = Scene()
        let recorded = try scene.announcement()
        scene.pass(86_401)
        #expect(scene.hear(recorded) == .refused(.otherTime))
        #expect(scene.hear(try scene.announcement(.max)) == .refused(.otherTime))
        #expect(scene.hear(try scene.announcement(0)) == .refused(.otherTime))
    }

    @Test func `a forged announcement and a forged goodbye change nothing`() throws {
        var scene = Scene()
        _ = scene.hear(try scene.announcement())
        scene.pass(1)
        let attacker = DeviceKey()
        for (lifetime, addresses) in [(90 as UInt32, [NetworkAddress.host(66)]), (0, [])] {
            // Signed by another key, under the device's id.
            let real = LocalAnnouncement(
                id: scene.other.id, number: scene.time, lifetime: lifetime, addresses: addresses)
            let signed = LocalAnnouncement(
                id: attacker.id, number: scene.time, lifetime: lifetime, addresses: addresses)
            var bytes = try signed.signed(by: attacker)
            let place = try #require(bytes.firstRange(of: attacker.id.bytes))
            bytes.replaceSubrange(place, with: scene.other.id.bytes)
            let forged = try ReceivedAnnouncement(bytes)
            #expect(forged.claim == real)
            #expect(!forged.isGenuine)
            #expect(scene.hear(forged) == .refused(.forged))
        }
        #expect(scene.engine.addresses(of: scene.other.id) == [.host(7)])
    }

    @Test func `unpaired devices, however many, push nobody out and cost no signature`() throws {
        var scene = Scene()
        _ = scene.hear(try scene.announcement())
        for _ in 0..<300 {
            let unpaired = try scene.announcement(at: [.host(66)], by: DeviceKey())
            #expect(scene.hear(unpaired, isKnown: false) == .refused(.unpaired))
        }
        #expect(scene.engine.heard.map(\.id) == [scene.other.id])
        #expect(scene.engine.refused == [.unpaired: 300])
        // As many signatures as ever are left for the paired one.
        scene.time += 1
        #expect(scene.hear(try scene.announcement()) == .renewed(scene.other.id))
        #expect(scene.hear(try scene.announcement(by: scene.own)) == .refused(.own))
    }

    @Test func `a flood under one device's name leaves time for the others`() throws {
        var scene = Scene()
        let victim = scene.other.id
        let attacker = DeviceKey()
        let third = DeviceKey()
        var outcomes: [DiscoveryEngine.Reception: Int] = [:]
        for number in 0..<400 as Range<UInt64> {
            let made = LocalAnnouncement(
                id: attacker.id, number: scene.time + number, lifetime: 90, addresses: [.host(66)])
            var bytes = try made.signed(by: attacker)
            let place = try #require(bytes.firstRange(of: attacker.id.bytes))
            bytes.replaceSubrange(place, with: victim.bytes)
            outcomes[scene.hear(try ReceivedAnnouncement(bytes)), default: 0] += 1
        }
        #expect(
            outcomes == [
                .refused(.forged): SignatureBudget.perDevice, .refused(.tooMany): 400 - SignatureBudget.perDevice,
            ])
        #expect(scene.hear(try scene.announcement(by: third)) == .found(third.id, [.host(7)]))
        scene.pass(1)
        #expect(scene.hear(try scene.announcement()) == .found(victim, [.host(7)]))
    }

    @Test func `addresses that lead nowhere, or to this machine, are not taken over`() throws {
        var scene = Scene()
        let loopback = NetworkAddress(ipv4: (127, 0, 0, 1), port: 9)
        let all: [NetworkAddress] = [
            .host(7), loopback, NetworkAddress(ipv4: 0, port: 9), NetworkAddress(ipv4: (224, 0, 0, 1), port: 9),
            NetworkAddress(ipv4: (10, 0, 0, 1), port: 0), NetworkAddress(ipv6: 0xFE80 << 48, 1, port: 9),
        ]
        #expect(scene.hear(try scene.announcement(at: all)) == .found(scene.other.id, [.host(7)]))
        scene.pass(1)
        let here = scene.hear(try scene.announcement(at: all), isFromHere: true)
        #expect(here == .moved(scene.other.id, [.host(7), loopback]))
    }

    @Test func `announcements are quick at the start and after a change, then regular, never two at once`() {
        var scene = Scene()
        let begin = scene.now
        func times(until end: Duration) -> [Double] {
            var found: [Double] = []
            while scene.engine.nextDeadline - begin <= end {
                scene.now = scene.engine.nextDeadline
                if scene.engine.timedOut(at: scene.now, time: scene.time).announcement != nil {
                    found.append((scene.now - begin) / .seconds(1))
                }
            }
            return found
        }
        #expect(times(until: .seconds(10)) == [0, 0.25, 1, 4])
        let regular = times(until: .seconds(300))
        #expect((8...13).contains(regular.count))
        let pauses = zip(regular, regular.dropFirst()).map { $1 - $0 }
        #expect(pauses.allSatisfy { (24...36).contains($0) } && Set(pauses).count > 1)
        // Three changes within the debounce are one.
        for _ in 0..<3 { scene.engine.addressesChanged(at: scene.now) }
        let changed = (scene.now - begin) / .seconds(1)
        let after = times(until: .seconds(changed + 5)).map { (($0 - changed) * 1_000).rounded() }
        #expect(after == [100, 350, 1_100, 4_100] || after == [50, 300, 1_050, 4_050])
    }

    @Test func `a device that comes is answered within a fraction of a second, once`() throws {
        var scene = Scene()
        while scene.engine.nextDeadline < scene.now + .seconds(10) {
            scene.now = max(scene.now, scene.engine.nextDeadline)
            _ = scene.engine.timedOut(at: scene.now, time: scene.time)
        }
        #expect(scene.engine.nextDeadline > scene.now + .seconds(5))
        scene.pass(1)
        _ = scene.hear(try scene.announcement())
        #expect(scene.engine.nextDeadline <= scene.now + .milliseconds(120))
        scene.now = scene.engine.nextDeadline
        #expect(scene.engine.timedOut(at: scene.now, time: scene.time).announcement != nil)
        scene.time += 1
        _ = scene.hear(try scene.announcement())
        #expect(scene.engine.nextDeadline > scene.now + .seconds(5))
    }

    @Test func `a device's numbers only grow, across restarts and a clock that is set back`() {
        let key = DeviceKey()
        let now = ContinuousClock.now
        func engine(_ last: UInt64) -> DiscoveryEngine {
            DiscoveryEngine(
                id: key.id, interval: .seconds(30), lastNumber: last, random: SeededRandom(seed: 1), at: now)
        }
        var first = engine(0)
        #expect(first.nextNumber(1_000_000) == 1_000_000)
        #expect(first.nextNumber(1_000_000) == 1_000_001)
        #expect(first.nextNumber(500) == 1_000_002)
        var second = engine(first.lastNumber)
        #expect(second.nextNumber(600) == 1_000_003)
        // One that comes from a clock that was years ahead is given up: nobody would believe what follows it.
        var third = engine(.max)
        #expect(third.nextNumber(700) == 700)
    }

    @Test func `more devices than are kept do not push out those that are`() throws {
        var scene = Scene()
        _ = scene.hear(try scene.announcement())
        var found = 1
        for _ in 0..<DiscoveryEngine.maxDevices + 20 {
            // Time for as many signatures as there are.
            scene.now += .milliseconds(50)
            if case .found = scene.hear(try scene.announcement(lifetime: 3_600, by: DeviceKey())) { found += 1 }
        }
        #expect(found == DiscoveryEngine.maxDevices)
        #expect(scene.engine.heard.contains { $0.id == scene.other.id })
        #expect(scene.engine.refused[.tooMany] == 21)
    }
}

extension NetworkAddress {
    /// An address of a local network.
    fileprivate static func host(_ number: UInt8) -> NetworkAddress {
        NetworkAddress(ipv4: (192, 168, 1, number), port: 4_433)
    }
}
