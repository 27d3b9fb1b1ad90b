import Foundation
import KithTerminal

/// Rows under headings, in columns two spaces apart; the last column is not padded.
///
/// On a terminal that is too narrow the widest columns are cut, paths at their beginning. Elsewhere all is whole.
func table(
    _ headings: [String], _ rows: [[String]],
    width: Int? = isatty(STDOUT_FILENO) == 1 ? terminalColumns(STDOUT_FILENO) : nil
) -> String {
    let cells = rows.map { row in row.map { TableCell($0) } }
    var widths = headings.indices.map { column in
        cells.reduce(CharacterWidth.columns(of: headings[column])) { max($0, $1[column].width) }
    }
    if let width { narrow(&widths, to: width) }
    let lines = ([headings.map { TableCell($0) }] + cells).enumerated().map { number, row in
        let line = row.enumerated().map { column, cell in
            cell.fitted(to: widths[column], isPadded: column < row.count - 1)
        }.joined(separator: "  ")
        return number == 0 ? styled(line, .dim) : line
    }
    return lines.joined(separator: "\n")
}

/// The least columns that one is cut to.
private let narrowest = 8

/// Takes from the widest columns until all fit, or none can be narrower.
private func narrow(_ widths: inout [Int], to width: Int) {
    var excess = widths.reduce(2 * (widths.count - 1), +) - width
    while excess > 0, let widest = widths.max(), widest > narrowest, let column = widths.lastIndex(of: widest) {
        // Down to the next widest at once.
        let next = widths.filter { $0 < widest }.max() ?? narrowest
        let taken = min(excess, max(widest - max(next, narrowest), 1))
        widths[column] -= taken
        excess -= taken
    }
}

/// A cell, whose style takes no room.
private struct TableCell {
    private let opening: String
    private let text: String
    private let closing: String

    init(_ cell: String) {
        let reset = "\u{1B}[0m"
        guard cell.hasPrefix("\u{1B}["), cell.hasSuffix(reset), let end = cell.firstIndex(of: "m") else {
            (opening, text, closing) = ("", cell, "")
            return
        }
        opening = String(cell[...end])
        text = String(cell[cell.index(after: end)...].dropLast(reset.count))
        closing = reset
    }

    var width: Int { CharacterWidth.columns(of: text) }

    func fitted(to width: Int, isPadded: Bool) -> String {
        let shown = CharacterWidth.fitted(text, width: width, keepsEnd: text.hasPrefix("/"))
        let padding = isPadded ? max(width - CharacterWidth.columns(of: shown), 0) : 0
        return opening + shown + closing + String(repeating: " ", count: padding)
    }
}
