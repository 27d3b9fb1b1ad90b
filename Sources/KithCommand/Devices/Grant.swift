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
              kith grant laptop --add shell --for 8h     taken away again after that

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

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "Take what is added away again after this time, as in 30m, 8h or 7d. Without it, it lasts.",
            valueName: "time"))
    var duration: Lifetime?

    func validate() throws {
        guard duration != nil, add.isEmpty else { return }
        throw ValidationError("--for says how long what is added lasts: add something.")
    }

    func run() async throws {
        let until = duration.map { Int64(Date().timeIntervalSince1970) + $0.seconds }
        let info = try await withClient(globals) { client in
            let info = try await client.call(
                Devices.ChangeGrants.self,
                Devices.ChangeGrants.Input(device: device, add: add, remove: remove, until: until))
            let ending = Set((info.grantEnds ?? []).map(\.grant))
            guard until == nil || ending.isSuperset(of: add) else {
                // What was meant for a time must not stay.
                _ = try await client.call(
                    Devices.ChangeGrants.self, Devices.ChangeGrants.Input(device: device, add: [], remove: add))
                throw KithError(
                    .unsupported,
                    "This device runs an older kith, whose grants have no end. Nothing was given. "
                        + "Restart it: `kith down`, `kith up`.")
            }
            return info
        }
        if globals.json {
            printLine(try jsonText(info))
        } else {
            let grants = info.grantTexts.joined(separator: ", ")
            printLine("\(info.whole) may: \(grants.isEmpty ? "nothing" : grants)")
            noteWarnings(info.warnings)
        }
    }
}

extension Devices.Info {
    /// Its grants here, each with its end, if it has one.
    var grantTexts: [String] {
        grants.map { grant in
            let end = grantEnds?.first { $0.grant == grant }
            return printable(grant.description) + (end.map { " (until \(LongListing.time($0.time)))" } ?? "")
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
