/// A command as its parser describes it: what stands behind `--help`, settings, completion and manual pages alike.
///
/// Decoded from what the parser prints for `--experimental-dump-help`, of which this is a part.
package struct CommandDescription: Decodable, Hashable, Sendable {
    /// One thing a command takes: an option, a flag, or an argument known by its place.
    package struct Argument: Decodable, Hashable, Sendable {
        /// The way it is given.
        package enum Kind: String, Decodable, Hashable, Sendable {
            /// Given by its position.
            case positional
            /// Given by a name and a value.
            case option
            /// Given by a name alone.
            case flag
        }

        /// One of its names.
        package struct Name: Decodable, Hashable, Sendable {
            /// `long`, `short`, or `longWithSingleDash`.
            package var kind: String
            /// The name without hyphens.
            package var name: String

            /// The name as typed.
            package var typed: String { kind == "long" ? "--" + name : "-" + name }

            /// Makes a name.
            package init(kind: String, name: String) {
                self.kind = kind
                self.name = name
            }
        }

        /// The kind of its values, for completion.
        package enum Values: Hashable, Sendable {
            /// Nothing is known.
            case any
            /// These words.
            case words([String])
            /// A file on this device.
            case file
            /// A folder on this device.
            case folder
            /// The candidates that the named source offers.
            case source(String)
        }

        /// The way it is given.
        package var kind: Kind
        /// True when help shows it.
        package var shouldDisplay: Bool
        /// True when it may be left out.
        package var isOptional: Bool
        /// True when it may be given several times.
        package var isRepeating: Bool
        /// The way its values are told from other words.
        package var parsingStrategy: String
        /// All its names; empty of a positional one.
        package var names: [Name]
        /// The name of its value in help.
        package var valueName: String
        /// Its value when it is not given.
        package var defaultValue: String?
        /// The purpose, in a line.
        package var abstract: String
        /// The kind of its values.
        package var values: Values

        /// The name it has in a settings file: the first long one, else the first.
        package var key: String? { (names.first { $0.kind == "long" } ?? names.first)?.name }

        private enum CodingKeys: String, CodingKey {
            case kind, shouldDisplay, isOptional, isRepeating, parsingStrategy, names, valueName, defaultValue
            case abstract, completionKind, allValues
        }

        private struct Completion: Decodable {
            struct List: Decodable { var values: [String] }
            struct Command: Decodable { var command: String }
            struct Empty: Decodable {}
            var list: List?
            var shellCommand: Command?
            var file: Empty?
            var directory: Empty?
        }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            kind = try container.decode(Kind.self, forKey: .kind)
            shouldDisplay = try container.decode(Bool.self, forKey: .shouldDisplay)
            isOptional = try container.decode(Bool.self, forKey: .isOptional)
            isRepeating = try container.decode(Bool.self, forKey: .isRepeating)
            parsingStrategy = try container.decode(String.self, forKey: .parsingStrategy)
            names = try container.decodeIfPresent([Name].self, forKey: .names) ?? []
            valueName = try container.decodeIfPresent(String.self, forKey: .valueName) ?? "value"
            defaultValue = try container.decodeIfPresent(String.self, forKey: .defaultValue)
            abstract = try container.decodeIfPresent(String.self, forKey: .abstract) ?? ""
            let completion = try container.decodeIfPresent(Completion.self, forKey: .completionKind)
            let words = try container.decodeIfPresent([String].self, forKey: .allValues) ?? []
            values =
                if let list = completion?.list { .words(list.values) } else if completion?.file != nil {
                    .file
                } else if completion?.directory != nil {
                    .folder
                } else if let source = completion?.shellCommand {
                    .source(source.command)
                } else { words.isEmpty ? .any : .words(words) }
        }

        /// Makes a description.
        package init(
            _ kind: Kind, names: [Name] = [], valueName: String = "value", isOptional: Bool = true,
            isRepeating: Bool = false, parsingStrategy: String = "default", defaultValue: String? = nil,
            abstract: String = "", values: Values = .any, shouldDisplay: Bool = true
        ) {
            self.kind = kind
            self.names = names
            self.valueName = valueName
            self.isOptional = isOptional
            self.isRepeating = isRepeating
            self.parsingStrategy = parsingStrategy
            self.defaultValue = defaultValue
            self.abstract = abstract
            self.values = values
            self.shouldDisplay = shouldDisplay
        }
    }

    /// The name.
    package var name: String
    /// The other names that it can be called by.
    package var aliases: [String]
    /// The purpose, in a line.
    package var abstract: String
    /// The further explanation, with examples: lines that begin with blanks.
    package var discussion: String
    /// True when help shows it.
    package var shouldDisplay: Bool
    /// The commands below it.
    package var subcommands: [CommandDescription]
    /// The one that is meant when none is named.
    package var defaultSubcommand: String?
    /// The options and arguments it takes.
    package var arguments: [Argument]

    private enum CodingKeys: String, CodingKey {
        case commandName, aliases, abstract, discussion, shouldDisplay, subcommands, arguments, defaultSubcommand
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        name = try container.decode(String.self, forKey: .commandName)
        aliases = try container.decodeIfPresent([String].self, forKey: .aliases) ?? []
        abstract = try container.decodeIfPresent(String.self, forKey: .abstract) ?? ""
        discussion = try container.decodeIfPresent(String.self, forKey: .discussion) ?? ""
        shouldDisplay = try container.decodeIfPresent(Bool.self, forKey: .shouldDisplay) ?? true
        subcommands = try container.decodeIfPresent([CommandDescription].self, forKey: .subcommands) ?? []
        arguments = try container.decodeIfPresent([Argument].self, forKey: .arguments) ?? []
        defaultSubcommand = try container.decodeIfPresent(String.self, forKey: .defaultSubcommand)
    }

    /// Makes a description.
    package init(
        _ name: String, abstract: String = "", discussion: String = "", arguments: [Argument] = [],
        subcommands: [CommandDescription] = [], defaultSubcommand: String? = nil, shouldDisplay: Bool = true,
        aliases: [String] = []
    ) {
        self.name = name
        self.aliases = aliases
        self.abstract = abstract
        self.discussion = discussion
        self.arguments = arguments
        self.subcommands = subcommands
        self.defaultSubcommand = defaultSubcommand
        self.shouldDisplay = shouldDisplay
    }

    /// Tells whether a word names it.
    package func isCalled(_ word: String) -> Bool { name == word || aliases.contains(word) }

    /// The arguments it takes by position, in order.
    package var positionals: [Argument] { arguments.filter { $0.kind == .positional } }

    /// The options that can be set in a file: all that have a name, but for help and the version.
    package var settable: [Argument] {
        arguments.filter { $0.kind != .positional && $0.key != nil && $0.key != "help" && $0.key != "version" }
    }

    /// The index of the argument that has this name, typed with its hyphens.
    package func index(named typed: some StringProtocol) -> Int? {
        arguments.firstIndex { argument in argument.names.contains { $0.typed == typed } }
    }

    /// The argument that goes by `key` in a settings file.
    package func settable(_ key: String) -> Argument? {
        settable.first { argument in argument.names.contains { $0.kind == "long" && $0.name == key } }
            ?? settable.first { $0.key == key }
    }

    /// Follows `words` down to the command they name.
    ///
    /// - Returns: the command, and how many of the words name it.
    package func find(_ words: some Collection<String>) -> (path: [String], command: CommandDescription) {
        var (path, command): ([String], CommandDescription) = ([], self)
        for word in words {
            guard let next = command.subcommands.first(where: { $0.isCalled(word) }) else { break }
            path.append(next.name)
            command = next
        }
        return (path, command)
    }

    /// Itself and every command below it, each with the words that lead there; without what help hides.
    package var all: [(path: [String], command: CommandDescription)] {
        [([], self)]
            + subcommands.filter { $0.shouldDisplay && $0.name != "help" }.flatMap { below in
                below.all.map { ([below.name] + $0.path, $0.command) }
            }
    }
}

extension CommandDescription.Argument {
    /// True when its value names a device.
    ///
    /// A convention: it is called so in help.
    package var namesDevice: Bool { kind != .flag && valueName == "device" && values == .any }

    /// True when the last of its values names a device, and those before it files of this one.
    ///
    /// A convention: it is called so in help.
    package var endsInDevice: Bool { kind == .positional && isRepeating && valueName == Self.filesThenDevice }

    /// The name in help of files and then a device.
    package static let filesThenDevice = "file-or-device"

    /// True when its value is `DEVICE:PATH`.
    package var namesRemotePath: Bool { values == .source(Self.remotePaths) }

    /// True when its value is the input of the method that stands before it.
    package var namesMethodInput: Bool { values == .source(Self.methodInputs) }

    /// The source that completes a method's input.
    package static let methodInputs = "kith complete --members"

    /// The source that completes `DEVICE:PATH`.
    package static let remotePaths = "kith complete --paths"
}
