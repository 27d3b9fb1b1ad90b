import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith tags`.
struct TagsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tags",
        abstract: "Tag files of the library; list, take away, rename and delete tags.",
        discussion: helpText(
            """
              kith tags                               list them
              kith tags add work/clients *.pdf        tag files; makes the tags
              kith tags remove work/clients old.pdf
              kith tags rename work/clients clients
              kith tags delete work/clients
              kith search tag:work                    finds what has it, or one beneath it

            Tags are kept in the library, not in the files; a file keeps its own when it is renamed or moved.
            """),
        subcommands: [
            TagsListCommand.self, TagsAddCommand.self, TagsRemoveCommand.self, TagsRenameCommand.self,
            TagsDeleteCommand.self,
        ],
        defaultSubcommand: TagsListCommand.self)
}

/// `kith tags list`.
struct TagsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the tags.",
        discussion: helpText(
            """
              kith tags list
              kith tags list --device laptop
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "List those of this device.") var device: String?

    func run() async throws {
        try await withClient(globals) { client in
            let tags = try await client.call(
                Tags.List.self, .init(library: library.name(on: device)), on: device
            ).tags
            if globals.json { return printLine(try jsonText(tags)) }
            guard !tags.isEmpty else { return note("There are no tags. `kith tags add TAG FILE` makes one.") }
            printLine(table(["TAG", "FILES"], tags.map { [printable($0.name), grouped($0.uses)] }))
        }
    }
}

/// `kith tags add`.
struct TagsAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Tag files, and make the tag if need be.",
        discussion: helpText(
            """
              kith tags add holiday ~/Pictures/2024
              kith tags add work/clients/ana *.pdf
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The tag, with those above it: work/clients.") var tag: String
    @Argument(help: "The files or folders.", completion: .file()) var files: [String]

    func run() async throws { try await changeTags(of: files, in: library.name, globals, add: [tag], remove: []) }
}

/// `kith tags remove`.
struct TagsRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Take a tag away from files.",
        discussion: helpText(
            """
              kith tags remove holiday ~/Pictures/2024
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The tag, with those above it: work/clients.") var tag: String
    @Argument(help: "The files or folders.", completion: .file()) var files: [String]

    func run() async throws { try await changeTags(of: files, in: library.name, globals, add: [], remove: [tag]) }
}

/// `kith tags rename`.
struct TagsRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename", abstract: "Give a tag another name, and with it those beneath it.",
        discussion: helpText(
            """
              kith tags rename holliday holiday
              kith tags rename work/clients clients    work/clients/ana is clients/ana then

            All files that carry them carry the new names, at once. Where there is a tag of the new name, both are one from
            then on, which is said. `kith undo` takes it back.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The tag, with those above it: work/clients.") var tag: String
    @Argument(help: "Its new name, with those above it.") var name: String

    func run() async throws {
        try await withClient(globals) { client in
            let answer = try await client.call(
                Tags.Rename.self, .init(name: tag, newName: name, library: library.name))
            if globals.json { return printLine(try jsonText(answer)) }
            let (tag, name) = (printable(tag), printable(name))
            guard answer.tags > 0 else { return note("Nothing to do: \(tag) is called that already.") }
            let beneath = answer.tags > 1 ? " with \(grouped(answer.tags - 1)) beneath it" : ""
            let files = answer.files == 1 ? "1 file" : "\(grouped(answer.files)) files"
            note(
                answer.isMerged
                    ? "There was a tag \(name) already: \(tag)\(beneath) is part of it now, on \(files)."
                    : "\(tag)\(beneath) is called \(name) now, on \(files).")
        }
    }
}

/// `kith tags delete`.
struct TagsDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete a tag and those beneath it; the files stay as they are.",
        discussion: helpText(
            """
              kith tags delete work/clients
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The tag, with those above it: work/clients.") var tag: String

    func run() async throws {
        try await withClient(globals) { client in
            _ = try await client.call(Tags.Delete.self, .init(name: tag, library: library.name))
        }
    }
}

private func changeTags(
    of files: [String], in library: String?, _ globals: GlobalOptions, add: [String], remove: [String]
) async throws {
    guard !files.isEmpty else { throw ValidationError("Which files?") }
    let paths = try wholePaths(files)
    try await withClient(globals) { client in
        let answer = try await client.call(
            Tags.Change.self, .init(paths: paths, add: add, remove: remove, library: library))
        if globals.json { return printLine(try jsonText(answer)) }
        // An older device does not say.
        guard let changed = answer.changed else { return }
        let tags = (add + remove).map(printable).joined(separator: ", ")
        let (did, had) =
            add.isEmpty ? ("Took \(tags) from", "had no tag \(tags)") : ("Tagged", "had the tag \(tags) already")
        let other = paths.count - changed
        if changed > 0 {
            note(
                "\(did) \(named(changed))\(add.isEmpty ? "" : " \(tags)")\(other > 0 ? "; \(named(other)) \(had)" : "")."
            )
        } else {
            note("Nothing to do: \(named(other)) \(had).")
        }
    }
    func named(_ count: Int) -> String { count == 1 ? "1 file" : "\(grouped(count)) files" }
}
