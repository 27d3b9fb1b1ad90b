import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith undo`.
struct UndoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Take back what was done to files of this device, or noted of them.",
        discussion: helpText(
            """
              kith undo              the latest that can be taken back
              kith undo --list       what was done
              kith undo 3f2a9c       one of those
              kith undo --plan       shows what would be done

            Copies go into the trash, what was moved or renamed goes back, what is in the trash is put back. Tags, notes,
            stars and marks become what they were; a deleted tag comes back with its files. Whatever has changed since is
            left alone, and said. The last 1,000 operations of 90 days are kept, and as many changes of each library.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Flag(help: "List what was done.") var list = false
    @Argument(help: "What to take back: the beginning of its id, as --list shows it.") var operation: String?

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            if list { return try show(try await UndoEntry.all(client)) }
            switch try await chosen(client) {
            case .operation(let entry):
                let plan = try await client.call(
                    Operations.Undo.self, .init(operation: entry.id, conflicts: options.conflicts.choice))
                try await OperationFlow(options: options, globals: globals, asksAlways: true).run(plan, client)
            case .edit(let edit, let library): try await takeBack(edit, in: library, client)
            }
        }
    }

    private func chosen(_ client: Client) async throws -> UndoEntry {
        let all = try await UndoEntry.all(client)
        guard let operation else {
            guard let latest = all.first(where: { $0.isUndoable && !$0.isUndo }) else {
                throw KithError(.notFound, "There is nothing that could be taken back. `kith undo --list` says why.")
            }
            return latest
        }
        let found = all.filter { $0.id.hasPrefix(operation.lowercased()) }
        guard let one = found.first else {
            throw KithError(
                .notFound, "There is no operation \(printable(operation)). `kith undo --list` lists them.")
        }
        guard found.count == 1 else {
            throw KithError(.conflict, "\(found.count) operations begin with \(printable(operation)). Type more of it.")
        }
        return one
    }

    private func takeBack(_ edit: Annotations.Edit, in library: String, _ client: Client) async throws {
        let words = UndoEntry.words(edit)
        if edit.undoneBy != nil { throw KithError(.conflict, "That was taken back already: \(words).") }
        if options.plan {
            if globals.json { return printLine(try jsonText(edit)) }
            return note("It would take back: \(words). Nothing was changed.")
        }
        if !options.yes {
            guard try confirm("Take back: \(words)?", orPass: "-y") else { return note("Nothing was changed.") }
        }
        let undone = try await client.call(Annotations.Undo.self, .init(id: edit.id, library: library))
        if globals.json { return printLine(try jsonText(undone)) }
        let left =
            undone.skipped > 0
            ? " \(counted(undone.skipped, "file")) changed since, or gone: left alone." : ""
        note("Taken back: \(words).\(left)")
    }

    private func show(_ entries: [UndoEntry]) throws {
        if globals.json { return printLine(try jsonText(entries)) }
        guard !entries.isEmpty else {
            return note("Nothing was done yet that could be taken back: `kith organize`, `kith trash`, `kith tags`, …")
        }
        printLine(
            table(
                ["ID", "WHEN", "WHAT", "STATE", "FIRST"],
                entries.prefix(100).map { entry in
                    [
                        String(entry.id.prefix(8)), relative(entry.time), entry.what, entry.state,
                        entry.first.map { printable($0.description) } ?? "",
                    ]
                }))
    }
}

/// Something that was done, and may be taken back.
enum UndoEntry: Encodable {
    case operation(Operations.Entry)
    /// A change of tags or notes, and the id of its library.
    case edit(Annotations.Edit, library: String)

    /// All that is kept, the latest first.
    static func all(_ client: Client) async throws -> [UndoEntry] {
        var entries = try await client.call(Operations.List.self, .init(limit: 1_000)).operations.map {
            UndoEntry.operation($0)
        }
        for library in try await client.call(Libraries.List.self, .init()).libraries where library.state == .open {
            let history = try await client.call(
                Annotations.History.self, .init(limit: 1_000, library: library.id))
            entries += history.edits.map { .edit($0, library: library.id) }
        }
        // In each of them the later comes first, also of those of one second.
        return entries.enumerated().sorted { ($1.element.time, $0.offset) < ($0.element.time, $1.offset) }.map(
            \.element)
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .operation(let entry): try entry.encode(to: encoder)
        case .edit(let edit, let library):
            try edit.encode(to: encoder)
            var container = encoder.container(keyedBy: LibraryKey.self)
            try container.encode(library, forKey: .library)
        }
    }

    private enum LibraryKey: String, CodingKey { case library }

    var id: String {
        switch self {
        case .operation(let entry): entry.id
        case .edit(let edit, _): edit.id
        }
    }

    var time: Int64 {
        switch self {
        case .operation(let entry): entry.confirmed
        case .edit(let edit, _): edit.made
        }
    }

    var first: Files.Path? {
        switch self {
        case .operation(let entry): entry.first
        case .edit(let edit, _): edit.first
        }
    }

    var isUndo: Bool {
        switch self {
        case .operation(let entry): entry.kind == .undo
        case .edit(let edit, _): edit.kind == .undo
        }
    }

    var isUndoable: Bool {
        switch self {
        case .operation(let entry): entry.isUndoable
        case .edit(let edit, _): edit.undoneBy == nil
        }
    }

    var state: String {
        switch self {
        case .operation(let entry) where entry.ended == nil: styled("goes on", .yellow)
        case .operation(let entry) where entry.undoneBy != nil: "taken back"
        case .edit(let edit, _) where edit.undoneBy != nil: "taken back"
        default: isUndoable ? "can be undone" : "stays"
        }
    }

    /// What was done, and to how much.
    var what: String {
        switch self {
        case .operation(let entry):
            let left = entry.skipped + entry.failed
            return "\(entry.kind.rawValue) \(grouped(entry.done))" + (left > 0 ? ", \(grouped(left)) left out" : "")
        case .edit(let edit, _): return Self.words(edit)
        }
    }

    /// A change of tags or notes in words: `tags work of 3 files`.
    static func words(_ edit: Annotations.Edit) -> String {
        let tags = edit.tags.map { printable($0) }.joined(separator: ", ")
        let files = counted(edit.files, "file")
        switch edit.kind {
        case .tags: return "tags \(tags) of \(files)"
        case .deletedTag: return "deletion of the tag \(tags), of \(files)"
        case .undo: return "an undo, of \(files)"
        default:
            let names = ["rating": "stars", "favorite": "mark", "note": "note"]
            return "\(edit.fields.map { names[$0] ?? $0 }.joined(separator: ", ")) of \(files)"
        }
    }
}
