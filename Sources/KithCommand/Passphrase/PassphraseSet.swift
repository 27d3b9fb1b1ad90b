import ArgumentParser
import Foundation
import KithCommandLine
import KithIdentity
import KithWire

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
            throw ValidationError("Give one source for the new passphrase, not several.")
        }
        guard newFD.map({ $0 >= 0 }) ?? true else { throw ValidationError("A file descriptor is not negative.") }
    }

    func run() throws {
        let was = try globals.sealKind()
        // Who does not know the present one is not asked for another.
        let keys = try globals.presentKeys()
        if was == .passphrase, PassphraseInput.canAsk { _ = try keys.storedDeviceKey() }
        try keys.reseal(with: .passphrase(try newPassphrase()))
        try globals.showSeal(
            .passphrase,
            was == .passphrase
                ? "The passphrase is changed."
                : "The key is sealed by the passphrase now; `kith up` needs it at its next start.")
    }

    private func newPassphrase() throws -> SecretBytes {
        if let newFD { return try PassphraseInput.line(fromOwn: newFD) }
        if let newFile { return try PassphraseInput.line(fromFile: newFile) }
        if let newCommand { return try PassphraseInput.line(fromCommand: newCommand) }
        guard PassphraseInput.canAsk else {
            throw KithError(
                .invalid, "There is no terminal to ask for the new passphrase at. Give it with --new-passphrase-fd.")
        }
        let new = try PassphraseInput.ask("New passphrase:")
        let again = try PassphraseInput.ask("The same again:")
        guard unsafe new.withUnsafeBytes({ one in unsafe again.withUnsafeBytes { unsafe one.elementsEqual($0) } })
        else {
            throw KithError(.invalid, "The two are not the same. Nothing was changed.")
        }
        return new
    }
}
