import KithIdentity
import KithQUIC
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import KithNet

/// Devices that meet at real relays.
@Suite(.timeLimit(.minutes(4))) struct DeviceReachTests {
    /// A device: its endpoint, and what keeps it where others reach it.
    private struct Member: Sendable {
        let endpoint: Endpoint
        let reach: DeviceReach
        let kept: Kept
    }

    /// What a device remembers.
    private final class Kept: Sendable {
        private let state = Mutex<(own: [RelayAddress], others: [DeviceID: [RelayAddress]])>(([], [:]))

        var own: [RelayAddress] { state.withLock { $0.own } }
        func relays(of device: DeviceID) -> [RelayAddress] { state.withLock { $0.others[device] } ?? [] }
        func keep(_ relays: [RelayAddress]) { state.withLock { $0.own = relays } }
        func keep(_ relays: [RelayAddress], of device: DeviceID) { state.withLock { $0.others[device] = relays } }
    }

    private let silent = Logger(label: "test", factory: SwiftLogNoOpLogHandler.init)

    private func withRelay(
        _ change: (inout RelayServerOptions) -> Void = { _ in },
        _ body: (RelayServer, RelayAddress) async throws -> Void
    ) async throws {
        var options = RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
        change(&options)
        let server = try await RelayServer.open(options, logger: silent)
        do {
            try await body(server, try #require(RelayAddress("http://\(server.address)")))
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    /// A device at relays, on the loopback, whose addresses are told to nobody.
    private func withMember(
        at relays: [RelayAddress], endpoint options: Endpoint.Options = Endpoint.Options(),
        _ change: (inout DeviceReach.Options) -> Void = { _ in }, _ body: (Member) async throws -> Void
    ) async throws {
        let key = DeviceKey()
        var options = options
        options.findsPaths = true
        try await withEndpoint(key: key, options) { endpoint in
            var settings = DeviceReach.Options()
            settings.relays = relays
            change(&settings)
            let kept = Kept()
            let reach = DeviceReach(
                key: key, endpoint: endpoint, options: settings,
                store: DeviceReach.RelayStore(
                    relays: { kept.relays(of: $0) }, keepRelays: { kept.keep($1, of: $0) },
                    keepOwnRelays: { relays, _ in kept.keep(relays) }),
                logger: silent)
            let running = Task { await reach.run() }
            do {
                try await body(Member(endpoint: endpoint, reach: reach, kept: kept))
            } catch {
                reach.stop()
                await running.value
                throw error
            }
            reach.stop()
            await running.value
        }
    }

    /// Has something answered across a connection.
    private func exchange(_ connection: Connection, _ other: Connection) async throws {
        let near = try await connection.openStream()
        try await near.write([1])
        try await near.finish()
        let far = try await next(other.incomingStreams)
        #expect(try await far.readAll() == [1])
        try await far.write([2])
        try await far.finish()
        #expect(try await near.readAll() == [2])
    }

    @Test(.enabled(if: PythonPeer.isInstalled("asyncio")))
    func `two devices meet at a relay that only their proxy reaches`() async throws {
        struct Line: Decodable { var port: UInt16? }
        try await withRelay { server, _ in
            try await PythonPeer.run("hostile_network.py", ["proxy", "\(server.address)", "who:word"]) { peer in
                let port = try #require(try await peer.next(Line.self).port)
                let proxy = try ProxyServer("http://who:word@127.0.0.1:\(port)")
                let relay = try #require(RelayAddress("http://relay.example"))
                try await withMember(at: [relay], { $0.proxy = ProxySettings(proxy) }) { callee in
                    try await eventually { callee.reach.status.home == relay }
                    #expect(callee.reach.status.relays.map(\.route) == [.through(proxy)])
                    try await withMember(at: [], { $0.proxy = ProxySettings(proxy) }) { caller in
                        caller.reach.note([relay], of: callee.endpoint.id)
                        let connection = try await caller.reach.connect(
                            to: callee.endpoint.id, at: [], timeout: .seconds(60))
                        try await exchange(connection, try await next(callee.endpoint.established))
                    }
                }
            }
        }
    }

    @Test func `a device is dialed at its relay, says itself where it is, and is remembered there`() async throws {
        try await withRelay { _, relay in
            try await withMember(at: [relay]) { callee in
                try await eventually { callee.reach.status.home == relay }
                try await withMember(at: []) { caller in
                    let id = callee.endpoint.id
                    await #expect(throws: KithError(.unreachable, "")) {
                        _ = try await caller.reach.connect(to: id, at: [], timeout: .seconds(60))
                    }
                    caller.reach.note([relay], of: id)
                    let connection = try await caller.reach.connect(to: id, at: [], timeout: .seconds(60))
                    let incoming = try await next(callee.endpoint.established)
                    try await exchange(connection, incoming)
                    let used = try #require(await connection.statistics().paths.first?.relay)
                    #expect(caller.reach.url(of: used) == relay.description)
                    try await eventually { caller.kept.relays(of: id) == [relay] }
                    #expect(caller.reach.announcedRelays.isEmpty)
                    await caller.reach.adopt([relay])
                    #expect(caller.kept.own == [relay])
                    try await eventually { caller.reach.status.home == relay }
                    // Those it has stay: another invitation changes nothing.
                    await caller.reach.adopt([try #require(RelayAddress("http://127.0.0.1:1"))])
                    #expect(caller.reach.announcedRelays == [relay])
                }
            }
        }
    }

    @Test func `a device that is there for one command dials through its relays, and changes nothing about them`()
        async throws
    {
        try await withRelay({ $0.access = RelayAccess(tokens: ["sesame"]) }) { server, relay in
            try await withMember(at: [relay], { $0.tokens = [relay: "sesame"] }) { callee in
                try await eventually { callee.reach.status.home == relay }
                try await withMember(
                    at: [relay], { ($0.attaches, $0.tokens) = (false, [relay: "sesame"]) }
                ) { caller in
                    #expect(caller.reach.announcedRelays == [relay])
                    await caller.reach.adopt([try #require(RelayAddress("http://127.0.0.1:1"))])
                    #expect(caller.reach.announcedRelays == [relay] && caller.kept.own.isEmpty)
                    #expect(server.clientCount == 1)
                    caller.reach.note([relay], of: callee.endpoint.id)
                    let connection = try await caller.reach.connect(
                        to: callee.endpoint.id, at: [], timeout: .seconds(60))
                    try await exchange(connection, try await next(callee.endpoint.established))
                    #expect(caller.reach.status.home == nil)
                }
            }
        }
    }

    @Test func `addresses that lead nowhere do not keep a device from being reached at its relay`() async throws {
        try await withRelay { _, relay in
            try await withMember(at: [relay]) { callee in
                try await eventually { callee.reach.status.home == relay }
                try await withMember(at: []) { caller in
                    caller.reach.note([relay], of: callee.endpoint.id)
                    // The machine says at once that nobody listens there.
                    let stale = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 1)]
                    let connection = try await caller.reach.connect(
                        to: callee.endpoint.id, at: stale, timeout: .seconds(20))
                    try await exchange(connection, try await next(callee.endpoint.established))
                }
            }
        }
    }

    @Test func `an attempt ends when its time is up, and when it is cancelled, whatever the relay does`() async throws {
        // Takes connections, and says nothing.
        let silent = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(
            host: "127.0.0.1", port: 0
        ).get()
        let port = try #require(silent.localAddress?.port)
        let relay = try #require(RelayAddress("http://127.0.0.1:\(port)"))
        try await withMember(at: []) { caller in
            let device = DeviceKey().id
            caller.reach.note([relay], of: device)
            await #expect(throws: KithError(.timedOut, "")) {
                _ = try await caller.reach.connect(to: device, at: [], timeout: .milliseconds(300))
            }
            let attempt = Task {
                try await caller.reach.connect(to: device, at: [], timeout: .seconds(1_000))
            }
            attempt.cancel()
            await #expect(throws: (any Error).self) { _ = try await attempt.value }
        }
        try await silent.close()
    }

    @Test func `a known device is reached again while its directories are down or silent`() async throws {
        let silent = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(
            host: "127.0.0.1", port: 0
        ).get()
        let port = try #require(silent.localAddress?.port)
        let (down, mute) = (
            try #require(DirectoryAddress("http://127.0.0.1:1")),
            try #require(DirectoryAddress("http://127.0.0.1:\(port)"))
        )
        try await withRelay { _, relay in
            try await withMember(at: [relay]) { callee in
                try await eventually { callee.reach.status.home == relay }
                let id = callee.endpoint.id
                let directories = try DirectoryClient([down, mute])
                try await withMember(at: [], { $0.directories = directories }) { caller in
                    caller.reach.note([relay], of: id)
                    for _ in 0..<2 {
                        let connection = try await caller.reach.connect(to: id, at: [], timeout: .seconds(60))
                        let incoming = try await next(callee.endpoint.established)
                        try await exchange(connection, incoming)
                        connection.close()
                        _ = await incoming.closed()
                    }
                    // One that nobody knows is said to be out of reach.
                    await #expect(throws: KithError(.unreachable, "")) {
                        _ = try await caller.reach.connect(to: DeviceKey().id, at: [], timeout: .seconds(60))
                    }
                }
            }
        }
        try await silent.close()
    }

    @Test func `what a peer announces is used and kept, but not what leads to this very machine`() async throws {
        try await withRelay { _, relay in
            try await withMember(at: [relay]) { callee in
                try await withMember(at: []) { caller in
                    try await eventually { callee.reach.status.home == relay }
                    let addresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: callee.endpoint.port)]
                    let connection = try await caller.reach.connect(
                        to: callee.endpoint.id, at: addresses, timeout: .seconds(60))
                    try await exchange(connection, try await next(callee.endpoint.established))
                    // The relay of this test is at the loopback: announced, and not used.
                    for _ in 0..<20 {
                        // Real time: what must not happen has some in which it could.
                        try await Task.sleep(for: .milliseconds(20))
                        #expect(caller.reach.status.relays.isEmpty)
                    }
                    #expect(caller.kept.relays(of: callee.endpoint.id).isEmpty)
                }
            }
        }
    }

    @Test func `a device is reached the way that is preferred for it, or not at all`() async throws {
        try await withRelay { server, relay in
            try await withMember(at: [relay]) { callee in
                try await eventually { callee.reach.status.home == relay }
                let id = callee.endpoint.id
                let addresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: callee.endpoint.port)]
                try await withMember(at: []) { caller in
                    caller.reach.note([relay], of: id)
                    await caller.reach.set(.relay, for: id)
                    #expect(caller.reach.addresses(addresses, for: id).isEmpty)
                    let connection = try await caller.reach.connect(to: id, at: addresses, timeout: .seconds(60))
                    #expect(await connection.statistics().paths.first?.relay != nil)
                    // The loopback is announced to nobody, so nothing direct will be found.
                    let number = await caller.reach.hold(.direct, for: id)
                    let error = await #expect(throws: KithError.self) {
                        _ = try await caller.reach.connect(to: id, at: addresses, timeout: .milliseconds(200))
                    }
                    #expect(error?.code == .unreachable && error?.message.contains("reached directly only") == true)
                    #expect(error?.message.contains("without --path direct") == true)
                    await caller.reach.release(number, of: id)
                    _ = try await caller.reach.connect(to: id, at: addresses, timeout: .seconds(60))
                    await caller.reach.set(.local, for: id)
                    let outside = [NetworkAddress(ipv4: (203, 0, 113, 1), port: 9)]
                    #expect(caller.reach.addresses(addresses + outside, for: id) == addresses)
                    // No relay is kept for whom none is used.
                    try await eventually { caller.reach.status.relays.isEmpty }
                    let other = await #expect(throws: KithError.self) {
                        _ = try await caller.reach.connect(to: id, at: addresses, timeout: .milliseconds(200))
                    }
                    #expect(other?.message.contains("not on this network") == true)
                    connection.close()
                    // Once nothing leads through the relay any more, the address is dialed.
                    let direct = try await caller.reach.connect(to: id, at: addresses, timeout: .seconds(60))
                    #expect(await direct.statistics().paths.first?.relay == nil)
                }
                try await withMember(at: [relay], { $0.preference = .local }) { caller in
                    caller.reach.note([relay], of: id)
                    #expect(caller.reach.announcedRelays.isEmpty)
                    await #expect(throws: KithError(.unreachable, "")) {
                        _ = try await caller.reach.connect(
                            to: id, at: [NetworkAddress(ipv4: (203, 0, 113, 1), port: 9)], timeout: .seconds(60))
                    }
                    #expect(server.clientCount == 1)
                    await caller.reach.set(.auto, for: nil)
                    try await eventually { caller.reach.status.home == relay }
                    await caller.reach.set(.local, for: nil)
                    try await eventually { server.clientCount == 1 }
                }
            }
        }
    }

    @Test func `a device that is not at its relay is known to be away at once, and a relay that is none is named`()
        async throws
    {
        try await withRelay { _, relay in
            try await withMember(at: []) { caller in
                let absent = DeviceKey().id
                caller.reach.note([relay], of: absent)
                await #expect(throws: KithError(.unreachable, "")) {
                    _ = try await caller.reach.connect(to: absent, at: [], timeout: .seconds(100))
                }
                let lost = DeviceKey().id
                caller.reach.note([try #require(RelayAddress("http://127.0.0.1:1"))], of: lost)
                let error = await #expect(throws: KithError.self) {
                    _ = try await caller.reach.connect(to: lost, at: [], timeout: .seconds(100))
                }
                #expect(error?.code == .unreachable && error?.message.contains("http://127.0.0.1:1") == true)
            }
        }
    }

    @Test func `a connection goes on through the standby when its relay goes for good`() async throws {
        try await withRelay { second, standby in
            try await withRelay { first, home in
                try await withMember(at: [home, standby]) { callee in
                    try await withMember(at: [home, standby]) { caller in
                        for member in [callee, caller] {
                            try await eventually {
                                Set([member.reach.status.home, member.reach.status.standby]) == [home, standby]
                            }
                        }
                        let id = callee.endpoint.id
                        caller.reach.note([home], of: id)
                        let connection = try await caller.reach.connect(to: id, at: [], timeout: .seconds(60))
                        let incoming = try await next(callee.endpoint.established)
                        try await exchange(connection, incoming)
                        // Both hold a path through either relay.
                        for end in [connection, incoming] {
                            try await eventually {
                                await end.heldPaths().count { $0.address.local.kind == .relay && $0.isValidated } == 2
                            }
                        }
                        await first.close()
                        try await exchange(connection, incoming)
                        try await eventually {
                            let relay = await connection.statistics().paths.first?.relay
                            return relay.flatMap { caller.reach.url(of: $0) } == standby.description
                        }
                        for member in [callee, caller] {
                            try await eventually { member.reach.status.home == standby }
                        }
                        #expect(second.clientCount == 2)
                    }
                }
            }
        }
    }

    @Test func `a relay that wants a token says so, and lets in who has it`() async throws {
        try await withRelay({ $0.access = RelayAccess(tokens: ["sesame"]) }) { server, relay in
            try await withMember(at: [relay]) { member in
                try await eventually {
                    if case .denied(let reason) = member.reach.status.relays.first?.state {
                        return reason.contains("token")
                    }
                    return false
                }
                #expect(member.reach.status.home == nil)
            }
            try await withMember(at: [relay], { $0.tokens = [relay: "sesame"] }) { member in
                try await eventually { member.reach.status.home == relay }
            }
            #expect(server.metrics.contains("kith_relay_accepted_total 1\n"))
        }
    }

    @Test func `a relay is one with and without its key, and this device's key for it counts`() async throws {
        let (identity, device) = (DeviceKey(), DeviceKey().id)
        func keyed(_ relay: RelayAddress, _ key: DeviceID = identity.id) throws -> RelayAddress {
            try #require(RelayAddress(host: relay.host, port: relay.port, isSecure: relay.isSecure, key: key))
        }
        /// The relays in use once the device that names `named` was looked for there.
        func relays(_ member: Member, _ named: RelayAddress) async -> [RelayAddress] {
            member.reach.note([named], of: device)
            // Nobody is there.
            _ = try? await member.reach.connect(to: device, at: [], timeout: .seconds(5))
            return member.reach.status.relays.map(\.address)
        }
        try await withRelay { _, relay in
            try await withMember(at: [relay]) { member in
                try await eventually { member.reach.status.home == relay }
                #expect(await relays(member, try keyed(relay)) == [relay])
            }
        }
        try await withRelay({ $0.identity = identity }) { _, plain in
            let relay = try #require(RelayAddress("https://\(plain.authority)"))
            let (real, forged) = (try keyed(relay), try keyed(relay, DeviceKey().id))
            try await withMember(at: [relay, real]) { member in
                #expect(member.reach.announcedRelays == [real])
                try await eventually { member.reach.status.home == real }
                #expect(await relays(member, relay) == [real])
            }
            // Without the key nothing proves this relay; where another device names it, it does.
            try await withMember(at: [relay]) { member in
                try await eventually { member.reach.status.relays.first.map { !$0.state.isPending } ?? false }
                #expect(await Set(relays(member, real)) == [relay, real])
                try await eventually {
                    member.reach.status.relays.contains { $0.address == real && $0.carrier != nil }
                }
            }
            // Another key than the one that was given is refused, whoever names the relay without one.
            try await withMember(at: [forged]) { member in
                try await eventually { member.reach.status.relays.first.map { !$0.state.isPending } ?? false }
                #expect(await relays(member, relay) == [forged])
                #expect(member.reach.status.relays.allSatisfy { $0.carrier == nil })
                #expect(member.reach.status.home == nil)
            }
        }
    }

    @Test func `others cannot have it connect to more relays than sixteen, and two of each`() async throws {
        try await withMember(at: []) { member in
            await withTaskGroup(of: Void.self) { group in
                for number in 1...30 {
                    let device = DeviceKey().id
                    let relays = (0..<4).compactMap { RelayAddress("http://127.0.0.1:\(4 * number + $0)") }
                    member.reach.note(relays, of: device)
                    group.addTask {
                        // Nobody is there, which is what the rest is about.
                        _ = try? await member.reach.connect(to: device, at: [], timeout: .seconds(5))
                    }
                }
            }
            // Those that were in vain may be gone again.
            #expect(member.reach.status.relays.count <= 16)
            let ports = member.reach.status.relays.map { Int($0.address.port) % 4 }
            #expect(ports.allSatisfy { $0 < 2 })
        }
    }

    #if os(Linux)
    @Test func `servers tell a device its address outside, and it tells that to others`() async throws {
        // Another host of this machine, where STUN has its own port.
        let host = NetworkAddress(ipv4: (127, 77, .random(in: 1...250), .random(in: 1...250)), port: 0)
        try await withRelay({
            $0.address = host
            $0.stunAddress = host.withPort(3_478)
        }) { _, relay in
            try await withMember(at: [relay]) { member in
                try await eventually { member.reach.status.report.publicIPv4?.port == member.endpoint.port }
                #expect(member.reach.status.report.udp == .works)
            }
        }
    }

    @Test func `a device without a relay learns its address outside at that of the device it dials`() async throws {
        let host = NetworkAddress(ipv4: (127, 74, .random(in: 1...250), .random(in: 1...250)), port: 0)
        let other = NetworkAddress(ipv4: (127, 73, .random(in: 1...250), .random(in: 1...250)), port: 0)
        try await withRelay({
            $0.address = host
            $0.stunAddress = host.withPort(3_478)
        }) { _, relay in
            try await withMember(at: [relay]) { callee in
                try await eventually { callee.reach.status.home == relay }
                try await withMember(at: []) { caller in
                    caller.reach.note([relay], of: callee.endpoint.id)
                    _ = try await caller.reach.connect(to: callee.endpoint.id, at: [], timeout: .seconds(60))
                    try await eventually { caller.reach.status.report.publicIPv4?.port == caller.endpoint.port }
                    // Once one of its own answers, it alone is believed.
                    try await withRelay({
                        $0.address = other
                        $0.stunAddress = other.withPort(3_478)
                    }) { _, own in
                        await caller.reach.adopt([own])
                        try await eventually { await caller.reach.reporter.hasHeard(of: [other]) }
                        await caller.reach.askAgain()
                        #expect(await !caller.reach.reporter.hasHeard(of: [host]))
                    }
                }
            }
        }
    }

    @Test func `another port of the only relay is asked, too, where that may tell the kind of NAT`() async throws {
        let host = NetworkAddress(ipv4: (127, 75, .random(in: 1...250), .random(in: 1...250)), port: 0)
        try await withRelay({
            $0.address = host
            $0.stunAddress = host.withPort(3_478)
            $0.discoveryAddress = host.withPort(AddressDiscovery.port)
        }) { server, relay in
            try await withMember(at: [relay]) { member in
                try await eventually { member.reach.status.report.publicIPv4?.port == member.endpoint.port }
                // There is no NAT here, so nothing is left to be asked, unless the device does not know that.
                #expect(member.reach.status.report.nat.mapping == .none)
                #expect(server.metrics.contains("kith_relay_qad_clients_total 0\n"))
                await member.reach.forgetOwnAddresses()
                await member.reach.askAgain()
                try await eventually { server.metrics.contains("kith_relay_qad_clients_total 1\n") }
                await member.reach.askAgain()
                #expect(member.reach.status.report.udp == .works)
                #expect(server.metrics.contains("kith_relay_qad_clients_total 1\n"))
            }
        }
    }

    @Test func `a relay is measured that the device is not connected to`() async throws {
        let host = NetworkAddress(ipv4: (127, 76, .random(in: 1...250), .random(in: 1...250)), port: 0)
        try await withRelay { _, first in
            try await withRelay { _, second in
                try await withRelay({
                    $0.address = host
                    $0.stunAddress = host.withPort(3_478)
                }) { _, third in
                    try await withMember(at: [first, second, third]) { member in
                        try await eventually { member.reach.status.standby != nil }
                        try await eventually { await member.reach.choice.latency(of: third, at: .now) != nil }
                    }
                }
            }
        }
    }

    @Test func `one server that is silent does not show that UDP is blocked`() async throws {
        let host = NetworkAddress(ipv4: (127, 79, .random(in: 1...250), .random(in: 1...250)), port: 0)
        try await withRelay({ $0.address = host }) { _, relay in
            try await withMember(at: [relay]) { member in
                try await eventually { member.reach.status.silentServer == relay.host }
                await member.reach.askAgain()
                #expect(member.reach.status.report.udp == .unknown)
                #expect(member.reach.status.silentServer == relay.host)
            }
        }
    }

    @Test func `a relay that does not answer STUN is asked over QUIC`() async throws {
        let host = NetworkAddress(ipv4: (127, 78, .random(in: 1...250), .random(in: 1...250)), port: 0)
        try await withRelay({
            $0.address = host
            $0.discoveryAddress = host.withPort(AddressDiscovery.port)
        }) { server, relay in
            #expect(server.discoveryAddress?.port == AddressDiscovery.port)
            try await withMember(at: [relay]) { member in
                try await eventually { member.reach.status.report.publicIPv4?.port == member.endpoint.port }
                #expect(member.reach.status.report.udp == .works)
                #expect(server.metrics.contains("kith_relay_qad_clients_total 1\n"))
            }
        }
    }
    #endif

    @Test func `where devices see this one is told to others, until servers say better`() async throws {
        try await withMember(at: []) { member in
            // Another network would make all of it void.
            try await eventually { await member.reach.interfaces != nil }
            let (liar, honest) = (DeviceKey().id, DeviceKey().id)
            let outside = NetworkAddress(ipv4: (9, 1, 1, 1), port: 4_433)
            let victim = NetworkAddress(ipv4: (9, 2, 2, 2), port: 80)
            await member.reach.devicesObserved([liar: [victim], honest: [outside]], at: .now)
            var told = await member.reach.info.candidates.list(for: .auto).candidates.map(\.candidate)
            #expect(told.contains(Candidate(outside, .reflexive)) && told.contains(Candidate(victim, .reflexive)))
            let server = NetworkAddress(ipv4: (9, 9, 9, 9), port: AddressDiscovery.port)
            let answer = AddressDiscovery.Answer(mapped: outside, roundTrip: .milliseconds(1))
            let generation = await member.reach.info.candidates.generation
            await member.reach.serverObserved(answer, by: server, generation: generation, at: .now)
            told = await member.reach.info.candidates.list(for: .auto).candidates.map(\.candidate)
            #expect(told.contains(Candidate(outside, .reflexive)) && !told.contains { $0.address == victim })
            // What a server said of a network before is no news.
            let stale = AddressDiscovery.Answer(mapped: victim, roundTrip: .milliseconds(1))
            await member.reach.serverObserved(stale, by: server, generation: generation &- 1, at: .now)
            told = await member.reach.info.candidates.list(for: .auto).candidates.map(\.candidate)
            #expect(!told.contains { $0.address == victim })
            // Nor is the word of a device that is reached by relays alone.
            await member.reach.set(.relay, for: honest)
            let other = NetworkAddress(ipv6: 0x2001_0DB8 << 32, 7, port: 1)
            await member.reach.devicesObserved([honest: [other]], at: .now)
            told = await member.reach.info.candidates.list(for: .auto).candidates.map(\.candidate)
            #expect(!told.contains { $0.address == other })
        }
    }

    @Test(arguments: [false, true])
    func `a record has addresses only where that is wanted, and the public ones`(isWanted: Bool) async throws {
        try await withMember(at: [], { $0.publishesAddresses = isWanted }) { member in
            // Another network would make all of it void.
            try await eventually { await member.reach.interfaces != nil }
            let outside = NetworkAddress(ipv4: (9, 1, 1, 1), port: 4_433)
            let answer = AddressDiscovery.Answer(mapped: outside, roundTrip: .milliseconds(1))
            let generation = await member.reach.info.candidates.generation
            let server = NetworkAddress(ipv4: (9, 9, 9, 9), port: AddressDiscovery.port)
            await member.reach.serverObserved(answer, by: server, generation: generation, at: .now)
            let liar = NetworkAddress(ipv4: (9, 2, 2, 2), port: 80)
            await member.reach.devicesObserved([DeviceKey().id: [liar]], at: .now)
            let report = await member.reach.reporter.report(at: .now)
            #expect(await member.reach.publishedAddresses(by: report) == (isWanted ? [outside] : []))
            await member.reach.act()
            if isWanted {
                let record = try await next(member.reach.records.stream)
                #expect(record == DeviceRecord(addresses: [outside]))
                // By the preference for a relay no address leaves the device.
                await member.reach.set(.relay, for: nil)
                #expect(await member.reach.publishedAddresses(by: report).isEmpty)
            }
        }
    }

    @Test(.enabled(if: outsideAddress != nil, "this machine has no address but its loopback's"))
    func `a device without a relay is reached at the addresses that it has published`() async throws {
        let folder = try TemporaryFolder()
        let server = try await DirectoryServer.open(
            DirectoryServer.Options(
                folder: folder.path, address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0), logger: silent))
        let client = try DirectoryClient([try #require(DirectoryAddress("http://\(server.address)"))])
        let key = DeviceKey()
        var options = Endpoint.Options()
        options.findsPaths = true
        options.bindAddresses = outsideAddress.map { [$0.withPort(0)] } ?? []
        try await withEndpoint(key: key, options) { callee in
            // Where it was before nobody answers.
            let old = try #require(callee.localAddresses.first).withPort(1)
            let record = try DeviceRecord(addresses: callee.localAddresses).signed(by: key, at: 7)
            #expect(await client.publish(record).kept.count == 1)
            for addresses in [[], [old]] {
                try await withMember(at: [], endpoint: options, { $0.directories = client }) { caller in
                    let connection = try await caller.reach.connect(to: key.id, at: addresses, timeout: .seconds(60))
                    try await exchange(connection, try await next(callee.established))
                    connection.close()
                }
            }
            // Through a relay alone no address is dialed.
            try await withMember(at: [], endpoint: options, { ($0.directories, $0.preference) = (client, .relay) }) {
                caller in
                await #expect(throws: KithError(.unreachable, "")) {
                    _ = try await caller.reach.connect(to: key.id, at: [], timeout: .seconds(60))
                }
            }
        }
        await server.close()
    }

    private struct Joined: Decodable {
        var port: UInt16?
        var silence: String?
    }

    @Test(
        .enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")),
        arguments: [ReachTimes.saving, .usual])
    func `a device that saves power has one link to one relay, and asks it for silence`(times: ReachTimes) async throws
    {
        try await PythonPeer.run("relay_peer.py", ["serve"]) { peer in
            let port = try #require(try await peer.next(Joined.self).port)
            let first = try #require(RelayAddress("http://127.0.0.1:\(port)"))
            try await withRelay { _, second in
                try await withMember(at: [first, second], { $0.times = times }) { member in
                    #expect(try await peer.next(Joined.self).silence == (times == .saving ? "240" : nil))
                    try await eventually { member.reach.status.home != nil }
                    if times == .saving {
                        #expect(member.reach.status.standby == nil)
                    } else {
                        try await eventually { member.reach.status.standby != nil }
                    }
                    #expect(member.reach.status.savesPower == (times == .saving))
                }
            }
        }
    }
}

extension DeviceReach {
    /// Has it take its own address for one outside.
    fileprivate func forgetOwnAddresses() { reporter = NetworkReporter(localAddresses: []) }
}

extension RelayClient.State {
    /// Indicates whether the first attempt is not over.
    fileprivate var isPending: Bool {
        switch self {
        case .idle, .connecting: true
        case .connected, .restarting, .waiting, .captive, .denied, .closed: false
        }
    }
}
