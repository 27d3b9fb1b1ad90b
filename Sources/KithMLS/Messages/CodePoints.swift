/// A version of the protocol (RFC 9420 §6).
public struct ProtocolVersion: CodePoint, Sendable {
    /// The number on the wire.
    public let rawValue: UInt16
    /// Takes any number, known or not.
    public init(rawValue: UInt16) { self.rawValue = rawValue }
    /// The version of RFC 9420.
    public static let mls10 = ProtocolVersion(rawValue: 1)
}

/// The kind of message in an ``MLSMessage`` (RFC 9420 §6, §17.2).
public struct WireFormat: CodePoint, Sendable {
    /// The number on the wire.
    public let rawValue: UInt16
    /// Takes any number, known or not.
    public init(rawValue: UInt16) { self.rawValue = rawValue }
    /// A message signed and, when its sender is a member, authenticated by the group.
    public static let publicMessage = WireFormat(rawValue: 1)
    /// A message encrypted to the group.
    public static let privateMessage = WireFormat(rawValue: 2)
    /// The secrets with which new members join.
    public static let welcome = WireFormat(rawValue: 3)
    /// A group's public state.
    public static let groupInfo = WireFormat(rawValue: 4)
    /// A client's offer to be added.
    public static let keyPackage = WireFormat(rawValue: 5)
}

/// The kind of an ``Extension`` (RFC 9420 §17.3).
public struct ExtensionType: CodePoint, Sendable {
    /// The number on the wire.
    public let rawValue: UInt16
    /// Takes any number, known or not.
    public init(rawValue: UInt16) { self.rawValue = rawValue }
    /// A name the application gives a leaf; not authenticated (§5.3.3).
    public static let applicationID = ExtensionType(rawValue: 1)
    /// The group's whole public tree (§12.4.3.3).
    public static let ratchetTree = ExtensionType(rawValue: 2)
    /// The capabilities that every member must have (§11.1).
    public static let requiredCapabilities = ExtensionType(rawValue: 3)
    /// The key to which an external commit is made (§12.4.3.2).
    public static let externalPub = ExtensionType(rawValue: 4)
    /// The outsiders who may send proposals (§12.1.8.1).
    public static let externalSenders = ExtensionType(rawValue: 5)
    /// A key package that may be used again when no other is left (draft-ietf-mls-extensions §5.4).
    public static let lastResort = ExtensionType(rawValue: 10)

    /// Proofs, in a group info, that its maker was a member in earlier epochs (private use, §17.3).
    static let resumptionProofs = ExtensionType(rawValue: 0xF6B1)
    /// Keys that earlier epochs left behind, in a Welcome's group info (private use, §17.3).
    static let resumptionKeys = ExtensionType(rawValue: 0xF6B2)

    /// True when every client has it and none may list it (§7.2).
    var isDefault: Bool { 1...5 ~= rawValue }
}

/// The kind of a ``Proposal`` (RFC 9420 §17.4).
public struct ProposalType: CodePoint, Sendable {
    /// The number on the wire.
    public let rawValue: UInt16
    /// Takes any number, known or not.
    public init(rawValue: UInt16) { self.rawValue = rawValue }
    /// Adds a client.
    public static let add = ProposalType(rawValue: 1)
    /// Replaces the sender's leaf.
    public static let update = ProposalType(rawValue: 2)
    /// Removes a member.
    public static let remove = ProposalType(rawValue: 3)
    /// Mixes a pre-shared key into the next epoch.
    public static let psk = ProposalType(rawValue: 4)
    /// Ends the group in favour of a new one.
    public static let reInit = ProposalType(rawValue: 5)
    /// Starts the next epoch from outside.
    public static let externalInit = ProposalType(rawValue: 6)
    /// Replaces the group's extensions.
    public static let groupContextExtensions = ProposalType(rawValue: 7)

    /// True when every client has it and none may list it (§7.2).
    var isDefault: Bool { 1...7 ~= rawValue }
}

/// The kind of a ``Credential`` (RFC 9420 §17.5).
public struct CredentialType: CodePoint, Sendable {
    /// The number on the wire.
    public let rawValue: UInt16
    /// Takes any number, known or not.
    public init(rawValue: UInt16) { self.rawValue = rawValue }
    /// A bare identity.
    public static let basic = CredentialType(rawValue: 1)
    /// A chain of X.509 certificates.
    public static let x509 = CredentialType(rawValue: 2)
}
