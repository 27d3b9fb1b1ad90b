import CKithSystem
import Foundation
import KithAPI
import KithIdentity
import KithNode
import KithWire
import Testing

@testable import KithShell

struct ShellCommandTests {
    let harness = Harness()

    @Test func `standard output and standard error stay apart, and the status arrives`() async throws {
        let result = try await harness.run("echo out; echo err >&2; exit 42")
        #expect(result.output == "out\n")
        #expect(result.error == "err\n")
        #expect(result.exit == .status(42))
    }

    @Test func `a death by signal says which`() async throws {
        #expect(try await harness.run("kill -TERM $$").exit == .signal(.terminate, dumpedCore: false))
        #expect(try await harness.run("kill -9 $$").exit == .signal(.kill, dumpedCore: false))
    }

    @Test func `a command that does not exist is the shell's 127`() async throws {
        let result = try await harness.run("kith-no-such-command")
        #expect(result.exit == .status(127))
        #expect(result.error.contains("not found"))
    }

    @Test func `ten megabytes go through cat byte for byte`() async throws {
        let running = try await harness.open(Shell.Open.Input(command: ["cat"]))
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var state = seed | 1
        let bytes = (0..<10_000_000).map { _ -> UInt8 in
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return UInt8(truncatingIfNeeded: state)
        }
        let session = running.session
        async let fed: Void = {
            try await session.write(bytes)
            try await session.endInput()
        }()
        let result = try await collect(session)
        try await fed
        #expect(result.output == bytes)
        #expect(result.exit == .status(0))
        try await running.serving.value
    }

    @Test func `output is read to its end also after the command has ended`() async throws {
        let result = try await harness.run("(read line; echo late) <&0 & exit 3", input: Array("go\n".utf8))
        #expect(result.exit == .status(3))
        // A background job of a shell without job control reads from /dev/null unless told otherwise, as here.
        #expect(result.output == "late\n")
    }

    @Test func `a command that does not read its input ends all the same`() async throws {
        let result = try await harness.run("exit 0", input: [UInt8](repeating: 1, count: 5_000_000))
        #expect(result.exit == .status(0))
    }

    @Test func `words keep their boundaries, and a line is the shell's`() async throws {
        let words = ["a b", "", "it's", "$HOME", "back\\slash", "*", "new\nline", "ü", "~", "-n"]
        let running = try await harness.open(Shell.Open.Input(command: ["printf", "<%s>"] + words))
        let result = try await collect(running.session)
        #expect(String(decoding: result.output, as: UTF8.self) == words.map { "<\($0)>" }.joined())
        #expect(try await harness.run("echo a b | tr a-z A-Z").output == "A B\n")
    }

    @Test func `only variables on the list pass, and the account's own are set`() async throws {
        let result = try await harness.run(
            "env",
            environment: [
                "LC_TIME": "x", "COLORTERM": "truecolor", "LD_PRELOAD": "/evil.so", "PATH": "/evil", "BASH_ENV": "/e",
                "HOME": "/evil", "TZ": "UTC",
            ])
        let lines = Set(result.output.split(separator: "\n").map(String.init))
        let account = ShellAccount.current()
        #expect(lines.isSuperset(of: ["LC_TIME=x", "COLORTERM=truecolor", "TZ=UTC"]))
        #expect(lines.isSuperset(of: ["HOME=\(account.home)", "USER=\(account.name)", "SHELL=/bin/sh"]))
        #expect(!result.output.contains("evil"))
        #expect(!result.output.contains("BASH_ENV"))
    }

    @Test func `it starts in the home folder or where it is told`() async throws {
        let home = ShellAccount.current().home
        #expect(try await harness.run("pwd").output == home + "\n")
        #expect(try await harness.run("pwd", directory: "/usr").output == "/usr\n")
        #expect(try await harness.run("pwd", directory: "~").output == home + "\n")
    }

    @Test func `a folder that is not there refuses the shell with its name`() async throws {
        let error = await #expect(throws: KithError.self) {
            _ = try await harness.run("pwd", directory: "/no/such/folder")
        }
        #expect(error?.code == .notFound)
        #expect(error?.message.contains("/no/such/folder") == true)
    }

    @Test func `a shell that cannot be run refuses with its path`() async throws {
        var options = Harness.options()
        options.shell = "/no/such/shell"
        let error = await #expect(throws: KithError.self) { _ = try await Harness(options: options).run("true") }
        #expect(error?.code == .notFound)
        #expect(error?.message.contains("/no/such/shell") == true)
    }

    @Test func `a command and a command line together are refused, and so is a NUL`() async throws {
        await #expect(throws: KithError(.invalid, "")) {
            _ = try await harness.open(Shell.Open.Input(command: ["a"], commandLine: "a"))
        }
        await #expect(throws: KithError(.invalid, "")) {
            _ = try await harness.open(Shell.Open.Input(command: ["a\0b"]))
        }
        await #expect(throws: KithError(.invalid, "")) { _ = try await harness.open(Shell.Open.Input(command: [])) }
    }

    @Test func `one session too many is refused`() async throws {
        var options = Harness.options()
        options.maximumSessions = 1
        let harness = Harness(options: options)
        let first = try await harness.open(Shell.Open.Input(command: ["cat"]))
        await #expect(throws: KithError(.exhausted, "")) {
            _ = try await harness.open(Shell.Open.Input(command: ["cat"]))
        }
        try await first.session.endInput()
        #expect(try await collect(first.session).exit == .status(0))
        try await first.serving.value
        #expect(try await harness.run("true").exit == .status(0))
    }

    @Test func `one device cannot take the sessions of all`() async throws {
        var options = Harness.options()
        (options.maximumSessions, options.maximumSessionsPerDevice) = (3, 1)
        let greedy = Harness(options: options, caller: .device(DeviceKey().id, name: "tv", paired: true))
        let first = try await greedy.open(Shell.Open.Input(command: ["cat"]))
        for _ in 0..<3 {
            await #expect(throws: KithError(.exhausted, "")) {
                _ = try await greedy.open(Shell.Open.Input(command: ["cat"]))
            }
        }
        let other = Harness(
            service: greedy.service, caller: .device(DeviceKey().id, name: "phone", paired: true))
        #expect(try await other.run("true").exit == .status(0))
        try await first.session.endInput()
        #expect(try await collect(first.session).exit == .status(0))
        try await first.serving.value
        #expect(try await greedy.run("true").exit == .status(0))
    }

    @Test func `no descriptor of this process reaches the command`() async throws {
        let other = open("/dev/null", O_RDONLY)  // without close-on-exec, as careless code does
        defer { close(other) }
        let result = try await harness.run("ls /proc/self/fd 2>/dev/null || ls /dev/fd")
        let numbers = result.output.split(separator: "\n").compactMap { Int($0) }
        // Its three, and the one with which ls reads the folder.
        #expect(numbers.sorted() == [0, 1, 2, 3])
    }

    @Test func `a signal reaches the command and its children`() async throws {
        let running = try await harness.open(
            Shell.Open.Input(commandLine: "trap 'echo caught; exit 5' TERM; echo ready; sleep 1000 & wait"))
        let talk = Conversation(running.session)
        try await talk.expect("ready\n")
        // The output ends only when the child, which holds it too, has died as well.
        try await running.session.signal(.terminate)
        try await talk.expect("caught\n")
        #expect(try await talk.exit() == .status(5))
        try await running.serving.value
    }

    @Test func `a signal passes input that nobody reads`() async throws {
        let running = try await harness.open(
            Shell.Open.Input(
                commandLine: "trap 'exit 6' INT; echo ready; while :; do sleep 1000 >/dev/null 2>&1 & wait; done"))
        let talk = Conversation(running.session)
        try await talk.expect("ready\n")
        let session = running.session
        let writer = Task { try await session.write([UInt8](repeating: 0, count: 20_000_000)) }
        try await running.session.signal(.interrupt)
        #expect(try await talk.exit() == .status(6))
        _ = try await writer.value
        try await running.serving.value
    }

    @Test func `a flood waits in the command's own pipe`() async throws {
        let running = try await harness.open(Shell.Open.Input(commandLine: "exec cat /dev/zero"))
        var got = 0
        while got < 1 << 20 {
            if case .output(let bytes)? = try await running.session.next() { got += bytes.count }
        }
        // Nobody reads for as long as fifty other commands take.
        for _ in 0..<50 { _ = try await Harness().run("true") }
        // What somebody who comes back may still ask for, and what was read at once on top of it.
        #expect(try #require(harness.service.running.all.first).held.output <= 5 << 20)
        try await running.session.signal(.terminate)
        #expect(try await Conversation(running.session).exit() == .signal(.terminate, dumpedCore: false))
        try await running.serving.value
    }

    @Test func `a device with more than a thousand open descriptors runs shells all the same`() async throws {
        await #expect(processExitsWith: .success) {
            kith_raise_descriptor_limit()
            for _ in 0..<1_100 { precondition(open("/dev/null", O_RDONLY) >= 0) }
            let result = try await Harness().run("echo said")
            precondition(result.output == "said\n" && result.exit == .status(0))
        }
    }

    @Test func `fifty sessions at once leave no descriptor behind`() async throws {
        _ = try await harness.run("true")
        let before = try openDescriptors()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 {
                group.addTask { [harness] in
                    let result = try await harness.run("cat; exit \(number)", input: Array("hello \(number)".utf8))
                    #expect(result.output == "hello \(number)")
                    #expect(result.exit == .status(Int32(number)))
                }
            }
            try await group.waitForAll()
        }
        // Other tests run beside this one; fifty leaked sessions would be two hundred descriptors.
        #expect(try openDescriptors() - before < 100)
    }

    private func openDescriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count
    }
}
