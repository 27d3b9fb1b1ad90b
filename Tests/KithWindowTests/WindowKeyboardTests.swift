import KithAPI
import Testing

@testable import KithWindow

@Suite struct WindowKeyboardTests {
    private func key(
        _ usage: UInt16, _ scalar: Unicode.Scalar? = nil, _ modifiers: WindowKey.Modifiers = []
    ) -> WindowKey {
        WindowKey(usage: usage, scalar: scalar, modifiers: modifiers)
    }

    private func down(_ symbol: UInt32, _ code: UInt16?) -> ScreenInput {
        .key(ScreenInput.Key(symbol: symbol, code: code), isDown: true)
    }

    private func up(_ symbol: UInt32, _ code: UInt16?) -> ScreenInput {
        .key(ScreenInput.Key(symbol: symbol, code: code), isDown: false)
    }

    @Test func `a key is sent by the character it types here, and comes up as what went down`() {
        var keyboard = WindowKeyboard()
        // German: the key of US `y` types `z`, with Shift `Z`.
        #expect(keyboard.pressed(key(225)) == [down(0xFFE1, 42)])
        #expect(keyboard.pressed(key(28, "z", .shift)).isEmpty)
        #expect(keyboard.typed("Z") == [down(0x5A, 21)])
        #expect(keyboard.released(225) == [up(0xFFE1, 42)])
        #expect(keyboard.released(28) == [up(0x5A, 21)])
        #expect(!keyboard.holdsKeys)
    }

    @Test func `a key that is repeated here goes down there again, and its text is not typed besides`() {
        var keyboard = WindowKeyboard()
        _ = keyboard.pressed(key(4, "a"))
        #expect(keyboard.typed("a") == [down(0x61, 30)])
        for _ in 0..<3 {
            #expect(keyboard.pressed(key(4, "a"), isRepeat: true) == [down(0x61, 30)])
            #expect(keyboard.typed("a").isEmpty)
        }
        #expect(keyboard.released(4) == [up(0x61, 30)])
        // Not one whose beginning was somebody else's, and no modifier.
        #expect(keyboard.pressed(key(4, "a"), isRepeat: true).isEmpty && keyboard.typed("a").isEmpty)
        #expect(keyboard.pressed(key(225)) == [down(0xFFE1, 42)])
        #expect(keyboard.pressed(key(225), isRepeat: true).isEmpty)
    }

    @Test func `with Control, Alt or Super it is the key, not its text`() {
        for modifier in [WindowKey.Modifiers.control, .alt, .super] {
            var keyboard = WindowKeyboard()
            #expect(keyboard.pressed(key(6, "c", modifier)) == [down(0x63, 46)])
            // Some systems give the text of Alt and a letter as well.
            #expect(keyboard.typed("c").isEmpty)
            #expect(keyboard.released(6) == [up(0x63, 46)])
        }
    }

    @Test func `the right Alt is one where it chooses no character`() {
        // German: AltGr and Q, then AltGr and Shift and 1.
        var keyboard = WindowKeyboard()
        #expect(keyboard.pressed(key(230)).isEmpty && keyboard.pressed(key(230), isRepeat: true).isEmpty)
        #expect(keyboard.pressed(key(20, "q", .rightAlt)).isEmpty)
        #expect(keyboard.typed("@") == [down(0x40, 16)])
        #expect(keyboard.released(20) == [up(0x40, 16)])
        #expect(keyboard.pressed(key(225, nil, .rightAlt)) == [down(0xFFE1, 42)])
        #expect(keyboard.pressed(key(30, "1", [.rightAlt, .shift])).isEmpty)
        #expect(keyboard.typed("¡") == [down(0xA1, 2)])
        #expect(keyboard.released(230).isEmpty)
        // US: Alt and X.
        keyboard = WindowKeyboard()
        _ = keyboard.pressed(key(230))
        #expect(keyboard.pressed(key(27, "x", .rightAlt)).isEmpty)
        #expect(keyboard.typed("x") == [down(0xFFEA, 100), down(0x78, 45)])
        #expect(keyboard.released(230) == [up(0xFFEA, 100)])
        // With a key that has no character, and alone.
        keyboard = WindowKeyboard()
        _ = keyboard.pressed(key(230))
        #expect(keyboard.pressed(key(61, nil, .rightAlt)) == [down(0xFFEA, 100), down(0xFFC1, 62)])
        #expect(keyboard.released(230) == [up(0xFFEA, 100)])
        _ = keyboard.pressed(key(230))
        #expect(keyboard.released(230) == [down(0xFFEA, 100), up(0xFFEA, 100)])
    }

    @Test func `a dead key types nothing until its letter comes, and what an input method composes is text`() {
        var keyboard = WindowKeyboard()
        #expect(keyboard.pressed(key(53, "^")).isEmpty)
        #expect(keyboard.released(53).isEmpty)
        #expect(keyboard.pressed(key(8, "e")).isEmpty)
        #expect(keyboard.typed("ê") == [down(0xEA, 18)])
        #expect(keyboard.released(8) == [up(0xEA, 18)])
        #expect(keyboard.typed("日本語") == [.text("日本語")])
        #expect(keyboard.pressed(key(9, "f")).isEmpty)
        #expect(keyboard.typed("漢字") == [.text("漢字")])
        #expect(keyboard.released(9).isEmpty)
        #expect(!keyboard.holdsKeys)
    }

    @Test func `keys without a character, and the number pad`() {
        var keyboard = WindowKeyboard()
        #expect(keyboard.pressed(key(40)) == [down(0xFF0D, 28)])
        #expect(keyboard.pressed(key(69)) == [down(0xFFC9, 88)])
        #expect(keyboard.pressed(key(80)) == [down(0xFF51, 105)])
        // Without NumLock it is an arrow, with it a digit.
        #expect(keyboard.pressed(key(92)) == [down(0xFF96, 75)])
        #expect(keyboard.released(92) == [up(0xFF96, 75)])
        #expect(keyboard.pressed(key(92, nil, .numLock)).isEmpty)
        #expect(keyboard.typed("4") == [down(0x34, 75)])
        // A layout that makes the place of Caps Lock an Escape.
        #expect(keyboard.pressed(WindowKey(usage: 57, meaning: 41)) == [down(0xFF1B, 58)])
        #expect(keyboard.pressed(key(999)).isEmpty)
    }

    @Test func `long text comes in messages that are taken, and none is cut inside of a character`() {
        let text = String(repeating: "aé漢🙂👨‍👩‍👧‍👦", count: 200)
        let messages = WindowKeyboard.messages(text).compactMap { input -> String? in
            if case .text(let part) = input { part } else { nil }
        }
        #expect(messages.joined() == text)
        #expect(messages.allSatisfy { $0.utf8.count <= 1_024 })
        #expect(messages.count > 5)
        let marks = "e" + String(repeating: "\u{301}", count: 2_000)
        let pieces = WindowKeyboard.messages(marks).compactMap { if case .text(let part) = $0 { part } else { nil } }
        #expect(pieces.joined() == marks && pieces.allSatisfy { $0.utf8.count <= 1_024 })
    }
}
