import Foundation
import KithWire
import Testing

@Suite struct DoctorTests {
    private struct Step: Decodable {
        var subject: String
        var outcome: String
        var finding: String
        var remedy: String?
    }
    private struct Report: Decodable {
        var steps: [Step]
        var healthy: Bool
        var verdict: String

        func outcomes(_ subject: String) -> [String] {
            steps.filter { $0.subject.hasPrefix(subject) }.map(\.outcome)
        }
        func findings(_ subject: String) -> String {
            steps.filter { $0.subject.hasPrefix(subject) }.map(\.finding).joined(separator: "\n")
        }
    }

    private func examine(_ machine: Machine, _ arguments: String...) async throws -> (Machine.Outcome, Report) {
        let outcome = try await machine.kith(["doctor", "--json"] + arguments, seconds: 120)
        let report = try JSONDecoder().decode(Report.self, from: Data(outcome.output.utf8))
        #expect(report.healthy == (outcome.status == 0), "\(outcome)")
        return (outcome, report)
    }

    @Test func `a device that is reached is said to be, with path, grants and round trips`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let (outcome, report) = try await examine(phone, "laptop")
            #expect(outcome.status == 0, "\(outcome)")
            #expect(report.outcomes("address ").contains("ok"))
            #expect(report.findings("allowed there").contains("shell"))
            #expect(report.findings("round trips").hasPrefix("20 of 20"))
            #expect(report.outcomes("path") == ["ok"])
            #expect(report.outcomes("daemon") == ["ok"])
            // What was examined was not disturbed.
            try await phone.expect("ping", "laptop", "--count", "1")
            let words = try await phone.expect("doctor", "laptop")
            #expect(words.contains("laptop is reached"))
            #expect(!words.contains("\u{1B}"))
        }
    }

    @Test func `a device that is down is told from one that is not there`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            try await laptop.expect("down")
            let (outcome, report) = try await examine(phone, "laptop")
            #expect(outcome.status == 1)
            // The kernel of this very machine says that nobody listens.
            #expect(report.findings("address ").contains("nobody listens"))
            #expect(report.outcomes("connection") == ["failure"])
            #expect(report.verdict.contains("kith up"), "\(report.verdict)")
        }
    }

    @Test func `a device that has forgotten this one is named as the reason`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            try await laptop.expect("forget", "phone")
            let (outcome, report) = try await examine(phone, "laptop")
            #expect(outcome.status == 1)
            #expect(report.outcomes("address ").contains("ok"))
            #expect(report.verdict.contains("pair again"), "\(report.verdict)")
        }
    }

    @Test func `an address that belongs to another device now is found out`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let status = try JSONSerialization.jsonObject(with: Data(try await laptop.expect("status", "--json").utf8))
            let address = try #require(((status as? [String: Any])?["addresses"] as? [String])?.first)
            let port = try #require(address.split(separator: ":").last.map(String.init))
            try await laptop.expect("down")
            let other = try Machine("other")
            try await other.up("--port", port)
            let (outcome, report) = try await examine(phone, "laptop")
            await other.remove()
            #expect(outcome.status == 1)
            #expect(report.findings("address ").contains("not with the key of laptop"), "\(outcome)")
        }
    }

    @Test func `an unknown device, no directory, a mistake in the settings: each is said, with what to do`()
        async throws
    {
        let machine = try Machine("new")
        let (_, none) = try await examine(machine)
        #expect(none.outcomes("data directory") == ["failure"])
        #expect(none.verdict.contains("kith up"))
        try await machine.up()
        let (_, alone) = try await examine(machine)
        #expect(alone.healthy)
        let (_, unknown) = try await examine(machine, "nobody")
        #expect(unknown.outcomes("paired") == ["failure"])
        #expect(unknown.verdict.contains("kith pair"))
        await machine.remove()
    }

    @Test func `a measurement has latencies, rates both ways and the path`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let text = try await phone.expect("bench", "laptop", "--time", "0.3", "--requests", "20", "--json")
            let report = try #require(
                try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
            #expect((report["downBytesPerSecond"] as? Double ?? 0) > 100_000)
            #expect((report["upBytesPerSecond"] as? Double ?? 0) > 100_000)
            let latency = try #require(report["latencyMilliseconds"] as? [String: Any])
            #expect(latency["requests"] as? Int == 20)
            #expect((latency["minimum"] as? Double ?? 0) <= (latency["p99"] as? Double ?? -1))
            let link = try #require(report["link"] as? [String: Any])
            #expect((link["udpPayloadSize"] as? Int ?? 0) >= 1_200)
            #expect((link["packetsSent"] as? Int ?? 0) > 100)
        }
    }

    @Test func `without a grant nobody may load a device, and one at a time may`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            func measureLong() throws -> Running {
                try phone.start(["bench", "laptop", "--time", "30", "--requests", "1"])
            }
            var first = try measureLong()
            // The first is under way once a second one is turned away; the second may have been the first.
            let deadline = ContinuousClock.now + .seconds(50)
            var second = try await phone.kith(["bench", "laptop", "--time", "0.1", "--requests", "1"])
            while second.status == 0, ContinuousClock.now < deadline {
                if !first.process.isRunning { first = try measureLong() }
                second = try await phone.kith(["bench", "laptop", "--time", "0.1", "--requests", "1"])
            }
            #expect(second.status == KithError.Code.exhausted.exitStatus, "\(second)")
            // When whoever measures goes away, the device is free again.
            kill(first.process.processIdentifier, SIGKILL)
            _ = try await first.outcome(seconds: 30)
            var third = second
            while third.status != 0, ContinuousClock.now < deadline + .seconds(50) {
                third = try await phone.kith(["bench", "laptop", "--time", "0.1", "--requests", "1"])
            }
            #expect(third.status == 0, "\(third)")

            try await laptop.expect("grant", "phone", "--remove", "shell")
            let refused = try await phone.kith(["bench", "laptop", "--time", "0.1"])
            #expect(refused.status == KithError.Code.denied.exitStatus, "\(refused)")
            #expect(refused.error.contains("kith grant phone"))
        }
    }

    @Test func `the service's file is written once, and removed`() async throws {
        let machine = try Machine("service")
        let environment = ["HOME": machine.folder.path, "XDG_CONFIG_HOME": machine.path("config")]
        func service(_ words: String...) async throws -> Machine.Outcome {
            try await machine.start(["service"] + words, environment: environment, byEnvironment: true)
                .outcome(seconds: 30)
        }
        let printed = try await service("install", "--print")
        #expect(printed.output.contains("up"))
        #expect(try await service("status").status == 3)
        #expect(try await service("install", "--no-start").error.hasPrefix("Wrote "))
        #expect(try await service("install", "--no-start").error.hasPrefix("Unchanged "))
        #expect(try await service("status").status == 1)
        #expect(try await service("uninstall").error.hasPrefix("Removed "))
        #expect(try await service("uninstall").status == 0)
        await machine.remove()
    }

    @Test func `plain output moves no cursor and says now and then how far it is`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let outcome = try await phone.kith(["bench", "laptop", "--time", "0.3", "--plain"])
            #expect(outcome.status == 0)
            #expect(!(outcome.output + outcome.error).contains { $0 == "\r" || $0 == "\u{1B}" })
        }
    }
}
