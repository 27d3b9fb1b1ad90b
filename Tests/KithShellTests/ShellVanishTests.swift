import Foundation
import KithAPI
import KithWire
import Testing

@testable import KithShell

/// No process is left behind, however the other end goes.
struct ShellVanishTests {
    let harness = Harness()

    /// How the caller goes.
    enum Way: CaseIterable {
        case abort, finish, cancel, release
    }

    /// What it leaves running: each line prints the numbers of its processes, then "ready".
    static let commands = [
        "sleep 1000 & echo $!; echo ready; wait",
        "nohup sleep 1000 >/dev/null 2>&1 & echo $!; echo ready; exec sleep 1000",
        "trap '' HUP TERM; sleep 1000 & echo $!; echo ready; while :; do sleep 1000; done",
        "(trap '' HUP; sleep 1000 & echo $!; sleep 1000) & sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; echo ready; kill -STOP $$",
        "sh -mc 'sleep 1000 & echo $!; wait' & echo $!; sleep 0.1; echo ready; exec sleep 1000",
    ]

    @Test(arguments: Way.allCases, commands)
    func `all processes die on a terminal and on pipes`(way: Way, command: String) async throws {
        for terminal in [nil, Shell.Terminal(size: Shell.Size(columns: 80, rows: 24), type: "dumb")] {
            var running: Harness.Running? = try await harness.open(
                Shell.Open.Input(terminal: terminal, commandLine: command))
            let serving = try #require(running?.serving)
            var processes = [try #require(running?.session.process)]
            var talk: Conversation? = Conversation(try #require(running?.session))
            let said = try #require(try await talk?.expect("ready"))
            processes += said.split(whereSeparator: \.isWhitespace).compactMap { Int32($0) }
            #expect(processes.count >= 2)
            for process in processes { #expect(isAlive(process)) }

            switch way {
            case .abort: running?.session.close()
            case .finish: try await running?.pipe.left.finish()
            case .cancel: serving.cancel()
            case .release:
                talk = nil
                running = nil
            }
            await #expect(throws: (any Error).self) { try await serving.value }
            for process in processes { #expect(!isAlive(process), "\(process) of \(command)") }
            _ = talk
        }
    }

    @Test func `a process that left the session on purpose stays`() async throws {
        let running = try await harness.open(
            Shell.Open.Input(commandLine: "setsid sleep 1000 & echo $!; sleep 0.2; echo ready; wait"))
        let talk = Conversation(running.session)
        let child = try #require(
            Int32(try await talk.expect("ready").trimmingCharacters(in: .whitespacesAndNewlines)))
        running.session.close()
        await #expect(throws: (any Error).self) { try await running.serving.value }
        #expect(isAlive(child))
        kill(child, SIGKILL)
    }

    /// A job a shell leaves behind when it ends by itself, and whether it outlives that.
    struct Job: Sendable, CustomTestStringConvertible {
        var prefix: String
        var stays: Bool
        var testDescription: String { prefix + "sleep &" }
    }

    static let jobs = [
        Job(prefix: "", stays: false), Job(prefix: "nohup ", stays: false), Job(prefix: "setsid ", stays: true),
    ]

    @Test(.serialized, arguments: jobs, [false, true])
    func `what a shell leaves behind is the same fifty times out of fifty`(job: Job, onTerminal: Bool) async throws {
        let terminal = onTerminal ? Shell.Terminal(size: Shell.Size(columns: 80, rows: 24), type: "dumb") : nil
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 {
                if number >= 3 { try await group.next() }
                group.addTask {
                    let running = try await self.harness.open(
                        Shell.Open.Input(
                            terminal: terminal,
                            commandLine: "\(job.prefix)sleep 1000 </dev/null >/dev/null 2>&1 & echo $!"))
                    let result = try await collect(running.session)
                    let text = String(decoding: result.output, as: UTF8.self)
                    let child = try #require(Int32(text.trimmingCharacters(in: .whitespacesAndNewlines)))
                    // Whoever has been told of the end can rely on it.
                    #expect(isAlive(child) == job.stays)
                    if job.stays { kill(child, SIGKILL) }
                    try await running.serving.value
                }
            }
            try await group.waitForAll()
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `the shell ends when the process that serves it is killed`() async throws {
        let result = await #expect(processExitsWith: .signal(SIGKILL), observing: [\.standardOutputContent]) {
            let running = try await Harness().open(
                Shell.Open.Input(commandLine: "trap '' HUP; sleep 1000 & echo $!; echo ready; wait"))
            let child = try await Conversation(running.session).expect("ready")
            FileHandle.standardOutput.write(Data("\nprocesses \(running.session.process) \(child)".utf8))
            kill(getpid(), SIGKILL)
        }
        let said = String(decoding: try #require(result).standardOutputContent, as: UTF8.self)
        let numbers = try #require(said.split(separator: "processes ").last).split(whereSeparator: \.isWhitespace)
        let processes = numbers.compactMap { Int32($0) }
        #expect(processes.count == 2)
        for process in processes {
            while isAlive(process) { await Task.yield() }
        }
    }

    @Test func `the shell ends when its supervisor is killed`() async throws {
        let running = try await harness.open(Shell.Open.Input(commandLine: "sleep 1000 & echo $!; echo ready; wait"))
        let leader = running.session.process
        let talk = Conversation(running.session)
        let child = try #require(
            Int32(try await talk.expect("ready").trimmingCharacters(in: .whitespacesAndNewlines)))
        let stat = try String(contentsOfFile: "/proc/\(leader)/stat", encoding: .utf8)
        let fields = try #require(stat.split(separator: ")").last).split(separator: " ")
        let supervisor = try #require(Int32(fields[1]))
        #expect(supervisor != getpid())
        kill(supervisor, SIGKILL)
        await #expect(throws: (any Error).self) { try await running.serving.value }
        #expect(!isAlive(leader))
        #expect(!isAlive(child))
    }

    @Test func `no zombie of ours is left`() async throws {
        for _ in 0..<5 { _ = try await harness.run("true") }
        let running = try await harness.open(Shell.Open.Input(command: ["cat"]))
        running.session.close()
        await #expect(throws: (any Error).self) { try await running.serving.value }
        var information = siginfo_t()
        // Other tests' supervisors may be on their way out; the leader and its supervisor of this one are not there.
        #expect(waitid(P_PID, id_t(running.session.process), &information, WEXITED | WNOHANG | WNOWAIT) == -1)
        #expect(kill(running.session.process, 0) == -1)
    }
}
