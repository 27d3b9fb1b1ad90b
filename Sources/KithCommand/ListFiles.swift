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
struct ListFiles: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls",
        abstract: "List folders on devices.",
        discussion: helpText(
            """
              kith ls laptop:/srv
              kith ls -lh laptop:           with mode, size and time, of the home folder there
              kith ls -lt laptop:/srv laptop:/var/log

            On a terminal names stand in columns, else one in a line. -h is for sizes here, as in ls: help is --help.
            """), helpNames: .long)

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Show mode, size and time.") var long = false
    @Flag(name: [.short, .customShort("A"), .long], help: "Show names that begin with a dot too.") var all = false
    @Flag(name: [.short, .long], help: "With -l: print sizes as 1.5K, 20M, 3.0G.") var humanReadable = false
    @Flag(name: .customShort("t"), help: "The newest first.") var byTime = false
    @Flag(name: .customShort("S"), help: "The largest first.") var bySize = false
    @Flag(name: [.short, .long], help: "The other way round.") var reverse = false
    @Flag(name: [.customShort("R"), .long], help: "List the folders in it, too, at all depths.") var recursive = false
    @Flag(name: [.short, .long], help: "List a folder itself, not what is in it.") var directory = false
    @Flag(name: .customShort("1"), help: "One name in a line, also on a terminal.") var oneInALine = false
    @Argument(help: "The folders or files: DEVICE:PATH.") var paths: [RemotePath]

    /// What `--json` prints of several folders: one of these for each.
    private struct Listing: Encodable {
        var path: Files.Path
        var entries: [Files.Entry]
    }

    func run() async throws {
        var listings: [Listing] = []
        try await withClient(globals) { client in
            try await forEach(paths, globals) { path in
                let (device, folder) = try path.remote()
                // Folders that are still to be listed, the next one last.
                var left = [folder]
                while let folder = left.popLast() {
                    let entries = try await entries(of: folder, on: device, client)
                    if globals.json {
                        listings.append(Listing(path: folder, entries: entries))
                    } else {
                        if paths.count > 1 && !directory || recursive { heading(device, folder) }
                        show(entries)
                    }
                    guard recursive, !directory else { continue }
                    left += entries.filter { $0.kind == .folder }.reversed().map { Self.joined(folder, $0.name) }
                }
            }
        }
        guard globals.json else { return }
        say(try paths.count == 1 && !recursive ? jsonText(listings.first?.entries ?? []) : jsonText(listings))
    }

    /// What is in a folder, a file alone, or with `-d` the folder itself; sorted, without what is not wanted.
    private func entries(of path: Files.Path, on device: String, _ client: Client) async throws -> [Files.Entry] {
        if directory {
            return [try await client.call(Files.Stat.self, Files.Stat.Input(path: path), on: device)]
        }
        var entries: [Files.Entry] = []
        var hasMore = true
        while hasMore {
            let page = try await client.call(
                Files.List.self, Files.List.Input(path: path, after: entries.last?.name), on: device)
            entries += page.entries
            hasMore = page.hasMore && !page.entries.isEmpty
        }
        return sorted(entries.filter { all || globals.json || !$0.name.bytes.starts(with: [UInt8(ascii: ".")]) })
    }

    /// Names come in the order of their bytes, and keep it where time and size are the same.
    private func sorted(_ entries: [Files.Entry]) -> [Files.Entry] {
        var entries = entries
        if byTime {
            entries.sort { ($0.modified, $0.modifiedNanoseconds) > ($1.modified, $1.modifiedNanoseconds) }
        } else if bySize {
            entries.sort { $0.size > $1.size }
        }
        return reverse ? entries.reversed() : entries
    }

    private static func joined(_ folder: Files.Path, _ name: Files.Path) -> Files.Path {
        let slash = folder.bytes.isEmpty || folder.bytes.last == UInt8(ascii: "/") ? [] : [UInt8(ascii: "/")]
        return Files.Path(bytes: folder.bytes + slash + name.bytes)
    }

    // MARK: - Showing

    private func heading(_ device: String, _ folder: Files.Path) {
        say("\(styled(printable("\(device):\(folder)"), .bold)):")
    }

    private func show(_ entries: [Files.Entry]) {
        if long {
            for entry in entries { say(Self.line(entry, isHuman: humanReadable)) }
        } else if oneInALine || isatty(STDOUT_FILENO) == 0 {
            for entry in entries { say(Self.name(entry)) }
        } else {
            for line in Self.columns(entries.map { printable($0.name.description) + ($0.kind == .folder ? "/" : "") }) {
                say(line)
            }
        }
        if paths.count > 1 && !directory || recursive { say() }
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

    static func line(_ entry: Files.Entry, isHuman: Bool = false) -> String {
        let size = isHuman ? UsageCommand.humanSize(entry.size) : String(entry.size)
        let padding = String(repeating: " ", count: max(0, (isHuman ? 5 : 13) - size.count))
        let target = entry.target.map { " -> " + printable($0.description) } ?? ""
        return "\(modeText(entry)) \(padding)\(size)  \(timeText(entry.modified))  \(name(entry))\(target)"
    }

    private static func name(_ entry: Files.Entry) -> String {
        let name = printable(entry.name.description)
        return entry.kind == .folder ? styled(name, .bold) + "/" : name
    }

    /// `drwxr-xr-x`.
    static func modeText(_ entry: Files.Entry) -> String {
        let kind = [Files.Kind.file: "-", .folder: "d", .link: "l", .special: "?"][entry.kind] ?? "?"
        return kind
            + (0..<9).map { bit in
                entry.mode & (0o400 >> UInt32(bit)) == 0 ? "-" : ["r", "w", "x"][bit % 3]
            }.joined()
    }

    static func timeText(_ seconds: Int64) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.dateFormat = "yyyy-MM-dd HH:mm"
        return formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
    }
}

/// How many columns the terminal behind a descriptor has; 80 when nobody says.
func terminalColumns(_ descriptor: Int32) -> Int {
    var size = winsize()
    guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
}
