import KithTesting
import KithWire
import Testing

@Suite struct TextCodingTests {
    // RFC 4648 §10, the base32 ones in lower case and without padding.
    @Test(arguments: [
        ("", "", "", ""), ("f", "Zg==", "my", "66"), ("fo", "Zm8=", "mzxq", "666f"), ("foo", "Zm9v", "mzxw6", "666f6f"),
        ("foob", "Zm9vYg==", "mzxw6yq", "666f6f62"), ("fooba", "Zm9vYmE=", "mzxw6ytb", "666f6f6261"),
        ("foobar", "Zm9vYmFy", "mzxw6ytboi", "666f6f626172"),
    ])
    func `the vectors of RFC 4648 hold`(text: String, base64: String, base32: String, hex: String) {
        let bytes = Array(text.utf8)
        #expect(Base64.encode(bytes) == base64 && Base64.decode(base64) == bytes)
        #expect(Base32.encode(bytes) == base32 && Base32.decode(base32) == bytes)
        #expect(Base32.decode(base32.uppercased()) == bytes)
        #expect(Hex.encode(bytes) == hex && Hex.decode(hex) == bytes && Hex.decode(hex.uppercased()) == bytes)
        let bare = base64.filter { $0 != "=" }
        #expect(Base64.encodeURL(bytes) == bare && Base64.decodeURL(bare) == bytes)
    }

    @Test func `only one text stands for any bytes`() {
        for text in ["Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm-_"] {
            #expect(Base64.decode(text) == nil, "\(text)")
        }
        for text in ["m", "mz1", "mz", "mzxw6=", "mzx", "mzxw6y"] { #expect(Base32.decode(text) == nil, "\(text)") }
        for text in ["0", "0g", "é"] { #expect(Hex.decode(text) == nil, "\(text)") }
        for text in ["Z", "Zg==", "Zh", "+/"] { #expect(Base64.decodeURL(text) == nil, "\(text)") }
        #expect(Base64.encodeURL([0xFB, 0xFF]) == "-_8")
    }

    @Test func `random bytes survive every text`() {
        var random = SeededRandom(seed: 4_648)
        for count in 0..<200 {
            let bytes = random.bytes(count)
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Base64.decodeURL(Base64.encodeURL(bytes)) == bytes)
            #expect(Base32.decode(Base32.encode(bytes)) == bytes)
            #expect(Hex.decode(Hex.encode(bytes)) == bytes)
        }
    }
}
