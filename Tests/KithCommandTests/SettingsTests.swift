import Foundation
import Testing

@Suite struct SettingsTests {
    private func write(_ text: String, on machine: Machine) throws {
        try FileManager.default.createDirectory(
            atPath: machine.data, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let path = machine.data + "/config"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    private func plain(_ machine: Machine, _ words: String..., environment: [String: String] = [:]) async throws
        -> Machine.Outcome
    {
        try await machine.start(words, environment: environment, byEnvironment: true).outcome(seconds: 30)
    }

    @Test func `another name for a device, with settings of its own, is used by the commands`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let folder = laptop.path("work here")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try write(
                """
                [shell]
                directory = /
                [device work]
                device = laptop
                directory = "\(folder)"
                """, on: phone)
            let there = try await phone.expect("shell", "work", "--", "pwd")
            #expect(there.hasSuffix("work here\n"))
            #expect(try await phone.expect("shell", "laptop", "--", "pwd") == "/\n")
            #expect(try await phone.expect("shell", "-C", "/tmp", "work", "--", "pwd") == "/tmp\n")
        }
    }

    @Test func `how copies are compressed and how many at once stands in the file, and the command line wins`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            let srv = laptop.path("srv")
            try FileManager.default.createDirectory(atPath: srv, withIntermediateDirectories: true)
            try await laptop.invite(phone, "files:write=\(srv)")
            let source = phone.path("source")
            for name in ["a", "b", "c"] {
                try FileManager.default.createDirectory(atPath: source, withIntermediateDirectories: true)
                try Data(String(repeating: "all the same ", count: 40_000).utf8).write(
                    to: URL(fileURLWithPath: source + "/" + name))
            }
            func copy(_ words: String..., to name: String) async throws -> (sent: Int, wire: Int) {
                let text = try await phone.kith(
                    ["sync", "--json", "-q"] + words + [source, "laptop:\(srv)/\(name)"])
                #expect(text.status == 0, "\(text)")
                let summary = try JSONSerialization.jsonObject(with: Data(text.output.utf8)) as? [String: Any]
                return (summary?["sent"] as? Int ?? -1, summary?["wire"] as? Int ?? -1)
            }
            try write("[sync]\ncompress = always\nparallel = 3\n", on: phone)
            let packed = try await copy(to: "1")
            #expect(packed.sent == 3 * 520_000 && packed.wire < 100_000, "\(packed)")
            let plain = try await copy("--compress", "never", to: "2")
            #expect(plain.wire > 3 * 520_000, "\(plain)")
            try write("[sync]\ncompress = never\n", on: phone)
            let never = try await copy(to: "3")
            #expect(never.wire > 3 * 520_000, "\(never)")
            let forced = try await copy("-z", to: "4")
            #expect(forced.wire < 100_000, "\(forced)")
            for (line, word) in [("compress = perhaps", "--compress"), ("parallel = 0", "--parallel")] {
                try write("[sync]\n\(line)\n", on: phone)
                let refused = try await phone.kith(["sync", source, "laptop:\(srv)/5"])
                #expect(refused.status == 64 && refused.error.contains("config:2:"), "\(refused)")
                #expect(refused.error.contains(word) || refused.error.contains("perhaps"), "\(refused)")
            }
        }
    }

    @Test func `a flag of the file is taken back on the command line`() async throws {
        try await withTwoMachines { laptop, _ in
            try write("json = yes", on: laptop)
            #expect(try await laptop.expect("status").hasPrefix("{"))
            #expect(try await laptop.expect("status", "--json=no").hasPrefix("laptop is up"))
        }
    }

    @Test func `up in the background works with detach in the file`() async throws {
        let machine = try Machine("alone")
        try write("[up]\ndetach = yes\nno-invite = yes\nname = alone", on: machine)
        let outcome = try await machine.kith(["up"])
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try await machine.expect("status").hasPrefix("alone is up"))
        await machine.remove()
    }

    @Test func `a mistake names file, line and remedy, and stops what it could change`() async throws {
        let machine = try Machine("wrong")
        try write("# fine\n[ping]\ncuont = 3\n", on: machine)
        let status = try await plain(machine, "status")
        #expect(status.status == 64)
        #expect(status.error.contains("config:3:"))
        #expect(status.error.contains("“count”?"))
        // What helps with it works all the same.
        #expect(try await plain(machine, "config", "check").status == 64)
        #expect(try await plain(machine, "ping", "--help").status == 0)

        try write("[ping]\ncount = 0\n", on: machine)
        let check = try await plain(machine, "config", "check")
        #expect(check.status == 64)
        #expect(check.error.contains("config:2: --count takes"))
        let ping = try await plain(machine, "ping", "nobody")
        #expect(ping.status == 64)
        #expect(ping.error.contains("config:2: --count takes"))
        await machine.remove()
    }

    @Test func `settings somebody else could have written are not read`() async throws {
        let machine = try Machine("open")
        try write("verbose = no\n", on: machine)
        try FileManager.default.setAttributes([.posixPermissions: 0o622], ofItemAtPath: machine.data + "/config")
        #expect(try await plain(machine, "status").status == 5)
        await machine.remove()
    }

    @Test func `every setting of the example is one the commands have`() async throws {
        let machine = try Machine("example")
        let example = try await plain(machine, "config", "example").output
        let lines = example.split(separator: "\n").map { line in
            line.hasPrefix("#") && !line.hasPrefix("# ") && line.contains(" = ")
                ? String(line.dropFirst()) : String(line)
        }
        let path = machine.path("all")
        // Defaults that are words for a person, as NAME, are no values: keys and flags are what is checked here.
        let flags = lines.filter { !$0.contains(" = ") || $0.hasSuffix(" = no") }
        try Data(flags.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: path))
        let check = try await plain(machine, "config", "check", path)
        #expect(check.status == 0, "\(check)")
        #expect(flags.count { $0.contains(" = no") } > 10)
        await machine.remove()
    }

    @Test func `where each value comes from is shown`() async throws {
        let machine = try Machine("origins")
        try write("[ping]\ncount = 7\n[device work]\ndevice = laptop\n", on: machine)
        let outcome = try await plain(machine, "config", "show", "ping", "--device", "work", "--json")
        let report = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
        let settings = try #require(report?["settings"] as? [[String: Any]])
        func origin(_ key: String) -> String? { settings.first { $0["key"] as? String == key }?["origin"] as? String }
        #expect(origin("count") == "line 2")
        #expect(origin("device") == "line 4")
        #expect(origin("data") == "$KITH_DATA")
        #expect(origin("interval") == "default")
        await machine.remove()
    }
}
