/// What all members of a subtree have in common: it answers "does everybody support this?" without asking everybody.
struct TreeTraits: Hashable, Sendable {
    /// Kinds of extensions beyond the defaults that every member supports.
    let extensions: [ExtensionType]
    /// Kinds of proposals beyond the defaults that every member supports.
    let proposals: [ProposalType]
    /// Kinds of credentials that every member supports.
    let credentials: [CredentialType]
    /// Kinds of credentials that members have.
    let credentialsInUse: [CredentialType]

    init(_ leaf: LeafNode) {
        extensions = leaf.capabilities.extensions
        proposals = leaf.capabilities.proposals
        credentials = leaf.capabilities.credentials
        credentialsInUse = [leaf.credential.type]
    }

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
        return left == right ? left : TreeTraits(left, right)
    }

    func supports(_ types: [ExtensionType]) -> Bool { types.filter { !$0.isDefault }.isCovered(by: extensions) }
    func supports(_ type: ProposalType) -> Bool { type.isDefault || proposals.contains(type) }
    func satisfies(_ required: RequiredCapabilities) -> Bool {
        supports(required.extensions) && required.proposals.filter { !$0.isDefault }.isCovered(by: proposals)
            && required.credentials.isCovered(by: credentials)
    }
}
