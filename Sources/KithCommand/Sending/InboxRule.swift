public import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

extension Inbox.Rule.Action: ExpressibleByArgument {}

/// `kith inbox rule`.
struct InboxRule: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rule",
        abstract: "Set what happens to the offers of a device without asking.",
        discussion: helpText(
            """
              kith inbox rule laptop                          which rule holds
              kith inbox rule laptop accept --to ~/Downloads --max 1G
              kith inbox rule laptop reject
              kith inbox rule laptop ask                      as without a rule
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: ArgumentHelp("The folder to put things in.", valueName: "dir")) var to: String?
    @Option(help: ArgumentHelp("Ask all the same when it is more than this: 500M, 1G.", valueName: "size"))
    var max: CountArgument?
    @Argument(help: ArgumentHelp("The device.", valueName: "device")) var device: String
    @Argument(help: "accept, ask or reject.") var action: Inbox.Rule.Action?

    func validate() throws {
        guard action == .accept || (to == nil && max == nil) else {
            throw ValidationError("--to and --max go with accept.")
        }
        guard max?.sign == nil else { throw ValidationError("--max takes a size without a sign.") }
    }

    func run() async throws {
        let folder = try to.map { String(decoding: try RemotePath(local: $0).location().path.bytes, as: UTF8.self) }
        let rule = action.map { Inbox.Rule(action: $0, folder: folder, maximum: max?.number) }
        let now = try await withClient(globals) {
            try await $0.call(Inbox.SetRule.self, Inbox.SetRule.Input(device: device, rule: rule))
        }
        if globals.json { return printLine(try jsonText(now)) }
        var text = "\(printable(device)): \(now.action.rawValue)"
        if let folder = now.folder { text += ", into \(printable(folder))" }
        if let maximum = now.maximum { text += ", up to \(ProgressLine.size(maximum))" }
        printLine(text)
    }
}
