extension SecretTree.RatchetID {
    /// The ratchet's number in rows.
    var number: UInt64 { UInt64(leaf) * 2 + UInt64(kind.rawValue) }

    init(number: UInt64) throws(MLSError) {
        guard let leaf = UInt32(exactly: number / 2) else { throw .misplacedNode }
        self.init(leaf: leaf, kind: number % 2 == 0 ? .handshake : .application)
    }
}

extension SecretTree {
    /// The rows that have changed since the tree was stored, or all of them when it never was.
    mutating func takeRows(epoch: UInt64, into changes: inout GroupChanges) {
        defer { journal = Journal() }
        guard let journal else {
            for (node, secret) in nodes { changes.rows.append(Self.row(node, secret, epoch)) }
            for (id, ratchet) in ratchets {
                changes.rows.append(Self.row(id, ratchet, epoch))
                for (generation, key) in ratchet.skipped {
                    changes.rows.append(Self.row(id, generation, key, epoch))
                }
            }
            return
        }
        for node in journal.nodes {
            if let secret = nodes[node] {
                changes.rows.append(Self.row(node, secret, epoch))
            } else {
                changes.removed.append(GroupRow.Key(.secretNode, epoch: epoch, number: UInt64(node)))
            }
        }
        for id in journal.ratchets {
            if let ratchet = ratchets[id] { changes.rows.append(Self.row(id, ratchet, epoch)) }
        }
        for (id, generations) in journal.skipped {
            for generation in generations {
                if let key = ratchets[id]?.skipped[generation] {
                    changes.rows.append(Self.row(id, generation, key, epoch))
                } else {
                    changes.removed.append(
                        GroupRow.Key(.skippedKey, epoch: epoch, number: id.number << 32 | UInt64(generation)))
                }
            }
        }
    }

    private static func row(_ node: UInt32, _ secret: SecretBox, _ epoch: UInt64) -> GroupRow {
        var writer = RowWriter(capacity: 80)
        writer.secret(secret.secret)
        return writer.row(.secretNode, epoch: epoch, number: UInt64(node))
    }

    private static func row(_ id: RatchetID, _ ratchet: HashRatchet, _ epoch: UInt64) -> GroupRow {
        var writer = RowWriter(capacity: 80)
        writer.bytes.integer(ratchet.generation)
        writer.secret(ratchet.secret.secret)
        return writer.row(.ratchet, epoch: epoch, number: id.number)
    }

    private static func row(_ id: RatchetID, _ generation: UInt32, _ key: MessageKey, _ epoch: UInt64) -> GroupRow {
        var writer = RowWriter(capacity: 80)
        writer.bytes.messageKey(key)
        return writer.row(.skippedKey, epoch: epoch, number: id.number << 32 | UInt64(generation))
    }

    /// Reads an epoch's tree from all of a group's rows.
    init(
        _ suite: any CipherSuite, leaves: UInt32, epoch: UInt64, rows: StoredRows
    ) throws(GroupStorageError) {
        var nodes: [UInt32: SecretBox] = [:]
        for row in rows[.secretNode, epoch] {
            guard let node = UInt32(exactly: row.key.number) else { throw .corrupt }
            nodes[node] = SecretBox(try row.read { reader throws(MLSError) in try reader.secret() })
        }
        var skipped: [UInt64: [UInt32: MessageKey]] = [:]
        for row in rows[.skippedKey, epoch] {
            skipped[row.key.number >> 32, default: [:]][UInt32(truncatingIfNeeded: row.key.number)] = try row.read {
                reader throws(MLSError) in try reader.messageKey(suite)
            }
        }
        var ratchets: [RatchetID: HashRatchet] = [:]
        for row in rows[.ratchet, epoch] {
            let number = row.key.number
            let (id, ratchet) = try row.read { reader throws(MLSError) in
                let generation: UInt32 = try reader.integer()
                return (
                    try RatchetID(number: number),
                    HashRatchet(
                        try reader.secret(), generation: generation,
                        skipped: skipped.removeValue(forKey: number) ?? [:])
                )
            }
            ratchets[id] = ratchet
        }
        guard skipped.isEmpty else { throw .corrupt }
        do {
            try self.init(suite, leaves: leaves, nodes: nodes, ratchets: ratchets, isStored: true)
        } catch { throw .corrupt }
    }

    /// Writes a whole tree in one piece, for an epoch that has not begun.
    func encode(into writer: inout TLSWriter) {
        writer.integer(UInt32(nodes.count))
        for (node, secret) in nodes {
            writer.integer(node)
            writer.secret(secret.secret)
        }
        writer.integer(UInt32(ratchets.count))
        for (id, ratchet) in ratchets {
            writer.integer(id.number)
            writer.integer(ratchet.generation)
            writer.secret(ratchet.secret.secret)
            writer.integer(UInt32(ratchet.skipped.count))
            for (generation, key) in ratchet.skipped {
                writer.integer(generation)
                writer.messageKey(key)
            }
        }
    }

    init(from reader: inout TLSReader, _ suite: any CipherSuite, leaves: UInt32) throws(MLSError) {
        var nodes: [UInt32: SecretBox] = [:]
        for _ in 0..<(try reader.integer(as: UInt32.self)) {
            let node: UInt32 = try reader.integer()
            nodes[node] = SecretBox(try reader.secret())
        }
        var ratchets: [RatchetID: HashRatchet] = [:]
        for _ in 0..<(try reader.integer(as: UInt32.self)) {
            let id = try RatchetID(number: reader.integer())
            let generation: UInt32 = try reader.integer()
            let secret = try reader.secret()
            var skipped: [UInt32: MessageKey] = [:]
            for _ in 0..<(try reader.integer(as: UInt32.self)) {
                let generation: UInt32 = try reader.integer()
                skipped[generation] = try reader.messageKey(suite)
            }
            ratchets[id] = HashRatchet(secret, generation: generation, skipped: skipped)
        }
        try self.init(suite, leaves: leaves, nodes: nodes, ratchets: ratchets, isStored: false)
    }
}

extension TLSWriter {
    fileprivate mutating func messageKey(_ key: MessageKey) {
        secret(key.key)
        opaque(key.nonce)
    }
}

extension TLSReader {
    fileprivate mutating func messageKey(_ suite: any CipherSuite) throws(MLSError) -> MessageKey {
        let key = MessageKey(key: try secret(), nonce: try opaque())
        guard key.key.count == suite.keyLength, key.nonce.count == suite.nonceLength else { throw .invalidPrivateKey }
        return key
    }
}

/// A group's rows, by kind and epoch.
struct StoredRows {
    private var rows: [RowGroup: [GroupRow]] = [:]

    private struct RowGroup: Hashable {
        let kind: GroupRow.Kind
        let epoch: UInt64
    }

    init(_ stored: StoredGroup) {
        for row in stored.rows { rows[RowGroup(kind: row.key.kind, epoch: row.key.epoch), default: []].append(row) }
    }

    /// The rows of a kind, by rising number.
    subscript(_ kind: GroupRow.Kind, _ epoch: UInt64) -> [GroupRow] {
        (rows[RowGroup(kind: kind, epoch: epoch)] ?? []).sorted { $0.key.number < $1.key.number }
    }

    subscript(_ kind: GroupRow.Kind) -> [GroupRow] { self[kind, 0] }

    /// The epochs that have rows of a kind, in rising order.
    func epochs(_ kind: GroupRow.Kind) -> [UInt64] { rows.keys.filter { $0.kind == kind }.map(\.epoch).sorted() }

    /// The only row of a kind.
    func one(_ kind: GroupRow.Kind, _ epoch: UInt64 = 0) throws(GroupStorageError) -> GroupRow {
        let found = self[kind, epoch]
        guard let row = found.first, found.count == 1 else { throw .corrupt }
        return row
    }
}
