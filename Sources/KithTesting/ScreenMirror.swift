public import KithAPI
package import KithTerminal

/// A viewer of `shell.screen`: does what updates say, as a page would, and can be compared with the terminal they are of.
public struct ScreenMirror: Sendable {
    /// An update that cannot be done.
    public struct Violation: Error, CustomStringConvertible {
        /// What is wrong with it.
        public var description: String
    }

    /// A row or a line: what stands in it, and the style of each column.
    public struct Line: Hashable, Sendable {
        /// The text of all columns.
        public var text = ""
        /// The style of each column, without its number.
        public var styles: [Shell.Screen.Style] = []
        /// The text goes on in the next row.
        public var wraps = false
    }

    /// The rows of the screen.
    public private(set) var rows: [Line] = []
    /// The number of columns.
    public private(set) var columns = 0
    /// The cursor.
    public private(set) var cursor: Shell.Screen.Cursor?
    /// The title.
    public private(set) var title: String?
    /// The modes.
    public private(set) var modes: Shell.Screen.Modes?
    /// The lines before the screen.
    public private(set) var scrollback: Shell.Screen.Scrollback?
    /// Lines that were asked for, by their numbers, but for those that are gone.
    public private(set) var lines: [Int: Line] = [:]
    /// How often the bell rang.
    public private(set) var bells = 0
    /// What a program last wanted on the clipboard.
    public private(set) var clipboard: String?
    /// The last state of the way to the device.
    public private(set) var state: Shell.Screen.State?
    /// How the shell has ended.
    public private(set) var exit: Shell.Screen.Exit?
    /// The messages of input that were passed on.
    public private(set) var taken: UInt64 = 0
    /// The number of the last picture.
    public private(set) var number: UInt64 = 0
    /// The number of rows that were sent so far.
    public private(set) var rowsSent = 0

    private static let plain = Shell.Screen.Style(id: 0)
    private var styles: [Int: Shell.Screen.Style] = [:]

    /// Knows nothing yet.
    public init() {}

    /// The text of the screen, without blanks at the ends of lines and empty lines at its end.
    public var text: String {
        var lines = rows.map { row in
            var text = row.text
            while text.hasSuffix(" ") { text.removeLast() }
            return text
        }
        while lines.last?.isEmpty == true { lines.removeLast() }
        return lines.joined(separator: "\n")
    }

    /// Does what an update says.
    ///
    /// - Throws: ``Violation`` for what makes no sense.
    public mutating func apply(_ update: Shell.Screen.Update) throws {
        for style in update.styles ?? [] {
            guard style.id > 0 else { throw Violation(description: "The style \(style.id) has no number") }
            var known = style
            known.id = 0
            styles[style.id] = known
        }
        if let size = update.size {
            columns = size.columns
            rows = Array(repeating: blank, count: size.rows)
        }
        if let scroll = update.scroll { try move(scroll) }
        for row in update.rows ?? [] {
            guard rows.indices.contains(row.y) else { throw Violation(description: "There is no row \(row.y)") }
            rows[row.y] = try line(row, columns: columns)
            rowsSent += 1
        }
        if let cursor = update.cursor {
            guard rows.indices.contains(cursor.y), (0..<columns).contains(cursor.x) else {
                throw Violation(description: "The cursor is not on the screen: \(cursor)")
            }
            self.cursor = cursor
        }
        title = update.title ?? title
        modes = update.modes ?? modes
        if let range = update.scrollback {
            scrollback = range
            lines = lines.filter { $0.key >= range.first }
        }
        if update.bell == true { bells += 1 }
        clipboard = update.clipboard ?? clipboard
        taken = update.taken ?? taken
        state = update.state ?? state
        exit = update.exit ?? exit
        for row in update.lines?.rows ?? [] {
            // It may be of a size whose picture is yet to come.
            let line = try line(row, columns: nil)
            if let known = lines[row.y], known.text != line.text {
                throw Violation(description: "The line \(row.y) has become another")
            }
            lines[row.y] = line
        }
        if let number = update.number {
            guard number == self.number + 1 else { throw Violation(description: "The picture \(number) is not next") }
            guard number > 1 || update.size != nil && update.cursor != nil && update.modes != nil else {
                throw Violation(description: "The first picture is not whole")
            }
            self.number = number
        }
    }

    private var blank: Line {
        Line(
            text: String(repeating: " ", count: columns),
            styles: Array(repeating: Self.plain, count: columns))
    }

    private mutating func move(_ scroll: Shell.Screen.Scroll) throws {
        let region = scroll.top..<scroll.bottom + 1
        guard scroll.by != 0, rows.indices.contains(scroll.top), rows.indices.contains(scroll.bottom),
            abs(scroll.by) < region.count
        else { throw Violation(description: "The rows cannot move so: \(scroll)") }
        let old = rows
        for row in region {
            rows[row] = region.contains(row + scroll.by) ? old[row + scroll.by] : blank
        }
    }

    private func line(_ row: Shell.Screen.Row, columns: Int?) throws -> Line {
        var line = Line(wraps: row.wraps ?? false)
        for run in row.runs ?? [] {
            guard let style = run.style.map({ styles[$0] }) ?? Self.plain else {
                throw Violation(description: "The style \(run.style ?? 0) is not known")
            }
            guard !run.text.isEmpty, run.text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) else {
                throw Violation(description: "A run has text without controls: \(run)")
            }
            line.text += run.text
            line.styles += Array(repeating: style, count: run.width ?? run.text.utf16.count)
        }
        guard let columns else { return line }
        guard line.styles.count <= columns else {
            throw Violation(description: "The row \(row.y) is longer than \(columns)")
        }
        let missing = max(0, columns - line.styles.count)
        line.text += String(repeating: " ", count: missing)
        line.styles += Array(repeating: Self.plain, count: missing)
        return line
    }

    // MARK: - Comparing

    /// The first difference from a terminal, with what is drawn ahead of the echo; nil when there is none.
    package func difference(
        from terminal: Terminal, ahead: (row: Int, cells: [Int: Cell], cursor: Int?)? = nil,
        comparesScrollback: Bool = true
    ) -> String? {
        guard columns == terminal.columns, rows.count == terminal.rowCount else {
            return "the size is \(columns)x\(rows.count), not \(terminal.columns)x\(terminal.rowCount)"
        }
        for (index, row) in terminal.screen.enumerated() {
            let drawn = ahead.flatMap { $0.row == index ? $0.cells : nil } ?? [:]
            let wanted = Self.line(row, of: terminal, ahead: drawn)
            if rows[index] != wanted { return "row \(index) is \(rows[index].text), not \(wanted.text)" }
        }
        guard let cursor, let modes, let scrollback else { return "something was never sent" }
        let column = min(ahead?.cursor ?? terminal.cursor.column, columns - 1)
        if cursor.x != column || cursor.y != terminal.cursor.row || cursor.visible != terminal.modes.cursorVisible {
            return "the cursor is at \(cursor), not \(terminal.cursor)"
        }
        if title != String(decoding: terminal.title, as: UTF8.self) { return "the title is \(title ?? "")" }
        if modes.alternateScreen != terminal.isAlternate || modes.bracketedPaste != terminal.modes.bracketedPaste
            || (modes.mouse == .none) != (terminal.modes.mouse == .off)
        {
            return "the modes are \(modes)"
        }
        guard comparesScrollback else { return nil }
        if scrollback.first != terminal.scrollbackFirst || scrollback.lines != terminal.scrollbackCount {
            return "the scrollback is \(scrollback)"
        }
        for (number, line) in lines where number < terminal.scrollbackFirst + terminal.scrollbackCount {
            let wanted = Self.line(terminal.scrollbackRow(number - terminal.scrollbackFirst), of: terminal, ahead: [:])
            if line.text != wanted.text { return "line \(number) is \(line.text), not \(wanted.text)" }
        }
        return nil
    }

    private static func line(_ row: KithTerminal.Row, of terminal: Terminal, ahead: [Int: Cell]) -> Line {
        var line = Line(wraps: row.isWrapped)
        let cells = row.cells.enumerated().map { ahead[$0.offset] ?? $0.element }
        for (column, cell) in cells.enumerated() {
            let isWhole = cell.isWide && column + 1 < cells.count && cells[column + 1].isWideTail
            let isTail = cell.isWideTail && column > 0 && cells[column - 1].isWide
            line.styles.append(
                isTail ? line.styles[column - 1] : style(of: cell, terminal, isPredicted: ahead[column] != nil))
            if isTail { continue }
            let text = terminal.text(of: cell).unicodeScalars.filter { scalar in
                ![0x061C, 0x200E, 0x200F].contains(scalar.value) && !(0x202A...0x202E).contains(scalar.value)
                    && !(0x2066...0x2069).contains(scalar.value)
            }
            line.text += text.isEmpty || cell.isWide != isWhole ? " " : String(String.UnicodeScalarView(text))
        }
        return line
    }

    private static func style(of cell: Cell, _ terminal: Terminal, isPredicted: Bool) -> Shell.Screen.Style {
        var style = plain
        style.foreground = color(cell.foreground)
        style.background = color(cell.background)
        style.underlineColor = color(terminal.underlineColor(of: cell))
        func has(_ attribute: CellAttributes) -> Bool? { cell.attributes.contains(attribute) ? true : nil }
        (style.bold, style.faint, style.italic, style.blink) = (has(.bold), has(.faint), has(.italic), has(.blink))
        (style.inverse, style.invisible) = (has(.inverse), has(.invisible))
        (style.strikethrough, style.overline) = (has(.strikethrough), has(.overline))
        let lines: [Shell.Screen.Underline?] = [nil, .single, .double, .curly, .dotted, .dashed]
        style.underline = lines[Int(cell.attributes.underline.rawValue)]
        let link = terminal.link(of: cell).map { String(decoding: $0.target, as: UTF8.self) } ?? ""
        let isKnown = ["http:", "https:", "mailto:"].contains { link.lowercased().hasPrefix($0) }
        if isKnown, link.utf8.count <= 1_024 { style.link = link }
        style.predicted = isPredicted ? true : nil
        return style
    }

    private static func color(_ color: KithTerminal.Color) -> Shell.Screen.Color? {
        if let index = color.index { return .indexed(index) }
        return color.parts.map { .rgb($0.red, $0.green, $0.blue) }
    }
}
