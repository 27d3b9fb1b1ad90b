@testable import KithMLS
import Testing

/// The bytes that a tree keeps stand for the same structures they were made of.
@Suite struct CompactTreeTests {
    private func leaf(_ credential: Credential, _ source: LeafNode.Source, _ kinds: [ExtensionType]) -> LeafNode {
        LeafNode(
            encryptionKey: randomBytes(65), signatureKey: randomBytes(32), credential: credential,
            capabilities: Capabilities(
                extensions: kinds, credentials: [.basic, .x509, CredentialType(rawValue: 0xF00D)]),
            source: source, extensions: kinds.map { Extension(type: $0, data: randomBytes(70)) },
            signature: randomBytes(64))
    }

    private let credentials: [Credential] = [
        .basic(identity: []), .basic(identity: randomBytes(200)), .x509(certificates: []),
        .x509(certificates: [randomBytes(900), randomBytes(3)]), .other(CredentialType(rawValue: 0xF00D), [1, 2]),
    ]
    private let sources: [LeafNode.Source] = [
        .keyPackage(lifetime()), .update, .commit(parentHash: []), .commit(parentHash: randomBytes(64)),
    ]

    @Test func `a leaf's bytes give back the leaf and every part of it`() throws {
        for credential in credentials {
            for source in sources {
                for kinds in [[], [ExtensionType(rawValue: 0xF00D), ExtensionType(rawValue: 0xF00E)]] {
                    let leaf = leaf(credential, source, kinds)
                    let node = RatchetTreeNode.leaf(leaf)
                    #expect(try RatchetTreeNode(decoding: node.encoded) == node)
                    #expect(node.leaf == leaf)
                    #expect(node.parent == nil)
                    #expect(Array(node.content) == leaf.encoded)
                    #expect(node.encryptionKey == leaf.encryptionKey)
                    #expect(node.signatureKey == leaf.signatureKey)
                    #expect(node.credential == credential)
                    #expect(node.support.credential == credential.type)
                    #expect(Array(node.support.capabilities) == leaf.capabilities.encoded)
                    if case .commit(let hash) = source {
                        #expect(node.parentHash == hash)
                    } else {
                        #expect(node.parentHash == nil)
                    }
                }
            }
        }
    }

    @Test func `unmerged leaves come to a parent's bytes in their order, wherever lengths take more room`() {
        var parent = ParentNode(encryptionKey: randomBytes(32), parentHash: randomBytes(48), unmergedLeaves: [])
        var node = RatchetTreeNode.parent(parent)
        var chance = Chance(state: 5)
        var members: Set<UInt32> = []
        while members.count < 4_200 {
            let leaf = UInt32.random(in: 0..<9_000, using: &chance)
            node = node.adding(unmerged: leaf)
            members.insert(leaf)
            guard [1, 2, 15, 16, 17, 63, 64, 4_095, 4_096, 4_097, 4_200].contains(members.count) else { continue }
            parent.unmergedLeaves = members.sorted()
            #expect(node == .parent(parent))
            #expect(node.parent == parent)
            #expect(Array(node.unmergedLeaves) == parent.unmergedLeaves)
            #expect(node.encryptionKey == parent.encryptionKey)
            #expect(node.parentHash == parent.parentHash)
        }
    }

    @Test func `a set of keys answers as the plain one does, and its copies go their own ways`() {
        var chance = Chance(state: 7)
        let keys = (0..<3_000).map { _ in (0..<4).map { _ in UInt8.random(in: 0...255, using: &chance) } }
        var set = KeySet()
        var plain: Set<[UInt8]> = []
        var copies: [(KeySet, Set<[UInt8]>)] = []
        for step in 0..<20_000 {
            if step % 2_500 == 0 { copies.append((set, plain)) }
            let key = keys[Int.random(in: 0..<keys.count, using: &chance)]
            // First it grows, then it empties.
            if Int.random(in: 0..<20_000, using: &chance) > step {
                #expect(set.insert(key) == plain.insert(key).inserted)
            } else {
                #expect(set.remove(key) == (plain.remove(key) != nil))
            }
            #expect(set.count == plain.count)
        }
        copies.append((set, plain))
        for (set, plain) in copies {
            #expect(set.count == plain.count)
            for key in keys { #expect(set.contains(key) == plain.contains(key)) }
        }
    }

    @Test func `ciphertexts of one length and of many are found by their place`() throws {
        func ciphertext(_ kem: Int, _ sealed: Int) -> HPKECiphertext {
            HPKECiphertext(kemOutput: randomBytes(kem), ciphertext: randomBytes(sealed))
        }
        let lists: [[HPKECiphertext]] = [
            [], [ciphertext(0, 0)], (0..<40).map { _ in ciphertext(32, 48) }, (0..<40).map { _ in ciphertext(65, 48) },
            (0..<9).map { _ in ciphertext(1_120, 64) },
            // As long together as the others, and not the same.
            [ciphertext(32, 48), ciphertext(31, 49), ciphertext(32, 48)],
            [ciphertext(32, 48), ciphertext(32, 47), ciphertext(32, 49)],
            (0..<40).map { ciphertext($0, 80 - $0) },
        ]
        for list in lists {
            let made = HPKECiphertexts(list)
            let read = try HPKECiphertexts(decoding: made.encoded)
            #expect(read == made)
            #expect(read.count == list.count)
            for (index, ciphertext) in list.enumerated() {
                #expect(try read[index] == ciphertext)
                #expect(try made[index] == ciphertext)
            }
        }
        var cut = HPKECiphertexts(lists[2]).encoded
        cut.removeLast()
        #expect(throws: MLSError.truncated) { try HPKECiphertexts(decoding: cut) }
    }

    @Test func `a credential that says to be of a known kind and cannot be read makes no group`() {
        let suite = cipherSuite()
        for type in [CredentialType.basic, .x509] {
            var profile = profile("anna")
            profile.credential = .other(type, [7])
            // A chain of one certificate that says to have seven bytes.
            let isReadable = type == .basic
            #expect(
                isReadable
                    == ((try? Group(
                        suite, profile: profile, signatureKey: suite.generateSignatureKey(), lifetime: lifetime(),
                        configuration: configuration()
                    ).epoch) != nil))
        }
    }

    @Test func `members that support the same share what the tree knows of it`() throws {
        var tree = RatchetTree(leaf(.basic(identity: [0]), .update, []))
        for number in 1..<40 as Range<UInt8> { _ = try tree.add(leaf(.basic(identity: [number]), .update, [])) }
        for tree in [tree, try RatchetTree(tree.bytes)] {
            let traits = try (0..<40).map { try present(tree.leafContent($0)).traits }
            #expect(traits.allSatisfy { $0 === traits[0] })
            #expect(tree.traits === traits[0])
        }
    }

    @Test func `a tree without members has one leaf, and the next is the first`() throws {
        let members = try party(["anna", "ben"])
        var tree = members[0].with { $0.tree }
        let ben = try #require(tree.leaf(1))
        try tree.remove(0)
        #expect(tree.leafCapacity == 2)
        try tree.remove(1)
        #expect(tree.leafCapacity == 1 && tree.memberCount == 0)
        #expect(try tree.add(ben) == 0)
        #expect(tree.leafCapacity == 1)
        #expect(tree.hash(cipherSuite()) == RatchetTree(ben).hash(cipherSuite()))
    }
}
