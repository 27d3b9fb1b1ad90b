/// A message that was processed.
@frozen public enum Received: ~Copyable {
    /// Data of the application.
    case application(ApplicationMessage)
    /// A proposal, now queued.
    case proposal(QueuedProposal)
    /// Another's commit, checked, to be confirmed or let go.
    case commit(StagedCommit)
    /// A message of this very member, which it cannot decrypt and need not.
    case own(OwnMessage)
}

/// Data that a member sent to the group.
public struct ApplicationMessage: Hashable, Sendable {
    /// The data.
    public let data: [UInt8]
    /// The sender's leaf index.
    public let sender: UInt32
    /// The sender's leaf in that epoch.
    public let senderNode: LeafNode
    /// The epoch it was sent in.
    public let epoch: UInt64
    /// The number of the message among the sender's of that epoch.
    public let generation: UInt32
    /// The sender's additional data, in the clear.
    public let authenticatedData: [UInt8]

    /// The sender's name in that epoch; nil where its credential has none (``Credential/name``).
    public var senderName: String? { senderNode.credential.name }
}

/// A message that came back to its sender.
public struct OwnMessage: Hashable, Sendable {
    /// The kind of the message, with its content.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The commit that awaits its confirmation: it was accepted.
        case pendingCommit
        /// A message this value of the group remembers having sent.
        case remembered(ContentType)
        /// A message of this member's leaf that this value of the group does not remember: sent long ago, or by a
        /// state that was lost.
        case unknown(ContentType)
    }

    /// The kind of the message, with its content.
    public let kind: Kind
    /// The epoch it was sent in.
    public let epoch: UInt64

    package init(kind: Kind, epoch: UInt64) {
        self.kind = kind
        self.epoch = epoch
    }
}
