import ArgumentParser
import KithAPI
import KithCommandLine

/// `kith api methods`.
struct APIMethods: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "methods", abstract: "List the methods: name, kind, who may call it.",
        discussion: helpText(
            """
              kith api methods
              kith api methods files                   those that begin so
            """))

    private struct Line: Encodable {
        var name: String
        var kind: MethodKind
        var access: String
        var idempotent: Bool
        var summary: String
    }

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "Only those whose names begin so.")
    var prefix = ""

    func run() async throws {
        let methods = try await APICommand.document(globals).methods.filter { $0.name.hasPrefix(prefix) }
        if globals.json {
            return printLine(
                try jsonText(
                    methods.map {
                        Line(
                            name: $0.name, kind: $0.kind, access: $0.access, idempotent: $0.isIdempotent,
                            summary: $0.summary)
                    }))
        }
        if methods.isEmpty { return note("No method begins with \(printable(prefix)).") }
        printLine(
            table(
                ["NAME", "KIND", "ACCESS", "SUMMARY"],
                methods.map { [printable($0.name), $0.kind.rawValue, printable($0.access), printable($0.summary)] }))
    }
}
