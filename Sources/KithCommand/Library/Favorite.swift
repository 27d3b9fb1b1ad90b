import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith favorite`.
struct FavoriteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "favorite",
        abstract: "Mark files of the library as favourites.",
        discussion: helpText(
            """
              kith favorite ~/Pictures/2024 letter.txt
              kith favorite letter.txt --remove
              kith search is:favorite                 finds them

            The mark is kept in the library, not in the file, and stays with it when it is renamed or moved.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Flag(help: "Take the mark away.") var remove = false
    @Argument(help: "The files or folders.", completion: .file()) var files: [String]

    func validate() throws {
        guard !files.isEmpty else { throw ValidationError("Which files?") }
    }

    func run() async throws {
        let paths = try wholePaths(files)
        try await withClient(globals) { client in
            _ = try await client.call(
                Annotations.Change.self, .init(paths: paths, isFavorite: !remove, library: library.name))
        }
    }
}
