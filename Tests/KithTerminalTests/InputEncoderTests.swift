import Testing

@testable import KithTerminal

@Suite struct InputEncoderTests {
    /// The encoder of a terminal on which a program has written `output`.
    private func encoder(_ output: String = "") -> InputEncoder {
        var terminal = Terminal(columns: 80, rows: 24)
        terminal.feed(Array(output.utf8))
        return InputEncoder(terminal)
    }

    private func text(_ event: InputEvent, after output: String = "") -> String {
        String(decoding: encoder(output).bytes(for: event), as: UTF8.self)
    }

    private static let keys: [(Key, KeyModifiers, String, String)] = [
        (.enter, KeyModifiers(), "", "\r"), (.enter, [], "\u{1B}[20h", "\r\n"), (.enter, .alt, "", "\u{1B}\r"),
        (.tab, [], "", "\t"), (.tab, .shift, "", "\u{1B}[Z"), (.backspace, [], "", "\u{7F}"),
        (.backspace, .control, "", "\u{8}"), (.escape, [], "", "\u{1B}"),
        (.up, [], "", "\u{1B}[A"), (.up, [], "\u{1B}[?1h", "\u{1B}OA"), (.left, .control, "", "\u{1B}[1;5D"),
        (.left, .control, "\u{1B}[?1h", "\u{1B}[1;5D"), (.home, [], "", "\u{1B}[H"), (.end, .shift, "", "\u{1B}[1;2F"),
        (.pageUp, [], "", "\u{1B}[5~"), (.delete, [.alt, .control], "", "\u{1B}[3;7~"),
        (.function(1), [], "", "\u{1B}OP"), (.function(4), .shift, "", "\u{1B}[1;2S"),
        (.function(5), [], "", "\u{1B}[15~"), (.function(12), .control, "", "\u{1B}[24;5~"),
        (.function(20), [], "", "\u{1B}[34~"),
        (.scalar("a"), [], "", "a"), (.scalar("A"), .shift, "", "A"), (.scalar("c"), .control, "", "\u{3}"),
        (.scalar("C"), [.control, .shift], "", "\u{3}"), (.scalar(" "), .control, "", "\u{0}"),
        (.scalar("x"), .alt, "", "\u{1B}x"), (.scalar("["), .control, "", "\u{1B}"), (.scalar("é"), [], "", "é"),
        // Where xterm was asked to tell keys apart.
        (.scalar("1"), .control, "\u{1B}[>4;1m", "\u{1B}[27;5;49~"),
        (.scalar("c"), .control, "\u{1B}[>4;1m", "\u{3}"), (.scalar("c"), .control, "\u{1B}[>4;2m", "\u{1B}[27;5;99~"),
        // And where kitty's keyboard was.
        (.scalar("c"), .control, "\u{1B}[>1u", "\u{1B}[99;5u"), (.scalar("a"), [], "\u{1B}[>1u", "a"),
        (.scalar("A"), [.alt, .shift], "\u{1B}[>1u", "\u{1B}[97;4u"), (.escape, [], "\u{1B}[>1u", "\u{1B}[27u"),
        (.enter, .shift, "\u{1B}[>1u", "\u{1B}[13;2u"), (.enter, [], "\u{1B}[>1u", "\r"),
        (.function(3), .control, "\u{1B}[>1u", "\u{1B}[13;5~"), (.scalar("a"), [], "\u{1B}[>8u", "\u{1B}[97u"),
        (.escape, [], "\u{1B}[>1u\u{1B}[<u", "\u{1B}"),
    ]

    @Test(arguments: keys)
    func `a key is written as xterm does`(key: Key, modifiers: KeyModifiers, output: String, bytes: String) {
        #expect(text(.key(key, modifiers), after: output) == bytes)
    }

    @Test(arguments: ["", "\u{1B}[?1h", "\u{1B}[?1h\u{1B}=", "\u{1B}[>1u"])
    func `what is written for a key is read as that key`(output: String) {
        let keys: [Key] =
            [.enter, .tab, .backspace, .up, .down, .left, .right, .home, .end, .pageUp, .pageDown, .insert, .delete]
            + (1...20).map { .function($0) } + ["a", "z", "ö", "語", "😀", "/"].map { .scalar($0) }
        for key in keys {
            var decoder = InputDecoder()
            #expect(decoder.decode(encoder(output).bytes(for: .key(key))) == [.key(key)], "\(key)")
        }
        for key in keys.dropFirst(3).prefix(30) where output != "\u{1B}[>1u" || key != .function(3) {
            var decoder = InputDecoder()
            let bytes = encoder(output).bytes(for: .key(key, [.control, .shift]))
            #expect(decoder.decode(bytes) == [.key(key, [.control, .shift])], "\(key)")
        }
    }

    @Test func `the number block sends digits, or sequences where a program asked for them`() {
        #expect(encoder().bytes(for: InputEncoder.KeypadKey.seven) == [0x37])
        #expect(encoder().bytes(for: InputEncoder.KeypadKey.enter) == [0x0D])
        let application = encoder("\u{1B}=")
        for (key, letter) in zip(InputEncoder.KeypadKey.allCases, "pqrstuvwxynojmkM") {
            #expect(String(decoding: application.bytes(for: key), as: UTF8.self) == "\u{1B}O\(letter)")
        }
    }

    @Test func `typed text passes, and its line feeds are the Enter key`() {
        #expect(encoder().typed("ls\né\u{3}") == Array("ls\ré\u{3}".utf8))
        #expect(encoder("\u{1B}[>8u").typed("a\n") == Array("\u{1B}[97u\u{1B}[13u".utf8))
    }

    @Test func `a paste cannot end its brackets, nor press keys`() {
        let evil = "a\u{1B}[201~\rrm\u{3}\u{4}\n\u{9B}201~b\u{1B}[20\u{1B}[201~1~\tc\r\nd\u{7F}"
        let clean = "a[201~\rrm\r201~b[20[201~1~\tc\rd"
        #expect(text(.paste(Array(evil.utf8))) == clean)
        #expect(text(.paste(Array(evil.utf8)), after: "\u{1B}[?2004h") == "\u{1B}[200~\(clean)\u{1B}[201~")
    }

    private static let mouse: [(String, MouseEvent, String)] = [
        ("", MouseEvent(.press, column: 4, row: 2), ""),
        ("\u{1B}[?9h", MouseEvent(.press, .right, column: 4, row: 2, modifiers: .shift), "\u{1B}[M\"%#"),
        ("\u{1B}[?9h", MouseEvent(.release, column: 4, row: 2), ""),
        ("\u{1B}[?1000h", MouseEvent(.press, column: 4, row: 2), "\u{1B}[M %#"),
        ("\u{1B}[?1000h", MouseEvent(.release, column: 4, row: 2), "\u{1B}[M#%#"),
        ("\u{1B}[?1000h", MouseEvent(.drag, column: 4, row: 2), ""),
        ("\u{1B}[?1000h\u{1B}[?1006h", MouseEvent(.press, .middle, column: 299, row: 0), "\u{1B}[<1;300;1M"),
        ("\u{1B}[?1000h\u{1B}[?1006h", MouseEvent(.release, .middle, column: 4, row: 2), "\u{1B}[<1;5;3m"),
        (
            "\u{1B}[?1000h\u{1B}[?1006h", MouseEvent(.wheelDown, .other, column: 4, row: 2, modifiers: .control),
            "\u{1B}[<81;5;3M"
        ),
        ("\u{1B}[?1002h\u{1B}[?1006h", MouseEvent(.drag, column: 4, row: 2), "\u{1B}[<32;5;3M"),
        ("\u{1B}[?1002h\u{1B}[?1006h", MouseEvent(.drag, .other, column: 4, row: 2), ""),
        ("\u{1B}[?1003h\u{1B}[?1006h", MouseEvent(.drag, .other, column: 4, row: 2), "\u{1B}[<35;5;3M"),
        ("\u{1B}[?1003h\u{1B}[?1015h", MouseEvent(.press, column: 4, row: 2), "\u{1B}[32;5;3M"),
        ("\u{1B}[?1000h\u{1B}[?1005h", MouseEvent(.press, column: 299, row: 2), "\u{1B}[M \u{14C}#"),
        ("\u{1B}[?1000h", MouseEvent(.press, column: 299, row: 2), ""),
        // Without the mouse the wheel scrolls what has no scrollback.
        ("\u{1B}[?1049h", MouseEvent(.wheelUp, .other, column: 0, row: 0), "\u{1B}[A\u{1B}[A\u{1B}[A"),
        ("\u{1B}[?1049h\u{1B}[?1h", MouseEvent(.wheelDown, .other, column: 0, row: 0), "\u{1B}OB\u{1B}OB\u{1B}OB"),
        ("\u{1B}[?1049h", MouseEvent(.press, column: 0, row: 0), ""),
    ]

    @Test(arguments: mouse)
    func `the mouse is reported as it was asked for`(output: String, mouse: MouseEvent, bytes: String) {
        #expect(text(.mouse(mouse), after: output) == bytes)
    }

    @Test func `the focus is reported to who asked`() {
        #expect(text(.focus(true)) == "")
        #expect(text(.focus(true), after: "\u{1B}[?1004h") == "\u{1B}[I")
        #expect(text(.focus(false), after: "\u{1B}[?1004h") == "\u{1B}[O")
    }
}
