/// Shows ``Canvas``es on a terminal, one after the other, by drawing only what has changed.
///
/// It relies on nothing but what every terminal since the VT100 does: cursor positions, erasing to the end of a row,
/// SGR. After a character whose width terminals disagree about, it says where the next one goes.
package struct CanvasRenderer: Sendable {
    /// The colours a terminal can show.
    package enum Colors: Sendable {
        /// None: attributes only.
        case none
        /// The 256 of the palette.
        case indexed
        /// All.
        case full
    }

    private let colors: Colors
    /// True when the terminal shows ASCII only: frames become `+-|`, most of what is not ASCII `?`.
    private let isASCII: Bool
    /// The picture on the terminal; `nil`: nobody knows.
    private var shown: (cells: [Cell], columns: Int, generation: Int, cursor: Canvas.Position?)?

    private var bytes: [UInt8] = []
    private var style = Cell()
    /// The position of the terminal's cursor; `nil`: nobody knows.
    private var position: Canvas.Position?

    package init(colors: Colors, isASCII: Bool = false) {
        self.colors = colors
        self.isASCII = isASCII
    }

    /// Forgets what the terminal shows: the next canvas is drawn whole.
    package mutating func invalidate() { shown = nil }

    /// True when the next canvas is drawn whole.
    package var isInvalid: Bool { shown == nil }

    /// The bytes that bring the terminal from the canvas shown before to this one; empty when nothing has changed.
    package mutating func draw(_ canvas: Canvas) -> [UInt8] {
        bytes = []
        style = Cell()
        position = nil
        let cells = canvas.cells.map { adapted($0) }
        var before: [Cell]
        let isNew: Bool
        if let shown, shown.columns == canvas.columns, shown.cells.count == cells.count,
            shown.generation == canvas.generation
        {
            (before, isNew) = (shown.cells, false)
        } else {
            (before, isNew) = (Array(repeating: Canvas.blank, count: cells.count), true)
            write("\u{1B}[0m\u{1B}[H\u{1B}[2J")
        }
        for row in 0..<canvas.rows where isNew || rowDiffers(row, cells, before, canvas.columns) {
            draw(row, of: canvas, cells, over: before)
        }
        if bytes.isEmpty, !isNew, shown?.cursor == canvas.cursor { return [] }
        if !style.hasStyle(of: Cell()) { write("\u{1B}[0m") }
        if let cursor = canvas.cursor {
            move(to: cursor)
            write("\u{1B}[?25h")
        } else {
            write("\u{1B}[?25l")
        }
        shown = (cells, canvas.columns, canvas.generation, canvas.cursor)
        before = []
        defer { bytes = [] }
        // Terminals that know synchronised output show all of it at once; others ignore the mode.
        return Array("\u{1B}[?2026h".utf8) + bytes + Array("\u{1B}[?2026l".utf8)
    }

    private func rowDiffers(_ row: Int, _ cells: [Cell], _ before: [Cell], _ columns: Int) -> Bool {
        let range = row * columns..<(row + 1) * columns
        return cells[range] != before[range]
    }

    private mutating func draw(_ row: Int, of canvas: Canvas, _ cells: [Cell], over before: [Cell]) {
        let columns = canvas.columns
        let base = row * columns
        var end = columns
        while end > 0, cells[base + end - 1] == Canvas.blank { end -= 1 }
        var column = 0
        while column < columns {
            guard cells[base + column] != before[base + column] else {
                column += 1
                continue
            }
            if column >= end {
                // The rest is blank, and the terminal has something there.
                move(to: Canvas.Position(column: column, row: row), canvas, cells)
                turnOn(Cell())
                write("\u{1B}[K")
                return
            }
            // A changed right half is drawn with its left one.
            if cells[base + column].isWideTail { column -= 1 }
            move(to: Canvas.Position(column: column, row: row), canvas, cells)
            column += put(cells[base + column], canvas)
        }
    }

    /// Draws one cell at the cursor; returns how many columns it takes.
    private mutating func put(_ cell: Cell, _ canvas: Canvas) -> Int {
        turnOn(cell)
        // A mark on a character that is shown as `?` has nowhere to stand.
        let scalars = canvas.scalars(of: cell).prefix(isASCII ? 1 : .max)
        var isCertain = scalars.count == 1
        for scalar in scalars {
            let shown = isASCII ? Self.ascii(scalar) : scalar
            bytes += Array(String(shown).utf8)
            let value = shown.value
            if value >= 0x300, !(0x2500..<0x25A0).contains(value) { isCertain = false }
        }
        let width = cell.isWide ? 2 : 1
        if isASCII, width == 2 { bytes.append(0x20) }
        if let current = position {
            // In the last column the cursor waits; where it is then differs between terminals.
            let next = current.column + width
            position = isCertain && next < canvas.columns ? Canvas.Position(column: next, row: current.row) : nil
        }
        return width
    }

    /// Brings the cursor somewhere: over a few cells that have not changed by drawing them again.
    private mutating func move(to target: Canvas.Position, _ canvas: Canvas, _ cells: [Cell]) {
        while let current = position, current.row == target.row, current.column < target.column,
            target.column - current.column <= 4
        {
            let cell = cells[current.row * canvas.columns + current.column]
            guard cell.hasStyle(of: style), !cell.isWide, !cell.isWideTail, cell.content < 0x7F else { break }
            _ = put(cell, canvas)
        }
        move(to: target)
    }

    private mutating func move(to target: Canvas.Position) {
        guard position != target else { return }
        write("\u{1B}[\(target.row + 1);\(target.column + 1)H")
        position = target
    }

    private mutating func turnOn(_ cell: Cell) {
        guard !cell.hasStyle(of: style) else { return }
        cell.writeStyle(to: &bytes)
        style = cell
    }

    private mutating func write(_ text: String) { bytes += Array(text.utf8) }

    // MARK: - What the terminal can

    private func adapted(_ cell: Cell) -> Cell {
        guard colors != .full else { return cell }
        var cell = cell
        if colors == .none {
            cell.foreground = .standard
            cell.background = .standard
        } else {
            cell.foreground = Self.nearest(cell.foreground)
            cell.background = Self.nearest(cell.background)
        }
        return cell
    }

    /// The nearest of the palette's colour cube and greys.
    static func nearest(_ color: Color) -> Color {
        guard let (red, green, blue) = color.parts else { return color }
        func step(_ part: UInt8) -> Int { part < 48 ? 0 : part < 115 ? 1 : (Int(part) - 35) / 40 }
        func level(_ step: Int) -> Int { step == 0 ? 0 : 55 + 40 * step }
        func distance(_ levels: [Int]) -> Int {
            zip(levels, [red, green, blue]).reduce(0) { $0 + ($1.0 - Int($1.1)) * ($1.0 - Int($1.1)) }
        }
        let steps = [step(red), step(green), step(blue)]
        let mean = (Int(red) + Int(green) + Int(blue)) / 3
        let grey = min(max((mean - 3) / 10, 0), 23)
        if distance(Array(repeating: 8 + 10 * grey, count: 3)) < distance(steps.map(level)) {
            return .indexed(UInt8(232 + grey))
        }
        return .indexed(UInt8(16 + 36 * steps[0] + 6 * steps[1] + steps[2]))
    }

    private static func ascii(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        switch scalar.value {
        case ..<0x7F: scalar
        case 0x2500, 0x2501: "-"
        case 0x2502, 0x2503: "|"
        case 0x250C...0x257F: "+"
        case 0x2580...0x259F: "#"
        case 0x2026: "~"
        case 0x2190: "<"
        case 0x2191: "^"
        case 0x2192: ">"
        case 0x2193: "v"
        // Dots that turn.
        case 0x2800...0x28FF: ["|", "/", "-", "\\"][Int(scalar.value) % 4]
        default: "?"
        }
    }
}
