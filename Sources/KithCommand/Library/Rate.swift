import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith rate`.
struct RateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rate",
        abstract: "Give a file of the library 0 to 5 stars.",
        discussion: helpText(
            """
              kith rate photo.jpg 5
              kith rate photo.jpg 0                   no stars any more
              kith search 'rating:>=4' sort:-rating   finds what has them

            Stars are kept in the library, not in the file, and stay with it when it is renamed or moved.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The file or folder.", completion: .file()) var file: String
    @Argument(help: "The stars, 0 to 5.") var stars: Int

    func validate() throws {
        guard (0...5).contains(stars) else { throw ValidationError("A rating is 0 to 5 stars.") }
    }

    func run() async throws {
        let path = try wholePaths([file])[0]
        try await withClient(globals) { client in
            _ = try await client.call(
                Annotations.Change.self, .init(paths: [path], rating: stars, library: library.name))
        }
    }
}
