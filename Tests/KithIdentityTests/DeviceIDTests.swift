import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite struct DeviceIDTests {
    private static let letters = Array("abcdefghijklmnopqrstuvwxyz234567")

    @Test func `the text form survives, in any case, with and without hyphens`() throws {
        var random = SeededRandom(seed: 1)
        for _ in 0..<200 {
            let id = try DeviceID(publicKey: random.bytes(32))
            let text = id.description
            #expect(text.count == 65)
            #expect(DeviceID(text) == id && DeviceID(text.uppercased()) == id)
            #expect(DeviceID(text.filter { $0 != "-" }) == id)
            #expect(DeviceID(text.replacing("-", with: " ")) == id)
            #expect(text.hasPrefix(id.short))
            #expect(try CBORDecoder().decode(DeviceID.self, from: CBOREncoder().encode(id)) == id)
        }
    }

    @Test func `every single wrong letter is noticed`() throws {
        var random = SeededRandom(seed: 2)
        for _ in 0..<12 {
            let right = Array(try DeviceID(publicKey: random.bytes(32)).description)
            for index in right.indices where right[index] != "-" {
                for letter in Self.letters where letter != right[index] {
                    var wrong = right
                    wrong[index] = letter
                    #expect(DeviceID(String(wrong)) == nil, "\(String(right)): \(letter) at \(index)")
                }
            }
        }
    }

    @Test func `every swap of two neighbours is noticed`() throws {
        var random = SeededRandom(seed: 3)
        for _ in 0..<300 {
            let right = Array(try DeviceID(publicKey: random.bytes(32)).description.filter { $0 != "-" })
            for index in 0..<right.count - 1 where right[index] != right[index + 1] {
                var wrong = right
                wrong.swapAt(index, index + 1)
                #expect(DeviceID(String(wrong)) == nil, "\(String(right)) at \(index)")
            }
        }
    }

    @Test(arguments: ["", "a", String(repeating: "a", count: 55), String(repeating: "a", count: 1_000), "é"])
    func `other texts are refused`(text: String) {
        #expect(DeviceID(text) == nil)
    }

    @Test func `a missing or an extra letter is noticed`() throws {
        let right = try key(1).id.description
        #expect(DeviceID(String(right.dropLast())) == nil)
        #expect(DeviceID(String(right.dropFirst())) == nil)
        #expect(DeviceID(right + "a") == nil)
        #expect(throws: KithError(.invalid, "")) { _ = try DeviceID(publicKey: [1, 2, 3]) }
    }

    @Test func `ids are ordered by their bytes`() throws {
        var random = SeededRandom(seed: 4)
        let keys = (0..<50).map { _ in random.bytes(32) }
        let byID = try keys.map { try DeviceID(publicKey: $0) }.sorted().map(\.bytes)
        #expect(byID == keys.sorted { $0.lexicographicallyPrecedes($1) })
    }
}

@Suite struct DeviceKeyTests {
    @Test func `it is Ed25519 as in RFC 8032 7 1`() throws {
        let seed = try #require(Hex.decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
        let signature = try #require(
            Hex.decode(
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd"
                    + "25bf5f0595bbe24655141438e7a100b"))
        let key = try DeviceKey(seed: seed)
        #expect(Hex.encode(key.id.bytes) == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
        #expect(key.id.isValid(signature: signature, for: []))
        // Apple's platforms sign with added randomness: only the check is compared there.
        #expect(key.id.isValid(signature: try key.signature(for: []), for: []))
        #expect(!key.id.isValid(signature: signature, for: [0]))
        #expect(!DeviceKey().id.isValid(signature: signature, for: []))
    }

    @Test func `two new keys differ, and a stored one is itself again`() throws {
        let key = DeviceKey()
        #expect(key.id != DeviceKey().id)
        #expect(try DeviceKey(seed: key.seed).id == key.id)
        #expect(throws: KithError(.invalid, "")) { _ = try DeviceKey(seed: [1]) }
    }

    @Test func `no secret is in what describes a key`() throws {
        let key = DeviceKey()
        var dumped = ""
        dump(key, to: &dumped)
        for text in [key.description, key.debugDescription, String(reflecting: key), "\(key)", dumped] {
            for secret in [Hex.encode(key.seed), Base64.encode(key.seed), Base32.encode(key.seed), "\(key.seed)"] {
                #expect(!text.contains(secret))
            }
        }
    }
}
