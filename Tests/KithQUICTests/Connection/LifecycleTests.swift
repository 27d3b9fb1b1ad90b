@testable import KithQUIC
import KithWire
import Synchronization
import Testing

/// Lines that several closures append to.
final class SharedLines: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func append(_ line: String) { lines.withLock { $0.append(line) } }
}

@Suite struct LifecycleTests {
    @Test func `a post-quantum first flight takes two datagrams and connects`() throws {
        let pair = try Pair()
        pair.flush()
        #expect(pair.sentByClient == 2)
        #expect(pair.wire.allSatisfy { $0.bytes.count == 1200 })
        #expect(pair.connect())
        let groups = [pair.client.keyExchangeGroup, pair.server?.keyExchangeGroup]
        #expect(groups == [0x11EC, 0x11EC])
    }

    @Test func `a classical first flight takes one datagram, and a server accepts it`() throws {
        let pair = try Pair(client: { $0.offersPostQuantumKeyShare = false })
        pair.flush()
        #expect(pair.sentByClient == 1)
        #expect(pair.connect())
        let groups = [pair.client.keyExchangeGroup, pair.server?.keyExchangeGroup]
        #expect(groups == [0x001D, 0x001D])
    }

    @Test(arguments: [0, 1], [1, 2, 3]) func `either datagram of a first flight may be lost, again and again`(
        _ lost: Int, _ times: Int
    ) throws {
        let pair = try Pair()
        var seen = 0
        pair.filter = { datagram in
            guard datagram.toServer else { return [datagram] }
            defer { seen += 1 }
            // The probes repeat the flight, two datagrams each time.
            return seen < 2 * times && seen % 2 == lost ? [] : [datagram]
        }
        #expect(pair.connect())
        let group = pair.client.keyExchangeGroup
        #expect(group == 0x11EC)
    }

    @Test(arguments: [
        (CipherPreference.aes, CipherPreference.automatic, CipherSuite.aes128GCM),
        (.chaCha20, .automatic, .chacha20Poly1305), (.chaCha20Only, .aes, .chacha20Poly1305),
        (.aes, .chaCha20, .chacha20Poly1305), (.chaCha20, .aes, .aes128GCM),
        (.automatic, .automatic, CipherPreference.isAESFast ? .aes128GCM : .chacha20Poly1305),
    ]) func `the ends agree on a cipher by their preferences`(
        _ client: CipherPreference, _ server: CipherPreference, _ expected: CipherSuite
    ) throws {
        let pair = try Pair(client: { $0.cipherPreference = client }, server: { $0.cipherPreference = server })
        #expect(pair.connect())
        let suites = [pair.client.cipherSuite, pair.server?.cipherSuite]
        #expect(suites == [expected, expected])
        let id = try pair.clientOpen(.bidirectional)
        _ = try patterned(20_000).withUnsafeBytes { try pair.client.write($0, to: id) }
        try pair.client.finish(id)
        #expect(pair.run { $0.clientEvents.contains(.streamFinished(id)) })
        #expect(try pair.serverRead(id).bytes == patterned(20_000))
    }

    @Test func `the key log holds the secrets of both ends, and nothing is logged unasked`() throws {
        let lines = SharedLines()
        let pair = try Pair(client: { $0.keyLog = { lines.append($0) } })
        #expect(pair.connect())
        let labels = Set(lines.all.compactMap { $0.split(separator: " ").first.map(String.init) })
        #expect(
            labels.isSuperset(of: [
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0",
                "SERVER_TRAFFIC_SECRET_0",
            ]))
        // Each once: the server, whose log nobody asked for, wrote none.
        #expect(lines.all.count == Set(lines.all).count)
        #expect(lines.all.count { $0.hasPrefix("CLIENT_TRAFFIC_SECRET_0 ") } == 1)
    }

    @Test func `the two datagrams of a first flight may swap places`() throws {
        let pair = try Pair()
        pair.flush()
        pair.wire.reverse()
        #expect(pair.connect())
    }

    @Test(arguments: 0..<12) func `a handshake survives the loss of any one datagram`(lost: Int) throws {
        let pair = try Pair()
        var count = 0
        pair.filter = { datagram in
            defer { count += 1 }
            return count == lost ? [] : [datagram]
        }
        #expect(pair.connect(), "datagram \(lost)")
    }

    @Test(arguments: [UInt64](1...30)) func `a handshake survives heavy loss`(seed: UInt64) throws {
        let pair = try Pair(
            client: {
                $0.offersPostQuantumKeyShare = seed % 2 == 0
                $0.handshakeTimeout = .seconds(60)
            }, server: { $0.handshakeTimeout = .seconds(60) })
        var generator = SeededGenerator(state: seed)
        pair.filter = { generator.next() % 100 < 30 ? [] : [$0] }
        #expect(pair.connect(), "seed \(seed)")
    }

    @Test func `duplicated datagrams change nothing`() throws {
        let pair = try Pair()
        pair.filter = { [$0, $0] }
        #expect(pair.connect())
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(5000).withUnsafeBytes { try pair.client.write($0, to: id) }
        try pair.client.finish(id)
        #expect(pair.run { $0.clientEvents.contains(.streamFinished(id)) })
        #expect(try pair.serverRead(id).bytes == patterned(5000))
    }

    @Test func `a server sends no more than three times what an unproven address sent`() throws {
        let pair = try Pair()
        pair.flush()
        let first = pair.wire.removeFirst()
        pair.now = first.due
        pair.deliver(first)
        pair.filter = { _ in [] }
        for _ in 0..<50 {
            pair.flush()
            if let deadline = pair.server?.nextDeadline ?? nil { pair.now = max(pair.now, deadline) }
            pair.server?.timedOut(at: pair.now)
        }
        #expect(pair.bytesSentByServer > 0)
        #expect(pair.bytesSentByServer <= 3 * 1200)
    }

    @Test func `silence ends a connection at both ends`() throws {
        let pair = try Pair(client: { $0.maxIdleTimeout = .seconds(5) })
        #expect(pair.connect())
        pair.run(seconds: 20)
        #expect(Pair.closeReason(pair.clientEvents) == .idleTimeout)
        #expect(Pair.closeReason(pair.serverEvents) == .idleTimeout)
        #expect(pair.clientEvents.last == .drained)
        #expect(pair.serverEvents.last == .drained)
    }

    @Test func `keep-alive holds a silent connection open`() throws {
        let pair = try Pair(client: {
            $0.maxIdleTimeout = .seconds(5)
            $0.keepAlive = .seconds(2)
        })
        #expect(pair.connect())
        let before = pair.sentByClient
        pair.run(seconds: 60)
        let connected = (pair.client.isConnected, pair.server?.isConnected ?? false)
        #expect(connected == (true, true))
        let sent = pair.sentByClient - before
        #expect(sent > 20)
        #expect(sent < 80)
    }

    @Test func `keep-alive does not flood a peer that is gone`() throws {
        let pair = try Pair(client: {
            $0.maxIdleTimeout = .seconds(20)
            $0.keepAlive = .seconds(2)
        })
        #expect(pair.connect())
        pair.filter = { _ in [] }
        let before = pair.sentByClient
        pair.run(seconds: 60)
        #expect(Pair.closeReason(pair.clientEvents) == .idleTimeout)
        let sent = pair.sentByClient - before
        #expect(sent < 60)
    }

    @Test func `a peer that is gone is said to be silent as long as keep-alives are not answered`() throws {
        let pair = try Pair(client: {
            $0.maxIdleTimeout = .seconds(120)
            $0.keepAlive = .seconds(1)
        })
        #expect(pair.connect())
        func count() -> Int {
            pair.clientEvents.count { if case .peerSilent = $0 { true } else { false } }
        }
        pair.filter = { _ in [] }
        pair.run(seconds: 10)
        let before = count()
        // By now a probe time-out takes longer than the second between two keep-alives, which begin it anew.
        pair.run(seconds: 30)
        let silent = count()
        #expect((15...40).contains(silent - before))
        pair.filter = { [$0] }
        pair.run(seconds: 5)
        let heard = count()
        pair.run(seconds: 30)
        #expect(count() == heard)
    }

    @Test func `an application's close carries its code and words`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.client.close(code: 7, reason: "bye", at: pair.now)
        #expect(pair.run { Pair.closeReason($0.serverEvents) != nil })
        #expect(
            Pair.closeReason(pair.serverEvents)
                == .application(code: 7, reason: Array("bye".utf8), isRemote: true))
        pair.run(seconds: 5)
        #expect(pair.clientEvents.last == .drained)
        #expect(pair.serverEvents.last == .drained)
        let deadline = pair.client.nextDeadline
        #expect(deadline == nil)
    }

    @Test func `what was received before a close is told before it`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(10).withUnsafeBytes { try pair.client.write($0, to: id) }
        try pair.client.finish(id)
        pair.flush()
        pair.client.close(code: 0, at: pair.now)
        #expect(pair.run { Pair.closeReason($0.serverEvents) != nil })
        let readable = pair.serverEvents.firstIndex(of: .readable(id))
        let closed = pair.serverEvents.firstIndex { if case .closed = $0 { true } else { false } }
        #expect(readable != nil)
        #expect((readable ?? 0) < (closed ?? 0))
        #expect(try pair.serverRead(id).bytes == patterned(10))
    }

    @Test func `a closed end answers a peer that goes on, ever more rarely`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.filter = { $0.toServer ? [$0] : [] }
        pair.server?.close(code: 1, at: pair.now)
        pair.flush()
        let before = pair.sentByServer
        let datagram = [UInt8](repeating: 0x40, count: 100)
        for _ in 0..<100 {
            pair.deliver(Pair.Datagram(bytes: datagram, from: pair.clientFrom, due: pair.now, toServer: true))
            pair.flush()
        }
        let answers = pair.sentByServer - before
        #expect(answers > 2)
        #expect(answers < 10)
    }

    @Test func `a peer that has forgotten everything resets the connection`() throws {
        let key = [UInt8](repeating: 9, count: 32)
        let pair = try Pair(server: { $0.statelessResetKey = key })
        #expect(pair.connect())
        // The server restarts: the client's next datagram finds nobody.
        pair.server = nil
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(500).withUnsafeBytes { try pair.client.write($0, to: id) }
        pair.flush()
        let datagram = try #require(pair.wire.first)
        let header = try #require(datagram.bytes.withUnsafeBytes { DatagramHeader($0) })
        var reset = [UInt8](repeating: 0, count: 64)
        let count = reset.withUnsafeMutableBytes {
            StatelessPackets.statelessReset(
                for: header, datagramSize: datagram.bytes.count, key: key, into: $0, random: { 12345 })
        }
        #expect(count > 20)
        #expect(count < datagram.bytes.count)
        pair.deliver(
            Pair.Datagram(
                bytes: Array(reset[..<count]), from: Pair.serverAddress, due: pair.now, toServer: false))
        pair.flush()
        #expect(Pair.closeReason(pair.clientEvents) == .statelessReset)
        pair.run(seconds: 5)
        #expect(pair.clientEvents.last == .drained)
    }

    @Test func `a table finds the connection a reset is for among many, by the tokens it reports`() throws {
        final class Owner {}
        let key = [UInt8](repeating: 9, count: 32)
        let pair = try Pair(server: { $0.statelessResetKey = key })
        #expect(pair.connect())
        pair.run(seconds: 1)
        pair.wire = []
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(500).withUnsafeBytes { try pair.client.write($0, to: id) }
        pair.flush()
        let datagram = try #require(pair.wire.first)
        let header = try #require(datagram.bytes.withUnsafeBytes { DatagramHeader($0) })
        var reset = [UInt8](repeating: 0, count: 42)
        let count = reset.withUnsafeMutableBytes {
            StatelessPackets.statelessReset(
                for: header, datagramSize: datagram.bytes.count, key: key, into: $0, random: { 12345 })
        }
        #expect(count == reset.count)

        let (owner, other) = (Owner(), Owner())
        var table = StatelessResetTable<Owner>(key: [UInt8](repeating: 5, count: 32))
        var tokens: [ResetToken] = []
        for event in pair.clientEvents {
            switch event {
            case .resetTokenAdded(let token):
                tokens.append(token)
                table.add(token, of: owner)
            case .resetTokenRetired(let token):
                tokens.removeAll { $0 == token }
                table.remove(token, of: owner)
            default: break
            }
        }
        for number in 0..<1_000 {
            let bytes = (0..<16).map { UInt8(truncatingIfNeeded: number >> ($0 % 2 * 8)) }
            table.add(try #require(ResetToken(bytes)), of: other)
        }
        #expect(tokens.count >= 1 && table.count == tokens.count + 1_000)
        #expect(reset.withUnsafeBytes { table.owner(ofResetIn: $0) } === owner)
        #expect(reset[..<20].withUnsafeBytes { table.owner(ofResetIn: $0) } == nil)
        // Another connection does not take a token away that is not its own.
        for token in tokens { table.remove(token, of: other) }
        #expect(reset.withUnsafeBytes { table.owner(ofResetIn: $0) } === owner)
        reset[count - 1] ^= 1
        #expect(reset.withUnsafeBytes { table.owner(ofResetIn: $0) } == nil)
        reset[count - 1] ^= 1
        for token in tokens { table.remove(token, of: owner) }
        #expect(reset.withUnsafeBytes { table.owner(ofResetIn: $0) } == nil)
    }

    @Test func `a client that has forgotten everything resets the connection, too`() throws {
        let key = [UInt8](repeating: 9, count: 32)
        let pair = try Pair(client: { $0.statelessResetKey = key })
        #expect(pair.connect())
        pair.run(seconds: 1)
        // The id of its handshake has no token: the server addresses it by another.
        pair.wire = []
        let id = try pair.serverOpen(.unidirectional)
        _ = try patterned(500).withUnsafeBytes { try pair.server?.write($0, to: id) }
        pair.flush()
        let datagram = try #require(pair.wire.first { !$0.toServer })
        let header = try #require(datagram.bytes.withUnsafeBytes { DatagramHeader($0) })
        var reset = [UInt8](repeating: 0, count: 64)
        let count = reset.withUnsafeMutableBytes {
            StatelessPackets.statelessReset(
                for: header, datagramSize: datagram.bytes.count, key: key, into: $0, random: { 12345 })
        }
        #expect(count > 20)
        pair.deliver(
            Pair.Datagram(bytes: Array(reset[..<count]), from: Pair.clientAddress, due: pair.now, toServer: true))
        pair.flush()
        #expect(Pair.closeReason(pair.serverEvents) == .statelessReset)
    }

    @Test func `a peer is silent from the first probe time-out on, and no more once it is heard`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        let silent = QUICConnection.Event.peerSilent(PathAddress(remote: Pair.serverAddress, local: 0))
        #expect(!pair.clientEvents.contains(silent))
        // What the client says is lost, and what it hears goes on.
        pair.filter = { $0.toServer ? [] : [$0] }
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(500).withUnsafeBytes { try pair.client.write($0, to: id) }
        let other = try pair.serverOpen(.unidirectional)
        for _ in 0..<40 {
            _ = try patterned(8).withUnsafeBytes { try pair.server?.write($0, to: other) }
            let limit = pair.now + 20_000_000
            while pair.step(until: limit) {}
            pair.now = limit
        }
        #expect(!pair.clientEvents.contains(silent))
        // Now nothing arrives either way.
        pair.filter = { _ in [] }
        let probes = pair.client.recovery.statistics.probes
        #expect(pair.run { $0.clientEvents.contains(silent) })
        let heard = pair.client.recovery.statistics.probes
        #expect((1...2).contains(heard - probes))
        #expect(pair.run { $0.clientEvents.count { $0 == silent } == 3 })
        // All of it arrives again.
        pair.filter = { [$0] }
        #expect(pair.run { $0.clientEvents.contains(.handshakeConfirmed) && $0.client.bytesInFlight == 0 })
        pair.clientEvents = []
        pair.run(seconds: 5)
        #expect(!pair.clientEvents.contains(silent))
    }

    @Test func `a peer owes a sign of life from the first packet it has not answered, and none when it has`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 5)
        func owed() -> Timestamp? { pair.client.unheardSince }
        #expect(owed() == nil)
        let id = try pair.clientOpen(.unidirectional)
        func write() throws { _ = try patterned(8).withUnsafeBytes { try pair.client.write($0, to: id) } }
        pair.filter = { $0.toServer ? [] : [$0] }
        let sent = pair.now
        try write()
        pair.run(seconds: 10)
        try write()
        pair.run(seconds: 10)
        let since = try #require(owed())
        #expect(since >= sent && since - sent < 100_000_000)
        pair.filter = { [$0] }
        pair.run(seconds: 15)
        #expect(owed() == nil)
    }

    @Test func `a handshake nobody answers ends in time`() throws {
        let pair = try Pair(client: { $0.handshakeTimeout = .seconds(3) })
        pair.filter = { _ in [] }
        pair.run(seconds: 5)
        #expect(Pair.closeReason(pair.clientEvents) == .handshakeTimeout)
        #expect(pair.sentByClient > 1)
        #expect(pair.sentByClient < 20)
    }

    @Test func `no common protocol ends the handshake`() throws {
        let pair = try Pair(client: { $0.alpn = ["other"] })
        #expect(pair.run { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(let code, _, _, true) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason")
            return
        }
        #expect(code == 0x178)
    }

    @Test func `a refused first datagram ends the attempt`() throws {
        let pair = try Pair()
        pair.flush()
        let header = try #require(pair.wire[0].bytes.withUnsafeBytes { DatagramHeader($0) })
        var answer = [UInt8](repeating: 0, count: 128)
        let count = answer.withUnsafeMutableBytes { StatelessPackets.refuse(header, into: $0) }
        pair.wire = []
        pair.deliver(
            Pair.Datagram(bytes: Array(answer[..<count]), from: Pair.serverAddress, due: pair.now, toServer: false))
        pair.flush()
        guard case .transport(0x2, 0, _, true) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `version negotiation without our version ends the attempt`() throws {
        let pair = try Pair()
        pair.flush()
        var header = try #require(pair.wire[0].bytes.withUnsafeBytes { DatagramHeader($0) })
        header.form = .unknownVersion
        var answer = [UInt8](repeating: 0, count: 64)
        let count = answer.withUnsafeMutableBytes {
            StatelessPackets.versionNegotiation(for: header, versions: [.one], into: $0, random: 1)
        }
        // As written it offers version 1, which a client ignores; then one that does not.
        pair.deliver(
            Pair.Datagram(bytes: Array(answer[..<count]), from: Pair.serverAddress, due: pair.now, toServer: false))
        pair.flush()
        #expect(Pair.closeReason(pair.clientEvents) == nil)
        answer[count - 5] = 9
        pair.deliver(
            Pair.Datagram(bytes: Array(answer[..<count]), from: Pair.serverAddress, due: pair.now, toServer: false))
        pair.flush()
        #expect(Pair.closeReason(pair.clientEvents) == .versionMismatch)
    }

    @Test func `a client behind a rebound NAT is followed after it has answered`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.clientFrom = NetworkAddress(ipv4: (192, 0, 2, 1), port: 9999)
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(5000).withUnsafeBytes { try pair.client.write($0, to: id) }
        try pair.client.finish(id)
        #expect(pair.run { $0.serverEvents.contains(.pathChanged(PathAddress(remote: $0.clientFrom))) })
        #expect(pair.run { $0.clientEvents.contains(.streamFinished(id)) })
        let remote = pair.server?.remote
        #expect(remote == pair.clientFrom)
    }

    @Test func `keys are updated by either end and data goes on`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 2)
        for round in 0..<4 {
            let isClients = round % 2 == 0
            let isUpdated =
                isClients ? pair.client.updateKeys(at: pair.now) : pair.server?.updateKeys(at: pair.now) ?? false
            #expect(isUpdated)
            // The second exchange is acknowledged in the new phase at both ends: another update may follow.
            for _ in 0..<2 {
                let id = try pair.clientOpen(.unidirectional)
                _ = try patterned(5000).withUnsafeBytes { try pair.client.write($0, to: id) }
                try pair.client.finish(id)
                let back = try pair.serverOpen(.unidirectional)
                _ = try patterned(5000).withUnsafeBytes { try pair.server?.write($0, to: back) }
                try pair.server?.finish(back)
                #expect(pair.run(seconds: 5) { $0.clientEvents.contains(.streamFinished(id)) })
                #expect(pair.run(seconds: 5) { $0.serverEvents.contains(.streamFinished(back)) })
                pair.run(seconds: 2)
            }
            let phases = (pair.client.keys.isOdd, pair.server?.keys.isOdd)
            #expect(phases.0 == (round % 2 == 0))
            #expect(phases.1 == phases.0)
        }
    }

    @Test func `connection ids are issued, used up and replaced`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        let added = pair.serverEvents.filter { if case .connectionIDAdded = $0 { true } else { false } }
        // The client's choice, ours, and eleven more: as many as the client keeps.
        #expect(added.count == 13)
        let held = pair.client.peerIDs.count
        #expect(held == 12)
    }
}
