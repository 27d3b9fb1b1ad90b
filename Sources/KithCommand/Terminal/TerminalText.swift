import Foundation

/// Writes bytes that came from elsewhere to standard output: as they are, or on a terminal so that it obeys nothing.
///
/// A file may hold what moves the cursor, writes the clipboard or answers for the person at the keyboard. On a
/// terminal everything but line ends and tabs is therefore made visible (`^[`, `\u{202e}`) unless `raw` is wanted;
/// a pipe or a file gets the bytes themselves.
struct TerminalText: ~Copyable {
    private let isFiltered: Bool
    /// The beginning of a character that is still to come.
    private var pending: [UInt8] = []

    init(raw: Bool) { isFiltered = !raw && isatty(STDOUT_FILENO) == 1 }

    /// Writes some bytes.
    ///
    /// - Throws: `.exhausted` when they are for a disk that is full.
    mutating func write(_ bytes: some Collection<UInt8>) throws {
        guard isFiltered else { return try writeOutput(Data(bytes)) }
        pending += bytes
        let whole = Self.wholeLength(pending)
        let text = Self.visible(String(decoding: pending[..<whole], as: UTF8.self))
        pending.removeFirst(whole)
        try writeOutput(Data(text.utf8))
    }

    /// Writes what is left of a character that never came whole.
    mutating func finish() throws {
        guard !pending.isEmpty else { return }
        try writeOutput(Data(Self.visible(String(decoding: pending, as: UTF8.self)).utf8))
        pending = []
    }

    /// The length of the bytes that are whole characters of UTF-8, or none that could become one.
    static func wholeLength(_ bytes: [UInt8]) -> Int {
        for back in 1...3 where back <= bytes.count {
            let byte = bytes[bytes.count - back]
            if byte & 0xC0 == 0x80 { continue }
            let needed = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1
            return needed > back ? bytes.count - back : bytes.count
        }
        return bytes.count
    }

    /// The text with all that a terminal might obey made visible; line ends and tabs stay.
    static func visible(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n", "\t": result.append(scalar)
            case _ where scalar.value < 0x20:
                result.append("^")
                result.append(Unicode.Scalar(UInt8(scalar.value) + 0x40))
            case "\u{7F}": result.append(contentsOf: "^?".unicodeScalars)
            case _ where scalar.isASCII: result.append(scalar)
            default:
                // A joiner inside an emoji or a script that needs it moves nothing.
                let isJoiner = scalar == "\u{200D}" || scalar == "\u{200C}"
                if isJoiner {
                    result.append(scalar)
                } else {
                    result.append(contentsOf: printable(String(scalar)).unicodeScalars)
                }
            }
        }
        return String(result)
    }

    /// JSON as text, with all that a terminal might obey, or that turns text around, as `\uXXXX`: the same value.
    ///
    /// Line feeds stay: they stand between its parts, never within a string.
    static func visible(json: [UInt8]) -> String {
        var result = String.UnicodeScalarView()
        for scalar in String(decoding: json, as: UTF8.self).unicodeScalars {
            switch scalar.properties.generalCategory {
            case _ where scalar == "\n": result.append(scalar)
            case .control, .format, .lineSeparator, .paragraphSeparator:
                for unit in String(scalar).utf16 {
                    let hex = String(unit, radix: 16)
                    result.append(contentsOf: "\\u\(String(repeating: "0", count: 4 - hex.count))\(hex)".unicodeScalars)
                }
            default: result.append(scalar)
            }
        }
        return String(result)
    }
}
