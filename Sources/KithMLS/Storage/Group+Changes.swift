/// The stored state of a group, with which it is compared to find its changes.
struct GroupJournal: Sendable {
    var member: Member
    var epoch: UInt64
    var tree: RatchetTree
    /// The past epochs, and for each what its rows say.
    var past: [UInt64: Past] = [:]
    var proposals: [ProposalReference] = []
    var ownLeafKeys: [HPKEPublicKey] = []
    var resumption: [UInt64] = []
    var pending: MLSMessage?
    var sent: UInt64 = 0

    struct Member: Hashable, Sendable {
        let signatureKey: SignaturePublicKey
        let isRemoved: Bool
        let reInit: ReInit?
    }

    struct Past: Hashable, Sendable {
        /// The epoch that its changed leaves are compared with.
        let newer: UInt64
        let messagesLeft: Int
    }
}

extension Group {
    /// Returns the changes since the last call, or since the group was opened; all of it when it was never stored.
    ///
    /// Write it before anything that depends on it leaves: a message above all, whose key must never be used again. When
    /// it cannot be written, let this value go and open the group again from what is stored.
    public mutating func takeChanges() -> GroupChanges {
        var changes = GroupChanges(groupID)
        let before = journal
        let isNewEpoch = before?.epoch != epoch
        if isNewEpoch { state.secretTree.open(leaf: leafIndex) }
        var now = GroupJournal(
            member: GroupJournal.Member(signatureKey: signatureKey.publicKey, isRemoved: isRemoved, reInit: reInit),
            epoch: epoch, tree: tree)
        if before?.member != now.member { changes.rows.append(memberRow) }
        if isNewEpoch { takeEpoch(before?.tree, into: &changes) }
        state.secretTree.takeRows(epoch: epoch, into: &changes)
        now.past = takePast(before, into: &changes)
        now.proposals = takeProposals(before?.proposals ?? [], into: &changes)
        now.ownLeafKeys = takeOwnLeafKeys(before?.ownLeafKeys ?? [], into: &changes)
        now.resumption = takeResumption(before?.resumption ?? [], into: &changes)
        now.pending = takePending(before?.pending, isNewEpoch: isNewEpoch, into: &changes)
        now.sent = takeSent(isNewEpoch ? nil : before?.sent, into: &changes)
        journal = now
        return changes
    }

    private var memberRow: GroupRow {
        var writer = RowWriter(capacity: 512)
        context.cipherSuite.encode(into: &writer.bytes)
        writer.secret(signatureKey.secret)
        writer.bytes.flag(isRemoved)
        writer.bytes.optional(reInit)
        return writer.row(.member)
    }

    private func takeEpoch(_ old: RatchetTree?, into changes: inout GroupChanges) {
        var core = RowWriter(capacity: 2_048)
        state.encodeCore(into: &core.bytes)
        changes.rows.append(core.row(.state))
        var keys = RowWriter(capacity: 4_096)
        state.keys.encode(into: &keys.bytes)
        changes.rows.append(keys.row(.keys))
        for difference in old.map({ tree.differences(from: $0) }) ?? tree.allNodes {
            guard let content = difference.content else {
                changes.removed.append(GroupRow.Key(.node, number: UInt64(difference.node)))
                continue
            }
            var writer = RowWriter(capacity: 512)
            content.encode(into: &writer.bytes)
            changes.rows.append(writer.row(.node, number: UInt64(difference.node)))
        }
    }

    private mutating func takePast(
        _ before: GroupJournal?, into changes: inout GroupChanges
    ) -> [UInt64: GroupJournal.Past] {
        var result: [UInt64: GroupJournal.Past] = [:]
        for index in past.indices {
            let number = past[index].shared.context.epoch
            let newer = index + 1 < past.count ? past[index + 1].shared : state.shared
            let now = GroupJournal.Past(newer: newer.context.epoch, messagesLeft: past[index].messagesLeft)
            let stored = before?.past[number]
            if stored?.newer != now.newer { changes.rows.append(past[index].row(newer: newer.tree)) }
            if stored?.messagesLeft != now.messagesLeft {
                var writer = RowWriter(capacity: 16)
                writer.bytes.integer(UInt64(now.messagesLeft))
                changes.rows.append(writer.row(.pastBudget, epoch: number))
            }
            past[index].secretTree.takeRows(epoch: number, into: &changes)
            result[number] = now
        }
        guard let before else { return result }
        let all = Array(before.past.keys) + (before.epoch == epoch ? [] : [before.epoch])
        changes.removedEpochs = all.filter { result[$0] == nil }
        return result
    }

    private func takeProposals(
        _ before: [ProposalReference], into changes: inout GroupChanges
    ) -> [ProposalReference] {
        let all = proposals.all
        let isLonger = all.count >= before.count && zip(all, before).allSatisfy { $0.reference == $1 }
        if !isLonger, all.count < before.count {
            for index in all.count..<before.count {
                changes.removed.append(GroupRow.Key(.proposal, number: UInt64(index)))
            }
        }
        for index in (isLonger ? before.count : 0)..<all.count {
            var writer = RowWriter(capacity: 1_024)
            all[index].encode(into: &writer.bytes)
            changes.rows.append(writer.row(.proposal, number: UInt64(index)))
        }
        return all.map(\.reference)
    }

    private func takeOwnLeafKeys(
        _ before: [HPKEPublicKey], into changes: inout GroupChanges
    ) -> [HPKEPublicKey] {
        let keys = proposals.ownLeafKeys
        guard Set(before) != Set(keys.keys) else { return before }
        let all = keys.keys.sorted { $0.lexicographicallyPrecedes($1) }
        for (index, name) in all.enumerated() {
            guard let own = keys[name] else { continue }
            var writer = RowWriter(capacity: 256)
            writer.secret(own.encryption.secret)
            writer.secret(own.signature.secret)
            changes.rows.append(writer.row(.ownLeafKeys, number: UInt64(index)))
        }
        for index in min(all.count, before.count)..<before.count {
            changes.removed.append(GroupRow.Key(.ownLeafKeys, number: UInt64(index)))
        }
        return all
    }

    private func takeResumption(_ before: [UInt64], into changes: inout GroupChanges) -> [UInt64] {
        let all = resumption.keys.map(\.epoch)
        for (epoch, key) in resumption.keys where !before.contains(epoch) {
            var writer = RowWriter(capacity: 128)
            writer.secret(key.secret)
            changes.rows.append(writer.row(.resumption, number: epoch))
        }
        for epoch in before where !all.contains(epoch) {
            changes.removed.append(GroupRow.Key(.resumption, number: epoch))
        }
        return all
    }

    private func takePending(
        _ before: MLSMessage?, isNewEpoch: Bool, into changes: inout GroupChanges
    ) -> MLSMessage? {
        switch pending {
        case .none:
            if before != nil {
                changes.removed += [GroupRow.Key(.pending), GroupRow.Key(.pendingWelcome)]
            }
            return nil
        case .some(let pending):
            guard before != pending.message else { return before }
            changes.rows.append(pending.row(tree))
            if let welcome = pending.welcome {
                var writer = RowWriter(capacity: 4_096)
                welcome.encode(into: &writer.bytes)
                changes.rows.append(writer.row(.pendingWelcome))
            } else if before != nil {
                changes.removed.append(GroupRow.Key(.pendingWelcome))
            }
            return pending.message
        }
    }

    /// `before` is how many of this epoch's were stored.
    private func takeSent(_ before: UInt64?, into changes: inout GroupChanges) -> UInt64 {
        let first = sent.total - UInt64(sent.digests.count)
        for (offset, digest) in sent.digests.enumerated() where first + UInt64(offset) >= before ?? 0 {
            var writer = RowWriter(capacity: 80)
            writer.bytes.opaque(digest)
            changes.rows.append(writer.row(.sent, epoch: epoch, number: first + UInt64(offset)))
        }
        // What was stored and is no longer remembered.
        let limit = UInt64(configuration.rememberedMessages)
        if let before {
            for number in (before > limit ? before - limit : 0)..<max(first, before > limit ? before - limit : 0) {
                changes.removed.append(GroupRow.Key(.sent, epoch: epoch, number: number))
            }
        }
        return sent.total
    }
}

extension PastEpoch {
    /// The epoch's fixed part; `newer` is the tree that the changed leaves are compared with.
    fileprivate func row(newer: RatchetTree) -> GroupRow {
        let leaves = shared.tree.leafDifferences(from: newer)
        var writer = RowWriter(capacity: 1_024 + leaves.count * 600)
        shared.context.encode(into: &writer.bytes)
        writer.bytes.opaque(shared.confirmationTag)
        writer.bytes.integer(leafIndex)
        writer.bytes.integer(UInt8(shared.tree.root.level))
        writer.secret(senderData.secret)
        writer.bytes.flag(ended != nil)
        writer.bytes.integer(ended ?? 0)
        writer.bytes.list(leaves)
        return writer.row(.past, epoch: shared.context.epoch)
    }
}
