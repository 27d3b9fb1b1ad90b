import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity

/// `kith audit`.
struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Show what was changed here, what other devices did, and what they were refused.",
        discussion: helpText(
            """
              kith audit                        the last fifty entries
              kith audit --limit 500 --json
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(name: .shortAndLong, help: "How many entries, newest first, 1 to 10,000.")
    var limit = 50

    func validate() throws {
        guard (1...10_000).contains(limit) else { throw ValidationError("--limit takes 1 to 10,000.") }
    }

    func run() async throws {
        let entries = try await withClient(globals) {
            try await $0.call(Audit.List.self, Audit.List.Input(limit: limit))
        }
        if globals.json {
            printLine(try jsonText(entries))
            return
        }
        printLine(
            table(
                ["WHEN", "DEVICE", "WHAT", "DECISION", "DETAIL"],
                entries.map { entry in
                    [
                        relative(entry.time), Self.callerName(entry), printable(entry.method), entry.decision,
                        printable(entry.detail),
                    ]
                }))
    }

    /// The device's name; how its DeviceID begins when it has none.
    private static func callerName(_ entry: Audit.Entry) -> String {
        DeviceID(entry.device)?.short ?? printable(entry.device)
    }
}
