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
        extensions = left.extensions.filter { right.extensions.contains($0) }
        proposals = left.proposals.filter { right.proposals.contains($0) }
        credentials = left.credentials.filter { right.credentials.contains($0) }
        credentialsInUse = left.credentialsInUse + right.credentialsInUse.filter { !left.credentialsInUse.contains($0) }
    }

    static func combine(_ left: TreeTraits?, _ right: TreeTraits?) -> TreeTraits? {
        guard let left, let right else { return left ?? right }
        return left == right ? left : TreeTraits(left, right)
    }

    func supports(_ type: ExtensionType) -> Bool { type.isDefault || extensions.contains(type) }
    func supports(_ type: ProposalType) -> Bool { type.isDefault || proposals.contains(type) }
    func satisfies(_ required: RequiredCapabilities) -> Bool {
        required.extensions.allSatisfy { supports($0) } && required.proposals.allSatisfy { supports($0) }
            && required.credentials.allSatisfy { credentials.contains($0) }
    }
}
