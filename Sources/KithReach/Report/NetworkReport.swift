public import KithWire

/// The network this device is on, as seen from outside.
public struct NetworkReport: Hashable, Sendable {
    /// The way UDP goes.
    @nonexhaustive
    public enum UDP: Hashable, Sendable {
        /// Nobody has been asked for long enough to tell.
        case unknown
        /// A server answered.
        case works
        /// No server answered within a second.
        case blocked
    }

    /// An answer to a question that may not have been asked.
    @nonexhaustive
    public enum Finding: Hashable, Sendable {
        /// Not known.
        case unknown
        /// It is so.
        case yes
        /// It is not so.
        case no
    }

    /// The way UDP goes, over either family.
    public var udp = UDP.unknown
    /// The IPv4 address and port that servers see.
    public var publicIPv4: NetworkAddress?
    /// The IPv6 address and port that servers see.
    public var publicIPv6: NetworkAddress?
    /// Tells whether IPv6 reaches servers outside.
    public var ipv6 = Finding.unknown
    /// How the IPv4 NAT behaves.
    public var nat = NATKind()
    /// The last outside port that a new IPv4 mapping got: the next of a NAT that counts come after it.
    public var lastPort: UInt16?
    /// The outside address and port that a router passes on, of PCP, NAT-PMP or UPnP.
    public var portMapping: NetworkAddress?
    /// Tells whether devices behind the same NAT reach each other at their outside addresses.
    public var hairpin = Finding.unknown
    /// Tells whether there is a second NAT behind the one that maps ports, which makes its mappings worthless.
    public var doubleNAT = Finding.unknown

    /// A report that says nothing yet.
    public init() {}

    /// What differs between two reports.
    @nonexhaustive
    public enum Change: Hashable, Sendable, CaseIterable {
        /// UDP works or is blocked.
        case udp
        /// Servers see another IPv4 address.
        case publicIPv4
        /// Servers see another IPv6 address.
        case publicIPv6
        /// IPv6 reaches servers or no longer does.
        case ipv6
        /// The NAT behaves otherwise.
        case nat
        /// Another outside port is passed on, or none.
        case portMapping
        /// The NAT passes hairpins or does not.
        case hairpin
        /// There is a second NAT or none.
        case doubleNAT
    }

    /// What differs from an earlier report, in the order in which a person wants to hear it.
    ///
    /// Where a NAT gives each server another port, only its IP address counts.
    public func changes(since earlier: NetworkReport) -> [Change] {
        func isSame(_ left: NetworkAddress?, _ right: NetworkAddress?, ports: Bool) -> Bool {
            ports ? left == right : left?.ip == right?.ip
        }
        var changes: [Change] = []
        if udp != earlier.udp { changes.append(.udp) }
        if !isSame(publicIPv4, earlier.publicIPv4, ports: !nat.isHard) { changes.append(.publicIPv4) }
        if publicIPv6 != earlier.publicIPv6 { changes.append(.publicIPv6) }
        if ipv6 != earlier.ipv6 { changes.append(.ipv6) }
        if nat != earlier.nat { changes.append(.nat) }
        if portMapping != earlier.portMapping { changes.append(.portMapping) }
        if hairpin != earlier.hairpin { changes.append(.hairpin) }
        if doubleNAT != earlier.doubleNAT { changes.append(.doubleNAT) }
        return changes
    }

    /// What a person reads: whole sentences, the most important first.
    public var sentences: [String] {
        var lines: [String] = []
        switch udp {
        case .unknown: lines.append("UDP has not been tried yet.")
        case .blocked:
            lines.append("UDP seems to be blocked here, as no server answers by it: devices connect through a relay.")
        case .works: lines.append("UDP works, behind \(nat).")
        }
        if doubleNAT == .yes {
            lines.append("There is a double NAT: the port that the router passes on cannot be reached from outside.")
        } else if let portMapping {
            lines.append("The router passes \(portMapping) on to this device.")
        }
        switch ipv6 {
        case .unknown: break
        case .yes: lines.append("IPv6 works.")
        case .no: lines.append("IPv6 does not reach the internet.")
        }
        if hairpin == .no, nat.mapping != .none {
            lines.append("The router does not connect two devices behind it at their outside addresses.")
        }
        return lines
    }
}
