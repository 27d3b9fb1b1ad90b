import ArgumentParser
import KithCommandLine
import KithIdentity

/// `kith passphrase keyring`.
struct PassphraseKeyring: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keyring", abstract: "Seal this device's key with a key in the desktop's keyring.",
        discussion: helpText(
            """
            The keyring is whatever offers the Secret Service in this session: GNOME Keyring, KWallet, KeePassXC. It keeps a
            new random key that opens this device's; a copy of the data directory is of no use without. `kith up` starts while
            the keyring is open, which it is after logging in to the desktop, and otherwise says that it is locked: a device
            that runs before anybody logs in needs a passphrase or the machine's key instead.

              kith passphrase keyring
              kith passphrase keyring --passphrase-file old.txt
            """))

    @OptionGroup var globals: GlobalOptions

    func run() throws {
        try globals.presentKeys().reseal(with: .keyStore(SecretServiceKeyStore()))
        try globals.showSeal(
            .keyStore, "The key is sealed by a key in the desktop's keyring now; `kith up` needs it open at each start."
        )
    }
}
