import KithReach
import KithTesting
import KithWire

/// A NAT as RFC 4787 describes them: on what a mapping depends, whom it lets in, which port it gets.
struct SimulatedNAT {
    /// The kinds that people know by name.
    enum Classic: String, CaseIterable {
        case fullCone = "full cone"
        case restricted = "address restricted"
        case portRestricted = "port restricted"
        case symmetric = "symmetric"

        var kind: NATKind {
            switch self {
            case .fullCone: NATKind(mapping: .independent, filtering: .independent, ports: .random)
            case .restricted: NATKind(mapping: .independent, filtering: .addressDependent, ports: .random)
            case .portRestricted:
                NATKind(mapping: .independent, filtering: .addressAndPortDependent, ports: .random)
            case .symmetric:
                NATKind(mapping: .addressAndPortDependent, filtering: .addressAndPortDependent, ports: .random)
            }
        }
    }

    private struct Key: Hashable {
        let inside: NetworkAddress
        let ip: [UInt8]
        let port: UInt16
    }

    private struct Mapping {
        let inside: NetworkAddress
        var used: ContinuousClock.Instant
        var sentTo: Set<NetworkAddress> = []
        var sentToIPs: Set<[UInt8]> = []
    }

    let kind: NATKind
    let outside: NetworkAddress
    var timeout = Duration.seconds(30)
    var hairpins = false
    /// True for a router that lets nothing in for five seconds at a port that something uninvited came to.
    var punishes = false
    private var ports: [Key: UInt16] = [:]
    private var mappings: [UInt16: Mapping] = [:]
    private var punishedUntil: [UInt16: ContinuousClock.Instant] = [:]
    private var counter: Int
    private let block: Int
    private var random: SeededRandom

    init(_ kind: NATKind, outside: NetworkAddress, random: SeededRandom) {
        self.kind = kind
        self.outside = outside
        self.random = random
        counter = Int.random(in: 10_000...50_000, using: &self.random)
        block = Int.random(in: 4...50, using: &self.random)
    }

    /// The number of mappings in use.
    var mappingCount: Int { mappings.count }

    /// Sends a datagram out; returns the address it comes from outside.
    mutating func send(from inside: NetworkAddress, to remote: NetworkAddress, at now: ContinuousClock.Instant)
        -> NetworkAddress
    {
        guard kind.mapping != .none else { return inside }
        let key =
            switch kind.mapping {
            case .independent: Key(inside: inside, ip: [], port: 0)
            case .addressDependent: Key(inside: inside, ip: remote.ip, port: 0)
            default: Key(inside: inside, ip: remote.ip, port: remote.port)
            }
        if let port = ports[key], let mapping = mappings[port], now - mapping.used > timeout { mappings[port] = nil }
        var port = ports[key] ?? 0
        if mappings[port] == nil || mappings[port]?.inside != inside {
            port = freePort()
            ports[key] = port
            mappings[port] = Mapping(inside: inside, used: now)
        }
        mappings[port]?.used = now
        mappings[port]?.sentTo.insert(remote)
        mappings[port]?.sentToIPs.insert(remote.ip)
        return outside.with(port: port)
    }

    /// Takes a datagram in; returns whom inside it is for, if it is let in.
    mutating func receive(at port: UInt16, from remote: NetworkAddress, at now: ContinuousClock.Instant)
        -> NetworkAddress?
    {
        if let until = punishedUntil[port], until > now { return nil }
        guard let mapping = mappings[port], now - mapping.used <= timeout else { return nil }
        let isInvited =
            switch kind.filtering {
            case .independent: true
            case .addressDependent: mapping.sentToIPs.contains(remote.ip)
            default: mapping.sentTo.contains(remote)
            }
        guard isInvited else {
            if punishes { punishedUntil[port] = now + .seconds(5) }
            return nil
        }
        return mapping.inside
    }

    private mutating func freePort() -> UInt16 {
        while true {
            let port: Int
            switch kind.ports {
            case .sequential(let step):
                counter += Int(step)
                if !(1_024...65_535).contains(counter) { counter = 30_000 }
                port = counter
            case .block(let size):
                // A full block spills over, as carriers' do.
                let base = block * 1_024 / Int(size) * Int(size)
                let isFull = mappings.count >= Int(size)
                port =
                    isFull
                    ? Int.random(in: 1_024...65_535, using: &random)
                    : base + Int.random(in: 0..<Int(size), using: &random)
            default: port = Int.random(in: 1_024...65_535, using: &random)
            }
            let candidate = UInt16(clamping: port)
            if mappings[candidate] == nil { return candidate }
        }
    }
}
