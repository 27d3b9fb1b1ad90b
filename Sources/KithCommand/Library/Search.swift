import ArgumentParser
import Foundation
import KithAPI
import KithCatalog
import KithCommandLine
import KithWire

/// `kith search`.
struct SearchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "search",
        abstract: "Find files in the library of this device, or of another one.",
        discussion: helpText(
            """
              kith search holiday berlin
              kith search 'kind:image size:>5M modified:2024' --long
              kith search ext:pdf invoice --device laptop
              kith search -0 ext:tmp | xargs -0 rm
              kith search 'modified:today' --follow
              kith search ext:pdf --library Work
              kith search holiday --device laptop --copy ~/Pictures

            Finds by name in what `kith add` has added, while its disk is away, too. What fits best comes first. Another
            device answers with the grant `library`, and lets its files be copied with `library:read`: nothing that is
            there already is overwritten, and what has changed since it was scanned is not copied. Each line is a path with what a terminal might obey made visible; -0
            prints the exact bytes.

            Of the language below, the library does not know created:, note:, rating:, content: and is:favorite yet: a
            query with one of them is refused. is:duplicate finds what was read (`kith library identify`,
            `kith find-duplicates`), of large files those that were read whole.

            """ + SearchQuery.help))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(name: [.customShort("n"), .long], help: "Find at most so many, 1 or more.") var limit = 50
    @Flag(name: .long, help: "Find all, however many.") var all = false
    @Flag(name: [.short, .long], help: "Print kind, size, time and tags, too.") var long = false
    @Flag(name: [.customShort("0"), .long], help: "Print a NUL behind each path, and the exact bytes.") var print0 =
        false
    @Flag(name: .long, help: "Print only how many there are.") var count = false
    @Flag(name: [.short, .long], help: "Go on: + before what comes, - before what goes; of at most 1,000.")
    var follow = false
    @Option(name: .long, help: "Search on this device.") var device: String?
    @Option(
        name: .long, help: ArgumentHelp("Copy what is found into this folder of this machine.", valueName: "folder"),
        completion: .directory)
    var copy: String?
    @Argument(help: "The query; its words may be arguments of their own.") var words: [String] = []

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit must be 1 or more.") }
        guard !follow || !(all || count || print0) else {
            throw ValidationError("--follow goes with neither --all, --count nor -0.")
        }
        guard copy == nil || !(follow || count || print0 || long) else {
            throw ValidationError("--copy goes with neither --follow, --count, --long nor -0.")
        }
    }

    func run() async throws {
        let text = words.joined(separator: " ")
        let offset = TimeZone.current.secondsFromGMT()
        let library = library.name(on: device)
        let query: SearchQuery
        // What is wrong with it is said here, whatever the other end says.
        do throws(QueryError) {
            query = try SearchQuery(text, now: Int64(Date().timeIntervalSince1970), offsetFromUTC: offset)
        } catch {
            let fault = KithError(.invalid, error.message)
            report(fault, json: globals.json)
            if !globals.json { note(error.shown(in: text)) }
            throw ExitCode(fault.code.exitStatus)
        }
        try await withClient(globals) { client in
            if follow { return try await followed(text, offset, in: library, client) }
            if count {
                // Behind the last one there is nothing to be shown; and what has an order need not be ranked.
                let ordered = query.sort.isEmpty ? "\(text) sort:size" : text
                let total =
                    try await client.call(
                        Search.Find.self,
                        .init(query: ordered, limit: 1, after: 10_000_000, offsetFromUTC: offset, library: library),
                        on: device
                    ).total ?? 0
                return printLine(globals.json ? try jsonText(["count": total]) : String(total))
            }
            var (after, found) = (Optional(0), 0)
            var entries: [Library.Entry] = []
            while let start = after, all || found < limit {
                let page = try await client.call(
                    Search.Find.self,
                    .init(
                        query: text, limit: all ? 1_000 : min(limit - found, 1_000), after: start,
                        offsetFromUTC: offset, library: library), on: device)
                found += page.entries.count
                after = page.entries.isEmpty ? nil : page.next
                if globals.json || copy != nil { entries += page.entries } else { try show(page.entries) }
            }
            if let copy, found > 0 {
                if after != nil, !all { note("There are more: --limit N copies N, --all copies all.") }
                var job = SearchCopy(to: copy, client, on: device, library: library, globals)
                return try await job.run(entries)
            }
            if globals.json { return printLine(try jsonText(entries)) }
            if found == 0 { try await explainNothing(in: library, client) }
            if after != nil, found > 0, !all { note("There are more: --limit N shows N, --all shows all.") }
        }
    }

    /// Says why nothing may have been found.
    private func explainNothing(in library: String?, _ client: Client) async throws {
        let locations = try await client.call(
            Locations.List.self, .init(library: library), on: device
        ).locations
        let place = device.map { "The library of \(printable($0))" } ?? "The library"
        if locations.isEmpty {
            note("\(place) is empty\(device == nil ? ": `kith add FOLDER` adds what is in a folder" : "").")
        } else if let location = locations.first(where: \.isScanning) {
            note("Nothing was found yet: \(printable(location.name)) is being scanned.")
        } else {
            note("Nothing was found in \(locations.count == 1 ? "1 location" : "\(locations.count) locations").")
        }
        throw ExitCode(KithError.Code.notFound.exitStatus)
    }

    private func show(_ entries: [Library.Entry]) throws {
        if print0 { return try writeOutput(Data(entries.flatMap { $0.path.bytes + [0] })) }
        for entry in entries { printLine(line(entry)) }
    }

    private func line(_ entry: Library.Entry) -> String { Self.line(entry, shown: entry.path, isLong: long) }

    /// The line of an entry, under its path or what is shown of it.
    static func line(_ entry: Library.Entry, shown: Files.Path, isLong: Bool) -> String {
        let path = printable(shown.description) + (entry.kind == .folder ? "/" : "")
        guard isLong else { return path }
        let kind = entry.category ?? entry.kind.rawValue
        let size = entry.kind == .file ? DuCommand.humanSize(entry.size) : "-"
        let tags = entry.tags.isEmpty ? "" : "  [\(entry.tags.map(printable).joined(separator: ", "))]"
        return
            "\(padded(kind, to: 10)) \(padded(size, to: 7, isRight: true))  \(LongListing.time(entry.modified))  \(path)\(tags)"
    }

    private static func padded(_ text: String, to width: Int, isRight: Bool = false) -> String {
        let blanks = String(repeating: " ", count: max(0, width - text.count))
        return isRight ? blanks + text : text + blanks
    }

    private func followed(_ text: String, _ offset: Int, in library: String?, _ client: Client) async throws {
        var known: [Int64: Library.Entry] = [:]
        let stream = try await client.open(
            Search.Follow.self,
            .init(query: text, limit: 1_000, offsetFromUTC: offset, library: library), on: device
        ).stream
        for try await difference in stream.messages {
            if globals.json {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
                printLine(String(decoding: try encoder.encode(difference), as: UTF8.self))
                continue
            }
            for id in difference.gone {
                if let entry = known.removeValue(forKey: id) { printLine("- " + line(entry)) }
            }
            for entry in difference.found {
                if let before = known.updateValue(entry, forKey: entry.id), line(before) != line(entry) {
                    printLine("- " + line(before))
                } else if known[entry.id] != nil, difference.found.isEmpty {
                    continue
                }
                printLine("+ " + line(entry))
            }
        }
    }
}
