import Foundation
import KithWire

/// The forms of a name in which it is shown and in which names are compared.
package enum NameFolding {
    /// The text of a file's name, which may be any bytes: in normalization form C, with U+FFFD for what is not UTF-8.
    package static func display(_ bytes: some Collection<UInt8>) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        return isASCII(text.utf8) ? text : normalized(text)
    }

    /// The form in which texts are compared: normalization form C, every scalar in lower case.
    ///
    /// Two texts that are canonically equivalent, or differ only in case, have one form. The mapping is that of single
    /// scalars ("simple"): `ß` and `ss` stay two things.
    package static func folded(_ text: String) -> String {
        if isASCII(text.utf8) { return text.utf8.contains(where: isUpper) ? text.lowercased() : text }
        var lower = String.UnicodeScalarView()
        for scalar in normalized(text).unicodeScalars { lower.append(lowercase(scalar)) }
        // A few letters, such as ẖ, are one scalar in lower case only.
        return normalized(String(lower))
    }

    /// One scalar in lower case; those that would become several stay as they are.
    static func lowercase(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if scalar.isASCII {
            guard isUpper(UInt8(truncatingIfNeeded: scalar.value)) else { return scalar }
            return Unicode.Scalar(UInt8(truncatingIfNeeded: scalar.value) | 0x20)
        }
        let mapping = scalar.properties.lowercaseMapping.unicodeScalars
        return mapping.count == 1 ? mapping.first ?? scalar : scalar
    }

    /// One scalar in upper case; those that would become several stay as they are.
    static func uppercase(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        let mapping = scalar.properties.uppercaseMapping.unicodeScalars
        return mapping.count == 1 ? mapping.first ?? scalar : scalar
    }

    /// Normalization form C; a text with absurdly many marks on one letter is left as it is.
    static func normalized(_ text: String) -> String {
        guard !isASCII(text.utf8), !text.unicodeScalars.allSatisfy(isStable), text.hasFewMarks else { return text }
        return text.precomposedStringWithCanonicalMapping
    }

    /// Tells whether a scalar is in blocks none of which changes in form C, whatever of them is beside it.
    ///
    /// Latin, Cyrillic, kana, ideographs and Hangul syllables, all without the marks: most names.
    private static func isStable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case ..<0x300, 0x400...0x482, 0x3041...0x3096, 0x30A1...0x30FA, 0x3400...0x4DBF, 0x4E00...0x9FFF,
            0xAC00...0xD7A3:
            true
        default: false
        }
    }

    static func isASCII(_ bytes: some Sequence<UInt8>) -> Bool { bytes.allSatisfy { $0 < 0x80 } }

    static func isUpper(_ byte: UInt8) -> Bool { byte >= 0x41 && byte <= 0x5A }

    static func lowercase(_ byte: UInt8) -> UInt8 { isUpper(byte) ? byte | 0x20 : byte }
}

/// The folded text of a file's name, which may be any bytes: what an index holds and terms are compared with.
package func foldedName(_ bytes: [UInt8]) -> String { NameFolding.folded(NameFolding.display(bytes)) }
