import KithMLS

/// Everything of MLS that comes from other devices: what decodes encodes to the same bytes, and nothing traps.
enum FuzzedMLS {
    /// Takes the bytes for everything that has a decoder.
    static func run(_ bytes: [UInt8]) {
        message(bytes)
        check(RatchetTreeNodes.self, bytes)
        tree(bytes)
        check(Commit.self, bytes)
        check(AuthenticatedContent.self, bytes)
        check(Proposal.self, bytes)
        check(SenderData.self, bytes)
        secrets(bytes)
        // What lies in storage, where somebody may have been at it.
        check(QueuedProposal.self, bytes)
        check(ApplicationMessage.self, bytes)
        check(EpochChange.self, bytes)
    }

    private static func check<Value: TLSCodable>(_ type: Value.Type, _ bytes: [UInt8]) {
        // A refusal is an answer.
        guard let value = try? Value(decoding: bytes) else { return }
        precondition(value.encoded == bytes, "What decodes has one encoding")
    }

    private static func message(_ bytes: [UInt8]) {
        guard let message = try? MLSMessage(bytes) else { return }  // see above
        precondition(message.bytes == bytes, "What decodes has one encoding")
        guard let suite = CipherSuites[id: .MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519] else { return }
        switch message {
        case .keyPackage(let package):
            _ = package.reference(suite)
        case .publicMessage(let message):
            guard case .commit(let commit) = message.authenticated.content.content, let path = commit.path else {
                return
            }
            for node in path.nodes {
                for index in 0..<min(4, node.encryptedPathSecret.count) {
                    let entry = try? node.encryptedPathSecret[index]
                    precondition(entry != nil, "A list that was counted can be read")
                }
            }
        default: break
        }
    }

    private static func secrets(_ bytes: [UInt8]) {
        guard let secrets = try? GroupSecrets(Secret(copying: bytes)) else { return }  // see above
        precondition(secrets.encode() == bytes, "What decodes has one encoding")
    }

    private static func tree(_ bytes: [UInt8]) {
        guard let tree = try? RatchetTree(bytes) else { return }  // see above
        precondition(tree.bytes == bytes, "A tree has one encoding")
        guard let suite = CipherSuites[id: .MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519] else { return }
        _ = tree.hash(suite)
        _ = tree.members.count
        let nodes = TreeMath.nodeCount(leaves: tree.leafCapacity)
        for node in 0..<min(nodes, 64) { precondition(tree.resolution(node).count <= nodes, "No node stands twice") }
        do { try tree.checkParentHashes(suite) } catch {}  // an answer
    }
}
