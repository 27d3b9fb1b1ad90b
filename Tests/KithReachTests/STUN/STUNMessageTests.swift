import KithReach
import KithTesting
import KithWire
import Testing

@Suite("STUN messages") struct STUNMessageTests {
    // RFC 5769 §2.1 to §2.4.
    static let request = bytes(
        """
        000100582112a442b7e7a701bc34d686fa87dfae802200105354554e207465737420636c69656e74002400046e0001ff80290008\
        932ff9b151263b36000600096576746a3a68367659202020000800149aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a2\
        80280004e57a3bcf
        """)
    static let answerIPv4 = bytes(
        """
        0101003c2112a442b7e7a701bc34d686fa87dfae8022000b7465737420766563746f7220002000080001a147e112a643\
        000800142b91f599fd9e90c38c7489f92af9ba53f06be7d780280004c07d4c96
        """)
    static let answerIPv6 = bytes(
        """
        010100482112a442b7e7a701bc34d686fa87dfae8022000b7465737420766563746f7220002000140002a1470113a9faa5d3f179\
        bc25f4b5bed2b9d900080014a382954e4be67bf11784c97c8292c275bfe3ed4180280004c8fb0b4c
        """)
    static let longTermRequest = bytes(
        """
        000100602112a44278ad3433c6ad72c029da412e00060012e3839ee38388e383aae38383e382afe382b900000015001c662f2f34\
        39396b39353464364f4c33346f4c394653547679363473410014000b6578616d706c652e6f72670000080014f67024656dd64a3e\
        02b8e0712e85c9a28ca89666
        """)

    static let transaction = STUNTransactionID(0xB7E7_A701, 0xBC34_D686_FA87_DFAE)

    static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    @Test func `the sample messages of RFC 5769 are read`() throws {
        let request = try STUNMessage(parsing: Self.request)
        #expect(request.kind == .request)
        #expect(request.transaction == Self.transaction)
        #expect(request.hasFingerprint)
        // PRIORITY is of ICE, which is not spoken here.
        #expect(request.unknownAttributes == [0x0024])

        let address4 = try STUNMessage(parsing: Self.answerIPv4).mappedAddress
        #expect(address4 == NetworkAddress("192.0.2.1:32853"))
        let address6 = try STUNMessage(parsing: Self.answerIPv6).mappedAddress
        #expect(address6 == NetworkAddress("[2001:db8:1234:5678:11:2233:4455:6677]:32853"))

        let longTerm = try STUNMessage(parsing: Self.longTermRequest)
        #expect(longTerm.unknownAttributes.isEmpty && !longTerm.hasFingerprint)
    }

    @Test func `a damaged message is refused by its fingerprint, wherever the damage is`() {
        for position in Self.answerIPv4.indices {
            var damaged = Self.answerIPv4
            damaged[position] ^= 1
            // Damage to the type of the fingerprint makes it one that is passed over.
            #expect((try? STUNMessage(parsing: damaged))?.hasFingerprint != true, "byte \(position)")
        }
    }

    @Test(arguments: ["192.0.2.7:1", "255.254.253.252:65535", "[2001:db8::7]:4433"])
    func `what is written is read`(address: String) throws {
        let address = try #require(NetworkAddress(address))
        var message = STUNMessage(.success, transaction: Self.transaction)
        message.xorMappedAddress = address
        message.plainMappedAddress = NetworkAddress("10.1.2.3:4")
        message.responseOrigin = NetworkAddress("192.0.2.1:3478")
        message.otherAddress = NetworkAddress("[2001:db8::2]:3479")
        message.changeRequest = .init(changesIP: true, changesPort: false)
        message.hasFingerprint = true
        #expect(try STUNMessage(parsing: message.encoded) == message)
        #expect(message.mappedAddress == address)

        var failure = STUNMessage(.failure, transaction: Self.transaction)
        failure.refusal = .init(code: 420, unknownAttributes: [0x24, 0x7FFF, 3])
        #expect(try STUNMessage(parsing: failure.encoded) == failure)
    }

    @Test func `QUIC is told apart from STUN`() {
        #expect(STUNMessage.isSTUN(Self.request))
        #expect(!STUNMessage.isSTUN([]))
        #expect(!STUNMessage.isSTUN(Self.request.dropLast()))
        for bit: UInt8 in [0x80, 0x40] {
            var quic = Self.request
            quic[0] |= bit
            #expect(!STUNMessage.isSTUN(quic))
        }
        var greased = Self.request
        greased[5] ^= 0x10
        #expect(!STUNMessage.isSTUN(greased))
        var odd = Self.request
        odd[3] += 1
        #expect(!STUNMessage.isSTUN(odd + [0]))
    }

    @Test func `attributes that break a rule are refused`() {
        func message(_ attributes: String) -> [UInt8] {
            let attributes = Self.bytes(attributes)
            return [1, 1, 0, UInt8(attributes.count)] + Self.request[4..<20] + attributes
        }
        let broken = [
            "00200008 0003 0000 00000000",  // a family there is not
            "00200004 0001 0000",  // an address cut short
            "0020000c 0001 0000 00000000 00000000",  // an address too long
            "002000ff 0001 0000",  // longer than the message
            "80280004 00000000",  // a wrong fingerprint
            "00030008 00000000 00000000",
            "00090004 00000200",
            "00090004 00000464",
            "000a0001 00000000",
        ]
        for text in broken {
            #expect(throws: STUNMessage.Malformed.self, "\(text)") { try STUNMessage(parsing: message(text)) }
        }
        #expect(throws: STUNMessage.Malformed.self, "a failure that does not say why") {
            try STUNMessage(parsing: [1, 0x11, 0, 0] + Self.request[4..<20])
        }
        #expect(throws: STUNMessage.Malformed.self, "a method that is not Binding") {
            try STUNMessage(parsing: [0, 3, 0, 0] + Self.request[4..<20])
        }
    }
}

@Suite("STUN responder") struct STUNResponderTests {
    let local = NetworkAddress(ipv4: (192, 0, 2, 1), port: 3_478)
    let source = NetworkAddress(ipv4: (198, 51, 100, 7), port: 50_000)

    private func request(padding: Int = 0, change: STUNMessage.ChangeRequest? = nil) -> [UInt8] {
        var request = STUNMessage(.request, transaction: STUNMessageTests.transaction)
        (request.paddingLength, request.changeRequest, request.hasFingerprint) = (padding, change, padding > 0)
        return request.encoded
    }

    @Test func `a request is answered with the source it came from`() throws {
        let answer = try #require(STUNResponder().answer(request(padding: 40), from: source, to: local))
        let message = try STUNMessage(parsing: answer.bytes)
        #expect(message.kind == .success && message.transaction == STUNMessageTests.transaction)
        #expect(message.mappedAddress == source && message.hasFingerprint)
        #expect(answer.origin == local)
    }

    @Test func `no answer has more bytes than the request`() {
        var random = SeededRandom.fromEnvironment()
        let alternate = NetworkAddress(ipv6: 0x2001_0DB8 << 32, 2, port: 3_479)
        let sources = [source, NetworkAddress(ipv6: 0x2001_0DB8 << 32, 9, port: 7)]
        for length in stride(from: 0, through: 124, by: 4) {
            for attribute: [UInt8] in [
                [], [0x00, 0x24, 0, 0], [0x00, 0x20, 0, 4, 0, 9, 0, 0], [0x00, 0x03, 0, 4, 0, 0, 0, 6],
            ] {
                let body: [UInt8] = attribute + (length == 0 ? [] : [0x80, 0x22, 0, UInt8(length)])
                let bytes: [UInt8] =
                    [0, 1, 0, UInt8(body.count + length)] + STUNMessageTests.request[4..<20] + body
                    + random.bytes(length)
                for source in sources {
                    for responder in [STUNResponder(), STUNResponder(alternate: alternate)] {
                        let answer = responder.answer(bytes, from: source, to: local)
                        #expect(answer?.bytes.count ?? 0 <= bytes.count, "\(random)")
                    }
                }
            }
        }
        #expect(STUNResponder().answer(request(), from: source, to: local) == nil)
        let short = STUNResponder(answersShortRequests: true).answer(request(), from: source, to: local)
        #expect(short?.bytes.count == 32)
    }

    @Test func `an attribute that must be understood and is not is named in error 420`() throws {
        let answer = try #require(STUNResponder().answer(STUNMessageTests.request, from: source, to: local))
        let message = try STUNMessage(parsing: answer.bytes)
        #expect(message.kind == .failure)
        #expect(message.refusal == .init(code: 420, unknownAttributes: [0x24]))
        let change = request(padding: 60, change: .init(changesIP: true, changesPort: true))
        let refusal = try #require(STUNResponder().answer(change, from: source, to: local))
        #expect(try STUNMessage(parsing: refusal.bytes).refusal == .init(code: 420, unknownAttributes: [3]))
    }

    @Test func `a malformed request is answered with error 400`() throws {
        let malformed: [UInt8] =
            [0, 1, 0, 12] + STUNMessageTests.request[4..<20] + [0, 0x20, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0]
        let answer = try #require(STUNResponder().answer(malformed, from: source, to: local))
        #expect(try STUNMessage(parsing: answer.bytes).refusal == .init(code: 400))
    }

    @Test func `a server with two addresses answers from the one it is asked to`() throws {
        let alternate = NetworkAddress(ipv4: (192, 0, 2, 2), port: 3_479)
        let responder = STUNResponder(alternate: alternate)
        let expected = [
            (true, true, "192.0.2.2:3479"), (true, false, "192.0.2.2:3478"), (false, true, "192.0.2.1:3479"),
            (false, false, "192.0.2.1:3478"),
        ]
        for (ip, port, origin) in expected {
            let bytes = request(padding: 80, change: .init(changesIP: ip, changesPort: port))
            let answer = try #require(responder.answer(bytes, from: source, to: local))
            let message = try STUNMessage(parsing: answer.bytes)
            #expect(answer.origin.description == origin && message.responseOrigin == answer.origin)
            #expect(message.otherAddress == alternate)
        }
    }

    @Test func `answers and groups are not answered`() {
        #expect(STUNResponder().answer(STUNMessageTests.answerIPv4, from: source, to: local) == nil)
        for source in ["224.0.0.1:5", "255.255.255.255:5", "0.0.0.0:5", "192.0.2.1:0", "[ff02::1]:9"] {
            let source = NetworkAddress(source).unsafelyUnwrapped
            #expect(STUNResponder().answer(request(padding: 40), from: source, to: local) == nil)
        }
    }
}

@Suite("STUN client") struct STUNClientTests {
    let server = NetworkAddress(ipv4: (192, 0, 2, 1), port: 3_478)
    let mapped = NetworkAddress(ipv4: (198, 51, 100, 7), port: 50_000)
    let start = ContinuousClock.now

    /// A client that has sent one request, and the request.
    private func asking(_ request: STUNClient.Request? = nil) throws -> (client: STUNClient, request: [UInt8]) {
        var random = SeededRandom(seed: 1)
        var client = STUNClient()
        let isTaken = client.ask(request ?? .init(server: server), at: start, using: &random)
        let datagram = client.nextDatagram(at: start)
        try #require(isTaken && datagram?.server == server)
        return (client, try #require(datagram?.bytes))
    }

    @Test func `a request is sent at 0, 100, 300, 700 and 1500 ms and given up at 3100`() throws {
        var (client, first) = try asking()
        var sent: [Duration] = []
        while let deadline = client.nextDeadline {
            client.timedOut(at: deadline)
            while let datagram = client.nextDatagram(at: deadline) {
                #expect(datagram.server == server && datagram.bytes == first)
                #expect(datagram.bytes.count == STUNClient.requestLength)
                sent.append(deadline - start)
            }
        }
        #expect(sent == [100, 300, 700, 1_500].map { .milliseconds($0) })
        let results = [client.nextResult()?.outcome, client.nextResult()?.outcome]
        #expect(results == [.timedOut, nil])
    }

    @Test func `the answer of the server says the address and the round trip`() throws {
        var (client, request) = try asking()
        let answer = try #require(STUNResponder().answer(request, from: mapped, to: server))
        let later = start + .milliseconds(38)
        let taken = [answer.bytes, answer.bytes].map { client.receive($0, from: server, at: later) }
        #expect(taken == [true, false], "once only")
        let result = client.nextResult()
        #expect(result?.outcome == .answered(mapped: mapped, otherAddress: nil, roundTrip: .milliseconds(38)))
        #expect(client.nextDeadline == nil)
    }

    @Test func `forged answers change nothing`() throws {
        var (client, request) = try asking()
        let answer = try #require(STUNResponder().answer(request, from: mapped, to: server)).bytes
        var elsewhere = server
        elsewhere.port += 1
        var forged = STUNMessage(.success, transaction: STUNTransactionID(1, 2))
        forged.xorMappedAddress = mapped
        var empty = try STUNMessage(parsing: answer)
        empty.xorMappedAddress = nil
        let attempts = [
            (answer, elsewhere), (forged.encoded, server), (empty.encoded, server), (request, server), ([], server),
        ]
        for (bytes, source) in attempts {
            let isTaken = client.receive(bytes, from: source, at: start)
            #expect(!isTaken)
        }
        let result = client.nextResult()
        #expect(result == nil)
        let isTaken = client.receive(answer, from: server, at: start)
        #expect(isTaken, "the true one still counts")
    }

    @Test func `an answer before the request was sent is forged`() {
        var random = SeededRandom(seed: 1)
        var same = random
        var client = STUNClient()
        let isAsked = client.ask(.init(server: server), at: start, using: &random)
        var guessed = STUNMessage(.success, transaction: STUNTransactionID(using: &same))
        guessed.xorMappedAddress = mapped
        let isTaken = client.receive(guessed.encoded, from: server, at: start)
        #expect(isAsked && !isTaken)
    }

    @Test func `an answer from the other address counts where it was asked for`() throws {
        let other = NetworkAddress(ipv4: (192, 0, 2, 2), port: 3_479)
        let change = STUNMessage.ChangeRequest(changesIP: true, changesPort: true)
        var (client, request) = try asking(.init(server: server, change: change, answersFrom: other))
        let answer = try #require(STUNResponder(alternate: other).answer(request, from: mapped, to: server))
        #expect(answer.origin == other)
        let taken = [server, other].map { client.receive(answer.bytes, from: $0, at: start) }
        #expect(taken == [false, true])
    }

    @Test func `a refusal ends a request, and no more are asked than may be`() throws {
        let change = STUNMessage.ChangeRequest(changesIP: true, changesPort: true)
        var (client, request) = try asking(.init(server: server, change: change, answersFrom: mapped))
        let answer = try #require(STUNResponder().answer(request, from: mapped, to: server))
        let isTaken = client.receive(answer.bytes, from: server, at: start)
        let outcome = client.nextResult()?.outcome
        #expect(isTaken && outcome == .refused(code: 420))
        var random = SeededRandom(seed: 2)
        let taken = (0...STUNClient.maxRequests).map { _ in
            client.ask(.init(server: server), at: start, using: &random)
        }
        #expect(taken.dropLast().allSatisfy(\.self) && taken.last == false)
    }
}
