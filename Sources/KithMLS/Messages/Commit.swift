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
    /// The number of bytes of an entry, if all have the same; those of one suite do.
    private let stride: Int?

    package init(_ ciphertexts: [HPKECiphertext]) {
        var writer = TLSWriter(capacity: ciphertexts.count * 88)
        for ciphertext in ciphertexts { ciphertext.encode(into: &writer) }
        content = writer.bytes[...]
        count = ciphertexts.count
        stride = (try? Self.stride(content)) ?? nil  // what was just written can be read
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        var inner = try reader.vector()
        content = inner.rest()
        stride = try Self.stride(content)
        if let stride {
            count = content.count / stride
        } else {
            var entries = TLSReader(content)
            var count = 0
            while !entries.isAtEnd {
                try entries.skipOpaque()
                try entries.skipOpaque()
                count += 1
            }
            self.count = count
        }
    }

    /// The bytes of an entry when all entries have the lengths of the first, and nothing follows the last.
    private static func stride(_ content: ArraySlice<UInt8>) throws(MLSError) -> Int? {
        guard !content.isEmpty else { return nil }
        var first = TLSReader(content)
        let kemHeader = try first.skipOpaque()
        let sealed = first.offset
        let sealedHeader = try first.skipOpaque()
        let stride = first.offset
        guard content.count % stride == 0 else { return nil }
        let start = content.startIndex
        for entry in Swift.stride(from: start + stride, to: content.endIndex, by: stride) {
            for byte in 0..<kemHeader where content[entry + byte] != content[start + byte] { return nil }
            for byte in sealed..<sealed + sealedHeader where content[entry + byte] != content[start + byte] {
                return nil
            }
        }
        return stride
    }

    package func encode(into writer: inout TLSWriter) { writer.opaque(content) }

    /// The entry at `index`, which is below ``count``; O(index) if entries differ in their lengths.
    package subscript(index: Int) -> HPKECiphertext {
        get throws(MLSError) {
            if let stride {
                var reader = TLSReader(content.dropFirst(index * stride))
                return try HPKECiphertext(from: &reader)
            }
            var reader = TLSReader(content)
            for _ in 0..<index {
                try reader.skipOpaque()
                try reader.skipOpaque()
            }
            return try HPKECiphertext(from: &reader)
        }
    }
}
