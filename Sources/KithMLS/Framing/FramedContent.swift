/// The sender of a message (RFC 9420 §6).
@nonexhaustive
public enum Sender: Hashable, Sendable {
    /// The member at a leaf.
    case member(UInt32)
    /// The entry of the `external_senders` extension at an index.
    case external(UInt32)
    /// A client that proposes to be added.
    case newMemberProposal
    /// A client that joins by its own commit.
    case newMemberCommit
}

extension Sender: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        self =
            switch try reader.integer(as: UInt8.self) {
            case 1: .member(try reader.integer())
            case 2: .external(try reader.integer())
            case 3: .newMemberProposal
            case 4: .newMemberCommit
            default: throw .invalidSenderType
            }
    }

    package func encode(into writer: inout TLSWriter) {
        switch self {
        case .member(let leaf):
            writer.integer(1 as UInt8)
            writer.integer(leaf)
        case .external(let index):
            writer.integer(2 as UInt8)
            writer.integer(index)
        case .newMemberProposal: writer.integer(3 as UInt8)
        case .newMemberCommit: writer.integer(4 as UInt8)
        }
    }
}

/// The kind of content of a message (RFC 9420 §6).
@nonexhaustive
public enum ContentType: UInt8, Hashable, Sendable {
    /// The application's own.
    case application = 1
    /// A proposal.
    case proposal = 2
    /// A commit.
    case commit = 3
}

extension ContentType: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        guard let type = ContentType(rawValue: try reader.integer()) else { throw .invalidContentType }
        self = type
    }

    package func encode(into writer: inout TLSWriter) { writer.integer(rawValue) }
}

/// A message's content and what it is bound to (RFC 9420 §6).
package struct FramedContent: Hashable, TLSCodable {
    package enum Content: Hashable, Sendable {
        case application([UInt8])
        case proposal(Proposal)
        case commit(Commit)
    }

    package var groupID: [UInt8]
    package var epoch: UInt64
    package var sender: Sender
    package var authenticatedData: [UInt8]
    package var content: Content

    package init(groupID: [UInt8], epoch: UInt64, sender: Sender, authenticatedData: [UInt8], content: Content) {
        self.groupID = groupID
        self.epoch = epoch
        self.sender = sender
        self.authenticatedData = authenticatedData
        self.content = content
    }

    /// The most bytes of data and attached data together: with padding and signature they fit a vector (§2.1.2).
    package static let maximumLength = 1 << 29

    /// Refuses what no message can carry, before anything is encoded.
    func checkLength() throws(MLSError) {
        var count = authenticatedData.count
        if case .application(let data) = content { count += data.count }
        guard count <= Self.maximumLength else { throw .messageTooLong }
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        groupID = try reader.opaque()
        epoch = try reader.integer()
        sender = try Sender(from: &reader)
        authenticatedData = try reader.opaque()
        let type = try ContentType(from: &reader)
        content = try Content(type, from: &reader)
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(groupID)
        writer.integer(epoch)
        sender.encode(into: &writer)
        writer.opaque(authenticatedData)
        content.type.encode(into: &writer)
        content.encode(into: &writer)
    }
}

extension FramedContent.Content {
    package var type: ContentType {
        switch self {
        case .application: .application
        case .proposal: .proposal
        case .commit: .commit
        }
    }

    init(_ type: ContentType, from reader: inout TLSReader) throws(MLSError) {
        self =
            switch type {
            case .application: .application(try reader.opaque())
            case .proposal: .proposal(try Proposal(from: &reader))
            case .commit: .commit(try Commit(from: &reader))
            }
    }

    func encode(into writer: inout TLSWriter) {
        switch self {
        case .application(let data): writer.opaque(data)
        case .proposal(let proposal): proposal.encode(into: &writer)
        case .commit(let commit): commit.encode(into: &writer)
        }
    }
}
