import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith label`.
struct LabelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "label",
        abstract: "Give a paired device labels, or have it come first in lists.",
        discussion: helpText(
            """
            Labels and favorites are for finding a device among many: only this device knows them, and they say nothing
            about rights. A label has 1 to 63 letters, digits, hyphens, underscores or dots.

              kith label laptop home work
              kith label laptop --remove work
              kith label laptop --favorite
              kith devices --label home
              kith devices --favorites
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Argument(help: "Labels to give it.")
    var labels: [String] = []

    @Option(
        name: .customLong("remove"), parsing: .singleValue, help: "A label to take away. May be said several times.")
    var removed: [String] = []

    @Flag(inversion: .prefixedNo, help: "Whether it comes first in lists.")
    var favorite: Bool?

    func run() async throws {
        let info = try await withClient(globals) { client in
            try await client.call(
                Devices.Label.self,
                Devices.Label.Input(device: device, add: labels, remove: removed, isFavorite: favorite))
        }
        if globals.json { return printLine(try jsonText(info)) }
        let text = (info.labels ?? []).map(printable).joined(separator: ", ")
        printLine(
            "\(printable(info.name)) has \(text.isEmpty ? "no labels" : "the labels \(text)")"
                + (info.isFavorite == true ? ", and comes first." : "."))
    }
}
