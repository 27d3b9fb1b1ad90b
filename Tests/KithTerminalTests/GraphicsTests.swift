import KithTerminal
import Testing

/// Pictures in terminals, and the question whether one shows them.
@Suite struct GraphicsTests {
    private func asked(_ answers: String...) -> GraphicsQuery {
        var query = GraphicsQuery()
        for answer in answers { query.take(answer.utf8) }
        return query
    }

    private func strings(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    /// The answers of terminals as they send them.
    @Test(arguments: [
        // kitty 0.36, WezTerm 20240203, foot 1.13, xterm 388 -ti vt340, Konsole 22, xterm, tmux 3.3, the Linux console.
        ("\u{1B}_Gi=4211;OK\u{1B}\\\u{1B}[6;36;18t\u{1B}[?62;c", GraphicsProtocol.kitty),
        ("\u{1B}_Gi=4211;OK\u{1B}\\\u{1B}[6;20;10t\u{1B}[?65;4;6;18;22c", .kitty),
        ("\u{1B}[6;24;12t\u{1B}[?62;4;22c", .sixel), ("\u{1B}[?63;1;2;4;6;9;15;16;22c", .sixel),
        ("\u{1B}_Gi=4211;EINVAL:no\u{1B}\\\u{1B}[?62;1;4c", .sixel), ("\u{1B}[?64;1;2;6c", nil),
        ("\u{1B}[?1;2c", nil), ("\u{1B}[?6c", nil),
        // The first number is its level, not a feature.
        ("\u{1B}[?4c", nil),
    ])
    func `a terminal says by its answers how it shows pictures`(answer: String, expected: GraphicsProtocol?) {
        let query = asked(answer)
        #expect(query.isDone && query.answer == expected)
    }

    @Test func `answers come in pieces, and among keys`() {
        let whole = "ab\u{1B}[A\u{1B}_Gi=4211;OK\u{1B}\\x\u{1B}[6;20;10t\u{1B}[?62;4c"
        var query = GraphicsQuery()
        for byte in whole.utf8 {
            #expect(!query.isDone)
            query.take([byte])
        }
        #expect(query.answer == .kitty)
        #expect(query.cell?.width == 10 && query.cell?.height == 20)
        // What was answered is no key.
        var decoder = InputDecoder()
        #expect(
            decoder.decode(whole.utf8) == [
                .key(.scalar("a"), []), .key(.scalar("b"), []), .key(.up, []), .key(.scalar("x"), []),
            ])
    }

    @Test func `what is no answer, or comes too late, is not believed`() {
        #expect(asked("\u{1B}[6;9999;0t\u{1B}[?1c").cell == nil)
        #expect(asked("\u{1B}_Gi=7;OK\u{1B}\\\u{1B}[?1c").answer == nil)
        let long = String(repeating: "9", count: 10_000)
        #expect(asked("\u{1B}_G\(long)", "\u{1B}[\(long)c", "\u{1B}[?\(long)c").answer == nil)
        var late = GraphicsQuery()
        late.timedOut()
        late.take("\u{1B}_Gi=4211;OK\u{1B}\\\u{1B}[?62;4c".utf8)
        #expect(late.isDone && late.answer == nil)
    }

    private func image(_ width: Int, _ height: Int, _ color: (UInt8, UInt8, UInt8) = (255, 0, 0)) -> TerminalImage {
        TerminalImage(
            width: width, height: height,
            pixels: (0..<width * height).flatMap { _ in [color.0, color.1, color.2] })
    }

    @Test func `a picture for kitty goes in commands of at most 4,096 bytes, which say where it ends`() throws {
        var screen = GraphicsScreen(.kitty)
        let placed = GraphicsScreen.Placed(image(60, 40), column: 3, row: 1, columns: 20, rows: 5)
        let text = strings(screen.show(placed, isRedrawn: false))
        #expect(text.hasPrefix("\u{1B}[2;4H\u{1B}_Ga=T,f=24,i=4212,s=60,v=40,c=20,r=5,C=1,q=2,m=1;/wAA/wAA"))
        let commands = text.split(separator: "\u{1B}_G").dropFirst()
        // 7,200 bytes are 9,600 in base64.
        #expect(commands.map { $0.hasSuffix("\u{1B}\\") } == [true, true, true])
        #expect(commands.dropFirst().map { $0.prefix(8) } == ["q=2,m=1;", "q=2,m=0;"])
        #expect(commands.allSatisfy { ($0.split(separator: ";").last?.utf8.count ?? 0) <= 4_096 + 2 })
        // The same is not sent again; another takes the first one away.
        #expect(screen.show(placed, isRedrawn: false).isEmpty)
        #expect(strings(screen.clear()) == "\u{1B}_Ga=d,d=I,i=4212,q=2\u{1B}\\")
        #expect(screen.clear().isEmpty)
    }

    @Test func `sixels are bands of six rows, and say a run once`() {
        var screen = GraphicsScreen(.sixel)
        let placed = GraphicsScreen.Placed(image(10, 8), column: 0, row: 0, columns: 5, rows: 1)
        // Red is 5·36; ~ is all six rows, B the first two.
        #expect(
            strings(screen.show(placed, isRedrawn: false))
                == "\u{1B}[1;1H\u{1B}P0;1;0q\"1;1;10;8#180;2;100;0;0#180!10~-#180!10B\u{1B}\\")
        let two = TerminalImage(width: 2, height: 1, pixels: [0, 0, 0, 255, 255, 255])
        let other = GraphicsScreen.Placed(two, column: 0, row: 0, columns: 1, rows: 1)
        #expect(screen.needsRedraw(for: other) && screen.needsRedraw(for: nil) && !screen.needsRedraw(for: placed))
        #expect(
            strings(screen.show(other, isRedrawn: true)).hasSuffix(
                "q\"1;1;2;1#0;2;0;0;0#215;2;100;100;100#0@$#215?@\u{1B}\\"))
        #expect(!screen.show(other, isRedrawn: true).isEmpty)
    }

    @Test func `sixels of a grey between two steps are as bright as it`() {
        let text = strings(SixelSample.shown(image(64, 60, (100, 100, 100))))
        // Of 0 and 51·k the two around 100 are 51 and 102: nearly all pixels are the upper one.
        #expect(text.contains("#86;2;40;40;40") && text.contains("#43;2;20;20;20"))
    }
}

private enum SixelSample {
    static func shown(_ image: TerminalImage) -> [UInt8] {
        var screen = GraphicsScreen(.sixel)
        return screen.show(.init(image, column: 0, row: 0, columns: 1, rows: 1), isRedrawn: false)
    }
}
