/// A change of a group that somebody wants (RFC 9420 §12.1).
@nonexhaustive
public enum Proposal: Hashable, Sendable {
    /// Adds the client of a key package (§12.1.1).
    case add(KeyPackage)
    /// Replaces the sender's leaf (§12.1.2).
    case update(LeafNode)
    /// Removes the member at a leaf (§12.1.3).
    case remove(UInt32)
    /// Mixes a pre-shared key into the next epoch (§12.1.4).
    case psk(PreSharedKeyID)
    /// Ends the group in favour of a new one (§12.1.5).
    case reInit(ReInit)
    /// Starts the next epoch from outside (§12.1.6).
    case externalInit(kemOutput: [UInt8])
    /// Replaces the group's extensions (§12.1.7).
    case groupContextExtensions([Extension])
    /// One of the application's own, whose content is one vector (§13.2).
    case custom(ProposalType, [UInt8])

    /// The registered kind.
    public var type: ProposalType {
        switch self {
        case .add: .add
        case .update: .update
        case .remove: .remove
        case .psk: .psk
        case .reInit: .reInit
        case .externalInit: .externalInit
        case .groupContextExtensions: .groupContextExtensions
        case .custom(let type, _): type
        }
    }
}

/// The parameters of the group that is to follow (RFC 9420 §12.1.5).
public struct ReInit: Hashable, Sendable {
    /// The new group's identifier.
    public var groupID: [UInt8]
    /// The new group's protocol version, not below the old one's.
    public var version: ProtocolVersion
    /// The new group's cipher suite.
    public var cipherSuite: CipherSuiteID
    /// The new group's extensions.
    public var extensions: [Extension]

    /// Describes the group that is to follow.
    public init(
        groupID: [UInt8], version: ProtocolVersion = .mls10, cipherSuite: CipherSuiteID, extensions: [Extension] = []
    ) {
        self.groupID = groupID
        self.version = version
        self.cipherSuite = cipherSuite
        self.extensions = extensions
    }
}

extension ReInit: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        groupID = try reader.opaque()
        version = try ProtocolVersion(from: &reader)
        cipherSuite = try CipherSuiteID(from: &reader)
        extensions = try reader.list()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(groupID)
        version.encode(into: &writer)
        cipherSuite.encode(into: &writer)
        writer.list(extensions)
    }
}

extension Proposal: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        try self.init(type: ProposalType(from: &reader), from: &reader)
    }

    /// Reads what follows the kind.
    package init(type: ProposalType, from reader: inout TLSReader) throws(MLSError) {
        self =
            switch type {
            case .add: .add(try KeyPackage(from: &reader))
            case .update: .update(try LeafNode(from: &reader))
            case .remove: .remove(try reader.integer())
            case .psk: .psk(try PreSharedKeyID(from: &reader))
            case .reInit: .reInit(try ReInit(from: &reader))
            case .externalInit: .externalInit(kemOutput: try reader.opaque())
            case .groupContextExtensions: .groupContextExtensions(try reader.list())
            default: .custom(type, try reader.opaque())
            }
    }

    package func encode(into writer: inout TLSWriter) {
        type.encode(into: &writer)
        encodeContent(into: &writer)
    }

    /// Writes what follows the kind.
    package func encodeContent(into writer: inout TLSWriter) {
        switch self {
        case .add(let package): package.encode(into: &writer)
        case .update(let leaf): leaf.encode(into: &writer)
        case .remove(let leaf): writer.integer(leaf)
        case .psk(let id): id.encode(into: &writer)
        case .reInit(let reInit): reInit.encode(into: &writer)
        case .externalInit(let output): writer.opaque(output)
        case .groupContextExtensions(let extensions): writer.list(extensions)
        case .custom(_, let content): writer.opaque(content)
        }
    }
}

/// The hash a commit calls a proposal by (RFC 9420 §5.2).
public typealias ProposalReference = [UInt8]

/// A proposal in a commit, whole or by the hash of the message that carried it (RFC 9420 §12.4).
package enum ProposalOrReference: Hashable, TLSCodable {
    case proposal(Proposal)
    case reference(ProposalReference)

    package init(from reader: inout TLSReader) throws(MLSError) {
        self =
            switch try reader.integer(as: UInt8.self) {
            case 1: .proposal(try Proposal(from: &reader))
            case 2: .reference(try reader.opaque())
            default: throw .invalidProposalOrRefType
            }
    }

    package func encode(into writer: inout TLSWriter) {
        switch self {
        case .proposal(let proposal):
            writer.integer(1 as UInt8)
            proposal.encode(into: &writer)
        case .reference(let reference):
            writer.integer(2 as UInt8)
            writer.opaque(reference)
        }
    }
}
