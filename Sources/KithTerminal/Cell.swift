/// A colour of text: the terminal's own, one of its 256, or one of 2²⁴.
package struct Color: Hashable, Sendable {
    let code: UInt32

    init(code: UInt32) { self.code = code }

    /// The colour the terminal uses when nothing is said.
    package static let standard = Color(code: 0)
    /// One of the 256 colours; 0…15 are the theme's.
    package static func indexed(_ index: UInt8) -> Color { Color(code: 1 << 24 | UInt32(index)) }
    /// A colour by its parts.
    package static func rgb(_ red: UInt8, _ green: UInt8, _ blue: UInt8) -> Color {
        Color(code: 2 << 24 | UInt32(red) << 16 | UInt32(green) << 8 | UInt32(blue))
    }

    /// The index when the colour is one of the 256.
    package var index: UInt8? { code >> 24 == 1 ? UInt8(code & 0xFF) : nil }
    /// The parts when the colour is a true colour.
    package var parts: (red: UInt8, green: UInt8, blue: UInt8)? {
        guard code >> 24 == 2 else { return nil }
        return (UInt8(code >> 16 & 0xFF), UInt8(code >> 8 & 0xFF), UInt8(code & 0xFF))
    }
}

/// The style of a line under text; the numbers are those of SGR 4.
package enum UnderlineStyle: UInt16, Sendable {
    /// No line.
    case none
    /// One line.
    case single
    /// Two lines.
    case double
    /// A wave.
    case curly
    /// Dots.
    case dotted
    /// Dashes.
    case dashed
}

/// The attributes that SGR turns on, and which half of a wide character a cell is.
package struct CellAttributes: OptionSet, Hashable, Sendable {
    package var rawValue: UInt16
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let bold = CellAttributes(rawValue: 1)
    package static let faint = CellAttributes(rawValue: 1 << 1)
    package static let italic = CellAttributes(rawValue: 1 << 2)
    package static let blink = CellAttributes(rawValue: 1 << 3)
    package static let inverse = CellAttributes(rawValue: 1 << 4)
    package static let invisible = CellAttributes(rawValue: 1 << 5)
    package static let strikethrough = CellAttributes(rawValue: 1 << 6)
    package static let overline = CellAttributes(rawValue: 1 << 7)
    /// The left half of a wide character.
    package static let wide = CellAttributes(rawValue: 1 << 12)
    /// The right half of a wide character; its content is 0.
    package static let wideTail = CellAttributes(rawValue: 1 << 13)
    /// Drawn ahead of the echo; never in a terminal's own cells.
    static let predicted = CellAttributes(rawValue: 1 << 14)

    static let halves: CellAttributes = [.wide, .wideTail]
    private static let underlineShift: UInt16 = 8

    /// The line under the text (bits 8…10).
    package var underline: UnderlineStyle {
        get { UnderlineStyle(rawValue: rawValue >> Self.underlineShift & 7) ?? .none }
        set { rawValue = rawValue & ~(7 << Self.underlineShift) | newValue.rawValue << Self.underlineShift }
    }
}

/// One place of the grid: 16 bytes.
package struct Cell: Hashable, Sendable {
    /// 0 when erased, a Unicode scalar, or with the top bit set a number in the terminal's table of clusters.
    var content: UInt32 = 0
    package var foreground = Color.standard
    package var background = Color.standard
    package var attributes: CellAttributes = []
    /// A number in the terminal's table of underline colours and hyperlinks; 0 is neither.
    var extra: UInt16 = 0

    package init() {}

    static let clusterBit: UInt32 = 1 << 31
    /// Nothing was written here since it was erased.
    package var isErased: Bool { content == 0 && !attributes.contains(.wideTail) }
    /// Erased, and in the terminal's own background.
    var isPlain: Bool { isErased && background == .standard }
    package var isWide: Bool { attributes.contains(.wide) }
    package var isWideTail: Bool { attributes.contains(.wideTail) }

    /// Becomes a space in its style: what is left of a wide character whose other half was overwritten.
    mutating func blank() {
        content = 0x20
        attributes.subtract(.halves)
    }

    /// Tells whether both would be drawn by the same SGR and hyperlink.
    func hasStyle(of other: Cell) -> Bool {
        foreground == other.foreground && background == other.background && extra == other.extra
            && attributes.subtracting(.halves) == other.attributes.subtracting(.halves)
    }
}

/// A hyperlink of OSC 8.
package struct Hyperlink: Hashable, Sendable {
    /// Cells of equal `id` and `target` are one link; empty when none was given.
    package var id: [UInt8]
    package var target: [UInt8]
}

/// The rare attributes of cells, kept once in a table.
struct CellExtra: Hashable, Sendable {
    var underlineColor = Color.standard
    var link: Hyperlink?
}

/// Values numbered by their first use, as long as a cell uses them.
struct InternTable<Value: Hashable & Sendable>: Sendable {
    private var values: [Value?] = []
    private var numbers: [Value: Int] = [:]
    private var free: [Int] = []
    /// The number of values added since unused ones were last looked for.
    private(set) var added = 0
    let limit: Int

    init(limit: Int) { self.limit = limit }

    subscript(number: Int) -> Value? { values.indices.contains(number) ? values[number] : nil }

    /// The number of `value`, or nil when the table is full.
    mutating func number(of value: Value) -> Int? {
        if let number = numbers[value] { return number }
        let number: Int
        if let hole = free.popLast() {
            number = hole
            values[number] = value
        } else if values.count < limit {
            number = values.count
            values.append(value)
        } else {
            return nil
        }
        numbers[value] = number
        added += 1
        return number
    }

    /// Forgets every value whose number is not in `live`.
    mutating func keep(_ live: Set<Int>) {
        added = 0
        for (number, value) in values.enumerated() where !live.contains(number) {
            guard let value else { continue }
            numbers[value] = nil
            values[number] = nil
            free.append(number)
        }
    }
}
