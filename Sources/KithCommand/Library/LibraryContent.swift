import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith library identify`.
struct LibraryIdentifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identify", abstract: "Hash the files that were not read yet, so that duplicates are found.",
        discussion: helpText(
            """
              kith library identify
              kith library identify archive --whole

            Each file is known by its SHA-256 from then on, one of more than 1 MiB by that of a sample first; --whole reads
            those whole. A location added with `kith add --content` is read by itself.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Flag(help: "Read large files whole, not a sample of them.") var whole = false
    @Argument(help: "The locations, by name, path or number; all when there are none.") var locations: [String] = []

    func run() async throws {
        let (globals, library, locations, whole) = (globals, library.name, locations, whole)
        try await whileFollowingJobs(globals) {
            try await readLocations(locations, in: library, globals) { client, location in
                try await client.call(Locations.Identify.self, .init(library: library, id: location.id, isWhole: whole))
            }
        }
    }
}

/// `kith library verify`.
struct LibraryVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Read files again, and say which are not what they were.",
        discussion: helpText(
            """
              kith library verify
              kith library verify archive

            It reads what `kith library identify` has read before. A file with other bytes, and the size and the times it had,
            is damaged: nobody wrote to it. The status is 12 when there is one. Files that are gone are named, too.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Argument(help: "The locations, by name, path or number; all when there are none.") var locations: [String] = []

    func run() async throws {
        let (globals, library, locations) = (globals, library.name, locations)
        try await whileFollowingJobs(globals) {
            try await readLocations(locations, in: library, globals) { client, location in
                try await client.call(Locations.Verify.self, .init(library: library, id: location.id))
            }
        }
    }
}

/// Has the files of locations read by jobs, one after the other, and says what came of it.
private func readLocations(
    _ names: [String], in library: String?, _ globals: GlobalOptions,
    _ add: (Client, Library.Location) async throws -> Jobs.Job
) async throws {
    try await withClient(globals) { client in
        let all = try await client.call(Locations.List.self, .init(library: library)).locations
        let chosen = try names.isEmpty ? all : names.map { try chosenLocation($0, among: all) }
        if chosen.isEmpty { note("The library is empty. `kith add FOLDER` adds what is in a folder.") }
        var failed: KithError?
        for location in chosen {
            do {
                let isDamaged = try await readLocation(location, client, globals) { try await add(client, location) }
                if isDamaged { failed = failed ?? KithError(.corrupt, "") }
            } catch let error as KithError {
                // The others are as good as they were.
                report(error, json: globals.json)
                failed = error
            }
        }
        if let failed { throw ExitCode(failed.code.exitStatus) }
    }
}

/// Has the files of a location read by a job, and says what came of it.
///
/// - Returns: true when a file is damaged.
@discardableResult
func readLocation(
    _ location: Library.Location, _ client: Client, _ globals: GlobalOptions, isQuiet: Bool = false,
    _ add: () async throws -> Jobs.Job
) async throws -> Bool {
    let job = try await followJob(try await add(), client, globals)
    let found = try await client.call(Locations.Report.self, .init(id: job.id))
    if isQuiet { return found.damaged > 0 }
    if globals.json {
        printLine(try jsonText(found))
        return found.damaged > 0
    }
    var parts = ["\(grouped(found.files)) file\(found.files == 1 ? "" : "s") read, \(Wording.size(found.bytes))"]
    if found.changed > 0 { parts.append("\(grouped(found.changed)) changed since the last scan") }
    if found.gone > 0 { parts.append("\(grouped(found.gone)) gone") }
    if found.unreadable > 0 { parts.append("\(grouped(found.unreadable)) could not be read") }
    if found.damaged > 0 { parts.append(styled("\(grouped(found.damaged)) damaged", .red)) }
    printLine("\(printable(location.name)): \(parts.joined(separator: "; ")).")
    for problem in found.problems {
        let reason = problem.reason.map { ": \(printable($0))" } ?? ""
        printLine("  \(problem.kind)  \(printable(problem.path.description))\(reason)")
    }
    return found.damaged > 0
}
