import KithWire

/// z-base-32, in which keys stand in the addresses of records: five bits a letter, as in base32, by other letters.
public enum ZBase32 {
    private static let letters = Array("ybndrfg8ejkmcpqxot1uwisza345h769".utf8)
    /// The letters of base32 in the same order.
    private static let plain = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    private static let toLetter = Dictionary(uniqueKeysWithValues: zip(plain, letters))
    private static let toPlain = Dictionary(uniqueKeysWithValues: zip(letters, plain))

    /// The letters of `bytes`, lower case.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let text = Base32.encode(bytes).utf8.map { toLetter[$0] ?? $0 }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes that a text stands for, either case; `nil` when it is not the one text of any bytes.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var folded: [UInt8] = []
        for letter in text.utf8 {
            guard let plain = toPlain[(65...90).contains(letter) ? letter | 0x20 : letter] else { return nil }
            folded.append(plain)
        }
        return Base32.decode(String(decoding: folded, as: UTF8.self))
    }
}
