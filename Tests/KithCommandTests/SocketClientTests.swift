import Foundation
import KithTesting
import Testing

/// Programs in other languages at the socket of a real device: the client of Examples/Python, and `kith call`.
@Suite(.timeLimit(.minutes(3))) struct SocketClientTests {
    private static let follow = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../Examples/Python/follow.py").standardizedFileURL.path

    private func follow(_ machine: Machine, _ words: String..., input: String = "") async throws -> Machine.Outcome {
        try await machine.start(
            ["python3", Self.follow, machine.data] + words, input: Data(input.utf8), byEnvironment: true,
            program: URL(fileURLWithPath: "/usr/bin/env")
        ).outcome(seconds: 60)
    }

    @Test func `a client in Python follows a copy, a shell and a pairing`() async throws {
        let (phone, laptop) = (try Machine("phone"), try Machine("laptop"))
        defer { Task { await phone.remove() } }
        try await phone.up()
        try await laptop.up()
        try Data("hello".utf8).write(to: URL(fileURLWithPath: phone.path("from")))

        let copy = try await follow(phone, "copy", phone.path("from"), phone.path("to"))
        #expect(copy.output == "1 file, 5 bytes\n", "\(copy)")
        #expect(try String(contentsOfFile: phone.path("to"), encoding: .utf8) == "hello")
        let missing = try await follow(phone, "copy", phone.path("nothing"), phone.path("to"))
        #expect(missing.status != 0 && missing.error.contains("nothing"), "\(missing)")

        let shell = try await follow(phone, "shell", "echo $((6 * 7)); exit 3")
        #expect(shell.output == "42\n" && shell.status == 3, "\(shell)")

        for (answer, status) in [("n\n", 1), ("y\n", 0)] as [(String, Int32)] {
            let made = try await laptop.kith(["invite", "--yes", "--text"])
            let invitation = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
            let pairing = try await follow(phone, "pair", invitation, input: answer)
            #expect(pairing.output.contains("does laptop show the same?") && pairing.status == status, "\(pairing)")
            #expect(pairing.output.contains("paired with laptop") == (status == 0), "\(pairing)")
        }
        #expect(try await phone.expect("devices").contains("laptop"))
        await laptop.remove()
    }

    /// What `kith services` and `kith stats` say of the service `clock`.
    private func listAndPause(from laptop: Machine, to phone: Machine) async throws {
        let own = try await laptop.expect("services")
        #expect(own.contains("clock") && own.contains("$registry"), "\(own)")
        let offered = try await phone.expect("services", "laptop", "--actions")
        #expect(offered.contains("clock/ticks") && offered.contains("Tells the time."), "\(offered)")
        #expect(!offered.contains("shell"), "\(offered)")
        try await eventually {
            try await phone.expect("services").split(separator: "\n").contains {
                $0.contains("clock") && $0.contains("laptop")
            }
        }
        #expect(try await phone.expect("call", "clock/now", "--on", "*").contains("\"time\""))
        let asked = try await phone.expect("stats", "--providers")
        #expect(asked.contains("clock.now") && asked.contains("closed"), "\(asked)")
        let counts = try await laptop.expect("stats", "clock")
        #expect(counts.contains("clock/now") && counts.contains("KeyError: 'count'"), "\(counts)")
        #expect(try await laptop.expect("stats", "--json").contains("\"lastError\""))

        #expect(try await laptop.expect("services", "--pause", "clock") == "clock is paused.\n")
        let paused = try await phone.kith(["call", "clock/now", "--on", "laptop"])
        #expect(paused.status == 7 && paused.error.contains("is paused"), "\(paused)")
        try await laptop.expect("services", "--resume", "clock")
        try await phone.expect("call", "clock/now", "--on", "laptop")
        for wrong in [["stats", "nobody"], ["services", "--pause", "nobody"], ["services", "nobody"]] {
            let outcome = try await laptop.kith(wrong)
            #expect(outcome.status == 3 && outcome.error.contains("nobody"), "\(outcome)")
        }
        #expect(try await phone.kith(["services", "laptop", "--pause", "clock"]).status == 64)
    }

    @Test func `a service in Python answers this device and another, by name`() async throws {
        let (phone, laptop) = (try Machine("phone"), try Machine("laptop"))
        try await phone.up()
        try await laptop.up()
        try await laptop.invite(phone, "node:clock/*")
        let clock = try laptop.start(
            ["python3", Self.follow.replacing("follow.py", with: "clock.py"), laptop.data], byEnvironment: true,
            program: URL(fileURLWithPath: "/usr/bin/env"))
        while try await laptop.kith(["call", "clock/now"]).status != 0 { try #require(clock.process.isRunning) }

        #expect(try await laptop.expect("call", "clock/now").contains("\"time\""))
        #expect(try await phone.expect("call", "clock/now", "--on", "laptop").contains("\"time\""))
        #expect(try await laptop.expect("status").contains("programs   clock/now\n             clock/ticks\n"))
        let lines = try await phone.expect("call", "clock/ticks", #"{"count":40}"#, "--on", "laptop").split(
            separator: "\n")
        #expect(lines.count == 41 && lines.last == #"{"for":"phone","tick":39}"#, "\(lines)")
        let own = try await laptop.expect("call", "clock/ticks", #"{"count":1}"#)
        #expect(own.contains(#"{"for":"this device","tick":0}"#), "\(own)")
        let failed = try await phone.kith(["call", "clock/ticks", "--on", "laptop"])
        #expect(failed.status == 64 && failed.error.contains("KeyError: 'count'"), "\(failed)")

        try await listAndPause(from: laptop, to: phone)
        kill(clock.process.processIdentifier, SIGKILL)
        _ = try await clock.outcome(seconds: 60)
        let gone = try await phone.kith(["call", "clock/now", "--on", "laptop"])
        #expect(gone.status == 10 && gone.error.contains("clock/now"), "\(gone)")
        await phone.remove()
        await laptop.remove()
    }

    @Test func `kith call follows a stream line by line, and feeds it lines`() async throws {
        let phone = try Machine("phone")
        try await phone.up()
        try Data("one\ntwo\n".utf8).write(to: URL(fileURLWithPath: phone.path("log")))

        let read = try await phone.expect("call", "files.read", #"{"path":"\#(phone.path("log"))"}"#)
        let lines = read.split(separator: "\n")
        #expect(lines.count == 2 && lines[0].contains("\"size\":8") && lines[1] == #"{"bytes":"b25lCnR3bwo="}"#)

        let written = try await phone.expect(
            "call", "files.write", #"{"path":"\#(phone.path("new"))"}"#,
            input: Data("{\"bytes\":\"aGV5\"}\n{\"bytes\":\"IQ==\"}".utf8))
        #expect(written.contains("\"size\":4"), "\(written)")
        #expect(try String(contentsOfFile: phone.path("new"), encoding: .utf8) == "hey!")

        let shell = try await phone.expect(
            "call", "shell.open", "{}", input: Data(#"{"input":"ZWNobyBoaTsgZXhpdAo="}"#.utf8))
        #expect(shell.contains(#"{"output":"aGkK"}"#) && shell.contains(#"{"exited":{"status":0}}"#), "\(shell)")

        let wrong = try await phone.kith(["call", "shell.open", "{}"], input: Data(#"{"inptu":"AA=="}"#.utf8))
        #expect(wrong.status == 64 && wrong.error.contains("named for what it carries"), "\(wrong)")
        await phone.remove()
    }
}
