import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith trash`.
struct TrashCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trash",
        abstract: "Put files of this device into the trash, list it, put them back, empty it.",
        discussion: helpText(
            """
              kith trash put old.txt build/     other programs see them there, too
              kith trash                        what is in it
              kith trash restore old.txt        back to where it was
              kith trash empty --older-than 30d

            It is the trash of this person that file managers use, and that of each disk they have put things into.
            """),
        subcommands: [
            TrashListCommand.self, TrashPutCommand.self, TrashRestoreCommand.self, TrashEmptyCommand.self,
        ],
        defaultSubcommand: TrashListCommand.self)
}

/// `kith trash list`.
struct TrashListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List what is in the trash, the latest first.",
        discussion: helpText(
            """
              kith trash list
              kith trash list --json
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            var items: [Trash.Item] = []
            while true {
                let page = try await client.call(Trash.List.self, .init(limit: 1_000, after: items.count))
                items += page.items
                if page.items.isEmpty || items.count >= page.total { break }
            }
            if globals.json { return printLine(try jsonText(items)) }
            guard !items.isEmpty else { return note("The trash is empty.") }
            printLine(
                table(
                    ["DELETED", "SIZE", "WHERE IT WAS"],
                    items.map { item in
                        [
                            item.deleted.map { relative($0) } ?? "?",
                            item.kind == .folder && item.size == 0 ? "" : Wording.size(item.size),
                            item.original.map { printable($0.description) }
                                ?? styled("not known: \(printable(item.path.description))", .yellow),
                        ]
                    }))
        }
    }
}

/// `kith trash put`.
struct TrashPutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put", abstract: "Put files and folders into the trash.",
        discussion: helpText(
            """
              kith trash put old.txt build/
              kith trash put ~/Downloads/*.iso
              kith trash put old.txt --plan
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Argument(help: "The files and folders.", completion: .file()) var paths: [String]

    func validate() throws { guard !paths.isEmpty else { throw ValidationError("Which files?") } }

    func run() async throws {
        let all = try paths.map { try localPath($0) }
        try await withClient(globals, creating: true) { client in
            let plan = try await client.call(Operations.Plan.self, .init(kind: .trash, paths: all))
            try await OperationFlow(options: options, globals: globals).run(plan, client)
        }
    }
}

/// `kith trash restore`.
struct TrashRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Put things back to where they were.",
        discussion: helpText(
            """
              kith trash restore old.txt
              kith trash restore ~/Pictures/2023 --on-conflict keep-both

            Things are named by where they were. Of several that were in one place, the one deleted last comes back.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Argument(help: "Where they were, or where they lie in the trash.") var paths: [String]

    func validate() throws {
        guard !paths.isEmpty else { throw ValidationError("Which files? `kith trash` lists them.") }
    }

    func run() async throws {
        let all = try paths.map { try localPath($0) }
        try await withClient(globals, creating: true) { client in
            let plan = try await client.call(
                Trash.Restore.self, .init(paths: all, conflicts: options.conflicts.choice))
            try await OperationFlow(options: options, globals: globals).run(plan, client)
        }
    }
}

/// `kith trash empty`.
struct TrashEmptyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "empty", abstract: "Delete for good what is in the trash.",
        discussion: helpText(
            """
              kith trash empty                    asks first; -y does not
              kith trash empty --older-than 30d
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Option(
        name: .customLong("older-than"),
        help: "Only what was put there before that: 30d, 12h, 90m.")
    var age: String?

    func validate() throws {
        guard age == nil || seconds != nil else {
            throw ValidationError("--older-than takes days, hours or minutes: 30d.")
        }
    }

    private var seconds: Int64? {
        guard let age, let unit = age.last, let number = Int64(age.dropLast()), (0...36_500).contains(number) else {
            return nil
        }
        switch unit {
        case "d": return number * 86_400
        case "h": return number * 3_600
        case "m": return number * 60
        default: return nil
        }
    }

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            let plan = try await client.call(Trash.Empty.self, .init(olderThan: seconds))
            try await OperationFlow(options: options, globals: globals, asksAlways: true).run(plan, client)
        }
    }
}
