/// A proposal and who sent it.
public struct SentProposal: Hashable, Sendable {
    /// The proposal.
    public let proposal: Proposal
    /// The member, or outsider, who proposed it.
    public let sender: Sender

    /// Takes both.
    public init(proposal: Proposal, sender: Sender) {
        self.proposal = proposal
        self.sender = sender
    }
}

/// The maker of a commit.
enum Committer: Hashable, Sendable {
    case member(UInt32)
    /// Somebody who joins by it.
    case newMember
}

/// The reason a group begins with a pre-shared key of another (RFC 9420 §11.2, §11.3).
enum GroupStart: Hashable, Sendable {
    case ordinary
    case reInit
    case branch

    func allows(_ id: PreSharedKeyID) -> Bool {
        switch id.key {
        case .resumption(.reInit, _, _): self == .reInit
        case .resumption(.branch, _, _): self == .branch
        default: true
        }
    }
}

/// The proposals of one commit by kind, as far as each alone allows (RFC 9420 §12.2).
struct ProposalList: Sendable {
    private(set) var adds: [KeyPackage] = []
    private(set) var updates: [(leaf: UInt32, node: LeafNode)] = []
    private(set) var removes: [UInt32] = []
    private(set) var psks: [PreSharedKeyID] = []
    private(set) var reInit: ReInit?
    private(set) var externalInit: [UInt8]?
    private(set) var extensions: [Extension]?
    private(set) var custom: [SentProposal] = []
    private let isEmpty: Bool
    /// ``psks``, to find one that is named twice.
    private var namedPSKs: Set<PreSharedKeyID> = []

    /// Sorts the proposals and checks the rules that need no look at the group's tree (§12.2).
    init(
        _ proposals: [SentProposal], committer: Committer, suite: any CipherSuite, version: ProtocolVersion,
        start: GroupStart = .ordinary
    ) throws(MLSError) {
        isEmpty = proposals.isEmpty
        for item in proposals { try insert(item, suite, version, start) }
        switch committer {
        case .member(let leaf): try checkMember(leaf, proposals)
        case .newMember: try checkNewMember()
        }
    }

    private mutating func insert(
        _ item: SentProposal, _ suite: any CipherSuite, _ version: ProtocolVersion, _ start: GroupStart
    ) throws(MLSError) {
        switch item.proposal {
        case .add(let package): adds.append(package)
        case .update(let node):
            guard case .member(let leaf) = item.sender else { throw .proposalNotAllowedFromSender }
            updates.append((leaf, node))
        case .remove(let leaf): removes.append(leaf)
        case .psk(let id):
            guard start.allows(id) else { throw .pskUsageNotAllowed }
            guard id.nonce.count == suite.secretLength else { throw .wrongPSKNonceLength }
            guard namedPSKs.insert(id).inserted else { throw .duplicatePSK }
            psks.append(id)
        case .reInit(let wanted):
            guard wanted.version.rawValue >= version.rawValue else { throw .reInitVersionTooLow }
            reInit = wanted
        case .externalInit(let output):
            guard externalInit == nil else { throw .wrongExternalInitCount }
            externalInit = output
        case .groupContextExtensions(let wanted):
            guard extensions == nil else { throw .multipleGroupContextExtensions }
            try wanted.checkUnique()
            extensions = wanted
        case .custom: custom.append(item)
        }
    }

    private func checkMember(_ committer: UInt32, _ proposals: [SentProposal]) throws(MLSError) {
        guard externalInit == nil else { throw .externalInitNotAllowed }
        guard !updates.contains(where: { $0.leaf == committer }) else { throw .updateByCommitter }
        guard !removes.contains(committer) else { throw .removeOfCommitter }
        var changed: Set<UInt32> = []
        for leaf in updates.map(\.leaf) + removes {
            guard changed.insert(leaf).inserted else { throw .multipleChangesOfLeaf }
        }
        guard reInit == nil || proposals.count == 1 else { throw .reInitNotAlone }
    }

    private func checkNewMember() throws(MLSError) {
        guard externalInit != nil else { throw .wrongExternalInitCount }
        guard removes.count <= 1, adds.isEmpty, updates.isEmpty, reInit == nil, extensions == nil, custom.isEmpty else {
            throw .proposalNotAllowedInExternalCommit
        }
    }

    /// True when the commit must bring new keys (§12.4); proposals of the application's own kinds always ask for it.
    var needsPath: Bool {
        isEmpty || !updates.isEmpty || !removes.isEmpty || externalInit != nil || extensions != nil
            || !custom.isEmpty
    }
}
