import KithTesting
import Testing

@testable import KithTerminal

@Suite struct ScreenEncoderTests {
    var terminal = Terminal(columns: 40, rows: 10)
    var encoder = ScreenEncoder()

    private mutating func encode(_ output: String) -> ScreenDifference? {
        terminal.feed(Array(output.utf8))
        return encoder.encode(terminal)
    }

    @Test mutating func `the first difference says everything, and the next only what is new`() throws {
        let first = try #require(encode("one\r\n\u{1B}[1mtwo\u{1B}[0m\r\n"))
        #expect(first.size?.columns == 40 && first.size?.rows == 10)
        #expect(first.rows.map(\.number) == [0, 1])
        #expect(first.cursor != nil && first.title == "" && first.modes != nil && first.scrollback != nil)
        #expect(first.styles.map(\.number) == [1])
        #expect(encode("") == nil)
        let second = try #require(encode("x"))
        #expect(second.rows.map(\.number) == [2] && second.size == nil && second.title == nil && second.modes == nil)
        #expect(second.cursor?.column == 1)
        #expect(try #require(encode("\u{7}")).rings)
        #expect(encode("\u{1B}[?2004h")?.modes?.bracketedPaste == true)
        // What looks as before is not sent.
        #expect(encode("\rx")?.rows == nil)
    }

    @Test mutating func `text that scrolls is not sent again`() throws {
        _ = encode((1...10).map { "line \($0)" }.joined(separator: "\r\n"))
        let difference = try #require(encode("\r\nline 11\r\nline 12"))
        #expect(difference.scroll == ScreenDifference.Scroll(top: 0, bottom: 9, count: 2))
        #expect(difference.rows.map(\.number) == [8, 9])
        #expect(difference.scrollback?.count == 2)
    }

    @Test mutating func `a region scrolls both ways between rows that stay`() throws {
        _ = encode("head\u{1B}[10Hfoot\u{1B}[2;9r\u{1B}[2H" + (1...8).map { "line \($0)" }.joined(separator: "\r\n"))
        let up = try #require(encode("\nline 9"))
        #expect(up.scroll == ScreenDifference.Scroll(top: 1, bottom: 8, count: 1))
        #expect(up.rows.map(\.number) == [8])
        let down = try #require(encode("\u{1B}[2H\u{1B}M\u{1B}Mnew"))
        #expect(down.scroll == ScreenDifference.Scroll(top: 1, bottom: 8, count: -2))
        #expect(down.rows.map(\.number) == [1])
    }

    @Test mutating func `characters that fonts draw in a width of their own come apart`() throws {
        let difference = try #require(encode("a語日b e\u{301}😀→\u{E0B0}c"))
        let runs = try #require(difference.rows.first).runs.map(\.run)
        // An arrow is in every font.
        #expect(runs.map(\.text) == ["a", "語日", "b ", "e\u{301}", "😀", "→", "\u{E0B0}", "c"])
        #expect(runs.map(\.width) == [nil, 4, nil, 1, 2, nil, 1, nil])
        #expect(try #require(encode("\r\u{202E}x\u{202E}y")).rows[0].runs[0].run.text == "x")
    }

    @Test mutating func `only links that a browser may follow are told`() throws {
        let links = ["https://kith.example/a", "HTTP://kith.example", "mailto:a@b", "javascript:alert(1)", "file:///x"]
        let output = links.map { "\u{1B}]8;;\($0)\u{7}x\u{1B}]8;;\u{7} " }.joined()
        let difference = try #require(encode(output))
        let told = difference.styles.compactMap { $0.style.link.map { String(decoding: $0, as: UTF8.self) } }
        #expect(told == Array(links[..<3]))
    }

    @Test mutating func `rows that do not fit come with the next, each in its turn`() throws {
        terminal = Terminal(columns: 300, rows: 30)
        let frame = { (shift: Int) in
            (0..<30).map { row in
                "\u{1B}[\(row + 1)H"
                    + (0..<300).map { "\u{1B}[48;2;\(row);\($0 / 4);\(($0 + shift) % 256)mx" }.joined()
            }.joined()
        }
        var seen: Set<Int> = []
        for shift in 0..<10 where seen.count < 30 {
            let difference = try #require(encode(frame(shift)))
            let size = difference.rows.flatMap(\.runs).count * 32 + difference.styles.count * 80
            #expect(size < ScreenEncoder.budget + 300 * 120)
            #expect(encoder.hasMore)
            seen.formUnion(difference.rows.map(\.number))
        }
        #expect(seen.count == 30)
        var count = 0
        while encoder.hasMore, encoder.encode(terminal) != nil { count += 1 }
        #expect(encoder.encode(terminal) == nil && count < 30)
    }

    @Test mutating func `a line of the scrollback keeps its number, and no other gets it`() throws {
        _ = encode((1...30).map { "line \($0) " + String(repeating: "-", count: 20) }.joined(separator: "\r\n"))
        let lines = encoder.lines(from: 0, count: 100, of: terminal)
        #expect(lines.rows.map(\.number) == Array(0..<20))
        #expect(lines.rows[7].runs[0].run.text.hasPrefix("line 8 "))
        #expect(encoder.lines(from: 15, count: 3, of: terminal).rows.map(\.number) == [15, 16, 17])
        #expect(encoder.lines(from: .max, count: .max, of: terminal).rows.isEmpty)
        terminal.resize(columns: 20, rows: 10)
        let range = try #require(encoder.encode(terminal)?.scrollback)
        #expect(range.first >= 20 && range.count > 20)
        #expect(encoder.lines(from: 0, count: 1, of: terminal).rows.isEmpty)
        #expect(encoder.lines(from: 0, count: 30, of: terminal).rows.map(\.number) == Array(range.first..<30))
        // Lines that come back to the screen, and others that leave it then.
        terminal.resize(columns: 20, rows: 12)
        _ = encode("\r\nnew\r\nnew")
        let after = try #require(encoder.encode(terminal) ?? encode("\r\n")).scrollback ?? range
        #expect(after.first >= range.first + range.count)
        terminal.feed(Array("\u{1B}[3J".utf8))
        #expect(encoder.encode(terminal)?.scrollback == .init(first: after.first + after.count, count: 0))
    }

    @Test mutating func `the scrollback is bounded in cells, too`() {
        terminal = Terminal(columns: 4_096, rows: 2, scrollbackLimit: 10_000)
        let line = Array((String(repeating: "x", count: 4_095) + "\r\n").utf8)
        for _ in 0..<700 { terminal.feed(line) }
        #expect(terminal.scrollbackCount <= Scrollback.cellLimit / 4_095 && terminal.scrollbackCount > 500)
        #expect(terminal.scrollbackFirst + terminal.scrollbackCount == 699)
    }

    @Test mutating func `a number of the terminal's tables that stands for another mark is seen`() throws {
        // More characters with marks than the table has room for: so numbers are given again.
        func cluster(_ index: Int) -> String {
            let base = Unicode.Scalar(UInt32(0x4E00 + index / 100)) ?? "x"
            let mark = Unicode.Scalar(UInt32(0x300 + index % 100)) ?? "\u{300}"
            return String(String.UnicodeScalarView([base, mark]))
        }
        let limit = terminal.clusters.limit
        terminal.feed(Array((0..<limit - 1).map { "\r\(cluster($0))" }.joined().utf8))
        _ = try #require(encode("\r\(cluster(limit - 1))"))
        let before = terminal.screen[0].cells[0]
        let difference = try #require(encode("\r\(cluster(limit))"))
        // The same cell, to look at.
        #expect(terminal.screen[0].cells[0] == before)
        #expect(difference.rows.first?.runs.first?.run.text == cluster(limit))
    }
}
