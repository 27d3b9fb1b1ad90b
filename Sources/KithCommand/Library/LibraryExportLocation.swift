import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith library export-location`.
struct LibraryExportLocationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export-location",
        abstract: "Write a location with its tags and notes into a file, to be added elsewhere.",
        discussion: helpText(
            """
              kith library export-location ~/Pictures -o pictures.kithlocation
              kith library export-location archive -o archive.kithlocation

            In the file are its name, its rules, and the tags, stars, marks and notes of its files, by their paths in it:
            not the files. `kith library import-location` takes it in, also on another machine.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(name: [.customShort("o"), .long], help: "The file.", completion: .file()) var output: String
    @Flag(help: "Replace a file that is there already.") var overwrite = false
    @Argument(help: "The location, by name, path or number.") var location: String

    func run() async throws {
        let path = absolutePath(output)
        try await withClient(globals) { client in
            let location = try await client.chosenLocation(location, in: library.name)
            let written: Locations.Export.Output
            do {
                written = try await client.call(
                    Locations.Export.self,
                    .init(id: location.id, path: Files.Path(path), overwrite: overwrite, library: library.name))
            } catch let error as KithError where error.code == .conflict && !overwrite {
                throw KithError(error.code, "\(error.message) Pass --overwrite to replace it.", cause: error)
            }
            if globals.json { return printLine(try jsonText(written)) }
            note(
                "\(printable(written.name)) is in \(printable(path)), with the notes of \(counted(written.notes, "file"))."
            )
        }
    }
}
