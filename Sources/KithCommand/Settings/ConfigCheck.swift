import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// `kith config check`.
struct ConfigCheck: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Look for mistakes in the configuration file.",
        discussion: helpText(
            """
              kith config check
              kith config check ./new-settings

            Exit status: 0 when there are none, 64 when there are.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The file. Default: the one that is used.", completion: .file())
    var file: String?

    func run() throws {
        var environment = ProcessInfo.processInfo.environment
        if let file { environment["KITH_CONFIG"] = file }
        let settings = try Settings.load(environment: environment)
        guard settings.exists else {
            throw KithError(
                .notFound, "There is no configuration file at \(settings.path). `kith config example` prints one.")
        }
        let root = try Root.description()
        var problems = settings.configuration.problems(for: root)
        if problems.isEmpty { problems = Self.refusals(settings.configuration, root) }
        if globals.json {
            struct Report: Encodable {
                struct Problem: Encodable {
                    var line: Int
                    var message: String
                }
                var file: String
                var problems: [Problem]
            }
            let found = problems.map { Report.Problem(line: $0.line, message: $0.message) }
            printLine(try jsonText(Report(file: settings.path, problems: found)))
        } else if problems.isEmpty {
            let count = settings.configuration.sections.reduce(0) { $0 + $1.settings.count }
            printLine("\(printable(settings.path)): \(count) \(count == 1 ? "setting" : "settings"), no mistakes")
        } else {
            for problem in problems {
                note(printable("\(settings.path):\(problem.line): \(problem.message)"))
            }
        }
        if !problems.isEmpty { throw ExitCode(KithError.Code.invalid.exitStatus) }
    }

    /// Has the parser itself look at every value, on a command line that is right otherwise.
    private static func refusals(_ configuration: Configuration, _ root: CommandDescription) -> [Configuration.Problem]
    {
        var problems: [Configuration.Problem] = []
        for section in configuration.sections {
            for setting in section.settings where !(setting.key == "device" && section.scope.isDevice) {
                for (path, command) in root.all {
                    switch section.scope {
                    case .command(let words): guard path.starts(with: words) else { continue }
                    case .device: guard command.takesDevice else { continue }
                    case .everything: break
                    }
                    guard setting.command == nil || setting.command == path,
                        let argument = command.settable(setting.key),
                        argument.kind == .option, let name = argument.names.first(where: { $0.name == setting.key })
                    else { continue }
                    let words = command.positionals.filter { $0.parsingStrategy != "postTerminator" }
                        .flatMap { Array(repeating: "x:/x", count: $0.isRepeating ? 2 : $0.isOptional ? 0 : 1) }
                    let word = "\(name.typed)=\(setting.value)"
                    if let refusal = Root.refusal(of: word, path: path, words: words) {
                        problems.append(Configuration.Problem(line: setting.line, message: refusal))
                        break
                    }
                }
            }
        }
        return problems
    }
}
