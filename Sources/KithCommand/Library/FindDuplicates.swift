import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith find-duplicates`.
struct FindDuplicatesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find-duplicates",
        abstract: "Find files of the library with the same content. Nothing is deleted.",
        discussion: helpText(
            """
              kith find-duplicates
              kith find-duplicates ~/Pictures /mnt/archive --min-size 1M
              kith find-duplicates --verify
              kith find-duplicates --of ~/Pictures/berlin.jpg     where else it is

            Files that have their size in common are read, and told as the same when their SHA-256 is; what was read once is
            not read again as long as it has not changed. --verify compares them byte by byte now, too: do so before you
            delete one. Several names of one file (hard links) are one file, and told on one line.

            --of asks whether a file could be deleted: it says how many copies there are elsewhere, compared byte by byte
            now, and on how many volumes. The status is 3 when there is none.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(name: .customLong("min-size"), help: "Only files of so many bytes; with k, M, G behind.")
    var minimumSize = CountArgument(1)
    @Flag(help: "Compare the files byte by byte.") var verify = false
    @Option(help: "Only the copies of this file, compared byte by byte.", completion: .file()) var of: String?
    @Option(name: [.customShort("n"), .long], help: "Show at most so many groups, 1 to 10,000.") var limit = 10_000
    @Argument(help: "The folders; else all of the library.", completion: .directory) var folders: [String] = []

    func validate() throws {
        guard (1...10_000).contains(limit) else { throw ValidationError("--limit takes 1 to 10,000.") }
        guard folders.count <= 100 else { throw ValidationError("At most 100 folders at a time.") }
        guard of == nil || folders.isEmpty else { throw ValidationError("--of goes with no folder.") }
        guard minimumSize.sign == nil else { throw ValidationError("--min-size takes a size without a sign.") }
    }

    /// What is printed as JSON.
    private struct Found: Encodable {
        var groups: [Duplicates.Group]
        var totals: Duplicates.Find.Totals
    }

    func run() async throws {
        var input = Duplicates.Find.Input(
            library: library.name, minimumSize: minimumSize.number, isCompared: verify || of != nil, limit: limit)
        if !folders.isEmpty { input.folders = try folderPaths(folders) }
        if let of {
            input.of = try wholePaths([of])[0]
            input.minimumSize = nil
        }
        let (request, globals, of) = (input, globals, of)
        try await whileFollowingJobs(globals) { try await Self.find(request, of, globals) }
    }

    private static func find(
        _ input: Duplicates.Find.Input, _ of: String?, _ globals: GlobalOptions
    ) async throws {
        try await withClient(globals) { client in
            var line = StatusLine(isShown: !globals.json, isPlain: isPlainTerminal)
            defer { line.clear() }
            let start = ContinuousClock.now
            var (found, totals) = ([Duplicates.Group](), Duplicates.Find.Totals(groups: 0, files: 0, waste: 0))
            let stream = try await client.open(Duplicates.Find.self, input).stream
            for try await finding in stream.messages {
                if start.duration(to: .now) > .milliseconds(500) {
                    if let job = finding.job {
                        line.show(JobText.line(job, width: terminalColumns(STDERR_FILENO)))
                    } else if let bytes = finding.compared {
                        line.show("Comparing: \(Wording.size(bytes))")
                    }
                }
                if let group = finding.group {
                    if globals.json || of != nil {
                        found.append(group)
                    } else {
                        line.clear()
                        show(group)
                    }
                }
                if let all = finding.totals { totals = all }
            }
            line.clear()
            if globals.json {
                printLine(try jsonText(Found(groups: found, totals: totals)))
            } else if let of, let path = input.of {
                show(found.first, of: of, path)
            } else {
                try await summarize(totals, input, client)
            }
            if of != nil, found.isEmpty { throw ExitCode(KithError.Code.notFound.exitStatus) }
        }
    }

    private static func show(_ group: Duplicates.Group) {
        printLine(
            "\(grouped(group.count)) files of \(Wording.size(group.size)), \(Wording.size(group.waste)) could be saved\(group.isCompared ? ", equal byte by byte" : ""):"
        )
        for copy in group.copies { printLine("  " + name(copy)) }
        let names = group.copies.count
        if names < group.count { printLine("  … and \(grouped(group.count - names)) more") }
        printLine()
    }

    /// The names of a file; those after the first are links to the same bytes.
    private static func name(_ copy: Duplicates.Copy) -> String {
        let names = copy.paths.map { printable($0.description) }
        return (names.first ?? "") + (copy.isOffline ? "  (away)" : "")
            + names.dropFirst().map { "  = \($0)" }.joined()
    }

    private static func show(_ group: Duplicates.Group?, of file: String, _ path: Files.Path) {
        let shown = printable(file)
        guard let group else {
            return note("There is no other copy of \(shown) in the library that could be read: keep it.")
        }
        let others = group.copies.filter { !$0.paths.contains(path) }
        let own = group.copies.first { $0.paths.contains(path) }
        let volumes = Set(others.map(\.volume)).subtracting(own.map { [$0.volume] } ?? []).count
        printLine(
            "\(shown): \(Wording.count(others.count, "other copy", "other copies")), compared byte by byte just now; \(volumes == 0 ? "all on the same volume" : "on \(Wording.count(volumes, "other volume", "other volumes"))")."
        )
        for copy in others { printLine("  " + name(copy)) }
        if let own, own.paths.count > 1 {
            note("It has \(own.paths.count) names: its bytes stay until the last of them is deleted.")
        }
    }

    private static func summarize(
        _ totals: Duplicates.Find.Totals, _ input: Duplicates.Find.Input, _ client: Client
    ) async throws {
        guard totals.groups > 0 else {
            let isEmpty = try await client.call(Locations.List.self, .init(library: input.library)).locations.isEmpty
            return note(
                isEmpty
                    ? "The library is empty. `kith add FOLDER` adds what is in a folder."
                    : (input.folders ?? []).isEmpty && input.minimumSize ?? 1 <= 1
                        ? "No two files of the library have the same content."
                        : "No two files of that size, in those folders, have the same content.")
        }
        printLine(
            "\(grouped(totals.groups)) group\(totals.groups == 1 ? "" : "s"), \(grouped(totals.files)) file\(totals.files == 1 ? "" : "s") more than needed: \(Wording.size(totals.waste)) could be saved."
        )
        if input.isCompared != true { note("--verify compares them byte by byte: do so before you delete any.") }
    }
}
