public import KithWire

/// An address at which a device may be reached, and how it is known.
public struct Candidate: Hashable, Sendable {
    /// How an address is known, in the order in which addresses are preferred.
    @nonexhaustive
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// An interface of the device has it.
        case host
        /// A router passes its port on (PCP, NAT-PMP, UPnP).
        case mapped
        /// A server outside, or another device, sees the device's packets come from it.
        case reflexive
        /// A packet came from it that nobody had announced.
        case peerReflexive
        /// The next ports of a NAT that counts.
        case predicted
    }

    /// The address and its UDP port.
    public var address: NetworkAddress
    /// How it is known.
    public var kind: Kind

    /// Makes a candidate.
    public init(_ address: NetworkAddress, _ kind: Kind) {
        self.address = address
        self.kind = kind
    }
}
