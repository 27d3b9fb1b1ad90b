/// Says what of a terminal's screen is new to a viewer: pictures that are drawn elsewhere without reading any bytes of
/// programs.
///
/// It remembers what the viewer was sent, not what changed: however much the program writes between two questions, the
/// answer is no larger than a screen, and the newest wins. One difference is at most about ``budget`` bytes; the rows that do
/// not fit come with the next, and ``hasMore`` says so.
package struct ScreenEncoder: Sendable {
    /// So large a difference may become before rows wait for the next.
    package static let budget = 256 << 10
    /// More styles are not remembered: they are numbered anew.
    static let styleLimit = 4_096
    /// The most lines of the scrollback in one answer.
    package static let lineLimit = 500

    /// A row as the viewer has it.
    private struct SentRow: Sendable {
        /// The cells it was made of; nil when they mean something else by now.
        var cells: [Cell]?
        var line: ScreenLine
    }

    private var columns = 0
    private var rows: [SentRow] = []
    private var numbers: [RunStyle: Int] = [:]
    private var cursor: ScreenDifference.Cursor?
    private var title: [UInt8]?
    private var modes: ScreenDifference.Modes?
    private var scrollback: ScreenDifference.ScrollbackRange?
    private var bellCount = 0
    private var sweeps = 0
    /// The row to begin with, so that each has its chance where not all fit.
    private var firstRow = 0
    /// True when rows wait for the next difference.
    package private(set) var hasMore = false

    /// A viewer that has been sent nothing.
    package init() {}

    // MARK: - The screen

    /// The changes since the last call, and what is drawn ahead of the echo; nil when there are none.
    package mutating func encode(_ echo: PredictiveEcho) -> ScreenDifference? {
        let drawing = echo.drawing
        return encode(echo.terminal, row: drawing.row, ahead: drawing.cells, cursor: drawing.cursor)
    }

    /// The changes since the last call; nil when there are none.
    package mutating func encode(_ terminal: Terminal) -> ScreenDifference? {
        encode(terminal, row: 0, ahead: [:], cursor: nil)
    }

    private mutating func encode(
        _ terminal: Terminal, row drawnRow: Int, ahead: [Int: Cell], cursor column: Int?
    ) -> ScreenDifference? {
        var difference = ScreenDifference()
        var screen = terminal.screen
        if drawnRow < screen.count {
            for (column, cell) in ahead where column < screen[drawnRow].cells.count {
                screen[drawnRow].cells[column] = cell
                screen[drawnRow].cells[column].attributes.insert(.predicted)
            }
        }
        begin(terminal, &difference)
        var changed = screen.indices.filter { isNew(screen[$0], at: $0) }
        if changed.count > 2, let scroll = ScrollSearch(rows.map(\.cells), screen, changed).best {
            difference.scroll = scroll
            move(scroll)
            changed = screen.indices.filter { isNew(screen[$0], at: $0) }
        }
        encode(screen, changed, of: terminal, &difference)
        encodeState(terminal, column: column, &difference)
        return difference.isEmpty ? nil : difference
    }

    /// Takes a new size on, and forgets what does not hold any more.
    private mutating func begin(_ terminal: Terminal, _ difference: inout ScreenDifference) {
        forgetStyles()
        if sweeps != terminal.sweeps {
            sweeps = terminal.sweeps
            for row in rows.indices { rows[row].cells = nil }
        }
        guard columns != terminal.columns || rows.count != terminal.rowCount else { return }
        columns = terminal.columns
        rows = Array(repeating: blank, count: terminal.rowCount)
        firstRow = 0
        difference.size = (columns, rows.count)
    }

    private var blank: SentRow {
        SentRow(cells: Array(repeating: Cell(), count: columns), line: ScreenLine())
    }

    private func isNew(_ row: Row, at index: Int) -> Bool {
        // Mostly both are the same array, and that is seen at once.
        rows[index].cells != row.cells || rows[index].line.isWrapped != row.isWrapped
    }

    private mutating func move(_ scroll: ScreenDifference.Scroll) {
        let blanks = Array(repeating: blank, count: abs(scroll.count))
        if scroll.count > 0 {
            rows.insert(contentsOf: blanks, at: scroll.bottom + 1)
            rows.removeSubrange(scroll.top..<scroll.top + scroll.count)
        } else {
            rows.removeSubrange(scroll.bottom + 1 + scroll.count..<scroll.bottom + 1)
            rows.insert(contentsOf: blanks, at: scroll.top)
        }
    }

    private mutating func encode(
        _ screen: [Row], _ changed: [Int], of terminal: Terminal, _ difference: inout ScreenDifference
    ) {
        hasMore = false
        var cost = 0
        let start = changed.firstIndex { $0 >= firstRow } ?? 0
        for index in changed[start...] + changed[..<start] {
            if cost >= Self.budget {
                firstRow = index
                hasMore = true
                return
            }
            let line = terminal.line(screen[index].cells, isWrapped: screen[index].isWrapped)
            defer { rows[index] = SentRow(cells: screen[index].cells, line: line) }
            guard line != rows[index].line else { continue }
            cost += line.cost
            difference.rows.append(number(line, as: index, &difference, &cost))
        }
    }

    private mutating func encodeState(_ terminal: Terminal, column: Int?, _ difference: inout ScreenDifference) {
        let cursor = ScreenDifference.Cursor(terminal, column: column)
        if cursor != self.cursor { difference.cursor = cursor }
        self.cursor = cursor
        if terminal.title != title { difference.title = String(decoding: terminal.title, as: UTF8.self) }
        title = terminal.title
        let modes = ScreenDifference.Modes(terminal)
        if modes != self.modes { difference.modes = modes }
        self.modes = modes
        let scrollback = ScreenDifference.ScrollbackRange(
            first: terminal.scrollbackFirst, count: terminal.scrollbackCount)
        if scrollback != self.scrollback { difference.scrollback = scrollback }
        self.scrollback = scrollback
        difference.rings = terminal.bellCount != bellCount
        bellCount = terminal.bellCount
    }

    // MARK: - The scrollback

    /// Lines of the scrollback by their numbers: fewer when there are not so many, or they are long.
    ///
    /// Those that are gone are left out, at the beginning.
    package mutating func lines(from first: Int, count: Int, of terminal: Terminal) -> ScreenDifference {
        forgetStyles()
        var difference = ScreenDifference()
        let oldest = terminal.scrollbackFirst
        let (end, isTooMuch) = first.addingReportingOverflow(max(0, min(count, Self.lineLimit)))
        let range = min(max(first, oldest), oldest + terminal.scrollbackCount)
        var cost = 0
        for number in range..<max(range, isTooMuch ? range : min(end, oldest + terminal.scrollbackCount)) {
            let row = terminal.scrollbackRow(number - oldest)
            let line = terminal.line(row.cells, isWrapped: row.isWrapped)
            cost += line.cost
            difference.rows.append(self.number(line, as: number, &difference, &cost))
            if cost >= Self.budget { break }
        }
        return difference
    }

    // MARK: - Styles

    private mutating func forgetStyles() {
        // Whatever the viewer has shown keeps its style: numbers are only used anew.
        if numbers.count >= Self.styleLimit { numbers.removeAll(keepingCapacity: true) }
    }

    private mutating func number(
        _ line: ScreenLine, as number: Int, _ difference: inout ScreenDifference, _ cost: inout Int
    ) -> ScreenDifference.NumberedLine {
        let runs = line.runs.map { run in
            guard run.style != RunStyle() else { return (run: run, style: 0) }
            if let number = numbers[run.style] { return (run: run, style: number) }
            let number = numbers.count + 1
            numbers[run.style] = number
            difference.styles.append(ScreenDifference.NumberedStyle(number: number, style: run.style))
            cost += 80 + (run.style.link?.count ?? 0)
            return (run: run, style: number)
        }
        return ScreenDifference.NumberedLine(number: number, runs: runs, isWrapped: line.isWrapped)
    }
}

extension ScreenDifference.Cursor {
    /// The cursor of a terminal, in the column where it will be.
    fileprivate init(_ terminal: Terminal, column: Int?) {
        self.column = min(column ?? terminal.cursor.column, terminal.columns - 1)
        row = terminal.cursor.row
        isVisible = terminal.modes.cursorVisible
        let style = terminal.modes.cursorStyle
        shape = style >= 5 ? .bar : style >= 3 ? .underline : .block
        blinks = style == 0 ? terminal.modes.cursorBlink : style % 2 == 1
    }
}

extension ScreenDifference.Modes {
    fileprivate init(_ terminal: Terminal) {
        mouse = terminal.modes.mouse
        bracketedPaste = terminal.modes.bracketedPaste
        applicationCursor = terminal.modes.applicationCursor
        isAlternate = terminal.isAlternate
        isReversed = terminal.modes.reverseScreen
        focusEvents = terminal.modes.focusEvents
        sendsWheelAsKeys = InputEncoder(terminal).sendsWheelAsKeys
    }
}

/// Finds out whether rows have only moved.
private struct ScrollSearch {
    /// The movement that saves the most rows; nil when none saves two.
    private(set) var best: ScreenDifference.Scroll?

    init(_ old: [[Cell]?], _ new: [Row], _ changed: [Int]) {
        guard let shift = Self.commonShift(old, new, changed) else { return }
        // The longest stretch of rows that stood elsewhere by that shift.
        var start: Int?
        var found = 0..<0
        for index in 0...new.count {
            let place = index + shift
            let isMoved =
                index < new.count && old.indices.contains(place) && old[place].map { $0 == new[index].cells } == true
            if isMoved { start = start ?? index }
            guard !isMoved, let first = start else { continue }
            if index - first > found.count { found = first..<index }
            start = nil
        }
        // What becomes blank has to be sent, where it was right before.
        let blank =
            shift > 0 ? found.upperBound..<found.upperBound + shift : found.lowerBound + shift..<found.lowerBound
        let isChanged = Set(changed)
        let saved = isChanged.count(where: { found.contains($0) })
        let lost = blank.count(where: { !isChanged.contains($0) })
        guard saved - lost > 1 else { return }
        best = ScreenDifference.Scroll(
            top: min(found.lowerBound, blank.lowerBound), bottom: max(found.upperBound, blank.upperBound) - 1,
            count: shift)
    }

    /// The shift by which the most rows seem to have moved up.
    private static func commonShift(_ old: [[Cell]?], _ new: [Row], _ changed: [Int]) -> Int? {
        // Only rows that stood once tell where they were.
        var places: [UInt64: Int?] = [:]
        for (index, cells) in old.enumerated() {
            guard let cells, let hash = hash(cells) else { continue }
            places.updateValue(places.keys.contains(hash) ? nil : index, forKey: hash)
        }
        var votes: [Int: Int] = [:]
        for index in changed {
            guard let hash = hash(new[index].cells), let place = places[hash] ?? nil, place != index else { continue }
            votes[place - index, default: 0] += 1
        }
        let best = votes.max { ($0.value, $1.key) < ($1.value, $0.key) }
        return best.flatMap { $0.value > 1 ? $0.key : nil }
    }

    /// A hash of what stands in a row; nil for a blank one.
    private static func hash(_ cells: [Cell]) -> UInt64? {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        var isBlank = true
        for cell in cells {
            isBlank = isBlank && cell.content == 0
            let colors = UInt64(cell.foreground.code) << 32 | UInt64(cell.background.code)
            let rest = UInt64(cell.content) << 32 | UInt64(cell.attributes.rawValue) << 16 | UInt64(cell.extra)
            hash = (hash ^ colors) &* 0x100_0000_01B3
            hash = (hash ^ rest) &* 0x9E37_79B9_7F4A_7C15
            hash ^= hash >> 29
        }
        return isBlank ? nil : hash
    }
}
