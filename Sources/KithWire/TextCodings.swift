/// Bytes as hexadecimal digits, lower case.
public enum Hex {
    /// Two digits for every byte.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let bytes = Array(bytes)
        var digits = [UInt8](repeating: 0, count: bytes.count * 2)
        for (index, byte) in bytes.enumerated() {
            digits[index * 2] = digit(byte >> 4)
            digits[index * 2 + 1] = digit(byte & 15)
        }
        return String(decoding: digits, as: UTF8.self)
    }

    /// The bytes of an even number of digits, either case; `nil` for anything else.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = value(digits[index]), let low = value(digits[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 48 + value : 87 + value }

    /// The value of one digit in ASCII, either case; `nil` for anything else.
    package static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 48...57: digit - 48
        case 97...102: digit - 87
        case 65...70: digit - 55
        default: nil
        }
    }
}

/// Base32 (RFC 4648 §6), lower case, without padding.
public enum Base32 {
    /// Five bits a letter: `a`…`z`, `2`…`7`.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        BitText.encode(bytes, bits: 5) { $0 < 26 ? 97 + $0 : 24 + $0 }
    }

    /// The bytes a text stands for, either case; `nil` when it is not the one text of any bytes.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        BitText.decode(text.utf8, bits: 5) { letter in
            switch letter {
            case 97...122: letter - 97
            case 65...90: letter - 65
            case 50...55: letter - 24
            default: nil
            }
        }
    }
}

/// Base32 with the extended hex alphabet (RFC 4648 §7), lower case, without padding.
public enum Base32Hex {
    /// Five bits a letter: `0`…`9`, `a`…`v`.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        BitText.encode(bytes, bits: 5) { $0 < 10 ? 48 + $0 : 87 + $0 }
    }

    /// The bytes a text stands for, either case; `nil` when it is not the one text of any bytes.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        BitText.decode(text.utf8, bits: 5) { letter in
            switch letter {
            case 48...57: letter - 48
            case 97...118: letter - 87
            case 65...86: letter - 55
            default: nil
            }
        }
    }
}

/// Base64 (RFC 4648 §4 and §5).
public enum Base64 {
    /// Encodes in the common alphabet, with padding, as byte strings appear in JSON.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let text = BitText.encode(bytes, bits: 6) { letter($0, 43, 47) }
        return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    }

    /// The bytes of a text in the common alphabet, padded; `nil` when it is not the one text of any bytes.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let letters = Array(text.utf8)
        guard letters.count.isMultiple(of: 4) else { return nil }
        let padding = letters.reversed().prefix { $0 == 61 }.count
        guard padding <= 2 else { return nil }
        return BitText.decode(letters.dropLast(padding), bits: 6) { value($0, 43, 47) }
    }

    /// The alphabet for file names and links, without padding.
    public static func encodeURL(_ bytes: some Sequence<UInt8>) -> String {
        BitText.encode(bytes, bits: 6) { letter($0, 45, 95) }
    }

    /// The bytes of a text in the alphabet for file names and links; `nil` when it is not the one text of any bytes.
    public static func decodeURL(_ text: some StringProtocol) -> [UInt8]? {
        BitText.decode(text.utf8, bits: 6) { value($0, 45, 95) }
    }

    private static func letter(_ value: UInt8, _ letter62: UInt8, _ letter63: UInt8) -> UInt8 {
        switch value {
        case 0..<26: 65 + value
        case 26..<52: 71 + value
        case 52..<62: value - 4
        case 62: letter62
        default: letter63
        }
    }

    private static func value(_ letter: UInt8, _ letter62: UInt8, _ letter63: UInt8) -> UInt8? {
        switch letter {
        case 65...90: letter - 65
        case 97...122: letter - 71
        case 48...57: letter + 4
        case letter62: 62
        case letter63: 63
        default: nil
        }
    }
}

/// Bytes as letters of a few bits each, most significant first; the last letter is filled with zero bits.
private enum BitText {
    // Inlined, so that an alphabet is compiled into its loop.
    @inline(__always)
    static func encode(_ bytes: some Sequence<UInt8>, bits: Int, letter: (UInt8) -> UInt8) -> String {
        let bytes = Array(bytes)
        var letters = [UInt8](repeating: 0, count: (bytes.count * 8 + bits - 1) / bits)
        var written = 0
        var buffer: UInt32 = 0
        var count = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            count += 8
            while count >= bits {
                count -= bits
                letters[written] = letter(UInt8(truncatingIfNeeded: buffer >> count) & (1 << bits - 1))
                written += 1
            }
            buffer &= 1 << count - 1
        }
        if count > 0 {
            letters[written] = letter(UInt8(truncatingIfNeeded: buffer << (bits - count)) & (1 << bits - 1))
        }
        return String(decoding: letters, as: UTF8.self)
    }

    @inline(__always)
    static func decode(_ text: some Sequence<UInt8>, bits: Int, value: (UInt8) -> UInt8?) -> [UInt8]? {
        let letters = Array(text)
        var bytes = [UInt8](repeating: 0, count: letters.count * bits / 8)
        var written = 0
        var buffer: UInt32 = 0
        var count = 0
        for letter in letters {
            guard let value = value(letter) else { return nil }
            buffer = buffer << bits | UInt32(value)
            count += bits
            if count >= 8 {
                count -= 8
                bytes[written] = UInt8(truncatingIfNeeded: buffer >> count)
                written += 1
            }
            buffer &= 1 << count - 1
        }
        // What is left over are filling bits: fewer than a letter has, all zero, or two texts would mean the same.
        guard count < bits, buffer == 0 else { return nil }
        return bytes
    }
}
