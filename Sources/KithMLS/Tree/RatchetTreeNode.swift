/// A node as the `ratchet_tree` extension has it (RFC 9420 §12.4.3.3), kept as its bytes.
///
/// A group of 50,000 members has 100,000 nodes. As one array a node takes a third of the memory that it takes as a
/// structure of arrays, and it is ready to be hashed and stored; what is asked of it is read out of the bytes.
package struct RatchetTreeNode: Hashable, Sendable {
    /// The node's type, and then a `LeafNode` or a `ParentNode` that can be read.
    let bytes: [UInt8]

    private init(type: UInt8, _ content: some TLSCodable) {
        var writer = TLSWriter(capacity: 256)
        writer.integer(type)
        content.encode(into: &writer)
        // An array of its own, with no room to spare.
        bytes = Array(writer.bytes[...])
    }

    /// A member's node, whose credential is one that can be read (``Credential/checkReadable()``).
    package static func leaf(_ leaf: LeafNode) -> RatchetTreeNode { RatchetTreeNode(type: 1, leaf) }
    /// The node of a key above leaves.
    package static func parent(_ parent: ParentNode) -> RatchetTreeNode { RatchetTreeNode(type: 2, parent) }

    private init(_ bytes: [UInt8]) { self.bytes = bytes }
}

extension RatchetTreeNode: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        let start = reader.offset
        switch try reader.integer(as: UInt8.self) {
        case 1: _ = try LeafNode(from: &reader)
        case 2: _ = try ParentNode(from: &reader)
        default: throw .invalidNodeType
        }
        bytes = Array(reader.read(since: start))
    }

    package func encode(into writer: inout TLSWriter) { writer.fixed(bytes) }
}

// What is in the bytes.
extension RatchetTreeNode {
    /// True for a member's leaf.
    var isLeaf: Bool { bytes[0] == 1 }
    /// The bytes after the type.
    var content: ArraySlice<UInt8> { bytes[1...] }
    /// The member, if it is one's node.
    package var leaf: LeafNode? { isLeaf ? read { reader throws(MLSError) in try LeafNode(from: &reader) } : nil }
    /// The node of a key above leaves, if it is one.
    package var parent: ParentNode? {
        isLeaf ? nil : read { reader throws(MLSError) in try ParentNode(from: &reader) }
    }

    /// The key that others encrypt to.
    package var encryptionKey: HPKEPublicKey { read { reader throws(MLSError) in try reader.opaque() } }

    /// The key the member signs with; of a leaf.
    var signatureKey: SignaturePublicKey {
        read { reader throws(MLSError) in
            try reader.skipOpaque()
            return try reader.opaque()
        }
    }

    /// The member's credential; for leaves only.
    var credential: Credential {
        read { reader throws(MLSError) in
            try reader.skipOpaque()
            try reader.skipOpaque()
            return try Credential(from: &reader)
        }
    }

    /// The kind of the credential, and the bytes of what the member supports; of a leaf.
    var support: (credential: CredentialType, capabilities: ArraySlice<UInt8>) {
        read { reader throws(MLSError) in
            try reader.skipOpaque()
            try reader.skipOpaque()
            let type = try CredentialType(from: &reader)
            try reader.skipOpaque()
            let start = reader.offset
            for _ in 0..<5 { try reader.skipOpaque() }
            return (type, reader.read(since: start))
        }
    }

    /// The node's `parent_hash`, which a leaf has only when it came in a commit.
    var parentHash: [UInt8]? {
        read { reader throws(MLSError) in
            try reader.skipOpaque()
            guard isLeaf else { return try reader.opaque() }
            try reader.skipOpaque()
            _ = try CredentialType(from: &reader)
            // Every kind of credential is one vector, and what is supported are five.
            for _ in 0..<6 { try reader.skipOpaque() }
            return try reader.integer(as: UInt8.self) == 3 ? try reader.opaque() : nil
        }
    }

    /// The leaves below that do not hold the key, in rising order; of a node above leaves.
    var unmergedLeaves: LeafNumbers {
        read { reader throws(MLSError) in
            try reader.skipOpaque()
            try reader.skipOpaque()
            _ = try reader.length()
            return LeafNumbers(bytes: reader.rest())
        }
    }

    /// The same node above leaves with one more that does not hold its key.
    func adding(unmerged leaf: UInt32) -> RatchetTreeNode {
        let leaves = unmergedLeaves
        guard !leaves.containsSorted(leaf) else { return self }
        let offset = leaves.bytes.startIndex + 4 * leaves.lowerBound(leaf)
        let header = leaves.count < 16 ? 1 : leaves.count < 4_096 ? 2 : 4
        var writer = TLSWriter(capacity: bytes.count + 7)
        writer.fixed(bytes[..<(leaves.bytes.startIndex - header)])
        writer.length(leaves.bytes.count + 4)
        writer.fixed(bytes[leaves.bytes.startIndex..<offset])
        writer.integer(leaf)
        writer.fixed(bytes[offset...])
        return RatchetTreeNode(writer.bytes)
    }

    private func read<Value>(_ body: (inout TLSReader) throws(MLSError) -> Value) -> Value {
        var reader = TLSReader(content)
        do { return try body(&reader) } catch {
            preconditionFailure("a node's bytes were read, or written by this engine, before they became a node's")
        }
    }
}

/// Numbers of leaves, as the bytes they come in.
struct LeafNumbers: RandomAccessCollection, Sendable {
    let bytes: ArraySlice<UInt8>

    var startIndex: Int { 0 }
    var endIndex: Int { bytes.count / 4 }
    subscript(index: Int) -> UInt32 {
        let start = bytes.startIndex + 4 * index
        return bytes[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
}
