import ArgumentParser
import Foundation
import KithCommandLine

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
            return printLine(try jsonText(Report(file: settings.path, exists: settings.exists, settings: rows)))
        }
        let hint = settings.exists ? "" : " (not there; `kith config example` prints one)"
        printLine("\(styled("Settings", .bold))  \(printable(settings.path))\(hint)")
        guard !rows.isEmpty else { return }
        printLine()
        printLine(
            table(
                ["FOR", "SETTING", "VALUE", "FROM"],
                rows.map { [printable($0.scope), printable($0.key), printable($0.value ?? "-"), $0.origin] }))
    }

    /// The settings of the file and the environment.
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

    /// The settings that hold for one command, or for all of those a device is used with.
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

extension Configuration.Scope {
    var isDevice: Bool { if case .device = self { true } else { false } }
}
