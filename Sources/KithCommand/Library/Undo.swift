import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith undo`.
struct UndoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Take back an operation on files of this device.",
        discussion: helpText(
            """
              kith undo              the latest that can be taken back
              kith undo --list       what was done
              kith undo 3f2a9c       one of those
              kith undo --plan       shows what would be done

            Copies go into the trash, what was moved or renamed goes back, what is in the trash is put back. Whatever has
            changed since is left alone, and said. The last 1,000 operations of 90 days are kept.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: OperationOptions
    @Flag(help: "List the operations.") var list = false
    @Argument(help: "The operation, or the beginning of its name.") var operation: String?

    func run() async throws {
        try await withClient(globals, creating: true) { client in
            if list { return try await showOperations(client) }
            var id: String?
            if let operation {
                let found = try await client.call(Operations.List.self, .init(limit: 1_000)).operations.filter {
                    $0.id.hasPrefix(operation.lowercased())
                }
                guard let one = found.first else {
                    throw KithError(
                        .notFound, "There is no operation \(printable(operation)). `kith undo --list` lists them.")
                }
                guard found.count == 1 else {
                    throw KithError(.conflict, "\(found.count) operations begin with \(printable(operation)).")
                }
                id = one.id
            }
            let plan = try await client.call(
                Operations.Undo.self, .init(operation: id, conflicts: options.conflicts.choice))
            try await OperationFlow(options: options, globals: globals, asksAlways: true).run(plan, client)
        }
    }

    private func showOperations(_ client: Client) async throws {
        let operations = try await client.call(Operations.List.self, .init(limit: 100)).operations
        if globals.json { return printLine(try jsonText(operations)) }
        guard !operations.isEmpty else { return note("Nothing was done by `kith organize` or `kith trash` yet.") }
        printLine(
            table(
                ["ID", "WHEN", "WHAT", "DONE", "LEFT OUT", "STATE", "FIRST"],
                operations.map { operation in
                    [
                        String(operation.id.prefix(8)), relative(operation.confirmed), operation.kind.rawValue,
                        grouped(operation.done), grouped(operation.skipped + operation.failed), Self.state(operation),
                        operation.first.map { printable($0.description) } ?? "",
                    ]
                }))
    }

    private static func state(_ operation: Operations.Entry) -> String {
        if operation.ended == nil { return styled("goes on", .yellow) }
        if operation.undoneBy != nil { return "taken back" }
        return operation.isUndoable ? "can be undone" : "stays"
    }
}
