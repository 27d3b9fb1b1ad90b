import KithCommandLine
import KithTerminal
import KithWire

/// Lines of a file as a terminal may show them: what it would obey stands there as `^[`, `\u{202e}` or `\x9b`, marked.
package struct VisibleText: Hashable, Sendable {
    /// A run of characters of one sort.
    package struct Span: Hashable, Sendable {
        package var text: String
        /// True when it stands for a character that cannot be shown as itself.
        package var isControl: Bool
    }

    /// The spans of a line's bytes; a tab goes to the next column that is a multiple of eight.
    package static func spans(_ bytes: some Collection<UInt8>) -> [Span] {
        var spans: [Span] = []
        var column = 0
        func add(_ text: String, isControl: Bool) {
            column += CharacterWidth.columns(of: text)
            if spans.last?.isControl == isControl {
                spans[spans.count - 1].text += text
            } else {
                spans.append(Span(text: text, isControl: isControl))
            }
        }
        var rest = Array(bytes)[...]
        while let first = rest.first {
            if first == 0x09 {
                add(String(repeating: " ", count: 8 - column % 8), isControl: false)
                rest = rest.dropFirst()
            } else if first < 0x20 || first == 0x7F {
                add("^" + String(UnicodeScalar(first ^ 0x40)), isControl: true)
                rest = rest.dropFirst()
            } else if first < 0x7F {
                let run = rest.prefix { (0x20..<0x7F).contains($0) }
                add(String(decoding: run, as: UTF8.self), isControl: false)
                rest = rest.dropFirst(run.count)
            } else if let (scalar, length) = scalar(rest) {
                // A joiner inside an emoji or a script that needs it moves nothing; the canvas leaves it out.
                let isShown = Wording.isPrintable(scalar)
                add(isShown ? String(scalar) : Wording.printable(String(scalar)), isControl: !isShown)
                rest = rest.dropFirst(length)
            } else {
                add("\\x" + Hex.encode(CollectionOfOne(first)), isControl: true)
                rest = rest.dropFirst()
            }
        }
        return spans
    }

    /// The character of UTF-8 at the beginning, and how many bytes it has.
    private static func scalar(_ bytes: ArraySlice<UInt8>) -> (Unicode.Scalar, Int)? {
        guard let first = bytes.first else { return nil }
        let length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
        guard let text = String(validating: bytes.prefix(length), as: UTF8.self),
            let scalar = text.unicodeScalars.first, text.unicodeScalars.count == 1
        else { return nil }
        return (scalar, length)
    }

    /// The spans folded into rows of `width` columns; at least one row.
    package static func rows(_ spans: [Span], width: Int) -> [[Span]] {
        let width = max(width, 2)
        var rows: [[Span]] = [[]]
        var column = 0
        for span in spans {
            var text = String.UnicodeScalarView()
            func finish() {
                if !text.isEmpty { rows[rows.count - 1].append(Span(text: String(text), isControl: span.isControl)) }
                text = String.UnicodeScalarView()
            }
            for scalar in span.text.unicodeScalars {
                let columns = CharacterWidth.columns(scalar)
                if column + columns > width {
                    finish()
                    rows.append([])
                    column = 0
                }
                text.append(scalar)
                column += columns
            }
            finish()
        }
        return rows
    }

    /// Tells whether bytes are better shown as numbers: they hold a NUL, or much that is not text.
    package static func isBinary(_ bytes: some Collection<UInt8>) -> Bool {
        let head = Array(bytes.prefix(8_192))
        if head.contains(0) { return true }
        let text = String(decoding: head, as: UTF8.self)
        let odd = text.unicodeScalars.count {
            $0 == "\u{FFFD}" || ($0.value < 0x20 && !"\n\r\t\u{1B}\u{8}\u{C}".unicodeScalars.contains($0))
        }
        return odd * 10 > head.count
    }

    /// A row of sixteen bytes, or eight, as numbers and characters.
    package static func dump(_ bytes: some Collection<UInt8>, at offset: Int, perRow: Int) -> [Span] {
        let address = String(offset, radix: 16)
        var numbers = ""
        for (index, byte) in bytes.enumerated() {
            numbers += (index % 8 == 0 ? "  " : " ") + Hex.encode(CollectionOfOne(byte))
        }
        let width = perRow * 3 + perRow / 8
        numbers += String(repeating: " ", count: max(0, width - numbers.count))
        let text = bytes.map { (0x20..<0x7F).contains($0) ? String(UnicodeScalar($0)) : "." }.joined()
        return [
            Span(text: String(repeating: "0", count: max(0, 8 - address.count)) + address, isControl: true),
            Span(text: numbers + "  " + text, isControl: false),
        ]
    }
}
