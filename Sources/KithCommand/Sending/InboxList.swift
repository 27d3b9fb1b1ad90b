import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith inbox list`.
struct InboxList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List what is offered and what has arrived.",
        discussion: helpText(
            """
              kith inbox list
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(help: "Go on and print what comes and changes, until interrupted.") var watch = false

    func run() async throws {
        if watch { return try await follow() }
        let entries = try await withClient(globals) { try await $0.call(Inbox.List.self, Nothing()) }
        if globals.json { return printLine(try jsonText(entries)) }
        if entries.isEmpty {
            return note("Nothing has come yet. On another device: kith send FILE followed by the name of this one.")
        }
        printLine(
            table(
                ["ID", "FROM", "STATE", "WHEN", "SIZE", "WHAT"],
                entries.map { entry in
                    [
                        entry.id, printable(entry.device), Self.state(entry), relative(entry.offeredAt),
                        ProgressLine.size(entry.bytes), Self.summary(entry),
                    ]
                }))
        let waiting = entries.filter { $0.state == .waiting }
        if let first = waiting.first { note("Accept with: kith inbox accept \(first.id)") }
    }

    private func follow() async throws {
        try await withClient(globals, listening: true) { client in
            let stream = try await client.open(Inbox.Watch.self, Nothing()).stream
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            for try await entry in stream.messages {
                if globals.json {
                    printLine(String(decoding: try encoder.encode(entry), as: UTF8.self))
                } else {
                    printLine(
                        "\(entry.id)  \(printable(entry.device))  \(Self.state(entry))  "
                            + "\(ProgressLine.size(entry.bytes))  \(Self.summary(entry))")
                }
            }
        }
        throw KithError(.closed, "The device has stopped. `kith up` starts it.")
    }

    static func state(_ entry: Inbox.Entry) -> String {
        switch entry.state {
        case .waiting: styled("waiting", .yellow)
        case .receiving: DeliveryLine.progress(entry.received, of: entry.bytes)
        case .failed: styled("failed", .red) + (entry.failure.map { ": " + printable($0.message) } ?? "")
        default: entry.state.rawValue
        }
    }

    /// The names, and where they are.
    static func summary(_ entry: Inbox.Entry) -> String {
        let shown = entry.names.isEmpty ? entry.items.map(\.name) : entry.names
        var text = shown.prefix(3).map { printable($0.description) }.joined(separator: ", ")
        if entry.count > 3 { text += " and \(entry.count - 3) more" }
        if entry.state == .arrived, let folder = entry.folder { text += "  in " + printable(folder) }
        return text
    }
}
