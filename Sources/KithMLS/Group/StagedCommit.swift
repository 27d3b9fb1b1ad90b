/// Another member's commit that was checked, and the epoch it would begin.
///
/// The application looks at ``change`` and either hands it to ``Group/confirm(_:at:)`` or lets it go. A private message
/// that was let go cannot be processed again: its key is deleted with the first reading (§9.2).
public struct StagedCommit: ~Copyable, Sendable {
    /// The context of the epoch it was staged in.
    let context: GroupContext
    /// The member that staged it.
    let leafIndex: UInt32
    /// The new epoch; nil when the commit removes this member.
    private let state: EpochState?
    /// The change of the group, should the commit be confirmed.
    public let change: EpochChange
    /// The new signature key of this member, where the commit holds its Update.
    let signatureKey: SignaturePrivateKey?
    let references: [ProposalReference]

    /// True when the commit removes this member.
    public var removesUs: Bool { state == nil }

    init(
        context: GroupContext, leafIndex: UInt32, state: consuming EpochState?, change: EpochChange,
        signatureKey: SignaturePrivateKey?,
        references: [ProposalReference]
    ) {
        self.context = context
        self.leafIndex = leafIndex
        self.state = state
        self.change = change
        self.signatureKey = signatureKey
        self.references = references
    }

    consuming func intoState() -> EpochState? { state }
}
