public import KithWire

/// The identity of a device: its Ed25519 public key, 32 bytes.
///
/// As text: 52 letters of base32 (RFC 4648, lower case) for the key and 3 for a check, in groups of five parted by
/// hyphens: `abcde-fghij-…`. Hyphens, spaces and case do not matter when it is read. The check is the remainder of
/// the letters, as digits, under a code that catches every single wrong letter and every swap of two neighbours.
public struct DeviceID: Hashable, Sendable {
    /// The public key as four big-endian words.
    package let words: (UInt64, UInt64, UInt64, UInt64)

    /// Takes the 32 bytes of a public key.
    ///
    /// - Throws: `KithError` `.invalid` for another count.
    public init(publicKey bytes: [UInt8]) throws(KithError) {
        guard bytes.count == 32 else {
            throw KithError(.invalid, "A device's key has 32 bytes, not \(bytes.count).")
        }
        func word(_ index: Int) -> UInt64 { bytes[8 * index..<8 * index + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        words = (word(0), word(1), word(2), word(3))
    }

    /// Takes the public key as four big-endian words.
    package init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

    /// The public key, 32 bytes.
    public var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * $0)) }
        }
    }

    /// The first ten letters: enough to tell one's own devices apart, never to trust one.
    public var short: String { String(description.prefix(11)) }

    /// Returns true when both are the same.
    public static func == (left: DeviceID, right: DeviceID) -> Bool { left.words == right.words }

    /// Feeds what makes it itself to a hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
}

extension DeviceID: Comparable {
    /// Orders by the bytes of the keys.
    public static func < (left: DeviceID, right: DeviceID) -> Bool { left.words < right.words }
}

extension DeviceID: LosslessStringConvertible {
    /// The text form.
    public var description: String {
        let letters = Base32.encode(bytes)
        let all = Array(letters + Self.check(letters))
        return stride(from: 0, to: all.count, by: 5).map { String(all[$0..<min($0 + 5, all.count)]) }
            .joined(separator: "-")
    }

    /// Reads the text form; `nil` when it is not one, or when its check is wrong.
    public init?(_ description: String) {
        guard description.utf8.count <= 128 else { return nil }
        let letters = description.lowercased().filter { $0 != "-" && $0 != " " }
        guard letters.utf8.count == 55, let bytes = Base32.decode(letters.prefix(52)), bytes.count == 32,
            Self.check(String(letters.prefix(52))) == letters.suffix(3), let id = try? DeviceID(publicKey: bytes)
        else { return nil }
        self = id
    }

    /// Three letters: the digits as a polynomial modulo the prime 32,749, to base 1,021.
    ///
    /// A wrong digit changes the sum by d·1021ᵏ, a swap of neighbours by d·1021ᵏ·1020, with 0 < |d| < 32: neither is
    /// a multiple of the prime.
    private static func check(_ letters: String) -> String {
        var sum = 1
        for letter in letters.utf8 {
            let digit = letter >= 97 ? Int(letter) - 97 : Int(letter) - 24
            sum = (sum * 1_021 + digit) % 32_749
        }
        let digits: [Int] = [sum >> 10 & 31, sum >> 5 & 31, sum & 31]
        let letters = digits.map { digit in UInt8(digit < 26 ? 97 + digit : 24 + digit) }
        return String(decoding: letters, as: UTF8.self)
    }
}

extension DeviceID: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let id = DeviceID(text) else {
            throw KithError(.invalid, "That is not a DeviceID, or a letter is wrong.")
        }
        self = id
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
