extension Group {
    /// Opens a group from what is stored of it.
    ///
    /// - Throws: ``GroupStorageError/corrupt`` when the rows are not those of one group, among them when the tree is not
    ///   the one that the group's context names; ``GroupStorageError/laterFormat``.
    public static func restored(
        from stored: StoredGroup, configuration: GroupConfiguration
    ) throws(GroupStorageError) -> Group {
        let rows = StoredRows(stored)
        let member = try rows.one(.member).read { reader throws(MLSError) in
            try StoredMember(from: &reader, configuration)
        }
        let suite = member.suite
        let core = try rows.one(.state).read { reader throws(MLSError) in try EpochCore(from: &reader) }
        guard core.context.groupID == stored.groupID else { throw .corrupt }
        let keys = try rows.one(.keys).read { reader throws(MLSError) in try TreeKeys(from: &reader, suite) }
        var nodes: [NodeDifference] = []
        for row in rows[.node] {
            guard let number = UInt32(exactly: row.key.number) else { throw .corrupt }
            nodes.append(
                NodeDifference(
                    node: number,
                    content: try row.read { reader throws(MLSError) in try RatchetTreeNode(from: &reader) }))
        }
        let epoch = core.context.epoch
        let level = core.treeLevel
        let secretTree = try SecretTree(suite, leaves: 1 << level, epoch: epoch, rows: rows)
        let tree: RatchetTree
        do { tree = try RatchetTree(stored: nodes, level: level) } catch { throw .corrupt }
        let past = try past(rows, suite, newest: tree)
        let proposals = try proposals(rows, suite)
        let resumption = try resumption(rows)
        let sent = try sent(rows, epoch)
        let pending = try pending(rows, suite, tree)
        var group: Group
        do {
            group = Group(
                try core.state(suite, tree: tree, keys: keys, secretTree: secretTree),
                signatureKey: member.signatureKey, configuration: configuration)
        } catch { throw .corrupt }
        group.isRemoved = member.isRemoved
        group.reInit = member.reInit
        group.past = past
        group.proposals = proposals
        group.resumption = resumption
        group.sent = sent
        group.pending = pending
        group.journal = group.storedJournal()
        return group
    }

    /// The content of the member's row.
    private struct StoredMember {
        let suite: any CipherSuite
        let signatureKey: SignaturePrivateKey
        let isRemoved: Bool
        let reInit: ReInit?

        init(from reader: inout TLSReader, _ configuration: GroupConfiguration) throws(MLSError) {
            suite = try configuration.suite(CipherSuiteID(from: &reader))
            signatureKey = try reader.signatureKey(suite)
            isRemoved = try reader.flag()
            reInit = try reader.optional()
        }
    }

    /// The journal of a group whose rows were all just read.
    private func storedJournal() -> GroupJournal {
        var journal = GroupJournal(
            member: GroupJournal.Member(signatureKey: signatureKey.publicKey, isRemoved: isRemoved, reInit: reInit),
            epoch: epoch, tree: tree)
        for (index, one) in past.enumerated() {
            let newer = index + 1 < past.count ? past[index + 1].shared.context.epoch : epoch
            journal.past[one.shared.context.epoch] = GroupJournal.Past(newer: newer, messagesLeft: one.messagesLeft)
        }
        journal.proposals = proposals.all.map(\.reference)
        journal.ownLeafKeys = Array(proposals.ownLeafKeys.keys)
        journal.resumption = resumption.keys.map(\.epoch)
        journal.pending = pendingCommit?.commit
        journal.sent = sent.total
        return journal
    }

    private static func past(
        _ rows: StoredRows, _ suite: any CipherSuite, newest: RatchetTree
    ) throws(GroupStorageError) -> [PastEpoch] {
        var result: [PastEpoch] = []
        var newer = newest
        for epoch in rows.epochs(.past).reversed() {
            let messages = try rows.one(.pastBudget, epoch).read { reader throws(MLSError) in
                try reader.integer(as: UInt64.self)
            }
            let read = try rows.one(.past, epoch).read { reader throws(MLSError) in
                try StoredPast(from: &reader, newer: newer)
            }
            guard read.context.epoch == epoch, let budget = Int(exactly: messages) else { throw .corrupt }
            newer = read.tree
            let shared = PublicState(
                suite, context: read.context, tree: read.tree, confirmationTag: read.confirmationTag)
            result.append(
                PastEpoch(
                    shared: shared, leafIndex: read.leafIndex, senderData: read.senderData,
                    secretTree: try SecretTree(suite, leaves: read.tree.leafCapacity, epoch: epoch, rows: rows),
                    ended: read.ended, messagesLeft: budget))
        }
        return result.reversed()
    }

    /// The content of a past epoch's row.
    ///
    /// Of the tree, only the leaves are as they were.
    private struct StoredPast {
        let context: GroupContext
        let confirmationTag: [UInt8]
        let leafIndex: UInt32
        let senderData: SecretBox
        let ended: UInt64?
        let tree: RatchetTree

        init(from reader: inout TLSReader, newer: RatchetTree) throws(MLSError) {
            context = try GroupContext(from: &reader)
            confirmationTag = try reader.opaque()
            leafIndex = try reader.integer()
            let level = Int(try reader.integer(as: UInt8.self))
            senderData = SecretBox(try reader.secret())
            let isTimed = try reader.flag()
            let time: UInt64 = try reader.integer()
            ended = isTimed ? time : nil
            tree = try newer.withLeaves(reader.list(), level: level)
        }
    }

    private static func proposals(
        _ rows: StoredRows, _ suite: any CipherSuite
    ) throws(GroupStorageError) -> ProposalQueue {
        var queue = ProposalQueue()
        for (index, row) in rows[.proposal].enumerated() {
            guard row.key.number == index else { throw .corrupt }
            queue.add(try row.read { reader throws(MLSError) in try QueuedProposal(from: &reader) })
        }
        for row in rows[.ownLeafKeys] {
            queue.add(
                try row.read { reader throws(MLSError) in
                    ProposalQueue.OwnLeafKeys(
                        encryption: try reader.hpkeKey(suite), signature: try reader.signatureKey(suite))
                })
        }
        return queue
    }

    private static func resumption(_ rows: StoredRows) throws(GroupStorageError) -> ResumptionKeys {
        var keys: [(epoch: UInt64, key: SecretBox)] = []
        for row in rows[.resumption] {
            keys.append((row.key.number, try row.read { reader throws(MLSError) in SecretBox(try reader.secret()) }))
        }
        return ResumptionKeys(keys)
    }

    private static func sent(_ rows: StoredRows, _ epoch: UInt64) throws(GroupStorageError) -> SentMessages {
        let stored = rows[.sent, epoch]
        var digests: [[UInt8]] = []
        for row in stored { digests.append(try row.read { reader throws(MLSError) in try reader.opaque() }) }
        return SentMessages(digests, total: stored.last.map { $0.key.number &+ 1 } ?? 0)
    }

    private static func pending(
        _ rows: StoredRows, _ suite: any CipherSuite, _ tree: RatchetTree
    ) throws(GroupStorageError) -> PendingCommit? {
        guard !rows[.pending].isEmpty else { return nil }
        var welcome: MLSMessage?
        if !rows[.pendingWelcome].isEmpty {
            welcome = try rows.one(.pendingWelcome).read { reader throws(MLSError) in try MLSMessage(from: &reader) }
        }
        return try rows.one(.pending).read { reader throws(MLSError) in
            try PendingCommit(from: &reader, suite, current: tree, welcome: welcome)
        }
    }
}

extension RatchetTree {
    /// A tree as it was in a past epoch, of which only leaves are asked.
    fileprivate func withLeaves(_ leaves: [NodeDifference], level: Int) throws(MLSError) -> RatchetTree {
        guard leaves.allSatisfy({ $0.node % 2 == 0 }) else { throw .misplacedNode }
        return try applying(leaves, level: level)
    }
}
