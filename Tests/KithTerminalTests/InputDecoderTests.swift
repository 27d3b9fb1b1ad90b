import KithTesting
import Testing

@testable import KithTerminal

@Suite struct InputDecoderTests {
    private func events(_ text: String) -> [InputEvent] {
        var decoder = InputDecoder()
        return decoder.decode(Array(text.utf8))
    }

    @Test(arguments: [
        ("a", InputEvent.key(.scalar("a"))), ("é", .key(.scalar("é"))), ("名", .key(.scalar("名"))),
        ("🙂", .key(.scalar("🙂"))), ("\r", .key(.enter)), ("\t", .key(.tab)), ("\u{7F}", .key(.backspace)),
        ("\u{1}", .key(.scalar("a"), .control)), ("\u{1A}", .key(.scalar("z"), .control)),
        ("\u{0}", .key(.scalar(" "), .control)), ("\u{1B}x", .key(.scalar("x"), .alt)),
        ("\u{1B}é", .key(.scalar("é"), .alt)), ("\u{1B}\r", .key(.enter, .alt)), ("\u{1B}[A", .key(.up)),
        ("\u{1B}OB", .key(.down)), ("\u{1B}[1;5C", .key(.right, .control)), ("\u{1B}[1;2D", .key(.left, .shift)),
        ("\u{1B}[H", .key(.home)), ("\u{1B}[4~", .key(.end)), ("\u{1B}[5~", .key(.pageUp)),
        ("\u{1B}[6;3~", .key(.pageDown, .alt)), ("\u{1B}[2~", .key(.insert)), ("\u{1B}[3~", .key(.delete)),
        ("\u{1B}OP", .key(.function(1))), ("\u{1B}[[E", .key(.function(5))), ("\u{1B}[15~", .key(.function(5))),
        ("\u{1B}[17~", .key(.function(6))), ("\u{1B}[21~", .key(.function(10))), ("\u{1B}[24~", .key(.function(12))),
        ("\u{1B}[1;2P", .key(.function(1), .shift)), ("\u{1B}[Z", .key(.tab, .shift)), ("\u{1B}[I", .focus(true)),
        ("\u{1B}[O", .focus(false)), ("\u{1B}[97;5u", .key(.scalar("a"), .control)), ("\u{1B}[27u", .key(.escape)),
        ("\u{1B}[<0;5;7M", .mouse(MouseEvent(.press, .left, column: 4, row: 6))),
        ("\u{1B}[<2;5;7m", .mouse(MouseEvent(.release, .right, column: 4, row: 6))),
        ("\u{1B}[<64;1;1M", .mouse(MouseEvent(.wheelUp, .other, column: 0, row: 0))),
        ("\u{1B}[<81;300;2M", .mouse(MouseEvent(.wheelDown, .other, column: 299, row: 1, modifiers: .control))),
        ("\u{1B}[<32;2;2M", .mouse(MouseEvent(.drag, .left, column: 1, row: 1))),
        ("\u{1B}[200~a\u{1B}[31m\nb\u{1B}[201~", .paste(Array("a\u{1B}[31m\nb".utf8))),
    ]) func `what a terminal sends is understood, whole or byte by byte`(text: String, event: InputEvent) {
        #expect(events(text) == [event])
        var decoder = InputDecoder()
        #expect(text.utf8.flatMap { decoder.decode([$0]) } == [event])
        #expect(!decoder.isWaiting)
    }

    @Test func `a lone escape is a key once nothing follows`() {
        var decoder = InputDecoder()
        #expect(decoder.decode([0x1B]).isEmpty)
        #expect(decoder.isWaiting)
        #expect(decoder.timedOut() == [.key(.escape)])
        #expect(!decoder.isWaiting && decoder.timedOut().isEmpty)
        #expect(decoder.decode([0x1B, 0x1B]) == [.key(.escape)])
        #expect(decoder.timedOut() == [.key(.escape)])
        #expect(decoder.decode([0x1B, 0x5B]).isEmpty)
        #expect(decoder.timedOut() == [.key(.scalar("["), .alt)])
        #expect(decoder.decode(Array("\u{1B}[1;".utf8)).isEmpty)
        #expect(decoder.timedOut().isEmpty)
        #expect(decoder.decode([0x61]) == [.key(.scalar("a"))])
    }

    @Test func `answers and sequences that are no keys are swallowed`() {
        for text in [
            "\u{1B}[?1;2c", "\u{1B}]11;rgb:0/0/0\u{1B}\\", "\u{1B}]52;c;eA==\u{7}", "\u{1B}P1$r0m\u{1B}\\",
            "\u{1B}[12;40R", "\u{1B}[M !!", "\u{1B}[<0;0;1M", "\u{1B}[<1M", "\u{1B}[<99999999999999999999;1;1X",
            "\u{1B}[" + String(repeating: "1;", count: 5_000) + "A",
            "\u{1B}]" + String(repeating: "x", count: 5_000) + "\u{7}",
        ] {
            #expect(events(text + "z").last == .key(.scalar("z")), "\(text.prefix(20).debugDescription)")
            #expect(events(text + "z").count == 1, "\(text.prefix(20).debugDescription)")
        }
    }

    @Test func `bytes that are no UTF-8 are no keys`() {
        var decoder = InputDecoder()
        #expect(decoder.decode([0xFF, 0xC0, 0x80, 0xED, 0xA0, 0x80, 0xE2, 0x82, 0x61]) == [.key(.scalar("a"))])
    }

    @Test func `a paste is bounded and can be broken off`() {
        var decoder = InputDecoder()
        let long = [UInt8](repeating: 0x61, count: 200_000)
        let whole = decoder.decode(Array("\u{1B}[200~".utf8) + long + Array("\u{1B}[201~q".utf8))
        #expect(whole == [.paste(Array(long.prefix(InputDecoder.pasteLimit))), .key(.scalar("q"))])
        let broken = decoder.decode(Array("\u{1B}[200~half\u{3}q".utf8))
        #expect(broken == [.paste(Array("half".utf8)), .key(.scalar("c"), .control), .key(.scalar("q"))])
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `noise does no harm, and a key typed after it arrives`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var decoder = InputDecoder()
        for _ in 0..<3_000 {
            let byte: UInt8 =
                Bool.random(using: &random)
                ? Array("\u{1B}[]O<;01~M".utf8).randomElement(using: &random) ?? 0
                : .random(in: 0...255, using: &random)
            _ = decoder.decode([byte])
        }
        _ = decoder.timedOut()
        // Should a paste have begun, this ends it.
        _ = decoder.decode([0x03])
        _ = decoder.timedOut()
        #expect(decoder.decode([0x61]) == [.key(.scalar("a"))], "seed \(seed)")
    }
}
