import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// The commands for files.
let fileCommands: [any ParsableCommand.Type] = [
    CopyCommand.self, SyncCommand.self, ListFiles.self, StatFile.self, ReadFile.self, MakeFolder.self, MoveFile.self,
    RemoveFile.self,
]

/// A path on a device, as typed: `laptop:/srv/photos`.
///
/// What has a slash before its first colon, or no colon, is a path on this device: `./a:b` is a file.
struct RemotePath: Hashable {
    /// The device; `nil`: this one.
    var device: String?
    /// The path.
    var path: String

    init(_ text: String) {
        let head = text.prefix { $0 != "/" && $0 != ":" }
        if !head.isEmpty, text.dropFirst(head.count).first == ":" {
            device = String(head)
            path = String(text.dropFirst(head.count + 1))
            // `laptop:` alone is the home folder there, as with scp.
            if path.isEmpty { path = "~" }
        } else {
            device = nil
            path = text
        }
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
        discussion: """
              kith ls laptop:/srv
              kith ls -l laptop:            with mode, size and time, of the home folder there
            """)

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

/// `kith stat`.
struct StatFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stat", abstract: "Describe a file or folder on a device.")

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.customShort("L"), .long], help: "Describe what a link leads to.") var dereference = false
    @Argument(help: "The file: DEVICE:PATH.") var path: RemotePath

    func run() async throws {
        let (device, file) = try path.remote()
        let entry = try await withClient(globals) {
            try await $0.call(Files.Stat.self, Files.Stat.Input(path: file, followsLinks: dereference), on: device)
        }
        say(globals.json ? try jsonText(entry) : ListFiles.line(entry))
    }
}

/// `kith cat`.
struct ReadFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cat", abstract: "Print a file, or a part of it, from a device.")

    @OptionGroup var globals: GlobalOptions
    @Option(help: "The first byte.") var offset: UInt64 = 0
    @Option(help: "How many bytes; default: to the end.") var length: UInt64?
    @Argument(help: "The file: DEVICE:PATH.") var path: RemotePath

    func run() async throws {
        let (device, file) = try path.remote()
        try await withClient(globals) { client in
            let stream = try await client.open(
                Files.Read.self, Files.Read.Input(path: file, offset: offset, length: length), on: device
            ).stream
            try await stream.finish()
            while let bytes = try await stream.read(upTo: 256 << 10) {
                try FileHandle.standardOutput.write(contentsOf: Data(bytes))
            }
        }
    }
}

/// `kith mkdir`.
struct MakeFolder: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "mkdir", abstract: "Make a folder on a device.")

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Make missing folders above it too; one that is there is no error.")
    var parents = false
    @Argument(help: "The folders: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        let targets = try paths.map { try $0.remote() }
        try await withClient(globals) { client in
            for (device, path) in targets {
                _ = try await client.call(
                    Files.MakeFolder.self, Files.MakeFolder.Input(path: path, parents: parents), on: device)
            }
        }
    }
}

/// `kith mv`.
struct MoveFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mv",
        abstract: "Rename or move a file or folder on a device.",
        discussion: """
              kith mv laptop:/srv/a.txt laptop:/srv/b.txt
              kith mv laptop:/srv/a.txt laptop:/srv/old/      into a folder
            """)

    @OptionGroup var globals: GlobalOptions
    @Flag(name: .shortAndLong, help: "Replace a file of that name.") var force = false
    @Argument(help: "What to rename: DEVICE:PATH.") var source: RemotePath
    @Argument(help: "Its new path on the same device.") var destination: RemotePath

    func run() async throws {
        let ((device, from), (other, to)) = (try source.remote(), try destination.remote())
        guard device == other else {
            throw KithError(.invalid, "mv works on one device. Use `kith cp`, then `kith rm`.")
        }
        try await withClient(globals) { client in
            var target = to
            let there = try await client.call(Files.Exists.self, Files.Exists.Input(path: to), on: device)
            if there.kind == .folder {
                let name = from.bytes.split(separator: UInt8(ascii: "/")).last.map { [UInt8]($0) } ?? []
                target.bytes += (target.bytes.last == UInt8(ascii: "/") ? [] : [UInt8(ascii: "/")]) + name
            }
            _ = try await client.call(
                Files.Rename.self, Files.Rename.Input(from: from, to: target, overwrite: force), on: device)
        }
    }
}

/// `kith rm`.
struct RemoveFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm", abstract: "Delete files and folders on a device. Nothing is kept.")

    @OptionGroup var globals: GlobalOptions
    @Flag(name: [.short, .long], help: "Delete folders with what is in them.") var recursive = false
    @Argument(help: "What to delete: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        let targets = try paths.map { try $0.remote() }
        try await withClient(globals) { client in
            for (device, path) in targets {
                _ = try await client.call(
                    Files.Delete.self, Files.Delete.Input(path: path, recursive: recursive), on: device)
            }
        }
    }
}
