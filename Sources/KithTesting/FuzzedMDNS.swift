internal import KithReach
internal import KithWire

/// What anybody on a link may send to a responder.
enum FuzzedMDNS {
    private static let network = NetworkPrefix(of: NetworkAddress(ipv4: (10, 9, 0, 0), port: 0), length: 24)
    private static let service = MDNSService(
        type: "_kith._udp",
        identities: (0..<3).map {
            MDNSService.Identity(instance: "s\($0)", host: "h\($0)", text: [Array("text".utf8)])
        }, port: 4_433,
        addresses: [NetworkAddress(ipv4: (10, 9, 0, 1), port: 0), NetworkAddress(ipv6: 0xFD0A << 48, 1, port: 0)])

    /// Datagrams, each behind four bytes: how long to wait before it in units of 50 ms, where it comes from, its length.
    ///
    /// The same bytes are one datagram at each stage of a service, too.
    static func run(_ bytes: [UInt8]) {
        for stage in stages {
            var scene = stage
            scene.receive(bytes, from: 0)
            scene.wait(.seconds(3))
        }
        var scene = Scene()
        var reader = ByteReader(bytes)
        for _ in 0..<64 {
            guard let pause = try? reader.integer(as: UInt8.self), let source = try? reader.integer(as: UInt8.self),
                let length = try? reader.integer(as: UInt16.self),
                let datagram = try? reader.bytes(min(Int(length), reader.remaining))
            else { break }
            scene.wait(.milliseconds(50 * Int(pause)))
            scene.receive(datagram, from: source)
        }
        scene.wait(.seconds(10))
    }

    /// A service that probes, one that announces itself, and one that is established.
    private static let stages = [100, 400, 10_000].map { pause in
        var scene = Scene()
        scene.wait(.milliseconds(pause))
        return scene
    }

    private struct Scene {
        var engine: MDNSEngine
        var now = ContinuousClock.Instant.now

        init() {
            engine = MDNSEngine(
                type: "_kith._udp", networks: [FuzzedMDNS.network], random: SeededRandom(seed: 1), at: now
            ) { !$0.hasPrefix("x") }
            engine.offer([FuzzedMDNS.service].compactMap(\.self), at: now)
        }

        mutating func wait(_ time: Duration) {
            let end = now + time
            var steps = 0
            while engine.nextDeadline <= end {
                now = max(now, engine.nextDeadline)
                engine.timedOut(at: now)
                drain()
                steps += 1
                precondition(steps < 10_000, "Nothing goes round")
            }
            now = end
        }

        mutating func receive(_ bytes: [UInt8], from source: UInt8) {
            let port: UInt16 = source & 1 == 0 ? MDNS.port : 40_000
            let address =
                source & 2 == 0
                ? NetworkAddress(ipv4: (10, 9, 0, source), port: port)
                : NetworkAddress(ipv4: (198, 51, 100, 7), port: port)
            engine.receive(bytes, from: address, isUnicast: source & 4 != 0, at: now)
            precondition(engine.cached <= 512, "The cache is bounded")
            drain()
        }

        mutating func drain() {
            let datagrams = engine.takeDatagrams()
            precondition(datagrams.count < 128, "One datagram has few answers")
            for datagram in datagrams {
                precondition(datagram.bytes.count <= MDNS.maxLength, "No message is too long")
                precondition((try? DNSMessage(datagram.bytes)) != nil, "What is sent can be read")
                if let destination = datagram.destination {
                    precondition(FuzzedMDNS.network.contains(destination), "Nothing leaves the link")
                }
            }
            for text in engine.takeTexts() {
                precondition(!text.service.hasPrefix("x"), "What is not wanted is not heard")
            }
        }
    }

    /// Messages of each kind, alone and one after the other.
    static let seeds: [[UInt8]] = {
        func name(_ text: String) -> DNSName { DNSName(text) ?? .root }
        let (type, instance) = (name("_kith._udp.local"), name("s0._kith._udp.local"))
        var question = DNSMessage(id: 0, asking: type, for: .ptr)
        question.questions.append(.init(instance, .any, questionClass: 0x8001))
        question.questions.append(.init(name("_services._dns-sd._udp.local"), .ptr, questionClass: 255))
        var long = question
        long.isTruncated = true
        var more = DNSMessage()
        more.answers = [DNSRecord(type, timeToLive: 4_500, .pointer(instance))]
        var probe = DNSMessage(id: 0, asking: instance, for: .any)
        probe.authorities = [
            DNSRecord(instance, timeToLive: 120, .service(priority: 0, weight: 0, port: 9, host: name("h0.local")))
        ]
        var answer = DNSMessage()
        answer.isResponse = true
        answer.answers = [
            DNSRecord(type, timeToLive: 4_500, .pointer(name("y._kith._udp.local"))),
            DNSRecord(name("y._kith._udp.local"), recordClass: 0x8001, timeToLive: 1, .text([[97, 61, 98]])),
            DNSRecord(instance, recordClass: 0x8001, timeToLive: 0, .text([Array("text".utf8)])),
            DNSRecord(name("h0.local"), timeToLive: 120, .denial(next: name("h0.local"), types: [.a, .nsec])),
        ]
        var conflict = answer
        conflict.answers = [DNSRecord(instance, recordClass: 0x8001, timeToLive: 120, .text([[]]))]
        let all = [question, long, more, probe, answer, conflict].compactMap { try? $0.encoded() }
        func framed(_ bytes: [UInt8], _ pause: UInt8, _ source: UInt8) -> [UInt8] {
            [pause, source, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
        }
        var seeds = all
        for pause in [0, 5, 40] as [UInt8] { seeds.append(all.flatMap { framed($0, pause, 8) }) }
        for source in [1, 2, 4, 5] as [UInt8] { seeds.append(all.flatMap { framed($0, 40, source) }) }
        return seeds
    }()
}
