/// A proposal that was sent in this epoch, and the hash a commit may call it by.
public struct QueuedProposal: Hashable, Sendable {
    /// The hash of the message it came in (§5.2).
    public let reference: ProposalReference
    /// The proposal.
    public let proposal: Proposal
    /// The member, or outsider, who proposed it.
    public let sender: Sender
    /// The sender's additional data, in the clear.
    public let authenticatedData: [UInt8]
}

extension QueuedProposal {
    /// The size in bytes, which a queue of many has to bound.
    var byteCount: Int { encoded.count }
}

/// The proposals of an epoch, in the order they came (RFC 9420 §12.1).
struct ProposalQueue: Sendable {
    private(set) var all: [QueuedProposal] = []
    /// The size of all proposals.
    private(set) var byteCount = 0
    private var indices: [ProposalReference: Int] = [:]
    /// The private halves of the leaves this member has proposed for itself, by encryption key.
    private(set) var ownLeafKeys: [HPKEPublicKey: OwnLeafKeys] = [:]

    /// The private keys of a leaf that this member proposed.
    struct OwnLeafKeys: Sendable {
        let encryption: HPKEPrivateKey
        let signature: SignaturePrivateKey
    }

    subscript(_ reference: ProposalReference) -> QueuedProposal? { indices[reference].map { all[$0] } }

    mutating func add(_ proposal: QueuedProposal) {
        guard indices[proposal.reference] == nil else { return }
        indices[proposal.reference] = all.count
        all.append(proposal)
        byteCount += proposal.byteCount
    }

    mutating func add(_ keys: OwnLeafKeys) { ownLeafKeys[keys.encryption.publicKey] = keys }

    /// The proposals a commit by `committer` may hold together: removals before updates, the latest update of a member,
    /// a ReInit only when nothing else is wanted (§12.2).
    func selection(for committer: UInt32) -> [QueuedProposal] {
        var removed: Set<UInt32> = []
        var latestUpdate: [UInt32: Int] = [:]
        for (index, item) in all.enumerated() {
            switch (item.proposal, item.sender) {
            case (.remove(let leaf), _) where leaf != committer: removed.insert(leaf)
            case (.update, .member(let leaf)): latestUpdate[leaf] = index
            default: break
            }
        }
        var chosen: [QueuedProposal] = []
        var seenRemoved: Set<UInt32> = []
        var addedKeys: Set<SignaturePublicKey> = []
        var psks: Set<PreSharedKeyID> = []
        var hasExtensions = false
        for (index, item) in all.enumerated() {
            let isWanted =
                switch (item.proposal, item.sender) {
                case (.remove(let leaf), _): leaf != committer && seenRemoved.insert(leaf).inserted
                case (.update, .member(let leaf)):
                    leaf != committer && !removed.contains(leaf) && latestUpdate[leaf] == index
                case (.add(let package), _): addedKeys.insert(package.leafNode.signatureKey).inserted
                case (.psk(let id), _): psks.insert(id).inserted
                case (.groupContextExtensions, _):
                    hasExtensions
                        ? false
                        : {
                            hasExtensions = true; return true
                        }()
                case (.externalInit, _), (.update, _), (.reInit, _): false
                case (.custom, _): true
                }
            if isWanted { chosen.append(item) }
        }
        if chosen.isEmpty, let reInit = all.last(where: { $0.proposal.type == .reInit }) { return [reInit] }
        return chosen
    }
}
