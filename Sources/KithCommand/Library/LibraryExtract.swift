import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith library extract`.
struct LibraryExtractCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "extract", abstract: "Read the text and the properties of files, for `kith search` to look in.",
        discussion: helpText(
            """
              kith library extract
              kith library extract archive
              kith search 'content:"net gain" ext:pdf,docx'
              kith search 'width:>4000 taken:2024 camera:sony'

            Only what has changed is read, in processes that can reach nothing but the file at hand. A file that ends such a
            process twice is not tried again until it changes. A location added with `kith add --content` is read by itself.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The locations, by name, path or number; all when there are none.") var locations: [String] = []

    func run() async throws {
        let (globals, library, locations) = (globals, library.name, locations)
        try await whileFollowingJobs(globals) {
            try await withClient(globals) { client in
                let all = try await client.call(Locations.List.self, .init(library: library)).locations
                let chosen = try locations.isEmpty ? all : locations.map { try chosenLocation($0, among: all) }
                if chosen.isEmpty { note("The library is empty. `kith add FOLDER` adds what is in a folder.") }
                var failed: KithError?
                for location in chosen {
                    do {
                        let job = try await followJob(
                            try await client.call(Media.Extract.self, .init(library: library, id: location.id)), client,
                            globals)
                        if globals.json {
                            printLine(try jsonText(job))
                            continue
                        }
                        let files = job.progress.completed
                        printLine("\(printable(location.name)): \(grouped(files)) file\(files == 1 ? "" : "s") read.")
                    } catch let error as KithError {
                        // The others are as good as they were.
                        report(error, json: globals.json)
                        failed = error
                    }
                }
                if let failed { throw ExitCode(failed.code.exitStatus) }
            }
        }
    }
}
