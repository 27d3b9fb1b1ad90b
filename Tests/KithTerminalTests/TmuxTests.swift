import Foundation
import KithTesting
import Testing

@testable import KithTerminal

/// tmux as another terminal, to compare with.
private struct Tmux {
    /// A server for each comparison: one that ends cannot be asked for a new session yet.
    private var socket = ""
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-tmux-\(UUID().uuidString)")

    static let path = ["/usr/bin/tmux", "/usr/local/bin/tmux", "/opt/homebrew/bin/tmux"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

    /// Runs a tmux command, answers what it printed.
    ///
    /// By system(3): Foundation's Process takes a server that lives on for a command that has not ended.
    @discardableResult
    func run(_ arguments: String...) throws -> String {
        let output = folder.appendingPathComponent("output")
        let words = ([Tmux.path ?? "", "-L", socket, "-f", "/dev/null"] + arguments).map {
            "'" + $0.replacing("'", with: "'\\''") + "'"
        }
        let line = words.joined(separator: " ") + " >'\(output.path)' 2>&1 </dev/null"
        _ = system("LC_ALL=C.UTF-8 TERM=xterm-256color " + line)
        return String(decoding: try Data(contentsOf: output), as: UTF8.self)
    }

    /// Feeds `bytes` to tmux and returns its screen with colours, its cursor, and whether it is the alternate screen.
    mutating func shows(_ bytes: [UInt8], columns: Int, rows: Int) async throws -> (screen: String, cursor: String) {
        socket = "kith-\(UUID().uuidString)"
        let file = folder.appendingPathComponent("bytes")
        let mark = "end-\(UUID().uuidString)"
        // CAN ends what is begun. The title says that all before it was read.
        try Data(bytes + [0x18] + Array("\u{1B}]2;\(mark)\u{1B}\\".utf8)).write(to: file)
        try run(
            "new-session", "-d", "-s", "main", "-x", "\(columns)", "-y", "\(rows)",
            "stty raw -echo; cat '\(file.path)'; exec sleep 1000")
        try await eventually { try run("display-message", "-p", "-t", "main", "#{pane_title}").contains(mark) }
        let screen = try run("capture-pane", "-e", "-p", "-N", "-t", "main")
        let cursor = try run("display-message", "-p", "-t", "main", "#{cursor_y} #{cursor_x} #{alternate_on}")
        try run("kill-server")
        return (screen, cursor.trimmingCharacters(in: .newlines))
    }

    func end() {
        try? FileManager.default.removeItem(at: folder)  // the next boot empties /tmp at the latest
    }
}

/// Compares with tmux 3.3, cell by cell. Where the two differ on purpose:
///
/// - Behind a full line tmux's cursor stands in a column of its own, and a line feed, tab or erase there acts on it;
///   here, as in xterm, it stands on the last column and those act there. The generated sequences go on with a
///   character or an absolute move.
/// - Inserting and deleting lines returns to the first column and does nothing outside the margins here, as in xterm
///   and DEC's manual; in tmux neither.
/// - Halves of wide characters that are overwritten: what tmux leaves of them is its own. The sequences have none.
/// - The background of what is erased at the end of a row is not compared, for tmux's capture leaves it out.
@Suite(.enabled(if: Tmux.path != nil, "needs tmux"), .serialized) struct TmuxTests {
    static let recordings = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Fuzz/Corpus/terminal")
    static let names = ["bash", "git", "less", "tmux", "top", "vim", "vim-exit"]

    /// The rows as text and style, without the spaces at their ends: tmux does not tell what colour those have.
    private func rows(_ terminal: Terminal) -> [[String]] {
        terminal.screen.map { row in
            var cells = row.cells.map { cell -> String in
                var shown = cell
                if shown.isErased {
                    shown.content = 0x20
                }
                return TerminalState.cell(cell: shown, of: terminal)
            }
            while cells.last?.hasPrefix("  ") == true { cells.removeLast() }
            return cells
        }
    }

    private func difference(_ bytes: [UInt8], columns: Int, rows rowCount: Int, tmux: inout Tmux) async throws -> String
    {
        var terminal = Terminal(columns: columns, rows: rowCount)
        terminal.feed(bytes + [0x18])
        let (screen, cursor) = try await tmux.shows(bytes, columns: columns, rows: rowCount)
        // tmux writes its screen as text with SGR, one line for each row.
        var shown = Terminal(columns: columns, rows: rowCount + 1)
        shown.feed(Array("\u{1B})0".utf8))
        shown.feed(Array(screen.replacing("\n", with: "\r\n").utf8))
        var lines: [String] = []
        for (index, (mine, theirs)) in zip(rows(terminal), rows(shown)).enumerated() where mine != theirs {
            let column = zip(mine, theirs).enumerated().first { $0.element.0 != $0.element.1 }
            lines.append("row \(index): \(terminal.line(index)) / \(shown.line(index)) \(column.map { "\($0)" } ?? "")")
        }
        let place = terminal.cursor
        let mine = "\(place.row) \(place.column + (place.wrapsNext ? 1 : 0)) \(terminal.isAlternate ? 1 : 0)"
        if mine != cursor { lines.append("cursor \(mine) but \(cursor)") }
        return lines.prefix(4).joined(separator: "\n")
    }

    @Test(arguments: names) func `a recording looks as in tmux, at every tenth of it`(name: String) async throws {
        let bytes = [UInt8](try Data(contentsOf: Self.recordings.appendingPathComponent(name)))
        var tmux = try Tmux()
        defer { tmux.end() }
        for part in 1...10 {
            let end = bytes.count * part / 10
            let difference = try await difference(Array(bytes[..<end]), columns: 80, rows: 24, tmux: &tmux)
            #expect(difference == "", "\(name), the first \(end) bytes")
        }
    }

    @Test(arguments: names) func `a recording is carried by a snapshot, at every tenth of it`(name: String) throws {
        let bytes = [UInt8](try Data(contentsOf: Self.recordings.appendingPathComponent(name)))
        for part in 1...10 {
            let end = bytes.count * part / 10
            var terminal = Terminal(columns: 80, rows: 24)
            terminal.feed(Array(bytes[..<end]))
            var other = Terminal(columns: 80, rows: 24)
            var output = TerminalOutput(seed: UInt64(part))
            other.feed(output.sequences(60, columns: 80, rows: 24))
            other.titleStack = []
            other.feed(terminal.snapshot(scrollbackLines: 100))
            terminal.feed(Array(bytes[end...]))
            other.feed(Array(bytes[end...]))
            let lines = min(20, terminal.scrollbackCount)
            #expect(
                TerminalState(terminal, scrollbackLines: lines).difference(
                    from: TerminalState(other, scrollbackLines: lines)) == "", "\(name), the first \(end) bytes")
        }
    }

    @Test(arguments: 0..<24 as Range<UInt64>) func `common sequences look as in tmux`(seed: UInt64) async throws {
        var output = TerminalOutput(seed: seed)
        var tmux = try Tmux()
        defer { tmux.end() }
        let bytes = output.sequences(120, columns: 40, rows: 10, all: false)
        let difference = try await difference(bytes, columns: 40, rows: 10, tmux: &tmux)
        #expect(difference == "", "seed \(seed)")
    }

    @Test(arguments: 100..<112 as Range<UInt64>) func `tmux shows a snapshot as what was snapped`(seed: UInt64)
        async throws
    {
        var output = TerminalOutput(seed: seed)
        var tmux = try Tmux()
        defer { tmux.end() }
        var terminal = Terminal(columns: 40, rows: 10)
        terminal.feed(output.sequences(120, columns: 40, rows: 10, all: false) + [0x18])
        let before = output.sequences(60, columns: 40, rows: 10, all: false)
        let bytes = before + terminal.snapshot(scrollbackLines: 10)
        let difference = try await difference(bytes, columns: 40, rows: 10, tmux: &tmux)
        #expect(difference == "", "seed \(seed)")
    }
}
