import KithReach
import KithTesting
import KithWire
import Testing

@Suite("Control messages") struct ControlMessageTests {
    static let messages: [ControlMessage] = {
        let address = NetworkAddress(ipv4: (192, 0, 2, 1), port: 4_433)
        let address6 = NetworkAddress(ipv6: 0x2001_0DB8 << 32, 7, port: 65_535)
        let kinds = Candidate.Kind.allCases
        let full = (0..<CandidateTable.maxCandidates).map { number in
            RankedCandidate(
                Candidate(number % 2 == 0 ? address : address6, kinds[number % kinds.count]),
                priority: .max - UInt32(number))
        }
        return [
            .candidates(CandidateList(generation: .max, candidates: full)), .candidates(CandidateList(generation: 0)),
            .relays(home: RelayAddress("https://relay.example.org"), standby: RelayAddress("http://[2001:db8::1]:7")),
            .relays(home: nil, standby: nil), .round(PunchRound(number: .max, startDelay: .max, plan: .probePorts)),
            .nat(NATKind(mapping: .none, filtering: .independent, ports: .preserved)),
            .nat(NATKind(mapping: .addressDependent, filtering: .addressDependent, ports: .sequential(step: -2))),
            .nat(NATKind(mapping: .independent, ports: .block(size: 1_024))), .nat(NATKind(ports: .random)),
        ] + ReachPreference.allCases.map { .preference($0) }
            + PunchRound.Plan.allCases.map {
                .round(PunchRound(number: 7, startDelay: 20, plan: $0))
            }
    }()

    private func stream(_ messages: [ControlMessage]) -> [UInt8] { [1] + messages.flatMap(\.encoded) }

    @Test(arguments: [1, 2, 3, 7, 100, 10_000])
    func `messages survive in whatever pieces they come`(size: Int) throws {
        let bytes = stream(Self.messages)
        var reader = ControlReader()
        var read: [ControlMessage] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            read += try reader.receive(Array(bytes[start..<min(start + size, bytes.count)]))
        }
        #expect(read == Self.messages)
    }

    @Test func `every message is within its limit`() {
        #expect(Self.messages.allSatisfy { $0.encoded.count <= ControlMessage.maxLength + 4 })
    }

    @Test func `what a later version adds is passed over`() throws {
        var writer = ByteWriter()
        writer.varint(9)  // a later version
        writer.varint(0x4B49)  // a type that is not known
        writer.prefixedBytes([UInt8](repeating: 7, count: 4_096))
        writer.varint(5)
        writer.prefixedBytes([1, 2, 3, 4])  // more than is known of a preference
        writer.varint(5)
        writer.prefixedBytes([200])  // a preference that is not known
        writer.varint(1)
        // Of two candidates one is of a kind that is not known.
        writer.prefixedBytes(
            [0, 0, 0, 1, 2, 250, 0, 0, 0, 1, 4, 192, 0, 2, 1, 0, 9, 0, 0, 0, 0, 2, 4, 192, 0, 2, 2, 0, 9])
        var reader = ControlReader()
        let messages = try reader.receive(writer.bytes)
        let address = NetworkAddress(ipv4: (192, 0, 2, 2), port: 9)
        let list = CandidateList(
            generation: 1, candidates: [RankedCandidate(Candidate(address, .host), priority: 2)])
        #expect(messages == [.preference(.direct), .candidates(list)])
        #expect(reader.unknownCount == 2)
    }

    @Test(
        arguments: [
            [0],  // version 0
            [1, 5, 0x50, 0x01],  // a body of 4097 bytes
            [1, 0x3F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],  // the same of a type that is not known
            [1, 5, 0],  // cut short
            [1, 1, 5, 0, 0, 0, 1, 33],  // more candidates than may be
            [1, 1, 17, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 5, 1, 2, 3, 4, 0, 9],  // a family there is not
            [1, 2, 5, 3, 0x61, 0x62, 0x63, 0],  // no URL
        ] as [[UInt8]])
    func `a message that breaks a rule ends the stream`(bytes: [UInt8]) {
        var reader = ControlReader()
        #expect(throws: WireError.self) { try reader.receive(bytes) }
        #expect(throws: WireError.self) { try reader.receive(ControlMessage.preference(.auto).encoded) }
    }

    @Test func `what is read of a damaged stream can be written and read again`() throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<2_000 {
            var bytes = stream(Self.messages)
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            var reader = ControlReader()
            // A refusal is an answer.
            guard let messages = try? reader.receive(bytes) else { continue }
            for message in messages {
                var again = ControlReader()
                let read = try again.receive([1] + message.encoded)
                #expect(read == [message], "\(random)")
            }
        }
    }
}
