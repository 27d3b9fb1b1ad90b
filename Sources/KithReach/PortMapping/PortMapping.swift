public import KithWire

/// A port of a router that is passed on to this device.
public struct PortMapping: Hashable, Sendable {
    /// The protocols by which routers are asked, in the order in which they are preferred.
    @nonexhaustive
    public enum Method: String, Hashable, Sendable, CaseIterable {
        /// The Port Control Protocol (RFC 6887).
        case pcp = "PCP"
        /// NAT-PMP (RFC 6886).
        case natPMP = "NAT-PMP"
        /// UPnP's Internet Gateway Device, of either version.
        case upnp = "UPnP"
    }

    /// The address and port outside.
    public var external: NetworkAddress
    /// The address and port of this device.
    public var local: NetworkAddress
    /// The time for which the router promised it; `nil` when it set no end.
    public var lifetime: Duration?
    /// The protocol it was made by.
    public var method: Method

    /// Describes a mapping.
    public init(external: NetworkAddress, local: NetworkAddress, lifetime: Duration?, method: Method) {
        (self.external, self.local) = (external, local)
        (self.lifetime, self.method) = (lifetime, method)
    }

    /// True when the router stands behind another NAT: the address outside is not one of the internet.
    public var isBehindAnotherNAT: Bool {
        external != local && !external.isIPv6
            && (external.isPrivate || external.isLinkLocal || external.isUnspecified || external.isLoopback)
    }
}

/// The reason there is no mapping.
@nonexhaustive
public enum PortMappingFailure: Error, Hashable, Sendable {
    /// There is no router that could be asked.
    case noGateway
    /// The router does not answer.
    case silent
    /// The router does not speak the protocol.
    case unsupported
    /// The router refused; the text is plain words.
    case refused(String)
    /// What the router answered could not be understood.
    case malformed
}

extension PortMappingFailure: CustomStringConvertible {
    /// The reason as a sentence for a person.
    public var description: String {
        switch self {
        case .noGateway: "This network has no router that could pass on a port."
        case .silent: "The router answers neither PCP nor NAT-PMP nor UPnP."
        case .unsupported: "The router cannot pass on ports."
        case .refused(let reason): "The router refused to pass on a port: \(reason)."
        case .malformed: "The router's answers could not be understood."
        }
    }
}

/// News of a port mapping.
@nonexhaustive
public enum PortMappingUpdate: Hashable, Sendable {
    /// The router passes the port on; the mapping before, if any, holds no more.
    case mapped(PortMapping)
    /// It does not, or no longer.
    case unavailable(PortMappingFailure)
}
