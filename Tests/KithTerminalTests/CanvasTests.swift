import KithTesting
import Testing

@testable import KithTerminal

@Suite struct CanvasTests {
    /// The differences between a terminal and a canvas, in a few lines.
    private func difference(_ terminal: Terminal, _ canvas: Canvas) -> String {
        var lines: [String] = []
        for row in 0..<canvas.rows {
            for column in 0..<canvas.columns {
                let cell = terminal.screen[row].cells[column]
                let text = cell.isWideTail ? "" : cell.isErased ? " " : terminal.text(of: cell)
                let style = TextStyle(
                    cell.foreground, on: cell.background, cell.attributes.subtracting(CellAttributes.halves))
                if text != canvas.text(column: column, row: row) || style != canvas.style(column: column, row: row) {
                    lines.append(
                        "\(column),\(row): \(text.debugDescription) \(style), not "
                            + "\(canvas.text(column: column, row: row).debugDescription) "
                            + "\(canvas.style(column: column, row: row))")
                }
            }
        }
        return lines.prefix(4).joined(separator: "\n")
    }

    private static let texts = [
        "plain", "folder/", "┌──────┐", "名前と日本", "e\u{301}cole", "x", "  ", "▀▄▀", "a\u{308}\u{301}", "한글",
        "🙂 smile", "\u{1B}[31m", "tab\there", "line\nend", "\u{202E}gnp", "\u{200B}zero", "❤\u{FE0F}", "\u{301}alone",
    ]

    private func scribble(on canvas: inout Canvas, _ random: inout SeededRandom) {
        let attributes: [CellAttributes] = [[], .bold, .inverse, [.bold, .faint], .italic]
        func color() -> Color {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: .rgb(.random(in: 0...255, using: &random), 7, 200)
            case 1: .indexed(.random(in: 0...255, using: &random))
            default: .standard
            }
        }
        for _ in 0..<Int.random(in: 0...12, using: &random) {
            let style = TextStyle(color(), on: color(), attributes.randomElement(using: &random) ?? [])
            let column = Int.random(in: 0..<canvas.columns, using: &random)
            let row = Int.random(in: 0..<canvas.rows, using: &random)
            if Int.random(in: 0..<4, using: &random) == 0 {
                canvas.fill(columns: column..<column + 7, rows: row..<row + 2, style)
            } else {
                let text = Self.texts.randomElement(using: &random) ?? ""
                canvas.write(
                    text, column: column, row: row, limit: Bool.random(using: &random) ? column + 6 : nil, style)
            }
        }
        if Bool.random(using: &random) {
            canvas.cursor = Canvas.Position(
                column: .random(in: 0..<canvas.columns, using: &random),
                row: .random(in: 0..<canvas.rows, using: &random))
        }
    }

    @Test(arguments: 0..<120 as Range<UInt64>)
    func `drawing the differences into a terminal gives exactly the canvas`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let columns = Int.random(in: 2...40, using: &random)
        let rows = Int.random(in: 1...12, using: &random)
        var terminal = Terminal(columns: columns, rows: rows, scrollbackLimit: 0)
        terminal.feed(Array("what was there before".utf8))
        var canvas = Canvas(columns: columns, rows: rows)
        var renderer = CanvasRenderer(colors: .full)
        for frame in 0..<25 {
            if Int.random(in: 0..<3, using: &random) == 0 { canvas.clear() }
            scribble(on: &canvas, &random)
            if Int.random(in: 0..<10, using: &random) == 0 { renderer.invalidate() }
            terminal.feed(renderer.draw(canvas))
            #expect(difference(terminal, canvas) == "", "seed \(seed), frame \(frame)")
            #expect(terminal.modes.cursorVisible == (canvas.cursor != nil))
            if let cursor = canvas.cursor {
                #expect((terminal.cursor.column, terminal.cursor.row) == (cursor.column, cursor.row))
            }
            #expect(renderer.draw(canvas).isEmpty, "nothing has changed, so nothing is drawn")
        }
    }

    @Test func `one changed cell costs some bytes, not a screen`() {
        var canvas = Canvas(columns: 80, rows: 24)
        for row in 0..<24 { canvas.write(String(repeating: "x", count: 80), column: 0, row: row) }
        var renderer = CanvasRenderer(colors: .full)
        #expect(renderer.draw(canvas).count > 1_900)
        canvas.write("y", column: 40, row: 12)
        #expect(renderer.draw(canvas).count < 40)
        canvas.clear()
        #expect(renderer.draw(canvas).count < 24 * 12)
    }

    @Test func `a picture drawn anew in another size is whole`() {
        var terminal = Terminal(columns: 30, rows: 5, scrollbackLimit: 0)
        var canvas = Canvas(columns: 30, rows: 5)
        var renderer = CanvasRenderer(colors: .full)
        canvas.write("before", column: 3, row: 2)
        terminal.feed(renderer.draw(canvas))
        terminal.resize(columns: 12, rows: 4)
        canvas.clear(columns: 12, rows: 4)
        canvas.write("after", column: 0, row: 3)
        terminal.feed(renderer.draw(canvas))
        #expect(difference(terminal, canvas) == "")
    }

    @Test func `no colours and no Unicode are drawn where there are none`() {
        var canvas = Canvas(columns: 12, rows: 1)
        canvas.write("┌名e\u{301}…", column: 0, row: 0, TextStyle(.rgb(1, 2, 3), on: .indexed(4), .inverse))
        var renderer = CanvasRenderer(colors: .none, isASCII: true)
        let bytes = renderer.draw(canvas)
        #expect(bytes.allSatisfy { $0 < 0x80 })
        var terminal = Terminal(columns: 12, rows: 1, scrollbackLimit: 0)
        terminal.feed(bytes)
        #expect(terminal.line(0) == "+? e~" || terminal.line(0) == "+? ?~")
        #expect(terminal.screen[0].cells[0].foreground == .standard)
        #expect(terminal.screen[0].cells[0].attributes.contains(.inverse))
    }

    @Test func `true colours become the nearest of the palette`() {
        #expect(CanvasRenderer.nearest(.rgb(255, 0, 0)) == .indexed(196))
        #expect(CanvasRenderer.nearest(.rgb(0, 0, 0)) == .indexed(16))
        #expect(CanvasRenderer.nearest(.rgb(128, 128, 128)) == .indexed(244))
        #expect(CanvasRenderer.nearest(.indexed(3)) == .indexed(3))
    }

    @Test func `text is cut where its room ends`() {
        #expect(CharacterWidth.fitted("directory", width: 5) == "dire…")
        #expect(CharacterWidth.fitted("directory", width: 5, keepsEnd: true) == "…tory")
        #expect(CharacterWidth.fitted("名前", width: 3) == "名…")
        #expect(CharacterWidth.fitted("fits", width: 4) == "fits")
        #expect(CharacterWidth.fitted("no room", width: 0) == "")
        var canvas = Canvas(columns: 4, rows: 1)
        #expect(canvas.write("abc名", column: 0, row: 0) == 4)
        #expect(canvas.line(0) == "abc")
    }
}
