public import KithMLS

/// Something that happened in a group.
@nonexhaustive
public enum GroupEvent: Hashable, Sendable {
    /// This client is a member now, from this epoch on.
    case joined(epoch: UInt64)
    /// A new epoch began; `isOwn` when this client made its commit.
    ///
    /// `retry` are proposals that await a commit no longer: what others had proposed and the commit left out, and what a
    /// commit of this client's that came second would have done.
    case epochChanged(EpochChange, isOwn: Bool, retry: [SentProposal])
    /// A member sent data.
    case message(ApplicationMessage)
    /// Somebody proposed a change, which awaits a commit.
    case proposed(QueuedProposal)
    /// Something this client sent came back: it has its place among the group's messages.
    case ownEcho(OwnMessage)
    /// Data of this client that can no longer be sent: it was removed, or the group ended, before the delivery service
    /// had it. After an old copy of the storage has come back, it may have been sent all the same.
    case unsent([UInt8], authenticatedData: [UInt8])
    /// A message claims to be of a later epoch than this client can reach: it may have to join anew.
    ///
    /// The epoch stands in the clear, and the delivery service could have made it up: a client that can still follow loses
    /// nothing by waiting.
    case needsRejoin(epoch: UInt64)
    /// A commit removed this client.
    ///
    /// Should the others be unable to follow that commit, another one of the epoch comes in its place: then
    /// ``epochChanged(_:isOwn:retry:)`` follows, and this client is a member as before.
    case removed(EpochChange)
    /// A commit ended the group in favour of another.
    case reinitialised(ReInit)
}

/// An event and its place among the group's events here.
public struct NumberedEvent: Hashable, Sendable {
    /// Rises with every event of the group on this client.
    public let number: UInt64
    /// The event.
    public let event: GroupEvent
}

extension GroupEvent: TLSCodable {
    package func encode(into writer: inout TLSWriter) {
        switch self {
        case .joined(let epoch):
            writer.integer(1 as UInt8)
            writer.integer(epoch)
        case .epochChanged(let change, let isOwn, let retry):
            writer.integer(2 as UInt8)
            change.encode(into: &writer)
            writer.flag(isOwn)
            writer.list(retry)
        case .message(let message):
            writer.integer(3 as UInt8)
            message.encode(into: &writer)
        case .proposed(let proposal):
            writer.integer(4 as UInt8)
            proposal.encode(into: &writer)
        case .ownEcho(let own):
            writer.integer(5 as UInt8)
            let (kind, type): (UInt8, ContentType) =
                switch own.kind {
                case .pendingCommit: (0, .commit)
                case .remembered(let type): (1, type)
                case .unknown(let type): (2, type)
                }
            writer.integer(kind)
            type.encode(into: &writer)
            writer.integer(own.epoch)
        case .needsRejoin(let epoch):
            writer.integer(6 as UInt8)
            writer.integer(epoch)
        case .removed(let change):
            writer.integer(7 as UInt8)
            change.encode(into: &writer)
        case .reinitialised(let reInit):
            writer.integer(8 as UInt8)
            reInit.encode(into: &writer)
        case .unsent(let data, let authenticated):
            writer.integer(9 as UInt8)
            writer.opaque(data)
            writer.opaque(authenticated)
        }
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        switch try reader.integer(as: UInt8.self) {
        case 1: self = .joined(epoch: try reader.integer())
        case 2:
            self = .epochChanged(try EpochChange(from: &reader), isOwn: try reader.flag(), retry: try reader.list())
        case 3: self = .message(try ApplicationMessage(from: &reader))
        case 4: self = .proposed(try QueuedProposal(from: &reader))
        case 5:
            let kind = try reader.integer(as: UInt8.self)
            let type = try ContentType(from: &reader)
            let epoch: UInt64 = try reader.integer()
            switch kind {
            case 0: self = .ownEcho(OwnMessage(kind: .pendingCommit, epoch: epoch))
            case 1: self = .ownEcho(OwnMessage(kind: .remembered(type), epoch: epoch))
            case 2: self = .ownEcho(OwnMessage(kind: .unknown(type), epoch: epoch))
            default: throw .invalidContentType
            }
        case 6: self = .needsRejoin(epoch: try reader.integer())
        case 7: self = .removed(try EpochChange(from: &reader))
        case 8: self = .reinitialised(try ReInit(from: &reader))
        case 9: self = .unsent(try reader.opaque(), authenticatedData: try reader.opaque())
        default: throw .invalidContentType
        }
    }
}

/// The reason a client could not do something with a group; the group is as before, here and in storage.
@nonexhaustive
public enum GroupError: Error, Hashable, Sendable {
    /// There is no group of that name here.
    case unknownGroup
    /// The engine refused: bytes that are none, a rule of the protocol, the group's state.
    case refused(MLSError)
    /// Storage failed.
    case storage(GroupStorageError)
    /// The delivery service failed; what was to be sent is kept, and goes out with the next ``GroupSession/synchronise()``.
    case unreachable(DeliveryError)
    /// Another process changes the group again and again.
    case contended
    /// Too much waits for the delivery service already.
    case tooMuchWaiting
    /// The data is larger than the client sends.
    case tooLarge
    /// A client has no key package left.
    case noKeyPackage(ClientID)
    /// No key package of this client's is named by the Welcome.
    case notForUs
    /// The storage is of a client with another signature key than the signer's.
    case otherSignatureKey
    /// The client was closed.
    case closed
}
