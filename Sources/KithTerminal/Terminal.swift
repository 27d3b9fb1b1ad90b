/// A terminal compatible with xterm, as a value: fed with bytes, it knows what a person would see.
///
/// It does what xterm does for what programs use: both screens, scrollback, margins, modes, colours, hyperlinks, titles.
/// It does not do left and right margins (DECLRMM), rectangles (DECCRA and its kin), 132 columns (DECCOLM), Sixel or
/// 8-bit controls, and says so when asked (DECRQM, DA).
///
/// Everything is bounded: the scrollback by a number of lines, strings by 64 KiB, parameters by 32, marks on one
/// character by 16, tables of links and clusters by 65,535 entries.
package struct Terminal: Sendable {
    package private(set) var columns: Int
    package private(set) var rowCount: Int
    /// The rows of the screen that is shown.
    package internal(set) var screen: [Row]
    package internal(set) var cursor = TerminalCursor()
    package internal(set) var modes = TerminalModes()
    /// The first row that scrolls.
    package internal(set) var topMargin = 0
    /// The last row that scrolls.
    package internal(set) var bottomMargin: Int
    /// The window's title (OSC 0 and 2).
    package internal(set) var title: [UInt8] = []
    /// The icon's name (OSC 0 and 1).
    package internal(set) var iconName: [UInt8] = []
    /// The number of BELs so far.
    package internal(set) var bellCount = 0

    var scrollback: Scrollback
    /// The main screen while the alternate one is shown.
    var mainScreen: [Row]?
    /// The cursor that DECSC saved on the screen that is shown.
    var saved = TerminalCursor()
    /// The cursor that DECSC saved on the main screen while the alternate one is shown.
    var mainSaved = TerminalCursor()
    var tabStops: Set<Int>
    /// Titles kept by XTWINOPS 22.
    var titleStack: [(title: [UInt8], iconName: [UInt8])] = []
    /// Colours set by OSC 4 (0…255) and OSC 10…19 (266…275), as they were written.
    var palette: [Int: [UInt8]] = [:]
    /// Kitty's keyboard flags of the screen that is shown, the current last.
    var keyboard: [UInt16] = [0]
    /// Kitty's keyboard flags of the main screen while the alternate one is shown.
    var mainKeyboard: [UInt16] = [0]
    /// G2 or G3 for one character (SS2, SS3).
    var singleShift: Int?
    /// The character that REP repeats.
    var lastPrinted: Unicode.Scalar?
    var parser = EscapeParser()
    var replies: [UInt8] = []
    var extras = InternTable<CellExtra>(limit: 65_535)
    var clusters = InternTable<[Unicode.Scalar]>(limit: 65_535)
    /// How often numbers of the tables were given to other values: cells of before mean something else since.
    var sweeps = 0

    /// Sizes beyond these are taken for the nearest.
    package static let columnLimits = 2...4096
    /// Sizes beyond these are taken for the nearest.
    package static let rowLimits = 1...4096
    static let replyLimit = 65_536
    static let markLimit = 16

    /// An empty terminal that keeps `scrollbackLimit` lines after they left its screen.
    package init(columns: Int, rows: Int, scrollbackLimit: Int = 10_000) {
        self.columns = min(max(columns, Self.columnLimits.lowerBound), Self.columnLimits.upperBound)
        self.rowCount = min(max(rows, Self.rowLimits.lowerBound), Self.rowLimits.upperBound)
        screen = Array(repeating: Row(columns: self.columns), count: self.rowCount)
        bottomMargin = self.rowCount - 1
        scrollback = Scrollback(limit: max(0, scrollbackLimit))
        tabStops = Self.defaultTabStops(0..<self.columns)
    }

    /// True when the alternate screen is shown.
    package var isAlternate: Bool { mainScreen != nil }
    /// The number of lines in the scrollback.
    package var scrollbackCount: Int { scrollback.count }
    /// The number of the oldest line of the scrollback; a number is never given to another line.
    package var scrollbackFirst: Int { scrollback.firstNumber }
    /// A line of the scrollback; 0 is the oldest.
    package func scrollbackRow(_ index: Int) -> Row { scrollback[index] }

    /// Takes the answers to what the program asked since the last call; they belong into its input.
    ///
    /// At most 64 KiB are kept; later answers are dropped.
    package mutating func takeReplies() -> [UInt8] {
        defer { replies.removeAll() }
        return replies
    }

    /// The text in `cell`: one character with its marks, empty when erased.
    package func text(of cell: Cell) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: scalars(of: cell))
        return String(text)
    }

    func scalars(of cell: Cell) -> [Unicode.Scalar] {
        guard cell.content != 0 else { return [] }
        if cell.content & Cell.clusterBit != 0 { return clusters[Int(cell.content & ~Cell.clusterBit)] ?? [] }
        return Unicode.Scalar(cell.content).map { [$0] } ?? []
    }

    /// The hyperlink of `cell`.
    package func link(of cell: Cell) -> Hyperlink? { cell.extra == 0 ? nil : extras[Int(cell.extra) - 1]?.link }

    /// The colour of the line under `cell`.
    package func underlineColor(of cell: Cell) -> Color {
        cell.extra == 0 ? .standard : extras[Int(cell.extra) - 1]?.underlineColor ?? .standard
    }

    /// The text of a row of the screen, erased cells as spaces, without those at its end.
    package func line(_ row: Int) -> String {
        var line = ""
        for cell in screen[row].cells where !cell.isWideTail { line += cell.isErased ? " " : text(of: cell) }
        while line.hasSuffix(" ") { line.removeLast() }
        return line
    }

    // MARK: - Feeding

    /// Does what `bytes` say; they may end anywhere, also inside a character or sequence.
    package mutating func feed(_ bytes: [UInt8]) {
        unsafe bytes.withUnsafeBufferPointer { unsafe feed($0.span) }
    }

    /// Does what `bytes` say; they may end anywhere, also inside a character or sequence.
    package mutating func feed(_ bytes: Span<UInt8>) {
        var index = 0
        while index < bytes.count {
            if parser.isAtRest {
                var end = index
                while end < bytes.count, bytes[end] &- 0x20 < 0x5F { end += 1 }
                if end > index {
                    print(bytes, index..<end)
                    index = end
                    continue
                }
            }
            let action = parser.take(bytes[index])
            index += 1
            switch action {
            case .none: break
            case .print(let scalar): print(scalar)
            case .malformed:
                print("\u{FFFD}")
                index -= 1
            case .invalid: print("\u{FFFD}")
            case .execute(let byte): execute(byte)
            case .escape(let final): escape(final)
            case .control(let final): control(final)
            case .operatingSystemCommand: operatingSystemCommand()
            case .deviceControl(let final): deviceControl(final)
            }
        }
    }

    /// Prints a run of printable ASCII.
    private mutating func print(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        guard singleShift == nil, !modes.insert, cursor.charsets[cursor.charset] == Charset.ascii.rawValue else {
            for index in range { print(Unicode.Scalar(bytes[index])) }
            return
        }
        lastPrinted = Unicode.Scalar(bytes[range.upperBound - 1])
        var start = range.lowerBound
        while start < range.upperBound {
            if cursor.wrapsNext { wrap() }
            let count = min(range.upperBound - start, columns - cursor.column)
            screen[cursor.row].write(bytes, start..<start + count, at: cursor.column, style: cursor.style)
            cursor.column += count
            start += count
            guard cursor.column == columns else { continue }
            cursor.column = columns - 1
            cursor.wrapsNext = modes.autowrap
            if !modes.autowrap, start < range.upperBound { start = range.upperBound - 1 }
        }
    }

    /// Prints one character, or adds a mark to the one before the cursor.
    mutating func print(_ scalar: Unicode.Scalar) {
        var scalar = scalar
        let value = scalar.value
        if value < 0x7F {
            let slot = singleShift ?? cursor.charset
            singleShift = nil
            scalar = (Charset(rawValue: cursor.charsets[slot]) ?? .ascii).scalar(UInt8(value))
        } else if value < 0xA0 {
            return
        }
        let width = CharacterWidth.columns(scalar)
        guard width > 0 else { return join(scalar) }
        lastPrinted = scalar
        if cursor.wrapsNext { wrap() }
        if width == 2, cursor.column == columns - 1 {
            guard modes.autowrap else { return }
            screen[cursor.row].erase(cursor.column..<columns, with: Cell())
            wrap()
        }
        if modes.insert { screen[cursor.row].insert(width, at: cursor.column, with: erased) }
        var cell = cursor.style
        cell.content = scalar.value
        let column = cursor.column
        screen[cursor.row].openGap(column..<column + width)
        if width == 2 {
            cell.attributes.insert(.wide)
            screen[cursor.row].cells[column] = cell
            cell.content = 0
            cell.attributes.remove(.wide)
            cell.attributes.insert(.wideTail)
            screen[cursor.row].cells[column + 1] = cell
        } else {
            screen[cursor.row].cells[column] = cell
        }
        cursor.column += width
        if cursor.column >= columns {
            cursor.column = columns - 1
            cursor.wrapsNext = modes.autowrap
        }
    }

    /// Goes on in the next row, and remembers that the text does.
    private mutating func wrap() {
        cursor.wrapsNext = false
        cursor.column = 0
        let row = cursor.row
        let scrolls = row == bottomMargin
        lineFeed()
        // On the last row below the bottom margin there is nowhere to go: the text starts over in the same row.
        guard scrolls || cursor.row != row else { return }
        if scrolls, topMargin == bottomMargin {
            if topMargin == 0, mainScreen == nil { scrollback.continueLastLine() }
        } else {
            screen[cursor.row - 1].isWrapped = true
        }
    }

    /// Adds a mark to the character before the cursor.
    private mutating func join(_ scalar: Unicode.Scalar) {
        var column = cursor.wrapsNext ? cursor.column : cursor.column - 1
        if column > 0, screen[cursor.row].cells[column].isWideTail { column -= 1 }
        guard column >= 0 else { return }
        let cell = screen[cursor.row].cells[column]
        guard cell.content != 0 else { return }
        var cluster = scalars(of: cell)
        guard cluster.count <= Self.markLimit else { return }
        cluster.append(scalar)
        if let number = clusters.number(of: cluster) ?? numberAfterSweep(of: cluster) {
            screen[cursor.row].cells[column].content = UInt32(number) | Cell.clusterBit
        }
    }

    // MARK: - Tables

    private mutating func numberAfterSweep(of cluster: [Unicode.Scalar]) -> Int? {
        // Looking at every cell is dear: not before half of the table is new.
        guard clusters.added > clusters.limit / 2 else { return nil }
        var live: Set<Int> = []
        forEachCell { if $0.content & Cell.clusterBit != 0 { live.insert(Int($0.content & ~Cell.clusterBit)) } }
        clusters.keep(live)
        sweeps += 1
        return clusters.number(of: cluster)
    }

    /// The number for cells with this underline colour and link; 0 when there is neither, or no room.
    mutating func extra(_ extra: CellExtra) -> UInt16 {
        if extra == CellExtra() { return 0 }
        if let number = extras.number(of: extra) { return UInt16(number + 1) }
        guard extras.added > extras.limit / 2 else { return 0 }
        var live: Set<Int> = []
        forEachCell { if $0.extra != 0 { live.insert(Int($0.extra) - 1) } }
        for cell in [cursor.style, saved.style, mainSaved.style] where cell.extra != 0 {
            live.insert(Int(cell.extra) - 1)
        }
        extras.keep(live)
        sweeps += 1
        return extras.number(of: extra).map { UInt16($0 + 1) } ?? 0
    }

    private func forEachCell(_ body: (Cell) -> Void) {
        for row in screen { for cell in row.cells { body(cell) } }
        for row in mainScreen ?? [] { for cell in row.cells { body(cell) } }
        for index in 0..<scrollback.count { for cell in scrollback[index].cells { body(cell) } }
    }

    static func defaultTabStops(_ range: Range<Int>) -> Set<Int> {
        Set(range.filter { $0 > 0 && $0 % 8 == 0 })
    }

    mutating func setSize(columns: Int, rows: Int) {
        self.columns = columns
        rowCount = rows
    }
}
