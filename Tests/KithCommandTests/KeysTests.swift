import Foundation
import KithIdentity
import KithTesting
import Testing

/// The fate of a device's key and its data directory.
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
                case "pair":
                    [
                        try await machine.kith(["invite", "--yes", "--text", "--expires", "1s"]).output
                            .trimmingCharacters(in: .newlines), "--yes",
                    ]
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
            for name in ["identity.sealed", "index.sealed", "machine.key"] {
                try Data(contentsOf: URL(fileURLWithPath: other.data + "/" + name)).write(
                    to: URL(fileURLWithPath: machine.path(name)))
            }
            await other.remove()
            let key = machine.data + "/machine.key"
            try files.moveItem(atPath: key, toPath: machine.path("kept.key"))
            let index = machine.data + "/index.sealed"
            try files.moveItem(atPath: index, toPath: machine.path("kept.index"))
            for name in ["identity.sealed", "index.sealed", "machine.key"] {
                try files.copyItem(atPath: machine.path(name), toPath: machine.data + "/" + name)
                chmod(machine.data + "/" + name, 0o600)
            }
            let foreign = try await machine.kith(["up", "--no-invite"])
            #expect(foreign.status == 12 && foreign.error.contains("another device"), "\(foreign)")
            for (name, kept) in [(sealed, "kept"), (key, "kept.key"), (index, "kept.index")] {
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

    @Test func `keys that are put back from before are refused, and the newest open again`() async throws {
        try await withMachine { machine in
            try await machine.up()
            let id = try await id(of: machine)
            try await machine.expect("down")
            let names = ["identity.sealed", "index.sealed"]
            func copy(_ names: [String], from place: String, to other: String) throws {
                for name in names {
                    let bytes = try Data(contentsOf: URL(fileURLWithPath: place + "/" + name))
                    try bytes.write(to: URL(fileURLWithPath: other + "/" + name))
                    chmod(other + "/" + name, 0o600)
                }
            }
            for folder in ["older", "newer"] {
                try files.createDirectory(atPath: machine.path(folder), withIntermediateDirectories: false)
            }
            let (first, second) = (try file(machine, "first", "one"), try file(machine, "second", "two"))
            try await machine.expect("passphrase", "set", "--new-passphrase-file", first)
            try copy(names, from: machine.data, to: machine.path("older"))
            try await machine.expect("passphrase", "set", "--passphrase-file", first, "--new-passphrase-file", second)
            try copy(names, from: machine.data, to: machine.path("newer"))
            try await machine.expect("up", "--detach", "--no-invite", "--passphrase-file", second)
            try await machine.expect("down")

            // With all of its files of one time, an old copy opens by its passphrase, and the database knows better.
            try copy(names, from: machine.path("older"), to: machine.data)
            let old = try await machine.kith(["up", "--detach", "--no-invite", "--passphrase-file", first])
            #expect(old.status == 12 && old.error.contains("older copy"), "\(old)")
            // A part of it does not even agree with the rest.
            try copy(["index.sealed"], from: machine.path("newer"), to: machine.data)
            let part = try await machine.kith(["up", "--detach", "--no-invite", "--passphrase-file", second])
            #expect(part.status == 12 && part.error.contains("newest copy"), "\(part)")
            try files.removeItem(atPath: machine.data + "/index.sealed")
            try copy(["identity.sealed"], from: machine.path("newer"), to: machine.data)
            let missing = try await machine.kith(["up", "--detach", "--no-invite", "--passphrase-file", second])
            #expect(missing.status == 12 && missing.error.contains("index.sealed is missing"), "\(missing)")

            try copy(names, from: machine.path("newer"), to: machine.data)
            try await machine.expect("up", "--detach", "--no-invite", "--passphrase-file", second)
            #expect(try await self.id(of: machine) == id)
        }
    }

    // MARK: - The passphrase

    /// A file with one line that only its owner may read.
    private func file(_ machine: Machine, _ name: String, _ line: String) throws -> String {
        let path = machine.path(name)
        try Data((line + "\n").utf8).write(to: URL(fileURLWithPath: path))
        chmod(path, 0o600)
        return path
    }

    private func sealedBy(_ machine: Machine) async throws -> String {
        let outcome = try await machine.kith(["passphrase", "--json"])
        return try #require(
            try JSONDecoder().decode([String: String].self, from: Data(outcome.output.utf8))["sealedBy"])
    }

    @Test func `a passphrase is set, changed and removed, while the device is up and while it is down`() async throws {
        try await withMachine { machine in
            let old = try file(machine, "old", "first horse")
            let new = try file(machine, "new", "second horse")
            try await machine.up()
            let id = try await id(of: machine)
            #expect(try await sealedBy(machine) == "machine key")
            let set = try await machine.passphrase("set", "--new-passphrase-file", old)
            #expect(set.status == 0, "\(set)")
            #expect(try await sealedBy(machine) == "passphrase")
            #expect(!files.fileExists(atPath: machine.data + "/machine.key"))
            // The device goes on.
            #expect(try await self.id(of: machine) == id)
            try await machine.expect("down")
            let without = try await machine.kith(["up", "--no-invite"])
            #expect(without.status == 5 && without.error.contains("kith passphrase"), "\(without)")
            let wrong = try await machine.kith(["up", "--no-invite", "--passphrase-file", new])
            #expect(wrong.status == 5, "\(wrong)")
            let changed = try await machine.passphrase(
                "set", "--passphrase-file", old, "--new-passphrase-command", "cat '\(new)'")
            #expect(changed.status == 0, "\(changed)")
            try await machine.up("--passphrase-command", "cat '\(new)'")
            #expect(try await self.id(of: machine) == id)
            let removed = try await machine.passphrase("remove", "--passphrase-file", new)
            #expect(removed.status == 0, "\(removed)")
            #expect(try await sealedBy(machine) == "machine key")
            try await machine.expect("down")
            try await machine.up()
            #expect(try await self.id(of: machine) == id)
        }
    }

    #if os(Linux)
    @Test(
        .enabled(
            if: PrivateKeyring.obstacle == nil, "gnome-keyring is not installed: scripts/bootstrap --test does that"))
    func `the desktop's keyring seals the key, and the device says when it is locked or absent`() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        try await withMachine { machine in
            func kith(_ words: String...) async throws -> Machine.Outcome {
                try await machine.start(words, environment: keyring.environment, byEnvironment: true)
                    .outcome(seconds: 60)
            }
            try await machine.up()
            let id = try await id(of: machine)
            let sealed = try await kith("passphrase", "keyring")
            #expect(sealed.status == 0 && sealed.output.contains("keyring"), "\(sealed)")
            #expect(try await sealedBy(machine) == "keyring")
            #expect(!files.fileExists(atPath: machine.data + "/machine.key"))
            #expect(try keyring.store().secretNames().count == 1)
            // The device goes on, and starts again without anybody being asked.
            #expect(try await self.id(of: machine) == id)
            try await machine.expect("down")
            let up = try await kith("up", "--detach", "--no-invite")
            #expect(up.status == 0, "\(up)")
            #expect(try await self.id(of: machine) == id)
            try await machine.expect("down")

            let key = try Data(contentsOf: URL(fileURLWithPath: machine.data + "/identity.sealed"))
            try await keyring.lock()
            let locked = try await kith("up", "--no-invite")
            #expect(locked.status == 5 && locked.error.contains("Unlock it"), "\(locked)")
            try await keyring.kill()
            let absent = try await kith("up", "--detach", "--no-invite")
            #expect(absent.status == 7 && absent.error.contains("no keyring runs"), "\(absent)")
            #expect(try Data(contentsOf: URL(fileURLWithPath: machine.data + "/identity.sealed")) == key)

            try await keyring.start()
            let removed = try await kith("passphrase", "remove")
            #expect(removed.status == 0, "\(removed)")
            #expect(try await sealedBy(machine) == "machine key")
            #expect(try keyring.store().secretNames() == [])
            try await machine.up()
            #expect(try await self.id(of: machine) == id)
        }
    }
    #endif

    @Test func `a person at a terminal is asked, sees nothing of what is typed, and may change their mind`()
        async throws
    {
        try await withMachine { machine in
            try await machine.up()
            try await machine.expect("down")
            let before = try Data(contentsOf: URL(fileURLWithPath: machine.data + "/identity.sealed"))
            var terminal = try Tmux(machine, ["passphrase", "set"])
            try await terminal.show("New passphrase:")
            try terminal.type("one horse")
            try await terminal.show("The same again:")
            try terminal.type("another")
            try await terminal.show("Nothing was changed.")
            #expect(try !terminal.screen().contains("horse"))
            terminal.end()
            #expect(try Data(contentsOf: URL(fileURLWithPath: machine.data + "/identity.sealed")) == before)

            terminal = try Tmux(machine, ["passphrase", "set"])
            try await terminal.show("New passphrase:")
            // Deleted by the character, not by the byte.
            try terminal.send("horsä")
            try terminal.press("BSpace", "e", "Enter")
            try await terminal.show("The same again:")
            try terminal.type("horse")
            try await terminal.show("sealed by the passphrase now")
            terminal.end()

            terminal = try Tmux(machine, ["passphrase", "remove"])
            try await terminal.show("Passphrase of this device's key:")
            try terminal.press("C-c")
            try await terminal.show("No passphrase was given.")
            terminal.end()
            #expect(try await sealedBy(machine) == "passphrase")
            try await machine.up("--passphrase-file", file(machine, "horse", "horse"))
        }
    }

    @Test func `a passphrase is refused when others may read it, when it is empty, and when its command fails`()
        async throws
    {
        try await withMachine { machine in
            try await machine.up()
            let open = try file(machine, "open", "horse")
            chmod(open, 0o644)
            let before = try Data(contentsOf: URL(fileURLWithPath: machine.data + "/identity.sealed"))
            for (arguments, words) in [
                (["--new-passphrase-file", open], "chmod 600"), (["--new-passphrase-file", "/dev/null"], "empty"),
                (["--new-passphrase-command", "exit 3"], "status 3"),
                (["--new-passphrase-command", "head -c 2000 /dev/zero | tr '\\0' a"], "1024"),
                (["--new-passphrase-file", machine.path("none")], "none"), ([], "terminal"),
            ] {
                let outcome = try await machine.passphrase(["set"] + arguments)
                #expect(outcome.status != 0 && outcome.error.contains(words), "\(outcome)")
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: machine.data + "/identity.sealed")) == before)
        }
    }

    /// Ways to hand a passphrase over, as a shell has them; `$KITH` and `$DATA` are set.
    @Test(arguments: [
        "KITH_PASSPHRASE='correct horse' \"$KITH\" up --detach --no-invite --data \"$DATA\"",
        "\"$KITH\" up --detach --no-invite --data \"$DATA\" --passphrase-fd 9 9<<<'correct horse'",
        "CREDENTIALS_DIRECTORY=\"$CREDENTIALS\" \"$KITH\" up --detach --no-invite --data \"$DATA\"",
    ])
    func `no passphrase stays in the memory, the arguments or the environment of a device, or of its shells`(
        line: String
    )
        async throws
    {
        try await withMachine { machine in
            try files.createDirectory(atPath: machine.path("credentials"), withIntermediateDirectories: true)
            _ = try file(machine, "credentials/kith.passphrase", "correct horse")
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/bash")
            process.arguments = ["-c", line]
            process.environment = ProcessInfo.processInfo.environment.merging([
                "KITH": Machine.program.path, "DATA": machine.data, "CREDENTIALS": machine.path("credentials"),
            ]) { $1 }
            try process.run()
            process.waitUntilExit()
            try #require(process.terminationStatus == 0)
            #expect(try await sealedBy(machine) == "passphrase")
            let phone = try Machine("phone")
            try await phone.up()
            try await machine.invite(phone, "shell")
            let shell = try await phone.kith(["shell", "laptop", "--", "env"])
            await phone.remove()
            #expect(shell.status == 0 || shell.error.contains("laptop"), "\(shell)")
            #expect(!shell.output.contains("PASSPHRASE") && !shell.output.contains("horse"))
            #if os(Linux)
            let pid = try await machine.daemonPID()
            for name in ["environ", "cmdline"] {
                let text = String(
                    decoding: try Data(contentsOf: URL(fileURLWithPath: "/proc/\(pid)/\(name)")), as: UTF8.self)
                #expect(!text.contains("horse"), "\(name)")
            }
            #expect(try Memory(of: pid).locations(of: Array("correct horse".utf8)).isEmpty)
            #endif
        }
    }

    #if os(Linux)
    @Test func `a device leaves no core, hides from other programs of its user, and locks the key it keeps`()
        async throws
    {
        try await withMachine { machine in
            try await machine.up()
            let pid = try await machine.daemonPID()
            let limits = try String(contentsOfFile: "/proc/\(pid)/limits", encoding: .utf8)
            let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
            #expect(core.split(separator: " ").dropFirst(4).first == "0", "\(core)")
            // The kernel gives these files to root when a process may not be dumped.
            guard geteuid() == 0 else { return }
            let key = try #require(try FileKeyStore(directory: machine.data, seal: .machineKey).storedDeviceKey())
            let locations = try Memory(of: pid).locations(of: key.seed)
            // Nothing is connected: the TLS library has no copy of its own.
            #expect(locations.count == 1 && locations.allSatisfy(\.isLocked), "\(locations)")
        }
    }

    /// Another process's memory, as root may read it.
    private struct Memory {
        struct Location {
            var address: UInt64
            var isLocked: Bool
        }

        private let pid: pid_t

        init(of pid: pid_t) { self.pid = pid }

        /// The addresses of some bytes, and whether the pages there are locked.
        func locations(of bytes: [UInt8]) throws -> [Location] {
            var locations: [Location] = []
            let memory = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/\(pid)/mem"))
            defer { try? memory.close() }  // nothing was written
            var range: Range<UInt64>?
            var isReadable = false
            for line in procText("/proc/\(pid)/smaps").split(separator: "\n") {
                let words = line.split(separator: " ")
                let ends = words[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
                if ends.count == 2 {
                    range = ends[0]..<ends[1]
                    isReadable = words[1].hasPrefix("rw") || words[1].hasPrefix("r-")
                }
                guard line.hasPrefix("VmFlags:"), isReadable, let here = range, here.lowerBound < 1 << 47 else {
                    continue
                }
                let isLocked = words.contains("lo")
                var offset = here.lowerBound
                while offset < here.upperBound {
                    // Pieces overlap, so that nothing hides on a border.
                    let count = Int(min(here.upperBound - offset, 1 << 22))
                    guard (try? memory.seek(toOffset: offset)) != nil,
                        let piece = try? memory.read(upToCount: count), !piece.isEmpty
                    else { break }
                    var start = piece.startIndex
                    while let found = piece.range(of: Data(bytes), in: start..<piece.endIndex) {
                        locations.append(
                            Location(address: offset + UInt64(found.lowerBound - piece.startIndex), isLocked: isLocked))
                        start = found.lowerBound + 1
                    }
                    offset += UInt64(count == 1 << 22 ? count - bytes.count : count)
                }
            }
            return locations
        }
    }
    #endif
}

extension Machine {
    /// Runs `kith passphrase`, whose first word is a command of its own.
    fileprivate func passphrase(_ words: [String]) async throws -> Outcome {
        try await start(["passphrase"] + words, byEnvironment: true).outcome(seconds: 60)
    }

    fileprivate func passphrase(_ words: String...) async throws -> Outcome { try await passphrase(words) }
}

#if os(Linux)
/// The text of a file of /proc, whose size nobody knows before its end.
private func procText(_ path: String) -> String {
    let descriptor = open(path, O_RDONLY)
    defer { close(descriptor) }
    var text: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 1 << 16)
    while case let count = read(descriptor, &part, part.count), count > 0 { text += part[..<count] }
    return String(decoding: text, as: UTF8.self)
}
#endif
