import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith library`.
struct LibraryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "library",
        abstract: "The libraries of this device, with their locations; look into those of other devices.",
        discussion: helpText(
            """
              kith library                    the libraries, each with its locations
              kith library info               one in numbers
              kith library rescan             look at all of its locations again
              kith library problems           the folders that could not be read
              kith library remove archive     a location; its files stay as they are
              kith library identify           read what is not known yet, for duplicates
              kith library verify archive     read all again: is it what it was?
              kith library extract            read texts and properties, for content:
              kith library relocate archive /media/disk/archive
              kith library set archive --mode content
              kith library export-location archive -o archive.kithlocation
              kith library create Work        a second one, for --library Work
              kith library open /mnt/disk/library

            Those of another device, with its grant library (names, sizes, tags) or library:read (and the files in its
            locations):

              kith library --device laptop
              kith library ls Pictures/2024 --device laptop
              kith search holiday --device laptop
              kith search holiday --device laptop --copy ~/Pictures
              kith send photo.jpg laptop      the other way: offered, and taken if somebody there wants it

            `kith add` adds a location, `kith search` finds what is in them.
            """),
        subcommands: [
            LibraryListCommand.self, LibraryInfoCommand.self, LibraryLsCommand.self, LibraryLocationsCommand.self,
            LibraryRescanCommand.self, LibraryRemoveCommand.self, LibraryCreateCommand.self, LibraryOpenCommand.self,
            LibraryCloseCommand.self, LibraryRenameCommand.self, LibraryDefaultCommand.self, LibraryExportCommand.self,
            LibraryImportCommand.self, LibraryDeleteCommand.self,
            LibraryIdentifyCommand.self, LibraryVerifyCommand.self,
            LibraryRelocateCommand.self, LibraryProblemsCommand.self, LibraryExtractCommand.self,
            LibrarySetCommand.self, LibraryExportLocationCommand.self, LibraryImportLocationCommand.self,
        ],
        defaultSubcommand: LibraryListCommand.self)
}

/// `kith library locations`.
struct LibraryLocationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "locations", abstract: "List the locations of one library.",
        discussion: helpText(
            """
              kith library locations
              kith library locations --library Photos
              kith library locations --device laptop --json
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "List those of this device.") var device: String?

    func run() async throws {
        try await withClient(globals) { client in
            let locations = try await client.call(
                Locations.List.self, .init(library: library.name(on: device)), on: device
            ).locations
            if globals.json { return printLine(try jsonText(locations)) }
            guard !locations.isEmpty else {
                return note(
                    device.map { "The library of \(printable($0)) is empty." }
                        ?? "The library is empty. `kith add FOLDER` adds what is in a folder.")
            }
            printLine(Self.table(of: locations))
            Self.noteProblems(of: locations)
            if device == nil { try await noteMoved(in: library.name, client) }
        }
    }

    /// The locations as a table.
    static func table(of locations: [Library.Location]) -> String {
        KithCommand.table(
            ["NAME", "FILES", "FOLDERS", "SCANNED", "STATE", "PATH"],
            locations.map { location in
                [
                    printable(location.name), grouped(location.entries.saturatingSubtracting(location.folders ?? 0)),
                    location.folders.map { grouped($0) } ?? "-",
                    location.scanned.map { relative($0) } ?? "never", state(location) + mode(location),
                    printable(location.path.description),
                ]
            })
    }

    /// Says what is wrong with them.
    static func noteProblems(of locations: [Library.Location]) {
        for location in locations {
            if let problem = location.problem { note("\(printable(location.name)): \(printable(problem))") }
        }
    }

    /// What is not as usual: `, content`.
    private static func mode(_ location: Library.Location) -> String {
        guard let mode = location.mode, mode != .recursive else { return "" }
        return ", \(mode.rawValue)"
    }

    private static func state(_ location: Library.Location) -> String {
        if location.isScanning { return "scanning" }
        if location.problem != nil { return styled("not there", .yellow) }
        if location.scanned == nil { return styled("not finished", .yellow) }
        return location.isWatched ? "watched" : "as scanned"
    }
}

/// `kith library rescan`.
struct LibraryRescanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rescan", abstract: "Bring the library to what is on the disk.",
        discussion: helpText(
            """
              kith library rescan
              kith library rescan archive
              kith library rescan --library Photos

            Only what has changed is read. Files that were renamed or moved in it keep their tags.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The locations, by name, path or number; all when there are none.") var locations: [String] = []

    func run() async throws {
        try await withClient(globals) { client in
            let all = try await client.call(Locations.List.self, .init(library: library.name)).locations
            let chosen = try locations.isEmpty ? all : locations.map { try chosenLocation($0, among: all) }
            if chosen.isEmpty { note("The library is empty. `kith add FOLDER` adds what is in a folder.") }
            var failed: KithError?
            for location in chosen {
                do {
                    let progress = try await followScan(of: location, in: library.name, client, globals)
                    printLine(globals.json ? try jsonText(progress) : scanText(progress, of: location, isNew: false))
                } catch let error as KithError {
                    // The others are as good as they were.
                    report(error, json: globals.json)
                    failed = failed ?? error
                }
            }
            if let failed { throw ExitCode(failed.code.exitStatus) }
        }
    }
}

/// `kith library remove`.
struct LibraryRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Take a location out of the library; its files stay as they are.",
        discussion: helpText(
            """
              kith library remove archive

            The tags of its files are forgotten.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The location, by name, path or number.") var location: String

    func run() async throws {
        try await withClient(globals) { client in
            let chosen = try await client.chosenLocation(location, in: library.name)
            _ = try await client.call(Locations.Remove.self, .init(id: chosen.id, library: library.name))
            if !globals.json { note("\(printable(chosen.name)) is not in the library any more.") }
        }
    }
}

/// The location that a word names.
func chosenLocation(_ word: String, among all: [Library.Location]) throws -> Library.Location {
    let found = all.filter { $0.name == word || $0.path.description == word || String($0.id) == word }
    if found.count == 1, let one = found.first { return one }
    guard found.isEmpty else {
        throw KithError(
            .conflict,
            "\(printable(word)) names \(found.count) locations. Say which by its path or number: \(found.map { String($0.id) }.joined(separator: ", "))."
        )
    }
    throw KithError(.notFound, "There is no location \(printable(word)). `kith library` lists them.")
}
