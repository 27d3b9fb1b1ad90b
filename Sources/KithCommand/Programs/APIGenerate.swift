import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith api generate`.
struct APIGenerate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generate", abstract: "Write a typed client for programs in another language.",
        discussion: helpText(
            """
              kith api generate python -o kith_client.py       Python 3.9 and later, standard library only
              kith api generate typescript -o kith.ts          Node.js, without dependencies
              kith api generate swift -o KithClient.swift      Foundation only

            It has a type for each schema and a function for each method and stream, and talks to the socket of a device
            that runs on the same machine. The running device is asked for its methods, the ones of services that were
            added to it, too; without one it is this program's own table.
            """))

    /// The languages.
    enum Language: String, ExpressibleByArgument, CaseIterable {
        case swift, typescript, python
    }

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The language.") var language: Language
    @Option(name: .shortAndLong, help: ArgumentHelp("The file to write; the terminal without it.", valueName: "file"))
    var output: String?

    func run() async throws {
        let model = ClientModel(try await APICommand.document(globals))
        let source =
            switch language {
            case .swift: SwiftClient(model: model).source
            case .typescript: TypeScriptClient(model: model).source
            case .python: PythonClient(model: model).source
            }
        guard let output else { return printLine(String(source.dropLast())) }
        do {
            try Data(source.utf8).write(to: URL(fileURLWithPath: output), options: .atomic)
        } catch {
            throw KithError(
                .denied, "\(printable(output)) cannot be written: \(error.localizedDescription)", cause: error)
        }
    }
}
