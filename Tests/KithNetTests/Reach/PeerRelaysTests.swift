import KithIdentity
import KithReach
import Testing

@testable import KithNet

/// The bounds on what other devices can have this one connect to.
@Suite struct PeerRelaysTests {
    private let start = ContinuousClock.now
    private let device = DeviceKey().id

    private func relay(_ number: Int) throws -> RelayAddress {
        try #require(RelayAddress("http://192.0.2.\(number / 250 + 1):\(number % 250 + 1)"))
    }

    private func relays(_ numbers: Int...) throws -> [RelayAddress] { try numbers.map { try relay($0) } }

    @Test func `a device is looked for at two relays`() throws {
        var peers = PeerRelays()
        #expect(try peers.use(relays(1, 2, 3), for: device, own: [], at: start) == relays(1, 2))
        try peers.announced(relays(4, 5, 6), by: device, own: [], at: start)
        #expect(try peers.relays(of: device) == relays(4, 5))
    }

    @Test func `all devices have sixteen, and those of this device come on top`() throws {
        var peers = PeerRelays()
        for number in 0..<20 {
            let given = try relays(2 * number, 2 * number + 1)
            _ = peers.use(given, for: DeviceKey().id, own: [], at: start)
        }
        #expect(peers.relays.count == 16)
        let own = try Set(relays(100))
        #expect(try peers.use(relays(100, 101), for: device, own: own, at: start) == relays(100))
        // One that leads to another device leads to this one, too.
        #expect(try peers.use(relays(3, 102), for: device, own: own, at: start) == relays(3))
        peers.expire(at: start + .seconds(60)) { $0 == device }
        #expect(try peers.relays == Set(relays(3)))
        #expect(try peers.use(relays(101), for: DeviceKey().id, own: own, at: start) == relays(101))
    }

    @Test func `a device chooses others every ten seconds at most, and the last word counts`() throws {
        var peers = PeerRelays()
        try peers.announced(relays(1), by: device, own: [], at: start)
        for number in 2..<200 {
            try peers.announced(relays(number), by: device, own: [], at: start + .milliseconds(number))
        }
        #expect(try peers.relays == Set(relays(1)))
        #expect(peers.nextDeadline == start + .seconds(10))
        #expect(peers.applyPending(own: [], at: start + .seconds(9)).isEmpty)
        #expect(peers.applyPending(own: [], at: start + .seconds(10)) == [device])
        #expect(try peers.relays == Set(relays(199)))
        #expect(peers.nextDeadline == nil)
        peers.remove(device)
        #expect(peers.relays.isEmpty)
    }

    @Test func `a device that was at no relay need not wait until it is found at one`() throws {
        var peers = PeerRelays()
        peers.announced([], by: device, own: [], at: start)
        try peers.announced(relays(1), by: device, own: [], at: start + .milliseconds(20))
        #expect(try peers.relays == Set(relays(1)))
        // It comes to others by way of none no sooner.
        peers.announced([], by: device, own: [], at: start + .milliseconds(30))
        try peers.announced(relays(2), by: device, own: [], at: start + .milliseconds(40))
        #expect(try peers.relays == Set(relays(1)))
    }

    @Test(arguments: [
        "http://127.0.0.1:80", "http://127.9.9.9:80", "http://[::1]:80", "http://localhost:80", "http://a.localhost:80",
        "http://169.254.169.254", "http://[fe80::1]:80", "http://[::ffff:127.0.0.1]:80",
    ])
    func `no device sends another to services of its own machine or link`(text: String) throws {
        #expect(try #require(RelayAddress(text)).mayBeNamedByPeers == false)
    }

    @Test(arguments: [
        "0.0.0.0:80", "[::]:80", "[::ffff:0.0.0.0]:80", "127.0.0.1:80", "[::1]:80", "169.254.169.254:80",
        "[ff02::1]:80",
    ])
    func `no name of a relay leads to this machine, its link or everybody`(text: String) throws {
        #expect(try #require(NetworkAddress(text)).mayBeNamedByPeers == false)
        #expect(try #require(NetworkAddress("192.0.2.1:80")).mayBeNamedByPeers)
    }

    @Test(arguments: ["http://192.168.1.7:3340", "https://relay.example.org", "http://[fd00::1]:80"])
    func `relays elsewhere may be named`(text: String) throws {
        #expect(try #require(RelayAddress(text)).mayBeNamedByPeers)
    }
}
