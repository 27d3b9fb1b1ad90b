import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith library problems`.
struct LibraryProblemsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "problems", abstract: "List the folders that could not be read.",
        discussion: helpText(
            """
              kith library problems
              kith library problems archive --device laptop

            What was known of such a folder can still be searched. `kith library rescan` tries them again.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "Of the library of this device.") var device: String?
    @Argument(help: "The location, by name, path or number; all when there is none.") var location: String?

    func run() async throws {
        try await withClient(globals) { client in
            var id: Int64?
            if let location {
                let all = try await client.call(
                    Locations.List.self, .init(library: library.name(on: device)), on: device
                ).locations
                id = try chosenLocation(location, among: all).id
            }
            var (after, problems, isEmpty) = (Int64?.none, [Locations.Problems.Problem](), true)
            repeat {
                let page = try await client.call(
                    Locations.Problems.self,
                    .init(id: id, after: after, limit: 500, library: library.name(on: device)), on: device)
                after = page.next
                isEmpty = isEmpty && page.problems.isEmpty
                guard !globals.json else {
                    problems += page.problems
                    continue
                }
                for problem in page.problems {
                    printLine("\(printable(problem.path.description))/: \(printable(problem.reason))")
                }
            } while after != nil
            if globals.json { return printLine(try jsonText(problems)) }
            if isEmpty { note("Every folder could be read.") }
        }
    }
}
