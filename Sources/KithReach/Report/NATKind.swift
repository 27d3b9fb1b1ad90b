/// How the NAT in front of a device behaves (RFC 4787), as far as it is known.
public struct NATKind: Hashable, Sendable {
    /// On what the outside address of a socket depends.
    @nonexhaustive
    public enum Mapping: UInt8, Hashable, Sendable, CaseIterable {
        /// Not known.
        case unknown
        /// There is no NAT: the outside address is the device's own.
        case none
        /// On nothing: whoever the socket sends to sees the same.
        case independent
        /// On the IP address that the socket sends to.
        case addressDependent
        /// On the IP address and port that the socket sends to.
        case addressAndPortDependent
    }

    /// Whose packets are let in.
    @nonexhaustive
    public enum Filtering: UInt8, Hashable, Sendable, CaseIterable {
        /// Not known.
        case unknown
        /// Anybody's, once the socket has sent anything.
        case independent
        /// Those from an IP address that the socket has sent to.
        case addressDependent
        /// Those from an IP address and port that the socket has sent to.
        case addressAndPortDependent
    }

    /// Which outside port a new mapping gets.
    @nonexhaustive
    public enum Ports: Hashable, Sendable {
        /// Not known.
        case unknown
        /// The port of the socket itself.
        case preserved
        /// The last one and so many more, or fewer; never 0.
        case sequential(step: Int16)
        /// Any of a block of ports, a power of two, aligned.
        case block(size: UInt16)
        /// Any.
        case random
    }

    /// On what the outside address depends.
    public var mapping: Mapping
    /// Whose packets are let in.
    public var filtering: Filtering
    /// Which port a new mapping gets.
    public var ports: Ports

    /// Describes a NAT.
    public init(mapping: Mapping = .unknown, filtering: Filtering = .unknown, ports: Ports = .unknown) {
        (self.mapping, self.filtering, self.ports) = (mapping, filtering, ports)
    }

    /// True when another device sees another outside address than a server did, so that it cannot be told in advance.
    public var isHard: Bool { mapping == .addressDependent || mapping == .addressAndPortDependent }

    /// True when the next outside ports can be told in advance.
    public var isPredictable: Bool {
        switch ports {
        case .sequential, .block, .preserved: true
        case .random, .unknown: false
        }
    }
}

extension NATKind: CustomStringConvertible {
    /// What it means for a person: a few words, without a full stop.
    public var description: String {
        switch mapping {
        case .unknown: return "NAT of unknown kind"
        case .none: return "no NAT"
        case .independent:
            switch filtering {
            case .independent: return "open NAT: any device can connect directly"
            case .unknown, .addressDependent, .addressAndPortDependent:
                return "easy NAT: most devices can connect directly"
            }
        case .addressDependent, .addressAndPortDependent:
            return isPredictable
                ? "hard NAT with predictable ports: most devices can connect directly"
                : "hard NAT: devices behind another hard NAT connect through a relay"
        }
    }
}
