import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithIdentity
import KithWire

/// `kith passphrase`.
struct PassphraseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passphrase",
        abstract: "Set, change or remove the passphrase that seals this device's key.",
        discussion: helpText(
            """
            Without a passphrase the key is sealed by machine.key beside it, so whoever copies the whole data directory has
            both. With one the copy is of no use, and `kith up` needs the passphrase at each start.

              kith passphrase                  what seals the key now
              kith passphrase set              asks for the new one twice, and for the old one if there is one
              kith passphrase set --new-passphrase-file ~/new.txt
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
        subcommands: [PassphraseStatus.self, PassphraseSet.self, PassphraseRemove.self],
        defaultSubcommand: PassphraseStatus.self)

    /// What `--json` prints.
    fileprivate struct Report: Encodable {
        var sealedBy: String
    }
}

extension GlobalOptions {
    /// What seals the key of this device.
    ///
    /// - Throws: `.notFound` when there is no device.
    fileprivate func sealKind() throws -> FileKeyStore.SealKind {
        try requireDevice()
        guard let kind = try FileKeyStore.sealKind(directory: directory) else {
            throw KithError(.corrupt, "The key in \(directory) is missing or damaged. Restore it from a backup.")
        }
        return kind
    }

    /// The key of this device, with what opens it now.
    fileprivate func presentKeys() throws -> FileKeyStore {
        guard try sealKind() == .passphrase else { return FileKeyStore(directory: directory, seal: .machineKey) }
        guard let passphrase = try passphrase() else {
            throw KithError(
                .invalid,
                "The key is sealed by a passphrase: give the present one, as `kith passphrase --help` says.")
        }
        return FileKeyStore(directory: directory, seal: .passphrase(passphrase))
    }

    fileprivate func tellSeal(_ kind: FileKeyStore.SealKind, _ text: String) throws {
        if json { return say(try jsonText(PassphraseCommand.Report(sealedBy: kind.word))) }
        say(text)
    }
}

extension FileKeyStore.SealKind {
    fileprivate var word: String {
        switch self {
        case .machineKey: "machine key"
        case .passphrase: "passphrase"
        }
    }
}

/// `kith passphrase status`.
struct PassphraseStatus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Say what seals this device's key.",
        discussion: helpText(
            """
              kith passphrase
              kith passphrase status --json
            """))

    @OptionGroup var globals: GlobalOptions

    func run() throws {
        let kind = try globals.sealKind()
        try globals.tellSeal(
            kind,
            kind == .passphrase
                ? "This device's key is sealed by a passphrase."
                : "This device's key is sealed by the machine's key, beside it (`kith passphrase set` changes that).")
    }
}

/// `kith passphrase set`.
struct PassphraseSet: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Seal this device's key with a passphrase, or with another one.",
        discussion: helpText(
            """
            Asks for the new passphrase at the terminal, unless told where to read it. The present one, if there is one, comes
            from where `kith passphrase --help` says.

              kith passphrase set
              kith passphrase set --new-passphrase-fd 3 3< <(pass show kith)
              kith passphrase set --passphrase-file old.txt --new-passphrase-file new.txt
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(
        name: .customLong("new-passphrase-fd"),
        help: ArgumentHelp("Read the new passphrase from this open file descriptor.", valueName: "number"))
    var newFD: Int32?

    @Option(
        name: .customLong("new-passphrase-file"),
        help: ArgumentHelp("Read the new passphrase from this file.", valueName: "file"), completion: .file())
    var newFile: String?

    @Option(
        name: .customLong("new-passphrase-command"),
        help: ArgumentHelp("Take the new passphrase from the first line that this command prints.", valueName: "line"))
    var newCommand: String?

    func validate() throws {
        guard [newFD != nil, newFile != nil, newCommand != nil].count(where: { $0 }) <= 1 else {
            throw ValidationError("Say once where the new passphrase comes from.")
        }
        guard newFD.map({ $0 >= 0 }) ?? true else { throw ValidationError("A file descriptor is not negative.") }
    }

    func run() throws {
        let was = try globals.sealKind()
        // Who does not know the present one is not asked for another.
        let keys = try globals.presentKeys()
        if was == .passphrase, Passphrase.canAsk { _ = try keys.storedDeviceKey() }
        try keys.reseal(with: .passphrase(try newPassphrase()))
        try globals.tellSeal(
            .passphrase,
            was == .passphrase
                ? "The passphrase is changed."
                : "The key is sealed by the passphrase now; `kith up` needs it at its next start.")
    }

    private func newPassphrase() throws -> SecretBytes {
        if let newFD { return try Passphrase.line(fromOwn: newFD) }
        if let newFile { return try Passphrase.line(fromFile: newFile) }
        if let newCommand { return try Passphrase.line(fromCommand: newCommand) }
        guard Passphrase.canAsk else {
            throw KithError(
                .invalid, "There is no terminal to ask for the new passphrase at. Give it with --new-passphrase-fd.")
        }
        let new = try Passphrase.ask("New passphrase:")
        let again = try Passphrase.ask("The same again:")
        guard unsafe new.withUnsafeBytes({ one in unsafe again.withUnsafeBytes { unsafe one.elementsEqual($0) } })
        else {
            throw KithError(.invalid, "The two are not the same. Nothing was changed.")
        }
        return new
    }
}

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
        try globals.tellSeal(.machineKey, "The key is sealed by the machine's key now, beside it.")
    }
}
