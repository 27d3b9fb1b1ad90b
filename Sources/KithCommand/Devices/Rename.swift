import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity

/// `kith rename`.
struct RenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename",
        abstract: "Give a paired device another name on this one.",
        discussion: helpText(
            """
              kith rename laptop work-laptop
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Argument(help: "Its new name.")
    var name: String

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(Devices.Rename.self, Devices.Rename.Input(device: device, name: name))
        }
        printLine(globals.json ? try jsonText(info) : "It is called \(printable(info.name)) now, DeviceID \(info.id).")
    }
}
