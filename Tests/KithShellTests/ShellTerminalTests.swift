import Foundation
import KithAPI
import KithWire
import Testing

@testable import KithShell

struct ShellTerminalTests {
    let harness = Harness()
    let terminal = Shell.Terminal(size: Shell.Size(columns: 91, rows: 33), type: "xterm-256color")

    /// An interactive shell with a prompt of ours.
    private func shell() async throws -> (Harness.Running, Conversation) {
        let running = try await harness.open(Shell.Open.Input(terminal: terminal))
        let talk = Conversation(running.session)
        try await talk.type("PS1='ready''> '; PS2=; ENV=\r")
        try await talk.expect("ready> ")
        return (running, talk)
    }

    @Test func `a command on a terminal sees a terminal of the right kind and size`() async throws {
        let running = try await harness.open(
            Shell.Open.Input(
                terminal: terminal, commandLine: "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM"))
        let result = try await collect(running.session)
        #expect(String(decoding: result.output, as: UTF8.self) == "33 91\r\nxterm-256color\r\n")
        #expect(result.exit == .status(0))
        try await running.serving.value
    }

    @Test func `a command on pipes sees none`() async throws {
        #expect(try await harness.run("test -t 0 || test -t 1 || test -t 2").exit == .status(1))
    }

    @Test func `the shell is a login shell of its own session, and echoes`() async throws {
        let (running, talk) = try await shell()
        try await talk.type("echo name=$0 id=$$\r")
        try await talk.expect("echo name=$0 id=$$\r\n")
        try await talk.expect("name=-sh id=\(running.session.process)\r\n")
        try await talk.type("exit 9\r")
        #expect(try await talk.exit() == .status(9))
        try await running.serving.value
    }

    @Test func `a new size arrives, with its signal`() async throws {
        let (running, talk) = try await shell()
        try await talk.type("trap 'echo size $(stty size)' WINCH; echo set''up\r")
        try await talk.expect("setup\r\n")
        try await running.session.resize(Shell.Size(columns: 132, rows: 50))
        // The shell runs its trap after the next command at the latest.
        try await talk.type("true\r")
        try await talk.expect("size 50 132\r\n")
        try await talk.type("exit\r")
        #expect(try await talk.exit() == .status(0))
        try await running.serving.value
    }

    @Test func `the interrupt key interrupts what runs and leaves the shell`() async throws {
        let (running, talk) = try await shell()
        try await talk.type("sh -c 'echo go''ing; exec sleep 1000'\r")
        try await talk.expect("going\r\n")
        try await talk.type("\u{3}")
        try await talk.expect("ready> ")
        try await talk.type("echo status $?\r")
        try await talk.expect("status 130\r\n")
        try await talk.type("exit\r")
        _ = try await talk.exit()
        try await running.serving.value
    }

    @Test func `the interrupt key passes a flood nobody reads`() async throws {
        let (running, talk) = try await shell()
        try await talk.type("cat /dev/zero | tr '\\0' x; echo do''ne\r")
        try await talk.expect("xxxxxxxxxx")
        try await talk.type("\u{3}")
        try await talk.expect("ready> ")
        try await talk.type("exit 4\r")
        #expect(try await talk.exit() == .status(4))
        try await running.serving.value
    }

    @Test func `the end-of-file key ends the shell`() async throws {
        let (running, talk) = try await shell()
        try await talk.type("\u{4}")
        #expect(try await talk.exit() == .status(0))
        try await running.serving.value
    }

    @Test func `the end of input on a terminal is the end-of-file key`() async throws {
        let running = try await harness.open(Shell.Open.Input(terminal: terminal, command: ["cat"]))
        try await running.session.write(Array("half a line".utf8))
        try await running.session.endInput()
        let result = try await collect(running.session)
        #expect(String(decoding: result.output, as: UTF8.self).contains("half a linehalf a line"))
        #expect(result.exit == .status(0))
        try await running.serving.value
    }

    @Test func `bytes that are no text pass unchanged`() async throws {
        let running = try await harness.open(
            Shell.Open.Input(
                terminal: terminal, commandLine: "stty raw -echo; echo ready; head -c 256 | od -An -v -tu1"))
        let talk = Conversation(running.session)
        try await talk.expect("ready\n")
        try await running.session.write((0...255).map { UInt8($0) })
        let result = try await collect(running.session)
        let numbers = String(decoding: result.output, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        #expect(numbers.compactMap { Int($0) } == Array(0...255))
        try await running.serving.value
    }

    @Test func `a process that is over does nothing to a terminal that has got its descriptor's number`() async throws {
        let plan = ShellProcess.Plan(
            path: "/bin/cat", arguments: ["cat"], environment: [:], directory: "/",
            terminal: Shell.Size(columns: 80, rows: 24))
        let process = try ShellProcess(plan, on: .forShells())
        await process.close()
        // The system gives the lowest numbers that are free.
        let terminals = (0..<16).map { _ in unsafe open("/dev/ptmx", O_RDWR | O_NOCTTY) }
        defer { for terminal in terminals { close(terminal) } }
        process.resize(Shell.Size(columns: 99, rows: 33))
        for terminal in terminals {
            var size = winsize()
            #expect(unsafe ioctl(terminal, UInt(TIOCGWINSZ), &size) == 0)
            #expect(size.ws_col != 99)
        }
    }

    @Test func `a background process does not hold an ended terminal open`() async throws {
        let (running, talk) = try await shell()
        try await talk.type("sleep 1000 & echo child=$!.\r")
        try await talk.expect("child=")
        try await talk.expect("\r\n")  // the echo of the line
        try await talk.expect("child=")
        let child = try #require(Int32(try await talk.expect(".")))
        try await talk.type("exit 2\r")
        #expect(try await talk.exit() == .status(2))
        try await running.serving.value
        #expect(!isAlive(child))
    }
}
