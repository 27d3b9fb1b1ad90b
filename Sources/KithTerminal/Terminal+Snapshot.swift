extension Terminal {
    /// Bytes that bring a terminal of the same size from any state to this one.
    ///
    /// They set every mode by name, print the newest `scrollbackLines` lines so that they scroll into the reader's own
    /// scrollback (rows that wrapped do so again, and can be copied and reflowed), draw what is on both screens and end
    /// with whatever sequence or character is half received: the bytes that would be fed to this terminal next may
    /// follow. What the reader's scrollback holds stays.
    ///
    /// Not carried: the character that REP would repeat, answers not taken yet, and that a saved cursor waited behind
    /// a character when that was erased since.
    package func snapshot(scrollbackLines: Int) -> [UInt8] {
        var painter = SnapshotPainter(terminal: self)
        painter.begin()
        let first = scrollback.count - min(max(0, scrollbackLines), scrollback.count)
        let lines = (first..<scrollback.count).map { scrollback[$0] }
        painter.paint(lines + (mainScreen ?? screen))
        if isAlternate {
            painter.writeKeyboard(mainKeyboard)
            painter.placeCursor(mainSaved, on: mainScreen ?? [])
            painter.enterAlternateScreen()
            painter.paint(screen)
        }
        painter.writeKeyboard(keyboard)
        painter.writeTabStops()
        painter.placeCursor(saved, on: screen)
        painter.saveCursor()
        painter.finish()
        return painter.bytes
    }
}

/// Writes a terminal's state as bytes for another.
struct SnapshotPainter {
    let terminal: Terminal
    private(set) var bytes: [UInt8] = []
    /// The style that is on at the reader's.
    private var style = Cell()

    init(terminal: Terminal) { self.terminal = terminal }

    /// Takes `cell`'s style for the one that is on.
    mutating func assume(_ cell: Cell) { style = cell }

    /// Turns the style of `cell` on whatever is on.
    mutating func forceStyle(_ cell: Cell) {
        var new = cell
        new.attributes.subtract(.halves)
        new.content = 0
        terminal.writeLink(of: new, to: &bytes)
        terminal.writeStyle(new, to: &bytes)
        style = new
    }

    mutating func write(_ text: String) { bytes += Array(text.utf8) }
    mutating func control(_ text: String) { write("\u{1B}[" + text) }

    /// A known state, an empty screen; titles and colours.
    mutating func begin() {
        // CAN ends any sequence, and ST any string of a terminal that does not heed CAN.
        bytes += [0x18, 0x1B, 0x5C]
        control("?2026l")
        control("?1049l")
        control("?47l")
        control("!p")
        control("4l")
        control("20l")
        control("?6l")
        control("?7h")
        control("?25l")
        control("r")
        write("\u{1B}(B\u{1B})B\u{1B}*B\u{1B}+B\u{0F}")
        control("0m")
        terminal.writeLink(of: Cell(), to: &bytes)
        control("H")
        control("J")
        writeTitles()
        writePalette()
    }

    private mutating func writeTitles() {
        // Entries that the reader had on its stack stay below.
        for entry in terminal.titleStack {
            write(title: entry.title, iconName: entry.iconName)
            control("22;0t")
        }
        write(title: terminal.title, iconName: terminal.iconName)
    }

    private mutating func write(title: [UInt8], iconName: [UInt8]) {
        bytes += [0x1B, 0x5D, 0x32, 0x3B] + title + [0x1B, 0x5C]
        bytes += [0x1B, 0x5D, 0x31, 0x3B] + iconName + [0x1B, 0x5C]
    }

    private mutating func writePalette() {
        write("\u{1B}]104\u{1B}\\")
        for number in 110...119 { write("\u{1B}]\(number)\u{1B}\\") }
        for (number, color) in terminal.palette.sorted(by: { $0.key < $1.key }) {
            write(number < 256 ? "\u{1B}]4;\(number);" : "\u{1B}]\(number - 256);")
            bytes += color + [0x1B, 0x5C]
        }
    }

    mutating func enterAlternateScreen() {
        control("?1049h")
        write("\u{1B}(B\u{0F}")
        control("?6l")
        set(style: Cell())
        control("H")
        control("J")
    }

    // MARK: - Cells

    mutating func set(style cell: Cell) {
        guard !cell.hasStyle(of: style) else { return }
        var new = cell
        new.attributes.subtract(.halves)
        new.content = 0
        if terminal.link(of: new) != terminal.link(of: style) { terminal.writeLink(of: new, to: &bytes) }
        terminal.writeStyle(new, to: &bytes)
        style = new
    }

    mutating func write(_ cell: Cell) {
        set(style: cell)
        for scalar in terminal.scalars(of: cell) {
            bytes += Array(UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
        }
    }

    /// Prints rows from the cursor's on; it must stand in the first column of an empty screen's first row.
    mutating func paint(_ rows: [Row]) {
        var continues = false
        for (index, row) in rows.enumerated() {
            if index > 0, !continues {
                set(style: Cell())
                write("\r\n")
            }
            continues = row.isWrapped && index + 1 < rows.count
            paint(row, next: continues ? rows[index + 1] : nil)
        }
    }

    /// Prints a row; when `next` continues it, the cursor ends where the first character of `next` will wrap, or in the
    /// first column of the next row after having wrapped.
    private mutating func paint(_ row: Row, next: Row?) {
        let columns = terminal.columns
        var column = 0
        let used = row.usedCount
        while column < used {
            let cell = row[column]
            guard cell.isErased else {
                write(cell)
                column += cell.isWide ? 2 : 1
                continue
            }
            var end = column + 1
            while end < used, row[end].isErased, row[end].background == cell.background { end += 1 }
            if cell.background != .standard {
                var blank = Cell()
                blank.background = cell.background
                set(style: blank)
                control("\(end - column)X")
            }
            if end < columns { control("\(end - column)C") }
            column = end
        }
        guard let next else { return }
        let isFull = used == columns
        if !isFull { control("\(columns)G") }
        // The next character goes to the next row: because this one is full, or because it is wide.
        let first = next[0]
        if !first.isErased, first.background == .standard, isFull || first.isWide { return }
        // No character to do it with: one is printed and erased. The style must not colour a row that scrolls in.
        set(style: Cell())
        write(isFull ? " \r" : "\u{3000}\r")
        control("2X")
    }

    // MARK: - Cursor

    /// Brings cursor, style and character sets to those of `cursor`, counted from the screen's first row.
    mutating func placeCursor(_ cursor: TerminalCursor, on rows: [Row]) {
        write("\u{1B}(B\u{0F}")
        control("r")
        control(cursor.isOriginRelative ? "?6h" : "?6l")
        moveCursor(cursor, row: cursor.row, on: rows)
    }

    private mutating func moveCursor(_ cursor: TerminalCursor, row: Int, on rows: [Row]) {
        let column = cursor.column
        let cells = rows[min(cursor.row, rows.count - 1)]
        let last = cells[column]
        if cursor.wrapsNext, !last.isErased {
            // Printing the last character again leaves the cursor waiting behind it.
            control("\(row + 1);\(last.isWideTail ? column : column + 1)H")
            write(last.isWideTail ? cells[column - 1] : last)
        } else {
            control("\(row + 1);\(column + 1)H")
        }
        set(style: cursor.style)
        for slot in 0..<4 { bytes += [0x1B, UInt8(0x28 + slot), cursor.charsets[slot]] }
        switch cursor.charset {
        case 0: bytes.append(0x0F)
        case 1: bytes.append(0x0E)
        case 2: write("\u{1B}n")
        default: write("\u{1B}o")
        }
    }

    mutating func saveCursor() { write("\u{1B}7") }

    mutating func writeKeyboard(_ stack: [UInt16]) {
        control("<99u")
        control("=\(stack[0]);1u")
        for flags in stack.dropFirst() { control(">\(flags)u") }
    }

    mutating func writeTabStops() {
        control("?6l")
        control("3g")
        for stop in terminal.tabStops.sorted() {
            control("\(stop + 1)G")
            write("\u{1B}H")
        }
    }

    // MARK: - Modes

    /// Margins, cursor and modes, and last what is half received.
    mutating func finish() {
        let modes = terminal.modes
        let cursor = terminal.cursor
        write("\u{1B}(B\u{0F}")
        control("?6l")
        control("\(terminal.topMargin + 1);\(terminal.bottomMargin + 1)r")
        if cursor.isOriginRelative { control("?6h") }
        moveCursor(
            cursor, row: cursor.isOriginRelative ? cursor.row - terminal.topMargin : cursor.row, on: terminal.screen)
        for number in Terminal.flagNumbers where number != 2026 {
            control("?\(number)\(terminal.mode(number) == .on ? "h" : "l")")
        }
        // Not every terminal knows mode 66.
        write(modes.applicationKeypad ? "\u{1B}=" : "\u{1B}>")
        for mode in [MouseTracking.presses, .buttons, .drags, .movement] { control("?\(mode.rawValue)l") }
        if modes.mouse != .off { control("?\(modes.mouse.rawValue)h") }
        for encoding in [MouseEncoding.utf8, .sgr, .decimal, .pixels] { control("?\(encoding.rawValue)l") }
        if modes.mouseEncoding != .bytes { control("?\(modes.mouseEncoding.rawValue)h") }
        control(modes.insert ? "4h" : "4l")
        control(modes.newline ? "20h" : "20l")
        control(">4;\(modes.modifyOtherKeys)m")
        control("\(modes.cursorStyle) q")
        if modes.synchronizedUpdate { control("?2026h") }
        if let shift = terminal.singleShift { write(shift == 2 ? "\u{1B}N" : "\u{1B}O") }
        bytes += terminal.parser.pending
    }
}
