@testable import KithQUIC
import KithWire
import Testing

/// Several paths, moves between them, and those who would misuse them (RFC 9000 §8.2, §9).
@Suite struct PathTests {
    static let second = NetworkAddress(ipv4: (198, 51, 100, 7), port: 5555)
    static let third = NetworkAddress(ipv4: (203, 0, 113, 9), port: 6666)

    private func connected(
        client: (inout QUICConfiguration) -> Void = { _ in }, server: (inout QUICConfiguration) -> Void = { _ in }
    ) throws -> Pair {
        let pair = try Pair(client: client, server: server)
        pair.clientLocals = [1: Self.second, 2: Self.third]
        #expect(pair.connect())
        pair.run(seconds: 1)
        return pair
    }

    /// Has the client send bytes; answers whether they arrived within the time.
    private func sendsOn(_ pair: Pair, _ count: Int = 5000, seconds: Int64 = 5) throws -> Bool {
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(count).withUnsafeBytes { try pair.client.write($0, to: id) }
        try pair.client.finish(id)
        guard pair.run(seconds: seconds, until: { $0.clientEvents.contains(.streamFinished(id)) }) else { return false }
        return try pair.serverRead(id).bytes == patterned(count)
    }

    private func path(_ remote: NetworkAddress, _ local: LocalLink = 0) -> PathAddress {
        PathAddress(remote: remote, local: local)
    }

    // MARK: - The peer's address changes

    @Test func `a rebound port keeps the window, the round trip and the id`() throws {
        let pair = try connected()
        #expect(try sendsOn(pair, 400_000))
        let before = (
            pair.server?.recovery.rtt.minimum, pair.server?.recovery.congestionWindow, pair.server?.peerIDs.current
        )
        pair.clientFrom.port = 9999
        #expect(try sendsOn(pair))
        #expect(pair.run(seconds: 2) { $0.serverEvents.contains(.pathChanged(self.path($0.clientFrom))) })
        let after = (
            pair.server?.recovery.rtt.minimum, pair.server?.recovery.congestionWindow, pair.server?.peerIDs.current
        )
        #expect(before.0 == after.0 && before.2 == after.2)
        #expect((after.1 ?? 0) >= (before.1 ?? .max))
    }

    @Test func `another address starts over with the window, the round trip and the datagram size`() throws {
        let pair = try connected(server: { $0.udpPayloadSize = 1400 })
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(500_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        #expect(pair.run { ($0.server?.recovery.congestionWindow ?? 0) > 100_000 })
        let window = pair.server?.recovery.congestionWindow ?? 0
        pair.clientFrom = Self.third
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(100).withUnsafeBytes { try pair.client.write($0, to: id) }
        #expect(pair.run { $0.server?.remote == Self.third })
        let fresh = (pair.server?.recovery.congestionWindow ?? .max, pair.server?.datagramSize)
        #expect(fresh.0 < window && fresh.1 == 1200)
        let flight = pair.server?.recovery.bytesInFlight ?? .max
        #expect(flight < 20_000)
        try pair.server?.finish(down)
        var got: [UInt8] = []
        #expect(
            pair.run {
                got += (try? $0.clientRead(down).bytes) ?? []
                return got.count >= 500_000
            })
        let isWhole = got == patterned(500_000)
        #expect(isWhole)
        #expect(pair.serverEvents.contains(.pathChanged(path(Self.third))))
    }

    @Test func `an unproven address never gets more than three times what came from it`() throws {
        let pair = try connected()
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(400_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        #expect(pair.run { ($0.server?.recovery.bytesInFlight ?? 0) > 20_000 })
        pair.traffic = [:]
        pair.clientFrom = Self.third
        // The challenge never arrives, so that the address stays unproven while the client goes on sending there.
        pair.filter = { $0.toServer ? [$0] : [] }
        var worst = 0
        for _ in 0..<200 {
            let id = try? pair.clientOpen(.unidirectional)
            if let id { _ = try? patterned(30).withUnsafeBytes { try pair.client.write($0, to: id) } }
            _ = pair.step(until: pair.now + 500_000_000)
            let seen = pair.traffic[Self.third] ?? (0, 0)
            worst = max(worst, seen.sent - 3 * seen.received)
        }
        #expect((pair.traffic[Self.third]?.sent ?? 0) > 0)
        #expect(worst <= 0)
    }

    // MARK: - A client that moves

    @Test func `a client probes another path without moving`() throws {
        let pair = try connected()
        let began = pair.client.probePath(path(Pair.serverAddress, 1), at: pair.now)
        #expect(began)
        #expect(pair.run(seconds: 2) { $0.clientEvents.contains(.pathValidated(self.path(Pair.serverAddress, 1))) })
        pair.run(seconds: 1)
        #expect(try sendsOn(pair))
        let statuses = (pair.client.paths, pair.server?.paths ?? [])
        #expect(statuses.0.map(\.isActive) == [true, false])
        #expect(statuses.0.map(\.isValidated) == [true, true])
        #expect(statuses.0[1].roundTrip == 2 * pair.delay)
        #expect(statuses.1.map(\.address.remote) == [Pair.clientAddress, Self.second])
        #expect(statuses.1.map(\.isValidated) == [true, true])
        #expect(!pair.clientEvents.contains { if case .pathChanged = $0 { true } else { false } })
    }

    @Test func `a client that moves uses a fresh id each way, and its streams go on`() throws {
        let pair = try connected()
        let (toServer, toClient) = (pair.client.peerIDs.current, pair.server?.peerIDs.current)
        let moves = pair.client.migrate(to: path(Pair.serverAddress, 1), at: pair.now)
        #expect(moves)
        #expect(try sendsOn(pair, 100_000))
        #expect(pair.clientEvents.contains(.pathChanged(path(Pair.serverAddress, 1))))
        #expect(pair.serverEvents.contains(.pathChanged(path(Self.second))))
        let (nowToServer, nowToClient) = (pair.client.peerIDs.current, pair.server?.peerIDs.current)
        #expect(toServer != nowToServer && toClient != nowToClient)
        // And back, to a path held ready.
        let back = pair.client.migrate(to: path(Pair.serverAddress, 0), at: pair.now)
        #expect(back)
        #expect(try sendsOn(pair, 100_000))
        let remote = pair.server?.remote
        #expect(remote == Pair.clientAddress)
        let again = pair.client.peerIDs.current
        #expect(again == toServer)
    }

    @Test func `ids given back by moving often are replaced by the peer`() throws {
        let pair = try connected()
        for round in 0..<40 {
            let local = LocalLink.socket(UInt32(10 + round))
            pair.clientLocals = [local: NetworkAddress(ipv4: (198, 51, 100, UInt8(round)), port: 777)]
            pair.clientLocals[.socket(UInt32(9 + round))] = NetworkAddress(
                ipv4: (198, 51, 100, UInt8(max(0, round - 1))), port: 777)
            let moves = pair.client.migrate(to: path(Pair.serverAddress, local), at: pair.now)
            #expect(moves, "round \(round)")
            #expect(try sendsOn(pair), "round \(round)")
        }
        let held = (pair.client.paths.count, pair.server?.paths.count ?? 0, pair.client.peerIDs.count)
        let limit = pair.serverConfiguration.maxPaths
        #expect(held.0 <= limit && held.1 <= limit)
        #expect(held.2 <= PeerConnectionIDs.limit(paths: limit))
    }

    @Test func `a server that forbids moving is obeyed`() throws {
        let pair = try connected(server: { $0.disablesActiveMigration = true })
        let refused = (
            pair.client.probePath(path(Pair.serverAddress, 1), at: pair.now),
            pair.client.migrate(to: path(Pair.serverAddress, 1), at: pair.now)
        )
        #expect(refused == (false, false))
        #expect(try sendsOn(pair))
    }

    @Test func `without an unused id there is no other path, and the connection goes on`() throws {
        let pair = try connected()
        while pair.client.peerIDs.takeUnused() != nil {}
        let refused = pair.client.migrate(to: path(Pair.serverAddress, 1), at: pair.now)
        #expect(!refused)
        #expect(try sendsOn(pair))
    }

    @Test func `more paths than the limit are refused`() throws {
        for limit in [4, 8] {
            let pair = try connected(client: { $0.maxPaths = limit })
            var began: [Bool] = []
            for number in 1...10 {
                began.append(pair.client.probePath(path(Pair.serverAddress, .socket(UInt32(number))), at: pair.now))
            }
            #expect(began == (1...10).map { $0 < limit })
        }
    }

    @Test func `a path nobody answers on is given up, and its id given back`() throws {
        let pair = try connected()
        let spare = pair.client.peerIDs.unused
        let began = pair.client.probePath(path(Pair.serverAddress, 77), at: pair.now)
        pair.filter = { $0.from == Pair.clientAddress && $0.toServer || !$0.toServer ? [$0] : [] }
        pair.clientLocals[77] = NetworkAddress(ipv4: (10, 0, 0, 1), port: 1)
        #expect(began)
        #expect(pair.run(seconds: 10) { $0.clientEvents.contains(.pathFailed(self.path(Pair.serverAddress, 77))) })
        pair.run(seconds: 1)
        let after = (pair.client.peerIDs.unused, pair.client.paths.count)
        #expect(after == (spare, 1))
    }

    // MARK: - The chooser

    @Test func `the shortest path wins by more than the hysteresis`() {
        func paths(_ delays: [Int64?], _ ranks: [PathRank] = [.primary, .primary, .primary]) -> [PathStatus] {
            delays.enumerated().map { index, delay in
                PathStatus(
                    address: PathAddress(remote: Pair.serverAddress, local: .socket(UInt32(index))), rank: ranks[index],
                    isActive: index == 0, isValidated: true, roundTrip: delay.map { $0 * 1_000_000 }, bytesSent: 0,
                    bytesReceived: 0)
            }
        }
        let chooser = ShortestPathChooser()
        #expect(chooser.choose(from: paths([20, 16])) == nil)
        #expect(chooser.choose(from: paths([20, 15])) == nil)
        #expect(chooser.choose(from: paths([20, 14])) == 1)
        #expect(chooser.choose(from: paths([20, 14, 12])) == 2)
        #expect(chooser.choose(from: paths([20, nil])) == nil)
        #expect(chooser.choose(from: paths([20, 100], [.backup, .primary])) == 1)
        #expect(chooser.choose(from: paths([20, 1], [.primary, .backup])) == nil)
        // Far longer than by the relay: left at three times and 100 ms, taken again at three times and 50 ms.
        #expect(chooser.choose(from: paths([160, 20], [.primary, .backup])) == nil)
        #expect(chooser.choose(from: paths([161, 20], [.primary, .backup])) == 1)
        #expect(chooser.choose(from: paths([20, 111], [.backup, .primary])) == nil)
        #expect(chooser.choose(from: paths([20, 109], [.backup, .primary])) == 1)
        #expect(chooser.choose(from: paths([500, 20, 40], [.primary, .backup, .primary])) == 2)
        #expect(chooser.choose(from: paths([500, nil], [.primary, .backup])) == nil)
        #expect(chooser.choose(from: []) == nil)
    }

    @Test func `IPv6 wins unless it takes clearly longer`() {
        func paths(_ ipv4: Int64, _ ipv6: Int64) -> [PathStatus] {
            let remotes = [Pair.serverAddress, NetworkAddress(ipv6: 0x2A01 << 48, 1, port: 443)]
            return zip(remotes, [ipv4, ipv6]).map { remote, delay in
                PathStatus(
                    address: PathAddress(remote: remote), rank: .primary, isActive: !remote.isIPv6, isValidated: true,
                    roundTrip: delay * 1_000_000, bytesSent: 0, bytesReceived: 0)
            }
        }
        let chooser = ShortestPathChooser()
        #expect(chooser.choose(from: paths(20, 17)) == 1)
        #expect(chooser.choose(from: paths(20, 18)) == nil)
    }

    @Test func `a connection upgrades by itself from a backup path to a primary one`() throws {
        let pair = try connected()
        let isBackup = pair.client.probePath(path(Pair.serverAddress, 0), rank: .backup, at: pair.now)
        let began = pair.client.probePath(path(Pair.serverAddress, 1), at: pair.now)
        #expect(isBackup && began)
        #expect(pair.run(seconds: 2) { $0.clientEvents.contains(.pathChanged(self.path(Pair.serverAddress, 1))) })
        #expect(try sendsOn(pair))
        #expect(pair.serverEvents.contains(.pathChanged(path(Self.second))))
    }

    @Test func `a path that falls silent is left for one held ready`() throws {
        let pair = try connected()
        let began = pair.client.probePath(path(Pair.serverAddress, 1), at: pair.now)
        #expect(began)
        #expect(pair.run(seconds: 2) { $0.clientEvents.contains(.pathValidated(self.path(Pair.serverAddress, 1))) })
        pair.run(seconds: 1)
        pair.filter = { $0.toServer && $0.from == Pair.clientAddress ? [] : [$0] }
        #expect(try sendsOn(pair, 50_000, seconds: 3))
        #expect(pair.clientEvents.contains(.pathChanged(path(Pair.serverAddress, 1))))
    }

    @Test func `a path that falls silent is left by an end that never stops sending`() throws {
        let pair = try connected(client: { $0.eitherEndMoves = true }, server: { $0.eitherEndMoves = true })
        let began = pair.client.probePath(path(Pair.serverAddress, 1), at: pair.now)
        #expect(began)
        #expect(pair.run(seconds: 2) { $0.clientEvents.contains(.pathValidated(self.path(Pair.serverAddress, 1))) })
        // The server is the one that sends: a little, more often than a probe time-out passes.
        let down = try pair.serverOpen(.unidirectional)
        var (sent, got, isLost) = (0, 0, false)
        pair.filter = { datagram in
            let isFirst = datagram.toServer ? datagram.from == Pair.clientAddress : datagram.local == 0
            return isLost && isFirst ? [] : [datagram]
        }
        func send(for duration: Int64, until condition: () -> Bool = { false }) throws {
            let end = pair.now + duration
            while pair.now < end, !condition() {
                sent +=
                    try [UInt8](repeating: 1, count: 3).withUnsafeBytes { try pair.server?.write($0, to: down) } ?? 0
                let next = pair.now + .milliseconds(10)
                while pair.step(until: next) {}
                pair.now = max(pair.now, next)
                got += try pair.clientRead(down).bytes.count
            }
        }
        try send(for: .seconds(2))
        #expect(got > 0)
        #expect(!pair.serverEvents.contains { if case .peerSilent = $0 { true } else { false } })
        isLost = true
        let place = PathAddress(remote: Self.second, local: 0)
        try send(for: .seconds(1)) { pair.serverEvents.contains(.pathChanged(place)) }
        #expect(pair.serverEvents.contains(.pathChanged(place)))
        try send(for: .seconds(1))
        pair.run(seconds: 1)
        got += try pair.clientRead(down).bytes.count
        #expect(got == sent)
    }

    // MARK: - Attacks

    @Test func `packets forwarded from another address mislead a server only for a while`() throws {
        let pair = try connected()
        // Whoever sees the packets sends copies of them ahead; answers to that address go nowhere.
        pair.traffic = [:]
        var copies = 0
        pair.filter = { datagram in
            guard datagram.toServer, copies < 10 else { return [datagram] }
            copies += 1
            var copy = datagram
            copy.from = Self.third
            copy.due = copy.due.advanced(nanoseconds: -1_000_000)
            return [copy, datagram]
        }
        #expect(try sendsOn(pair, 20_000, seconds: 30))
        #expect(copies == 10)
        pair.run(seconds: 8)
        #expect(try sendsOn(pair, 20_000))
        let remote = pair.server?.remote
        #expect(remote == Pair.clientAddress)
        let seen = pair.traffic[Self.third] ?? (0, 0)
        #expect(seen.received > 0 && seen.sent <= 3 * seen.received)
        #expect(Pair.closeReason(pair.serverEvents) == nil)
    }

    @Test func `datagrams nobody can have made open no path`() throws {
        let pair = try connected()
        let id = pair.client.peerIDs.current.bytes
        for seed in 0..<50 {
            let forged = [0x40] + id + patterned(200, seed: UInt64(seed))
            pair.deliver(Pair.Datagram(bytes: forged, from: Self.third, due: pair.now, toServer: true))
            pair.deliver(Pair.Datagram(bytes: forged, from: Self.third, due: pair.now, toServer: false))
            pair.flush()
        }
        let paths = (pair.server?.paths.count, pair.client.paths.count)
        #expect(paths.0 == 1 && paths.1 == 1)
        #expect(pair.traffic[Self.third]?.sent == 0)
        #expect(try sendsOn(pair))
    }

    @Test func `a client does not follow its server to another address`() throws {
        let pair = try connected()
        pair.filter = { datagram in
            guard !datagram.toServer else { return [datagram] }
            var moved = datagram
            moved.from = NetworkAddress(ipv4: (192, 0, 2, 2), port: 3333)
            return [moved]
        }
        #expect(try !sendsOn(pair, 100, seconds: 3))
        pair.filter = { [$0] }
        #expect(try sendsOn(pair))
        let remote = pair.client.remote
        #expect(remote == Pair.serverAddress)
    }

    // MARK: - A server that moves

    private func connectedFreely() throws -> Pair {
        let pair = try connected(client: { $0.eitherEndMoves = true }, server: { $0.eitherEndMoves = true })
        pair.serverLocals = [1: NetworkAddress(ipv4: (192, 0, 2, 9), port: 3333)]
        return pair
    }

    @Test func `a server moves where both ends agreed, and the streams go on`() throws {
        let pair = try connectedFreely()
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(400_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        try pair.server?.finish(down)
        #expect(pair.run { ($0.server?.recovery.bytesInFlight ?? 0) > 20_000 })
        let place = NetworkAddress(ipv4: (192, 0, 2, 9), port: 3333)
        let moved = pair.server?.migrate(to: path(Pair.clientAddress, 1), at: pair.now)
        #expect(moved == true)
        // Its old address is gone: only what follows arrives.
        pair.serverFrom = NetworkAddress(ipv4: (192, 0, 2, 200), port: 1)
        var got: [UInt8] = []
        #expect(
            pair.run(seconds: 10) {
                got += (try? $0.clientRead(down).bytes) ?? []
                return got.count >= 400_000
            })
        let isWhole = got == patterned(400_000)
        #expect(isWhole)
        let remote = pair.client.remote
        #expect(remote == place)
        #expect(pair.clientEvents.contains(.pathChanged(path(place))))
        #expect(try sendsOn(pair))
    }

    @Test func `a server that only looks for another path does not move its client`() throws {
        let pair = try connectedFreely()
        let began = pair.server?.probePath(path(Pair.clientAddress, 1), at: pair.now)
        #expect(began == true)
        #expect(pair.run(seconds: 2) { $0.serverEvents.contains(.pathValidated(self.path(Pair.clientAddress, 1))) })
        #expect(try sendsOn(pair))
        let remote = pair.client.remote
        #expect(remote == Pair.serverAddress)
    }

    @Test func `a move replaces what is known of the path, and the way back is known again`() throws {
        let pair = try connectedFreely()
        #expect(pair.run(seconds: 5) { $0.client.recovery.path.mtu.isComplete })
        let (number, rtt) = (pair.client.recovery.path.number, pair.client.recovery.path.rtt)
        let size = pair.client.datagramSize
        #expect(rtt.hasSample && size > 1_200)
        let moved = pair.client.migrate(to: path(Pair.serverAddress, 1), at: pair.now)
        #expect(moved)
        let next = pair.client.recovery.path
        #expect(next.number == number + 1 && !next.rtt.hasSample && next.datagramSize == 1_200)
        // What a probe sent along the path before has shown, it has shown of that path.
        pair.client.recovery.path.mtu.sent()
        pair.client.plpmtudProbeArrived(size, path: number, at: pair.now)
        #expect(pair.client.datagramSize == 1_200)
        pair.client.plpmtudProbeArrived(size, path: number + 1, at: pair.now)
        #expect(pair.client.datagramSize == size)
        let back = pair.client.migrate(to: path(Pair.serverAddress), at: pair.now)
        #expect(back && pair.client.recovery.path.rtt == rtt && pair.client.datagramSize == 1_200)
        #expect(try sendsOn(pair))
    }

    @Test func `what was on its way when a client moved does not lead it back`() throws {
        let pair = try connectedFreely()
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(400_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        #expect(pair.run { ($0.server?.recovery.bytesInFlight ?? 0) > 20_000 })
        let moved = pair.client.migrate(to: path(Pair.serverAddress, 1), at: pair.now)
        #expect(moved)
        pair.run(seconds: 2)
        let active = pair.client.path.address
        #expect(active == path(Pair.serverAddress, 1) && pair.server?.remote == Self.second)
        #expect(try sendsOn(pair))
    }

    @Test func `a client stays where its server has moved, though the old way is shorter and still answers`() throws {
        let pair = try connectedFreely()
        let place = NetworkAddress(ipv4: (192, 0, 2, 9), port: 3333)
        pair.filter = { datagram in
            guard !datagram.toServer, datagram.from == place else { return [datagram] }
            var slow = datagram
            slow.due = slow.due.advanced(nanoseconds: 40_000_000)
            return [slow]
        }
        let moved = pair.server?.migrate(to: path(Pair.clientAddress, 1), at: pair.now)
        #expect(moved == true)
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(5_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        // Long enough for the way that was left to be looked at again and again.
        pair.run(seconds: 60)
        let (remote, local) = (pair.client.remote, pair.server?.path.address.local)
        #expect(remote == place && local == 1)
        #expect(
            pair.clientEvents.filter { if case .pathChanged = $0 { true } else { false } } == [
                .pathChanged(path(place))
            ])
        // Should the new one fall silent, the old one is still known.
        pair.filter = { datagram in datagram.from == place || datagram.local == 1 ? [] : [datagram] }
        #expect(try sendsOn(pair, 50_000, seconds: 10))
    }

    @Test func `a server may not move where its client has not agreed`() throws {
        let pair = try connected(server: { $0.eitherEndMoves = true })
        let moved = pair.server?.migrate(to: path(Pair.clientAddress, 1), at: pair.now)
        #expect(moved == false)
    }

    // MARK: - Continuity

    @Test func `a network gone for a minute is used within half a second of its return`() throws {
        let pair = try connected(
            client: { $0.maxIdleTimeout = .seconds(90) }, server: { $0.maxIdleTimeout = .seconds(90) })
        let up = try pair.clientOpen(.bidirectional)
        _ = try patterned(300_000).withUnsafeBytes { try pair.client.write($0, to: up) }
        #expect(pair.run { $0.serverEvents.contains(.streamOpened(up)) })
        _ = try patterned(300_000, seed: 9).withUnsafeBytes { try pair.server?.write($0, to: up) }
        for _ in 0..<40 { _ = pair.step(until: .distantFuture) }
        pair.filter = { _ in [] }
        pair.run(seconds: 60)
        pair.filter = { [$0] }
        // The address is another one, too, and only the network knows.
        pair.clientFrom = Self.second
        pair.clientLocals = [:]
        let back = pair.now
        pair.client.networkChanged(at: pair.now)
        let before = (pair.client.statistics.packetsReceived, pair.server?.statistics.packetsReceived ?? 0)
        #expect(
            pair.run(seconds: 2) {
                $0.client.statistics.packetsReceived > before.0 + 3
                    && ($0.server?.statistics.packetsReceived ?? 0) > before.1 + 3
            })
        #expect(pair.now - back < 500_000_000, "after \((pair.now - back) / 1_000_000) ms")
        var (there, here): ([UInt8], [UInt8]) = ([], [])
        #expect(
            pair.run(seconds: 20) {
                there += (try? $0.serverRead(up).bytes) ?? []
                here += (try? $0.clientRead(up).bytes) ?? []
                return there.count + here.count == 600_000
            })
        #expect(there == patterned(300_000) && here == patterned(300_000, seed: 9))
    }

    @Test func `a server takes up at once what waited when its client is heard again`() throws {
        let pair = try connected(
            client: { $0.maxIdleTimeout = .seconds(90) }, server: { $0.maxIdleTimeout = .seconds(90) })
        let down = try pair.serverOpen(.unidirectional)
        pair.filter = { _ in [] }
        _ = try patterned(3_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        pair.run(seconds: 30)
        pair.filter = { [$0] }
        let back = pair.now
        pair.client.networkChanged(at: pair.now)
        var got: [UInt8] = []
        #expect(
            pair.run(seconds: 5) {
                got += (try? $0.clientRead(down).bytes) ?? []
                return got.count == 3_000
            })
        #expect(pair.now - back < 200_000_000, "after \((pair.now - back) / 1_000_000) ms")
    }

    @Test(arguments: 1...12) func `streams are exact however often the client moves and packets are lost`(seed: Int)
        throws
    {
        var random = SeededGenerator(state: UInt64(seed))
        let pair = try Pair()
        #expect(pair.connect())
        pair.clientLocals = [1: Self.second, 2: Self.third]
        let id = try pair.clientOpen(.bidirectional)
        let (up, down) = (patterned(200_000, seed: UInt64(seed)), patterned(200_000, seed: UInt64(seed + 100)))
        pair.filter = { datagram in
            var generator = SeededGenerator(state: UInt64(pair.wire.count) &+ UInt64(bitPattern: pair.now.nanoseconds))
            return Int.random(in: 0..<100, using: &generator) < 5 ? [] : [datagram]
        }
        var (sent, answered, there, here): (Int, Int, [UInt8], [UInt8]) = (0, 0, [], [])
        var nextMove = pair.now
        let done = pair.run(seconds: 300) { pair in
            if sent < up.count { sent += (try? up[sent...].withUnsafeBytes { try pair.client.write($0, to: id) }) ?? 0 }
            if answered < down.count, pair.serverEvents.contains(.streamOpened(id)) {
                answered += (try? down[answered...].withUnsafeBytes { try pair.server?.write($0, to: id) }) ?? 0
            }
            there += (try? pair.serverRead(id).bytes) ?? []
            here += (try? pair.clientRead(id).bytes) ?? []
            if pair.now > nextMove {
                nextMove = pair.now + Int64.random(in: 20_000_000...400_000_000, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: pair.clientFrom.port &+= 1
                case 1: pair.clientFrom = NetworkAddress(ipv4: UInt32.random(in: 1..<1 << 24, using: &random), port: 9)
                case 2: pair.client.networkChanged(at: pair.now)
                default:
                    let local = LocalLink(rawValue: UInt32.random(in: 0...2, using: &random))
                    _ = pair.client.migrate(to: PathAddress(remote: Pair.serverAddress, local: local), at: pair.now)
                }
            }
            return there.count == up.count && here.count == down.count
        }
        #expect(done, "seed \(seed): \(there.count) and \(here.count) of 200000, \(pair.client.paths)")
        #expect(there == up && here == down, "seed \(seed)")
    }
}

/// The peer's connection ids as a table.
@Suite struct PeerConnectionIDTests {
    private static func id(_ number: UInt64) -> ConnectionID { ConnectionID(random: number &* 0x9E37_79B9_7F4A_7C15) }
    private static func token(_ number: UInt8) throws -> ResetToken {
        try #require(ResetToken([UInt8](repeating: number, count: 16)))
    }

    private func filled(limit: Int = 8) throws -> PeerConnectionIDs {
        var ids = PeerConnectionIDs(Self.id(0), limit: limit)
        for number in 1..<8 {
            let retired = try ids.add(
                sequence: UInt64(number), retirePriorTo: 0, id: Self.id(UInt64(number)),
                token: Self.token(UInt8(number)))
            #expect(!retired)
        }
        return ids
    }

    @Test func `an id is taken once, oldest first`() throws {
        var ids = try filled()
        #expect((1...7).map { _ in ids.takeUnused() } == [1, 2, 3, 4, 5, 6, 7])
        #expect(ids.takeUnused() == nil)
    }

    @Test func `an id given back and announced again stays given back`() throws {
        var ids = try filled()
        let first = ids.takeUnused()
        let taken = try #require(first)
        ids.retire(taken)
        _ = try ids.add(sequence: taken, retirePriorTo: 0, id: Self.id(taken), token: Self.token(UInt8(taken)))
        #expect(ids.count == 7)
        #expect(ids.takePending() == taken)
        #expect(ids.takePending() == nil)
    }

    @Test func `one id more than the limit is a CONNECTION_ID_LIMIT_ERROR`() throws {
        var ids = try filled()
        let error = #expect(throws: TransportError.self) {
            try ids.add(sequence: 8, retirePriorTo: 0, id: Self.id(8), token: Self.token(8))
        }
        #expect(error?.code == 0x9)
        // Making room by the same frame is allowed (RFC 9000 §5.1.1).
        var other = try filled()
        #expect(try other.add(sequence: 8, retirePriorTo: 1, id: Self.id(8), token: Self.token(8)))
        #expect(other.takePending() == 0)
    }

    @Test func `an id given back makes room once the peer can know of it`() throws {
        var ids = try filled()
        ids.retire(3)
        let error = #expect(throws: TransportError.self) {
            try ids.add(sequence: 8, retirePriorTo: 0, id: Self.id(8), token: Self.token(8))
        }
        #expect(error?.code == 0x9)
        var other = try filled()
        other.retire(3)
        #expect(other.takePending() == 3)
        #expect(try !other.add(sequence: 8, retirePriorTo: 0, id: Self.id(8), token: Self.token(8)))
        #expect(other.count == 8)
        // What the peer itself retires it has room for at once.
        var third = try filled()
        third.retire(3)
        #expect(try third.add(sequence: 8, retirePriorTo: 4, id: Self.id(8), token: Self.token(8)))
        #expect(third.count == 5)
    }

    @Test(arguments: [(3, 9), (9, 3)] as [(UInt64, UInt64)])
    func `one id too many is found before it contradicts another`(sequence: UInt64, id: UInt64) throws {
        var ids = try filled()
        let error = #expect(throws: TransportError.self) {
            try ids.add(sequence: sequence, retirePriorTo: 0, id: Self.id(id), token: Self.token(3))
        }
        #expect(error?.code == 0x9)
    }

    @Test func `ids retired faster than we can say so are a CONNECTION_ID_LIMIT_ERROR`() throws {
        var ids = PeerConnectionIDs(Self.id(0), limit: 8)
        let error = #expect(throws: TransportError.self) {
            for number in UInt64(1)...1000 {
                _ = try ids.add(sequence: number, retirePriorTo: number, id: Self.id(number), token: Self.token(1))
                _ = ids.takePending()
            }
        }
        #expect(error?.code == 0x9)
    }

    @Test func `ids with endless gaps are a CONNECTION_ID_LIMIT_ERROR`() throws {
        var ids = PeerConnectionIDs(Self.id(0), limit: 8)
        let error = #expect(throws: TransportError.self) {
            for number in 1...1000 as ClosedRange<UInt64> {
                _ = try ids.add(sequence: 2 * number, retirePriorTo: 0, id: Self.id(number), token: Self.token(1))
                ids.retire(2 * number)
                while ids.takePending() != nil { ids.retirementAcknowledged() }
            }
        }
        #expect(error?.code == 0x9)
    }

    @Test func `one number for two ids, or one id for two numbers, is a PROTOCOL_VIOLATION`() throws {
        for (sequence, id, token) in [(3, 9, 3), (9, 3, 3), (3, 3, 9)] as [(UInt64, UInt64, UInt8)] {
            var ids = try filled(limit: 9)
            let error = #expect(throws: TransportError.self) {
                try ids.add(sequence: sequence, retirePriorTo: 0, id: Self.id(id), token: Self.token(token))
            }
            #expect(error?.code == 0xA)
        }
    }

    @Test func `only the token of an id in use proves a reset`() throws {
        var ids = try filled()
        #expect(try !ids.isReset(Self.token(1)))
        let first = ids.takeUnused()
        let taken = try #require(first)
        #expect(try ids.isReset(Self.token(UInt8(taken))))
        ids.retire(taken)
        #expect(try !ids.isReset(Self.token(UInt8(taken))))
    }

    @Test func `when the peer retires the id in use, all paths get others`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        let before = pair.client.peerIDs.current
        let retired = try pair.client.peerIDs.add(
            sequence: 12, retirePriorTo: 4, id: Self.id(12), token: Self.token(12))
        #expect(retired)
        try pair.client.replaceRetiredIDs()
        let (after, held) = (pair.client.peerIDs.current, pair.client.peerIDs.id(of: pair.client.path.peerSequence))
        #expect(after != before && after == held)
    }

    @Test func `a peer that retires every id, and brings none, is refused`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        var given: UInt64 = 0
        while let sequence = pair.client.peerIDs.takeUnused() {
            pair.client.peerIDs.retire(sequence)
            given = max(given, sequence)
        }
        // One that was given back comes again.
        let retired = try pair.client.peerIDs.add(
            sequence: given, retirePriorTo: given, id: Self.id(12), token: Self.token(12))
        #expect(retired && pair.client.peerIDs.count == 0)
        #expect(throws: TransportError.self) { try pair.client.replaceRetiredIDs() }
    }
}
