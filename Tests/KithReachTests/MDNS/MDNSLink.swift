import KithReach
import KithTesting
import KithWire
import Testing

/// A link that carries the messages of engines, and of whoever else is on it, in no time; it loses some.
struct MDNSLink {
    /// A message as it was sent.
    struct Sent {
        let at: ContinuousClock.Instant
        let host: Int
        let message: DNSMessage
        let destination: NetworkAddress?
    }

    static let network = NetworkPrefix(of: NetworkAddress(ipv4: (10, 9, 0, 0), port: 0), length: 24)
    static func address(_ host: Int) -> NetworkAddress {
        NetworkAddress(ipv4: (10, 9, UInt8(host / 250), UInt8(host % 250 + 1)), port: 5_353)
    }

    var hosts: [MDNSEngine] = []
    var now = ContinuousClock.now
    var random: SeededRandom
    var loss = 0.0
    private(set) var log: [Sent] = []
    /// What each host has heard, by service.
    private(set) var heard: [[String: [[UInt8]]]] = []

    init(seed: UInt64 = 1) { random = SeededRandom(seed: seed) }

    /// A service whose texts name it, and which has names to go on to.
    static func service(_ name: String, text: String? = nil, names: Int = 8, addresses: [NetworkAddress]? = nil)
        throws -> MDNSService
    {
        let identities = (0..<names).map { number in
            let label = number == 0 ? name : "\(name)-\(number + 1)"
            return MDNSService.Identity(instance: label, host: "h\(label)", text: [Array((text ?? name).utf8)])
        }
        return try #require(
            MDNSService(
                type: "_kith._udp", identities: identities, port: 4_433,
                addresses: addresses ?? [NetworkAddress(ipv4: (10, 9, 0, 77), port: 0)]))
    }

    /// Adds a host, which wants what the others say.
    mutating func add(
        wanting isWanted: @escaping @Sendable (String) -> Bool = { _ in true }
    ) {
        hosts.append(
            MDNSEngine(
                type: "_kith._udp", networks: [Self.network, NetworkPrefix(of: Self.address(250), length: 24)],
                random: random.fork(), at: now, isWanted: isWanted))
        heard.append([:])
    }

    /// Lets time pass, and does what is due.
    mutating func run(_ time: Duration, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let end = now + time
        var steps = 0
        try deliver()
        while let next = hosts.map(\.nextDeadline).min(), next <= end {
            steps += 1
            try #require(steps < 200_000, "a storm", sourceLocation: sourceLocation)
            now = max(now, next)
            for index in hosts.indices { hosts[index].timedOut(at: now) }
            try deliver()
        }
        now = end
        for index in hosts.indices { #expect(hosts[index].nextDeadline > now, sourceLocation: sourceLocation) }
    }

    /// Carries what the hosts send until nobody sends anything.
    private mutating func deliver() throws {
        var isQuiet = false
        while !isQuiet {
            isQuiet = true
            for index in hosts.indices {
                for datagram in hosts[index].takeDatagrams() {
                    isQuiet = false
                    log.append(
                        Sent(
                            at: now, host: index, message: try DNSMessage(datagram.bytes),
                            destination: datagram.destination))
                    for other in hosts.indices where other != index {
                        if let destination = datagram.destination, destination != Self.address(other) { continue }
                        if random.chance(loss) { continue }
                        hosts[other].receive(
                            datagram.bytes, from: Self.address(index), isUnicast: datagram.destination != nil, at: now)
                    }
                }
                for text in hosts[index].takeTexts() { heard[index][text.service] = text.strings }
            }
        }
    }

    /// Has somebody at an address send a message to the group, or to the first host alone.
    mutating func send(
        _ message: DNSMessage, from source: NetworkAddress = address(99), isUnicast: Bool = false
    ) throws {
        hosts[0].receive(try message.encoded(), from: source, isUnicast: isUnicast, at: now)
        try deliver()
    }

    /// What was sent since then.
    mutating func takeLog() -> [Sent] {
        defer { log = [] }
        return log
    }
}

/// A question to the group.
func query(_ name: String, _ type: DNSType, known: [DNSRecord] = [], unicast: Bool = false) throws -> DNSMessage {
    var message = DNSMessage()
    message.questions = [
        DNSMessage.Question(try #require(DNSName(name)), type, questionClass: unicast ? 0x8001 : 1)
    ]
    message.answers = known
    return message
}

/// An answer of somebody else.
func response(_ records: DNSRecord...) -> DNSMessage {
    var message = DNSMessage()
    (message.isResponse, message.isAuthoritative, message.answers) = (true, true, records)
    return message
}
