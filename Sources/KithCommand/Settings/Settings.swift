import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithShell
import KithWire

/// The settings file of this call: its path and its content.
struct Settings {
    /// The file; where it would be, when there is none.
    let path: String
    /// True when there is one.
    let exists: Bool
    /// The settings in it.
    let configuration: Configuration

    /// Finds and reads the settings: `$KITH_CONFIG`, else `config` in the data directory, else `~/.config/kith/config`.
    ///
    /// - Throws: `.invalid` naming the line that cannot be read, `.denied` when somebody else could have written it.
    static func load(
        arguments: [String] = CommandLine.arguments,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws -> Settings {
        let (path, isForced, isInData) = locate(arguments, environment)
        guard let text = try read(path, mustExist: isForced) else {
            return Settings(path: path, exists: false, configuration: Configuration())
        }
        let configuration: Configuration
        do throws(Configuration.Problem) {
            configuration = try Configuration(parsing: text)
        } catch {
            throw Self.error(error, in: path)
        }
        if isInData {
            for section in configuration.sections {
                if let line = section.settings.first(where: { $0.key == "data" })?.line {
                    throw KithError(
                        .invalid,
                        "\(path):\(line): this file is in a data directory, so it cannot say where that is.")
                }
            }
        }
        return Settings(path: path, exists: true, configuration: configuration)
    }

    /// Words a problem for a person.
    static func error(_ problem: Configuration.Problem, in path: String) -> KithError {
        KithError(.invalid, "\(path):\(problem.line): \(problem.message)\(problem.message.hasSuffix("?") ? "" : ".")")
    }

    /// The path of the file, or the one it would have.
    private static func locate(
        _ arguments: [String], _ environment: [String: String]
    ) -> (path: String, isForced: Bool, isInData: Bool) {
        if let path = environment["KITH_CONFIG"], !path.isEmpty {
            return ((path as NSString).expandingTildeInPath, true, false)
        }
        let chosen =
            GlobalOptions.data(in: arguments) ?? environment["KITH_DATA"].flatMap { $0.isEmpty ? nil : $0 }
            ?? Device.defaultDirectory(environment: environment)
        let inData = (chosen as NSString).expandingTildeInPath + "/config"
        let manager = FileManager.default
        if manager.fileExists(atPath: inData) { return (inData, false, true) }
        let base =
            environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
            ?? (environment["HOME"] ?? "/") + "/.config"
        return (base + "/kith/config", false, false)
    }

    /// The text of a file only its owner, or root, can have written.
    private static func read(_ path: String, mustExist: Bool) throws -> String? {
        let file: FileHandle
        let attributes: [FileAttributeKey: Any]
        do {
            file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            attributes = try FileManager.default.attributesOfItem(
                atPath: URL(fileURLWithPath: path).resolvingSymlinksInPath().path)
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile {
            guard mustExist else { return nil }
            throw KithError(
                .notFound, "There is no configuration file at \(path).", cause: error)
        } catch {
            throw KithError(
                .denied, "The configuration file \(path) cannot be read: \(error.localizedDescription)", cause: error)
        }
        if attributes[.type] as? FileAttributeType == .typeRegular {
            let owner = (attributes[.ownerAccountID] as? NSNumber)?.uint32Value
            let mode = (attributes[.posixPermissions] as? NSNumber)?.uint16Value ?? 0o777
            guard owner == geteuid() || owner == 0, mode & 0o022 == 0 else {
                throw KithError(
                    .denied,
                    "Others can write to the configuration file \(path). Make it yours alone (chown, chmod 600), then try again."
                )
            }
        }
        let data = try file.read(upToCount: Configuration.sizeLimit + 1) ?? Data()
        guard data.count <= Configuration.sizeLimit, let text = String(bytes: data, encoding: .utf8) else {
            throw KithError(.invalid, "The configuration file \(path) is not text, or larger than 1 MiB.")
        }
        return text
    }
}

extension Root {
    /// The description of every command, as the parser gives it.
    static func description() throws -> CommandDescription {
        struct Tool: Decodable { var command: CommandDescription }
        return try JSONDecoder().decode(Tool.self, from: Data(_dumpHelp().utf8)).command
    }

    /// The command that `words` begin with, and how many of them name it; of one that has a default below it, that one.
    ///
    /// Describes that command alone, which is quick.
    static func described(_ words: [String]) throws -> (path: [String], command: CommandDescription) {
        struct Tool: Decodable { var command: CommandDescription }
        var (path, type): ([String], any ParsableCommand.Type) = ([], Root.self)
        for word in words {
            guard let next = type.configuration.subcommands.first(where: { $0.isCalled(word) }) else { break }
            path.append(next._commandName)
            type = next
        }
        if let standard = type.configuration.defaultSubcommand { type = standard }
        return (path, try JSONDecoder().decode(Tool.self, from: Data(type._dumpHelp().utf8)).command)
    }

    /// The words with every short name by itself and its value with it, as the parser takes them; negative numbers too.
    ///
    /// - Throws: `.invalid` for short names of which one is unknown.
    private static func separated(_ words: [String]) throws -> [String] {
        let own = words.prefix { $0 != "--" }
        // Nothing is described for nothing.
        let wantsScan = { (word: String) in
            word.hasPrefix("-") && !word.hasPrefix("--") && (word.count > 2 || ArgumentScan.isNegative(word))
        }
        guard own.contains(where: wantsScan) else { return words }
        if let unknown = try unknownCommand(in: words) { throw unknown }
        let (path, command) = try described(words)
        do throws(ArgumentScan.Problem) {
            return path + (try ArgumentScan.separated(Array(words.dropFirst(path.count)), of: command))
        } catch {
            throw unterminated(Array(words.dropFirst(path.count)), of: command, path)
                ?? commandLineError(for: error, path)
        }
    }

    private static func name(_ path: [String]) -> String { (["kith"] + path).joined(separator: " ") }

    private static func commandLineError(for problem: ArgumentScan.Problem, _ path: [String]) -> KithError {
        let meant = problem.meant.map { " Did you mean \($0)?" } ?? ""
        return KithError(.invalid, "\(problem.message).\(meant) `\(name(path)) --help` shows how.")
    }

    /// Words what the parser has against a command line, in one line with what to do about it.
    static func wrongCommandLine(_ error: any Error, _ typed: [String]) -> KithError {
        // What cannot be described any better keeps the parser's words.
        let words = (try? WordForms.understood(withCommonOptionsBehind(typed))) ?? typed
        guard let (path, command) = try? described(words) else { return KithError(.invalid, message(for: error)) }
        if let next = words.dropFirst(path.count).first, !next.hasPrefix("-"), command.positionals.isEmpty,
            let group = try? description().find(path).command, !group.subcommands.isEmpty,
            let unknown = try? noCommand(path + [next])
        {
            return unknown
        }
        let own = Array(words.dropFirst(path.count))
        if let hint = unterminated(own, of: command, path) { return hint }
        if let problem = ArgumentScan.problem(with: own, of: command, named: name(path)) {
            return commandLineError(for: problem, path)
        }
        var text = message(for: error).split(whereSeparator: \.isNewline).joined(separator: " ")
        if let match = text.wholeMatch(of: /Missing value for '([^ ']+).*'/) {
            let option = command.index(named: String(match.1)).map { command.arguments[$0] }
            return commandLineError(for: ArgumentScan.missingValue(behind: String(match.1), option), path)
        }
        if let match = text.wholeMatch(of: /The value '(.*)' is invalid for '<?([^ >]+)[^']*'(.*)/) {
            let explained = match.3.drop { $0 == ":" || $0 == " " }
            // A reason that names the value itself needs no other beginning.
            text =
                explained.hasPrefix("“")
                ? String(explained)
                : "“\(match.1)” is not a value for \(match.2)"
                    + (match.3 == "" || match.3 == "." ? purpose(of: String(match.2), in: command) : String(match.3))
        }
        if !text.hasSuffix("."), !text.hasSuffix("?"), !text.contains("kith ") { text += "." }
        return KithError(.invalid, text.contains("kith ") ? text : "\(text) `\(name(path)) --help` shows how.")
    }

    /// The purpose of an option or argument, in parentheses: the first sentence of its help.
    private static func purpose(of name: String, in command: CommandDescription) -> String {
        let argument =
            command.index(named: name).map { command.arguments[$0] }
            ?? command.positionals.first { $0.valueName == name }
        let help = argument?.abstract ?? ""
        let end = help.range(of: ". ")?.lowerBound ?? help.endIndex
        let sentence = String(help[..<end]).trimmingCharacters(in: ["."])
        guard let first = sentence.first else { return "" }
        return " (\(first.lowercased())\(sentence.dropFirst()))"
    }

    /// The error where a command to be run stands without the `--` that goes before it; `nil` when none does.
    private static func unterminated(
        _ words: [String], of command: CommandDescription, _ path: [String]
    ) -> KithError? {
        guard command.positionals.contains(where: { $0.parsingStrategy == "postTerminator" }) else { return nil }
        let roles = ArgumentScan(words, of: command).roles
        guard !roles.contains(.terminator), let unknown = roles.firstIndex(of: .unknown) else { return nil }
        let places = roles.indices.filter { if case .positional = roles[$0] { true } else { false } }
        // The device, then what is to be run there, and only then what nobody knows.
        guard places.count > 1, places[1] < unknown else { return nil }
        let line = ShellService.Options.commandLine(for: words[..<places[1]] + ["--"] + words[places[1]...])
        return KithError(.invalid, "To run a command, put -- before it: \(name(path)) \(line)")
    }

    /// Commands that must work whatever the settings say.
    private static let unsettled: Set<String> = ["config", "completions", "complete", "manual", "help"]

    /// Commands of which `-h` asks for no help.
    private static let ownShortH: Set<String> = ["du", "ls"]

    /// Parses a command line with the settings put in.
    ///
    /// Costs nothing when there is no settings file.
    static func parse(withSettings typed: [String]) throws -> (command: any ParsableCommand, words: [String]) {
        let words = try separated(WordForms.understood(withCommonOptionsBehind(typed)))
        let own = words.prefix { $0 != "--" }
        guard let first = words.first, !unsettled.contains(first), !first.hasPrefix("-"),
            !own.contains("--help"), !own.contains("-h") || ownShortH.contains(first)
        else { return (try parseAsRoot(words), words) }
        let settings = try Settings.load()
        // `--FLAG=no` is understood without a file, too.
        guard settings.exists || own.contains(where: { $0.hasPrefix("--") && $0.contains("=") }) else {
            return (try parseAsRoot(words), words)
        }
        let root = try description()
        if let problem = settings.configuration.problems(for: root).first {
            throw Settings.error(problem, in: settings.path)
        }
        let (path, command) = root.find(words)
        let applied: Configuration.Applied
        do throws(Configuration.Problem) {
            applied = try settings.configuration.apply(
                to: Array(words.dropFirst(path.count)), path: path, command: command,
                environment: ProcessInfo.processInfo.environment)
        } catch {
            throw Settings.error(error, in: settings.path)
        }
        let complete = path + applied.words
        do {
            return (try parseAsRoot(complete), complete)
        } catch {
            let plain = path + applied.words.dropFirst(applied.inserted.count)
            for (word, line) in applied.inserted {
                if let message = refusal(of: word, path: path, words: Array(plain.dropFirst(path.count))) {
                    throw KithError(.invalid, "\(settings.path):\(line): \(message)")
                }
            }
            throw error
        }
    }

    /// The parser's objection to one option that stands in the settings; `nil` when it accepts it.
    static func refusal(of word: String, path: [String], words: [String]) -> String? {
        func message(_ words: [String]) -> String? {
            do {
                _ = try parseAsRoot(words)
                return nil
            } catch {
                return Self.message(for: error)
            }
        }
        guard let refusal = message(path + [word] + words), refusal != message(path + words) else { return nil }
        return refusal.replacingOccurrences(of: "\n", with: " ")
    }
}
