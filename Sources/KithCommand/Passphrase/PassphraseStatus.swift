import ArgumentParser
import Foundation
import KithCommandLine
import KithIdentity

/// `kith passphrase status`.
struct PassphraseStatus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show what seals this device's key.",
        discussion: helpText(
            """
              kith passphrase
              kith passphrase status --json
            """))

    @OptionGroup var globals: GlobalOptions

    func run() throws {
        let kind = try globals.sealKind()
        let text =
            switch kind {
            case .passphrase: "This device's key is sealed by a passphrase."
            case .keyStore: "This device's key is sealed by a key in the desktop's keyring."
            case .machineKey:
                "This device's key is sealed by the machine's key, beside it (`kith passphrase set` changes that)."
            }
        try globals.showSeal(kind, text)
    }
}
