#if Screen && os(Linux) && canImport(CXCB)
import KithAPI
import Testing

@testable import KithScreen

/// What X11 is not needed for: pixels, layouts and lent keys.
struct X11EngineTests {
    @Test func `pixels of every order become blue, green, red and 255`() throws {
        func converted(_ format: X11PixelFormat?, _ source: [UInt8], width: Int) throws -> [UInt8] {
            let format = try #require(format)
            var target = [UInt8](repeating: 0, count: width * 4)
            source.withUnsafeBytes { source in
                target.withUnsafeMutableBytes { target in
                    if let from = source.baseAddress, let to = target.baseAddress {
                        format.convert(from, to: to, width: width)
                    }
                }
            }
            return target
        }
        let native = X11PixelFormat(pixelBytes: 4, red: 0xFF0000, green: 0xFF00, blue: 0xFF)
        #expect(native?.isNative == true)
        #expect(
            try converted(native, [1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 0x80], width: 3)
                == [1, 2, 3, 255, 4, 5, 6, 255, 8, 9, 10, 255])
        let reversed = X11PixelFormat(pixelBytes: 4, red: 0xFF, green: 0xFF00, blue: 0xFF0000)
        #expect(try converted(reversed, [1, 2, 3, 0], width: 1) == [3, 2, 1, 255])
        let bigEndian = X11PixelFormat(
            pixelBytes: 4, isLittleEndian: false, red: 0xFF0000, green: 0xFF00, blue: 0xFF)
        #expect(try converted(bigEndian, [0, 3, 2, 1], width: 1) == [1, 2, 3, 255])
        let packed = X11PixelFormat(pixelBytes: 3, red: 0xFF0000, green: 0xFF00, blue: 0xFF)
        #expect(packed?.rowBytes(3) == 12)
        #expect(try converted(packed, [1, 2, 3, 4, 5, 6], width: 2) == [1, 2, 3, 255, 4, 5, 6, 255])
        // Ten bits a part: the most is the most, the middle the middle.
        let deep = X11PixelFormat(pixelBytes: 4, red: 0x3FF0_0000, green: 0xFFC00, blue: 0x3FF)
        let value = UInt32(1_023) << 20 | UInt32(512) << 10
        let bytes = (0..<4).map { UInt8(truncatingIfNeeded: value >> UInt32($0 * 8)) }
        #expect(try converted(deep, bytes, width: 1) == [0, 128, 255, 255])
        #expect(X11PixelFormat(pixelBytes: 4, red: 0, green: 0xFF00, blue: 0xFF) == nil)
        #expect(X11PixelFormat(pixelBytes: 4, red: 0xF0F, green: 0xFF00, blue: 0xFF) == nil)
        #expect(X11PixelFormat(pixelBytes: 2, red: 0xF800, green: 0x7E0, blue: 0x1F) == nil)
        #expect(native?.pixel(red: 0x12, green: 0x34, blue: 0x56) == 0x123456)
    }

    @Test func `a common part is exact at the edges of numbers`() {
        let whole = Screen.Rectangle(width: 65_535, height: 65_535)
        let far = Screen.Rectangle(x: .max, y: .max, width: .max, height: .max)
        #expect(far.intersection(whole) == nil && whole.intersection(far) == nil)
        let near = Screen.Rectangle(x: .min, y: -1, width: .max, height: 2)
        #expect(near.intersection(whole) == Screen.Rectangle(width: UInt32(Int32.max), height: 1).intersection(whole))
        #expect(Screen.Rectangle(x: -5, width: 5, height: 1).intersection(whole) == nil)
    }

    /// Key 10 is a and A, 11 is 1 and !, 12 a Cyrillic letter in the second group, 13 has four levels, 14 is on the keypad;
    /// 20 to 23 are modifiers, 30 and 31 nothing.
    private var map: X11KeyMap {
        var symbols = [UInt32](repeating: 0, count: 32 * 6)
        func set(_ keycode: Int, _ row: [UInt32]) {
            for (index, symbol) in row.enumerated() { symbols[(keycode - 8) * 6 + index] = symbol }
        }
        set(8, [0xFF1B])
        set(9, [0xFF09, 0xFE20])
        set(10, [0x61, 0x41])
        set(11, [0x31, 0x21])
        set(12, [0x7A, 0x5A, 0x6D1, 0x6F1])
        set(13, [0x71, 0x51, 0x71, 0x51, 0x40, 0xAC])
        set(14, [0xFF95, 0xFFB7])
        for keycode in 15..<30 { set(keycode, [0xFFC8]) }
        set(20, [0xFFE1])
        set(21, [0xFFE3])
        set(22, [0xFF7F])
        set(23, [0xFE03])
        for keycode in 32..<40 { set(keycode, [0xFFC8]) }
        return X11KeyMap(
            first: 8, width: 6, symbols: symbols, modifiers: [[20], [], [21], [], [22], [], [], [23]])
    }

    @Test func `a symbol is found at the level that takes least`() {
        let map = map
        func stroke(_ symbol: UInt32, _ bits: UInt32 = 0) -> X11KeyMap.Stroke? {
            map.stroke(for: X11KeySymbol(symbol), X11KeyMap.State(bits: bits))
        }
        let (shifted, third) = (X11KeyMap.Level(isShifted: true), X11KeyMap.Level(isThird: true))
        #expect(stroke(0x61) == .init(keycode: 10, level: nil))
        #expect(stroke(0x41) == .init(keycode: 10, level: shifted))
        #expect(stroke(0x41, 1) == .init(keycode: 10, level: nil))
        #expect(stroke(0x61, 1) == .init(keycode: 10, level: X11KeyMap.Level()))
        // Caps Lock turns letters round, and nothing else.
        #expect(stroke(0x41, 2) == .init(keycode: 10, level: nil))
        #expect(stroke(0x61, 2) == .init(keycode: 10, level: shifted))
        #expect(stroke(0x31, 2) == .init(keycode: 11, level: nil))
        #expect(stroke(0x40) == .init(keycode: 13, level: third))
        #expect(stroke(0xAC) == .init(keycode: 13, level: .init(isShifted: true, isThird: true)))
        // Both numbers of a Cyrillic letter, in the second group alone.
        #expect(stroke(0x6D1) == nil && stroke(0x100_044F) == nil)
        #expect(stroke(0x6D1, 1 << 13) == .init(keycode: 12, level: nil))
        #expect(stroke(0x100_044F, 1 << 13) == .init(keycode: 12, level: nil))
        #expect(stroke(0x61, 1 << 13) == .init(keycode: 10, level: nil))
        // Num Lock does what Shift does on the keypad.
        #expect(stroke(0xFFB7) == .init(keycode: 14, level: shifted))
        #expect(stroke(0xFFB7, 16) == .init(keycode: 14, level: nil))
        // A shortcut keeps the modifiers it has.
        #expect(stroke(0x61, 1 | 4) == .init(keycode: 10, level: nil))
        #expect(stroke(0x21, 4) == .init(keycode: 11, level: shifted))
        #expect(stroke(0xFF09, 1) == .init(keycode: 9, level: nil) && stroke(0xFE20, 1) == stroke(0xFF09, 1))
        #expect(stroke(0x6F22) == nil && stroke(0) == nil)
        #expect(map.unusedKeycodes == [31, 30])
        #expect(map.mask(of: [0xFF7F]) == 16 && map.thirdMask == 128)
    }

    @Test func `a lent key is not given another character before programs had time`() {
        var keys = X11SpareKeys()
        keys.reconcile(with: map)
        let start = ContinuousClock.now
        func at(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }
        func take(_ symbol: UInt32, _ time: Int) -> X11SpareKeys.Answer {
            keys.take(for: X11KeySymbol(symbol), at: at(time))
        }
        let (kanji, other, third) = (UInt32(0x100_6F22), UInt32(0x100_5B57), UInt32(0x100_4E16))
        #expect(take(kanji, 0) == .assign(31, [kanji, 0]))
        #expect(take(kanji, 10) == .ready(31))
        // A second character beside the first, a letter with both its forms on a key of its own.
        #expect(take(other, 20) == .assign(31, [kanji, other]))
        #expect(take(0x100_0436, 30) == .assign(30, [0x100_0436, 0x100_0416]))
        #expect(take(0x6F6, 40) == .ready(30))
        #expect(take(third, 50) == .wait(until: at(40) + X11SpareKeys.rest))
        // Somebody who types on and on: the oldest is free after its own pause.
        for time in stride(from: 100, through: 2_500, by: 300) { #expect(take(0x100_0436, time) == .ready(30)) }
        #expect(take(third, 2_519) == .wait(until: at(2_520)))
        #expect(take(third, 2_520) == .assign(31, [third, 0]))
        keys.mark(31, isDown: true, at: at(2_600))
        keys.mark(30, isDown: true, at: at(2_600))
        #expect(take(kanji, 9_000) == .none)
        keys.mark(30, isDown: false, at: at(9_000))
        #expect(keys.takeBack() == [30])
        #expect(keys.lent == [31])
        // Another layout has taken what was lent.
        keys.reconcile(with: map)
        #expect(keys.lent.isEmpty)
    }
}
#endif
