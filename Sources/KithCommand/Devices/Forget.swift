import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity

/// `kith forget`.
struct ForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "End the pairing with a device and cut off what it is doing here, at once.",
        discussion: helpText(
            """
              kith forget old-phone             by its name, or the beginning of its DeviceID

            Its certificate under your root key, if it has one, does not bring it back; `kith connect` here does.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(Devices.Forget.self, Devices.Reference(device: device))
        }
        if globals.json {
            printLine(try jsonText(info))
        } else {
            printLine(
                "Forgot \(info.whole) which comes back only when you invite it again or, if it is enrolled under your root key, "
                    + "when you run kith connect.")
        }
    }
}
