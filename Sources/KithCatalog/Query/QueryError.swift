/// A fault in the text of a query.
package struct QueryError: Error, Hashable, Sendable {
    /// The kind of a fault.
    package enum Code: String, Hashable, Sendable, Codable, CaseIterable {
        /// The text has too many bytes.
        case tooLong
        /// Groups and negations are nested too deeply.
        case tooDeep
        /// There are too many words and filters.
        case tooManyTerms
        /// A quotation mark has no partner.
        case unpairedQuote
        /// A parenthesis has no partner.
        case unpairedParenthesis
        /// There is nothing between two parentheses.
        case emptyGroup
        /// The name before a colon is nearly that of a filter.
        case unknownField
        /// A filter has no value.
        case missingValue
        /// A filter cannot have that value.
        case invalidValue
        /// A regular expression cannot be read, or is too large.
        case invalidExpression
        /// An order stands where only a condition can.
        case misplacedSort
    }

    /// The kind of the fault.
    package let code: Code
    /// One sentence for a person, sometimes with another that says what to do.
    package let message: String
    /// Where the fault is: offsets into the UTF-8 of the text.
    package let range: Range<Int>

    /// Makes an error.
    package init(_ code: Code, _ message: String, at range: Range<Int>) {
        self.code = code
        self.message = message
        self.range = range
    }

    /// The line of the text that is at fault, and under it a line of carets that point at the fault.
    ///
    /// Of a long text it is what is about the fault. Characters that a terminal obeys are shown as spaces.
    package func shown(in text: String) -> String {
        let width = 76
        let start = text.utf8.index(text.startIndex, offsetBy: range.lowerBound, limitedBy: text.endIndex)
        let end = text.utf8.index(text.startIndex, offsetBy: range.upperBound, limitedBy: text.endIndex)
        let (from, to) = (start ?? text.endIndex, end ?? text.endIndex)
        // Enough on both sides; a text may be of any length.
        let before = Self.cells(text.unicodeScalars[..<from].suffix(width * 4))
        let fault = Self.cells(text.unicodeScalars[from..<max(from, to)].prefix(width * 4))
        let after = Self.cells(text.unicodeScalars[max(from, to)...].prefix(width * 4))

        let marked = Array(fault.prefix(width / 2))
        var left = before
        var right = marked + after.prefix(width)
        if left.count + right.count > width {
            let room = max(width - right.count, width / 4)
            if left.count > room { left = [Cell("…", 1)] + left.suffix(room - 1) }
            if left.count + right.count > width {
                right = Array(right.prefix(width - left.count - 1)) + [Cell("…", 1)]
            }
        }
        let indent = left.reduce(0) { $0 + $1.columns }
        let carets = max(1, marked.reduce(0) { $0 + $1.columns })
        return (left + right).map(\.text).joined() + "\n" + String(repeating: " ", count: indent)
            + String(repeating: "^", count: carets)
    }

    /// A character and the columns it takes on a terminal.
    private struct Cell {
        var text: String
        var columns: Int

        init(_ text: String, _ columns: Int) {
            self.text = text
            self.columns = columns
        }
    }

    private static func cells(_ scalars: some Sequence<Unicode.Scalar>) -> [Cell] {
        var cells: [Cell] = []
        for scalar in scalars {
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark:
                if cells.isEmpty { continue }
                cells[cells.count - 1].text.unicodeScalars.append(scalar)
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                cells.append(Cell(" ", 1))
            default: cells.append(Cell(String(scalar), isWide(scalar) ? 2 : 1))
            }
        }
        return cells
    }

    /// Tells whether a scalar takes two columns: the blocks of East Asian wide characters and of pictures.
    private static func isWide(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1FAFF,
            0x20000...0x3FFFD:
            true
        default: false
        }
    }
}
