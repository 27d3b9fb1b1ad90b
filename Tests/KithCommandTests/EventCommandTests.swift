import Foundation
import KithTesting
import Testing

/// `kith publish` and `kith subscribe` between two daemons.
@Suite(.timeLimit(.minutes(4))) struct EventCommandTests {
    @Test func `events go from one command to another, on one device and between two`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "node:chat/*")
            // What is retained comes whether or not the subscription was there first.
            try await laptop.expect("publish", "chat/family", #""Dinner is ready""#, "--retain", "1h")
            let own = try await laptop.expect("subscribe", "chat/*", "--once", "--look-back", "1h")
            #expect(own == "chat/family Dinner is ready\n")
            let far = try await phone.kith([
                "subscribe", "chat/family", "--once", "--look-back", "1h", "--from", "paired", "--timeout", "1h",
                "--json",
            ])
            #expect(far.status == 0 && far.output.contains(#""message":"Dinner is ready""#), "\(far)")
            let there = try await phone.expect("subscribe", "chat/*", "--on", "laptop", "--once", "--look-back", "1h")
            #expect(there == own)

            try await phone.expect("publish", "chat/answer", "{\"minutes\": 5}", "--on", "laptop", "--retain", "1h")
            let answer = try await laptop.expect("subscribe", "chat/answer", "--once", "--look-back", "1h")
            #expect(answer == "chat/answer {\"minutes\":5}\n")
            for refused in [
                ["publish", "secret", "1", "--on", "laptop"], ["subscribe", "secret", "--on", "laptop", "--once"],
            ] {
                let outcome = try await phone.kith(refused)
                #expect(outcome.status == 5 && outcome.error.contains("node:secret"), "\(outcome)")
            }
        }
    }

    @Test func `what is wrong is said, and a wait ends in time`() async throws {
        let laptop = try Machine("laptop")
        do {
            try await laptop.up()
            let text = try await laptop.kith(["publish", "chat", "Dinner is ready"])
            #expect(text.status == 64 || text.error.contains("quotes"), "\(text)")
            let late = try await laptop.kith(["subscribe", "never", "--once", "--timeout", "1s"])
            #expect(late.status == 8, "\(late)")
            let pattern = try await laptop.kith(["publish", "chat/*", "1"])
            #expect(pattern.status != 0 && pattern.error.contains("pattern"), "\(pattern)")
            let lines = try await laptop.kith(
                ["publish", "log", "-", "--retain", "1h"], input: Data("one\n{\"two\": 2}\n\n3\n".utf8))
            #expect(lines.status == 0, "\(lines)")
            let reading = try laptop.start(["subscribe", "log", "--look-back", "1h"])
            try await eventually { reading.soFar.split(separator: "\n").count == 3 }
            #expect(reading.soFar == "log one\nlog {\"two\":2}\nlog 3\n")
            // A person who has seen enough presses Ctrl-C.
            reading.process.interrupt()
            #expect(try await reading.outcome(seconds: 60).status == 0)
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }

    @Test func `a guaranteed event outlives the daemon that was killed, and arrives when its device comes`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "node:work/*")
            try await phone.expect("down")
            try await laptop.expect("publish", "work/done", "42", "--guarantee")
            try await laptop.killDaemon()
            try await laptop.up()
            try await phone.up()
            let outcome = try await phone.kith(
                ["subscribe", "work/*", "--once", "--from", "paired", "--timeout", "1h"], seconds: 120)
            #expect(outcome.output == "work/done 42\n", "\(outcome)")
        }
    }
}
