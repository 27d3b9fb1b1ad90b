import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith note`.
struct NoteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "note",
        abstract: "Put a note on a file of the library, or show it.",
        discussion: helpText(
            """
              kith note contract.pdf "call Ana back"
              kith note contract.pdf                  show it
              kith note contract.pdf --remove
              kith search note:ana                    finds what has it

            A note is kept in the library, not in the file, and stays with it when it is renamed or moved.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Flag(help: "Take the note away.") var remove = false
    @Argument(help: "The file or folder.", completion: .file()) var file: String
    @Argument(help: "The note; without one it is shown.") var text: String?

    func validate() throws {
        guard !remove || text == nil else { throw ValidationError("--remove takes no text.") }
    }

    func run() async throws {
        let path = try wholePaths([file])[0]
        try await withClient(globals) { client in
            if let text = remove ? "" : text {
                _ = try await client.call(
                    Annotations.Change.self, .init(paths: [path], note: text, library: library.name))
                return
            }
            let noted = try await client.call(Annotations.Get.self, .init(path: path, library: library.name))
            if globals.json { return printLine(try jsonText(noted)) }
            guard let text = noted.note else {
                note("There is no note on \(printable(file)).")
                throw ExitCode(KithError.Code.notFound.exitStatus)
            }
            var output = TerminalText(raw: false)
            try output.write(Array((text + "\n").utf8))
            try output.finish()
        }
    }
}
