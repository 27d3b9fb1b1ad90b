import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith library create`.
struct LibraryCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Make a library beside the others.",
        discussion: helpText(
            """
              kith library create Work
              kith library create Archive --path /mnt/archive/library
              kith add ~/work --library Work

            With --path it is kept in that folder, as on a disk that moves between machines: with what it knows of the
            files, not with the files.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "Keep it in this folder, which must be empty or not there yet.", completion: .directory) var path:
        String?
    @Argument(help: "Its name.") var name: String

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            let library = try await client.call(
                Libraries.Create.self, .init(name: name, path: path.map { Files.Path(absolutePath($0)) }))
            if globals.json { return printLine(try jsonText(library)) }
            note(
                "\(printable(library.name)) is made. `kith add FOLDER --library '\(printable(library.name))'` fills it."
            )
        }
    }
}

/// `kith library open`.
struct LibraryOpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open", abstract: "Open a library that was closed, or one in a folder elsewhere.",
        discussion: helpText(
            """
              kith library open Archive
              kith library open /mnt/archive/library
              kith library open ./library

            One in a folder stays there and is remembered; while its disk is away it is offline. It is scanned by itself,
            and shown to other devices, only after its locations were scanned here once: kith library rescan.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "Its name or id, or a folder: with a slash in it.", completion: .directory) var library: String

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            let isFolder = library.contains("/") || library == "." || library == ".." || library == "~"
            let opened = try await client.call(
                Libraries.Open.self,
                isFolder
                    ? .init(
                        path: Files.Path(URL(fileURLWithPath: absolutePath(library)).resolvingSymlinksInPath().path))
                    : .init(library: library))
            if globals.json { return printLine(try jsonText(opened)) }
            note("\(printable(opened.name)) is open.")
            if opened.isUnconfirmed { try await noteUnconfirmed(opened, client) }
        }
    }
}

/// Says what came with a library from elsewhere, and what is to be done.
func noteUnconfirmed(_ library: Library.Summary, _ client: Client) async throws {
    let locations = try await client.call(Locations.List.self, .init(library: library.id)).locations
    if !locations.isEmpty {
        note("Its locations: \(locations.map { printable($0.path.description) }.joined(separator: ", ")).")
    }
    note(
        "Nothing of it is scanned or shown to other devices until you say so: kith library rescan --library '\(printable(library.name))'"
    )
}

/// `kith library close`.
struct LibraryCloseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "close", abstract: "Close a library until it is opened again; then its disk can be taken away.",
        discussion: helpText(
            """
              kith library close Archive
              kith library close Archive --forget
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(help: "Forget one that is in a folder elsewhere; it stays there as it is.") var forget = false
    @Argument(help: "Its name or id.") var library: String

    func run() async throws {
        try await withClient(globals) { client in
            let closed = try await client.call(Libraries.Close.self, .init(library: library, forgets: forget))
            if globals.json { return printLine(try jsonText(closed)) }
            note("\(printable(closed.library?.name ?? library)) is closed\(forget ? " and forgotten" : "").")
        }
    }
}

/// `kith library rename`.
struct LibraryRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename", abstract: "Give a library another name.",
        discussion: helpText(
            """
              kith library rename Work 'Old work'
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "Its name or id.") var library: String
    @Argument(help: "The name it gets.") var name: String

    func run() async throws {
        try await withClient(globals) { client in
            let renamed = try await client.call(Libraries.Rename.self, .init(library: library, name: name))
            if globals.json { return printLine(try jsonText(renamed)) }
            note("It is called \(printable(renamed.name)) now.")
        }
    }
}

/// `kith library default`.
struct LibraryDefaultCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "default", abstract: "Choose the library that commands are about when they name none.",
        discussion: helpText(
            """
              kith library default            which it is
              kith library default Work
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "Its name or id.") var library: String?

    func run() async throws {
        try await withClient(globals) { client in
            let chosen: Library.Summary
            if let library {
                chosen = try await client.call(Libraries.SetDefault.self, .init(library: library))
            } else {
                let all = try await client.call(Libraries.List.self, .init()).libraries
                guard let first = all.first(where: \.isDefault) else {
                    throw KithError(.notFound, "There is no default library. `kith library list` lists what there is.")
                }
                chosen = first
            }
            if globals.json { return printLine(try jsonText(chosen)) }
            printLine(printable(chosen.name))
        }
    }
}

/// `kith library delete`.
struct LibraryDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a library with its tags and all it knows; your files stay as they are.",
        discussion: helpText(
            """
              kith library delete Work            asks first
              kith library delete Work --yes

            To keep it, write it into a file first: `kith library export`. A library in a folder of your choice is not
            deleted: `kith library close NAME --forget`, then delete the folder.
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Do not ask.") var yes = false
    @Argument(help: "Its name or id.") var library: String

    func run() async throws {
        try await withClient(globals) { client in
            let info = try await client.call(Libraries.Info.self, .init(library: library))
            if !yes {
                let numbers = info.statistics.map {
                    ": it knows \(Wording.count(Int(clamping: $0.files), "file", "files")) and \(Wording.count($0.tags, "tag", "tags"))"
                }
                let question = "Delete the library \(printable(info.name))\(numbers ?? "")?"
                guard try confirm(question, orPass: "--yes") else { return }
            }
            _ = try await client.call(Libraries.Delete.self, .init(library: info.id))
            if globals.json { return printLine(try jsonText(info)) }
            note("\(printable(info.name)) is deleted. Your files are as they were.")
        }
    }
}

/// `kith library export`.
struct LibraryExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write a library into one file, as it is at this moment.",
        discussion: helpText(
            """
              kith library export photos.kithlibrary --library Photos
              kith library export /mnt/backup/library.kithlibrary --overwrite

            The file is a tar archive with the index, its identity and checksums: what the library knows, tags and all, not
            the files themselves. Only you may read it. Jobs, undo and thumbnails are not in it.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Flag(help: "Replace a file that is there already.") var overwrite = false
    @Argument(help: "The file.", completion: .file()) var file: String

    func run() async throws {
        let path = absolutePath(file)
        try await withClient(globals) { client in
            let stream = try await client.open(
                Libraries.Export.self, .init(library: library.name, path: Files.Path(path), overwrite: overwrite)
            ).stream
            let exported = try await followed(stream.messages, "Exporting", globals)
            if globals.json { return printLine(try jsonText(exported)) }
            note("\(printable(exported.name)) is in \(printable(path)).")
        }
    }
}

/// `kith library import`.
struct LibraryImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Make a library of a file that kith library export wrote.",
        discussion: helpText(
            """
              kith library import photos.kithlibrary
              kith library import photos.kithlibrary --name 'Photos of 2024'
              kith library import photos.kithlibrary --replace

            All of the file is checked before anything is changed. When this device has the same library already, it becomes
            a second one, or with --replace takes the place of the first. Its locations are scanned, and shown to other
            devices, only once you have said so: kith library rescan.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "Call it this; else it has the name it had.") var name: String?
    @Flag(help: "Replace the same library on this device, with all that is new in it.") var replace = false
    @Argument(help: "The file.", completion: .file()) var file: String

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            let stream = try await client.open(
                Libraries.Import.self, .init(path: Files.Path(absolutePath(file)), name: name, replaces: replace)
            ).stream
            let imported = try await followed(stream.messages, "Importing", globals)
            if globals.json { return printLine(try jsonText(imported)) }
            let numbers =
                imported.statistics.map {
                    ": \(Wording.count(Int(clamping: $0.files), "file", "files")), \(Wording.count($0.tags, "tag", "tags"))"
                } ?? ""
            note("\(printable(imported.name)) is here\(numbers).")
            try await noteUnconfirmed(imported, client)
        }
    }
}

/// Shows how far an export or an import is; returns the library.
private func followed(
    _ messages: MethodStream<Libraries.Progress, Nothing>.Messages, _ what: String, _ globals: GlobalOptions
) async throws -> Library.Summary {
    var line = StatusLine(isShown: !globals.json, isPlain: globals.isPlain)
    defer { line.clear() }
    // What takes a moment needs no line.
    let start = ContinuousClock.now
    for try await progress in messages {
        if let library = progress.library {
            line.clear()
            return library
        }
        guard start.duration(to: .now) > .milliseconds(500), progress.total > 0 else { continue }
        let step =
            switch progress.phase {
            case .copying: "copying"
            case .packing: what == "Exporting" ? "writing" : "reading"
            case .checking: "checking"
            default: ""
            }
        let done = Wording.size(progress.bytes)
        line.show("\(what), \(step): \(done) of \(Wording.size(progress.total))")
    }
    throw KithError(.closed, "\(what) was interrupted.")
}
