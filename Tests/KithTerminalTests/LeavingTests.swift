import Testing

@testable import KithTerminal

struct LeavingTests {
    private let everything =
        "\u{1B}[?1;5;12;1002;1004;1006;1007;2004h\u{1B}[?7;25l\u{1B}=\u{1B}[4h\u{1B}[20h\u{1B}[>4;2m\u{1B}[5 q\u{1B}[31m\u{1B}(0"

    @Test func `a terminal nothing was done to is left alone`() {
        var terminal = Terminal(columns: 20, rows: 4)
        terminal.feed(Array("$ ls\r\nfile\r\n$ ".utf8))
        #expect(terminal.leaving().isEmpty)
        #expect(terminal.returning().isEmpty)
    }

    @Test(arguments: ["", "\u{1B}[?1049hfull screen"])
    func `what programs switched on is off after leaving, and on again after coming back`(screen: String) {
        var terminal = Terminal(columns: 20, rows: 4)
        terminal.feed(Array("$ \(screen)\(everything)".utf8))
        let inside = terminal
        let farewell = terminal.leaving()
        #expect(farewell.count <= Terminal.longestLeaving)
        terminal.feed(farewell)
        #expect(!terminal.isAlternate)
        #expect(terminal.modes == TerminalModes())
        #expect(terminal.line(0).hasPrefix("$"))
        #expect(terminal.leaving().isEmpty)
        terminal.feed(inside.returning())
        #expect(terminal.modes == inside.modes && terminal.isAlternate == inside.isAlternate)
    }

    @Test func `a sequence that was cut short ends there`() {
        var terminal = Terminal(columns: 20, rows: 4)
        terminal.feed(Array("\u{1B}]2;a title that never".utf8))
        terminal.feed(terminal.leaving() + Array("$ ".utf8))
        #expect(terminal.line(0).hasPrefix("$"))
    }
}
