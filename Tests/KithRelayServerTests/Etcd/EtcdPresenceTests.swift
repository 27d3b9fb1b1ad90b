import KithIdentity
import KithReach
import KithTesting
import KithWire
import Testing

@testable import KithRelayServer

@Suite("A relay's rows in etcd") struct EtcdPresenceTests {
    private let start = ContinuousClock.now
    private let a = DeviceKey().id
    private let b = DeviceKey().id

    private func relay(_ load: Int = 0) throws -> EtcdRelay {
        EtcdRelay(url: try #require(RelayAddress("https://relay.example")), load: load, region: "")
    }

    private func leased(_ devices: Set<DeviceID> = []) throws -> EtcdPresence {
        var presence = EtcdPresence(try relay())
        #expect(presence.next(at: start) { _ in true } == .grant(seconds: 20))
        presence.granted(7, seconds: 20, devices: devices, at: start)
        return presence
    }

    @Test func `all is written on one lease, which is kept alive, and nothing again that stays`() throws {
        var presence = try leased([a])
        #expect(presence.next(at: start) { _ in true } == .write(lease: 7, relay: try relay(), came: [a], went: []))
        presence.began([a])
        presence.wrote(try relay(), at: start)
        #expect(presence.next(at: start) { _ in true } == .wait(until: start + .seconds(5)))
        #expect(presence.next(at: start + .seconds(5)) { _ in true } == .keepAlive(lease: 7))
        presence.keptAlive(seconds: 20, at: start + .seconds(5))
        #expect(presence.next(at: start + .seconds(5)) { _ in true } == .wait(until: start + .seconds(10)))
    }

    @Test func `who comes and goes before it is written is written as it is`() throws {
        var presence = try leased()
        presence.noted(a)
        presence.noted(b)
        let (mine, here) = (try relay(), a)
        #expect(
            presence.next(at: start) { $0 == here } == .write(lease: 7, relay: mine, came: [a], went: [b]))
        presence.began([a, b])
        presence.noted(a)
        presence.wrote(mine, at: start)
        #expect(presence.next(at: start) { _ in false } == .write(lease: 7, relay: nil, came: [], went: [a]))
    }

    @Test func `the number of clients is written each ten seconds, if it changes`() throws {
        var presence = try leased()
        presence.wrote(try relay(), at: start)
        presence.noted(load: 3)
        #expect(presence.next(at: start) { _ in true } == .wait(until: start + .seconds(5)))
        presence.keptAlive(seconds: 20, at: start + .seconds(9))
        #expect(presence.next(at: start + .seconds(9)) { _ in true } == .wait(until: start + .seconds(10)))
        #expect(
            presence.next(at: start + .seconds(10)) { _ in true }
                == .write(lease: 7, relay: try relay(3), came: [], went: []))
    }

    @Test func `a lease that ran out is taken anew, and everything written again`() throws {
        var presence = try leased([a])
        presence.began([a])
        presence.wrote(try relay(), at: start)
        presence.keptAlive(seconds: 0, at: start)
        #expect(presence.next(at: start) { _ in true } == .grant(seconds: 20))
        presence.granted(8, seconds: 20, devices: [a, b], at: start)
        guard case .write(8, .some, let came, []) = presence.next(at: start, isHere: { _ in true }) else {
            Issue.record("nothing is written")
            return
        }
        #expect(Set(came) == [a, b])
    }

    @Test func `after a failure there is a pause, and nothing is forgotten`() throws {
        var presence = try leased([a])
        presence.began([a])
        presence.failed([a], until: start + .seconds(1))
        #expect(presence.next(at: start) { _ in true } == .wait(until: start + .seconds(1)))
        #expect(
            presence.next(at: start + .seconds(1)) { _ in true }
                == .write(lease: 7, relay: try relay(), came: [a], went: []))
    }

    @Test func `a thousand clients are written in parts`() throws {
        let devices = Set((0..<1_000).map { _ in DeviceKey().id })
        var presence = try leased(devices)
        var (written, steps): (Set<DeviceID>, Int) = ([], 0)
        while case .write(_, let relay, let came, []) = presence.next(at: start, isHere: { _ in true }) {
            #expect(came.count < EtcdPresence.batchLimit)
            presence.began(came)
            presence.wrote(relay, at: start)
            written.formUnion(came)
            steps += 1
        }
        #expect(written == devices && steps == 16)
    }
}
