/// The proposals that begin a new epoch, and the committer's new keys (RFC 9420 §12.4).
package struct Commit: Hashable, TLSCodable {
    package var proposals: [ProposalOrReference]
    package var path: UpdatePath?

    package init(proposals: [ProposalOrReference], path: UpdatePath?) {
        self.proposals = proposals
        self.path = path
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        proposals = try reader.list()
        path = try reader.optional()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.list(proposals)
        writer.optional(path)
    }
}

/// A new leaf and new keys for the nodes above it (RFC 9420 §7.6).
package struct UpdatePath: Hashable, TLSCodable {
    package var leafNode: LeafNode
    /// One for each node of the filtered direct path, from the leaf up.
    package var nodes: [UpdatePathNode]

    package init(leafNode: LeafNode, nodes: [UpdatePathNode]) {
        self.leafNode = leafNode
        self.nodes = nodes
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        leafNode = try LeafNode(from: &reader)
        nodes = try reader.list()
    }

    package func encode(into writer: inout TLSWriter) {
        leafNode.encode(into: &writer)
        writer.list(nodes)
    }
}

/// A node's new key, and its secret encrypted to everybody below the node's other child (RFC 9420 §7.6).
package struct UpdatePathNode: Hashable, TLSCodable {
    package var encryptionKey: HPKEPublicKey
    package var encryptedPathSecret: HPKECiphertexts

    package init(encryptionKey: HPKEPublicKey, encryptedPathSecret: HPKECiphertexts) {
        self.encryptionKey = encryptionKey
        self.encryptedPathSecret = encryptedPathSecret
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        encryptionKey = try reader.opaque()
        encryptedPathSecret = try HPKECiphertexts(from: &reader)
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(encryptionKey)
        encryptedPathSecret.encode(into: &writer)
    }
}

/// `HPKECiphertext list<V>`, kept as it came.
///
/// A commit in a group of thousands carries thousands of these, and a member needs one: the list is checked once and
/// only the wanted entry is taken out.
package struct HPKECiphertexts: Hashable, TLSCodable {
    private let content: ArraySlice<UInt8>
    package let count: Int

    package init(_ ciphertexts: [HPKECiphertext]) {
        var writer = TLSWriter(capacity: ciphertexts.count * 88)
        for ciphertext in ciphertexts { ciphertext.encode(into: &writer) }
        content = writer.bytes[...]
        count = ciphertexts.count
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        var inner = try reader.vector()
        let start = inner.offset
        var count = 0
        while !inner.isAtEnd {
            try inner.skipOpaque()
            try inner.skipOpaque()
            count += 1
        }
        content = inner.read(since: start)
        self.count = count
    }

    package func encode(into writer: inout TLSWriter) { writer.opaque(content) }

    /// The entry at `index`, which is below ``count``; O(index).
    package subscript(index: Int) -> HPKECiphertext {
        get throws(MLSError) {
            var reader = TLSReader(content)
            for _ in 0..<index {
                try reader.skipOpaque()
                try reader.skipOpaque()
            }
            return try HPKECiphertext(from: &reader)
        }
    }
}
