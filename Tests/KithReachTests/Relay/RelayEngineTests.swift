import KithIdentity
import KithReach
import KithTesting
import Testing

@Suite("What a relay decides") struct RelayEngineTests {
    private let start = ContinuousClock.now
    private let key = DeviceKey().id

    @Test func `of one key the newest connection is active, and the older one learns of it`() {
        var clients = RelayClients<Int>()
        #expect(clients.add(1, of: key) == [])
        #expect(clients.add(2, of: key) == [.status(1, .elsewhere)])
        #expect(clients.active(key) == 2)
        #expect(clients.remove(2, of: key) == [.status(1, .healthy)])
        #expect(clients.active(key) == 1)
        #expect(clients.remove(1, of: key) == [.left(key)])
        #expect(clients.active(key) == nil)
        #expect(clients.remove(1, of: key) == [])
        #expect(clients.count == 0)
    }

    @Test func `the connections of one key are bounded`() {
        var clients = RelayClients<Int>()
        for link in 1...4 { _ = clients.add(link, of: key) }
        #expect(clients.add(5, of: key) == [.status(4, .elsewhere), .close(1)])
        #expect(clients.remove(1, of: key) == [])
        #expect(clients.count == 4)
        #expect(clients.remove(3, of: key) == [])
        #expect(clients.active(key) == 5)
    }

    @Test func `a client that leaves is remembered by those it sent to last`() {
        var peers = RecentPeers()
        let all = (0...RecentPeers.limit).map { _ in DeviceKey().id }
        for peer in all { peers.sent(to: peer) }
        #expect(Set(peers.all) == Set(all.dropFirst()))
    }

    @Test func `an absent device is reported at once, then each second`() {
        var reports = AbsenceReports()
        #expect(reports.isDue(key, at: start) == true)
        #expect(reports.isDue(key, at: start + .milliseconds(900)) == false)
        #expect(reports.isDue(key, at: start + .seconds(1)) == true)
        for _ in 0..<200 { _ = reports.isDue(DeviceKey().id, at: start + .seconds(1)) }
        #expect(reports.isDue(DeviceKey().id, at: start + .seconds(1)) == false)
        #expect(reports.isDue(DeviceKey().id, at: start + .seconds(2)) == true)
    }

    @Test func `keys and tokens make members, others get a reason`() {
        let access = RelayAccess(keys: [key], tokens: ["secret"])
        let other = DeviceKey().id
        #expect(RelayAccess.everyone.decide(other, token: nil) == .admit(.member))
        #expect(access.decide(key, token: nil) == .admit(.member))
        #expect(access.decide(other, token: "secret") == .admit(.member))
        #expect(access.decide(other, token: nil) == .deny("this relay wants a token"))
        #expect(access.decide(other, token: "Secret") == .deny("this relay does not know the token"))
        #expect(RelayAccess(keys: [key]).decide(other, token: "x") == .deny("this relay does not know the key"))
        #expect(RelayAccess(keys: [key], admitsGuests: true).decide(other, token: nil) == .admit(.guest))
        #expect(RelayAccess.passes(from: .guest, to: .member))
        #expect(!RelayAccess.passes(from: .guest, to: .guest))
    }

    @Test func `one address gets so many sockets and handshakes, and a /64 is one`() {
        var limits = AddressLimiter.Limits()
        (limits.sockets, limits.burst, limits.handshakesPerSecond, limits.halfOpen) = (3, 5, 1, 6)
        var limiter = AddressLimiter(limits: limits)
        let ip: [UInt8] = [192, 0, 2, 1]
        for _ in 0..<3 { #expect(limiter.open(from: ip, at: start) == true) }
        #expect(limiter.open(from: ip, at: start) == false)
        for _ in 0..<2 {
            limiter.close(from: ip)
            limiter.handshakeEnded()
            #expect(limiter.open(from: ip, at: start) == true)
        }
        limiter.close(from: ip)
        limiter.handshakeEnded()
        #expect(limiter.open(from: ip, at: start) == false, "too many handshakes a second")
        #expect(limiter.open(from: ip, at: start + .seconds(1)) == true)
        let six = [UInt8](repeating: 1, count: 16)
        var neighbour = six
        neighbour[15] = 2
        for _ in 0..<3 { #expect(limiter.open(from: six, at: start) == true) }
        #expect(limiter.open(from: neighbour, at: start) == false)
        #expect(!limiter.isCrowded)
        #expect(limiter.open(from: [192, 0, 2, 9], at: start) == true)
        #expect(limiter.isCrowded, "too many handshakes under way")
        limiter.handshakeEnded()
        #expect(!limiter.isCrowded)
    }

    @Test func `addresses without a socket are forgotten`() {
        var limiter = AddressLimiter()
        for number in 0..<10_000 {
            let ip: [UInt8] = [10, UInt8(number >> 8), UInt8(number & 255), 1]
            #expect(limiter.open(from: ip, at: start + .seconds(number)) == true)
            limiter.handshakeEnded()
            limiter.close(from: ip)
        }
        #expect(limiter.hostCount <= 1_025)
        #expect(limiter.sockets == 0)
    }

    @Test func `a device pings at once and after silence, and gives up on a dead relay`() {
        var random = SeededRandom(seed: 3)
        var alive = RelayKeepAlive(.client, at: start, using: &random)
        guard case .ping(let first) = alive.next(at: start, using: &random) else {
            Issue.record("no ping at once")
            return
        }
        #expect(alive.next(at: start, using: &random) == .wait(until: start + .seconds(5)))
        #expect(alive.received(pong: [1], at: start + .milliseconds(10)) == nil)
        #expect(alive.received(pong: first, at: start + .milliseconds(40)) == .milliseconds(40))
        let quiet = start + .milliseconds(40) + .seconds(40)
        #expect(alive.next(at: start + .seconds(1), using: &random) == .wait(until: quiet))
        guard case .ping = alive.next(at: quiet, using: &random) else {
            Issue.record("no ping after silence")
            return
        }
        // Three round trips are 120 ms; half a second is the least.
        #expect(alive.next(at: quiet, using: &random) == .wait(until: quiet + .milliseconds(500)))
        #expect(alive.next(at: quiet + .milliseconds(500), using: &random) == .dead)
    }

    @Test func `whoever is heard is not dead, and a check pings at once`() {
        var random = SeededRandom(seed: 3)
        var alive = RelayKeepAlive(.client, at: start, using: &random)
        _ = alive.next(at: start, using: &random)
        alive.heard(at: start + .seconds(4))
        #expect(alive.next(at: start + .seconds(5), using: &random) == .wait(until: start + .seconds(44)))
        alive.check()
        guard case .ping = alive.next(at: start + .seconds(6), using: &random) else {
            Issue.record("no ping when checked")
            return
        }
    }

    @Test func `a relay pings after 65 to 70 seconds of silence`() {
        var random = SeededRandom(seed: 5)
        for _ in 0..<50 {
            var alive = RelayKeepAlive(.server, at: start, using: &random)
            guard case .wait(let until) = alive.next(at: start, using: &random) else {
                Issue.record("it pings at once")
                return
            }
            #expect(until >= start + .seconds(65) && until <= start + .seconds(70))
            guard case .ping = alive.next(at: until, using: &random) else {
                Issue.record("no ping after silence")
                return
            }
            #expect(alive.next(at: until + .seconds(10), using: &random) == .dead)
        }
    }

    @Test func `a device that pings is never pinged by its relay`() {
        var random = SeededRandom(seed: 6)
        var device = RelayKeepAlive(.client, at: start, using: &random)
        var relay = RelayKeepAlive(.server, at: start, using: &random)
        var (now, pings) = (start, 0)
        while now < start + .seconds(3_600) {
            switch device.next(at: now, using: &random) {
            case .ping(let bytes):
                relay.heard(at: now)
                #expect(device.received(pong: bytes, at: now) == .zero)
                pings += 1
            case .wait(let until): now = until
            case .dead: Issue.record("it was answered")
            }
            guard case .wait = relay.next(at: now, using: &random) else {
                Issue.record("the relay pings too")
                return
            }
        }
        #expect(pings == 90)
    }

    @Test func `pauses grow from 10 ms to 16 s, and start again`() {
        var random = SeededRandom(seed: 7)
        var backoff = RelayBackoff()
        var longest = Duration.milliseconds(10)
        for _ in 0..<15 {
            let pause = backoff.next(using: &random)
            #expect(pause >= longest / 2 && pause <= longest, "\(random)")
            longest = min(longest * 2, .seconds(16))
        }
        backoff.reset()
        #expect(backoff.next(using: &random) <= .milliseconds(10))
    }

    @Test func `a relay that was there is asked again before a quarter of the time it is away has passed`() {
        var random = SeededRandom(seed: 8)
        var backoff = RelayBackoff()
        var away = Duration.zero
        var count = 0
        while away < .seconds(40) {
            let pause = backoff.next(away: away, using: &random)
            #expect(pause <= max(away / 4, .milliseconds(250)), "\(random)")
            away += pause
            count += 1
        }
        #expect(count < 50, "It is not asked more often than that needs.")
        // In the end as any other.
        for _ in 0..<20 {
            let pause = backoff.next(away: .seconds(3_600), using: &random)
            #expect(pause >= .seconds(8) && pause <= .seconds(16))
        }
    }

    @Test func `the clients of a relay that restarts come back one after the other`() {
        var random = SeededRandom(seed: 9)
        let schedule = RestartSchedule(clients: 5_000)
        let delays = (0..<5_000).map { _ in
            guard case .restarting(let delay, 30_000) = schedule.frame(using: &random) else { return UInt32.max }
            return delay
        }
        #expect((delays.min() ?? 0) >= 100)
        #expect((delays.max() ?? .max) <= 5_100)
        #expect(Set(delays).count > 2_500)
        #expect(RestartSchedule(clients: .max).spread == 10_000)
    }
}
