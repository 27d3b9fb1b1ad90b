import KithAPI
import KithRPC
import KithTerminal
import KithTesting
import KithWire
import Testing

@testable import KithShell

@Suite struct ShellScreenEngineTests {
    /// An engine, its viewer, and the time.
    private struct Run {
        var engine: ShellScreenEngine
        var mirror = ScreenMirror()
        var now = Duration.zero

        init(
            columns: Int = 40, rows: Int = 10, prediction: PredictiveEcho.Mode = .never, isInteractive: Bool = true,
            reportsTaken: Bool = false, taken: UInt64 = 0, skipped: Int = 0
        ) {
            engine = ShellScreenEngine(
                columns: columns, rows: rows, prediction: prediction, isInteractive: isInteractive,
                reportsTaken: reportsTaken, taken: taken, skipped: skipped)
        }

        mutating func output(_ text: String) { engine.output(Array(text.utf8), at: now) }

        @discardableResult mutating func act(_ action: Shell.Screen.Action) throws -> Shell.Screen.Size? {
            try engine.received(action, at: now)
        }

        /// What is sent now.
        mutating func sent() throws -> [Shell.Screen.Update] {
            var updates: [Shell.Screen.Update] = []
            while case .send(let update) = engine.next(at: now) {
                try mirror.apply(update)
                updates.append(update)
            }
            return updates
        }

        mutating func acknowledge() throws { try act(.shown(mirror.number)) }

        /// The input that was passed on.
        mutating func input() -> String {
            var bytes: [UInt8] = []
            while let input = engine.nextInput() {
                bytes += input.bytes
                engine.passedOn(input)
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    @Test func `no more than two pictures are on their way, and the next has all that changed meanwhile`() throws {
        var run = Run()
        #expect(try run.sent().count == 1)
        run.output("one\r\n")
        // The second follows after a frame's time.
        #expect(run.engine.next(at: run.now) == .waitUntil(ShellScreenEngine.frameTime))
        run.now = ShellScreenEngine.frameTime
        #expect(try run.sent().map(\.number) == [2])
        for line in 0..<1_000 {
            run.now += .milliseconds(1)
            run.output("line \(line)\r\n")
            #expect(run.engine.next(at: run.now) == .wait)
        }
        try run.acknowledge()
        let updates = try run.sent()
        #expect(updates.map(\.number) == [3])
        #expect(run.mirror.difference(from: run.engine.terminal) == nil)
        #expect(run.mirror.text.hasSuffix("line 999"))
        // Its size is that of a screen.
        #expect(updates[0].rows?.count ?? 0 <= 10)
    }

    @Test func `one that acknowledges what it was not sent is refused`() throws {
        var run = Run()
        _ = try run.sent()
        try run.act(.shown(1))
        #expect(throws: KithError(.invalid, "")) { try run.act(.shown(2)) }
    }

    @Test func `the last picture and the end are told to one that acknowledges nothing`() throws {
        var run = Run()
        _ = try run.sent()
        run.output("a")
        run.now = .seconds(1)
        _ = try run.sent()
        run.output("b\r\nlast words")
        run.now = .seconds(2)
        #expect(try run.sent().isEmpty)
        run.engine.exited(.signal(.kill, dumpedCore: false))
        let updates = try run.sent()
        #expect(updates.count == 2 && run.mirror.text == "ab\nlast words")
        #expect(updates.last?.exit == Shell.Screen.Exit(signal: "KILL"))
        #expect(run.engine.next(at: run.now) == .finish)
    }

    @Test func `a program that draws at leave is not seen half done, nor for ever`() throws {
        var run = Run()
        _ = try run.sent()
        try run.acknowledge()
        run.now = .seconds(1)
        run.output("\u{1B}[?2026hhalf")
        #expect(run.engine.next(at: run.now) == .waitUntil(.seconds(1) + ShellScreenEngine.synchronizedTime))
        run.output(" whole\u{1B}[?2026l")
        #expect(try run.sent().count == 1 && run.mirror.text == "half whole")
        try run.acknowledge()
        run.now = .seconds(2)
        run.output("\r\u{1B}[?2026hnever ends")
        #expect(try run.sent().isEmpty)
        run.now += ShellScreenEngine.synchronizedTime
        #expect(try run.sent().count == 1 && run.mirror.text == "never ends")
    }

    @Test func `the terminal answers what a program asks, but not for ever one that does not read`() throws {
        var run = Run()
        run.output("\u{1B}[6n\u{1B}[c")
        #expect(run.input().hasPrefix("\u{1B}[1;1R\u{1B}[?"))
        for _ in 0..<10_000 { run.output(String(repeating: "\u{1B}[6n", count: 100)) }
        #expect(run.engine.waitingInput < 3 * ShellScreenEngine.replyLimit)
        var viewing = Run(isInteractive: false)
        viewing.output("\u{1B}[6n")
        try viewing.act(.text("x"))
        #expect(viewing.input() == "")
    }

    @Test func `more input than a program reads is not taken`() throws {
        var run = Run()
        let paste = String(repeating: "x", count: Shell.Screen.Action.pasteLimit)
        #expect(run.engine.takesInput)
        try run.act(.paste(paste))
        #expect(!run.engine.takesInput)
        #expect(run.input().count == paste.count && run.engine.takesInput)
        for _ in 0..<ShellScreenEngine.messageLimit { try run.act(.focus(true)) }
        #expect(!run.engine.takesInput)
    }

    @Test func `of many questions for lines the last are answered`() throws {
        var run = Run()
        run.output((0..<100).map { "line \($0)\r\n" }.joined())
        _ = try run.sent()
        for number in 0..<20 { try run.act(.lines(Shell.Screen.LineRange(from: number, count: 1))) }
        let answers = try run.sent().compactMap(\.lines)
        #expect(answers.map(\.from) == Array(4..<20))
        #expect(run.mirror.lines[7]?.text == "line 7")
    }

    @Test func `clipboard, bell, title and modes are told`() throws {
        var run = Run()
        run.output("\u{1B}]52;c;aGVsbG8=\u{7}\u{7}\u{1B}]2;name\u{7}\u{1B}[?1049h\u{1B}[?1002h\u{1B}[?1006h")
        _ = try run.sent()
        #expect(run.mirror.clipboard == "hello" && run.mirror.bells == 1 && run.mirror.title == "name")
        #expect(run.mirror.modes?.mouse == .drag && run.mirror.modes?.alternateScreen == true)
        // Reading it is not even answered.
        run.output("\u{1B}]52;c;?\u{7}")
        #expect(run.input() == "")
    }

    @Test func `what is typed is drawn ahead of its echo, and said to be`() throws {
        var run = Run(prediction: .always)
        run.output("$ ")
        _ = try run.sent()
        for letter in ["l", "s"] {
            run.now += .milliseconds(100)
            try run.act(.text(letter))
            try run.acknowledge()
            _ = try run.sent()
            if letter == "l" {
                // The first waits: who knows whether it is echoed at all.
                #expect(run.mirror.text == "$")
                run.output("l")
                run.engine.echoed(upTo: 1, roundTrip: .milliseconds(100), at: run.now)
            }
        }
        #expect(run.mirror.text == "$ ls" && run.mirror.cursor?.x == 4)
        #expect(run.mirror.rows[0].styles[3].predicted == true && run.mirror.rows[0].styles[2].predicted == nil)
        run.now += .milliseconds(100)
        run.output("s")
        run.engine.echoed(upTo: 2, roundTrip: .milliseconds(100), at: run.now)
        try run.acknowledge()
        _ = try run.sent()
        #expect(run.mirror.difference(from: run.engine.terminal) == nil)
        #expect(run.mirror.state?.roundTrip == 100)
    }

    @Test func `a way that is lost is not said to be there for its round trip`() throws {
        var run = Run()
        run.engine.echoed(upTo: 0, roundTrip: .milliseconds(20), at: run.now)
        _ = try run.sent()
        run.engine.echoed(upTo: 0, roundTrip: .seconds(9), at: run.now)
        run.engine.connected(false)
        _ = try run.sent()
        run.now = .seconds(10)
        _ = try run.sent()
        #expect(run.mirror.state?.connected == false)
        run.engine.connected(true)
        #expect(try run.sent().last?.state?.roundTrip ?? 0 > 20)
    }

    @Test func `a viewer is told which of its messages were passed on, and one that comes back goes on there`() throws {
        var run = Run(reportsTaken: true, taken: 5, skipped: 2)
        _ = try run.sent()
        try run.act(.text("hello"))
        try run.act(.mouse(Shell.Screen.Mouse(.down, .left, x: 0, y: 0)))
        // Two bytes of the first were passed on before.
        #expect(run.input() == "llo")
        run.now = .seconds(1)
        #expect(try run.sent().last?.taken == 7)
        try run.act(.text("x"))
        _ = run.input()
        #expect(run.engine.next(at: run.now) == .waitUntil(.seconds(1) + ShellScreenEngine.takenTime))
    }

    @Test func `a new size is taken on at once, and passed on`() throws {
        var run = Run()
        run.output("wrapped or not, this is a line that is long")
        _ = try run.sent()
        try run.acknowledge()
        run.now = .seconds(1)
        #expect(try run.act(.size(Shell.Screen.Size(columns: 60, rows: 5))) == Shell.Screen.Size(columns: 60, rows: 5))
        #expect(try run.act(.size(Shell.Screen.Size(columns: 60, rows: 5))) == nil)
        _ = try run.sent()
        #expect(run.mirror.columns == 60 && run.mirror.rows.count == 5)
        #expect(run.mirror.text == "wrapped or not, this is a line that is long")
    }

    private static let actions: [(String, Shell.Screen.Action?)] = [
        (#"{"text":"ls"}"#, .text("ls")),
        (#"{"key":{"name":"c","control":true}}"#, .key(Shell.Screen.Key(name: "c", control: true))),
        (#"{"mouse":{"kind":"wheel","x":1,"y":2,"delta":-3}}"#, .mouse(.init(.wheel, x: 1, y: 2, delta: -3))),
        (#"{"size":{"columns":2,"rows":1000}}"#, .size(.init(columns: 2, rows: 1_000))), (#"{"shown":7}"#, .shown(7)),
        (#"{"lines":{"from":0,"count":500}}"#, .lines(.init(from: 0, count: 500))),
        (#"{"focus":false}"#, .focus(false)),
        (#"{"size":{"columns":1,"rows":1}}"#, nil), (#"{"size":{"columns":80,"rows":1001}}"#, nil),
        (#"{"lines":{"from":0,"count":501}}"#, nil), (#"{"lines":{"from":-1,"count":1}}"#, nil), ("{}", nil),
        (#"{"mouse":{"kind":"wheel","x":1,"y":2,"delta":101}}"#, nil), (#"{"shown":-1}"#, nil),
    ]

    @Test(arguments: actions)
    func `an action is one member, in its bounds`(text: String, action: Shell.Screen.Action?) {
        let read = try? JSONText(scanned: Array(text.utf8)).decode(Shell.Screen.Action.self)
        #expect(read == action)
    }

    @Test(arguments: [
        ("Enter", "\r"), ("ArrowUp", "\u{1B}[A"), ("Up", "\u{1B}[A"), ("F12", "\u{1B}[24~"), ("F21", ""),
        ("Space", " "),
        ("a", "a"), ("é", "é"), ("e\u{301}", "e\u{301}"), ("Keypad5", "5"), ("KeypadEnter", "\r"), ("Hyper", ""),
        ("", ""), ("F", "F"), ("Keypad", ""), ("👨‍👩‍👧", "👨‍👩‍👧"),
    ])
    func `a key has a name`(name: String, bytes: String) throws {
        var run = Run()
        try run.act(.key(Shell.Screen.Key(name: name)))
        #expect(run.input() == bytes)
    }
}
