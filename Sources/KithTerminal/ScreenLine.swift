/// The style of text that is drawn elsewhere: what SGR and OSC 8 say, without a terminal's tables.
package struct RunStyle: Hashable, Sendable {
    package var foreground = Color.standard
    package var background = Color.standard
    package var underlineColor = Color.standard
    package var attributes: CellAttributes = []
    /// The target of the hyperlink.
    package var link: [UInt8]?
    /// Typed, and not yet echoed.
    package var isPredicted = false

    package init() {}
}

/// Characters of one style that stand side by side.
package struct TextRun: Hashable, Sendable {
    package var text: String
    package var style: RunStyle
    /// The columns it takes; nil when each character is one UTF-16 unit in one column.
    package var width: Int?

    package init(text: String, style: RunStyle, width: Int? = nil) {
        self.text = text
        self.style = style
        self.width = width
    }
}

/// A row of the screen or a line of the scrollback, as runs; what is blank at its end is left out.
package struct ScreenLine: Hashable, Sendable {
    package var runs: [TextRun] = []
    /// The text goes on in the next row.
    package var isWrapped = false

    package init() {}

    /// An estimate of its size where it is written out.
    var cost: Int { runs.reduce(8) { $0 + $1.text.utf8.count + 32 } }
}

extension Terminal {
    /// The longest link that is passed on.
    static let shownLinkLimit = 1_024
    private static let linkSchemes = ["http:", "https:", "mailto:"].map { Array($0.utf8) }

    /// The row as runs.
    ///
    /// Characters that fonts often draw in a width of their own, marks and wide characters are apart, with their width.
    /// Characters that change the direction of text are left out: the columns are the program's.
    func line(_ cells: [Cell], isWrapped: Bool) -> ScreenLine {
        var builder = LineBuilder(isWrapped: isWrapped)
        var used = cells.count
        while used > 0, cells[used - 1].isPlain, !cells[used - 1].attributes.contains(.predicted) { used -= 1 }
        var column = 0
        while column < used {
            let cell = cells[column]
            // A half without the other is a space: where something is drawn over it.
            let isWide = cell.isWide && column + 1 < cells.count && cells[column + 1].isWideTail
            if cell.isWide != isWide || cell.isWideTail {
                builder.add(" ", cell) { style(of: cell) }
            } else if cell.content & Cell.clusterBit != 0 {
                builder.add(scalars(of: cell), isWide: isWide, cell) { style(of: cell) }
            } else {
                let scalar = cell.content == 0 ? " " : Unicode.Scalar(cell.content) ?? " "
                builder.add(scalar, isWide: isWide, cell) { style(of: cell) }
            }
            column += isWide ? 2 : 1
        }
        return builder.finished()
    }

    private func style(of cell: Cell) -> RunStyle {
        var style = RunStyle()
        style.foreground = cell.foreground
        style.background = cell.background
        style.underlineColor = underlineColor(of: cell)
        style.attributes = cell.attributes.subtracting([.wide, .wideTail, .predicted])
        style.isPredicted = cell.attributes.contains(.predicted)
        if let target = link(of: cell)?.target, target.count <= Self.shownLinkLimit,
            Self.linkSchemes.contains(where: { scheme in
                target.count >= scheme.count && zip(target, scheme).allSatisfy { $0 | 0x20 == $1 }
            })
        {
            style.link = target
        }
        return style
    }
}

/// Puts cells together to runs.
private struct LineBuilder {
    /// The ways in which characters can be put side by side.
    private enum Kind {
        /// One UTF-16 unit, one column, and in all fonts as wide as the others.
        case plain
        case wide
        /// A run of its own.
        case single
    }

    private var line = ScreenLine()
    private var text = String.UnicodeScalarView()
    private var kind = Kind.plain
    private var width = 0
    /// The cell whose style the run has.
    private var last: Cell?
    private var style = RunStyle()

    init(isWrapped: Bool) { line.isWrapped = isWrapped }

    /// Adds one character; those that turn text take no column, and are marks of another.
    mutating func add(_ scalar: Unicode.Scalar, isWide: Bool = false, _ cell: Cell, style: () -> RunStyle) {
        begin(isWide ? .wide : Self.isPlain(scalar) ? .plain : .single, cell, style: style)
        text.append(scalar)
        width += isWide ? 2 : 1
    }

    /// Adds a character with marks.
    mutating func add(_ scalars: [Unicode.Scalar], isWide: Bool, _ cell: Cell, style: () -> RunStyle) {
        let shown = scalars.filter { !Self.turnsText($0) }
        begin(isWide ? .wide : .single, cell, style: style)
        text.append(contentsOf: shown.isEmpty ? [" "] : shown)
        width += isWide ? 2 : 1
    }

    private mutating func begin(_ kind: Kind, _ cell: Cell, style: () -> RunStyle) {
        if let last, !last.hasStyle(of: cell) || kind != self.kind || kind == .single { endRun() }
        guard last == nil else { return }
        self.style = style()
        self.kind = kind
        last = cell
    }

    private mutating func endRun() {
        guard last != nil else { return }
        let run = TextRun(text: String(text), style: style, width: kind == .plain ? nil : width)
        // Two numbers of the terminal's table may stand for one style here.
        if run.width == nil, let before = line.runs.last, before.width == nil, before.style == style {
            line.runs[line.runs.count - 1].text += run.text
        } else {
            line.runs.append(run)
        }
        text = String.UnicodeScalarView()
        width = 0
        last = nil
    }

    mutating func finished() -> ScreenLine {
        endRun()
        return line
    }

    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        // Nothing is drawn of it.
        case 0xAD: false
        // Latin, Greek, Cyrillic; dashes, quotes, dots; arrows; what frames are drawn of.
        case 0x20..<0x0590, 0x2010...0x2026, 0x2190...0x2193, 0x2500...0x259F: true
        default: false
        }
    }

    /// Marks, embeddings, overrides and isolates of the direction of text.
    private static func turnsText(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}
