#if Screen && os(Linux) && canImport(CXCB)
import CXCB

/// The meaning of a key, as X11 numbers it.
///
/// Many characters have two numbers, an old one and 0x1000000 + the Unicode scalar; they are compared by one of them.
struct X11KeySymbol: Hashable {
    /// The number, the second kind where there are two; 0 for none.
    let number: UInt32

    /// Takes either number of a character.
    init(_ number: UInt32) {
        // Keys of the keypad, and those that type nothing, are not the character they may stand for.
        guard number < 0xFE00 || (0x100_0000...0x110_FFFF).contains(number) else {
            self.number = number
            return
        }
        let scalar = xkb_keysym_to_utf32(number)
        self.number = scalar == 0 ? number : Self.number(scalar)
    }

    /// The key that types a character; `nil` for one that is not to be typed (controls).
    init?(typing scalar: Unicode.Scalar) {
        switch scalar.value {
        case 0x0A, 0x0D: number = Self.returnKey
        case 0x09: number = Self.tab
        case 0..<0x20, 0x7F..<0xA0: return nil
        default: number = Self.number(scalar.value)
        }
    }

    private static func number(_ scalar: UInt32) -> UInt32 { scalar < 0x100 ? scalar : 0x100_0000 | scalar }

    static let returnKey: UInt32 = 0xFF0D
    static let tab: UInt32 = 0xFF09
    /// What the key Tab means while Shift is down.
    static let leftTab: UInt32 = 0xFE20
    static let thirdLevel: UInt32 = 0xFE03
    static let numLock: UInt32 = 0xFF7F
    static let leftAlt: UInt32 = 0xFFE9
    static let rightAlt: UInt32 = 0xFFEA
    static let pause: UInt32 = 0xFF13

    /// Whether it is typed with the modifiers of its level: a character, a dead key or a key of the keypad.
    ///
    /// Any other key is pressed as it is.
    var hasLevel: Bool {
        switch number {
        case 0x20..<0xFE00, 0xFE50...0xFE93, 0xFF80...0xFFBD, 0x100_0000...0x110_FFFF: true
        default: false
        }
    }

    /// Whether it types a character, or is a dead key: what any key may be lent to.
    var isCharacter: Bool { hasLevel && !isKeypad }

    /// Whether it is on the keypad, where Num Lock does what Shift does.
    var isKeypad: Bool { (0xFF80...0xFFBD).contains(number) }

    /// The small letter of a letter; itself otherwise.
    var lowercased: X11KeySymbol { X11KeySymbol(xkb_keysym_to_lower(number)) }

    /// The capital of a letter; itself otherwise.
    var uppercased: X11KeySymbol { X11KeySymbol(xkb_keysym_to_upper(number)) }
}
#endif
