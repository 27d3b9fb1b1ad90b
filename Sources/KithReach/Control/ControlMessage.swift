import KithWire

/// A message between two devices about how they reach each other.
///
/// It travels on a unidirectional stream of its own, one each way, which begins with the version as a varint. Each
/// message is
///
///     type       varint
///     length     varint, at most 4096
///     body       integers big-endian
///
/// A type that is not known is passed over, and so is what follows in a body that is longer than what is known of it:
/// both are what later versions add.
///
/// | type | body |
/// | --- | --- |
/// | 1 candidates | generation 4 ‖ count 1 ‖ each: kind 1 ‖ priority 4 ‖ address |
/// | 2 relays | home ‖ standby, each a varint length and a URL; of length 0 when there is none |
/// | 3 NAT kind | mapping 1 ‖ filtering 1 ‖ ports 1 ‖ step or size 2 |
/// | 4 punch round | number 4 ‖ start delay in ms 2 ‖ plan 1 |
/// | 5 preference | 1 |
package enum ControlMessage: Hashable, Sendable {
    /// The addresses of the sender.
    case candidates(CandidateList)
    /// The relays at which the sender is to be found: the one it prefers, and the one it moves to when that is gone.
    case relays(home: RelayAddress?, standby: RelayAddress?)
    /// The NAT in front of the sender.
    case nat(NATKind)
    /// A round of punching that begins when the delay is over.
    case round(PunchRound)
    /// The ways by which the sender wants to be reached.
    case preference(ReachPreference)

    /// The version that a stream begins with.
    package static let version: UInt64 = 1
    /// The longest body.
    package static let maxLength = 4_096

    private enum Kind {
        static let candidates: UInt64 = 1
        static let relays: UInt64 = 2
        static let nat: UInt64 = 3
        static let round: UInt64 = 4
        static let preference: UInt64 = 5
    }

    // MARK: - Writing

    /// The message as it is sent.
    package var encoded: [UInt8] {
        var body = ByteWriter()
        let type: UInt64
        switch self {
        case .candidates(let list):
            type = Kind.candidates
            precondition(
                list.candidates.count <= CandidateTable.maxCandidates, "no more candidates are told than may be")
            body.integer(list.generation)
            body.integer(UInt8(list.candidates.count))
            for ranked in list.candidates {
                body.integer(ranked.candidate.kind.rawValue)
                body.integer(ranked.priority)
                body.address(ranked.candidate.address)
            }
        case .relays(let home, let standby):
            type = Kind.relays
            for relay in [home, standby] { body.prefixedBytes(Array((relay?.description ?? "").utf8)) }
        case .nat(let kind):
            type = Kind.nat
            body.integer(kind.mapping.rawValue)
            body.integer(kind.filtering.rawValue)
            let ports = kind.ports.encoded
            body.integer(ports.type)
            body.integer(ports.number)
        case .round(let round):
            type = Kind.round
            body.integer(round.number)
            body.integer(round.startDelay)
            body.integer(round.plan.rawValue)
        case .preference(let preference):
            type = Kind.preference
            body.integer(preference.number)
        }
        var writer = ByteWriter(capacity: body.bytes.count + 4)
        writer.varint(type)
        writer.prefixedBytes(body.bytes)
        return writer.bytes
    }

    // MARK: - Reading

    /// Reads the body of a message; `nil` for a type that is not known.
    init?(type: UInt64, body: [UInt8]) throws(WireError) {
        var reader = ByteReader(body)
        switch type {
        case Kind.candidates:
            var list = CandidateList(generation: try reader.integer())
            let count = Int(try reader.integer(as: UInt8.self))
            guard count <= CandidateTable.maxCandidates else {
                throw .tooLong(limit: CandidateTable.maxCandidates, actual: count)
            }
            for _ in 0..<count {
                let kind = Candidate.Kind(rawValue: try reader.integer())
                let priority: UInt32 = try reader.integer()
                let address = try reader.address()
                // A way of knowing that this version does not know.
                guard let kind else { continue }
                list.candidates.append(RankedCandidate(Candidate(address, kind), priority: priority))
            }
            self = .candidates(list)
        case Kind.relays:
            var relays: [RelayAddress?] = []
            for _ in 0..<2 {
                let text = try reader.prefixedBytes(limit: RelayAddress.maxLength)
                let relay = RelayAddress(String(decoding: text, as: UTF8.self))
                guard relay != nil || text.isEmpty else { throw .invalid("a relay is named by a URL") }
                relays.append(relay)
            }
            self = .relays(home: relays[0], standby: relays[1])
        case Kind.nat:
            let mapping = NATKind.Mapping(rawValue: try reader.integer()) ?? .unknown
            let filtering = NATKind.Filtering(rawValue: try reader.integer()) ?? .unknown
            let ports = NATKind.Ports(type: try reader.integer(), number: try reader.integer())
            self = .nat(NATKind(mapping: mapping, filtering: filtering, ports: ports))
        case Kind.round:
            self = .round(
                PunchRound(
                    number: try reader.integer(), startDelay: try reader.integer(),
                    plan: PunchRound.Plan(rawValue: try reader.integer()) ?? .ordinary))
        case Kind.preference:
            guard let preference = ReachPreference(number: try reader.integer()) else { return nil }
            self = .preference(preference)
        default: return nil
        }
    }
}

/// A round of punching, as one device announces it to the other.
package struct PunchRound: Hashable, Sendable {
    /// What the announcing device does beside probing the candidates of the other.
    package enum Plan: UInt8, Hashable, Sendable, CaseIterable {
        /// Nothing.
        case ordinary
        /// It opens many sockets towards the other, which is to probe random ports of it.
        case openSockets
        /// It probes random ports of the other, which is to open many sockets towards it.
        case probePorts
    }

    /// The number of the round at the announcing device, which rises.
    package var number: UInt32
    /// How many milliseconds after the message has come the other begins.
    package var startDelay: UInt16
    /// What the announcing device does.
    package var plan: Plan

    /// Describes a round.
    package init(number: UInt32, startDelay: UInt16 = 0, plan: Plan = .ordinary) {
        (self.number, self.startDelay, self.plan) = (number, startDelay, plan)
    }
}

extension NATKind.Ports {
    fileprivate var encoded: (type: UInt8, number: UInt16) {
        switch self {
        case .unknown: (0, 0)
        case .preserved: (1, 0)
        case .sequential(let step): (2, UInt16(bitPattern: step))
        case .block(let size): (3, size)
        case .random: (4, 0)
        }
    }

    fileprivate init(type: UInt8, number: UInt16) {
        switch type {
        case 1: self = .preserved
        case 2 where number != 0: self = .sequential(step: Int16(bitPattern: number))
        case 3 where number > 0 && number & (number - 1) == 0: self = .block(size: number)
        case 4: self = .random
        default: self = .unknown
        }
    }
}

extension ReachPreference {
    /// The number in a message.
    fileprivate var number: UInt8 {
        switch self {
        case .auto: 0
        case .direct: 1
        case .relay: 2
        case .local: 3
        }
    }

    fileprivate init?(number: UInt8) {
        guard let preference = Self.allCases.first(where: { $0.number == number }) else { return nil }
        self = preference
    }
}
