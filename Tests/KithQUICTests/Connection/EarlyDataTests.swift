import KithTesting
import KithWire
import Testing

@testable import KithQUIC

/// Session resumption and 0-RTT (RFC 9001 §4.5, §4.6; RFC 9000 §7.4.1).
@Suite struct EarlyDataTests {
    /// A server's tickets, and one of them in a client's hands.
    struct Acquaintance {
        var tickets: SessionTickets
        var ticket: SessionTicket
        var token: [UInt8]?
        var end: Timestamp
    }

    private func acquaintance(
        _ tickets: SessionTickets = SessionTickets(), version: QUICVersion = .one, tokens: AddressTokens? = nil,
        server change: (inout QUICConfiguration) -> Void = { _ in }
    ) throws -> Acquaintance {
        let pair = try Pair(
            client: { $0.versions = [version] },
            server: {
                $0.sessionTickets = tickets
                $0.addressTokens = tokens
                change(&$0)
            })
        pair.connect()
        pair.run(seconds: 1)
        var token: [UInt8]?
        for case .newToken(let bytes) in pair.clientEvents { token = bytes }
        return Acquaintance(
            tickets: tickets, ticket: try #require(Self.tickets(pair.clientEvents).first), token: token, end: pair.now)
    }

    private static func tickets(_ events: [QUICConnection.Event]) -> [SessionTicket] {
        events.compactMap { if case .sessionTicket(let ticket) = $0 { ticket } else { nil } }
    }

    private func returning(
        _ known: Acquaintance, early: Bool = true, client changeClient: (inout QUICConfiguration) -> Void = { _ in },
        server changeServer: (inout QUICConfiguration) -> Void = { _ in }
    ) throws -> Pair {
        try Pair(
            client: {
                $0.sessionTicket = known.ticket
                $0.offersEarlyData = early
                changeClient(&$0)
            },
            server: {
                $0.sessionTickets = known.tickets
                changeServer(&$0)
            }, at: known.end + 2_000_000_000)
    }

    /// Writes a whole message on a new stream of the client's.
    private func say(_ bytes: [UInt8], on pair: Pair) throws -> StreamID {
        let id = try pair.clientOpen(.bidirectional)
        let taken = try bytes.withUnsafeBytes { try pair.client.write($0, to: id) }
        #expect(taken == bytes.count)
        try pair.client.finish(id)
        return id
    }

    /// Reads what the server gets on a stream, to its end, answering with the same.
    private func echo(_ id: StreamID, on pair: Pair) throws -> [UInt8] {
        var got: [UInt8] = []
        var isFinished = false
        _ = pair.run {
            guard $0.serverEvents.contains(.streamOpened(id)), !isFinished else { return isFinished }
            guard let part = try? $0.serverRead(id) else { return true }
            got += part.bytes
            isFinished = part.isFinished
            return isFinished
        }
        #expect(isFinished)
        let taken = try got.withUnsafeBytes { try pair.server?.write($0, to: id) }
        #expect(taken == got.count)
        try pair.server?.finish(id)
        return got
    }

    private func answer(_ id: StreamID, on pair: Pair) throws -> [UInt8] {
        var got: [UInt8] = []
        var isFinished = false
        _ = pair.run {
            if isFinished { return true }
            guard let part = try? $0.clientRead(id) else { return true }
            got += part.bytes
            isFinished = part.isFinished
            return isFinished
        }
        #expect(isFinished)
        return got
    }

    // MARK: - Resumption

    @Test(arguments: QUICVersion.allCases) func `a ticket resumes the session, and both ends know who they speak to`(
        _ version: QUICVersion
    ) throws {
        let known = try acquaintance(version: version)
        let pair = try returning(known, early: false, client: { $0.versions = [version] })
        #expect(pair.connect())
        #expect(pair.isClientResumed)
        let isResumed = pair.server?.isResumed
        #expect(isResumed == true)
        #expect(pair.client.peerCredential == .rawPublicKey(try TestIdentity(2).publicKey))
        #expect(pair.server?.peerCredential == .rawPublicKey(try TestIdentity(1).publicKey))
        #expect(pair.client.earlyDataState == .none)
        #expect(!pair.clientEvents.contains(.earlyDataPossible) && !pair.serverEvents.contains(.earlyDataPossible))
        // The resumed session brings tickets of its own.
        pair.run(seconds: 1)
        #expect(!Self.tickets(pair.clientEvents).isEmpty)
    }

    @Test func `a ticket of one version is not used in another`() throws {
        let known = try acquaintance(version: .two)
        let pair = try returning(known)
        #expect(!pair.isClientReady)
        #expect(pair.connect())
        #expect(!pair.isClientResumed)
    }

    @Test func `a ticket survives being written down, and nothing else is a ticket`() throws {
        let ticket = try acquaintance().ticket
        #expect(SessionTicket(ticket.encoded) == ticket)
        #expect(SessionTicket([]) == nil)
        #expect(SessionTicket([UInt8](repeating: 1, count: 70_000)) == nil)
        #expect(!"\(ticket)".contains("["))
        var random = SeededRandom(seed: 5)
        for _ in 0..<2_000 {
            var damaged = ticket.encoded
            damaged[Int.random(in: 0..<damaged.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
            guard let read = SessionTicket(damaged), random.chance(0.02) else { continue }
            // A ticket nobody made costs the resumption, or the attempt when it names a peer nobody trusts.
            let pair = try Pair(
                client: {
                    $0.sessionTicket = read
                    $0.offersEarlyData = true
                }, server: { $0.sessionTickets = SessionTickets() })
            if pair.connect() { continue }
            guard case .transport(0x131, _, _, false) = Pair.closeReason(pair.clientEvents) else {
                Issue.record("closed for another reason: \(pair.clientEvents)")
                return
            }
        }
        for count in 0..<ticket.encoded.count { _ = SessionTicket(Array(ticket.encoded.prefix(count))) }
    }

    @Test func `a device forgotten since is refused, ticket or not`() throws {
        let known = try acquaintance()
        for isEarly in [false, true] {
            let pair = try returning(known, early: isEarly, server: { $0.verify = { _ in false } })
            if isEarly { _ = try say([1, 2, 3], on: pair) }
            #expect(pair.run { Pair.closeReason($0.clientEvents) != nil })
            guard case .transport(0x131, _, _, true) = Pair.closeReason(pair.clientEvents) else {
                Issue.record("closed for another reason: \(pair.clientEvents)")
                return
            }
            for event in pair.serverEvents {
                switch event {
                case .connectionIDAdded, .connectionIDRetired, .closed, .drained: break
                default: Issue.record("a forgotten device brought about \(event)")
                }
            }
        }
    }

    @Test func `a client says nothing early to a server it no longer trusts`() throws {
        let known = try acquaintance()
        let pair = try returning(known, client: { $0.verify = { _ in false } })
        #expect(!pair.isClientReady)
        pair.run(seconds: 1)
        #expect(!pair.clientEvents.contains(.earlyDataPossible) && !pair.clientEvents.contains(.connected))
    }

    // MARK: - 0-RTT

    @Test(arguments: QUICVersion.allCases) func `a question in the first flight is answered in one round trip`(
        _ version: QUICVersion
    ) throws {
        let known = try acquaintance(version: version)
        let pair = try returning(known, client: { $0.versions = [version] })
        let start = pair.now
        let id = try say(Array("ls".utf8), on: pair)
        #expect(try echo(id, on: pair) == Array("ls".utf8))
        // It was read before the handshake was complete.
        #expect(pair.now == start + pair.delay)
        #expect(pair.serverEvents.contains(.earlyDataPossible) && !pair.serverEvents.contains(.connected))
        #expect(try answer(id, on: pair) == Array("ls".utf8))
        #expect(pair.now == start + 2 * pair.delay)
        #expect(pair.connect())
        #expect(pair.client.earlyDataState == .accepted)
        #expect(pair.run { $0.clientEvents.contains(.streamFinished(id)) })
        #expect(!pair.clientEvents.contains(.earlyDataRejected))
    }

    @Test func `the logs of both ends tell 0-RTT packets from the others`() throws {
        let known = try acquaintance()
        let (here, there) = (SharedLines(), SharedLines())
        let pair = try returning(
            known, client: { $0.qlog = { here.append(String(decoding: $0, as: UTF8.self)) } },
            server: { $0.openQLog = { _, _ in { there.append(String(decoding: $0, as: UTF8.self)) } } })
        let id = try say([1, 2, 3], on: pair)
        #expect(try echo(id, on: pair) == [1, 2, 3])
        let sent = here.all.filter { $0.contains("quic:packet_sent") && $0.contains("\"0RTT\"") }
        let received = there.all.filter { $0.contains("quic:packet_received") && $0.contains("\"0RTT\"") }
        #expect(sent.count == 1 && received.count == 1)
    }

    @Test func `much early data keeps to the remembered limits and arrives whole`() throws {
        let known = try acquaintance(server: {
            $0.streamWindow = 9_000
            $0.connectionWindow = 14_000
            $0.maxIncomingBidirectionalStreams = 2
        })
        let pair = try returning(
            known,
            server: {
                $0.streamWindow = 9_000
                $0.connectionWindow = 14_000
                $0.maxIncomingBidirectionalStreams = 2
            })
        let messages = [patterned(40_000, seed: 1), patterned(30_000, seed: 2)]
        let ids = try messages.map { try say($0, on: pair) }
        let isThirdRefused = pair.client.openStream(.bidirectional) == nil
        #expect(isThirdRefused)
        for (id, message) in zip(ids, messages) {
            #expect(try echo(id, on: pair) == message)
            #expect(try answer(id, on: pair) == message)
        }
        #expect(pair.client.earlyDataState == .accepted)
    }

    @Test func `a two-datagram ClientHello carries early data too`() throws {
        let known = try acquaintance()
        let pair = try returning(known)
        let id = try say(patterned(700), on: pair)
        #expect(try echo(id, on: pair) == patterned(700))
        #expect(!pair.serverEvents.contains(.connected))
        #expect(try answer(id, on: pair) == patterned(700))
        #expect(pair.client.earlyDataState == .accepted)
    }

    @Test func `early answers keep to three times what came until the address is proven`() throws {
        let known = try acquaintance()
        let pair = try returning(known)
        let id = try say([7], on: pair)
        pair.filter = { $0.toServer && $0.bytes[0] & 0xF0 != 0xC0 ? [] : [$0] }
        #expect(pair.run { $0.serverEvents.contains(.readable(id)) })
        let flood = patterned(500_000)
        _ = try flood.withUnsafeBytes { try pair.server?.write($0, to: id) }
        let received = Int(pair.server?.statistics.bytesReceived ?? 0)
        pair.flush()
        #expect(received > 0 && pair.bytesSentByServer <= 3 * received)
        #expect(pair.bytesSentByServer > 2 * received)
    }

    @Test func `early data follows a Retry to the server's new id`() throws {
        let known = try acquaintance()
        let pair = try returning(known, server: { $0.addressTokens = AddressTokens() })
        pair.retries = true
        let id = try say(patterned(3_000), on: pair)
        #expect(try echo(id, on: pair) == patterned(3_000))
        #expect(pair.statelessAnswers.contains(.retry))
        #expect(!pair.serverEvents.contains(.connected))
        #expect(try answer(id, on: pair) == patterned(3_000))
        #expect(pair.client.earlyDataState == .accepted)
    }

    @Test func `a token of the earlier connection spares the Retry, so that the answer takes one round trip`() throws {
        let tokens = AddressTokens()
        let known = try acquaintance(tokens: tokens)
        let token = try #require(known.token)
        let pair = try returning(known, client: { $0.addressToken = token }, server: { $0.addressTokens = tokens })
        pair.retries = true
        let start = pair.now
        let id = try say([1], on: pair)
        #expect(try echo(id, on: pair) == [1])
        #expect(try answer(id, on: pair) == [1])
        #expect(pair.now == start + 2 * pair.delay)
        #expect(pair.statelessAnswers == [])
    }

    // MARK: - Rejection

    @Test func `what a server does not take is sent again, byte for byte`() throws {
        let known = try acquaintance()
        var unwilling = known.tickets
        unwilling.acceptsEarlyData = false
        var full = SessionTickets(key: SessionTickets.randomKey())
        full.acceptsEarlyData = true
        for (tickets, isResumed) in [(unwilling, true), (full, false)] {
            let pair = try returning(known, server: { $0.sessionTickets = tickets })
            let small = try say(Array("question".utf8), on: pair)
            let large = try say(patterned(60_000), on: pair)
            let abandoned = try pair.clientOpen(.bidirectional)
            _ = try [9, 9].withUnsafeBytes { try pair.client.write($0, to: abandoned) }
            pair.flush()
            try pair.client.reset(abandoned, code: 4)
            #expect(try echo(small, on: pair) == Array("question".utf8))
            #expect(pair.serverEvents.contains(.connected) && !pair.serverEvents.contains(.earlyDataPossible))
            #expect(try echo(large, on: pair) == patterned(60_000))
            #expect(try answer(large, on: pair) == patterned(60_000))
            #expect(pair.clientEvents.filter { $0 == .earlyDataRejected }.count == 1)
            #expect(pair.client.earlyDataState == .rejected)
            #expect(pair.client.isResumed == isResumed)
            #expect(pair.run { $0.serverEvents.contains(.streamReset(abandoned, code: 4)) })
        }
    }

    @Test func `a server without a place to remember handshakes takes no early data`() throws {
        let known = try acquaintance(SessionTickets(capacity: 1))
        let first = try returning(known)
        let id = try say([1], on: first)
        #expect(try echo(id, on: first) == [1])
        #expect(first.client.earlyDataState != .rejected)
        let second = try returning(known)
        let again = try say([2], on: second)
        #expect(try echo(again, on: second) == [2])
        #expect(second.client.earlyDataState == .rejected)
    }

    @Test(arguments: [false, true]) func `early data is rejected where a limit has changed`(_ grows: Bool) throws {
        let known = try acquaintance(server: { $0.maxIncomingBidirectionalStreams = 4 })
        let pair = try returning(
            known,
            server: {
                $0.maxIncomingBidirectionalStreams = grows ? 8 : 2
                $0.connectionWindow = grows ? 1 << 20 : 8_000
                $0.streamWindow = grows ? 1 << 20 : 3_000
            })
        let ids = try (0..<4).map { try say(patterned(10_000, seed: UInt64($0)), on: pair) }
        #expect(pair.connect())
        #expect(pair.client.earlyDataState == .rejected)
        for (index, id) in ids.enumerated() {
            if grows || index < 2 {
                #expect(try echo(id, on: pair) == patterned(10_000, seed: UInt64(index)))
                continue
            }
            // There is no place for it: its owner is told, and its number is used again.
            #expect(pair.clientEvents.contains(.streamReset(id, code: 0)))
            #expect(pair.clientEvents.contains(.sendStopped(id, code: 0)))
        }
        guard !grows else { return }
        for id in ids.prefix(2) { _ = try answer(id, on: pair) }
        var next: StreamID?
        #expect(
            pair.run {
                if next == nil { next = $0.client.openStream(.bidirectional) }
                return next != nil
            })
        #expect(next == ids[2])
    }

    @Test func `a server that takes early data and then allows less is refused`() throws {
        var known = try acquaintance()
        // As if it had promised more.
        var promised = known.ticket.parameters
        promised.initialMaxData += 1
        known.ticket = SessionTicket(version: .one, parameters: promised, tls: known.ticket.tls)
        let pair = try returning(known)
        _ = try say([1], on: pair)
        #expect(pair.run { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(0xA, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `a Version Negotiation throws early data away, and the next attempt sends it`() throws {
        let known = try acquaintance()
        let pair = try returning(known, server: { $0.versions = [.two] })
        let id = try say(patterned(5_000), on: pair)
        #expect(try echo(id, on: pair) == patterned(5_000))
        #expect(pair.clientEvents.filter { $0 == .earlyDataRejected }.count == 1)
        #expect(Set(pair.statelessAnswers) == [.versionNegotiation])
        #expect(try answer(id, on: pair) == patterned(5_000))
    }

    // MARK: - Repetition

    @Test func `a repeated first flight is refused, and does nothing`() throws {
        let known = try acquaintance()
        let pair = try returning(known)
        var flight: [Pair.Datagram] = []
        pair.filter = { datagram in
            if datagram.toServer, pair.serverEvents.isEmpty { flight.append(datagram) }
            return [datagram]
        }
        let id = try say(Array("once".utf8), on: pair)
        #expect(try echo(id, on: pair) == Array("once".utf8))
        #expect(!flight.isEmpty)

        /// Everything the server's application would see of the recorded datagrams.
        func replay(to tickets: SessionTickets, after seconds: Int64) throws -> Pair {
            // Its client is nobody: only the recording is heard.
            let other = try Pair(
                server: { $0.sessionTickets = tickets }, at: pair.now + seconds * 1_000_000_000)
            other.filter = { _ in [] }
            for datagram in flight { other.deliver(datagram) }
            other.flush()
            return other
        }
        let again = try replay(to: known.tickets, after: 1)
        #expect(!again.serverEvents.contains(.earlyDataPossible))
        #expect(!again.serverEvents.contains(.streamOpened(id)))
        // Another server that shares the key, but not the memory, is fooled: what is early must bear repetition.
        var copy = SessionTickets(key: [UInt8](repeating: 9, count: 48))
        let shared = try acquaintance(copy)
        let third = try returning(shared)
        flight = []
        third.filter = { datagram in
            if datagram.toServer, third.serverEvents.isEmpty { flight.append(datagram) }
            return [datagram]
        }
        let question = try say([5], on: third)
        #expect(try echo(question, on: third) == [5])
        copy = SessionTickets(key: [UInt8](repeating: 9, count: 48))
        let fooled = try replay(to: copy, after: 0)
        #expect(fooled.serverEvents.contains(.readable(question)))
        // But it never completes, and answers only to the three-fold limit.
        let isConnected = fooled.server?.isConnected
        #expect(isConnected == false)
    }

    @Test func `handshakes are remembered for a window, and no more than there is room for`() {
        let seen = SeenHandshakes(capacity: 3)
        func random(_ number: UInt8) -> [UInt8] { [UInt8](repeating: number, count: 32) }
        var now = Timestamp(nanoseconds: 0)
        #expect(seen.insert(random(1), at: now))
        #expect(!seen.insert(random(1), at: now))
        now = now + 149_000_000_000
        #expect(seen.insert(random(2), at: now))
        now = now + 2_000_000_000
        // In the next window the first two are still known.
        #expect(!seen.insert(random(1), at: now) && !seen.insert(random(2), at: now))
        for number in 3...5 as ClosedRange<UInt8> { #expect(seen.insert(random(number), at: now)) }
        #expect(!seen.hasRoom(at: now) && !seen.insert(random(6), at: now))
        now = now + 400_000_000_000
        #expect(seen.hasRoom(at: now) && seen.insert(random(1), at: now))
        #expect(!seen.insert([1, 2, 3], at: now))
    }

    // MARK: - Loss

    @Test(arguments: 0..<10) func `the loss of any of the first datagrams delays early data and nothing else`(
        _ lost: Int
    ) throws {
        let known = try acquaintance()
        for isPostQuantum in [false, true] {
            let pair = try returning(known, client: { $0.offersPostQuantumKeyShare = isPostQuantum })
            var count = 0
            pair.filter = { datagram in
                count += 1
                return count == lost + 1 ? [] : [datagram]
            }
            let id = try say(patterned(4_000), on: pair)
            #expect(try echo(id, on: pair) == patterned(4_000))
            #expect(try answer(id, on: pair) == patterned(4_000))
            #expect(pair.client.earlyDataState == .accepted)
        }
    }

    @Test func `early data over bad networks is byte-exact, accepted or not`() throws {
        let seed = SeededRandom.fromEnvironment().seed
        print("early data over bad networks, seed \(seed)")
        var outcomes: [QUICConnection.EarlyDataState: Int] = [:]
        for round in 0..<300 as Range<UInt64> {
            var random = SeededRandom(seed: seed &+ round)
            let known = try acquaintance(server: {
                $0.streamWindow = 20_000
                $0.connectionWindow = 30_000
            })
            var tickets = known.tickets
            if random.chance(0.3) { tickets.acceptsEarlyData = false }
            let isPostQuantum = random.chance(0.5)
            let pair = try returning(
                known, client: { $0.offersPostQuantumKeyShare = isPostQuantum },
                server: {
                    $0.sessionTickets = tickets
                    $0.streamWindow = 20_000
                    $0.connectionWindow = 30_000
                    $0.handshakeTimeout = .seconds(300)
                })
            let loss = Double.random(in: 0...0.3, using: &random)
            pair.filter = { datagram in
                if random.chance(loss) { return [] }
                var datagram = datagram
                datagram.due = datagram.due + Int64.random(in: 0...8_000_000, using: &random)
                return random.chance(0.1) ? [datagram, datagram] : [datagram]
            }
            let messages = (0..<3).map { patterned(1 + Int(round) * 37 % 9_000, seed: round + $0) }
            let ids = try messages.map { try say($0, on: pair) }
            for (id, message) in zip(ids, messages) {
                #expect(try echo(id, on: pair) == message, "seed \(seed &+ round)")
                #expect(try answer(id, on: pair) == message, "seed \(seed &+ round)")
            }
            outcomes[pair.client.earlyDataState, default: 0] += 1
        }
        let (accepted, rejected) = (outcomes[.accepted] ?? 0, outcomes[.rejected] ?? 0)
        print("early data: \(accepted) accepted, \(rejected) rejected")
        #expect(accepted > 100 && rejected > 30)
    }

    @Test func `a 0-RTT packet that was overtaken by the handshake is still read, for a while`() throws {
        let known = try acquaintance()
        for (wait, isRead) in [(Int64(10_000_000), true), (60_000_000_000, false)] {
            let pair = try returning(known, client: { $0.maxIdleTimeout = .seconds(600) })
            let id = try pair.clientOpen(.bidirectional)
            _ = try [8].withUnsafeBytes { try pair.client.write($0, to: id) }
            var late: [Pair.Datagram] = []
            pair.filter = { datagram in
                // Two in one: the Initial goes on alone.
                guard datagram.toServer, late.isEmpty, datagram.bytes[0] & 0xF0 == 0xC0,
                    let rest = Self.afterFirstPacket(datagram.bytes)
                else { return [datagram] }
                var early = datagram
                early.bytes = Array(datagram.bytes[rest...])
                var initial = datagram
                initial.bytes =
                    Array(datagram.bytes[..<rest]) + [UInt8](repeating: 0, count: datagram.bytes.count - rest)
                late.append(early)
                return [initial]
            }
            pair.filter = Self.until(pair, .connected, pair.filter)
            #expect(pair.run { $0.serverEvents.contains(.connected) })
            #expect(late.count == 1)
            pair.wire = []
            pair.filter = { _ in [] }
            pair.now = pair.now + wait
            for datagram in late { pair.deliver(datagram) }
            pair.flush()
            #expect(pair.serverEvents.contains(.readable(id)) == isRead)
        }
    }

    /// Keeps 1-RTT packets of the client away, so that only the late packet can bring the stream.
    private static func until(
        _ pair: Pair, _ event: QUICConnection.Event, _ filter: @escaping (Pair.Datagram) -> [Pair.Datagram]
    ) -> (Pair.Datagram) -> [Pair.Datagram] {
        { datagram in datagram.toServer && datagram.bytes[0] & 0x80 == 0 ? [] : filter(datagram) }
    }

    /// Where the second packet of a datagram begins; nil when there is none.
    private static func afterFirstPacket(_ bytes: [UInt8]) -> Int? {
        bytes.withUnsafeBytes {
            guard let header = PacketHeader.read($0, localConnectionIDLength: ConnectionID.localLength),
                header.length < $0.count, $0[header.length] & 0xF0 == 0xD0
            else { return nil }
            return header.length
        }
    }

    @Test func `frames that have no business in 0-RTT packets are a violation`() throws {
        let pair = try Pair()
        pair.connect()
        for frame in [
            [0x02, 0, 0, 0, 0], [0x06, 0, 1, 9], [0x1E], [0x07, 1, 5], [0x1B, 0, 0, 0, 0, 0, 0, 0, 0], [0x19, 0],
        ]
            as [[UInt8]]
        {
            let error = #expect(throws: TransportError.self) {
                try frame.withUnsafeBytes {
                    _ = try pair.server?.processFrames(
                        $0, .application, isEarly: true, destination: ConnectionID(),
                        from: PathAddress(remote: Pair.clientAddress), at: pair.now)
                }
            }
            #expect(error?.code == TransportError.Code.protocolViolation.rawValue)
        }
    }
}

extension Pair {
    /// Whether the client resumes a session.
    fileprivate var isClientResumed: Bool { client.isResumed }
    /// Whether the client can use streams.
    fileprivate var isClientReady: Bool { client.canUseStreams }
}
