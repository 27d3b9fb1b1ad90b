import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith inbox accept`.
struct InboxAccept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept", abstract: "Accept an offer, and wait until all of it has arrived.",
        discussion: helpText(
            """
              kith inbox accept k7m3
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: ArgumentHelp("The folder to put it in.", valueName: "dir")) var to: String?
    @Flag(help: "Do not wait until it has arrived.") var noWait = false
    @Argument(help: "The offer, or the beginning of its name.") var id: String

    func run() async throws {
        let folder = try to.map { String(decoding: try RemotePath(local: $0).location().path.bytes, as: UTF8.self) }
        var line = DeliveryLine(isShown: !globals.json)
        let entry = try await withClient(globals) { client in
            var entry = try await client.call(
                Inbox.Decide.self, Inbox.Decide.Input(id: id, accepts: true, folder: folder))
            while !noWait, entry.state == .accepted || entry.state == .receiving {
                try await Task.sleep(for: .milliseconds(100))
                let entries = try await client.call(Inbox.List.self, Nothing())
                guard let now = entries.last(where: { $0.id == entry.id }) else { break }
                entry = now
                line.show(DeliveryLine.progress(entry.received, of: entry.bytes))
            }
            return entry
        }
        line.clear()
        if globals.json { printLine(try jsonText(entry)) }
        switch entry.state {
        case .arrived where !globals.json: printLine("Arrived: \(InboxList.summary(entry))")
        case .failed:
            throw entry.failure?.error ?? KithError(.closed, "What was accepted did not arrive.")
        case .withdrawn: throw KithError(.closed, "\(printable(entry.device)) went away before anything was sent.")
        default: break
        }
    }
}

extension RemotePath {
    /// A path of this device, whatever colons it has.
    init(local path: String) {
        self.init("/")
        self.path = (path as NSString).expandingTildeInPath
    }
}
