import KithWire
import Testing

@testable import KithQUIC

/// Retry and NEW_TOKEN (RFC 9000 §8.1).
@Suite struct AddressValidationTests {
    private func retrying(
        _ tokens: AddressTokens = AddressTokens(), isPostQuantum: Bool = true
    ) throws -> Pair {
        let pair = try Pair(
            client: { $0.offersPostQuantumKeyShare = isPostQuantum }, server: { $0.addressTokens = tokens })
        pair.retries = true
        return pair
    }

    @Test(arguments: QUICVersion.allCases) func `a client comes back with the token and is let in`(
        _ version: QUICVersion
    ) throws {
        let pair = try Pair(
            client: { $0.versions = [version] }, server: { $0.addressTokens = AddressTokens() })
        pair.retries = true
        #expect(pair.connect())
        // Each datagram of the first flight gets one.
        #expect(pair.statelessAnswers == [.retry, .retry])
        // The address is proven before the first answer: nothing held it back.
        let spoken = pair.server?.version
        #expect(spoken == version)
    }

    @Test func `a handshake with a Retry survives the loss of every third datagram`() throws {
        let pair = try retrying()
        var count = 0
        pair.filter = { datagram in
            count += 1
            return count % 3 == 2 ? [] : [datagram]
        }
        #expect(pair.connect())
    }

    @Test func `a token of another address, another attempt, another key or another time proves nothing`() throws {
        let tokens = AddressTokens()
        let here = NetworkAddress(ipv4: (192, 0, 2, 1), port: 1111)
        let otherPort = NetworkAddress(ipv4: (192, 0, 2, 1), port: 1112)
        let otherHost = NetworkAddress(ipv4: (192, 0, 2, 9), port: 1111)
        let original = ConnectionID(random: 1)
        let source = ConnectionID(random: 2)
        let then = Timestamp(nanoseconds: 5_000_000_000)
        let token = tokens.retryToken(original: original, source: source, for: here, at: then)
        func proof(
            _ token: [UInt8], _ destination: ConnectionID = source, _ remote: NetworkAddress = here,
            by judge: AddressTokens = tokens, after seconds: Int64 = 1
        ) -> AddressTokens.Proof {
            judge.proof(token, destination: destination, from: remote, at: then + seconds * 1_000_000_000)
        }
        #expect(proof(token) == .retried(original: original))
        #expect(proof(token, source, otherPort) == .invalid)
        #expect(proof(token, source, otherHost) == .invalid)
        #expect(proof(token, original) == .invalid)
        #expect(proof(token, by: AddressTokens()) == .invalid)
        #expect(proof(token, after: 16) == .invalid)
        #expect(proof(token, after: -1) == .invalid)
        for index in token.indices.dropFirst() {
            var forged = token
            forged[index] ^= 1
            #expect(proof(forged) == .invalid)
        }
        for count in 1..<token.count { #expect(proof(Array(token.prefix(count))) == .invalid) }

        let later = tokens.laterToken(for: here, at: then)
        #expect(proof(later, original, otherPort) == .known)
        #expect(proof(later, original, otherPort, after: 86_399) == .known)
        #expect(proof(later, source, otherHost) == .none)
        #expect(proof(later, after: 86_401) == .none)
        #expect(proof(later, by: AddressTokens()) == .none)
        #expect(proof([]) == .none)
        #expect(proof([UInt8](repeating: 0xA1, count: 500)) == .none)
        #expect(proof(Array("somebody else's".utf8)) == .none)
    }

    @Test func `a forged Retry token is refused with INVALID_TOKEN`() throws {
        let pair = try retrying(isPostQuantum: false)
        pair.filter = { datagram in
            guard datagram.toServer, datagram.bytes[0] & 0x80 != 0 else { return [datagram] }
            let header = datagram.bytes.withUnsafeBytes { DatagramHeader($0) }
            guard let header, !header.token.isEmpty else { return [datagram] }
            // Somebody else's address: the token is another's.
            var moved = datagram
            moved.from = NetworkAddress(ipv4: (203, 0, 113, 5), port: 9)
            return [moved]
        }
        #expect(pair.run(seconds: 5) { $0.statelessAnswers.count >= 2 })
        let isAccepted = pair.server != nil
        #expect(!isAccepted)
        #expect(pair.statelessAnswers.prefix(2) == [.retry, .initial])
        // The client learns it from the very answer.
        #expect(pair.run(seconds: 5) { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(0xB, _, _, true) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `a server that hides its Retry is found out`() throws {
        let tokens = AddressTokens()
        let pair = try retrying(tokens, isPostQuantum: false)
        // The server forgets to name the first destination: the proof is dropped on the way to the engine.
        #expect(pair.run(seconds: 5) { $0.statelessAnswers.count == 1 && !$0.wire.isEmpty })
        #expect(pair.run(seconds: 5) { pair in pair.wire.contains { $0.toServer } })
        let second = try #require(pair.wire.first { $0.toServer })
        pair.wire = []
        let header = try #require(second.bytes.withUnsafeBytes { DatagramHeader($0) })
        #expect(!header.token.isEmpty)
        pair.server = try QUICConnection.server(
            pair.serverConfiguration, remote: second.from, initial: header, proof: .known, at: pair.now)
        pair.deliver(second)
        #expect(pair.run(seconds: 5) { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(0x8, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `a token for later is given once, again when lost, and spares the Retry`() throws {
        let tokens = AddressTokens()
        let first = try Pair(server: { $0.addressTokens = tokens })
        var lost = 0
        first.filter = { datagram in
            // The first packets after the handshake carry it.
            guard !datagram.toServer, datagram.bytes[0] & 0x80 == 0, lost < 2 else { return [datagram] }
            lost += 1
            return []
        }
        first.connect()
        first.run(seconds: 3)
        let given = first.clientEvents.compactMap { if case .newToken(let token) = $0 { token } else { nil } }
        #expect(lost == 2)
        let token = try #require(given.first)
        #expect(given.allSatisfy { $0.count <= AddressTokens.maximumLength })

        let later = first.now + 60_000_000_000
        let second = try Pair(client: { $0.addressToken = token }, server: { $0.addressTokens = tokens }, at: later)
        second.retries = true
        // Another port of the same host, later.
        second.clientFrom = NetworkAddress(ipv4: (192, 0, 2, 1), port: 4567)
        #expect(second.connect())
        #expect(second.statelessAnswers == [])

        let elsewhere = try Pair(
            client: { $0.addressToken = token }, server: { $0.addressTokens = tokens }, at: later)
        elsewhere.retries = true
        elsewhere.clientFrom = NetworkAddress(ipv4: (192, 0, 2, 77), port: 4567)
        #expect(elsewhere.connect())
        #expect(elsewhere.statelessAnswers == [.retry, .retry])
    }

    @Test func `a client that gives tokens is refused`() throws {
        let pair = try Pair()
        pair.connect()
        #expect(throws: TransportError.self) {
            try ([1, 2, 3] as [UInt8]).withUnsafeBytes { try pair.server?.receiveNewToken($0) }
        }
        for _ in 0..<100 { try ([1, 2, 3] as [UInt8]).withUnsafeBytes { try pair.client.receiveNewToken($0) } }
        pair.flush()
        // What is kept is bounded.
        #expect(pair.clientEvents.filter { $0 == .newToken([1, 2, 3]) }.count == 8)
    }
}
