import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIndex
import KithWire

/// `kith add`.
struct AddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add folders to this device's library, so that `kith search` finds what is in them.",
        discussion: helpText(
            """
              kith add ~/Pictures
              kith add ~/src --exclude target/ --exclude '*.o'
              kith add /mnt/archive --name archive --everything
              kith add ~/Documents --content
              kith add ~/work --library Work

            What is found can be searched while the scan goes on; interrupted, it goes on where this device is up. While
            it is up, changes are noticed as they happen. A disk that is not there is remembered: what is on it can be
            searched all the same. Nothing in the folder is ever changed.

            Left out are what systems leave about (.DS_Store, Thumbs.db, …), what version control keeps for itself, and
            what .gitignore files name. `kith library` lists what was added.

            With --content the files are read, too, and each new one as it comes: duplicates are known then at once, and
            words in documents are found. With --shallow only the names in the folder itself are added.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "Call the location this; else it has the name of the folder.") var name: String?
    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "Leave out what this matches, as in a .gitignore file; may be repeated.", valueName: "pattern"))
    var exclude: [String] = []
    @Flag(help: "Leave nothing out but what --exclude names.") var everything = false
    @Flag(help: "Read the content of the files, too, for duplicates.") var content = false
    @Flag(help: "Add the names in the folder itself only.") var shallow = false
    @Argument(help: "The folders.", completion: .directory) var folders: [String]

    func validate() throws {
        guard !folders.isEmpty else { throw ValidationError("Which folder?") }
        guard name == nil || folders.count == 1 else { throw ValidationError("--name goes with one folder.") }
        guard !(content && shallow) else { throw ValidationError("--content does not go with --shallow.") }
    }

    func run() async throws {
        let rules: Library.Rules? =
            everything || !exclude.isEmpty
            ? Library.Rules(
                patterns: (everything ? [] : LocationRules.usualPatterns) + exclude, followsIgnoreFiles: !everything)
            : nil
        guard content else { return try await add(rules) }
        // It reads by a job, which goes on when it is interrupted.
        let command = self
        try await whileFollowingJobs(globals) { try await command.add(rules) }
    }

    private func add(_ rules: Library.Rules?) async throws {
        try await withClient(globals, creating: true) { client in
            var lines: [Library.Location] = []
            var failed: KithError?
            for folder in ExactArguments.bytes(of: folders) {
                do {
                    lines.append(try await added(folder, rules, client))
                } catch let error as KithError where folders.count > 1 && error.code != .cancelled {
                    // The others are as good as they were.
                    report(error, json: globals.json)
                    failed = failed ?? error
                }
            }
            if globals.json { printLine(try jsonText(lines)) }
            if let failed { throw ExitCode(failed.code.exitStatus) }
        }
    }

    /// Adds one folder, and follows its scan to the end.
    private func added(_ folder: [UInt8], _ rules: Library.Rules?, _ client: Client) async throws -> Library.Location {
        guard let path = realPath(folder) else {
            let number = errno
            throw KithError(
                number == ENOENT ? .notFound : .denied,
                "\(printable(String(decoding: folder, as: UTF8.self))) cannot be added: \(unsafe String(cString: strerror(number)))."
            )
        }
        // One that is there already may not have been scanned to its end.
        let known = try await client.call(Locations.List.self, .init(library: library.name)).locations.first {
            $0.path.bytes == path && $0.scanned == nil
        }
        let location: Library.Location =
            if let known { known } else {
                try await client.call(
                    Locations.Add.self,
                    .init(
                        path: Files.Path(bytes: path), name: name, rules: rules,
                        mode: content ? .content : shallow ? .shallow : nil, library: library.name))
            }
        let progress = try await followScan(of: location, in: library.name, client, globals)
        if !globals.json { printLine(scanText(progress, of: location, isNew: true)) }
        if location.mode == .content {
            try await readLocation(location, client, globals, isQuiet: globals.json) {
                try await client.call(Locations.Identify.self, .init(library: library.name, id: location.id))
            }
            do {
                _ = try await followJob(
                    try await client.call(Media.Extract.self, .init(library: library.name, id: location.id)), client,
                    globals)
            } catch let error as KithError where error.code == .unsupported {
                // What the files are is known all the same.
                note(error.message)
            }
        }
        return try await client.call(Locations.List.self, .init(library: library.name)).locations.first {
            $0.id == location.id
        } ?? location
    }
}

/// Follows a scan to its end, with a line that says how far it is.
func followScan(
    of location: Library.Location, in library: String?, _ client: Client, _ globals: GlobalOptions
) async throws -> Library.Progress {
    var line = StatusLine(isShown: !globals.json, isPlain: isPlainTerminal)
    defer { line.clear() }
    // What takes a moment needs no line.
    let start = ContinuousClock.now
    let stream = try await client.open(Locations.Scan.self, .init(id: location.id, library: library)).stream
    for try await progress in stream.messages {
        if progress.isLast { return progress }
        guard start.duration(to: .now) > .milliseconds(500) else { continue }
        line.show(
            "Scanning \(printable(location.name)): \(grouped(progress.entries)) names in \(grouped(progress.folders)) folders"
        )
    }
    throw KithError(
        .closed, "The scan of \(printable(location.name)) was interrupted. `kith library rescan` begins it again.")
}

/// What a scan found, in a line.
func scanText(_ progress: Library.Progress, of location: Library.Location, isNew: Bool) -> String {
    let name = printable(location.name)
    let problems =
        progress.problems == 0
        ? "" : "; \(counted(progress.problems, "folder")) could not be read (`kith library problems`)"
    if isNew {
        return "\(name): \(counted(progress.entries, "name")) in \(counted(progress.folders, "folder"))\(problems)."
    }
    let changes = [
        (progress.added, "added"), (progress.changed, "changed"), (progress.moved, "moved"),
        (progress.removed, "removed"),
    ].filter { $0.0 > 0 }.map { "\(grouped($0.0)) \($0.1)" }
    return "\(name): \(changes.isEmpty ? "nothing new" : changes.joined(separator: ", "))\(problems)."
}

/// `1 name`, `2,000 names`.
func counted(_ number: some BinaryInteger, _ what: String) -> String {
    "\(grouped(number)) \(what)\(number == 1 ? "" : "s")"
}

/// A number with a comma before each three digits.
func grouped(_ number: some BinaryInteger) -> String {
    let digits = String(number)
    var text = ""
    for (index, digit) in digits.enumerated() {
        if index > 0, (digits.count - index) % 3 == 0 { text.append(",") }
        text.append(digit)
    }
    return text
}
