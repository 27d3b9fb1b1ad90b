extension Terminal {
    /// An erased cell: it keeps only the background in use.
    var erased: Cell {
        var cell = Cell()
        cell.background = cursor.style.background
        return cell
    }

    // MARK: - Moving

    /// Moves the cursor, inside the screen; a pending wrap is forgotten.
    mutating func move(row: Int, column: Int) {
        cursor.row = min(max(row, 0), rowCount - 1)
        cursor.column = min(max(column, 0), columns - 1)
        cursor.wrapsNext = false
    }

    /// Moves the cursor to a position counted as the origin mode asks.
    mutating func position(row: Int, column: Int) {
        guard cursor.isOriginRelative else { return move(row: row, column: column) }
        move(row: min(topMargin + max(row, 0), bottomMargin), column: column)
    }

    mutating func moveUp(_ count: Int) {
        let limit = cursor.row >= topMargin ? topMargin : 0
        move(row: max(cursor.row - count, limit), column: cursor.column)
    }

    mutating func moveDown(_ count: Int) {
        let limit = cursor.row <= bottomMargin ? bottomMargin : rowCount - 1
        move(row: min(cursor.row + count, limit), column: cursor.column)
    }

    /// Down one row, scrolling at the bottom margin (IND).
    mutating func lineFeed() {
        if cursor.row == bottomMargin {
            scrollUp(1)
            cursor.wrapsNext = false
        } else {
            move(row: cursor.row + 1, column: cursor.column)
        }
    }

    /// Up one row, scrolling at the top margin (RI).
    mutating func reverseLineFeed() {
        if cursor.row == topMargin {
            scrollDown(1, from: topMargin)
            cursor.wrapsNext = false
        } else {
            move(row: cursor.row - 1, column: cursor.column)
        }
    }

    mutating func tab(_ count: Int) {
        var column = cursor.column
        for _ in 0..<min(count, columns) {
            repeat { column += 1 } while column < columns && !tabStops.contains(column)
        }
        // A tab does not cancel a pending wrap: the cursor stays where it is then.
        let wraps = cursor.wrapsNext
        move(row: cursor.row, column: column)
        cursor.wrapsNext = wraps
    }

    mutating func backTab(_ count: Int) {
        var column = cursor.column
        for _ in 0..<min(count, columns) where column > 0 {
            repeat { column -= 1 } while column > 0 && !tabStops.contains(column)
        }
        move(row: cursor.row, column: column)
    }

    // MARK: - Scrolling

    /// Moves the rows between the margins up; the first go to the scrollback when the region begins at the screen's top.
    mutating func scrollUp(_ count: Int) {
        let height = bottomMargin - topMargin + 1
        let count = min(count, height)
        guard count > 0 else { return }
        cursor.wrapsNext = false
        if topMargin == 0 {
            if mainScreen == nil {
                for row in 0..<count {
                    let kept = screen[row].usedCount
                    scrollback.append(
                        Row(cells: Array(screen[row].cells[..<kept]), isWrapped: screen[row].isWrapped))
                }
            }
        } else {
            screen[topMargin - 1].isWrapped = false
        }
        screen[bottomMargin].isWrapped = false
        let blank = erased
        if count == 1 {
            var row = screen.remove(at: topMargin)
            row.isWrapped = false
            row.fill(with: blank)
            screen.insert(row, at: bottomMargin)
        } else {
            screen.removeSubrange(topMargin..<topMargin + count)
            let row = Row(cells: Array(repeating: blank, count: columns), isWrapped: false)
            screen.insert(contentsOf: repeatElement(row, count: count), at: bottomMargin + 1 - count)
        }
    }

    /// Moves the rows from `top` to the bottom margin down; erased ones come in.
    mutating func scrollDown(_ count: Int, from top: Int) {
        let count = min(count, bottomMargin - top + 1)
        guard count > 0 else { return }
        cursor.wrapsNext = false
        endWrap(above: top)
        screen.removeSubrange(bottomMargin + 1 - count..<bottomMargin + 1)
        let row = Row(cells: Array(repeating: erased, count: columns), isWrapped: false)
        screen.insert(contentsOf: repeatElement(row, count: count), at: top)
        screen[bottomMargin].isWrapped = false
    }

    /// Removes rows from `top` on; those down to the bottom margin follow (DL).
    mutating func deleteLines(_ count: Int, from top: Int) {
        let count = min(count, bottomMargin - top + 1)
        guard count > 0 else { return }
        endWrap(above: top)
        screen[bottomMargin].isWrapped = false
        screen.removeSubrange(top..<top + count)
        let row = Row(cells: Array(repeating: erased, count: columns), isWrapped: false)
        screen.insert(contentsOf: repeatElement(row, count: count), at: bottomMargin + 1 - count)
    }

    /// The row above `top` no longer goes on in it.
    private mutating func endWrap(above top: Int) {
        if top > 0 {
            screen[top - 1].isWrapped = false
        } else if mainScreen == nil {
            scrollback.endLastLine()
        }
    }

    // MARK: - Erasing

    mutating func eraseInLine(_ which: Int32) {
        let range: Range<Int>
        switch which {
        case 0: range = cursor.column..<columns
        case 1: range = 0..<cursor.column + 1
        case 2: range = 0..<columns
        default: return
        }
        cursor.wrapsNext = false
        screen[cursor.row].erase(range, with: erased)
    }

    mutating func eraseInDisplay(_ which: Int32) {
        let rows: Range<Int>
        switch which {
        case 0:
            if cursor.row == 0, cursor.column == 0 { endWrap(above: 0) }
            eraseInLine(0)
            rows = cursor.row + 1..<rowCount
        case 1:
            eraseInLine(1)
            rows = 0..<cursor.row
        case 2:
            rows = 0..<rowCount
            cursor.wrapsNext = false
            endWrap(above: 0)
        case 3: return scrollback.removeAll()
        default: return
        }
        let blank = erased
        for row in rows { screen[row].erase(0..<columns, with: blank) }
    }

    mutating func eraseCharacters(_ count: Int) {
        cursor.wrapsNext = false
        screen[cursor.row].erase(cursor.column..<min(cursor.column + count, columns), with: erased)
    }

    mutating func insertCharacters(_ count: Int) {
        cursor.wrapsNext = false
        screen[cursor.row].insert(count, at: cursor.column, with: erased)
    }

    mutating func deleteCharacters(_ count: Int) {
        cursor.wrapsNext = false
        screen[cursor.row].delete(count, at: cursor.column, with: erased)
    }

    /// Fills the screen with E (DECALN).
    mutating func fillForAlignment() {
        resetMargins()
        var cell = Cell()
        cell.content = 0x45
        for row in 0..<rowCount {
            screen[row] = Row(cells: Array(repeating: cell, count: columns), isWrapped: false)
        }
        if mainScreen == nil { scrollback.endLastLine() }
        cursor.isOriginRelative = false
        move(row: 0, column: 0)
    }

    mutating func resetMargins() {
        topMargin = 0
        bottomMargin = rowCount - 1
    }

    // MARK: - Cursor and screens

    mutating func saveCursor() { saved = cursor }

    mutating func restoreCursor() {
        let wraps = saved.wrapsNext
        cursor = saved
        let lowest = cursor.isOriginRelative ? topMargin : 0
        let highest = cursor.isOriginRelative ? bottomMargin : rowCount - 1
        move(row: min(max(cursor.row, lowest), highest), column: cursor.column)
        // Only a written last column can have the next character wait for the next row.
        cursor.wrapsNext =
            wraps && modes.autowrap && cursor.column == columns - 1
            && !screen[cursor.row].cells[cursor.column].isErased
    }

    mutating func showAlternateScreen() {
        guard mainScreen == nil else { return }
        mainScreen = screen
        mainSaved = saved
        mainKeyboard = keyboard
        saved = TerminalCursor()
        keyboard = [0]
        cursor.wrapsNext = false
        let row = Row(cells: Array(repeating: erased, count: columns), isWrapped: false)
        screen = Array(repeating: row, count: rowCount)
    }

    mutating func showMainScreen() {
        guard let main = mainScreen else { return }
        screen = main
        saved = mainSaved
        keyboard = mainKeyboard
        mainScreen = nil
        mainSaved = TerminalCursor()
        mainKeyboard = [0]
        cursor.wrapsNext = false
    }

    /// Resets the modes that DECSTR resets.
    mutating func softReset() {
        modes.cursorVisible = true
        modes.insert = false
        modes.autowrap = true
        modes.applicationCursor = false
        modes.applicationKeypad = false
        cursor.isOriginRelative = false
        cursor.style = Cell()
        cursor.charsets = TerminalCursor().charsets
        cursor.charset = 0
        singleShift = nil
        resetMargins()
        saved = TerminalCursor()
    }

    /// Resets everything but the scrollback, as RIS does.
    mutating func hardReset() {
        var fresh = Terminal(columns: columns, rows: rowCount, scrollbackLimit: scrollback.limit)
        fresh.scrollback = scrollback
        fresh.scrollback.endLastLine()
        fresh.replies = replies
        fresh.bellCount = bellCount
        fresh.extras = extras
        fresh.clusters = clusters
        fresh.sweeps = sweeps
        self = fresh
    }
}
