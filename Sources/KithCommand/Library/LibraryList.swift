import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith library list`.
struct LibraryListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the libraries, each with its locations.",
        discussion: helpText(
            """
              kith library list
              kith library list --device laptop --json

            With --device, those that the device shows to whoever holds its grant `library`.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "List those of this device.") var device: String?

    /// A library with what is in it.
    private struct Listed: Encodable {
        var library: Library.Summary
        var locations: [Library.Location]?

        private enum CodingKeys: String, CodingKey { case locations }

        func encode(to encoder: any Encoder) throws {
            try library.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(locations, forKey: .locations)
        }
    }

    func run() async throws {
        try await withClient(globals) { client in
            let libraries = try await client.call(
                Libraries.List.self, .init(includeStats: true), on: device
            ).libraries
            var listed: [Listed] = []
            for library in libraries {
                let locations =
                    library.state == .open
                    ? try await client.call(Locations.List.self, .init(library: library.id), on: device).locations : nil
                listed.append(Listed(library: library, locations: locations))
            }
            if globals.json { return printLine(try jsonText(listed)) }
            show(listed)
            guard device == nil else { return }
            for one in listed where one.locations?.contains(where: { $0.problem != nil }) == true {
                try await noteMoved(in: one.library.isDefault ? nil : one.library.name, client)
            }
        }
    }

    private func show(_ listed: [Listed]) {
        // One is nobody's choice: what is in it is what is asked for.
        let isSingle = listed.count == 1 && listed[0].library.state == .open && !listed[0].library.isUnconfirmed
        if listed.isEmpty || (isSingle && listed[0].locations?.isEmpty == true) {
            return note(
                device.map { "The library of \(printable($0)) is empty." }
                    ?? "The library is empty. `kith add FOLDER` adds what is in a folder.")
        }
        for (index, one) in listed.enumerated() {
            if !isSingle {
                if index > 0 { printLine() }
                printLine(heading(one.library))
            }
            if let locations = one.locations, !locations.isEmpty {
                printLine(LibraryLocationsCommand.table(of: locations))
                LibraryLocationsCommand.noteProblems(of: locations)
            }
            if let problem = one.library.problem { note("\(printable(one.library.name)): \(printable(problem))") }
        }
    }

    private func heading(_ library: Library.Summary) -> String {
        var facts: [String] = []
        if library.isDefault { facts.append("default") }
        facts += libraryState(library)
        if let numbers = library.statistics {
            facts.append(Wording.count(Int(clamping: numbers.files), "file", "files"))
            facts.append(Wording.size(numbers.bytes))
        }
        return "\(styled(printable(library.name), .bold))  \(facts.joined(separator: ", "))"
    }
}

/// The words for the state of a library; none for one that is open like any other.
func libraryState(_ library: Library.Summary) -> [String] {
    let state: [String] =
        switch library.state {
        case .open: []
        case .closed: ["closed"]
        case .offline: [styled("its disk is away", .yellow)]
        case .failed: [styled("cannot be opened", .red)]
        }
    return state + (library.isUnconfirmed ? [styled("not confirmed yet: kith library rescan", .yellow)] : [])
}

/// `kith library info`.
struct LibraryInfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info", abstract: "Describe a library, with what is in it in numbers.",
        discussion: helpText(
            """
              kith library info
              kith library info --library Photos
              kith library info --device laptop
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "Describe one of this device.") var device: String?

    func run() async throws {
        try await withClient(globals) { client in
            let info = try await client.call(
                Libraries.Info.self, .init(library: library.name(on: device)), on: device)
            if globals.json { return printLine(try jsonText(info)) }
            var rows = [["Name", printable(info.name)], ["Id", info.id]]
            let state = (info.isDefault ? ["default"] : []) + (info.state == .open ? ["open"] : []) + libraryState(info)
            rows.append(["State", state.joined(separator: ", ")])
            rows.append(["Made", relative(info.created)])
            if let path = info.path { rows.append(["Folder", printable(path.description)]) }
            if let numbers = info.statistics {
                rows.append(["Files", "\(grouped(numbers.files)), \(Wording.size(numbers.bytes))"])
                rows.append(["Folders", grouped(numbers.folders)])
                if numbers.others > 0 { rows.append(["Others", grouped(numbers.others)]) }
                rows.append(["Locations", grouped(numbers.locations)])
                rows.append(["Tags", grouped(numbers.tags)])
                rows.append(["Scanned", numbers.scanned.map { relative($0) } ?? "never"])
                rows.append(["Index", Wording.size(numbers.indexBytes)])
            }
            let width = rows.map { $0[0].count }.max() ?? 0
            for row in rows {
                printLine(styled(row[0] + String(repeating: " ", count: width - row[0].count), .dim) + "  " + row[1])
            }
            if let categories = info.statistics?.categories, !categories.isEmpty {
                printLine()
                printLine(
                    table(
                        ["KIND", "FILES", "SIZE"],
                        categories.map {
                            [
                                printable($0.name.isEmpty ? "other" : $0.name), grouped($0.files),
                                Wording.size($0.bytes),
                            ]
                        }))
            }
            if let problem = info.problem { note(printable(problem)) }
        }
    }
}

/// `kith library ls`.
struct LibraryLsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls", abstract: "List a folder as the library has it, also while its disk is away.",
        discussion: helpText(
            """
              kith library ls
              kith library ls Pictures/2024
              kith library ls -l Pictures --device laptop

            A folder is named by its location and its path there. Without one the locations are listed.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "List what is on this device.") var device: String?
    @Flag(name: [.short, .long], help: "Print kind, size, time and tags, too.") var long = false
    @Argument(help: "The location, by name, path or number, and a path in it.") var folder: String?

    func run() async throws {
        try await withClient(globals) { client in
            let name = library.name(on: device)
            let locations = try await client.call(Locations.List.self, .init(library: name), on: device).locations
            guard let folder else {
                if globals.json { return printLine(try jsonText(locations)) }
                if locations.isEmpty { note("There are no locations.") }
                for location in locations { printLine(printable(location.name) + "/") }
                return
            }
            let (location, path) = try Self.place(folder, among: locations)
            var (entries, after) = ([Library.Entry](), Files.Path?.none)
            while true {
                let page = try await client.call(
                    Locations.Browse.self, .init(id: location.id, path: path, after: after, library: name), on: device)
                if globals.json {
                    entries += page.entries
                } else {
                    for entry in page.entries { printLine(Self.line(entry, long)) }
                }
                guard page.hasMore, let last = page.entries.last else { break }
                after = Files.Path(bytes: lastName(of: last.path))
            }
            if globals.json { printLine(try jsonText(entries)) }
        }
    }

    private static func line(_ entry: Library.Entry, _ isLong: Bool) -> String {
        let name = Files.Path(bytes: lastName(of: entry.path))
        return SearchCommand.line(entry, shown: name, isLong: isLong)
    }

    /// The location that a person means, and the path in it.
    static func place(
        _ folder: String, among all: [Library.Location]
    ) throws -> (location: Library.Location, path: Files.Path) {
        // A whole path lies in one location at most.
        if folder.hasPrefix("/") {
            let found = all.first { folder == $0.path.description || folder.hasPrefix($0.path.description + "/") }
            if let found {
                let rest = folder.dropFirst(found.path.description.count).drop { $0 == "/" }
                return (found, Files.Path(String(rest)))
            }
        }
        // The longest name: one may have slashes in it.
        let named = all.filter { folder == $0.name || folder.hasPrefix($0.name + "/") }
            .max { $0.name.count < $1.name.count }
        if let named, all.count(where: { $0.name == named.name }) == 1 {
            return (named, Files.Path(String(folder.dropFirst(named.name.count).drop { $0 == "/" })))
        }
        let first = String(folder.prefix { $0 != "/" })
        let location = try chosenLocation(first, among: all)
        return (location, Files.Path(String(folder.dropFirst(first.count).drop { $0 == "/" })))
    }
}

/// The name at the end of a path.
func lastName(of path: Files.Path) -> [UInt8] {
    path.bytes.lastIndex(of: UInt8(ascii: "/")).map { Array(path.bytes[($0 + 1)...]) } ?? path.bytes
}
