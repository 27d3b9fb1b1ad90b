import ArgumentParser
import Foundation
import KithCommandLine
import KithIdentity
import KithWire

/// `kith passphrase`.
struct PassphraseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passphrase",
        abstract: "Choose what seals this device's key: a passphrase, the keyring, or a key of the machine.",
        discussion: helpText(
            """
            Without a passphrase the key is sealed by machine.key beside it, so whoever copies the whole data directory has
            both. With one the copy is of no use, and `kith up` needs the passphrase at each start. On a Linux desktop the
            keyring (GNOME Keyring, KWallet, KeePassXC) can keep what opens the key instead, so nobody types anything.

              kith passphrase                  what seals the key now
              kith passphrase set              asks for the new one twice, and for the old one if there is one
              kith passphrase set --new-passphrase-file ~/new.txt
              kith passphrase keyring          a key in the desktop's keyring
              kith passphrase remove           back to the machine's key

            Every command that opens the key takes the passphrase from, in this order:

              --passphrase-fd 3                the first line of an open file descriptor (3< <(pass show kith))
              --passphrase-file FILE           a file that only you may read
              --passphrase-command 'secret-tool lookup app kith'
              $KITH_PASSPHRASE                 taken out of the environment at once; other programs of yours may have seen it
              a credential of systemd          LoadCredentialEncrypted=kith.passphrase:FILE in the service
              the terminal                     when there is one

            A running device goes on while its passphrase changes. It is changed whole or not at all, even when the machine
            loses power. A copy of the directory made before, as a backup, still opens with what sealed it then.
            """),
        subcommands: [PassphraseStatus.self, PassphraseSet.self, PassphraseKeyring.self, PassphraseRemove.self],
        defaultSubcommand: PassphraseStatus.self)

    /// The output of `--json`.
    struct Report: Encodable {
        var sealedBy: String
    }
}

extension GlobalOptions {
    /// The kind of seal on this device's key.
    ///
    /// - Throws: `.notFound` when there is no device.
    func sealKind() throws -> FileKeyStore.SealKind {
        try requireDevice()
        guard let kind = try FileKeyStore.sealKind(directory: directory) else {
            throw KithError(.corrupt, "The key in \(directory) is missing or damaged. Restore it from a backup.")
        }
        return kind
    }

    /// The key of this device, with what opens it now.
    func presentKeys() throws -> FileKeyStore {
        guard try sealKind() == .passphrase else {
            return try FileKeyStore.opening(directory: directory, passphrase: nil)
        }
        guard let passphrase = try passphrase() else {
            throw KithError(
                .invalid,
                "The key is sealed by a passphrase: give the present one, as `kith passphrase --help` says.")
        }
        return FileKeyStore(directory: directory, seal: .passphrase(passphrase))
    }

    func showSeal(_ kind: FileKeyStore.SealKind, _ text: String) throws {
        if json { return printLine(try jsonText(PassphraseCommand.Report(sealedBy: kind.word))) }
        printLine(text)
    }
}

extension FileKeyStore.SealKind {
    var word: String {
        switch self {
        case .machineKey: "machine key"
        case .passphrase: "passphrase"
        case .keyStore: "keyring"
        }
    }
}
