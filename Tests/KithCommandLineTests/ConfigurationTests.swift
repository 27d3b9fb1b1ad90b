import Testing

@testable import KithCommandLine

@Suite struct ConfigurationTests {
    @Test func `comments, quotes and blanks are read as written`() throws {
        let configuration = try Configuration(
            parsing: """
                # on top
                  verbose = yes   # behind
                name="a # b" # after quotes
                colour = a#b

                [shell]
                ; also a comment
                env = "tab\\tquote\\"back\\\\"
                env = LANG
                escape =
                [device work  lab-*]
                cp.quiet = on
                """)
        #expect(configuration.sections.map(\.scope) == [.everything, .command(["shell"]), .device(["work", "lab-*"])])
        #expect(configuration.sections[0].settings.map(\.value) == ["yes", "a # b", "a#b"])
        #expect(configuration.sections[1].settings.map(\.value) == ["tab\tquote\"back\\", "LANG", ""])
        #expect(configuration.sections[1].settings.map(\.line) == [8, 9, 10])
        #expect(configuration.sections[2].settings.first?.command == ["cp"])
        #expect(configuration.aliases == ["work"])
    }

    @Test(arguments: ["\u{5A4}app", "a\\\u{301}", "\"\u{20E0}#", "e\u{301} # x"])
    func `a mark that combines with a quote or a backslash hides neither`(value: String) throws {
        let settings = try Configuration(parsing: "key = \(Configuration.quoted(value)) #\u{301} a comment")
        #expect(settings.sections.first?.settings.first?.value == value)
    }

    @Test func `lines of Windows and the last line without an end are lines`() throws {
        let configuration = try Configuration(parsing: "a = 1\r\n[x]\r\nb = 2")
        #expect(configuration.sections.flatMap(\.settings).map(\.line) == [1, 3])
        #expect(configuration.sections.flatMap(\.settings).map(\.value) == ["1", "2"])
    }

    @Test(arguments: [
        ("quiet", 1), ("\nquiet yes = 1", 2), ("[shell", 1), ("[]", 1), ("[device]", 1), ("[a] b", 1), ("= x", 1),
        ("a = \"open", 1), ("a = \"x\" y", 1), ("a = \"\\q\"", 1), ("a = \"\\", 1),
    ])
    func `a line that cannot be read is named`(text: String, line: Int) {
        let problem = #expect(throws: Configuration.Problem.self) { try Configuration(parsing: text) }
        #expect(problem?.line == line)
    }

    @Test(arguments: [
        ("work", ["work"], true), ("work", ["wor?"], true), ("work", ["w*k"], true), ("WORK", ["work"], true),
        ("work", ["*", "!work"], false), ("lab-7", ["lab-*", "!lab-9"], true), ("lab-9", ["lab-*", "!lab-9"], false),
        ("", ["*"], true), ("work", ["!home"], false), ("work", ["work?"], false), ("aaab", ["*aab"], true),
    ])
    func `patterns match as in ssh_config`(name: String, patterns: [String], expected: Bool) {
        #expect(Configuration.matches(name, patterns) == expected)
    }

    @Test func `a pattern of many stars takes no time`() {
        let pattern = String(repeating: "a*", count: 2_000) + "b"
        #expect(!Configuration.matches(String(repeating: "a", count: 4_000), [pattern]))
    }

    @Test func `an unknown key names its line and the nearest one`() throws {
        let configuration = try Configuration(
            parsing: """
                qiuet = yes
                [shell]
                directroy = /srv
                recursive = yes
                [shel]
                [device *]
                cp.dirctory = /
                up.port = 1
                """)
        let problems = configuration.problems(for: Sample.root)
        #expect(problems.map(\.line) == [1, 3, 4, 5, 7, 8])
        #expect(problems[0].message.contains("“quiet”?"))
        #expect(problems[1].message.contains("“directory”?"))
        #expect(problems[2].message.contains("[cp]"))
        #expect(problems[3].message.contains("“shell”?"))
        #expect(problems[5].message.contains("takes a device"))
    }

    @Test func `a value set twice, a flag that is neither, a name that is a path: each is a mistake`() throws {
        let configuration = try Configuration(
            parsing:
                "[shell]\ndirectory = /a\ndirectory = /b\nterminal = maybe\nenv = A\nenv = B\n[device x]\ndevice = a:b")
        #expect(configuration.problems(for: Sample.root).map(\.line) == [3, 4, 8])
    }

    @Test func `letters swapped and underscores are near, other words are not`() {
        let keys = ["directory", "no-preserve", "quiet"]
        #expect(Configuration.nearest(to: "no_preserve", among: keys) == "no-preserve")
        #expect(Configuration.nearest(to: "qiuet", among: keys) == "quiet")
        #expect(Configuration.nearest(to: "bandwidth", among: keys) == nil)
        #expect(Configuration.nearest(to: "x", among: []) == nil)
    }

    // MARK: - Applying

    private func words(
        _ text: String, _ path: [String], _ words: [String], environment: [String: String] = [:]
    ) throws -> [String] {
        let configuration = try Configuration(parsing: text)
        return try configuration.apply(
            to: words, path: path, command: Sample.root.find(path).command, environment: environment
        ).words
    }

    @Test func `the command line counts before the device's section, that before the command's, that before all`()
        throws
    {
        let text = """
            quiet = yes
            directory = /top
            [shell]
            directory = /command
            env = A
            env = B
            [device work]
            directory = /device
            """
        #expect(
            try words(text, ["shell"], ["home"]) == ["--directory=/command", "--env=A", "--env=B", "--quiet", "home"])
        #expect(try words(text, ["shell"], ["work"]).first == "--directory=/device")
        #expect(
            try words(text, ["shell"], ["work", "--directory", "/mine"]) == [
                "--env=A", "--env=B", "--quiet", "work", "--directory", "/mine",
            ])
        #expect(
            try words(text, ["shell"], ["-C", "/x", "work"]) == ["--env=A", "--env=B", "--quiet", "-C", "/x", "work"])
        #expect(
            try words(text, ["shell"], ["--env=C", "home"]) == ["--directory=/command", "--quiet", "--env=C", "home"])
    }

    @Test func `the environment counts before the file`() throws {
        #expect(try words("data = /a", ["up"], []) == ["--data=/a"])
        #expect(try words("data = /a", ["up"], [], environment: ["KITH_DATA": "/b"]) == [])
        #expect(try words("data = /a", ["up"], [], environment: ["KITH_DATA": ""]) == ["--data=/a"])
    }

    @Test func `another name for a device is replaced where a device stands, and nowhere else`() throws {
        let text = "[device work]\ndevice = laptop\n[device lab-*]\ndevice = server"
        #expect(try words(text, ["shell"], ["work", "--", "work"]) == ["laptop", "--", "work"])
        #expect(try words(text, ["shell"], ["-C", "work", "work"]) == ["-C", "work", "laptop"])
        #expect(
            try words(text, ["cp"], ["work:/a:b", "work", "./work:x", "lab-3:"]) == [
                "laptop:/a:b", "work", "./work:x", "server:",
            ])
        #expect(try words(text, ["call"], ["m", "--on", "work"]) == ["m", "--on", "laptop"])
        #expect(try words(text, ["call"], ["work", "--on=work"]) == ["work", "--on=laptop"])
    }

    @Test func `a device's settings hold for the commands that have them, or for one`() throws {
        let text = "[device work]\ncp.quiet = yes\nrecursive = yes"
        #expect(try words(text, ["cp"], ["work:/a", "."]) == ["--quiet", "--recursive", "work:/a", "."])
        #expect(try words(text, ["shell"], ["work"]) == ["work"])
        #expect(try words(text, ["cp"], ["home:/a", "work:/b"]) == ["--quiet", "--recursive", "home:/a", "work:/b"])
        #expect(try words(text, ["cp"], ["./work:/a", "."]) == ["./work:/a", "."])
    }

    @Test func `a no of the command line takes back a yes of the file`() throws {
        #expect(try words("quiet = yes", ["cp"], ["--quiet=no", "a", "b"]) == ["a", "b"])
        #expect(try words("", ["cp"], ["--quiet=yes", "a", "b"]) == ["--quiet", "a", "b"])
        #expect(try words("colour = no", ["up"], []) == ["--no-colour"])
        #expect(try words("colour = no", ["up"], ["--colour"]) == ["--colour"])
        #expect(try words("", ["up"], ["--colour=no"]) == ["--no-colour"])
    }

    @Test func `a value that begins with a hyphen stays a value`() throws {
        #expect(try words("[shell]\ndirectory = --json", ["shell"], ["x"]) == ["--directory=--json", "x"])
    }

    @Test func `a section of several words is for the command below`() throws {
        let text = "[service install]\nname = one\n[service]\nname = two"
        #expect(try words(text, ["service", "install"], []) == ["--name=one"])
    }

    @Test func `effects say where each value comes from`() throws {
        let configuration = try Configuration(parsing: "[shell]\nescape = %\n[device work]\ndevice = laptop")
        let effects = configuration.effects(
            on: "work", path: ["shell"], command: Sample.root.find(["shell"]).command, environment: ["KITH_DATA": "/d"])
        let origins = Dictionary(effects.map { ($0.key, $0.origin) }) { first, _ in first }
        #expect(origins["device"] == .file(line: 4))
        #expect(origins["escape"] == .file(line: 2))
        #expect(origins["data"] == .environment("KITH_DATA"))
        #expect(origins["directory"] == .standard)
    }

    @Test func `every setting of the example is one there is`() throws {
        let example = Configuration.example(for: Sample.root, path: "config")
        #expect(try Configuration(parsing: example).sections.flatMap(\.settings).isEmpty)
        let lines = example.split(separator: "\n").map { line in
            // A setting is commented out without a blank, an explanation with one.
            line.hasPrefix("#") && !line.hasPrefix("# ") && line.contains(" = ")
                ? String(line.dropFirst()) : String(line)
        }
        let configuration = try Configuration(parsing: lines.joined(separator: "\n"))
        #expect(configuration.sections.flatMap(\.settings).count > 8)
        #expect(configuration.problems(for: Sample.root).isEmpty)
    }
}

/// A command line like Kith's, small.
enum Sample {
    typealias Argument = CommandDescription.Argument

    static func long(_ name: String, _ short: String? = nil) -> [Argument.Name] {
        (short.map { [Argument.Name(kind: "short", name: $0)] } ?? []) + [Argument.Name(kind: "long", name: name)]
    }

    static let common = [
        Argument(.option, names: long("data"), valueName: "dir", abstract: "The folder.", values: .folder),
        Argument(.flag, names: long("json"), abstract: "Print JSON."),
        Argument(.flag, names: long("quiet", "q"), abstract: "Say nothing."),
        Argument(.flag, names: long("help", "h"), abstract: "Help."),
    ]
    static let paths = Argument(
        .positional, valueName: "paths", isOptional: false, isRepeating: true, abstract: "What, then where to.",
        values: .source(Argument.remotePaths))
    static let device = Argument(.positional, valueName: "device", isOptional: false, abstract: "The device.")

    static let root = CommandDescription(
        "kith", abstract: "A network of devices.", arguments: [common[3]],
        subcommands: [
            CommandDescription(
                "up", abstract: "Start.",
                arguments: common + [
                    Argument(.option, names: long("port"), abstract: "The port."),
                    Argument(.flag, names: long("colour")), Argument(.flag, names: long("no-colour")),
                ]),
            CommandDescription(
                "shell", abstract: "Open a shell.", discussion: "  kith shell laptop\n\nMore to say.",
                arguments: common + [
                    Argument(.flag, names: long("terminal", "t"), abstract: "A terminal."),
                    Argument(.option, names: long("directory", "C"), abstract: "Where. Default: home."),
                    Argument(.option, names: long("env"), isRepeating: true, abstract: "A variable."),
                    Argument(.option, names: long("escape", "e"), defaultValue: "~", abstract: "The escape."),
                    device,
                    Argument(
                        .positional, valueName: "command", isRepeating: true, parsingStrategy: "postTerminator"),
                ]),
            CommandDescription(
                "cp", abstract: "Copy.",
                arguments: common + [
                    Argument(.flag, names: long("recursive", "r"), abstract: "Folders too."),
                    Argument(
                        .option, names: long("when"), abstract: "When.", values: .words(["now", "later", "never ever"])),
                    paths,
                ]),
            CommandDescription(
                "call", abstract: "Call a method.",
                arguments: common + [
                    Argument(.positional, valueName: "method", isOptional: false),
                    Argument(
                        .positional, valueName: "input",
                        values: .source(CommandDescription.Argument.methodInputs)),
                    Argument(.option, names: long("on"), valueName: "device", abstract: "The device."),
                ]),
            CommandDescription(
                "service", abstract: "Services.",
                subcommands: [
                    CommandDescription(
                        "install", abstract: "Install.",
                        arguments: common + [
                            Argument(.option, names: long("name"), defaultValue: "kith", abstract: "Name.")
                        ])
                ]),
            CommandDescription("complete", arguments: common, shouldDisplay: false),
        ])
}
