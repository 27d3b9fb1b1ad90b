/// The features that all members of a subtree support: they answer "does everybody support this?" without a walk.
///
/// Most members support the same, and their nodes share one object.
final class TreeTraits: Sendable {
    /// Kinds of extensions beyond the defaults that every member supports.
    let extensions: [ExtensionType]
    /// Kinds of proposals beyond the defaults that every member supports.
    let proposals: [ProposalType]
    /// Kinds of credentials that every member supports.
    let credentials: [CredentialType]
    /// Kinds of credentials that members have.
    let credentialsInUse: [CredentialType]

    init(_ capabilities: Capabilities, _ credential: CredentialType) {
        extensions = capabilities.extensions
        proposals = capabilities.proposals
        credentials = capabilities.credentials
        credentialsInUse = [credential]
    }

    convenience init(_ leaf: LeafNode) { self.init(leaf.capabilities, leaf.credential.type) }

    private init(_ left: TreeTraits, _ right: TreeTraits) {
        extensions = left.extensions.common(with: right.extensions)
        proposals = left.proposals.common(with: right.proposals)
        credentials = left.credentials.common(with: right.credentials)
        credentialsInUse =
            left.credentialsInUse == right.credentialsInUse
            ? left.credentialsInUse
            : Array(Set(left.credentialsInUse).union(right.credentialsInUse)).sorted { $0.rawValue < $1.rawValue }
    }

    static func combine(_ left: TreeTraits?, _ right: TreeTraits?) -> TreeTraits? {
        guard let left, let right else { return left ?? right }
        if left.isSame(as: right) { return left }
        let both = TreeTraits(left, right)
        return both.isSame(as: left) ? left : both.isSame(as: right) ? right : both
    }

    private func isSame(as other: TreeTraits) -> Bool {
        self === other
            || extensions == other.extensions && proposals == other.proposals && credentials == other.credentials
                && credentialsInUse == other.credentialsInUse
    }

    /// The first of some that say the same, or else itself.
    func shared(with others: TreeTraits?...) -> TreeTraits {
        for case let other? in others where isSame(as: other) { return other }
        return self
    }

    func supports(_ types: [ExtensionType]) -> Bool { types.filter { !$0.isDefault }.isCovered(by: extensions) }
    func supports(_ type: ProposalType) -> Bool { type.isDefault || proposals.contains(type) }
    func satisfies(_ required: RequiredCapabilities) -> Bool {
        supports(required.extensions) && required.proposals.filter { !$0.isDefault }.isCovered(by: proposals)
            && required.credentials.isCovered(by: credentials)
    }
}

/// Finds the traits of leaf after leaf, one object for all that have the same.
struct TraitsTable {
    private struct Key: Hashable {
        let credential: CredentialType
        let capabilities: ArraySlice<UInt8>
    }

    private var known: [Key: TreeTraits] = [:]

    mutating func leaf(_ node: RatchetTreeNode) -> TreeNode.Leaf {
        let support = node.support
        let key = Key(credential: support.credential, capabilities: support.capabilities)
        if let traits = known[key] { return TreeNode.Leaf(node, traits) }
        guard let leaf = node.leaf else { preconditionFailure("a node above leaves supports nothing") }
        let traits = TreeTraits(leaf)
        known[key] = traits
        return TreeNode.Leaf(node, traits)
    }
}
