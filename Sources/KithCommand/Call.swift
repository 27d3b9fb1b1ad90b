import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithRPC
import KithSocket
import KithWire

/// `kith call`.
struct Call: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Call a method of the running device by its name, with JSON in and out.",
        discussion: helpText(
            """
            The same table of methods stands behind every command and every door. Streams are not called this way.

              kith call api.describe
              kith call files.list '{"path": "/srv"}' --on laptop

            Members of the input that have a default may be left out.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The method, as `kith call api.describe` lists them.")
    var method: String

    @Argument(help: "Its input, a JSON object.")
    var input = "{}"

    @Option(help: ArgumentHelp("The device to ask, when it is not this one.", valueName: "device"))
    var on: String?

    func run() async throws {
        guard let carrier = try await SocketCarrier.connect(directory: globals.directory) else {
            try globals.requireDevice()
            throw KithError(.notFound, "This device is not up. `kith up` starts it.")
        }
        defer { carrier.close() }
        let answer = try await carrier.call(named: method, json: Array(input.utf8), on: on)
        let value = try JSONSerialization.jsonObject(with: Data(answer), options: .fragmentsAllowed)
        let text = try JSONSerialization.data(
            withJSONObject: value, options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed])
        say(String(decoding: text, as: UTF8.self))
    }
}
