import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith inbox reject`.
struct InboxReject: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reject", abstract: "Reject an offer.",
        discussion: helpText(
            """
              kith inbox reject k7m3
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The offer, or the beginning of its name.") var id: String

    func run() async throws {
        let entry = try await withClient(globals) {
            try await $0.call(Inbox.Decide.self, Inbox.Decide.Input(id: id, accepts: false))
        }
        if globals.json { printLine(try jsonText(entry)) }
    }
}
