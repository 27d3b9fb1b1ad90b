@testable import KithQUIC
import KithWire
import Testing

/// Addresses that become paths, relays, and choosers at both ends.
@Suite struct CandidateTests {
    /// The client's and the server's address beside those the connection began with.
    static let near = NetworkAddress(ipv4: (198, 51, 100, 7), port: 5555)
    static let far = NetworkAddress(ipv4: (203, 0, 113, 9), port: 6666)
    /// What a driver makes up for the two behind a relay.
    static let nearByRelay = NetworkAddress(ipv6: 0xFD00_0000_0000_0000, 1, port: 1)
    static let farByRelay = NetworkAddress(ipv6: 0xFD00_0000_0000_0000, 2, port: 1)

    /// The direct path as each end sees it.
    static let toServer = PathAddress(remote: far, local: .socket(1))
    static let toClient = PathAddress(remote: near, local: .socket(1))
    static let toServerByRelay = PathAddress(remote: farByRelay, local: .relay(3))
    static let toClientByRelay = PathAddress(remote: nearByRelay, local: .relay(3))

    private func connected(
        client: (inout QUICConfiguration) -> Void = { _ in }, server: (inout QUICConfiguration) -> Void = { _ in }
    ) throws -> Pair {
        let pair = try Pair(
            client: {
                $0.eitherEndMoves = true
                client(&$0)
            },
            server: {
                $0.eitherEndMoves = true
                server(&$0)
            })
        pair.clientLocals = [.socket(1): Self.near, .relay(3): Self.nearByRelay]
        pair.serverLocals = [.socket(1): Self.far, .relay(3): Self.farByRelay]
        #expect(pair.connect())
        pair.run(seconds: 1)
        return pair
    }

    /// Has both ends send bytes; answers whether they arrived within the time.
    private func exchanges(_ pair: Pair, _ count: Int = 20_000, seconds: Int64 = 5) throws -> Bool {
        let (up, down) = (try pair.clientOpen(.unidirectional), try pair.serverOpen(.unidirectional))
        _ = try patterned(count).withUnsafeBytes { try pair.client.write($0, to: up) }
        _ = try patterned(count, seed: 9).withUnsafeBytes { try pair.server?.write($0, to: down) }
        try pair.client.finish(up)
        try pair.server?.finish(down)
        var (there, here): ([UInt8], [UInt8]) = ([], [])
        let isDone = pair.run(seconds: seconds) {
            if $0.serverEvents.contains(.streamOpened(up)) { there += (try? $0.serverRead(up).bytes) ?? [] }
            if $0.clientEvents.contains(.streamOpened(down)) { here += (try? $0.clientRead(down).bytes) ?? [] }
            return there.count >= count && here.count >= count
        }
        return isDone && there == patterned(count) && here == patterned(count, seed: 9)
    }

    /// Whether a datagram goes between the two addresses beside the first ones.
    private static func isDirect(_ datagram: Pair.Datagram) -> Bool {
        datagram.from == near || datagram.from == far
            || (datagram.local == .socket(1) && datagram.from != nearByRelay && datagram.from != farByRelay)
    }

    /// Lets a datagram through to where its receiver has already sent one, as port-restricted NATs on both sides do.
    private static func nats() -> (Pair.Datagram) -> [Pair.Datagram] {
        var opened: Set<Bool> = []
        return { datagram in
            guard isDirect(datagram) else { return [datagram] }
            opened.insert(datagram.toServer)
            return opened.contains(!datagram.toServer) ? [datagram] : []
        }
    }

    private func active(_ pair: Pair) -> (PathAddress, PathAddress?) {
        (pair.client.path.address, pair.server?.path.address)
    }

    // MARK: - Link kinds

    @Test func `a link says what it is`() {
        #expect(LocalLink.socket(5).kind == .socket && LocalLink.socket(5).number == 5)
        #expect(LocalLink.relay(5).kind == .relay && LocalLink.relay(5).number == 5)
        #expect(LocalLink.socket(5) != .relay(5) && LocalLink.socket(5) != .socket(5, generation: 1))
        #expect(LocalLink.socket(5, generation: 0x1_0001) == .socket(5, generation: 1))
        #expect(LocalLink.relay(LocalLink.maximumNumber).number == LocalLink.maximumNumber)
        #expect(LocalLink.socket(5, generation: 7).number == 5 && LocalLink.socket(0) == 0)
        #expect(LocalLink.relay(1).rank == .backup && LocalLink.socket(1).rank == .primary)
    }

    @Test func `an id never gives a packet the cookie of STUN where that has it`() {
        let cookie: [UInt8] = [0x21, 0x12, 0xA4, 0x42]
        for seed: UInt64 in 0..<100 {
            let bytes = patterned(8, seed: seed)
            let like = Array(bytes[..<3]) + cookie + [bytes[7]]
            let random = like.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let id = ConnectionID(random: UInt64(littleEndian: random))
            #expect(Array(id.bytes[3..<7]) != cookie && id.count == 8)
            let other = bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            #expect(ConnectionID(random: UInt64(littleEndian: other)).bytes == bytes)
        }
    }

    // MARK: - Probes

    @Test func `two ends behind NATs meet on a path neither could open alone, by datagrams of 64 bytes`() throws {
        let pair = try connected()
        let nats = Self.nats()
        var sizes: [Int] = []
        var isAnswered = false
        pair.filter = { datagram in
            if Self.isDirect(datagram), !isAnswered { sizes.append(datagram.bytes.count) }
            return nats(datagram)
        }
        let probes = (
            pair.client.probeCandidate(Self.toServer, at: pair.now),
            pair.server?.probeCandidate(Self.toClient, at: pair.now)
        )
        #expect(probes.0 && probes.1 == true)
        pair.flush()
        isAnswered = true
        #expect(sizes == [64, 64])
        // The one that was sent first met a closed NAT; that it was asked in return is what opens the path.
        #expect(
            pair.run(seconds: 2) {
                $0.clientEvents.contains(.pathValidated(Self.toServer))
                    && $0.serverEvents.contains(.pathValidated(Self.toClient))
            })
        let isNamed = !(pair.clientEvents + pair.serverEvents).contains {
            if case .peerReflexiveAddress = $0 { true } else { false }
        }
        #expect(isNamed)
        // Two ids of its own for a path, one each way.
        let ids = (pair.client.otherPaths.map(\.peerSequence), pair.server?.otherPaths.map(\.peerSequence) ?? [])
        #expect(ids.0.count == 1 && ids.1.count == 1)
        #expect(!ids.0.contains(pair.client.path.peerSequence))
        let moves = pair.client.migrate(to: Self.toServer, at: pair.now)
        #expect(moves)
        #expect(try exchanges(pair))
        let paths = active(pair)
        #expect(paths == (Self.toServer, Self.toClient))
    }

    @Test func `a probe from an address nobody named is reported, and answered where it came from`() throws {
        let pair = try connected()
        let began = pair.client.probeCandidate(Self.toServer, at: pair.now)
        #expect(began)
        #expect(pair.run(seconds: 2) { $0.serverEvents.contains(.peerReflexiveAddress(Self.toClient)) })
        #expect(
            pair.run(seconds: 2) {
                $0.clientEvents.contains(.pathValidated(Self.toServer))
                    && $0.serverEvents.contains(.pathValidated(Self.toClient))
            })
        #expect(try exchanges(pair))
        // It is a path now, and a probe of it looks at that again.
        let again = pair.client.probeCandidate(Self.toServer, at: pair.now)
        #expect(again && pair.client.otherPaths.count == 1)
    }

    @Test func `a probe nobody answers leaves nothing behind, and the connection where it is`() throws {
        let pair = try connected()
        pair.filter = { Self.isDirect($0) ? [] : [$0] }
        let before = pair.client.peerIDs.unused
        for _ in 0..<9 {
            let began = pair.client.probeCandidate(Self.toServer, at: pair.now)
            #expect(began)
            pair.run(seconds: 1)
        }
        pair.run(seconds: 5)
        let again = pair.client.probeCandidate(Self.toServer, at: pair.now)
        #expect(again)
        pair.run(seconds: 1)
        let after = (pair.client.peerIDs.unused, pair.client.paths.count, pair.client.probes.count)
        #expect(after == (before, 1, 1))
        let silent = pair.clientEvents.contains { if case .peerSilent = $0 { true } else { false } }
        #expect(!silent)
        #expect(try exchanges(pair))
    }

    @Test func `an address that answers small probes but carries no full datagram does not become a path`() throws {
        let pair = try connected()
        pair.filter = { Self.isDirect($0) && $0.bytes.count > 500 ? [] : [$0] }
        let began = pair.client.probeCandidate(Self.toServer, at: pair.now)
        #expect(began)
        #expect(pair.run(seconds: 10) { $0.clientEvents.contains(.pathFailed(Self.toServer)) })
        let isProven = pair.clientEvents.contains(.pathValidated(Self.toServer))
        #expect(!isProven)
        #expect(try exchanges(pair))
    }

    @Test func `probing is left alone where the peer has not agreed`() throws {
        let pair = try connected(server: { $0.eitherEndMoves = false })
        let began = (
            pair.client.probeCandidate(Self.toServer, at: pair.now),
            pair.server?.probeCandidate(Self.toClient, at: pair.now)
        )
        #expect(!began.0 && began.1 == false)
    }

    @Test func `ends that can hold no more paths do not answer each other for ever`() throws {
        let pair = try connected()
        while pair.client.peerIDs.takeUnused() != nil {}
        while (pair.server?.peerIDs.takeUnused() ?? nil) != nil {}
        var count = 0
        pair.filter = { datagram in
            if Self.isDirect(datagram) { count += 1 }
            return [datagram]
        }
        let began = pair.client.probeCandidate(Self.toServer, at: pair.now)
        #expect(began)
        pair.run(seconds: 10)
        #expect(count == 3)
        #expect(try exchanges(pair))
    }

    @Test func `no more probes leave in a second than the bound, and no more are remembered`() throws {
        let pair = try connected(client: { $0.maxProbesPerSecond = 500 })
        var sent: [Timestamp] = []
        pair.filter = { datagram in
            if datagram.toServer, datagram.bytes.count == CandidateProbes.size { sent.append(pair.now) }
            return [datagram]
        }
        for round: UInt32 in 0..<4_000 {
            let address = NetworkAddress(ipv4: 0xCB00_7100 + round % 250, port: UInt16(1_000 + round))
            // What goes to an address where nobody is does not come to the filter: these do.
            pair.serverLocals[.socket(9)] = address
            _ = pair.client.probeCandidate(PathAddress(remote: address, local: .socket(1)), at: pair.now)
            pair.flush()
            pair.wire.removeAll { $0.local == .socket(9) }
            pair.now = pair.now.advanced(nanoseconds: 1_000_000)
        }
        let inSecond = sent.indices.map { index in sent[index...].prefix { $0 - sent[index] < 1_000_000_000 }.count }
        #expect((inSecond.max() ?? 0) <= 500 + 500 / 8)
        #expect(sent.count > 1_900)
        let (remembered, paths) = (pair.client.probes.count, pair.client.paths.count)
        #expect(remembered <= CandidateProbes.memory && paths == 1)
        pair.serverLocals[.socket(9)] = nil
        #expect(try exchanges(pair))
    }

    @Test func `a peer that probes from a thousand addresses makes no path and no state of them`() throws {
        let pair = try connected(client: { $0.maxProbesPerSecond = 100_000 })
        for round: UInt32 in 0..<1_000 {
            pair.clientLocals[.socket(1)] = NetworkAddress(ipv4: 0x0A00_0000 + round, port: 7)
            let began = pair.client.probeCandidate(Self.toServer, at: pair.now)
            #expect(began)
            pair.flush()
            for datagram in pair.wire where datagram.toServer { pair.deliver(datagram) }
            pair.wire = []
            pair.flush()
            pair.wire = []
            pair.client.probes = CandidateProbes()
        }
        let held = (pair.server?.paths.count ?? 0, pair.server?.probes.count ?? 0, pair.server?.pathAnswers.count ?? 0)
        #expect(held.0 == 1 && held.1 <= CandidateProbes.memory && held.2 <= PathAnswer.limit)
        // Within one moment, no more than a burst was answered at all.
        #expect(held.1 <= 62)
        #expect(pair.serverEvents.filter { if case .peerReflexiveAddress = $0 { true } else { false } }.count <= 62)
        #expect(try exchanges(pair))
    }

    // MARK: - Both ends choose

    @Test func `a server that may choose goes over to a shorter path, and its client follows and stays`() throws {
        for chooses in [true, false] {
            let pair = try connected(server: { $0.serverChoosesPath = chooses })
            pair.delays = [Pair.clientAddress: 40_000_000, Self.near: 5_000_000]
            // The client does not choose: as one that knows of no better.
            let began = pair.server?.probeCandidate(Self.toClient, at: pair.now)
            #expect(began == true)
            for _ in 0..<5 { #expect(try exchanges(pair, 1_000)) }
            pair.run(seconds: 60)
            #expect(try exchanges(pair))
            if chooses {
                let paths = active(pair)
                #expect(paths == (Self.toServer, Self.toClient))
                #expect(pair.serverEvents.contains(.pathChanged(Self.toClient)))
            }
            let changes = (pair.clientEvents + pair.serverEvents).filter {
                if case .pathChanged = $0 { true } else { false }
            }
            #expect(changes.count <= 2)
        }
    }

    @Test func `ends that move at once to different paths both end on the client's`() throws {
        let pair = try connected()
        for address in [Self.toServer, Self.toServerByRelay] {
            let began = pair.client.probePath(address, at: pair.now)
            #expect(began)
        }
        // The client's chooser would prefer one of them by itself.
        #expect(
            pair.run(seconds: 3) {
                $0.serverEvents.contains(.pathValidated(Self.toClient))
                    && $0.serverEvents.contains(.pathValidated(Self.toClientByRelay))
            })
        pair.run(seconds: 1)
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(200_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        #expect(pair.run { ($0.server?.recovery.bytesInFlight ?? 0) > 20_000 })
        let moved = (
            pair.client.migrate(to: Self.toServer, at: pair.now),
            pair.server?.migrate(to: Self.toClientByRelay, at: pair.now)
        )
        #expect(moved.0 && moved.1 == true)
        #expect(try exchanges(pair))
        pair.run(seconds: 2)
        let paths = active(pair)
        #expect(paths == (Self.toServer, Self.toClient))
    }

    @Test func `a server that moves again before it is answered takes its client along`() throws {
        let pair = try connected()
        let farther = NetworkAddress(ipv4: (203, 0, 113, 10), port: 6666)
        pair.serverLocals[.socket(2)] = farther
        let began = pair.now
        for link in [LocalLink.socket(1), .socket(2)] {
            let moved = pair.server?.migrate(to: PathAddress(remote: Pair.clientAddress, local: link), at: pair.now)
            #expect(moved == true)
        }
        #expect(pair.run(seconds: 1) { $0.client.path.address.remote == farther })
        #expect(pair.now - began <= 2 * pair.delay)
        #expect(try exchanges(pair))
        #expect(pair.server?.path.address.local == .socket(2))
    }

    // MARK: - Relays

    @Test func `a relay is a backup: left for a direct path when that is proven, and gone back to when it is silent`()
        throws
    {
        let pair = try connected()
        let standby = pair.client.probePath(Self.toServerByRelay, at: pair.now)
        #expect(standby)
        pair.delays = [Self.nearByRelay: 1_000_000]
        pair.run(seconds: 40)
        // Shorter as it is, the relay is not chosen.
        let before = active(pair)
        #expect(before.0.local.kind == .socket && pair.client.paths.count == 2)
        for cuts in 0..<3 {
            pair.filter = { $0.local.kind == .relay ? [$0] : [] }
            #expect(try exchanges(pair, seconds: 6), "cut \(cuts)")
            let cut = active(pair)
            #expect(cut == (Self.toServerByRelay, Self.toClientByRelay), "cut \(cuts)")
            // Neither end returns to what is silent.
            pair.run(seconds: 30)
            let still = active(pair)
            #expect(still == (Self.toServerByRelay, Self.toClientByRelay), "cut \(cuts)")
            pair.filter = { [$0] }
            let began = pair.client.probeCandidate(Self.toServer, at: pair.now)
            #expect(began)
            #expect(pair.run(seconds: 5) { $0.client.path.address == Self.toServer }, "cut \(cuts)")
            #expect(try exchanges(pair), "cut \(cuts)")
            let back = active(pair)
            #expect(back == (Self.toServer, Self.toClient), "cut \(cuts)")
        }
    }

    @Test func `a server whose path is silent goes to the relay by itself, and takes its client along`() throws {
        let pair = try connected()
        let standby = pair.client.probePath(Self.toServerByRelay, at: pair.now)
        #expect(standby)
        pair.run(seconds: 2)
        pair.filter = { $0.local.kind == .relay ? [$0] : [] }
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(30_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        try pair.server?.finish(down)
        var got: [UInt8] = []
        let began = pair.now
        #expect(
            pair.run(seconds: 10) {
                got += (try? $0.clientRead(down).bytes) ?? []
                return got.count == 30_000
            })
        #expect(got == patterned(30_000))
        #expect(pair.now - began < 1_200_000_000)
        let paths = active(pair)
        #expect(paths == (Self.toServerByRelay, Self.toClientByRelay))
    }

    @Test func `a link that is gone is left at once for the best path held ready`() throws {
        let pair = try connected()
        for address in [Self.toServerByRelay, Self.toServer] {
            let began = pair.client.probePath(address, at: pair.now)
            #expect(began)
        }
        pair.run(seconds: 2)
        let link = pair.client.path.address.local
        pair.client.linkIsGone(link, at: pair.now)
        let next = pair.client.path.address
        #expect(next == Self.toServer && pair.client.paths.count == 2)
        pair.client.linkIsGone(.relay(3), at: pair.now)
        #expect(pair.client.paths.count == 1)
        #expect(try exchanges(pair))
    }

    @Test func `a server asks at a relay where its client has sent it nothing, and takes its client along`() throws {
        let pair = try connected()
        let standby = pair.client.probePath(Self.toServerByRelay, at: pair.now)
        #expect(standby)
        pair.run(seconds: 2)
        // The server is on another network: the relay is gone for a moment, and the direct path leads nowhere.
        pair.server?.linkIsGone(.relay(3), at: pair.now)
        pair.filter = { $0.local.kind == .relay ? [$0] : [] }
        pair.run(seconds: 1)
        pair.serverEvents = []
        let began = pair.now
        let asked = pair.server?.probePath(Self.toClientByRelay, at: pair.now)
        #expect(asked == true)
        // A round trip, and the way back of what the client follows.
        #expect(pair.run(seconds: 1) { $0.client.path.address == Self.toServerByRelay })
        #expect(pair.now - began <= 4 * pair.delay)
        #expect(pair.serverEvents.contains(.pathValidated(Self.toClientByRelay)))
        #expect(try exchanges(pair, seconds: 2))
        let paths = active(pair)
        #expect(paths == (Self.toServerByRelay, Self.toClientByRelay))
    }

    // MARK: - Both at once

    @Test func `what is sent on two paths goes on along the one that is acknowledged`() throws {
        let pair = try connected()
        let standby = pair.client.probePath(Self.toServerByRelay, at: pair.now)
        #expect(standby)
        pair.run(seconds: 2)
        pair.filter = { $0.local.kind == .relay ? [$0] : [] }
        let up = try pair.clientOpen(.unidirectional)
        _ = try patterned(30_000).withUnsafeBytes { try pair.client.write($0, to: up) }
        try pair.client.finish(up)
        let both = pair.client.sendOnBoth(Self.toServerByRelay, at: pair.now)
        #expect(both)
        let began = pair.now
        // One round trip of the path that works, and not a time-out more.
        #expect(pair.run(seconds: 1) { $0.client.path.address == Self.toServerByRelay })
        #expect(pair.now - began <= 2 * pair.delay + 30_000_000)
        #expect(pair.client.redundantPath == nil)
        #expect(pair.run(seconds: 5) { $0.clientEvents.contains(.streamFinished(up)) })
        let got = try pair.serverRead(up).bytes
        #expect(got == patterned(30_000))
        let paths = active(pair)
        #expect(paths == (Self.toServerByRelay, Self.toClientByRelay))
    }

    @Test func `a path that still works is not left because another was used beside it`() throws {
        let pair = try connected()
        pair.delays = [Self.nearByRelay: 20_000_000]
        let standby = pair.client.probePath(Self.toServerByRelay, at: pair.now)
        #expect(standby)
        pair.run(seconds: 2)
        let before = active(pair)
        let refused = pair.client.sendOnBoth(Self.toServer, at: pair.now)
        let both = pair.client.sendOnBoth(Self.toServerByRelay, at: pair.now)
        #expect(both && !refused)
        #expect(try exchanges(pair))
        pair.run(seconds: 1)
        let after = active(pair)
        #expect(before == after && pair.client.redundantPath == nil)
    }

    // MARK: - Amplification

    @Test(arguments: 0..<UInt64(60))
    func `an address that never answered gets no more than three times what came from it`(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let pair = try connected(
            client: { $0.serverChoosesPath = seed % 2 == 0 }, server: { $0.serverChoosesPath = seed % 3 == 0 })
        // Nothing sent to these arrives: whoever is there can answer no challenge.
        let victims = (0..<12).map { NetworkAddress(ipv4: 0xC633_6400 + UInt32($0), port: 99) }
        var received: [NetworkAddress: Int] = [:]
        var sent: [NetworkAddress: Int] = [:]
        var worst = 0
        pair.filter = { datagram in
            guard datagram.toServer else { return [datagram] }
            guard Int.random(in: 0..<4, using: &random) == 0, let victim = victims.randomElement(using: &random) else {
                return Int.random(in: 0..<20, using: &random) == 0 ? [] : [datagram]
            }
            var copy = datagram
            copy.from = victim
            copy.due = copy.due.advanced(nanoseconds: Int64.random(in: -4_000_000...4_000_000, using: &random))
            return Bool.random(using: &random) ? [copy] : [copy, datagram]
        }
        let down = try pair.serverOpen(.unidirectional)
        _ = try patterned(60_000).withUnsafeBytes { try pair.server?.write($0, to: down) }
        for _ in 0..<400 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: _ = pair.client.probeCandidate(Self.toServer, at: pair.now)
            case 1: _ = pair.client.probePath(Self.toServerByRelay, at: pair.now)
            case 2:
                if let id = try? pair.clientOpen(.unidirectional) {
                    _ = try? patterned(40).withUnsafeBytes { try pair.client.write($0, to: id) }
                }
            case 3: pair.clientLocals[.socket(1)]?.port &+= 1
            default: break
            }
            _ = pair.step(until: pair.now + 50_000_000)
            for victim in victims {
                (received[victim], sent[victim]) = (pair.traffic[victim]?.received, pair.traffic[victim]?.sent)
                worst = max(worst, (sent[victim] ?? 0) - 3 * (received[victim] ?? 0))
            }
        }
        #expect(!received.isEmpty && sent.values.contains { $0 > 0 }, "seed \(seed)")
        #expect(worst <= 0, "seed \(seed)")
        #expect(Pair.closeReason(pair.serverEvents) == nil && Pair.closeReason(pair.clientEvents) == nil)
    }
}
