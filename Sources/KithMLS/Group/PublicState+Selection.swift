extension PublicState {
    /// The queued proposals that go together with the committer's own, for when they do not all go together.
    ///
    /// Whoever sends one that is good alone and bad in company must not keep others from committing: it is left out.
    func acceptable(
        _ queued: [QueuedProposal], beside own: [Proposal], committer: UInt32, lifetime: LifetimeRule,
        authentication: any AuthenticationService
    ) -> [QueuedProposal] {
        guard !own.contains(where: { $0.type == .reInit }) else { return [] }
        var chosen: Set<ProposalReference> = []
        var tree = tree
        var extensions = context.extensions
        if let wanted = own.compactMap(\.newExtensions).first {
            extensions = wanted
        } else if let (item, wanted) = acceptableExtensions(queued, authentication) {
            extensions = wanted
            chosen.insert(item.reference)
        }
        // What cannot be decoded here was refused when it was queued.
        let required = (try? extensions.decoded(.requiredCapabilities, as: RequiredCapabilities.self)) ?? nil
        var changed = Set(own.compactMap(\.removedLeaf))
        for item in queued {
            guard case .update(let node) = item.proposal, case .member(let leaf) = item.sender, leaf != committer,
                !changed.contains(leaf)
            else { continue }
            let isGood = attempt(on: &tree) { tree throws(MLSError) in
                try checkUpdate(leaf, node, lifetime, authentication)
                try tree.update(leaf, node)
                try tree.checkCommonSupport(extensions: extensions, required: required)
            }
            guard isGood else { continue }
            changed.insert(leaf)
            chosen.insert(item.reference)
        }
        for leaf in own.compactMap(\.removedLeaf) {
            attempt(on: &tree) { tree throws(MLSError) in try tree.remove(leaf) }
        }
        for item in queued {
            guard let leaf = item.proposal.removedLeaf, leaf != committer, changed.insert(leaf).inserted else {
                continue
            }
            if attempt(on: &tree, { tree throws(MLSError) in try tree.remove(leaf) }) { chosen.insert(item.reference) }
        }
        for item in queued {
            guard case .custom(let type, _) = item.proposal, tree.traits?.supports(type) ?? true else { continue }
            chosen.insert(item.reference)
        }
        for case .add(let package) in own {
            attempt(on: &tree) { tree throws(MLSError) in _ = try tree.add(package.leafNode) }
        }
        // Of two with one credential the service may admit each, and not both.
        var credentials = Set(own.compactMap(\.addedCredential))
        for item in queued {
            guard case .add(let package) = item.proposal, !credentials.contains(package.leafNode.credential),
                authentication.isValid(
                    package.leafNode.credential, signatureKey: package.leafNode.signatureKey, for: .add)
            else { continue }
            let isGood = attempt(on: &tree) { tree throws(MLSError) in
                try package.validate(suite, lifetime: lifetime)
                _ = try tree.add(package.leafNode)
                try tree.checkCommonSupport(extensions: extensions, required: required)
            }
            guard isGood else { continue }
            credentials.insert(package.leafNode.credential)
            chosen.insert(item.reference)
        }
        let ownPSKs = Set(own.compactMap(\.presharedKey))
        for item in queued {
            if let id = item.proposal.presharedKey, !ownPSKs.contains(id) { chosen.insert(item.reference) }
        }
        return queued.filter { chosen.contains($0.reference) }
    }

    /// The first proposal of extensions that can be taken now.
    private func acceptableExtensions(
        _ queued: [QueuedProposal], _ authentication: any AuthenticationService
    ) -> (item: QueuedProposal, extensions: [Extension])? {
        for item in queued {
            guard let wanted = item.proposal.newExtensions else { continue }
            // One that was good when it came may not be any more: it is left out.
            do { try checkExternalSenders(wanted, authentication) } catch { continue }
            return (item, wanted)
        }
        return nil
    }

    /// Changes the tree if the change is allowed.
    @discardableResult
    private func attempt(
        on tree: inout RatchetTree, _ change: (inout RatchetTree) throws(MLSError) -> Void
    ) -> Bool {
        var copy = tree
        do { try change(&copy) } catch { return false }  // the proposal is left out
        tree = copy
        return true
    }
}

extension Proposal {
    fileprivate var newExtensions: [Extension]? {
        if case .groupContextExtensions(let extensions) = self { return extensions }
        return nil
    }

    fileprivate var addedCredential: Credential? {
        if case .add(let package) = self { return package.leafNode.credential }
        return nil
    }

    fileprivate var removedLeaf: UInt32? {
        if case .remove(let leaf) = self { return leaf }
        return nil
    }

    /// The pre-shared key that a proposal names.
    var presharedKey: PreSharedKeyID? {
        if case .psk(let id) = self { return id }
        return nil
    }
}
