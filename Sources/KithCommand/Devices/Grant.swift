public import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire
internal import KithIdentity

/// `kith grant`.
struct GrantCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant",
        abstract: "Change what a paired device may do here.",
        discussion: helpText(
            """
            What runs and loses its grant is cut off at once.

              kith grant laptop --add shell
              kith grant laptop --add files:write=/srv --remove shell

            \(grantsHelp)
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Option(
        help: ArgumentHelp(
            "Give a grant (repeatable).",
            valueName: "grant"), completion: Grant.defaultCompletionKind, transform: Grant.reading)
    var add: [Grant] = []

    @Option(
        help: ArgumentHelp("Take a grant away (repeatable).", valueName: "grant"),
        completion: Grant.defaultCompletionKind, transform: Grant.reading)
    var remove: [Grant] = []

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(
                Devices.ChangeGrants.self, Devices.ChangeGrants.Input(device: device, add: add, remove: remove))
        }
        if globals.json {
            printLine(try jsonText(info))
        } else {
            let grants = info.grants.map(\.description).joined(separator: ", ")
            printLine("\(info.whole) may: \(grants.isEmpty ? "nothing" : grants)")
            noteWarnings(info.warnings)
        }
    }
}

extension Grant: ExpressibleByArgument {
    static let defaultCompletionKind = CompletionKind.list([
        "shell", "shell:view", "shell:agent", "shell:command=", "files:read=/", "files:write=/", "forward",
        "forward:to=",
        "forward:listen=", "library", "library:read",
    ])

    /// Reads an argument; the error names what would be right.
    static func reading(_ argument: String) throws -> Grant {
        do throws(KithError) {
            return try Grant(parsing: argument)
        } catch {
            throw ValidationError(error.message)
        }
    }
}
