internal import KithReach
internal import KithWire

/// What peers and servers send to find ways between devices.
enum FuzzedReach {
    private static let source = NetworkAddress(ipv4: (198, 51, 100, 7), port: 50_000)
    private static let server = NetworkAddress(ipv4: (192, 0, 2, 1), port: 3_478)
    private static let other = NetworkAddress(ipv4: (192, 0, 2, 2), port: 3_479)

    /// A datagram of STUN, read, answered, and taken for an answer.
    static func stun(_ bytes: [UInt8]) {
        if let message = try? STUNMessage(parsing: bytes) {
            precondition(STUNMessage.isSTUN(bytes), "What is read is STUN")
            precondition(bytes.count <= STUNMessage.maxLength, "A long message is refused")
            if message.unknownAttributes.isEmpty, message.refusal?.code ?? 300 >= 300 {
                precondition((try? STUNMessage(parsing: message.encoded)) == message, "A message survives")
            }
        }
        for responder in [STUNResponder(), STUNResponder(alternate: other)] {
            let answer = responder.answer(bytes, from: source, to: server)
            precondition(answer?.bytes.count ?? 0 <= bytes.count, "No answer is longer than its request")
            if let answer {
                precondition((try? STUNMessage(parsing: answer.bytes)) != nil, "What is answered can be read")
                precondition(responder.answer(answer.bytes, from: source, to: server) == nil, "Answers end it")
            }
        }
        var random = SeededRandom(seed: 1)
        var client = STUNClient()
        let now = ContinuousClock.Instant.now
        _ = client.ask(.init(server: server), at: now, using: &random)
        _ = client.nextDatagram(at: now)
        precondition(!client.receive(bytes, from: source, at: now), "An answer comes from the server")
        precondition(client.nextResult() == nil, "What is forged changes nothing")
    }

    /// The control stream of a peer, in pieces of the size that the first byte says.
    static func control(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        var reader = ControlReader()
        var peer = PeerCandidates()
        var start = 1
        while start < bytes.count {
            let end = min(start + Int(first) + 1, bytes.count)
            // A refusal is an answer, and the end.
            guard let messages = try? reader.receive(Array(bytes[start..<end])) else { return }
            for message in messages {
                var again = ControlReader()
                precondition((try? again.receive([1] + message.encoded)) == [message], "A message survives")
                guard case .candidates(let list) = message else { continue }
                _ = peer.receive(list)
                let kept = peer.list?.candidates ?? []
                precondition(kept.count <= CandidateTable.maxCandidates, "Candidates are bounded")
                precondition(
                    kept.allSatisfy { CandidateTable.isReachable($0.candidate.address) },
                    "No group, no loopback, no broadcast")
            }
            start = end
        }
    }

    /// Messages of the system about router advertisements, and the same bytes as one option.
    static func advertisement(_ bytes: [UInt8]) {
        let now = ContinuousClock.Instant.now
        var prefixes = AdvertisedPrefixes()
        let options = RouterOption.all(in: bytes)
        precondition(options.count * 60 <= bytes.count, "A message has an option and a router")
        for option in options {
            precondition(option.router.count == 16 && option.bytes.count % 8 == 0, "An option is whole")
            prefixes.received(option, at: now)
        }
        prefixes.timedOut(at: now + .seconds(65_528))
        precondition(prefixes.prefix == nil && prefixes.nextDeadline == nil, "The longest lifetime is 65,528 s")
        guard let advertised = AdvertisedPrefix(option: bytes) else { return }
        precondition(bytes.count == 16 && advertised.lifetime <= .seconds(65_528), "An option has 16 bytes")
        let address = advertised.prefix.address(of: source)
        precondition(address?.isIPv6 == true && address?.port == source.port, "A prefix has an address for each")
    }

    /// An option of 64:ff9b::/96 for 1,800 s, alone and as Linux passes it on where the lowest byte is first.
    static let advertisementSeeds: [[UInt8]] = {
        let option: [UInt8] = [38, 2, 7, 8, 0, 0x64, 0xFF, 0x9B] + Array(repeating: 0, count: 8)
        let router: [UInt8] = [20, 0, 1, 0, 0xFE, 0x80] + Array(repeating: 0, count: 13) + [1]
        let head: [UInt8] = [68, 0, 0, 0, 68, 0] + Array(repeating: 0, count: 10)
        let message = head + [10, 0, 16, 0, 2, 0, 0, 0, 134] + Array(repeating: 0, count: 7) + option + router
        return [option, message, message + message]
    }()

    /// Messages that are right, for the fuzzer to begin with.
    static let stunSeeds: [[UInt8]] = {
        let transaction = STUNTransactionID(0xB7E7_A701, 0xBC34_D686_FA87_DFAE)
        var request = STUNMessage(.request, transaction: transaction)
        (request.paddingLength, request.hasFingerprint) = (60, true)
        var change = request
        change.changeRequest = .init(changesIP: true, changesPort: true)
        var success = STUNMessage(.success, transaction: transaction)
        success.xorMappedAddress = source
        success.plainMappedAddress = NetworkAddress(ipv6: .max, .max, port: .max)
        (success.otherAddress, success.responseOrigin) = (other, server)
        var failure = STUNMessage(.failure, transaction: transaction)
        failure.refusal = .init(code: 420, unknownAttributes: [3, 0x7FFF])
        return [request, change, success, failure, STUNMessage(.indication, transaction: transaction)].map(\.encoded)
    }()

    /// A stream of each message, whole and byte by byte.
    static let controlSeeds: [[UInt8]] = {
        let candidates = [server, NetworkAddress(ipv6: .max, .max, port: .max)].map {
            RankedCandidate(Candidate($0, .reflexive), priority: .max)
        }
        let messages: [ControlMessage] = [
            .candidates(CandidateList(generation: .max, candidates: candidates)),
            .relays(home: RelayAddress("https://relay.example.org"), standby: RelayAddress("http://192.0.2.1:3340")),
            .nat(NATKind(mapping: .independent, filtering: .addressDependent, ports: .sequential(step: .min))),
            .round(PunchRound(number: .max, startDelay: .max, plan: .probePorts)), .preference(.local),
        ]
        let stream = [1] + messages.flatMap(\.encoded)
        return [[0] + stream, [255] + stream] + messages.map { [255, 1] + $0.encoded }
    }()
}
