import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith library import-location`.
struct LibraryImportLocationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-location",
        abstract: "Add a location with the tags and notes of a file that export-location wrote.",
        discussion: helpText(
            """
              kith library import-location pictures.kithlocation
              kith library import-location pictures.kithlocation --folder ~/Photos
              kith library import-location pictures.kithlocation --name old

            All of the file is checked before anything is changed; then the folder is scanned. Tags and notes are put on
            its files as they are found: of those that are not there yet they wait for the next scan.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "The folder of the location, when it is elsewhere here.", completion: .directory) var folder: String?
    @Option(help: "Call it this; else it has the name it had.") var name: String?
    @Argument(help: "The file.", completion: .file()) var file: String

    func run() async throws {
        let folder = try folder.map { try folderPaths([$0])[0] }
        try await withClient(globals, creating: true) { client in
            let added: Locations.Import.Output
            do {
                added = try await client.call(
                    Locations.Import.self,
                    .init(path: Files.Path(absolutePath(file)), folder: folder, name: name, library: library.name))
            } catch let error as KithError
                where error.code == .notFound && folder == nil
                && FileManager.default.fileExists(atPath: absolutePath(file))
            {
                throw KithError(
                    error.code, "\(error.message) If the folder is elsewhere here, say where: --folder FOLDER.",
                    cause: error)
            }
            let progress = try await followScan(of: added.location, in: library.name, client, globals)
            if globals.json { return printLine(try jsonText(added)) }
            printLine(scanText(progress, of: added.location, isNew: true))
            note("With it came the notes of \(counted(added.notes, "file")).")
        }
    }
}
