/// One line of the grid.
package struct Row: Hashable, Sendable {
    /// The cells, as many as the grid has columns; fewer in the scrollback, where erased cells at the end are left out.
    package var cells: [Cell]
    /// The text went on in the next row because this one was full, not because a line ended.
    package var isWrapped = false

    init(columns: Int) {
        cells = Array(repeating: Cell(), count: columns)
    }

    init(cells: [Cell], isWrapped: Bool) {
        self.cells = cells
        self.isWrapped = isWrapped
    }

    subscript(column: Int) -> Cell { column < cells.count ? cells[column] : Cell() }

    /// The number of cells before the plain erased ones at the end.
    var usedCount: Int {
        var count = cells.count
        while count > 0, cells[count - 1].isPlain { count -= 1 }
        return count
    }

    /// Writes ASCII characters over what was there.
    mutating func write(_ bytes: Span<UInt8>, _ range: Range<Int>, at column: Int, style: Cell) {
        openGap(column..<column + range.count)
        var cell = style
        unsafe cells.withUnsafeMutableBufferPointer { buffer in
            var cells = unsafe buffer.mutableSpan
            for offset in 0..<range.count {
                cell.content = UInt32(bytes[range.lowerBound + offset])
                cells[column + offset] = cell
            }
        }
    }

    /// Makes every cell the same.
    mutating func fill(with cell: Cell) {
        unsafe cells.withUnsafeMutableBufferPointer { unsafe $0.update(repeating: cell) }
    }

    /// Makes spaces of the halves of wide characters that `range` will cut.
    mutating func openGap(_ range: Range<Int>) {
        if range.lowerBound > 0, range.lowerBound < cells.count, cells[range.lowerBound].isWideTail {
            cells[range.lowerBound - 1].blank()
            cells[range.lowerBound].blank()
        }
        if range.upperBound > 0, range.upperBound < cells.count, cells[range.upperBound].isWideTail {
            cells[range.upperBound - 1].blank()
            cells[range.upperBound].blank()
        }
    }

    /// Erases a range; a row whose end is erased no longer goes on in the next.
    mutating func erase(_ range: Range<Int>, with cell: Cell) {
        guard !range.isEmpty else { return }
        openGap(range)
        for column in range { cells[column] = cell }
        if range.upperBound == cells.count { isWrapped = false }
    }

    /// Moves what stands from `column` on to the right; what leaves the row is lost.
    mutating func insert(_ count: Int, at column: Int, with cell: Cell) {
        openGap(column..<column)
        let count = min(count, cells.count - column)
        cells.insert(contentsOf: repeatElement(cell, count: count), at: column)
        cells.removeLast(count)
        repairEnd()
    }

    /// Removes cells; what stands to their right follows.
    mutating func delete(_ count: Int, at column: Int, with cell: Cell) {
        let count = min(count, cells.count - column)
        openGap(column..<column + count)
        cells.removeSubrange(column..<column + count)
        cells.append(contentsOf: repeatElement(cell, count: count))
        repairEnd()
    }

    /// Repairs the end after a shift: no half of a wide character there, no wrap from an erased end.
    private mutating func repairEnd() {
        let last = cells.count - 1
        if cells[last].isWide { cells[last].blank() }
        if cells[last].isErased { isWrapped = false }
    }
}

/// The lines that left the screen at its top, the oldest first; at most `limit`, and so many that they have at most
/// ``cellLimit`` cells.
///
/// Each line has a number that is never another's. Lines that come back to the screen are new ones when they leave it
/// again, and so are those that stayed: whoever keeps copies by number keeps no wrong one.
struct Scrollback: Sendable {
    /// 32 MiB.
    static let cellLimit = 2 << 20

    let limit: Int
    private var rows: [Row] = []
    private var start = 0
    private var cellCount = 0
    /// The number that the next line gets.
    private var next = 0

    init(limit: Int) { self.limit = limit }

    var count: Int { rows.count - start }
    /// The number of the oldest line.
    var firstNumber: Int { next - count }
    subscript(index: Int) -> Row { rows[start + index] }

    mutating func append(_ row: Row) {
        guard limit > 0 else { return }
        rows.append(row)
        cellCount += row.cells.count
        next += 1
        while count > limit || cellCount > Self.cellLimit && count > 1 {
            cellCount -= rows[start].cells.count
            rows[start] = Row(cells: [], isWrapped: false)
            start += 1
        }
        if start >= max(limit, 64) {
            rows.removeFirst(start)
            start = 0
        }
    }

    mutating func popLast() -> Row? {
        guard count > 0, let last = rows.popLast() else { return nil }
        cellCount -= last.cells.count
        next += count
        return last
    }

    mutating func removeAll() {
        rows.removeAll()
        start = 0
        cellCount = 0
    }

    /// The newest line goes on in the screen.
    mutating func continueLastLine() {
        if count > 0 { rows[rows.count - 1].isWrapped = true }
    }

    /// The newest line does not go on in the screen any more.
    mutating func endLastLine() {
        if count > 0 { rows[rows.count - 1].isWrapped = false }
    }
}
