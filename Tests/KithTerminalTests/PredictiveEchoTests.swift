import KithTesting
import Testing

@testable import KithTerminal

/// A device behind a slow path, its program, and a person with a terminal.
private struct Session {
    var echo: PredictiveEcho
    /// The terminal that the person sees.
    var person: Terminal
    /// The screen that the device's program drew, at once.
    var truth: Terminal
    var sent: UInt64 = 0
    var now = Duration.zero
    /// Output that has not arrived, with the input position it answers.
    var inFlight: [(output: [UInt8], position: UInt64)] = []
    /// The program's answer to input.
    var program: (inout Terminal, [UInt8]) -> [UInt8]

    init(
        mode: PredictiveEcho.Mode = .always, columns: Int = 20,
        _ program: @escaping (inout Terminal, [UInt8]) -> [UInt8]
    ) {
        let empty = Terminal(columns: columns, rows: 6)
        echo = PredictiveEcho(terminal: empty, mode: mode)
        person = empty
        truth = empty
        self.program = program
    }

    mutating func type(_ text: String) {
        for scalar in text.unicodeScalars { press(Array(String(scalar).utf8)) }
    }

    mutating func press(_ bytes: [UInt8]) {
        now += .milliseconds(40)
        person.feed(echo.typed(bytes, inputPosition: sent, now: now))
        sent += UInt64(bytes.count)
        let output = program(&truth, bytes)
        truth.feed(output)
        inFlight.append((output, sent))
    }

    mutating func show(_ text: String) {
        truth.feed(Array(text.utf8))
        person.feed(echo.arrived(Array(text.utf8), now: now))
    }

    /// Delivers the device's answer to the oldest input.
    mutating func arrive() {
        let (output, position) = inFlight.removeFirst()
        now += .milliseconds(10)
        person.feed(echo.arrived(output, now: now))
        person.feed(echo.echoed(upTo: position, now: now))
    }

    mutating func arriveAll() {
        while !inFlight.isEmpty { arrive() }
    }

    var difference: String {
        TerminalState(truth, scrollbackLines: 10).difference(from: TerminalState(person, scrollbackLines: 10))
    }

    /// The person's line, with underlined characters in brackets.
    var line: String {
        var line = ""
        for cell in person.screen[person.cursor.row].cells {
            let text = cell.isErased ? " " : person.text(of: cell)
            line += cell.attributes.underline == .none ? text : "[\(text)]"
        }
        while line.hasSuffix(" ") { line.removeLast() }
        return line
    }
}

/// A line discipline: shows what is typed, removes at backspace, begins a line at return.
private func lineEditor(_ terminal: inout Terminal, _ bytes: [UInt8]) -> [UInt8] {
    switch bytes {
    case [0x0D]: Array("\r\n$ ".utf8)
    case [0x7F]: terminal.cursor.column > 2 ? Array("\u{8}\u{1B}[P".utf8) : [0x07]
    case Array("\u{1B}[D".utf8): terminal.cursor.column > 2 ? [0x08] : [0x07]
    case Array("\u{1B}[C".utf8):
        terminal.line(terminal.cursor.row).count > terminal.cursor.column ? Array("\u{1B}[C".utf8) : [0x07]
    default: Array("\u{1B}[@".utf8) + bytes
    }
}

@Suite struct PredictiveEchoTests {
    @Test func `a notice covers only what can be shown again`() {
        var session = Session { _, _ in [] }
        // The person's terminal showed something before, of which nothing is known here.
        session.person.feed(Array("before\r\n".utf8))
        session.show("first\r\nsecond\r\n$ ")
        let before = (0..<6).map { session.person.line($0) }
        session.person.feed(session.echo.showNotice("no answer", now: .zero))
        #expect(session.person.line(0) == before[0])
        #expect(session.person.line(1).contains("no answer"))
        session.person.feed(session.echo.showNotice("no answer for longer", now: .zero))
        session.show("x")
        #expect((0..<6).map { session.person.line($0) } == Array(before[..<3]) + ["$ x"] + before[4...])
    }

    @Test func `a notice on the cursor's own row stands beside what is there`() {
        var session = Session(columns: 40) { _, _ in [] }
        session.show("$ ls")
        session.person.feed(session.echo.showNotice("no answer", now: .zero))
        #expect(session.person.line(0).hasPrefix("$ ls") && session.person.line(0).contains("no answer"))
        session.person.feed(session.echo.hideNotice(now: .zero))
        #expect(session.difference == "")
    }

    @Test func `typed characters are underlined until the device shows them`() {
        var session = Session { lineEditor(&$0, $1) }
        session.show("$ ")
        session.type("l")
        #expect(session.line == "$", "The first character of a line waits for its echo")
        session.arrive()
        session.type("s -")
        #expect(session.line == "$ l[s][ ][-]")
        #expect(session.person.cursor.column == 6)
        session.arrive()
        #expect(session.line == "$ ls[ ][-]")
        session.arriveAll()
        #expect(session.difference == "")
        #expect(!session.echo.isShowing)
    }

    @Test func `backspace and arrows are guessed, also in the middle of a line`() {
        var session = Session { lineEditor(&$0, $1) }
        session.show("$ ")
        session.type("abcd")
        session.arriveAll()
        session.press([0x7F])
        #expect(session.line == "$ abc")
        session.press(Array("\u{1B}[D".utf8))
        session.press(Array("\u{1B}[D".utf8))
        session.type("X")
        #expect(session.line == "$ a[X][b][c]")
        #expect(session.person.cursor.column == 4)
        session.arriveAll()
        #expect(session.line == "$ aXbc")
        #expect(session.difference == "")
    }

    @Test func `a password is never shown`() {
        var isHidden = false
        var session = Session { terminal, bytes in
            if bytes == [0x0D] {
                isHidden.toggle()
                return Array((isHidden ? "\r\nPassword: " : "\r\n$ ").utf8)
            }
            return isHidden ? [] : bytes
        }
        session.show("$ ")
        session.type("su")
        session.arriveAll()
        session.type("do\r")
        session.type("se")
        session.arrive()
        session.arrive()
        session.arrive()
        for character in "cret" {
            session.type(String(character))
            #expect(!session.line.contains("s") || session.line == "Password:", "seen: \(session.line)")
            #expect(session.line == "Password:")
            session.arrive()
        }
        session.arriveAll()
        #expect(session.line == "Password:")
        #expect(session.difference == "")
    }

    @Test func `a guess that was wrong leaves nothing behind`() {
        var count = 0
        // An editor: some keys are text, then all are commands.
        var session = Session { terminal, bytes in
            count += 1
            return count < 4 ? bytes : Array("\u{1B}[3;3H\u{1B}[32mmoved\u{1B}[0m".utf8)
        }
        session.show("text: ")
        session.type("ab")
        session.arriveAll()
        session.type("cdefg")
        #expect(session.line == "text: ab[c][d][e][f][g]")
        session.arriveAll()
        #expect(session.difference == "")
        #expect(!session.echo.isShowing)
    }

    @Test func `nothing is drawn on a fast path, and output passes as it is`() {
        var session = Session(mode: .adaptive) { lineEditor(&$0, $1) }
        for _ in 0..<10 { session.echo.roundTrip(.milliseconds(5)) }
        session.show("$ ")
        session.type("abc")
        let output = session.echo.arrived([0x61, 0x1B, 0x5B], now: session.now)
        #expect(output == [0x61, 0x1B, 0x5B])
        #expect(!session.echo.isShowing)
    }

    @Test func `guesses begin at 30 ms and end below 20 ms, or when one stands for 250 ms`() {
        var session = Session(mode: .adaptive) { lineEditor(&$0, $1) }
        session.show("$ ")
        session.type("a")
        session.arriveAll()
        session.echo.roundTrip(.milliseconds(29))
        session.type("b")
        #expect(session.line == "$ a")
        #expect(session.echo.deadline == session.now + .milliseconds(250))
        session.now += .milliseconds(250)
        session.person.feed(session.echo.timedOut(now: session.now))
        #expect(session.line == "$ a[b]")
        session.arriveAll()
        for _ in 0..<8 { session.echo.roundTrip(.milliseconds(40)) }
        session.type("c")
        #expect(session.line == "$ ab[c]")
        for _ in 0..<4 { session.echo.roundTrip(.milliseconds(25)) }
        session.arriveAll()
        session.type("d")
        #expect(session.line == "$ abc[d]", "Between the two it stays as it was")
        for _ in 0..<40 { session.echo.roundTrip(.milliseconds(1)) }
        session.arriveAll()
        session.type("e")
        #expect(session.line == "$ abcd")
    }

    @Test func `keys typed ahead of a new line are guessed once it is there`() {
        var session = Session { lineEditor(&$0, $1) }
        session.show("$ ")
        session.type("a")
        session.arriveAll()
        session.type("b\rcde")
        #expect(session.line == "$ a[b]")
        for _ in 0..<3 { session.arrive() }
        #expect(session.line == "$ c[d][e]")
        session.arriveAll()
        #expect(session.difference == "")
    }

    @Test func `nothing is drawn into a sequence that is half there`() {
        var session = Session { lineEditor(&$0, $1) }
        session.show("$ ")
        session.type("a")
        session.arriveAll()
        session.type("b")
        session.show("\u{1B}[3")
        #expect(!session.echo.isShowing)
        session.type("c")
        #expect(!session.echo.isShowing)
        session.show("1m")
        #expect(session.line == "$ a[b][c]")
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `after any typing and any delay the person sees the truth`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var mute = false
        var session = Session { terminal, bytes in
            if bytes == [0x0D] { mute.toggle() }
            // Every other line echoes nothing.
            return mute && bytes != [0x0D] ? [] : lineEditor(&terminal, bytes)
        }
        session.show("$ ")
        let keys = ["a", "b", " ", "é", "語", "\u{7F}", "\u{1B}[D", "\u{1B}[C", "\t"].map { Array($0.utf8) } + [[0x0D]]
        for _ in 0..<300 {
            switch Int.random(in: 0...9, using: &random) {
            case 0...4: session.press(keys[Int.random(in: 0..<keys.count, using: &random)])
            case 5: session.press([UInt8.random(in: 0x61...0x7A, using: &random)])
            default: if !session.inFlight.isEmpty { session.arrive() }
            }
            if session.inFlight.isEmpty {
                #expect(session.difference == "", "seed \(seed)")
                #expect(!session.echo.isShowing, "seed \(seed)")
            }
        }
        session.arriveAll()
        #expect(session.difference == "", "seed \(seed)")
    }
}
