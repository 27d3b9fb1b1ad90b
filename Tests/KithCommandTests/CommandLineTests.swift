import Foundation
import KithCommandLine
import Testing

/// Every command of kith, walked as its parser describes it: what is wrong is said in one voice, and what people write
/// together means what it means apart.
@Suite(.serialized) struct CommandLineTests {
    /// A command line that is wrong, and what standard error has to say besides.
    private struct Case: Sendable {
        var words: [String]
        var hint = ""
    }

    /// Every command that has words of its own, with the way there.
    private static func commands(_ machine: Machine) async throws -> [(path: [String], command: CommandDescription)] {
        struct Tool: Decodable { var command: CommandDescription }
        let dump = try await machine.start(["--experimental-dump-help"], byEnvironment: true).outcome(seconds: 30)
        let all = try JSONDecoder().decode(Tool.self, from: Data(dump.output.utf8)).command.all
        try #require(all.count > 50)
        return all
    }

    /// Runs each on a machine without a device, four at a time.
    private static func each<Item: Sendable>(
        _ items: [Item], _ body: @escaping @Sendable (Item) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, item) in items.enumerated() {
                if number >= 4 { try await group.next() }
                group.addTask { try await body(item) }
            }
            try await group.waitForAll()
        }
    }

    private static func unknownLetter(of command: CommandDescription) throws -> String {
        let known = Set(command.arguments.flatMap(\.names).map(\.typed))
        return String(try #require("QYJKU".first { !known.contains("-\($0)") }))
    }

    @Test func `whatever is wrong in whichever command is said by kith in one line, with status 64`() async throws {
        let machine = try Machine("nobody")
        var cases: [Case] = []
        for (path, command) in try await Self.commands(machine) {
            let unknown = try Self.unknownLetter(of: command)
            cases.append(Case(words: path + ["--no-such-option"], hint: "--no-such-option"))
            cases.append(Case(words: path + ["-" + unknown], hint: "-" + unknown))
            for before in ["", "v", "h", "vh"] {
                cases.append(Case(words: path + ["-" + before + unknown + "h"], hint: "no option"))
            }
            // Help is asked for by itself.
            if command.index(named: "-h").map({ command.arguments[$0].key == "help" }) ?? true {
                cases.append(Case(words: path + ["-vh"], hint: "no option"))
            }
            let places = command.positionals
            // A word too many; behind a group with a command of its own it is that one's.
            if !path.isEmpty, command.defaultSubcommand == nil, !places.contains(where: { $0.isRepeating }) {
                cases.append(Case(words: path + (0...places.count).map { _ in "x" }))
            }
            for option in command.arguments where option.kind == .option {
                // `--web` needs no value.
                for name in option.names where path + [name.typed] != ["up", "--web"] {
                    cases.append(Case(words: path + [name.typed], hint: name.typed))
                }
            }
        }
        try await Self.each(cases) { wrong in
            let outcome = try await machine.start(wrong.words, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status == 64, "\(wrong.words): \(outcome)")
            #expect(outcome.output.isEmpty, "\(wrong.words): \(outcome)")
            #expect(outcome.error.hasPrefix("kith: "), "\(wrong.words): \(outcome)")
            #expect(wrong.hint.isEmpty || outcome.error.contains(wrong.hint), "\(wrong.words): \(outcome)")
            #expect(!outcome.error.contains("kith: kith") && !outcome.error.contains("Usage:"), "\(outcome)")
            #expect(outcome.error.split(separator: "\n").count == 1, "\(wrong.words): \(outcome)")
        }
        await machine.remove()
    }

    @Test func `a value that is none is named, and what would be one`() async throws {
        let machine = try Machine("nobody")
        let cases = [
            ["audit", "-l", "x"], ["audit", "-lx"], ["ping", "-c", "x", "y"], ["up", "--port", "70000"],
            ["up", "--grant", "x"], ["bench", "-t", "x", "y"], ["du", "-dx", "y:/"], ["head", "-nx", "y:/z"],
            ["shell", "--keep", "x", "y"], ["shell", "--predict", "x", "y"], ["shell", "-exx", "y"],
            ["forward", "--stop", "x"], ["forward", "-Lx", "y"], ["completions", "x"], ["via", "y", "z"],
            ["mkdir", "-m", "9", "y:/z"], ["grant", "y", "--add", "x"], ["find", "y:/", "-type", "x"],
        ]
        try await Self.each(cases) { words in
            let outcome = try await machine.start(words, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status == 64 && outcome.output.isEmpty, "\(words): \(outcome)")
            #expect(outcome.error.hasPrefix("kith: ") && !outcome.error.contains("is invalid for"), "\(outcome)")
            #expect(outcome.error.split(separator: "\n").count == 1, "\(words): \(outcome)")
        }
        await machine.remove()
    }

    @Test func `a number below zero is read as a value, and refused with what would be right`() async throws {
        let machine = try Machine("nobody")
        let cases = [
            (["ping", "x", "--count", "-1"], "--count takes 1 to 1,000,000"),
            (["ping", "x", "-i", "-.5"], "--interval takes 0 to 3,600 seconds"),
            (["ping", "x", "-s", "-1"], "--size takes 0 to"),
            (["bench", "x", "-t", "-1"], "--time takes 0.1 to 30"),
            (["bench", "x", "-n", "-1"], "--requests takes 1 to"),
            (["audit", "--limit", "-1"], "--limit takes 1 to 10,000"),
            (["audit", "-l", "0"], "--limit takes 1 to 10,000"),
            (
                ["find", "x:/", "-maxdepth", "-1"],
                "“-1” is not a value for -maxdepth (at most so many levels below, 0 or more)"
            ),
            (["find", "x:/", "-mindepth", "-1"], "0 or more)"), (["du", "-d", "-1", "x:/"], "0 or more)"),
            (["passphrase", "set", "--new-passphrase-fd", "-1"], "A file descriptor is not negative"),
            (["status", "--passphrase-fd", "-1"], "A file descriptor is not negative"),
            (["up", "--port", "-1"], "“-1” is not a value for --port (the UDP port to listen on, 0 to 65535)"),
            (["shell", "x", "--scrollback", "-1"], "0 or more)"),
            (["shell", "x", "--keep", "-5m"], "90s, 10m, 8h, 2d, none)"),
            (["invite", "--expires", "-5m"], "a week at the most)"),
            (["cp", "--parallel", "-2", "a", "x:"], "1 to 16)"),
            (["cp", "--limit", "-2M", "a", "x:"], "500K, 2M)"),
            (["sync", "--retry-for", "-2", "a", "x:"], "0: not at all)"),
            (["forward", "--stop", "-1"], "`kith forward --list` shows"),
            (["mls", "bench", "--suite", "-1"], "1 to 65535)"),
        ]
        try await Self.each(cases) { words, hint in
            let outcome = try await machine.start(words, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status == 64 && outcome.error.contains(hint), "\(words): \(outcome)")
            #expect(outcome.error.split(separator: "\n").count == 1, "\(words): \(outcome)")
        }
        // What stands behind the name of an option that is not a number is another option.
        let other = try await machine.start(["ping", "x", "-c", "--json"], byEnvironment: true).outcome(seconds: 60)
        #expect(other.status == 64 && other.error.contains("A value is missing behind -c"), "\(other)")
        await machine.remove()
    }

    @Test func `a command without the two hyphens before it is told where they go`() async throws {
        let machine = try Machine("nobody")
        let cases = [
            (["shell", "x", "ls", "-l"], "kith shell x -- ls -l"),
            (["shell", "x", "ls", "-la", "a b"], "-- ls -la 'a b'"),
            (["shell", "x", "grep", "-e", "y", "z"], "-- grep -e"),
            (["shell", "x", "ls", "/tmp", "/var"], "-- ls /tmp /var"),
            (["shell", "x", "uptime"], "-- uptime"), (["via", "x", "curl", "-s", "http://y/"], "-- curl -s http://y/"),
            (["via", "x", "curl", "http://y/"], "-- curl http://y/"), (["via", "x", "bash"], "-- bash"),
            (["via", "x", "git", "clone", "http://y/"], "kith via x -- git clone http://y/"),
        ]
        try await Self.each(cases) { words, hint in
            let outcome = try await machine.start(words, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status == 64 && outcome.error.contains("put -- before it: kith "), "\(words): \(outcome)")
            #expect(outcome.error.contains(hint), "\(words): \(outcome)")
        }
        await machine.remove()
    }

    @Test func `what is missing or named as elsewhere is said, with the name it has here`() async throws {
        let machine = try Machine("nobody")
        let cases = [
            ([""], "A command is missing."), (["--data"], "A value is missing behind --data"),
            (["--data", "/x"], "A command is missing."), (["ssh", "x"], "Did you mean kith shell?"),
            (["scp", "a", "x:"], "Did you mean kith cp?"), (["rsync", "-a", "x:", "."], "Did you mean kith sync?"),
            (["rmdir", "x:a"], "Did you mean kith rm?"), (["inbox", "nosuch"], "`kith inbox --help` lists them."),
            (["forward", "--stop", "nope"], "`kith forward --list` shows"),
            (["pair", "foo"], "That is not an invitation"),
            (
                ["grant", "x", "--add", "files:read"],
                "kith: “files:read” lacks the folder it is for: files:read=/PATH."
            ),
            (["grant", "x", "--add", "nope"], "kith: “nope” is not a grant. There are: shell, "),
            (["grant", "x", "--add"], "A value is missing behind --add"), (["browse"], "needs a terminal"),
        ]
        try await Self.each(cases) { words, hint in
            let outcome = try await machine.start(words, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status == 64 && outcome.error.contains(hint), "\(words): \(outcome)")
            #expect(outcome.error.split(separator: "\n").count == 1, "\(words): \(outcome)")
        }
        await machine.remove()
    }

    @Test func `a value behind its letter, and letters written together, mean what they mean apart`() async throws {
        let machine = try Machine("nobody")
        var pairs: [(together: [String], apart: [String])] = []
        for (path, command) in try await Self.commands(machine) {
            // These do something without a device, or make one.
            let active: Set = [
                "up", "invite", "pair", "service", "mls", "manual", "config", "doctor", "organize", "trash", "undo",
                "volumes",
            ]
            guard let first = path.first, !active.contains(first), command.subcommands.isEmpty else { continue }
            let places = command.positionals.filter { !$0.isOptional }.map { _ in "x:/y" }
            func letters(_ kind: CommandDescription.Argument.Kind) -> [String] {
                command.arguments.filter { $0.kind == kind && $0.key != "help" }.flatMap(\.names)
                    .filter { $0.kind == "short" }.map(\.name)
            }
            let flags = letters(.flag).joined()
            for letter in letters(.option) {
                pairs.append((path + ["-\(letter)1"] + places, path + ["-\(letter)", "1"] + places))
                pairs.append((path + ["-v\(letter)1"] + places, path + ["-v", "-\(letter)", "1"] + places))
            }
            // A v among the letters of a copy asks for names, as rsync's.
            let apart = flags.filter { !["cp", "sync"].contains(first) || $0 != "v" }
            if apart.count > 1 { pairs.append((path + ["-" + apart] + places, path + apart.map { "-\($0)" } + places)) }
        }
        try #require(pairs.count > 30)
        try await Self.each(pairs) { pair in
            let together = try await machine.start(pair.together, byEnvironment: true).outcome(seconds: 60)
            let apart = try await machine.start(pair.apart, byEnvironment: true).outcome(seconds: 60)
            #expect(together.status == apart.status, "\(pair): \(together)\(apart)")
            #expect(together.error == apart.error, "\(pair)")
            #expect(!together.error.contains("no option"), "\(pair): \(together)")
        }
        await machine.remove()
    }

    @Test func `a daemon that cannot start is quoted once`() async throws {
        let machine = try Machine("quoted")
        // A database that is none.
        try FileManager.default.createDirectory(
            atPath: machine.data, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try Data("not a database, whatever its name says".utf8).write(
            to: URL(fileURLWithPath: machine.data + "/kith.sqlite"))
        let outcome = try await machine.kith(["up", "--detach"])
        #expect(outcome.status == 12 && outcome.error.hasPrefix("kith: The device ended at once: "), "\(outcome)")
        #expect(!outcome.error.dropFirst(6).contains("kith: ") && !outcome.error.contains(".. "), "\(outcome)")
        await machine.remove()
    }

    @Test func `up says what it makes of a name, and refuses a bad one as a wrong command line`() async throws {
        let machine = try Machine("named")
        for name in ["!!", "this"] {
            for detach in [["--detach"], []] {
                let outcome = try await machine.kith(["up", "--no-invite", "--name", name] + detach)
                #expect(outcome.status == 64 && outcome.error.contains("name"), "\(outcome)")
            }
        }
        let changed = try await machine.kith(["up", "--detach", "--no-invite", "--name", "my laptop"])
        #expect(changed.status == 0 && changed.error.contains("“my laptop” became my-laptop"), "\(changed)")
        try await machine.expect("down")
        let plain = try await machine.kith(["up", "--detach", "--no-invite", "--name", "my-laptop"])
        #expect(plain.status == 0 && plain.error.isEmpty, "\(plain)")
        await machine.remove()
    }
}
