/// The mouse events that the program asked for.
package enum MouseTracking: UInt16, Hashable, Sendable {
    /// None.
    case off = 0
    /// Presses only, the oldest form (mode 9).
    case presses = 9
    /// Presses and releases (mode 1000).
    case buttons = 1000
    /// Movement too while a button is down (mode 1002).
    case drags = 1002
    /// All movement (mode 1003).
    case movement = 1003
}

/// The encoding of mouse events.
package enum MouseEncoding: UInt16, Hashable, Sendable {
    /// One byte per number, up to column 223.
    case bytes = 0
    /// UTF-8 numbers (mode 1005).
    case utf8 = 1005
    /// Decimal numbers that say which button was released (mode 1006).
    case sgr = 1006
    /// Decimal numbers in rxvt's order (mode 1015).
    case decimal = 1015
    /// The same as `sgr`, in pixels (mode 1016).
    case pixels = 1016
}

/// The modes that a program has switched on or off.
package struct TerminalModes: Hashable, Sendable {
    /// Cursor keys send SS3 (DECCKM, mode 1).
    package var applicationCursor = false
    /// Light and dark are exchanged (DECSCNM, mode 5).
    package var reverseScreen = false
    /// Text goes on in the next row at the end of one (DECAWM, mode 7).
    package var autowrap = true
    /// The cursor blinks (mode 12).
    package var cursorBlink = false
    /// The cursor is shown (DECTCEM, mode 25).
    package var cursorVisible = true
    /// The number block sends its own sequences (DECNKM, mode 66; DECKPAM).
    package var applicationKeypad = false
    package var mouse = MouseTracking.off
    package var mouseEncoding = MouseEncoding.bytes
    /// The terminal reports when its window gains or loses the focus (mode 1004).
    package var focusEvents = false
    /// The wheel sends cursor keys on the alternate screen (mode 1007).
    package var alternateScroll = false
    /// Pasted text is bracketed (mode 2004).
    package var bracketedPaste = false
    /// True while drawing is not shown (mode 2026).
    package var synchronizedUpdate = false
    /// New characters push the old to the right (IRM, ANSI mode 4).
    package var insert = false
    /// A line feed also returns the carriage (LNM, ANSI mode 20).
    package var newline = false
    /// The level of xterm's modifyOtherKeys, 0…2.
    package var modifyOtherKeys: UInt8 = 0
    /// The cursor's shape, DECSCUSR 0…6.
    package var cursorStyle: UInt8 = 0
}

/// A set of 94 characters that G0…G3 can hold.
enum Charset: UInt8, Sendable {
    case ascii = 0x42
    case british = 0x41
    case graphics = 0x30

    func scalar(_ byte: UInt8) -> Unicode.Scalar {
        switch self {
        case .ascii: break
        case .british: if byte == 0x23 { return "£" }
        case .graphics: if byte >= 0x5F, byte <= 0x7E { return Self.drawn[Int(byte - 0x5F)] }
        }
        return Unicode.Scalar(byte)
    }

    /// DEC's special graphics, from 0x5F on.
    private static let drawn = Array("\u{A0}◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·".unicodeScalars)
}

/// The cursor and what DECSC keeps with it.
package struct TerminalCursor: Hashable, Sendable {
    package var row = 0
    package var column = 0
    /// The last column was written; the next character goes to the next row.
    package var wrapsNext = false
    /// The style of what is written next; its content is 0.
    package var style = Cell()
    var charsets: SIMD4<UInt8> = SIMD4(repeating: Charset.ascii.rawValue)
    /// The number of the character set in use, of G0…G3.
    var charset = 0
    /// Rows count from the top margin, and the cursor stays between the margins (DECOM, mode 6).
    package var isOriginRelative = false
}
