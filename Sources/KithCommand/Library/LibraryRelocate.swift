import ArgumentParser
import KithAPI
import KithCommandLine
import KithIndex
import KithWire

/// `kith library relocate`.
struct LibraryRelocateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relocate", abstract: "Say where a location is now; its files keep their tags.",
        discussion: helpText(
            """
              kith library relocate archive /media/disk/archive

            For a folder that was moved, or whose disk is mounted elsewhere. It must be the same folder: on the
            same disk, or with at least half of the names that are known of it.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Flag(help: "Take it for the same although it does not look it; what is not there is forgotten.") var force = false
    @Argument(help: "The location, by name, path or number.") var location: String
    @Argument(help: "Where it is now.", completion: .directory) var path: String

    func run() async throws {
        let path = try localPath(path)
        try await withClient(globals) { client in
            let chosen = try chosenLocation(
                location, among: try await client.call(Locations.List.self, .init(library: library.name)).locations)
            let moved = try await client.call(
                Locations.Relocate.self, .init(library: library.name, id: chosen.id, path: path, force: force))
            _ = try await followScan(of: moved, in: library.name, client, globals)
            if globals.json { return printLine(try jsonText(moved)) }
            note("\(printable(moved.name)) is at \(printable(moved.path.description)) now.")
        }
    }
}

/// Notes which locations are not where they were, and where their disks are mounted.
func noteMoved(in library: String?, _ client: Client) async throws {
    let option = library.map { " --library \(shellWord(printable($0)))" } ?? ""
    for moved in try await client.call(Locations.FindMoved.self, .init(library: library)).locations {
        note(
            "\(printable(moved.name)) seems to be at \(printable(moved.found.description)) now: kith library relocate \(shellWord(printable(moved.name))) \(shellWord(printable(moved.found.description)))\(option)"
        )
    }
}
