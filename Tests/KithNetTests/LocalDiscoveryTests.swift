import Foundation
import KithIO
import KithIdentity
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithNet

/// Devices that hear each other on this machine's loopback interface, by a group of their own.
@Suite(.timeLimit(.minutes(4))) struct LocalDiscoveryTests {
    private static let options: LocalDiscovery.Options = {
        var options = LocalDiscovery.Options()
        options.group.port = .random(in: 20_000..<30_000)
        options.group6?.port = options.group.port
        return options
    }()

    /// A device: where it listens, whom it is paired with, what it heard.
    private final class Machine: Sendable {
        let key = DeviceKey()
        let port: UInt16
        private let state = Mutex(
            (paired: Set<DeviceID>(), addresses: [NetworkAddress](), events: [LocalDiscovery.Event]()))

        init(port: UInt16) {
            self.port = port
            listen(at: port)
        }

        var address: NetworkAddress { NetworkAddress(ipv4: (127, 0, 0, 1), port: port) }
        var events: [LocalDiscovery.Event] { state.withLock { $0.events } }
        func pair(_ other: Machine) { state.withLock { _ = $0.paired.insert(other.key.id) } }
        func listen(at port: UInt16) {
            state.withLock { $0.addresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: port)] }
        }

        func discovery(_ options: LocalDiscovery.Options = LocalDiscoveryTests.options) -> LocalDiscovery {
            LocalDiscovery(
                key: key, options: options, addresses: { self.state.withLock { $0.addresses } },
                isPaired: { device in self.state.withLock { $0.paired.contains(device) } },
                paired: { self.state.withLock { Array($0.paired) } },
                note: { event in self.state.withLock { $0.events.append(event) } },
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        }
    }

    /// Runs `body` while the discoveries run; then all say goodbye.
    private func running(_ discoveries: LocalDiscovery..., body: () async throws -> Void) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            for discovery in discoveries { group.addTask { await discovery.run() } }
            defer { for discovery in discoveries { discovery.stop() } }
            try await body()
        }
    }

    @Test func `paired devices find each other, hear that one listens elsewhere, and that it leaves`() async throws {
        let (left, right, third) = (Machine(port: 1_001), Machine(port: 1_002), Machine(port: 1_003))
        left.pair(right)
        right.pair(left)
        let (near, far, other) = (left.discovery(), right.discovery(), third.discovery())
        try await running(near, other) {
            try await running(far) {
                try await eventually { near.addresses(of: right.key.id) == [right.address] }
                try await eventually { far.addresses(of: left.key.id) == [left.address] }
                right.listen(at: 2_002)
                far.addressesChanged()
                try await eventually { near.addresses(of: right.key.id).first?.port == 2_002 }
            }
            try await eventually { near.addresses(of: right.key.id).isEmpty }
            #expect(left.events.first == .found(right.key.id, [right.address]))
            #expect(left.events.last == .lost(right.key.id))
            // All were heard by the third, which is paired with nobody.
            try await eventually { other.status.refused > 2 }
            #expect(other.status.heard.isEmpty && third.events.isEmpty)
            #expect(near.status.interfaces.contains("lo") && near.status.problem == nil)
        }
    }

    @Test func `what is no announcement, and what is repeated, is survived and counted`() async throws {
        let (left, right) = (Machine(port: 1_004), Machine(port: 1_005))
        left.pair(right)
        let near = left.discovery()
        try await running(near) {
            try await eventually { !near.status.interfaces.isEmpty }
            let announcement = LocalAnnouncement(
                id: right.key.id, number: UInt64(Date().timeIntervalSince1970 * 1_000), lifetime: 90,
                addresses: [right.address])
            let bytes = try announcement.signed(by: right.key)
            let reactor = try Reactor(name: "test")
            let socket = try MulticastSocket(group: Self.options.group, on: reactor)
            let loopback = try #require(NetworkInterface.all.first { $0.kind == .loopback })
            func send(_ bytes: [UInt8]) throws {
                try socket.send(bytes, to: loopback.index, from: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
            }
            try send([])
            try send([0xFF])
            try send([UInt8](repeating: 0xA1, count: 60_000))
            try send(bytes + [0])
            try send(Array(bytes.dropLast()))
            try send(bytes)
            try await eventually { near.addresses(of: right.key.id) == [right.address] }
            let before = near.status.refused
            for _ in 0..<5 { try send(bytes) }
            try await eventually { near.status.refused >= before + 5 }
            #expect(left.events == [.found(right.key.id, [right.address])])
        }
    }

    @Test func `devices of different groups do not hear each other, and a stop leaves no descriptor`() async throws {
        let (left, right) = (Machine(port: 1_006), Machine(port: 1_007))
        left.pair(right)
        right.pair(left)
        var elsewhere = Self.options
        elsewhere.group = NetworkAddress(ipv4: (239, 255, 42, 99), port: Self.options.group.port)
        elsewhere.group6 = nil
        let (near, far, same) = (left.discovery(), right.discovery(elsewhere), right.discovery())
        try await running(near, far) {
            // Its own announcements come back from the group they went to.
            try await eventually { near.status.refused > 0 && far.status.refused > 0 }
            #expect(near.addresses(of: right.key.id).isEmpty && far.addresses(of: left.key.id).isEmpty)
            try await running(same) {
                try await eventually { near.addresses(of: right.key.id) == [right.address] }
            }
        }
        let cancelled = Task { await left.discovery().run() }
        cancelled.cancel()
        await cancelled.value
    }

    @Test func `a policy decides which interfaces and addresses are used`() {
        func address(_ number: UInt8) -> NetworkAddress { NetworkAddress(ipv4: (192, 168, 1, number), port: 0) }
        let lo = NetworkInterface(
            name: "lo", index: 1, kind: .loopback, carriesMulticast: false,
            addresses: [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0), NetworkAddress(ipv6: 0, 1, port: 0)])
        let cable = NetworkInterface(name: "eth0", index: 2, kind: .other, addresses: [address(2)])
        let air = NetworkInterface(
            name: "wlan0", index: 3, kind: .wifi,
            addresses: [address(3), NetworkAddress(ipv6: 0xFE80 << 48, 3, port: 0)])
        let cell = NetworkInterface(
            name: "wwan0", index: 4, kind: .cellular, addresses: [NetworkAddress(ipv6: 0x2001_0DB8 << 32, 4, port: 0)])
        let tunnel = NetworkInterface(
            name: "tun0", index: 5, kind: .other, carriesMulticast: false, addresses: [address(5)])
        let bare = NetworkInterface(
            name: "eth1", index: 6, kind: .other, addresses: [NetworkAddress(ipv6: 0xFE80 << 48, 6, port: 0)])
        let all = [lo, cable, air, cell, tunnel, bare]
        func names(_ policy: NetworkPolicy, _ list: [NetworkInterface]) -> [String] {
            policy.permitted(list).map(\.name)
        }
        let any = NetworkPolicy()
        #expect(any.isUnrestricted)
        #expect(names(any, all) == all.map(\.name))
        #expect(any.discoverable(all).map(\.name) == ["lo", "eth0", "wlan0", "wwan0"])
        #expect(
            NetworkPolicy(allowsCellularDiscovery: false).discoverable(all).map(\.name) == ["lo", "eth0", "wlan0"])
        #expect(names(NetworkPolicy(isWiFiOnly: true), all) == ["lo", "wlan0"])
        // A system that does not say which is Wi-Fi.
        #expect(names(NetworkPolicy(isWiFiOnly: true), [lo, cable, cell]) == ["lo", "eth0"])
        #expect(names(NetworkPolicy(interface: "eth0"), all) == ["lo", "eth0"])
        #expect(!NetworkPolicy(interface: "eth9").isReachable(all))
        #expect(!NetworkPolicy(isWiFiOnly: true).isReachable([lo, cell]))
        #expect(!any.isReachable([lo, bare]))
        #expect(any.isReachable([lo, cell]))
        let old = NetworkPolicy(allowsIPv6: false).permitted(all)
        #expect(old.map(\.name) == ["lo", "eth0", "wlan0", "tun0"])
        #expect(old.flatMap(\.addresses).allSatisfy { !$0.isIPv6 })
        let listening = [address(2), address(3)].map { NetworkAddress(ipv4: UInt32($0.halves.low), port: 4_433) }
        #expect(NetworkPolicy(isWiFiOnly: true).permitted(listening, on: all) == [listening[1]])
        #expect(any.permitted(listening, on: []) == listening)
    }

    @Test func `an attempt to reach a device goes where it is heard meanwhile`() async throws {
        try await withEndpoint { server in
            try await withEndpoint { client in
                // Somebody listens there, and says nothing.
                try await withRawSocket(to: server) { silent in
                    let place = NetworkAddress(ipv4: (127, 0, 0, 1), port: silent.port)
                    async let connection = client.connect(to: server.id, at: [place], timeout: .seconds(86_400))
                    _ = try await silent.next()
                    client.found(server.id, at: server.localAddresses)
                    #expect(try await connection.peerID == server.id)
                }
            }
        }
    }

    @Test func `the interfaces of this machine are followed`() async throws {
        let seen = Mutex<[NetworkInterface]?>(nil)
        let follower = Task {
            await NetworkMonitor.follow { interfaces in seen.withLock { $0 = interfaces } }
        }
        try await eventually { seen.withLock { $0 != nil } }
        follower.cancel()
        await follower.value
        let loopback = try #require(seen.withLock { $0 }?.first { $0.kind == .loopback })
        #expect(loopback.addresses.contains { $0.isLoopback } && !loopback.leadsElsewhere)
    }
}
