import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// The commands for files.
let fileCommands: [any ParsableCommand.Type] =
    [
        CopyCommand.self, SyncCommand.self, BrowseCommand.self, ListFiles.self, StatFile.self, ReadFile.self,
        HeadCommand.self,
        TailCommand.self, FindCommand.self, UsageCommand.self, EditCommand.self, MakeFolder.self, MoveFile.self,
        RemoveFile.self,
    ] + sendingCommands

/// A path on a device, as typed: `laptop:/srv/photos`.
///
/// What has a slash before its first colon, or no colon, is a path on this device: `./a:b` is a file.
struct RemotePath: Hashable {
    /// The device; `nil`: this one.
    var device: String?
    /// The path.
    var path: String

    init(_ text: String) {
        let location = Files.Location(typed: text)
        (device, path) = (location.device, location.path.description)
    }

    /// The same for a method.
    ///
    /// - Throws: `.notFound` when the folder of a local path is not there.
    func location() throws -> Files.Location {
        Files.Location(device: device, path: Files.Path(device == nil ? try absolute() : path))
    }

    /// A local path from the top: the device's process works in another folder.
    private func absolute() throws -> String {
        guard !path.isEmpty else { throw KithError(.invalid, "A path is empty.") }
        let full = path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
        var names = full.split(separator: "/").map(String.init)
        guard names.contains("..") || names.contains(".") else { return full }
        // Only the system knows what `..` is behind a link.
        let last = names.last == ".." || names.last == "." ? nil : names.popLast()
        let folder = "/" + names.joined(separator: "/")
        guard let resolved = unsafe realpath(folder, nil) else {
            throw KithError(.notFound, "Cannot find the folder \(folder): no such folder.")
        }
        defer { unsafe free(resolved) }
        let base = unsafe String(cString: resolved)
        let isFolder = last == nil || full.hasSuffix("/")
        return (base == "/" ? "" : base) + (last.map { "/" + $0 } ?? "") + (isFolder ? "/" : "")
    }

    /// The one thing on a device that a command is about.
    func remote() throws -> (device: String, path: Files.Path) {
        guard let device else {
            throw KithError(.invalid, "\(path) is on this device; name another one: DEVICE:\(path)")
        }
        return (device, Files.Path(path))
    }
}

extension RemotePath: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }

    static var defaultCompletionKind: CompletionKind { .shellCommand(CommandDescription.Argument.remotePaths) }
}

/// `kith ls`.
struct ListFiles: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls",
        abstract: "List a folder on a device.",
        discussion: helpText(
            """
              kith ls laptop:/srv
              kith ls -l laptop:            with mode, size and time, of the home folder there
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Show mode, size and time.") var long = false
    @Flag(name: .shortAndLong, help: "Show names that begin with a dot too.") var all = false
    @Argument(help: "The folder: DEVICE:PATH.") var path: RemotePath

    func run() async throws {
        let (device, folder) = try path.remote()
        let entries = try await withClient(globals) { client in
            var entries: [Files.Entry] = []
            while true {
                let page = try await client.call(
                    Files.List.self, Files.List.Input(path: folder, after: entries.last?.name), on: device)
                entries += page.entries
                guard page.hasMore, !page.entries.isEmpty else { return entries }
            }
        }.filter { all || globals.json || !$0.name.bytes.starts(with: [UInt8(ascii: ".")]) }
        if globals.json { return say(try jsonText(entries)) }
        for entry in entries { say(long ? Self.line(entry) : Self.name(entry)) }
    }

    static func line(_ entry: Files.Entry) -> String {
        let size = String(entry.size)
        let padding = String(repeating: " ", count: max(0, 13 - size.count))
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
