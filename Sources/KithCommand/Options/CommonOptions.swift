import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// The options of every command, where they stand before the command: `kith --data DIR devices`, `kith inbox --json list`.
extension Root {
    /// Common options with a value.
    private static let commonOptions: Set<String> = [
        "--data", "--qlog", "--key-log", "--passphrase-fd", "--passphrase-file", "--passphrase-command",
    ]
    /// Common options without one.
    private static let commonFlags: Set<String> = ["--json", "--plain", "--verbose", "-v"]

    /// The common options at the front of a command line, and how many words they are.
    private static func leading(_ words: [String]) -> Int {
        var count = 0
        while count < words.count {
            if commonFlags.contains(words[count]) {
                count += 1
            } else if commonOptions.contains(words[count]) {
                count += 2
            } else if commonOptions.contains(ArgumentScan.split(words[count]).name) {
                count += 1
            } else {
                break
            }
        }
        return min(count, words.count)
    }

    /// The same command line with the common options behind the command, where its parser takes them: from before it, and
    /// from between a group of commands and one of these.
    static func withCommonOptionsBehind(_ words: [String]) -> [String] {
        var (path, options, rest): ([String], [String], ArraySlice<String>) = ([], [], words[...])
        var type: any ParsableCommand.Type = Root.self
        while true {
            let count = leading(Array(rest))
            guard let next = rest.dropFirst(count).first,
                let below = type.configuration.subcommands.first(where: { $0.isCalled(next) })
            else { break }
            options += rest.prefix(count)
            path.append(next)
            rest = rest.dropFirst(count + 1)
            type = below
        }
        return options.isEmpty ? words : path + options + rest
    }

    /// The error of a command line whose command does not exist; `nil` when it does, or none is named.
    static func unknownCommand(in words: [String]) throws -> KithError? {
        var rest = words[leading(words)...]
        if rest.isEmpty, let last = words.last, commonOptions.contains(last),
            words.dropLast().last.map({ !commonOptions.contains($0) }) ?? true
        {
            return KithError(.invalid, "A value is missing behind \(last). `kith up --help` describes it.")
        }
        guard !rest.isEmpty || words.isEmpty, rest.first != "" else {
            return KithError(.invalid, "A command is missing. `kith --help` lists them.")
        }
        if rest.first == "help" { rest.removeFirst() }
        guard let first = rest.first, !first.hasPrefix("-") else { return nil }
        return configuration.subcommands.contains { $0.isCalled(first) } ? nil : try noCommand([first])
    }

    /// The names that other programs have for our commands.
    private static let habits = [
        "ssh": "shell", "exec": "shell", "run": "shell", "scp": "cp", "copy": "cp", "rsync": "sync", "sftp": "browse",
        "tunnel": "forward", "proxy": "via", "start": "up", "stop": "down", "connect": "pair", "join": "pair",
        "list": "devices", "unpair": "forget", "enroll": "enrol", "move": "mv", "delete": "rm", "less": "cat",
        "more": "cat", "log": "audit", "logs": "audit", "rmdir": "rm", "remove": "rm", "unlink": "rm", "vi": "edit",
        "vim": "edit", "nano": "edit", "dir": "ls", "tree": "ls", "peers": "devices", "version": "--version",
    ]

    /// There is no such command, and which one was meant.
    static func noCommand(_ words: [String]) throws -> KithError {
        if words.count == 1, let meant = habits[words[0]] {
            return KithError(.invalid, "There is no command \(words[0]). Did you mean kith \(meant)?")
        }
        let names = try description().all.map { $0.path.joined(separator: " ") }
        let typed = words.joined(separator: " ")
        let nearest = Wording.nearest(to: typed, in: names).map { "Did you mean kith \($0)?" }
        let group = (["kith"] + words.dropLast()).joined(separator: " ")
        return KithError(.invalid, "There is no command \(typed). \(nearest ?? "`\(group) --help` lists them.")")
    }
}

extension ParsableCommand {
    /// Tells whether a word names this command.
    static func isCalled(_ word: String) -> Bool { _commandName == word || configuration.aliases.contains(word) }
}
