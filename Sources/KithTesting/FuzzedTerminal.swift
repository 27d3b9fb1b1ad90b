internal import KithTerminal

/// A terminal, the filter before it and the echo around it, fed with what a remote program wrote.
///
/// The first two bytes say the size, the third in what pieces the rest comes.
enum FuzzedTerminal {
    static func run(_ bytes: [UInt8]) {
        guard bytes.count >= 3 else { return }
        let columns = Int(bytes[0]) % 100 + 2
        let rows = Int(bytes[1]) % 50 + 1
        let size = Int(bytes[2]) % 61 + 1
        let output = Array(bytes[3...])

        var terminal = Terminal(columns: columns, rows: rows, scrollbackLimit: 100)
        var filter = OutputFilter(clipboardWrites: .ask)
        var echo = PredictiveEcho(terminal: terminal, mode: .always)
        var filtered: [UInt8] = []
        var start = 0
        while start < output.count {
            let piece = Array(output[start..<min(start + size, output.count)])
            terminal.feed(piece)
            filtered += filter.filter(piece)
            _ = echo.typed([piece[0]], inputPosition: UInt64(start), now: .milliseconds(start))
            _ = echo.arrived(piece, now: .milliseconds(start))
            if piece[0] & 3 == 0 { _ = echo.echoed(upTo: UInt64(start), now: .milliseconds(start)) }
            if piece[0] == 0x7F {
                terminal.resize(columns: Int(piece.count) + columns / 2, rows: rows)
                _ = echo.showNotice("notice", now: .milliseconds(start))
                _ = echo.resize(columns: Int(piece.count) + columns / 2, rows: rows, now: .milliseconds(start))
            }
            start += size
        }
        let cursor = terminal.cursor
        precondition(cursor.row < terminal.rowCount && cursor.column < terminal.columns, "The cursor is on the screen")
        precondition(terminal.scrollbackCount <= 100, "The scrollback is bounded")
        precondition(terminal.takeReplies().count <= 65_536, "Answers are bounded")
        precondition(!filtered.contains(0x05), "No ENQ passes")

        var copy = Terminal(columns: terminal.columns, rows: terminal.rowCount, scrollbackLimit: 100)
        copy.feed(terminal.snapshot(scrollbackLines: 0))
        for row in 0..<terminal.rowCount {
            precondition(copy.line(row) == terminal.line(row), "A snapshot shows the same text")
        }
        precondition(
            copy.cursor.row == cursor.row && copy.cursor.column == cursor.column, "A snapshot leaves the cursor there")

        var reader = Asciicast.Reader()
        // A refusal is an answer.
        _ = try? reader.read(output)
    }
}
