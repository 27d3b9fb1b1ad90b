import ArgumentParser
import KithAPI
import KithCommandLine
import KithIndex
import KithWire

/// `kith library set`.
struct LibrarySetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Change a location, or what new locations of a library are like.",
        discussion: helpText(
            """
              kith library set archive --name old
              kith library set ~/src --exclude target/ --exclude '*.o'
              kith library set ~/src --usual           leave out what is usual again
              kith library set ~/Pictures --mode content
              kith library set --mode content          what is added from now on
              kith library set --library Work --name 'Old work'

            With a location, that one is changed and scanned again; its files keep their tags and notes. Without one,
            the library: its name, and what `kith add` does where it is told nothing else.

            Modes: shallow (the names in the folder itself), recursive (all beneath it), content (and what is in the
            files: duplicates are known, words in documents are found).
            """))

    /// The modes, as people spell them.
    enum ModeArgument: String, ExpressibleByArgument, CaseIterable {
        case shallow, recursive, content

        var mode: Library.Mode {
            switch self {
            case .shallow: .shallow
            case .recursive: .recursive
            case .content: .content
            }
        }
    }

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "Its name from now on.") var name: String?
    @Option(help: "How much is in the library: shallow, recursive or content.") var mode: ModeArgument?
    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "Leave out what this matches, too, as in a .gitignore file; may be repeated.", valueName: "pattern"))
    var exclude: [String] = []
    @Flag(help: "Leave nothing out but what --exclude names.") var everything = false
    @Flag(help: "Leave out what is usual, and what --exclude names.") var usual = false
    @Argument(help: "The location, by name, path or number; without one, the library.") var location: String?

    func validate() throws {
        guard !(everything && usual) else { throw ValidationError("--everything does not go with --usual.") }
        guard name != nil || mode != nil || changesRules else {
            throw ValidationError("Say what is to change: --name, --mode, --exclude, --everything or --usual.")
        }
    }

    private var changesRules: Bool { everything || usual || !exclude.isEmpty }

    func run() async throws {
        try await withClient(globals) { client in
            if let location { try await change(location, client) } else { try await changeLibrary(client) }
        }
    }

    private func change(_ word: String, _ client: Client) async throws {
        let before = try await client.chosenLocation(word, in: library.name)
        let changed = try await client.call(
            Locations.Change.self,
            .init(id: before.id, name: name, mode: mode?.mode, rules: rules(before.rules), library: library.name))
        if changed.isScanning {
            let progress = try await followScan(of: changed, in: library.name, client, globals)
            if !globals.json { printLine(scanText(progress, of: changed, isNew: false)) }
        } else if !globals.json {
            note("\(printable(changed.name)) is changed.")
        }
        guard globals.json else { return }
        printLine(try jsonText(try await client.chosenLocation(String(changed.id), in: library.name)))
    }

    private func changeLibrary(_ client: Client) async throws {
        var summary = try await client.call(Libraries.Info.self, .init(library: library.name))
        if let name { summary = try await client.call(Libraries.Rename.self, .init(library: summary.id, name: name)) }
        if mode != nil || changesRules {
            summary = try await client.call(
                Libraries.Configure.self,
                .init(
                    library: summary.id, mode: mode?.mode,
                    rules: rules(
                        summary.rules ?? Library.Rules(patterns: LocationRules.usualPatterns, followsIgnoreFiles: true))
                ))
        }
        if globals.json { return printLine(try jsonText(summary)) }
        var lines = [
            "\(printable(summary.name)): what is added from now on is \((summary.mode ?? .recursive).rawValue)"
        ]
        if let rules = summary.rules {
            let patterns = rules.patterns.filter { !LocationRules.usualPatterns.contains($0) }.map { printable($0) }
            if !patterns.isEmpty { lines.append("without \(patterns.joined(separator: ", "))") }
            if !rules.followsIgnoreFiles { lines.append("with what .gitignore files name") }
        }
        note(lines.joined(separator: ", ") + ".")
    }

    /// The rules from now on; `nil`: as before.
    private func rules(_ before: Library.Rules) -> Library.Rules? {
        guard changesRules else { return nil }
        if everything { return Library.Rules(patterns: exclude, followsIgnoreFiles: false) }
        if usual { return Library.Rules(patterns: LocationRules.usualPatterns + exclude, followsIgnoreFiles: true) }
        let added = exclude.filter { !before.patterns.contains($0) }
        return Library.Rules(patterns: before.patterns + added, followsIgnoreFiles: before.followsIgnoreFiles)
    }
}

extension Client {
    /// The location that a word names.
    ///
    /// - Throws: `.notFound`, `.conflict` when it names several.
    func chosenLocation(_ word: String, in library: String?) async throws -> Library.Location {
        let all = try await call(Locations.List.self, .init(library: library)).locations
        return try KithCommand.chosenLocation(word, among: all)
    }
}
