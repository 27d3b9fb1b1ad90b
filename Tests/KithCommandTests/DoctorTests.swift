import Foundation
import KithWire
import Testing

#if canImport(Glibc)
import CDispatch
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// Something at a UDP port that answers every first packet of QUIC with a version nobody here knows.
private final class AnotherVersion: Sendable {
    private let socket: Int32

    init(port: UInt16) throws {
        #if canImport(Glibc)
        let kind = Int32(SOCK_DGRAM.rawValue)
        #else
        let kind = SOCK_DGRAM
        #endif
        socket = Foundation.socket(AF_INET, kind, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        let (number, size) = (socket, socklen_t(MemoryLayout<sockaddr_in>.size))
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(number, $0, size) }
        }
        try #require(status == 0, "the port \(port) is taken: \(errno)")
        Thread.detachNewThread {
            var packet = [UInt8](repeating: 0, count: 2_048)
            while true {
                var sender = sockaddr_in()
                var length = size
                let count = withUnsafeMutablePointer(to: &sender) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        recvfrom(number, &packet, packet.count, 0, $0, &length)
                    }
                }
                guard count > 0 else { return }
                guard let answer = Self.answer(to: packet[..<count]) else { continue }
                withUnsafePointer(to: &sender) { pointer in
                    _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        sendto(number, answer, answer.count, 0, $0, length)
                    }
                }
            }
        }
    }

    /// A Version Negotiation packet (RFC 9000 §17.2.1).
    private static func answer(to packet: ArraySlice<UInt8>) -> [UInt8]? {
        // A long header: the form, a version, and both connection ids.
        guard packet.count > 7, packet[0] & 0x80 != 0 else { return nil }
        let destination = packet.dropFirst(6).prefix(Int(packet[5]))
        let rest = packet.dropFirst(6 + destination.count)
        guard let length = rest.first, rest.count > Int(length) else { return nil }
        let source = rest.dropFirst().prefix(Int(length))
        return [0x80, 0, 0, 0, 0, UInt8(source.count)] + source + [UInt8(destination.count)] + destination
            + [0xFF, 0, 0, 0x1D]
    }

    func stop() {
        shutdown(socket, Int32(SHUT_RDWR))
        close(socket)
    }
}

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
            #expect(report.verdict.hasSuffix("no Kith is running there. Start it there: kith up."), "\(report.verdict)")
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

    @Test func `a device that speaks another version of the protocol is said to, with what to do`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let status = try JSONSerialization.jsonObject(with: Data(try await laptop.expect("status", "--json").utf8))
            let address = try #require(((status as? [String: Any])?["addresses"] as? [String])?.first)
            let port = try #require(address.split(separator: ":").last.flatMap { UInt16($0) })
            try await laptop.expect("down")
            let other = try AnotherVersion(port: port)
            defer { other.stop() }
            let (outcome, report) = try await examine(phone, "laptop")
            #expect(outcome.status == 1)
            #expect(report.findings("address ").contains("speaks no version of QUIC"), "\(outcome)")
            #expect(report.outcomes("connection") == ["failure"])
            #expect(report.verdict.contains("the same version of Kith"), "\(report.verdict)")
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

    @Test func `what doctor advises is a command, and changes what it finds`() async throws {
        func run(_ remedy: String?, on machine: Machine) async throws {
            // From the word kith up to a comma, or to the end.
            let remedy = try #require(remedy)
            let start = try #require(remedy.firstRange(of: "kith ")?.upperBound)
            let command = remedy[start...].prefix { $0 != "," }.split(separator: " ").map { $0.filter { $0 != "'" } }
            let outcome = try await machine.start(command, byEnvironment: true).outcome(seconds: 60)
            try #require(outcome.status == 0, "\(command): \(outcome)")
        }
        try await withTwoMachines { laptop, phone in
            // Paired with nothing allowed: what it says to do there allows something.
            try await laptop.invite(phone)
            let (_, bare) = try await examine(phone, "laptop")
            #expect(bare.outcomes("allowed there") == ["warning"])
            try await run(bare.steps.first { $0.subject == "allowed there" }?.remedy, on: laptop)
            let (_, allowed) = try await examine(phone, "laptop")
            #expect(allowed.outcomes("allowed there") == ["ok"])
            #expect(!allowed.steps.contains { $0.subject.hasPrefix("address ") && $0.remedy != nil }, "\(allowed)")

            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: phone.data)
            let (_, open) = try await examine(phone)
            let remedy = try #require(open.steps.first { $0.subject == "data directory" }?.remedy)
            #expect(try await phone.bash(remedy).status == 0)
            #expect(try await examine(phone).1.outcomes("data directory") == ["ok"])

            try await phone.expect("down")
            let (_, down) = try await examine(phone)
            #expect(down.outcomes("daemon") == ["warning"])
            try await run(down.steps.first { $0.subject == "daemon" }?.remedy, on: phone)
            #expect(try await examine(phone).1.outcomes("daemon") == ["ok"])
        }
    }

    /// True where a network of a test's own can be made.
    private static let canMakeNetworks =
        (try? local(["sh", "-c", "unshare -rn true && echo yes"]).contains("yes")) ?? false

    @Test(.enabled(if: canMakeNetworks))
    func `without a network a device is up, and not well; with a silent server, nothing is said of UDP`() async throws {
        let (laptop, relay) = (try Machine("laptop"), try Machine("relay"))
        let script = """
            kith='\(Machine.program.path)'
            "$kith" up --detach --name laptop --no-discovery --no-port-mapping; echo "up: $?"
            "$kith" doctor --network; echo "doctor: $?"
            "$kith" down
            ip link set lo up
            "$kith" relay --plain --data '\(relay.data)' --listen 127.0.0.1:3340 --listen-quic none --stun none & relay=$!
            "$kith" up --detach --no-discovery --no-port-mapping --use-relay http://127.0.0.1:3340
            until "$kith" doctor --network | grep 'No answer from the server 127.0.0.1 by UDP; whether UDP is blocked'
            do sleep 0.1; done
            "$kith" down
            kill $relay
            """
        let outcome = try await laptop.start(
            ["-rn", "bash", "-c", script], byEnvironment: true, program: URL(fileURLWithPath: "/usr/bin/unshare")
        ).outcome(seconds: 200)
        #expect(outcome.output.contains("up: 0\n") && outcome.output.contains("  network    none yet"), "\(outcome)")
        #expect(outcome.output.contains("doctor: 1\n") && outcome.output.contains("it is on no network"), "\(outcome)")
        #expect(outcome.output.contains("No answer from the server"), "\(outcome)")
        for machine in [laptop, relay] { await machine.remove() }
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
