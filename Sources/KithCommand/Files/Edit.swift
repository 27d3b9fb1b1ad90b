import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// `kith edit`.
struct EditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract: "Edit a file on a device with the editor of this one.",
        discussion: helpText(
            """
              kith edit laptop:/etc/hosts
              EDITOR='code --wait' kith edit laptop:notes.txt

            Runs $VISUAL, else $EDITOR, else vi, on a private copy. What was changed replaces the file at once and
            whole, with its mode, unless somebody else has changed it meanwhile: then nothing is written, and where
            your copy is kept is said. A file that is not there is made.
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The file: DEVICE:PATH.") var path: RemotePath

    func run() async throws {
        let (device, file) = try path.remote()
        guard Editor.isPossible else {
            throw KithError(
                .invalid, "This needs a terminal for vi, or another editor in $EDITOR. Without: `kith cat`, `kith cp`.")
        }
        let isChanged = try await withClient(globals) { client in
            try await RemoteEdit(device: device, path: file, client: client).run()
        }
        if !isChanged { note("\(printable(path.description)) is as it was; nothing was written.") }
    }
}
