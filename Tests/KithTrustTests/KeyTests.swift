import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithTrust

@Suite struct `Keys of people` {
    @Test(arguments: KeyVector.all)
    func `are derived as two other implementations derive them`(vector: KeyVector) throws {
        let root = try RootKey(scalar: #require(Hex.decode(vector.root)))
        #expect(root.id.description == vector.rootID)
        for derived in vector.derived {
            let key = try KeyDerivation.agreementKey(info: derived.info) {
                KeyDerivation.bytes(from: root.secret, info: $0)
            }
            #expect(Hex.encode(key.scalar) == derived.scalar)
            #expect(key.publicKey.id.description == derived.id)
        }
        let byInfo = Dictionary(uniqueKeysWithValues: vector.derived.map { ($0.info, $0.id) })
        #expect(try root.agreementKey().publicKey.id.description == byInfo["runar-v1:user-root:agreement"])
        for label in ["personal", "work", "Büro"] {
            let id = try root.profileKey(KeyLabel(label)).publicKey.id.description
            #expect(id == byInfo["runar-v1:profile:agreement:\(label)"])
        }
    }

    @Test func `are drawn again, with a number, where the bytes are no private key`() throws {
        let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"
        let tooLarge = try #require(Hex.decode(order))
        let good = [UInt8](repeating: 0, count: 31) + [7]
        let drawn: [String: [UInt8]] = ["a": [UInt8](repeating: 0, count: 32), "a:1": tooLarge, "a:2": good]
        let key = try KeyDerivation.agreementKey(info: "a") { drawn[$0] ?? [] }
        #expect(key.scalar == good)
        #expect(throws: KithError(.internal, "")) { try KeyDerivation.agreementKey(info: "a") { _ in tooLarge } }
    }

    @Test(arguments: ["", "a:1", ":", "a\nb", String(repeating: "ü", count: 33)])
    func `have no label that could be another's`(label: String) {
        #expect(throws: KithError(.invalid, "")) { try KeyLabel(label) }
    }

    @Test func `are the same however their label was typed`() throws {
        let (composed, decomposed) = ("B\u{FC}ro", "Bu\u{308}ro")
        #expect(Array(composed.utf8) != Array(decomposed.utf8))
        #expect(try Array(KeyLabel(decomposed).text.utf8) == Array(composed.utf8))
    }

    @Test(arguments: [
        [], [UInt8](repeating: 0, count: 32), [UInt8](repeating: 0xFF, count: 32), [UInt8](repeating: 1, count: 31),
    ])
    func `are not made of other bytes`(bytes: [UInt8]) {
        #expect(throws: KithError(.invalid, "")) { try AgreementKey(scalar: bytes) }
        #expect(throws: KithError(.invalid, "")) { try RootKey(scalar: bytes) }
    }

    @Test func `show no secret`() throws {
        let root = RootKey()
        let network = NetworkKey(named: try KeyLabel("home"))
        let (secret, other) = (Hex.encode(root.scalar), Hex.encode(network.key.scalar))
        for text in ["\(root)", String(reflecting: root), "\(network)", String(reflecting: network), "\(network.key)"] {
            #expect(!text.contains(secret) && !text.contains(other))
            #expect(text.contains("key"))
        }
        var shown = ""
        dump(root, to: &shown)
        dump(network, to: &shown)
        #expect(!shown.contains(secret) && !shown.contains(other))
    }

    @Test func `have names that are read back`() throws {
        let id = RootKey().id
        #expect(KeyID(id.description) == id)
        #expect(KeyID(id.description.uppercased()) == id)
        for text in [
            "", "v", String(id.description.dropLast()), id.description + "0", String(repeating: "w", count: 26),
        ] {
            #expect(KeyID(text) == nil)
        }
        let encoded = try JSONEncoder().encode([id])
        #expect(String(decoding: encoded, as: UTF8.self) == "[\"\(id)\"]")
        #expect(try JSONDecoder().decode([KeyID].self, from: encoded) == [id])
        #expect(throws: (any Error).self) { try JSONDecoder().decode([KeyID].self, from: Data("[\"x\"]".utf8)) }
    }
}

@Suite struct `What is encrypted to a key` {
    private let key = AgreementKey()
    private let text = Array("the 3rd of May".utf8)
    private let context = Array("diary".utf8)

    @Test func `is read by its holder, and never looks the same`() throws {
        let sealed = try key.publicKey.seal(text, authenticating: context)
        #expect(sealed.count == text.count + 94)
        #expect(try key.open(sealed, authenticating: context) == text)
        #expect(try key.publicKey.seal(text, authenticating: context) != sealed)
        #expect(try key.open(key.publicKey.seal([], authenticating: []), authenticating: []) == [])
        // The key as it is stored.
        let stored = try AgreementKey(scalar: key.scalar)
        #expect(stored.publicKey == key.publicKey)
        #expect(try stored.open(sealed, authenticating: context) == text)
    }

    @Test func `is read by no other key, in no other context, and not with any bit changed`() throws {
        let sealed = try key.publicKey.seal(text, authenticating: context)
        #expect(throws: KithError(.denied, "")) { try AgreementKey().open(sealed, authenticating: context) }
        #expect(throws: KithError(.denied, "")) { try key.open(sealed, authenticating: Array("diarY".utf8)) }
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 1 << UInt8(index % 8)
            #expect(throws: KithError.self) { try key.open(changed, authenticating: context) }
        }
        for count in 0..<sealed.count {
            #expect(throws: KithError.self) { try key.open(Array(sealed.prefix(count)), authenticating: context) }
        }
        #expect(throws: KithError.self) { try key.open(sealed + [0], authenticating: context) }
    }

    @Test func `goes to points of the curve alone`() throws {
        let bytes = key.publicKey.bytes
        #expect(try AgreementPublicKey(bytes) == key.publicKey)
        var off = bytes
        off[64] ^= 1
        let compressed = [2 + (bytes[64] & 1)] + bytes[1..<33]
        for wrong in [off, [], [0], Array(compressed), bytes + [0], [UInt8](repeating: 0, count: 65)] {
            #expect(throws: KithError(.invalid, "")) { try AgreementPublicKey(wrong) }
        }
        let encoded = try CBOREncoder().encode(key.publicKey)
        #expect(try CBORDecoder().decode(AgreementPublicKey.self, from: encoded) == key.publicKey)
        #expect(throws: (any Error).self) {
            try CBORDecoder().decode(AgreementPublicKey.self, from: CBOREncoder().encode(ByteString(off)))
        }
    }
}
