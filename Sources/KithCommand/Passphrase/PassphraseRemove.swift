import ArgumentParser
import Foundation
import KithCommandLine
import KithIdentity

/// `kith passphrase remove`.
struct PassphraseRemove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Seal this device's key with the machine's key again, beside it.",
        discussion: helpText(
            """
            The device then starts without a passphrase, and whoever copies the whole data directory has its key. When the
            machine's key seals it already, that key is made anew.

              kith passphrase remove
              kith passphrase remove --passphrase-file old.txt
            """))

    @OptionGroup var globals: GlobalOptions

    func run() throws {
        try globals.presentKeys().reseal(with: .machineKey)
        try globals.showSeal(.machineKey, "The key is sealed by the machine's key now, beside it.")
    }
}
