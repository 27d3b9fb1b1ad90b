internal import KithCommandLine

/// A file of settings, and a command line they are put into.
enum FuzzedSettings {
    private static let device = CommandDescription.Argument(
        .positional, valueName: "device", values: .source("devices"))

    /// A command of each kind of argument there is, with one below it.
    private static let command = CommandDescription(
        "kith",
        arguments: [
            CommandDescription.Argument(.flag, names: [.init(kind: "long", name: "verbose")]),
            CommandDescription.Argument(
                .option, names: [.init(kind: "long", name: "data"), .init(kind: "short", name: "d")],
                defaultValue: "/tmp", values: .folder),
        ],
        subcommands: [
            CommandDescription(
                "shell",
                arguments: [
                    device,
                    CommandDescription.Argument(
                        .flag, names: [.init(kind: "long", name: "quiet"), .init(kind: "long", name: "no-quiet")]),
                    CommandDescription.Argument(
                        .option, names: [.init(kind: "long", name: "env"), .init(kind: "short", name: "e")],
                        isRepeating: true),
                    CommandDescription.Argument(
                        .option, names: [.init(kind: "long", name: "sharing")], values: .words(["none", "view"])),
                    CommandDescription.Argument(
                        .positional, isRepeating: true, parsingStrategy: "allRemainingInput"),
                ],
                subcommands: [CommandDescription("list", arguments: [device])])
        ])

    /// The first line is a command line, the rest a file.
    static func run(_ bytes: [UInt8]) {
        let lines = bytes.prefix(4_096).split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = lines.first else { return }
        let words = first.split(separator: 0x20).prefix(16).map { String(decoding: $0, as: UTF8.self) }
        survives(String(decoding: first, as: UTF8.self))
        let text = lines.count > 1 ? String(decoding: lines[1], as: UTF8.self) : ""
        guard let settings = try? Configuration(parsing: text) else { return }  // a problem is an answer
        let count = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).count
        for problem in settings.problems(for: command) {
            precondition((0...count).contains(problem.line), "A problem is of a line of the file")
        }
        _ = settings.aliases
        let (path, found) = command.find(words)
        let rest = Array(words.dropFirst(path.count))
        for environment in [[:], ["KITH_DATA": "/"]] {
            guard let applied = try? settings.apply(to: rest, path: path, command: found, environment: environment)
            else { continue }
            precondition(applied.words.count >= applied.inserted.count, "What was put in is there")
            _ = settings.effects(on: words.last, path: path, command: found, environment: environment)
        }
        for device in Configuration.devices(in: rest, of: found) { _ = settings.meaning(of: device) }
    }

    /// Whatever a value is, it can be written in a file.
    private static func survives(_ value: String) {
        // Other line breaks end the line, quotes or not; tabs and line feeds have a way to be written.
        guard !value.contains(where: { $0.isNewline && $0 != "\n" }) else { return }
        let written = try? Configuration(parsing: "key = \(Configuration.quoted(value))")
        precondition(written?.sections.first?.settings.first?.value == value, "A quoted value survives")
    }
}
