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
              kith search in:. --facets

            Finds by name in what `kith add` has added, while its disk is away, too. What fits best comes first. Another
            device answers with the grant `library`, and lets its files be copied with `library:read`: nothing that is
            there already is overwritten, and what has changed since it was scanned is not copied. Each line is a path
            with what a terminal might obey made visible; -0 prints the exact bytes. in:. and other relative folders with
            a dot are those of this shell.

            What is in files is found once it was read: is:duplicate after `kith library identify` or `kith
            find-duplicates`; content:, width:, taken: and the like after `kith library extract`. With content: a passage is
            shown, with what was found in [brackets] or in bold.

            """ + SearchQuery.help))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(name: [.customShort("n"), .long], help: "Find at most so many, 1 or more.") var limit = 50
    @Flag(name: .long, help: "Find all, however many.") var all = false
    @Flag(name: [.short, .long], help: "Print kind, size, time and tags, too.") var long = false
    @Flag(name: [.customShort("0"), .long], help: "Print a NUL behind each path, and the exact bytes.") var print0 =
        false
    @Flag(name: .long, help: "Print only how many there are.") var count = false
    @Flag(name: .long, help: "Print how many there are of each kind, extension, location, tag, year and size.")
    var facets = false
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
        guard !facets || !(all || count || print0 || follow || long) else {
            throw ValidationError("--facets goes with none of --all, --count, --long, --follow and -0.")
        }
    }

    func run() async throws {
        let typed = words.joined(separator: " ")
        let offset = TimeZone.current.secondsFromGMT()
        let library = library.name(on: device)
        var query: SearchQuery
        // What is wrong with it is said here, whatever the other end says.
        do throws(QueryError) {
            query = try SearchQuery(typed, now: Int64(Date().timeIntervalSince1970), offsetFromUTC: offset)
        } catch {
            let fault = KithError(.invalid, error.message)
            report(fault, json: globals.json)
            if !globals.json { note(error.shown(in: typed)) }
            throw ExitCode(fault.code.exitStatus)
        }
        for unknown in SearchQuery.unknownFilters(in: typed) {
            let meant = unknown.nearest.map { "did you mean \($0):?" } ?? "`kith search --help` lists them."
            note("There is no filter \(printable(unknown.name)):, so that is searched as text; \(meant)")
        }
        // Only where a folder has to be named anew: dates stay as they are written.
        let before = query.condition
        query.condition = try query.condition.mappingFolders(resolved)
        let text = query.condition == before ? typed : query.description
        try await withClient(globals) { client in
            if follow { return try await followed(text, offset, in: library, client) }
            if facets { return try await showFacets(text, offset, in: library, client) }
            if count {
                let total =
                    try await client.call(
                        Search.Find.self,
                        .init(query: text, limit: 1, offsetFromUTC: offset, library: library, countsAll: true),
                        on: device
                    ).total ?? 0
                return printLine(globals.json ? try jsonText(["count": total]) : String(total))
            }
            var (after, found, isFirst) = (Search.Cursor?.none, 0, true)
            var entries: [Library.Entry] = []
            while isFirst || after != nil, all || found < limit {
                let page = try await client.call(
                    Search.Find.self,
                    .init(
                        query: text, limit: all ? 1_000 : min(limit - found, 1_000), after: after,
                        offsetFromUTC: offset, library: library), on: device)
                found += page.entries.count
                (after, isFirst) = (page.entries.isEmpty ? nil : page.next, false)
                if globals.json || copy != nil { entries += page.entries } else { try show(page.entries) }
            }
            if let copy, found > 0 {
                if after != nil, !all { note("There are more: --limit N copies N, --all copies all.") }
                var job = SearchCopy(to: copy, client, on: device, library: library, globals)
                return try await job.run(entries)
            }
            if globals.json { printLine(try jsonText(entries)) }
            if found == 0 { try await explainNothing(in: library, client) }
            if after != nil, !globals.json, !all { note("There are more: --limit N shows N, --all shows all.") }
        }
    }

    /// The whole path of a folder in a query that begins with a dot or `~`; others stand for themselves.
    private func resolved(_ folder: String) throws -> String {
        let first = folder.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).first ?? ""
        guard [".", "..", "~"].contains(first) else { return folder }
        if let device {
            throw KithError(
                .invalid, "in:\(folder) is a folder of this shell, not of \(device). Name the whole path of one there.")
        }
        guard let path = realPath(Array((folder as NSString).expandingTildeInPath.utf8)) else {
            throw KithError(.notFound, "in:\(folder): \(unsafe String(cString: strerror(errno))).")
        }
        guard let text = String(validating: path, as: UTF8.self) else {
            throw KithError(.unsupported, "in:\(folder): the path of that folder is not UTF-8.")
        }
        return text
    }

    private func showFacets(_ text: String, _ offset: Int, in library: String?, _ client: Client) async throws {
        let facets = try await client.call(
            Search.Facets.self, .init(query: text, offsetFromUTC: offset, library: library), on: device)
        if globals.json { printLine(try jsonText(facets)) }
        if facets.total == 0 { try await explainNothing(in: library, client) }
        if globals.json { return }
        printLine("\(counted(facets.total, "name")), \(Wording.size(facets.bytes))")
        for (title, counts) in [
            ("KIND", facets.kinds), ("EXTENSION", facets.extensions), ("LOCATION", facets.locations),
            ("TAG", facets.tags), ("YEAR", facets.years), ("SIZE", facets.sizes),
        ] where !counts.isEmpty {
            printLine()
            printLine(table([title, "NAMES"], counts.map { [printable($0.value), grouped($0.count)] }))
        }
        if facets.isCut { note("There are more than were counted: all numbers are too small.") }
    }

    /// Says why nothing may have been found.
    private func explainNothing(in library: String?, _ client: Client) async throws {
        guard !globals.json else { throw ExitCode(KithError.Code.notFound.exitStatus) }
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
        for entry in entries {
            printLine(line(entry))
            guard let snippet = entry.snippet else { continue }
            printLine("    " + snippet.map { $0.isHit ? marked(printable($0.text)) : printable($0.text) }.joined())
        }
    }

    /// What was asked for, within a passage.
    private func marked(_ text: String) -> String {
        wantsColour(STDOUT_FILENO) ? styled(text, .bold) : "[\(text)]"
    }

    private func line(_ entry: Library.Entry) -> String { Self.line(entry, shown: entry.path, isLong: long) }

    /// The line of an entry, under its path or what is shown of it.
    static func line(_ entry: Library.Entry, shown: Files.Path, isLong: Bool) -> String {
        let path = printable(shown.description) + (entry.kind == .folder ? "/" : "")
        guard isLong else { return path }
        let kind = entry.category ?? (entry.kind == .special ? "other" : entry.kind.rawValue)
        let noted =
            (entry.isFavorite == true ? " \u{2665}" : "")
            + (entry.rating.map { " " + String(repeating: "\u{2605}", count: max(0, min($0, 5))) } ?? "")
        let size = entry.kind == .file ? DuCommand.humanSize(entry.size) : "-"
        let tags = entry.tags.isEmpty ? "" : "  [\(entry.tags.map(printable).joined(separator: ", "))]"
        return
            "\(padded(kind, to: 10)) \(padded(size, to: 7, isRight: true))  \(LongListing.time(entry.modified))  \(path)\(noted)\(tags)"
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

extension Condition {
    /// The condition with the folders in it named by `name`.
    fileprivate func mappingFolders(_ name: (String) throws -> String) rethrows -> Condition {
        switch self {
        case .term(.inFolder(let folder)): .term(.inFolder(try name(folder)))
        case .all(let conditions): .all(try conditions.map { try $0.mappingFolders(name) })
        case .any(let conditions): .any(try conditions.map { try $0.mappingFolders(name) })
        case .not(let condition): .not(try condition.mappingFolders(name))
        case .everything, .term: self
        }
    }
}
