import Foundation
import Testing

/// What becomes of a device's key and its data directory.
@Suite struct KeysTests {
    private let files = FileManager.default

    /// Runs `body` with a machine, and takes it down after it.
    private func withMachine(_ body: (Machine) async throws -> Void) async throws {
        let machine = try Machine("laptop")
        do {
            try await body(machine)
        } catch {
            await machine.remove()
            throw error
        }
        await machine.remove()
    }

    private func id(of machine: Machine) async throws -> String {
        let status = try JSONSerialization.jsonObject(with: Data(try await machine.expect("status", "--json").utf8))
        return try #require((status as? [String: Any])?["id"] as? String)
    }

    // MARK: - The data directory

    @Test(arguments: ["up", "invite", "pair"])
    func `no command makes a device in a folder with other things, in the root or in the home`(command: String)
        async throws
    {
        try await withMachine { machine in
            let home = machine.path("home")
            try files.createDirectory(atPath: home, withIntermediateDirectories: true)
            try files.createDirectory(atPath: machine.path("full/of"), withIntermediateDirectories: true)
            let more =
                switch command {
                case "up": ["--detach", "--no-invite"]
                case "pair": ["kith-invite1aaaa", "--yes"]
                default: ["--yes", "--text", "--expires", "1s"]
                }
            for place in ["/", home, machine.path("full"), "/tmp", "", "/etc"] {
                let outcome = try await machine.start(
                    [command, "--data", place] + more, environment: ["HOME": home], byEnvironment: true
                ).outcome(seconds: 60)
                #expect(outcome.status != 0 && outcome.error.contains(place.isEmpty ? "--data" : place), "\(outcome)")
            }
            #expect(try files.contentsOfDirectory(atPath: home).isEmpty)
            #expect(try files.contentsOfDirectory(atPath: machine.path("full")) == ["of"])
            for name in ["kith.sqlite", "lock", "kith.log"] {
                #expect(!files.fileExists(atPath: "/" + name) && !files.fileExists(atPath: "/tmp/" + name))
            }
        }
    }

    @Test func `a folder that was there keeps its mode`() async throws {
        try await withMachine { machine in
            try files.createDirectory(
                atPath: machine.data, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o755])
            let refused = try await machine.kith(["up", "--detach", "--no-invite"])
            #expect(refused.status == 5 && refused.error.contains("chmod 700"), "\(refused)")
            #expect(try files.attributesOfItem(atPath: machine.data)[.posixPermissions] as? Int == 0o755)
            #expect(try files.contentsOfDirectory(atPath: machine.data).isEmpty)
            chmod(machine.data, 0o700)
            try await machine.up()
        }
    }

    // MARK: - What is missing

    @Test func `a missing or foreign key beside a database is an error, never a new identity`() async throws {
        try await withMachine { machine in
            try await machine.up()
            let id = try await id(of: machine)
            try await machine.expect("down")
            let sealed = machine.data + "/identity.sealed"
            try files.moveItem(atPath: sealed, toPath: machine.path("kept"))
            for command in [["up", "--no-invite"], ["invite", "--yes"], ["devices"]] {
                let outcome = try await machine.kith(command)
                #expect(outcome.status == 12 && outcome.error.contains("identity.sealed"), "\(outcome)")
                #expect(!files.fileExists(atPath: sealed))
            }
            // Another device's key is no replacement.
            let other = try Machine("other")
            try await other.up()
            try await other.expect("down")
            for name in ["identity.sealed", "machine.key"] {
                try Data(contentsOf: URL(fileURLWithPath: other.data + "/" + name)).write(
                    to: URL(fileURLWithPath: machine.path(name)))
            }
            await other.remove()
            let key = machine.data + "/machine.key"
            try files.moveItem(atPath: key, toPath: machine.path("kept.key"))
            for name in ["identity.sealed", "machine.key"] {
                try files.copyItem(atPath: machine.path(name), toPath: machine.data + "/" + name)
                chmod(machine.data + "/" + name, 0o600)
            }
            let foreign = try await machine.kith(["up", "--no-invite"])
            #expect(foreign.status == 12 && foreign.error.contains("another device"), "\(foreign)")
            for (name, kept) in [(sealed, "kept"), (key, "kept.key")] {
                try files.removeItem(atPath: name)
                try files.moveItem(atPath: machine.path(kept), toPath: name)
            }
            try await machine.up()
            #expect(try await self.id(of: machine) == id)
        }
    }

    @Test func `a missing machine's key or database is said, and nothing is made in its place`() async throws {
        try await withMachine { machine in
            try await machine.up()
            let id = try await id(of: machine)
            try await machine.expect("down")
            for name in ["machine.key", "kith.sqlite"] {
                let path = machine.data + "/" + name
                try files.moveItem(atPath: path, toPath: machine.path(name))
                let outcome = try await machine.kith(["up", "--detach", "--no-invite"])
                #expect(outcome.status != 0 && outcome.error.contains(name), "\(outcome)")
                #expect(!files.fileExists(atPath: path))
                try files.moveItem(atPath: machine.path(name), toPath: path)
            }
            try await machine.up()
            #expect(try await self.id(of: machine) == id)
        }
    }
}
