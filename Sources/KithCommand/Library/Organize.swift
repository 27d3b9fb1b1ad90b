import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith organize`.
struct OrganizeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "organize",
        abstract: "Copy, move, rename and delete files of this device by a plan, and with a way back.",
        discussion: helpText(
            """
              kith organize copy ~/Pictures/2024 /media/disk     goes on after a crash
              kith organize move a.txt b.txt old/ --plan         shows what would be done
              kith organize rename *.jpg --pattern 'trip-{n:3}.{ext}'
              kith organize delete build/                        for good; kith trash put keeps it
              kith organize folder projects/2025
              kith organize confirm PLAN                         does what --plan has shown
              kith undo                                          takes the latest back

            First it is found out what would be done: which names are taken, how much room is needed, what cannot be read.
            Then it is done as a job of this device, which a crash, a restart or a pause does not harm. What has changed
            since the plan is left alone, and said. Between devices, files go by kith cp and kith mv.
            """),
        subcommands: [
            OrganizeCopyCommand.self, OrganizeMoveCommand.self, OrganizeRenameCommand.self, OrganizeDeleteCommand.self,
            OrganizeFolderCommand.self, OrganizeConfirmCommand.self,
        ])
}

/// `kith organize copy`.
struct OrganizeCopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy", abstract: "Copy files and folders with all that is in them.",
        discussion: helpText(
            """
              kith organize copy report.txt notes/ /media/disk
              kith organize copy report.txt report-2.txt
              kith organize copy ~/Pictures /media/disk --plan
              kith organize copy ~/Pictures /media/disk --on-conflict skip

            Times, permissions, attributes and holes go along; where the file system can, both share their blocks.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Argument(help: "What to copy, then where to: a folder that is there, or a new name.", completion: .file())
    var paths: [String]

    func validate() throws {
        guard paths.count >= 2 else { throw ValidationError("Name what to copy, then where to.") }
    }

    func run() async throws { try await place(.copy, paths, options, globals) }
}

/// `kith organize move`.
struct OrganizeMoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move", abstract: "Move files and folders.",
        discussion: helpText(
            """
              kith organize move a.txt b.txt old/
              kith organize move old new
              kith organize move ~/Videos /media/disk

            To another file system things are copied, and deleted here when the copy is on the disk. A folder that is
            there already gets what is in the other.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Argument(help: "What to move, then where to: a folder that is there, or a new name.", completion: .file())
    var paths: [String]

    func validate() throws {
        guard paths.count >= 2 else { throw ValidationError("Name what to move, then where to.") }
    }

    func run() async throws { try await place(.move, paths, options, globals) }
}

private func place(
    _ kind: Operations.Kind, _ paths: [String], _ options: OperationOptions, _ globals: GlobalOptions
) async throws {
    let all = try paths.map { try localPath($0) }
    guard let destination = all.last else { return }
    try await withClient(globals, creating: true) { client in
        let plan = try await client.call(
            Operations.Plan.self,
            .init(
                kind: kind, paths: Array(all.dropLast()), destination: destination,
                conflicts: options.conflicts.choice))
        try await OperationFlow(options: options, globals: globals).run(plan, client)
    }
}

/// `kith organize rename`.
struct OrganizeRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename", abstract: "Give one file or many other names in their folders.",
        discussion: helpText(
            """
              kith organize rename draft.txt --to final.txt
              kith organize rename *.jpg --pattern 'trip-{n:3}.{ext}'
              kith organize rename *.pdf --pattern '{date} {name}.{ext}' --plan

            In a pattern {name} is the old name without its ending, {ext} the ending, {n} counts from 1, {n:3} with three
            digits, {date} is the day of the last change, and {{ is a brace.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Option(help: "The new name, of one file.") var to: String?
    @Option(help: "The new names, of any number of files.") var pattern: String?
    @Argument(help: "The files and folders.", completion: .file()) var paths: [String]

    func validate() throws {
        guard !paths.isEmpty else { throw ValidationError("Which files?") }
        guard (to == nil) != (pattern == nil) else { throw ValidationError("Say the new names by --to or --pattern.") }
        guard to == nil || paths.count == 1 else {
            throw ValidationError("--to goes with one file; --pattern with many.")
        }
    }

    func run() async throws {
        let all = try paths.map { try localPath($0) }
        try await withClient(globals, creating: true) { client in
            let plan = try await client.call(
                Operations.Plan.self,
                .init(
                    kind: .rename, paths: all, names: to.map { [Files.Path($0)] }, pattern: pattern,
                    conflicts: options.conflicts.choice))
            try await OperationFlow(options: options, globals: globals, asksAlways: all.count > 1).run(plan, client)
        }
    }
}

/// `kith organize delete`.
struct OrganizeDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete files and folders with all that is in them, for good.",
        discussion: helpText(
            """
              kith organize delete build/        asks first; -y does not
              kith organize delete old.txt --plan

            Links are deleted themselves, never what they lead to. kith trash put keeps what is deleted.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Argument(help: "The files and folders.", completion: .file()) var paths: [String]

    func validate() throws { guard !paths.isEmpty else { throw ValidationError("Which files?") } }

    func run() async throws {
        let all = try paths.map { try localPath($0) }
        try await withClient(globals, creating: true) { client in
            let plan = try await client.call(Operations.Plan.self, .init(kind: .delete, paths: all))
            try await OperationFlow(options: options, globals: globals, asksAlways: true).run(plan, client)
        }
    }
}

/// `kith organize folder`.
struct OrganizeFolderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "folder", abstract: "Make folders, and those around them that are not there.",
        discussion: helpText(
            """
              kith organize folder projects/2025
              kith organize folder a b c
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Argument(help: "The folders.", completion: .directory) var paths: [String]

    func validate() throws { guard !paths.isEmpty else { throw ValidationError("Which folders?") } }

    func run() async throws {
        let all = try paths.map { try localPath($0) }
        try await withClient(globals, creating: true) { client in
            let plan = try await client.call(Operations.Plan.self, .init(kind: .makeFolder, paths: all))
            guard plan.totals.steps > 0 else { return note("They are there already.") }
            try await OperationFlow(options: options, globals: globals).run(plan, client)
        }
    }
}

/// `kith organize confirm`.
struct OrganizeConfirmCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "confirm", abstract: "Do what --plan has shown, of any command that has it.",
        discussion: helpText(
            """
              kith organize move ~/Videos /media/disk --plan
              kith organize confirm 6f1c2a0e-8b1d-4c53-9a9f-2f0a7be1c1d4

            A plan is good for ten minutes. What has changed since is left alone, and said.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(
        name: .customLong("on-conflict"),
        help: "Where a name is taken: skip, overwrite (what was there goes into the trash), keep-both.")
    var conflicts = OperationOptions.Conflicts.ask
    @Argument(help: "The id of the plan.") var plan: String

    func run() async throws {
        try await withClient(globals) { client in
            try await OperationFlow(globals: globals).carryOut(
                plan, otherwise: conflicts == .ask ? nil : conflicts.choice, client)
        }
    }
}
