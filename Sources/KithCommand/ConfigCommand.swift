import ArgumentParser
import Foundation
import KithCommandLine
import KithWire

/// `kith config`.
struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show, check or begin the configuration file.",
        discussion: helpText(
            """
              kith config                          what the file and the environment say
              kith config shell --device work      every setting of `kith shell work`, and where it comes from
              kith config check                    look for mistakes
              kith config example > ~/.config/kith/config

            The file is $KITH_CONFIG, else config in the data directory, else ~/.config/kith/config. Every option of
            every command can be set there, and devices can be given other names with settings of their own:

              verbose = yes              # for every command
              [cp]
              quiet = yes                # for kith cp
              [device work]
              device = laptop            # kith shell work means laptop …
              directory = /srv/app       # … and starts there

            The command line counts before the environment, that before the device's section, that before the command's.
            --quiet=no takes back a yes of the file.
            """),
        subcommands: [ConfigShow.self, ConfigCheck.self, ConfigExample.self], defaultSubcommand: ConfigShow.self)
}

/// `kith config show`.
struct ConfigShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show what is set, and where.",
        discussion: helpText(
            """
              kith config show
              kith config shell --device work
              kith config cp --json
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: "Show what holds when the command is used on this device.")
    var device: String?

    @Argument(help: "The command whose settings to show, with the defaults; without one, what is set at all.")
    var command: [String] = []

    /// One line of what is shown.
    private struct Row: Encodable {
        var scope: String
        var key: String
        var value: String?
        var origin: String
        var line: Int?
    }

    func run() throws {
        let settings = try Settings.load()
        let root = try Root.description()
        let rows = try command.isEmpty && device == nil ? set(settings) : effective(settings, root)
        if globals.json {
            struct Report: Encodable {
                var file: String
                var exists: Bool
                var settings: [Row]
            }
            return say(try jsonText(Report(file: settings.path, exists: settings.exists, settings: rows)))
        }
        let hint = settings.exists ? "" : " (not there; `kith config example` prints one)"
        say("\(styled("Settings", .bold))  \(printable(settings.path))\(hint)")
        guard !rows.isEmpty else { return }
        say()
        say(
            table(
                ["FOR", "SETTING", "VALUE", "FROM"],
                rows.map { [printable($0.scope), printable($0.key), printable($0.value ?? "-"), $0.origin] }))
    }

    /// What the file and the environment say.
    private func set(_ settings: Settings) -> [Row] {
        let environment = ProcessInfo.processInfo.environment
        var rows = Configuration.variables.sorted { $0.key < $1.key }.compactMap { key, variable -> Row? in
            guard let value = environment[variable], !value.isEmpty else { return nil }
            return Row(scope: "every command", key: key, value: value, origin: "$" + variable)
        }
        for section in settings.configuration.sections {
            let scope = section.scope == .everything ? "every command" : section.scope.text
            rows += section.settings.map { setting in
                Row(
                    scope: scope, key: ((setting.command ?? []) + [setting.key]).joined(separator: "."),
                    value: setting.value, origin: "line \(setting.line)", line: setting.line)
            }
        }
        return rows
    }

    /// What holds for one command, or for all of those a device is used with.
    private func effective(_ settings: Settings, _ root: CommandDescription) throws -> [Row] {
        let found = root.find(command)
        guard found.path.count == command.count else {
            throw try Root.noCommand(command)
        }
        let commands =
            command.isEmpty
            ? root.all.filter { $0.command.takesDevice } : [(path: found.path, command: found.command)]
        return commands.flatMap { path, description in
            settings.configuration.effects(
                on: device, path: path, command: description, environment: ProcessInfo.processInfo.environment
            ).filter { !command.isEmpty || $0.origin != .standard }.map { effect in
                let (origin, line) = Self.words(effect.origin)
                return Row(
                    scope: path.joined(separator: " "), key: effect.key, value: effect.value, origin: origin, line: line
                )
            }
        }
    }

    private static func words(_ origin: Configuration.Origin) -> (String, Int?) {
        switch origin {
        case .commandLine: ("command line", nil)
        case .environment(let name): ("$" + name, nil)
        case .file(let line): ("line \(line)", line)
        case .standard: ("default", nil)
        }
    }
}

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
            say(try jsonText(Report(file: settings.path, problems: found)))
        } else if problems.isEmpty {
            let count = settings.configuration.sections.reduce(0) { $0 + $1.settings.count }
            say("\(printable(settings.path)): \(count) \(count == 1 ? "setting" : "settings"), no mistakes")
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

extension Configuration.Scope {
    fileprivate var isDevice: Bool { if case .device = self { true } else { false } }
}

/// `kith config example`.
struct ConfigExample: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "example", abstract: "Print a file with every setting there is, explained and commented out.",
        discussion: "  kith config example > ~/.config/kith/config")

    func run() throws {
        say(Configuration.example(for: try Root.description(), path: "~/.config/kith/config"))
    }
}
