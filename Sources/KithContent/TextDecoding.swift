/// Tells text from other bytes, and its encoding.
enum TextDecoding {
    /// The text of bytes, which may be cut anywhere; `nil` when they are none.
    ///
    /// UTF-8, UTF-16 with a byte order mark, else Latin-1 of which nearly all is printable.
    ///
    /// With `isCut` there may be more: then the last character may lack its end.
    static func text(_ bytes: [UInt8], isCut: Bool = true) -> String? {
        if bytes.starts(with: [0xFF, 0xFE]), !bytes.starts(with: [0xFF, 0xFE, 0, 0]) {
            return utf16(bytes.dropFirst(2), isBig: false)
        }
        if bytes.starts(with: [0xFE, 0xFF]) { return utf16(bytes.dropFirst(2), isBig: true) }
        // A NUL stands in no text, and early in nearly all that is none.
        guard !bytes.contains(0) else { return nil }
        for cut in 0...(isCut ? 3 : 0) where cut <= bytes.count {
            if let text = String(validating: bytes.dropLast(cut), as: UTF8.self) { return controls(text) ? nil : text }
        }
        let text = latin1(bytes)
        return controls(text) ? nil : text
    }

    /// Each byte a character.
    static func latin1(_ bytes: some Sequence<UInt8>) -> String {
        String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    private static func utf16(_ bytes: ArraySlice<UInt8>, isBig: Bool) -> String? {
        var units: [UInt16] = []
        units.reserveCapacity(bytes.count / 2)
        var index = bytes.startIndex
        while index + 1 < bytes.endIndex {
            let (first, second) = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
            units.append(isBig ? first << 8 | second : second << 8 | first)
            index += 2
        }
        let text = String(decoding: units, as: UTF16.self)
        return controls(text) ? nil : text
    }

    /// True when more than a hundredth are control characters, as of what is no text.
    private static func controls(_ text: String) -> Bool {
        var (all, odd) = (0, 0)
        for scalar in text.unicodeScalars.prefix(65_536) {
            all += 1
            switch scalar.value {
            case 0x09...0x0D, 0x1B, 0x20...0x7E, 0xA0...: break
            default: odd += 1
            }
        }
        return odd * 100 > all
    }
}
