import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithTerminal
import KithWire

#if canImport(Glibc)
import Glibc
#endif

/// `kith ls`.
struct LsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls",
        abstract: "List folders on devices.",
        discussion: helpText(
            """
              kith ls laptop:/srv
              kith ls -lh laptop:           with mode, owner, size and time, of the home folder there
              kith ls -lt laptop:/srv laptop:/var/log
              kith ls 'laptop:*.txt'        what matches there

            On a terminal names stand in columns, folders with a slash behind; else the bare names, one in a line. -h is for sizes here, as in ls: help is --help.
            """), helpNames: .long)

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Show mode, names, owner, group, size and time.") var long = false
    @Flag(name: [.short, .customShort("A"), .long], help: "Show names that begin with a dot too.") var all = false
    @Flag(name: [.short, .long], help: "With -l: print sizes as 1.5K, 20M, 3.0G.") var humanReadable = false
    @Flag(name: .customShort("t"), help: "The newest first.") var byTime = false
    @Flag(name: .customShort("S"), help: "The largest first.") var bySize = false
    @Flag(name: [.short, .long], help: "The other way round.") var reverse = false
    @Flag(name: [.customShort("R"), .long], help: "List the folders in it, too, at all depths.") var recursive = false
    @Flag(name: [.short, .long], help: "List a folder itself, not what is in it.") var directory = false
    @Flag(name: .customShort("1"), help: "One name in a line, also on a terminal.") var oneInALine = false
    @Argument(help: "The folders or files: DEVICE:PATH.") var paths: [RemotePath]

    /// The output of `--json` for several folders: one of these for each.
    private struct Listing: Encodable {
        var path: Files.Path
        var entries: [Files.Entry]
    }

    func run() async throws {
        var listings: [Listing] = []
        var isComplete = true
        var hasSeveral = false
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            hasSeveral = list.hasSeveral
            // Folders that are to be listed; files are shown before all of them.
            var folders: [(path: RemotePath, folder: Files.Path)] = []
            var files: [Files.Entry] = []
            let hasHeadings = hasSeveral && !directory || recursive
            func show(_ folder: Files.Path, on device: String) async throws {
                // Folders that are still to be listed, the next one last.
                var left = [folder]
                while let folder = left.popLast() {
                    let entries = try await entries(of: folder, on: device, client, &isComplete)
                    if globals.json {
                        listings.append(Listing(path: folder, entries: entries))
                    } else {
                        if hasHeadings { heading(device, folder) }
                        try self.show(entries)
                        if hasHeadings { printLine() }
                    }
                    guard recursive else { continue }
                    left += entries.filter { $0.kind == .folder }.reversed().map { folder.appending($0.name.bytes) }
                }
            }
            var failure: (any Error)?
            do {
                try await list.forEach { path in
                    let (device, file) = try path.remote()
                    if !directory, try await isFolder(file, on: device, client) {
                        folders.append((path, file))
                        return
                    }
                    let entry = try await client.describe(file, on: device)
                    if globals.json {
                        listings.append(Listing(path: file, entries: [entry]))
                    } else {
                        files.append(entry)
                    }
                }
            } catch let error where error is ExitCode {
                // The others are shown all the same.
                failure = error
            }
            if !files.isEmpty {
                try self.show(sorted(files))
                if !folders.isEmpty { printLine() }
            }
            var left = PathList(folders.map(\.path), globals, isAlone: !hasSeveral)
            do {
                try await left.forEach { path in
                    let (device, folder) = try path.remote()
                    try await show(folder, on: device)
                }
            } catch let error where error is ExitCode {
                failure = failure ?? error
            }
            // What was found is said all the same.
            if globals.json, failure == nil || !listings.isEmpty {
                printLine(try !hasSeveral && !recursive ? jsonText(listings.first?.entries ?? []) : jsonText(listings))
            }
            if let failure { throw failure }
        }
        if !isComplete { throw ExitCode(KithError.Code.internal.exitStatus) }
    }

    /// Tells whether a path is a folder, or a link to one; a link to nowhere exists, too.
    private func isFolder(_ file: Files.Path, on device: String, _ client: Client) async throws -> Bool {
        do {
            return try await client.describe(file, followsLinks: true, on: device).kind == .folder
        } catch let error as KithError where error.code == .notFound && file.bytes.last != UInt8(ascii: "/") {
            return false
        }
    }

    /// More is not listed: all of it is held, to be sorted.
    private static let limit = 10_000_000

    /// The entries of a folder, sorted and filtered.
    ///
    /// The device goes through the folder once, in its own order: a page at a time, it would for each.
    private func entries(
        of path: Files.Path, on device: String, _ client: Client, _ isComplete: inout Bool
    ) async throws -> [Files.Entry] {
        let isOpen = path.bytes.last == UInt8(ascii: "/")
        let input = Files.Find.Input(
            path: isOpen ? path : Files.Path(bytes: path.bytes + [UInt8(ascii: "/")]), minimumDepth: 1,
            maximumDepth: 1, details: long || globals.json,
            namesOnly: !long && !globals.json && !byTime && !bySize)
        let check = try FoundCheck(input, from: device)
        let stream = try await client.open(Files.Find.self, input, on: device).stream
        var entries: [Files.Entry] = []
        let takesAll = all || globals.json
        do {
            for try await packed in stream.messages {
                let found = try packed.unpacked()
                try check.check(found)
                entries += takesAll ? found.entries : found.entries.filter { $0.name.bytes.first != UInt8(ascii: ".") }
                for skipped in found.skipped {
                    note(leftOut(skipped.path.description, because: skipped.failure.message, of: skipped.path))
                    isComplete = false
                }
                guard entries.count <= Self.limit else {
                    throw KithError(.exhausted, "\(path) holds more than \(Self.limit) names. Use kith find.")
                }
                if let failure = found.failure { throw failure.error }
                if found.isLast { return sorted(entries) }
            }
        } catch {
            stream.abort(.cancelled)
            throw error
        }
        throw KithError(.closed, "The listing of \(path) was cut off. Try it again.")
    }

    /// Sorts by name, in the order of the bytes, which also decides where time or size are the same.
    private func sorted(_ entries: [Files.Entry]) -> [Files.Entry] {
        let (byTime, bySize) = (byTime, bySize)
        /// A pair of numbers, the smaller the earlier in the list.
        func rank(_ entry: Files.Entry) -> (UInt64, UInt64) {
            if byTime {
                // As numbers from the earliest time on, which may be before 1970.
                let seconds = UInt64(bitPattern: entry.modified &- Int64.min)
                return (.max - seconds, .max - UInt64(entry.modifiedNanoseconds))
            }
            return (bySize ? .max - entry.size : 0, 0)
        }
        // The first eight bytes of a name tell most of them apart.
        let keys = entries.enumerated().map { index, entry in
            let name = entry.name.bytes
            let start = (0..<8).reduce(UInt64(0)) { $0 << 8 | ($1 < name.count ? UInt64(name[$1]) : 0) }
            return (rank: rank(entry), start: start, index: index)
        }
        let order = keys.sorted { left, right in
            if left.rank != right.rank { return left.rank < right.rank }
            if left.start != right.start { return left.start < right.start }
            return entries[left.index].name.bytes.lexicographicallyPrecedes(entries[right.index].name.bytes)
        }
        let inOrder = order.map { entries[$0.index] }
        return reverse ? inOrder.reversed() : inOrder
    }

    // MARK: - Showing

    private func heading(_ device: String, _ folder: Files.Path) {
        printLine("\(styled(printable("\(device):\(folder)"), .bold)):")
    }

    private func show(_ entries: [Files.Entry]) throws {
        let isTerminal = isatty(STDOUT_FILENO) == 1
        if !long, isTerminal, !oneInALine {
            for line in Self.columns(entries.map { printable($0.name.description) + ($0.kind == .folder ? "/" : "") }) {
                printLine(line)
            }
            return
        }
        let listing = long ? LongListing(entries, isHuman: humanReadable) : nil
        let isBold = wantsColour(STDOUT_FILENO)
        var output: [UInt8] = []
        func show(_ text: [UInt8], of entry: Files.Entry) {
            if let listing { listing.append(entry, name: text, to: &output) } else { output += text }
            output.append(UInt8(ascii: "\n"))
        }
        for entry in entries {
            var name = printable(entry.name.bytes)
            if isTerminal, entry.kind == .folder {
                if isBold { name = Array(styled(String(decoding: name, as: UTF8.self), .bold).utf8) }
                name.append(UInt8(ascii: "/"))
            }
            show(name, of: entry)
            if output.count > 64 << 10 {
                try writeOutput(Data(output))
                output.removeAll(keepingCapacity: true)
            }
        }
        try writeOutput(Data(output))
    }

    /// Names in as many columns as a width has room for, filled downwards, two blanks apart.
    static func columns(_ names: [String], width: Int = terminalColumns(STDOUT_FILENO)) -> [String] {
        guard !names.isEmpty else { return [] }
        let sizes = names.map { CharacterWidth.columns(of: $0) }
        func widths(_ rows: Int) -> [Int] {
            stride(from: 0, to: sizes.count, by: rows).map { sizes[$0..<min($0 + rows, sizes.count)].max() ?? 0 }
        }
        // Fewer rows than the names need side by side are not worth a look.
        var rows = max(1, sizes.reduce(0) { $0 + $1 + 2 } / (width + 2))
        while rows < names.count, widths(rows).reduce(-2, { $0 + $1 + 2 }) > width { rows += 1 }
        let columns = widths(rows)
        return (0..<rows).map { row in
            stride(from: row, to: names.count, by: rows).enumerated().map { column, index in
                let blanks = index + rows < names.count ? columns[column] + 2 - sizes[index] : 0
                return names[index] + String(repeating: " ", count: blanks)
            }.joined()
        }
    }
}
