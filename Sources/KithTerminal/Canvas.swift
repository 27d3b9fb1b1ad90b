/// The style of text on a ``Canvas``.
package struct TextStyle: Hashable, Sendable {
    package var foreground: Color
    package var background: Color
    package var attributes: CellAttributes

    package init(_ foreground: Color = .standard, on background: Color = .standard, _ attributes: CellAttributes = []) {
        self.foreground = foreground
        self.background = background
        self.attributes = attributes
    }

    /// The same with more attributes.
    package func with(_ more: CellAttributes) -> TextStyle {
        TextStyle(foreground, on: background, attributes.union(more))
    }
}

/// A grid of cells that a program draws its screen on; a ``CanvasRenderer`` shows it on a terminal.
///
/// Nothing that is written reaches a terminal as anything but visible characters: a control becomes U+FFFD, and what
/// has no width and is not a mark (joiners, direction marks) is left out. Text is never wrapped: what does not fit is cut.
package struct Canvas: Sendable {
    package private(set) var columns: Int
    package private(set) var rows: Int
    /// Row by row.
    private(set) var cells: [Cell]
    private(set) var clusters = InternTable<[Unicode.Scalar]>(limit: clusterLimit)
    /// Counts how often the numbers of the clusters were given anew.
    private(set) var generation = 0
    /// The position of the terminal's cursor; `nil` hides it.
    package var cursor: Position?

    /// A place on the grid.
    package struct Position: Hashable, Sendable {
        package var column: Int
        package var row: Int

        package init(column: Int, row: Int) {
            self.column = column
            self.row = row
        }
    }

    private static let clusterLimit = 4_096
    /// More marks on one character are left out.
    private static let markLimit = 8
    static let blank: Cell = {
        var cell = Cell()
        cell.content = 0x20
        return cell
    }()

    /// A blank canvas; sizes beyond those of a ``Terminal`` are taken for the nearest.
    package init(columns: Int, rows: Int) {
        self.columns = min(max(columns, Terminal.columnLimits.lowerBound), Terminal.columnLimits.upperBound)
        self.rows = min(max(rows, Terminal.rowLimits.lowerBound), Terminal.rowLimits.upperBound)
        cells = Array(repeating: Self.blank, count: self.columns * self.rows)
    }

    /// Makes everything blank, in a new size if need be.
    package mutating func clear(columns: Int? = nil, rows: Int? = nil) {
        let new = Canvas(columns: columns ?? self.columns, rows: rows ?? self.rows)
        (self.columns, self.rows, cells, cursor) = (new.columns, new.rows, new.cells, nil)
        // Numbers are kept from one picture to the next, so that the same cluster is the same cell.
        if clusters.added > Self.clusterLimit / 2 {
            clusters = InternTable(limit: Self.clusterLimit)
            generation += 1
        }
    }

    /// The character in a cell, a space in a blank one; nothing in the right half of a wide character.
    package func text(column: Int, row: Int) -> String {
        guard row >= 0, row < rows, column >= 0, column < columns else { return "" }
        var text = String.UnicodeScalarView()
        text.append(contentsOf: scalars(of: cells[row * columns + column]))
        return String(text)
    }

    /// The style of a cell.
    package func style(column: Int, row: Int) -> TextStyle {
        guard row >= 0, row < rows, column >= 0, column < columns else { return TextStyle() }
        let cell = cells[row * columns + column]
        return TextStyle(cell.foreground, on: cell.background, cell.attributes.subtracting(.halves))
    }

    /// The text of a row without the blanks at its end.
    package func line(_ row: Int) -> String {
        var line = (0..<columns).map { text(column: $0, row: row) }.joined()
        while line.last == " " { line.removeLast() }
        return line
    }

    func scalars(of cell: Cell) -> [Unicode.Scalar] {
        if cell.content & Cell.clusterBit != 0 { return clusters[Int(cell.content & ~Cell.clusterBit)] ?? [] }
        return cell.content == 0 ? [] : Unicode.Scalar(cell.content).map { [$0] } ?? []
    }

    // MARK: - Drawing

    /// Fills a part of a row, or several, with one character of width 1.
    package mutating func fill(
        columns range: Range<Int>, rows area: Range<Int>, with scalar: Unicode.Scalar = " ", _ style: TextStyle
    ) {
        let range = range.clamped(to: 0..<columns)
        guard !range.isEmpty else { return }
        for row in area.clamped(to: 0..<rows) {
            openGap(range, row: row)
            for column in range { cells[row * columns + column] = Self.cell(scalar, style) }
        }
    }

    /// Changes how a part of a row looks, and leaves its text.
    package mutating func restyle(columns range: Range<Int>, row: Int, _ change: (inout TextStyle) -> Void) {
        guard row >= 0, row < rows else { return }
        for column in range.clamped(to: 0..<columns) {
            var style = style(column: column, row: row)
            change(&style)
            let index = row * columns + column
            cells[index].foreground = style.foreground
            cells[index].background = style.background
            cells[index].attributes = style.attributes.union(cells[index].attributes.intersection(.halves))
        }
    }

    /// Writes text from a column on, as much as fits before `limit`; returns the column after it.
    @discardableResult
    package mutating func write(
        _ text: some StringProtocol, column: Int, row: Int, limit: Int? = nil, _ style: TextStyle = TextStyle()
    ) -> Int {
        guard row >= 0, row < rows, column >= 0 else { return column }
        let limit = min(limit ?? columns, columns)
        var column = column
        /// The cell a mark would stand on.
        var last: Int?
        for scalar in text.unicodeScalars {
            let shown = Self.shown(scalar)
            let width = CharacterWidth.columns(shown)
            if width == 0 {
                if let last, Self.isMark(shown) { join(shown, at: last) }
                continue
            }
            guard column + width <= limit else {
                // Half a wide character does not fit.
                if column < limit { fill(columns: column..<limit, rows: row..<row + 1, style) }
                return max(column, limit)
            }
            openGap(column..<column + width, row: row)
            let index = row * columns + column
            cells[index] = Self.cell(shown, style)
            if width == 2 {
                cells[index].attributes.insert(.wide)
                cells[index + 1] = Self.cell("\0", style)
                cells[index + 1].attributes.insert(.wideTail)
            }
            last = index
            column += width
        }
        return column
    }

    private static func cell(_ scalar: Unicode.Scalar, _ style: TextStyle) -> Cell {
        var cell = Cell()
        cell.content = scalar.value
        cell.foreground = style.foreground
        cell.background = style.background
        cell.attributes = style.attributes.subtracting(.halves)
        return cell
    }

    /// The scalar that is drawn for a scalar.
    private static func shown(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        let value = scalar.value
        if value < 0x20 || (0x7F..<0xA0).contains(value) { return "\u{FFFD}" }
        // Lines of the kind that terminals take for line ends.
        if value == 0x2028 || value == 0x2029 { return "\u{FFFD}" }
        return scalar
    }

    /// Tells whether a scalar of no width changes the look of the one before it, in the same width on every terminal.
    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        // Variation selectors make some terminals widen what stands before them.
        if (0xFE00...0xFE0F).contains(scalar.value) || scalar.value >= 0xE0000 { return false }
        return scalar.properties.generalCategory != .format
    }

    private mutating func join(_ mark: Unicode.Scalar, at index: Int) {
        var cluster = scalars(of: cells[index])
        guard cluster.count <= Self.markLimit else { return }
        cluster.append(mark)
        // A full table leaves the mark out.
        if let number = clusters.number(of: cluster) { cells[index].content = UInt32(number) | Cell.clusterBit }
    }

    /// Makes spaces of the halves of wide characters that are about to be cut.
    private mutating func openGap(_ range: Range<Int>, row: Int) {
        for column in [range.lowerBound, range.upperBound] where column > 0 && column < columns {
            let index = row * columns + column
            if cells[index].isWideTail {
                cells[index - 1].blank()
                cells[index].blank()
            }
        }
    }
}

extension CharacterWidth {
    /// The number of columns a text takes on a ``Canvas``.
    package static func columns(of text: some StringProtocol) -> Int {
        text.unicodeScalars.reduce(0) { $0 + columns($1) }
    }

    /// The text cut to `width` columns, with `…` where something is missing: at its end, or at its beginning.
    package static func fitted(_ text: String, width: Int, keepsEnd: Bool = false) -> String {
        guard columns(of: text) > width else { return text }
        guard width > 0 else { return "" }
        var rest = width - 1
        var kept: [Character] = []
        let characters: any Sequence<Character> = keepsEnd ? AnySequence(text.reversed()) : AnySequence(text)
        for character in characters {
            rest -= columns(of: String(character))
            guard rest >= 0 else { break }
            kept.append(character)
        }
        return keepsEnd ? "…" + String(kept.reversed()) : String(kept) + "…"
    }
}
