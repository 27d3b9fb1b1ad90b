import KithAPI

/// A key as a window system reports it.
package struct WindowKey: Hashable, Sendable {
    /// The modifiers that are held.
    package struct Modifiers: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let shift = Modifiers(rawValue: 1)
        package static let control = Modifiers(rawValue: 2)
        /// The left Alt: the right one chooses characters on many keyboards.
        package static let alt = Modifiers(rawValue: 4)
        package static let rightAlt = Modifiers(rawValue: 8)
        package static let `super` = Modifiers(rawValue: 16)
        package static let numLock = Modifiers(rawValue: 32)
    }

    /// The place on the keyboard, by its usage on page 7 of the USB HID usage tables (`A` is 4).
    package var usage: UInt16
    /// The meaning by the layout here: the scalar of a character without modifiers; `nil` for a key that types none.
    package var scalar: Unicode.Scalar?
    /// The usage of the key that the layout makes of it, for one that types no character.
    package var meaning: UInt16
    package var modifiers: Modifiers

    /// A key; `meaning` is its place when the layout says nothing else.
    package init(
        usage: UInt16, scalar: Unicode.Scalar? = nil, meaning: UInt16? = nil, modifiers: Modifiers = []
    ) {
        self.usage = usage
        self.scalar = scalar
        self.meaning = meaning ?? usage
        self.modifiers = modifiers
    }

    /// True when the key, as the modifiers are, types text by the layout here.
    var typesText: Bool {
        guard modifiers.isDisjoint(with: [.control, .alt, .super]) else { return false }
        return isCharacter
    }

    /// True for a key that changes what others mean.
    var isModifier: Bool { (224...231).contains(meaning) || meaning == 257 }

    /// True for a key that has a character at all.
    var isCharacter: Bool {
        switch meaning {
        // Of the number pad the operators always, the rest by NumLock.
        case 84...87, 103: true
        case 89...99: modifiers.contains(.numLock)
        default: scalar != nil
        }
    }

    /// The number X11 has for its meaning; `nil` for a key that X11 has none for.
    var symbol: UInt32? {
        if let scalar { return KeyNames.symbol(of: scalar) }
        switch meaning {
        case 58...69: return 0xFFBE + UInt32(meaning - 58)
        case 104...115: return 0xFFCA + UInt32(meaning - 104)
        default: return Self.symbols[meaning]
        }
    }

    /// The number Linux has for its place; `nil` for a key that it has none for.
    var code: UInt16? {
        switch usage {
        case 4...29: Self.letterCodes[Int(usage - 4)]
        case 30...39: usage - 28
        case 58...67: usage + 1
        case 104...115: usage + 79
        default: Self.codes[usage]
        }
    }

    /// Usages, and the numbers of X11's `keysymdef.h`; of the number pad those without NumLock.
    private static let symbols: [UInt16: UInt32] = [
        40: 0xFF0D, 41: 0xFF1B, 42: 0xFF08, 43: 0xFF09, 57: 0xFFE5, 70: 0xFF61, 71: 0xFF14, 72: 0xFF13, 73: 0xFF63,
        74: 0xFF50, 75: 0xFF55, 76: 0xFFFF, 77: 0xFF57, 78: 0xFF56, 79: 0xFF53, 80: 0xFF51, 81: 0xFF54, 82: 0xFF52,
        83: 0xFF7F, 84: 0xFFAF, 85: 0xFFAA, 86: 0xFFAD, 87: 0xFFAB, 88: 0xFF8D, 89: 0xFF9C, 90: 0xFF99, 91: 0xFF9B,
        92: 0xFF96, 93: 0xFF9D, 94: 0xFF98, 95: 0xFF95, 96: 0xFF97, 97: 0xFF9A, 98: 0xFF9E, 99: 0xFF9F, 101: 0xFF67,
        103: 0xFFBD, 127: 0x1008_FF12, 128: 0x1008_FF13, 129: 0x1008_FF11, 224: 0xFFE3, 225: 0xFFE1, 226: 0xFFE9,
        227: 0xFFEB, 228: 0xFFE4, 229: 0xFFE2, 230: 0xFFEA, 231: 0xFFEC, 257: 0xFE03,
    ]

    /// A to Z by Linux's `input-event-codes.h`.
    private static let letterCodes: [UInt16] = [
        30, 48, 46, 32, 18, 33, 34, 35, 23, 36, 37, 38, 50, 49, 24, 25, 16, 19, 31, 20, 22, 47, 17, 45, 21, 44,
    ]

    /// The other keys by the same.
    private static let codes: [UInt16: UInt16] = [
        40: 28, 41: 1, 42: 14, 43: 15, 44: 57, 45: 12, 46: 13, 47: 26, 48: 27, 49: 43, 50: 43, 51: 39, 52: 40, 53: 41,
        54: 51, 55: 52, 56: 53, 57: 58, 68: 87, 69: 88, 70: 99, 71: 70, 72: 119, 73: 110, 74: 102, 75: 104, 76: 111,
        77: 107, 78: 109, 79: 106, 80: 105, 81: 108, 82: 103, 83: 69, 84: 98, 85: 55, 86: 74, 87: 78, 88: 96, 89: 79,
        90: 80, 91: 81, 92: 75, 93: 76, 94: 77, 95: 71, 96: 72, 97: 73, 98: 82, 99: 83, 100: 86, 101: 127, 103: 117,
        127: 113, 128: 115, 129: 114, 224: 29, 225: 42, 226: 56, 227: 125, 228: 97, 229: 54, 230: 100, 231: 126,
    ]
}
