import Foundation
import KithAPI
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithShell

/// Shells on real terminals whose screen is drawn elsewhere.
struct ShellScreenTests {
    let service = ShellService(
        options: Harness.options(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    let client: Client

    init() { client = Client(CuttableCarrier(service)) }

    private static func program(_ name: String) -> Bool {
        ["/usr/bin/", "/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"].contains {
            FileManager.default.isExecutableFile(atPath: $0 + name)
        }
    }

    private func shell(
        _ line: String = "exec sh", columns: Int = 60, rows: Int = 15, viewer: String? = nil, keep: UInt32 = 60
    ) async throws -> ScreenViewer {
        try await ScreenViewer(
            client,
            Shell.Screen.Input(
                columns: columns, rows: rows, commandLine: "PS1='> '; export PS1; " + line, keep: keep,
                viewer: viewer))
    }

    @Test func `what is typed shows, and the status arrives`() async throws {
        let viewer = try await shell()
        try await viewer.until(">")
        try await viewer.type("echo he''llo $COLUMNS; stty size")
        try await viewer.press("Enter")
        try await viewer.until("\nhello")
        try await viewer.until("15 60")
        #expect(try await viewer.difference(client) == nil)
        try await viewer.type("exit 7\n")
        #expect(try await viewer.end() == Shell.Screen.Exit(code: 7))
    }

    @Test func `a death by signal says which`() async throws {
        let viewer = try await shell("kill -9 $$")
        #expect(try await viewer.end() == Shell.Screen.Exit(signal: "KILL"))
    }

    @Test func `styles and wide characters are those of the terminal`() async throws {
        let viewer = try await shell()
        try await viewer.until(">")
        try await viewer.type(
            #"printf '\033[1;31mred\033[0m \033[48;5;17m \033[4:3mcurly\033[0m 日本語 e\314\201 \033[38;2;1;2;3mtrue\033[m|en''d\n'"#
                + "\n")
        try await viewer.until("|end")
        #expect(viewer.mirror.text.contains("red  curly 日本語 e\u{301} true|end"))
        let row = try #require(viewer.mirror.rows.first { $0.text.hasPrefix("red") })
        #expect(row.styles[0].foreground == .indexed(1) && row.styles[0].bold == true)
        #expect(row.styles[4].underline == nil && row.styles[4].background == .indexed(17))
        #expect(row.styles[5].underline == .curly && row.styles[5].background == .indexed(17))
        // Behind ten columns, a space, three wide characters, a space, a letter with a mark and a space.
        #expect(row.styles[19].foreground == nil && row.styles[20].foreground == .rgb(1, 2, 3))
        #expect(try await viewer.difference(client) == nil)
        try await viewer.stream.finish()
    }

    @Test(.enabled(if: program("less"), "needs less")) func `less has the alternate screen and the wheel`() async throws
    {
        let viewer = try await shell()
        try await viewer.until(">")
        try await viewer.type("seq 1 1000 | LESS= less\n")
        try await viewer.until { $0.modes?.alternateScreen == true && $0.text.contains("14\n:") }
        #expect(viewer.mirror.modes?.wheelKeys == true)
        #expect(try await viewer.difference(client) == nil)
        try await viewer.act(.mouse(Shell.Screen.Mouse(.wheel, x: 3, y: 3, delta: 2)))
        try await viewer.until { $0.text.hasPrefix("7\n8\n") && $0.text.hasSuffix("20\n:") }
        #expect(try await viewer.difference(client) == nil)
        try await viewer.type("q")
        try await viewer.until { $0.modes?.alternateScreen == false && $0.text.hasSuffix(">") }
        #expect(try await viewer.difference(client) == nil)
        try await viewer.type("exit\n")
        #expect(try await viewer.end() == Shell.Screen.Exit(code: 0))
    }

    @Test(.enabled(if: program("vim"), "needs vim")) func `vim has the mouse, a paste that is one, and new sizes`()
        async throws
    {
        let viewer = try await shell()
        try await viewer.until(">")
        try await viewer.type(
            "TERM=xterm-256color vim -u NONE -i NONE -n -c 'set mouse=a ruler nocp ttymouse=sgr ai'\n")
        try await viewer.until { $0.modes?.alternateScreen == true && $0.modes?.mouse == .drag }
        try await viewer.until("0,0-1")
        try await viewer.type("i")
        try await viewer.until("INSERT")
        // With autoindent typed text would be a staircase; and a paste cannot leave insert mode.
        try await viewer.act(.paste("one\n    two\nthree\u{1B}[201~\u{1B}:q!\n    four"))
        try await viewer.until("four")
        #expect(viewer.mirror.text.contains("one\n    two\nthree[201~:q!\n    four"))
        try await viewer.press("Escape")
        try await viewer.until { !$0.text.contains("INSERT") }
        try await viewer.act(.mouse(Shell.Screen.Mouse(.down, .left, x: 5, y: 1)))
        try await viewer.act(.mouse(Shell.Screen.Mouse(.up, .left, x: 5, y: 1)))
        try await viewer.until { $0.cursor?.x == 5 && $0.cursor?.y == 1 }
        try await viewer.until("2,6")
        #expect(try await viewer.difference(client) == nil)
        try await viewer.act(.size(Shell.Screen.Size(columns: 90, rows: 25)))
        try await viewer.until { $0.columns == 90 && $0.rows.last?.text.contains("2,6") == true }
        #expect(try await viewer.difference(client) == nil)
        try await viewer.type(":q!\n")
        try await viewer.until { $0.modes?.alternateScreen == false }
        try await viewer.type("exit\n")
        #expect(try await viewer.end() == Shell.Screen.Exit(code: 0))
    }

    @Test func `the interrupt key is answered in the middle of a flood, and little of that is sent`() async throws {
        let viewer = try await shell()
        try await viewer.until(">")
        try await viewer.type("cat /dev/zero | tr '\\0' x\n")
        try await viewer.until("xxxxxxxxxx\nxxxxxxxxxx")
        for _ in 0..<20 { try await viewer.next() }
        try await viewer.press("c", control: true)
        try await viewer.until { $0.text.hasSuffix("> ") || $0.text.hasSuffix(">") }
        try await viewer.type("echo al''ive\n")
        try await viewer.until("\nalive")
        try await viewer.type("exit\n")
        _ = try await viewer.end()
    }

    @Test func `a viewer that acknowledges nothing holds nobody up, and sees how it ends`() async throws {
        let viewer = try await shell("stty -opost; seq 1 300000; exit 3")
        viewer.acknowledges = false
        #expect(try await viewer.end() == Shell.Screen.Exit(code: 3))
        #expect(viewer.mirror.number <= 3)
        #expect(viewer.mirror.text.contains("300000"))
        // However much was written: three screens at most.
        #expect(viewer.mirror.rowsSent <= 3 * 15)
    }

    @Test func `lines that have left the screen can be asked for`() async throws {
        let viewer = try await shell("seq 1 500; exec sh")
        try await viewer.until { $0.text.contains("500\n> ") || $0.text.hasSuffix("500\n>") }
        let range = try #require(viewer.mirror.scrollback)
        #expect(range.first == 0 && range.lines == 500 + 1 - 15)
        try await viewer.act(.lines(Shell.Screen.LineRange(from: 100, count: 50)))
        try await viewer.until { $0.lines.count == 50 }
        #expect(viewer.mirror.lines[100]?.text == "101")
        #expect(viewer.mirror.lines[149]?.text == "150")
        try await viewer.stream.finish()
    }

    @Test func `a shell goes on after its device could not be reached, with nothing lost`() async throws {
        let inner = CuttableCarrier(service)
        let near = ShellService(
            options: Harness.options(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let viewer = try await ScreenViewer(
            Client(CuttableCarrier(near, onward: Client(inner))),
            Shell.Screen.Input(device: "laptop", columns: 60, rows: 15, commandLine: "exec sh", keep: 60))
        try await viewer.type("PS1='> '; echo rea''dy\n")
        try await viewer.until("ready")
        inner.cut(staysDown: true)
        try await viewer.until { $0.state?.connected == false }
        try await viewer.type("echo meanwhile=$((40 + 2))\n")
        inner.repair()
        try await viewer.until { $0.state?.connected == true }
        try await viewer.until("meanwhile=42")
        // Before, the round trip may have been told.
        #expect(viewer.states.map(\.connected).drop { $0 }.prefix(2) == [false, true])
        try await viewer.type("exit 5\n")
        #expect(try await viewer.end() == Shell.Screen.Exit(code: 5))
    }

    @Test func `a window that is gone and comes back types nothing twice, and one that hangs up ends the shell`()
        async throws
    {
        let carrier = CuttableCarrier(service)
        let input = Shell.Screen.Input(columns: 60, rows: 15, commandLine: "exec cat", keep: 60, viewer: "tab 1")
        let first = try await ScreenViewer(Client(carrier), input)
        #expect(first.output.taken == 0)
        // One after the other: else it echoes the next before it has written the last.
        for number in 1...3 {
            try await first.type("line \(number)\n")
            try await first.until("line \(number)\nline \(number)")
        }
        try await first.until { $0.taken == 3 }
        try await first.type("line 4\n")
        // Its page's connection is cut; whether the fourth has arrived, it does not know.
        first.stream.abort(.closed)
        var again = input
        again.commandLine = nil
        again.session = first.output.session
        let second = try await ScreenViewer(client, again)
        #expect([3, 4].contains(second.output.taken))
        for number in 4...5 {
            if number > second.output.taken { try await second.type("line \(number)\n") }
            try await second.until("line \(number)\nline \(number)")
        }
        #expect(second.mirror.text == (1...5).flatMap { ["line \($0)", "line \($0)"] }.joined(separator: "\n"))
        // Another that takes its name puts it out.
        let third = try await ScreenViewer(client, again)
        await #expect(throws: KithError(.conflict, "")) { _ = try await second.end() }
        try await third.until("line 5\nline 5")
        #expect(try await client.call(Shell.Sessions.self, Nothing()).count == 1)
        try await third.stream.finish()
        try await eventually { try await client.call(Shell.Sessions.self, Nothing()).isEmpty }
    }

    @Test func `who only views types nothing`() async throws {
        let viewer = try await shell("exec cat")
        try await viewer.type("one\n")
        try await viewer.until("one\none")
        let other = try await ScreenViewer(
            client, Shell.Screen.Input(columns: 60, rows: 15, session: viewer.output.session, view: true))
        try await other.until("one\none")
        try await other.type("no\n")
        try await viewer.type("two\n")
        try await other.until("two\ntwo")
        #expect(!other.mirror.text.contains("no"))
        try await other.stream.finish()
        try await viewer.type("three\n")
        try await viewer.until("three\nthree")
        try await viewer.press("d", control: true)
        #expect(try await viewer.end() == Shell.Screen.Exit(code: 0))
    }

    @Test(arguments: [
        Shell.Screen.Input(columns: 1, rows: 24), Shell.Screen.Input(columns: 80, rows: 1_001),
        Shell.Screen.Input(columns: 80, rows: 24, view: true),
        Shell.Screen.Input(columns: 80, rows: 24, scrollback: 10_001),
        Shell.Screen.Input(columns: 80, rows: 24, viewer: ""),
        Shell.Screen.Input(columns: 80, rows: 24, viewer: String(repeating: "x", count: 65)),
        Shell.Screen.Input(columns: 80, rows: 24, commandLine: "ls", session: "abc"),
    ])
    func `what is out of bounds is refused`(input: Shell.Screen.Input) async throws {
        await #expect(throws: KithError(.invalid, "")) { _ = try await ScreenViewer(client, input) }
    }

    @Test func `no more than so many are drawn at once, and a place that is given up is free`() async throws {
        let screens = ShellScreens()
        var places: [ShellScreens.Place] = []
        for _ in 0..<ShellScreens.limit { places.append(try await screens.enter(nil, session: nil).0) }
        await #expect(throws: KithError(.exhausted, "")) { _ = try await screens.enter(nil, session: nil) }
        screens.leave(places[0], ShellScreenViewer.Taken())
        _ = try await screens.enter(nil, session: nil)
        for index in 0..<2 * ShellScreens.memory {
            screens.leave(places[1], ShellScreenViewer.Taken())
            places[1] = try await screens.enter("viewer \(index)", session: nil).0
            screens.leave(places[1], ShellScreenViewer.Taken(messages: 7, bytes: 0))
            places[1] = try await screens.enter(nil, session: nil).0
        }
        #expect(screens.remembered <= ShellScreens.memory)
    }
}
