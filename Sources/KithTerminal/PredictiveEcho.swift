/// Shows what a person types before the device has answered, as mosh does, and takes it back without a trace.
///
/// It stands between a remote program's output and the person's terminal. It guesses that printable characters appear
/// at the cursor, that backspace removes one, and that the left and right arrows move; guesses are drawn underlined
/// until the device has shown the same. All are on the cursor's row and are drawn with column moves only, so it does not
/// matter where on the person's screen that row is.
///
/// Nothing is shown before a guess of the same line has come true: that is what keeps a password unseen.
///
///     typed ──▶ hidden ──the first one came true──▶ underlined ──came true──▶ forgotten
///                 └────────────── another thing appeared ──────────────▶ all taken back
///
/// While nothing is drawn, output passes unchanged.
package struct PredictiveEcho: Sendable {
    /// The rule by which guesses are drawn.
    package enum Mode: String, Hashable, Sendable, CaseIterable {
        /// On slow paths: from 30 ms smoothed round trip on, until it falls below 20 ms; also once a guess stands for
        /// 250 ms.
        case adaptive
        /// Always.
        case always
        /// Never.
        case never
    }

    /// The rule by which guesses are drawn.
    package var mode: Mode
    /// The person's terminal as the remote program left it.
    package private(set) var terminal: Terminal

    static let slowRoundTrip = Duration.milliseconds(30)
    static let fastRoundTrip = Duration.milliseconds(20)
    static let glitch = Duration.milliseconds(250)
    /// More bytes at once are pasted, not typed.
    static let pasteLimit = 64
    static let stepLimit = 256

    /// A guess about one column: what stands there once the input up to `end` was processed.
    private struct Step: Sendable {
        var end: UInt64
        var content: UInt32
        var style: Cell
        var epoch: Int
        var typedAt: Duration
    }

    private struct Column: Sendable {
        /// The character that stood there before the guesses.
        var original: UInt32
        var steps: [Step]
    }

    private struct CursorStep: Sendable {
        var end: UInt64
        var column: Int
        var epoch: Int
        var typedAt: Duration
    }

    private var columns: [Int: Column] = [:]
    private var cursors: [CursorStep] = []
    /// The row all guesses are on.
    private var row = 0
    private var isAlternate = false
    /// Guesses of one epoch come true or fall together; a new one begins where the effect of a key is not known.
    private var epoch = 1
    private var confirmedEpoch = 0
    /// No guesses before the device has processed the input up to here.
    private var blindUntil: UInt64 = 0
    private var echoedUpTo: UInt64 = 0
    private var typedUpTo: UInt64 = 0
    private var smoothed: Duration?
    private var isSlow = false
    private var isLate = false
    /// Keys pressed while it was not known where they would act.
    private var waiting: [(key: Key, end: UInt64, typedAt: Duration)] = []
    /// The beginning of a key's sequence that came in pieces.
    private var key: [UInt8] = []

    /// The predicted cells on the person's terminal now.
    private var drawn: [Int: Cell] = [:]
    private var drawnCursor: Int?
    private var hasNotice = false

    /// Begins with the person's terminal in the state of `terminal`, at least what its row of the cursor is concerned.
    package init(terminal: Terminal, mode: Mode = .adaptive) {
        self.terminal = terminal
        self.mode = mode
    }

    /// True when something is drawn that the device has not shown.
    package var isShowing: Bool { !drawn.isEmpty || drawnCursor != nil }

    /// The time at which ``timedOut(now:)`` is due, on the clock of the other calls; nil when nothing waits.
    package var deadline: Duration? {
        guard mode == .adaptive, !isSlow, !isLate else { return nil }
        return oldest.map { $0 + Self.glitch }
    }

    private var oldest: Duration? {
        (columns.values.flatMap(\.steps).map(\.typedAt) + cursors.map(\.typedAt)).min()
    }

    /// The row and cells that are drawn ahead of the echo, and the column where the cursor is drawn then.
    package var drawing: (row: Int, cells: [Int: Cell], cursor: Int?) { (row, drawn, drawnCursor) }

    /// Takes the terminal's answers to what the program asked, as ``Terminal/takeReplies()``.
    package mutating func takeReplies() -> [UInt8] { terminal.takeReplies() }

    // MARK: - Events

    /// Takes a measurement of the round trip in.
    package mutating func roundTrip(_ sample: Duration) {
        let smooth = smoothed.map { $0 + (sample - $0) / 8 } ?? sample
        smoothed = smooth
        if smooth >= Self.slowRoundTrip { isSlow = true }
        if smooth < Self.fastRoundTrip { isSlow = false }
    }

    /// The person typed `bytes`, after `inputPosition` bytes of input before them; answers what to draw.
    package mutating func typed(_ bytes: [UInt8], inputPosition: UInt64, now: Duration) -> [UInt8] {
        typedUpTo = max(typedUpTo, inputPosition + UInt64(bytes.count))
        guard mode != .never else { return draw(now: now) }
        if bytes.count > Self.pasteLimit {
            key = []
            lose(until: typedUpTo)
            return draw(now: now)
        }
        for (index, byte) in bytes.enumerated() { take(byte, end: inputPosition + UInt64(index) + 1, now: now) }
        return draw(now: now)
    }

    /// Output came; answers it with what takes drawn guesses back before it and puts those that still stand after it.
    package mutating func arrived(_ output: [UInt8], now: Duration) -> [UInt8] {
        var bytes = hideNotice(now: now) + undraw()
        terminal.feed(output)
        bytes += output
        review(acknowledged: nil)
        return bytes + draw(now: now)
    }

    /// The device has processed the input up to `inputPosition`, and what it wrote in answer has arrived here; answers
    /// what to draw.
    ///
    /// A program echoes a little after it was given its input: the device should say so only after a pause (mosh waits
    /// 50 ms) or with the output that followed, else guesses that were right are taken back.
    package mutating func echoed(upTo inputPosition: UInt64, now: Duration) -> [UInt8] {
        echoedUpTo = max(echoedUpTo, inputPosition)
        review(acknowledged: echoedUpTo)
        pressWaiting()
        return draw(now: now)
    }

    /// The ``deadline`` passed; answers what to draw.
    package mutating func timedOut(now: Duration) -> [UInt8] { draw(now: now) }

    /// Answers what shows a line of our own: in the first row of what the device has shown, or at the right of the
    /// cursor when that is in it.
    ///
    /// Rows above may hold what stood there before; nobody could bring that back. In the middle of a sequence nothing
    /// is shown. More output takes the notice away first.
    package mutating func showNotice(_ text: String, now: Duration) -> [UInt8] {
        guard isAtRest, !terminal.modes.insert, isASCII else { return [] }
        let bytes = undraw()
        var painter = SnapshotPainter(terminal: terminal, style: terminal.cursor.style)
        painter.write(notice: text, rowsUp: noticeDistance)
        hasNotice = true
        return bytes + painter.bytes + draw(now: now)
    }

    /// True while a notice stands.
    package var showsNotice: Bool { hasNotice }

    /// Answers what takes the notice away and shows again what it covers.
    package mutating func hideNotice(now: Duration) -> [UInt8] {
        guard hasNotice else { return [] }
        hasNotice = false
        let bytes = undraw()
        var painter = SnapshotPainter(terminal: terminal, style: terminal.cursor.style)
        painter.repaint(rowsUp: noticeDistance)
        return bytes + painter.bytes + draw(now: now)
    }

    /// The distance of the notice above the cursor; the cursor does not leave its margins upwards.
    private var noticeDistance: Int {
        let (row, margin) = (terminal.cursor.row, terminal.topMargin)
        return row >= margin ? row - margin : row
    }

    private var isASCII: Bool { terminal.cursor.charsets[terminal.cursor.charset] == Charset.ascii.rawValue }

    /// The person's terminal has a new size; answers what to draw.
    package mutating func resize(columns: Int, rows: Int, now: Duration) -> [UInt8] {
        let notice = hideNotice(now: now)
        let hadDrawn = isShowing
        terminal.resize(columns: columns, rows: rows)
        lose(until: typedUpTo)
        self.columns = [:]
        cursors = []
        drawn = drawn.filter { $0.key < terminal.columns }
        row = terminal.cursor.row
        return notice + (hadDrawn && isAtRest ? undraw() : [])
    }

    // MARK: - Guessing

    private enum Key: Sendable {
        case character(Unicode.Scalar), left, right, backspace, other
    }

    private mutating func take(_ byte: UInt8, end: UInt64, now: Duration) {
        key.append(byte)
        let pressed: Key
        switch key {
        case [0x1B], [0x1B, 0x5B], [0x1B, 0x4F]: return
        case [0x1B, 0x5B, 0x43], [0x1B, 0x4F, 0x43]: pressed = .right
        case [0x1B, 0x5B, 0x44], [0x1B, 0x4F, 0x44]: pressed = .left
        case [0x7F], [0x08]: pressed = .backspace
        default:
            switch character {
            case .incomplete: return
            case .complete(let scalar) where CharacterWidth.columns(scalar) == 1: pressed = .character(scalar)
            case .complete, .none: pressed = .other
            }
        }
        key = []
        press(pressed, end: end, now: now)
    }

    private enum Character {
        case none, incomplete, complete(Unicode.Scalar)
    }

    /// The character that the bytes of `key` are.
    private var character: Character {
        guard let first = key.first, first >= 0x20, first != 0x7F else { return .none }
        var parser = EscapeParser()
        for (index, byte) in key.enumerated() {
            switch parser.take(byte) {
            case .none: continue
            case .print(let scalar): return index == key.count - 1 ? .complete(scalar) : .none
            default: return .none
            }
        }
        return .incomplete
    }

    /// Guesses what a key does, or keeps it until it is known where it will act.
    private mutating func press(_ key: Key, end: UInt64, now: Duration) {
        guard blindUntil <= echoedUpTo else {
            waiting.append((key, end, now))
            if waiting.count > Self.stepLimit { lose(until: end) }
            return
        }
        guess(end: end) { echo in
            switch key {
            case .character(let scalar): echo.insert(scalar, end: end, now: now)
            case .left: echo.left(end: end, now: now)
            case .right: echo.right(end: end, now: now)
            case .backspace: echo.backspace(end: end, now: now)
            case .other: false
            }
        }
    }

    /// Guesses what the keys do that were pressed while it was not known where they would act.
    private mutating func pressWaiting() {
        guard blindUntil <= echoedUpTo, !waiting.isEmpty else { return }
        let keys = waiting.filter { $0.end > echoedUpTo }
        waiting = []
        for (key, end, typedAt) in keys { press(key, end: end, now: typedAt) }
    }

    private var isAtRest: Bool { terminal.parser.isAtRest && terminal.singleShift == nil }

    /// True when a character printed now would simply stand at the cursor.
    private var isPlain: Bool {
        let cursor = terminal.cursor
        return isAtRest && !terminal.modes.insert && !cursor.wrapsNext && terminal.modes.cursorVisible
            && isASCII
    }

    /// Makes a guess from where the last ended; what cannot be guessed ends the epoch.
    private mutating func guess(end: UInt64, _ body: (inout PredictiveEcho) -> Bool) {
        if columns.isEmpty, cursors.isEmpty {
            guard isPlain else { return lose(until: end) }
            row = terminal.cursor.row
            isAlternate = terminal.isAlternate
        }
        if cursors.count >= Self.stepLimit || !body(&self) { lose(until: end) }
    }

    /// Takes the screen for unknown until the device has processed the input up to `end`.
    private mutating func lose(until end: UInt64) {
        epoch += 1
        blindUntil = max(blindUntil, end)
        waiting.removeAll { $0.end <= end }
    }

    private mutating func dropAll() {
        columns = [:]
        cursors = []
        lose(until: typedUpTo)
    }

    private var column: Int { cursors.last?.column ?? terminal.cursor.column }

    /// The scalar in a row's cell; a space when erased, `nil` for half of a wide character.
    private func content(_ cell: Cell) -> UInt32? {
        cell.attributes.isDisjoint(with: .halves) ? (cell.content == 0 ? 0x20 : cell.content) : nil
    }

    private func real(_ column: Int) -> UInt32? { content(terminal.screen[row].cells[column]) }

    /// The content and style a column has, guesses included; nil for a half of a wide character.
    private func guessed(_ column: Int) -> (content: UInt32, style: Cell)? {
        if let step = columns[column]?.steps.last { return (step.content, step.style) }
        return real(column).map { ($0, terminal.screen[row].cells[column]) }
    }

    private mutating func set(_ column: Int, _ content: UInt32, style: Cell, end: UInt64, now: Duration) {
        let step = Step(end: end, content: content, style: style, epoch: epoch, typedAt: now)
        guard let original = columns[column]?.original ?? real(column) else { return }
        columns[column, default: Column(original: original, steps: [])].steps.append(step)
    }

    private mutating func move(to column: Int, end: UInt64, now: Duration) {
        cursors.append(CursorStep(end: end, column: column, epoch: epoch, typedAt: now))
    }

    /// The columns from `column` on that hold something, or nil when a wide character is among them.
    private func tail(from column: Int) -> Range<Int>? {
        var end = column
        for index in column..<terminal.columns {
            guard let cell = guessed(index) else { return nil }
            if cell.content != 0x20 { end = index + 1 }
        }
        return column..<end
    }

    private mutating func insert(_ scalar: Unicode.Scalar, end: UInt64, now: Duration) -> Bool {
        let column = column
        // What happens at the last column depends on the program.
        guard column < terminal.columns - 1, let tail = tail(from: column) else { return false }
        for index in tail.reversed() where index + 1 < terminal.columns - 1 {
            guard let cell = guessed(index) else { return false }
            set(index + 1, cell.content, style: cell.style, end: end, now: now)
        }
        set(column, scalar.value, style: terminal.cursor.style, end: end, now: now)
        move(to: column + 1, end: end, now: now)
        return true
    }

    private mutating func backspace(end: UInt64, now: Duration) -> Bool {
        let column = column
        guard column > 0, let tail = tail(from: column - 1) else { return false }
        for index in tail where index < terminal.columns - 1 {
            guard let cell = guessed(index + 1) else { return false }
            set(index, cell.content, style: cell.style, end: end, now: now)
        }
        move(to: column - 1, end: end, now: now)
        return true
    }

    private mutating func left(end: UInt64, now: Duration) -> Bool {
        guard column > 0, guessed(column - 1) != nil else { return false }
        move(to: column - 1, end: end, now: now)
        return true
    }

    private mutating func right(end: UInt64, now: Duration) -> Bool {
        // Behind the text there is nothing to move over.
        guard column < terminal.columns - 1, let tail = tail(from: column), !tail.isEmpty else { return false }
        move(to: column + 1, end: end, now: now)
        return true
    }

    // MARK: - Judging

    /// Compares the guesses with what the device shows; `acknowledged` is the input it has surely processed.
    private mutating func review(acknowledged: UInt64?) {
        guard !columns.isEmpty || !cursors.isEmpty else { return }
        guard terminal.cursor.row == row, terminal.isAlternate == isAlternate else { return dropAll() }
        for (index, column) in columns {
            guard let real = real(index) else { return dropAll() }
            let due = acknowledged.map { end in column.steps.filter { $0.end <= end }.count } ?? 0
            // The device may be ahead of what it has acknowledged, never behind.
            if let match = column.steps.indices.last(where: { $0 >= due - 1 && column.steps[$0].content == real }) {
                let isNews = column.steps[match].content != column.original
                guard due > 0 || isNews else { continue }
                if isNews { confirmedEpoch = max(confirmedEpoch, column.steps[match].epoch) }
                let left = Array(column.steps[(match + 1)...])
                columns[index] = left.isEmpty ? nil : Column(original: real, steps: left)
            } else if due > 0 || real != column.original {
                return dropAll()
            }
        }
        reviewCursor(acknowledged: acknowledged)
    }

    private mutating func reviewCursor(acknowledged: UInt64?) {
        let due = acknowledged.map { end in cursors.filter { $0.end <= end }.count } ?? 0
        let pending = columns.values.flatMap(\.steps).map(\.end).min() ?? .max
        let match = cursors.indices.last { index in
            index >= due - 1 && cursors[index].column == terminal.cursor.column && cursors[index].end < pending
        }
        if let match {
            cursors.removeFirst(match + 1)
        } else if due > 0 {
            dropAll()
        }
    }

    // MARK: - Drawing

    private mutating func isShown(now: Duration) -> Bool {
        switch mode {
        case .never: return false
        case .always: return true
        case .adaptive:
            if let oldest {
                if now - oldest >= Self.glitch { isLate = true }
            } else {
                isLate = false
            }
            return isSlow || isLate
        }
    }

    /// Brings the person's terminal from what is drawn to what should be.
    private mutating func draw(now: Duration) -> [UInt8] {
        // In the middle of a sequence nothing can be drawn; nothing is drawn then either, see `arrived`.
        guard isAtRest else { return [] }
        var wanted: [Int: Cell] = [:]
        var wantedCursor: Int?
        let isDrawable = !terminal.modes.insert && isASCII
        if isShown(now: now), isDrawable {
            for (index, column) in columns {
                guard let step = column.steps.last(where: { $0.epoch <= confirmedEpoch }) else { continue }
                var cell = step.style
                cell.content = step.content
                cell.attributes.subtract(.halves)
                cell.attributes.underline = .single
                // Where something was taken away there is nothing to underline.
                if step.content == 0x20, column.original != 0x20 { cell.attributes.underline = .none }
                wanted[index] = cell
            }
            wantedCursor = cursors.last { $0.epoch <= confirmedEpoch }?.column
        }
        return draw(wanted, cursor: wantedCursor)
    }

    /// Takes all that is drawn back.
    private mutating func undraw() -> [UInt8] { draw([:], cursor: nil) }

    private mutating func draw(_ wanted: [Int: Cell], cursor wantedCursor: Int?) -> [UInt8] {
        guard wanted != drawn || wantedCursor != drawnCursor else { return [] }
        var painter = SnapshotPainter(terminal: terminal, style: terminal.cursor.style)
        var isStyleKnown = !isShowing
        for index in Set(wanted.keys).union(drawn.keys).sorted() where wanted[index] != drawn[index] {
            painter.moveTo(column: index)
            if !isStyleKnown { painter.forceStyle(Cell()) }
            isStyleKnown = true
            painter.draw(wanted[index] ?? terminal.screen[row].cells[index])
        }
        if wanted.isEmpty, wantedCursor == nil {
            if !isStyleKnown { painter.forceStyle(terminal.cursor.style) }
            painter.restoreCursorInRow()
        } else {
            painter.moveTo(column: wantedCursor ?? terminal.cursor.column)
        }
        drawn = wanted
        drawnCursor = wantedCursor
        return painter.bytes
    }
}

extension SnapshotPainter {
    /// For changes to a terminal that is in the state of `terminal`, with `style` on.
    init(terminal: Terminal, style: Cell) {
        self.init(terminal: terminal)
        assume(style)
    }

    mutating func moveTo(column: Int) { control("\(column + 1)G") }

    /// Draws a cell as it is, also an erased one, at the cursor.
    mutating func draw(_ cell: Cell) {
        guard cell.isErased else { return write(cell) }
        var blank = Cell()
        blank.background = cell.background
        set(style: blank)
        control("X")
    }

    /// Writes a line of our own, inverted, and brings the cursor back.
    mutating func write(notice text: String, rowsUp: Int) {
        let start =
            rowsUp > 0 ? 0 : max(terminal.cursor.column + 4, terminal.columns - 1 - text.count)
        let room = terminal.columns - 1 - start
        guard room > 0 else { return }
        move(rowsUp: rowsUp)
        moveTo(column: start)
        forceStyle(Cell())
        control("7m")
        write(String(text.prefix(room)))
        control("0m")
        control("K")
        move(rowsUp: -rowsUp)
        restoreCursorInRow()
    }

    /// Paints the row again that is so far above the cursor, and brings the cursor back.
    mutating func repaint(rowsUp: Int) {
        move(rowsUp: rowsUp)
        moveTo(column: 0)
        forceStyle(Cell())
        control("K")
        paint([terminal.screen[terminal.cursor.row - rowsUp]])
        move(rowsUp: -rowsUp)
        restoreCursorInRow()
    }

    private mutating func move(rowsUp count: Int) {
        if count != 0 { control(count > 0 ? "\(count)A" : "\(-count)B") }
    }

    /// Brings the cursor to its column, behind the last one when it waits there, and its style on.
    mutating func restoreCursorInRow() {
        let cursor = terminal.cursor
        let cells = terminal.screen[cursor.row].cells
        if cursor.wrapsNext, !cells[cursor.column].isErased {
            let start = cells[cursor.column].isWideTail ? cursor.column - 1 : cursor.column
            moveTo(column: start)
            write(cells[start])
        } else {
            moveTo(column: cursor.column)
        }
        set(style: cursor.style)
    }
}
