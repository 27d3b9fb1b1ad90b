import KithTesting
import Testing

@testable import KithTerminal

@Suite struct SnapshotTests {
    /// Feeds a terminal of random state the snapshot of `terminal`, and answers how the two differ.
    private func difference(_ terminal: Terminal, seed: UInt64, scrollbackLines: Int = 30) -> String {
        var other = Terminal(columns: terminal.columns, rows: terminal.rowCount, scrollbackLimit: 200)
        var output = TerminalOutput(seed: seed ^ 0x5EED)
        other.feed(output.sequences(60, columns: terminal.columns, rows: terminal.rowCount) + output.noise(20))
        // Titles that were on the reader's stack stay there.
        other.titleStack = []
        other.feed(terminal.snapshot(scrollbackLines: scrollbackLines))
        let lines = min(scrollbackLines, terminal.scrollbackCount)
        return TerminalState(terminal, scrollbackLines: lines).difference(
            from: TerminalState(other, scrollbackLines: lines))
    }

    @Test(arguments: 0..<150 as Range<UInt64>) func `a terminal of any state becomes the one snapped`(seed: UInt64) {
        var output = TerminalOutput(seed: seed)
        let columns = Int.random(in: 4...40, using: &output.random)
        let rows = Int.random(in: 2...12, using: &output.random)
        var terminal = Terminal(columns: columns, rows: rows, scrollbackLimit: 50)
        for round in 0..<4 {
            terminal.feed(output.sequences(80, columns: columns, rows: rows))
            #expect(difference(terminal, seed: seed) == "", "seed \(seed), round \(round)")
        }
    }

    @Test(arguments: 1000..<1100 as Range<UInt64>) func `random bytes are carried too`(seed: UInt64) {
        var output = TerminalOutput(seed: seed)
        var terminal = Terminal(columns: 20, rows: 6, scrollbackLimit: 50)
        terminal.feed(output.noise(800))
        #expect(difference(terminal, seed: seed) == "", "seed \(seed)")
    }

    @Test(arguments: 2000..<2060 as Range<UInt64>) func `what was resized is carried too`(seed: UInt64) {
        var output = TerminalOutput(seed: seed)
        var terminal = Terminal(columns: 20, rows: 6, scrollbackLimit: 50)
        for _ in 0..<4 {
            terminal.feed(output.sequences(60, columns: terminal.columns, rows: terminal.rowCount))
            terminal.resize(
                columns: Int.random(in: 2...40, using: &output.random),
                rows: Int.random(in: 1...12, using: &output.random))
            if terminal.columns >= 4, terminal.rowCount >= 2 {
                #expect(difference(terminal, seed: seed) == "", "seed \(seed)")
            }
        }
    }
}
