@testable import KithTerminal

/// The visible state of a terminal and what the next bytes can find out, in a form that two terminals can be compared
/// by.
struct TerminalState: Hashable {
    var rows: [[String]]
    var mainRows: [[String]]
    var wraps: [Bool]
    var scrollback: [[String]]
    var cursor: String
    var saved: [String]
    var modes: TerminalModes
    var margins: [Int]
    var tabStops: [Int]
    var titles: [String]
    var palette: [Int: [UInt8]]
    var keyboard: [[UInt16]]
    var rest: String

    init(_ terminal: Terminal, scrollbackLines: Int) {
        rows = terminal.screen.map { Self.cells($0, of: terminal) }
        mainRows = (terminal.mainScreen ?? []).map { Self.cells($0, of: terminal) }
        wraps = (terminal.screen + (terminal.mainScreen ?? [])).map(\.isWrapped)
        let first = max(0, terminal.scrollbackCount - scrollbackLines)
        scrollback = (first..<terminal.scrollbackCount).map {
            Self.cells(terminal.scrollbackRow($0), of: terminal)
                + [terminal.scrollbackRow($0).isWrapped ? "wrapped" : "ends"]
        }
        cursor = Self.text(terminal.cursor, of: terminal)
        saved = [
            Self.text(terminal.saved, of: terminal, on: terminal.screen),
            Self.text(terminal.mainSaved, of: terminal, on: terminal.mainScreen ?? []),
        ]
        modes = terminal.modes
        margins = [terminal.topMargin, terminal.bottomMargin, terminal.columns, terminal.rowCount]
        tabStops = terminal.tabStops.sorted()
        titles = (terminal.titleStack + [(terminal.title, terminal.iconName)]).flatMap {
            [String(decoding: $0.title, as: UTF8.self), String(decoding: $0.iconName, as: UTF8.self)]
        }
        palette = terminal.palette
        keyboard = [terminal.keyboard, terminal.isAlternate ? terminal.mainKeyboard : []]
        rest = "\(terminal.parser.pending) \(terminal.singleShift ?? -1)"
    }

    static func cells(_ row: Row, of terminal: Terminal) -> [String] {
        row.cells[..<row.usedCount].map { cell(cell: $0, of: terminal) }
    }

    static func cell(cell: Cell, of terminal: Terminal) -> String {
        let link = terminal.link(of: cell).map { "\($0)" } ?? ""
        return """
            \(cell.isErased ? "erased" : terminal.text(of: cell)) \(cell.foreground.code) \(cell.background.code) \
            \(cell.attributes.rawValue) \(terminal.underlineColor(of: cell).code) \(link)
            """
    }

    static func text(_ cursor: TerminalCursor, of terminal: Terminal, on rows: [Row]? = nil) -> String {
        var waits = cursor.wrapsNext
        // A saved cursor behind a character that is gone is not carried.
        if let rows, waits, rows[cursor.row][cursor.column].isErased { waits = false }
        return """
            \(cursor.row) \(cursor.column) \(waits) \(cell(cell: cursor.style, of: terminal)) \(cursor.charsets) \
            \(cursor.charset) \(cursor.isOriginRelative)
            """
    }

    /// Says where two states differ, in a few lines.
    func difference(from other: TerminalState) -> String {
        var lines: [String] = []
        func compare<Value: Equatable>(_ name: String, _ path: KeyPath<TerminalState, Value>) {
            if self[keyPath: path] != other[keyPath: path] {
                lines.append("\(name): \(self[keyPath: path]) but \(other[keyPath: path])")
            }
        }
        func compareRows(_ name: String, _ path: KeyPath<TerminalState, [[String]]>) {
            let (mine, theirs) = (self[keyPath: path], other[keyPath: path])
            if mine.count != theirs.count { lines.append("\(name): \(mine.count) rows but \(theirs.count)") }
            for (index, (left, right)) in zip(mine, theirs).enumerated() where left != right {
                let column = zip(left, right).enumerated().first { $0.element.0 != $0.element.1 }
                lines.append(
                    "\(name) \(index): \(left.count) cells but \(right.count); \(column.map { "\($0)" } ?? "")")
            }
        }
        compareRows("row", \.rows)
        compareRows("main row", \.mainRows)
        compareRows("scrollback", \.scrollback)
        compare("wraps", \.wraps)
        compare("cursor", \.cursor)
        compare("saved", \.saved)
        compare("modes", \.modes)
        compare("margins", \.margins)
        compare("tab stops", \.tabStops)
        compare("titles", \.titles)
        compare("palette", \.palette)
        compare("keyboard", \.keyboard)
        compare("rest", \.rest)
        return lines.prefix(6).joined(separator: "\n")
    }
}
