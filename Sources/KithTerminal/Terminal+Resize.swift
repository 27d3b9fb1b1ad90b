extension Terminal {
    /// Takes a new size on.
    ///
    /// On the main screen, rows that wrapped are laid out anew with the scrollback; rows leave to the scrollback or come
    /// back from it so that the cursor stays in sight. On the alternate screen rows are cut or filled up, as programs
    /// there redraw. Margins become the whole screen.
    package mutating func resize(columns: Int, rows: Int) {
        let columns = min(max(columns, Self.columnLimits.lowerBound), Self.columnLimits.upperBound)
        let rows = min(max(rows, Self.rowLimits.lowerBound), Self.rowLimits.upperBound)
        guard columns != self.columns || rows != rowCount else { return }
        if var main = mainScreen {
            var cursor = mainSaved
            layOut(&main, cursor: &cursor, columns: columns, rows: rows)
            mainScreen = main
            mainSaved = cursor
            cut(columns: columns, rows: rows)
        } else {
            var main = screen
            var cursor = cursor
            layOut(&main, cursor: &cursor, columns: columns, rows: rows)
            screen = main
            self.cursor = cursor
        }
        if columns > self.columns {
            tabStops.formUnion(Self.defaultTabStops(self.columns..<columns))
        } else {
            tabStops = tabStops.filter { $0 < columns }
        }
        setSize(columns: columns, rows: rows)
        resetMargins()
        cursor = clamped(cursor, in: screen)
        saved = clamped(saved, in: screen)
        if let mainScreen { mainSaved = clamped(mainSaved, in: mainScreen) }
    }

    /// The cursor inside the screen; it waits behind the last column only where something is written.
    private func clamped(_ cursor: TerminalCursor, in rows: [Row]) -> TerminalCursor {
        var cursor = cursor
        cursor.row = min(cursor.row, rowCount - 1)
        cursor.column = min(cursor.column, columns - 1)
        if cursor.column != columns - 1 || rows[cursor.row][cursor.column].isErased { cursor.wrapsNext = false }
        return cursor
    }

    /// Cuts the shown rows to a size, from the top when the cursor would be lost otherwise.
    private mutating func cut(columns: Int, rows: Int) {
        if rows < rowCount {
            let above = max(0, cursor.row + 1 - rows)
            screen.removeFirst(above)
            screen.removeLast(screen.count - rows)
            cursor.row -= above
        }
        if columns != self.columns {
            for row in screen.indices { screen[row].setCount(columns) }
        }
        while screen.count < rows { screen.append(Row(columns: columns)) }
        screen[rows - 1].isWrapped = false
    }

    /// Lays the main screen and the scrollback out for a new size.
    private mutating func layOut(_ screen: inout [Row], cursor: inout TerminalCursor, columns: Int, rows: Int) {
        // Empty rows below the cursor are not worth a line of scrollback.
        while screen.count > cursor.row + 1, let last = screen.last, last.usedCount == 0 { screen.removeLast() }
        if columns != self.columns {
            var lines = LineLayout(columns: columns)
            for index in 0..<scrollback.count { lines.append(scrollback[index]) }
            for (index, row) in screen.enumerated() {
                lines.append(row, cursor: index == cursor.row ? cursor.column + (cursor.wrapsNext ? 1 : 0) : nil)
            }
            lines.endLine()
            scrollback.removeAll()
            screen = lines.rows
            cursor.row = lines.cursor?.row ?? 0
            cursor.column = lines.cursor?.column ?? 0
            cursor.wrapsNext = cursor.column >= columns
            cursor.column = min(cursor.column, columns - 1)
        }
        if screen.count > rows {
            let above = min(screen.count - rows, cursor.row)
            for row in screen[..<above] {
                scrollback.append(Row(cells: Array(row.cells[..<row.usedCount]), isWrapped: row.isWrapped))
            }
            screen.removeFirst(above)
            cursor.row -= above
            if screen.count > rows { screen.removeLast(screen.count - rows) }
        }
        while screen.count < rows, let row = scrollback.popLast() {
            screen.insert(row, at: 0)
            cursor.row += 1
        }
        for row in screen.indices { screen[row].pad(to: columns) }
        while screen.count < rows { screen.append(Row(columns: columns)) }
        screen[rows - 1].isWrapped = false
    }
}

extension Row {
    /// Fills the row up with erased cells.
    mutating func pad(to columns: Int) {
        if cells.count < columns { cells += Array(repeating: Cell(), count: columns - cells.count) }
    }

    /// Cuts the row or fills it up; it stands alone then.
    mutating func setCount(_ columns: Int) {
        if cells.count > columns {
            cells.removeLast(cells.count - columns)
            if cells[columns - 1].isWide { cells[columns - 1].blank() }
        }
        pad(to: columns)
        isWrapped = false
    }
}

/// Joins rows that wrapped to lines, and breaks the lines at another width.
private struct LineLayout {
    let columns: Int
    private(set) var rows: [Row] = []
    /// The new position of the cursor; its column is `columns` when it waits behind a full row.
    private(set) var cursor: (row: Int, column: Int)?
    private var line: [Cell] = []
    /// A row was added since a line ended.
    private var isOpen = false
    private var cursorOffset: Int?

    init(columns: Int) { self.columns = columns }

    mutating func append(_ row: Row, cursor column: Int? = nil) {
        isOpen = true
        // The empty last column before a wide character is not part of the text.
        if let last = line.last, last.isPlain, row[0].isWide { line.removeLast() }
        if let column { cursorOffset = line.count + column }
        if row.isWrapped {
            line += row.cells
        } else {
            line += row.cells[..<row.usedCount]
            endLine()
        }
    }

    mutating func endLine() {
        guard isOpen else { return }
        isOpen = false
        var start = 0
        repeat {
            var end = min(start + columns, line.count)
            let isLast = end == line.count
            // A wide character is not cut: it begins the next row.
            if !isLast, line[end].isWideTail, end - 1 > start { end -= 1 }
            // A row wraps behind something written.
            if !isLast, line[end - 1].isErased { line[end - 1].blank() }
            if let offset = cursorOffset, offset >= start, offset < end || end == line.count {
                cursor = (rows.count, min(offset - start, columns))
                cursorOffset = nil
            }
            rows.append(Row(cells: Array(line[start..<end]), isWrapped: end < line.count))
            start = end
        } while start < line.count
        line.removeAll(keepingCapacity: true)
        cursorOffset = nil
    }
}
