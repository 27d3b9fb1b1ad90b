import Foundation

/// A page of the manual in mdoc(7), from the same description as `--help`.
package struct ManualPage: Hashable, Sendable {
    /// The name of its file, as `kith-cp.1`.
    package var fileName: String
    /// Its text.
    package var text: String

    /// All pages: one of the whole, and one of each command that help shows.
    ///
    /// `date` is written as `November 21, 2026`.
    package static func all(of root: CommandDescription, date: String) -> [ManualPage] {
        let pages = root.all
        return pages.map { path, command in
            var writer = Writer(root: root, path: path, command: command, date: date)
            // Above it, beside nothing, below it.
            let related = pages.filter { $0.path.count == path.count + 1 && $0.path.starts(with: path) }
            let above = path.isEmpty ? [] : [Array(path.dropLast())]
            writer.write(seeAlso: (above + related.map(\.path)).map { ([root.name] + $0).joined(separator: "-") })
            return ManualPage(fileName: writer.title + ".1", text: writer.text)
        }
    }
}

/// Writes one page.
private struct Writer {
    let root: CommandDescription
    let path: [String]
    let command: CommandDescription
    let date: String
    private var lines: [String] = []

    init(root: CommandDescription, path: [String], command: CommandDescription, date: String) {
        (self.root, self.path, self.command, self.date) = (root, path, command, date)
    }

    var title: String { ([root.name] + path).joined(separator: "-") }
    var text: String { lines.joined(separator: "\n") + "\n" }

    mutating func write(seeAlso: [String]) {
        macro("Dd", date)
        macro("Dt", title.uppercased() + " 1")
        macro("Os")
        macro("Sh", "NAME")
        macro("Nm", Self.word(title))
        macro("Nd", Self.word(Self.withoutStop(command.abstract)))
        writeSynopsis()
        let (paragraphs, examples) = Self.parts(of: command.discussion)
        macro("Sh", "DESCRIPTION")
        prose(command.abstract)
        for paragraph in paragraphs {
            macro("Pp")
            self.prose(paragraph)
        }
        writeSubcommands()
        writeOptions()
        if path.isEmpty { writeSurroundings() }
        if !examples.isEmpty {
            macro("Sh", "EXAMPLES")
            macro("Bd", "-literal")
            for line in examples { lines.append(Self.literal(line)) }
            macro("Ed")
        }
        guard !seeAlso.isEmpty else { return }
        macro("Sh", "SEE ALSO")
        let names = Set(seeAlso).sorted()
        for (place, name) in names.enumerated() {
            macro("Xr", "\(name) 1\(place == names.count - 1 ? "" : " ,")")
        }
    }

    private mutating func writeSynopsis() {
        macro("Sh", "SYNOPSIS")
        macro("Nm", Self.word(([root.name] + path).joined(separator: " ")))
        if !command.subcommands.isEmpty {
            macro("Ar", "command")
            macro("Op", "Ar argument ...")
            return
        }
        if command.arguments.contains(where: { $0.kind != .positional && $0.shouldDisplay }) {
            macro("Op", "Ar option ...")
        }
        for argument in command.positionals where argument.shouldDisplay {
            let dots = argument.isRepeating ? " ..." : ""
            let name = Self.word(argument.valueName)
            let terminator = argument.parsingStrategy == "postTerminator" ? "Fl - " : ""
            macro(
                argument.isOptional ? "Op" : "Ar", argument.isOptional ? "\(terminator)Ar \(name)\(dots)" : name + dots)
        }
    }

    private mutating func writeSubcommands() {
        let shown = command.subcommands.filter { $0.shouldDisplay && $0.name != "help" }
        guard !shown.isEmpty else { return }
        macro("Ss", "Commands")
        macro("Bl", "-tag -width Ds")
        for below in shown {
            macro("It", "Cm \(Self.word(below.name))")
            prose(below.abstract)
        }
        macro("El")
    }

    private mutating func writeOptions() {
        let shown = command.arguments.filter(\.shouldDisplay)
        guard !shown.isEmpty else { return }
        macro("Ss", "Options")
        macro("Bl", "-tag -width Ds")
        for argument in shown {
            if argument.kind == .positional {
                macro("It", "Ar \(Self.word(argument.valueName))")
            } else {
                let value = argument.kind == .option ? " Ar \(Self.word(argument.valueName))" : ""
                let names = argument.names.sorted { $0.kind > $1.kind }.map { name in
                    "Fl \(name.kind == "long" ? "\\-" : "")\(Self.word(name.name))\(value)"
                }
                macro("It", names.joined(separator: " , "))
            }
            prose(argument.abstract.isEmpty ? "See above." : argument.abstract)
            if let value = argument.defaultValue, !argument.abstract.contains("efault") {
                prose("The default is \(value).")
            }
        }
        macro("El")
    }

    private mutating func writeSurroundings() {
        macro("Sh", "ENVIRONMENT")
        macro("Bl", "-tag -width Ds")
        for (name, text) in [
            ("KITH_CONFIG", "The configuration file, in place of the two below."),
            ("KITH_DATA", "The data directory, as --data."),
            ("KITH_LIBRARY", "The library that commands are about, as --library; not those of other devices."),
            (
                "KITH_PASSPHRASE",
                "The passphrase that seals this device's key. Taken out of the environment at once; kith passphrase has "
                    + "better ways."
            ),
            ("KITH_PLAIN", "When not empty: no colours and no lines that change, as --plain."),
            ("NO_COLOR", "When not empty: no colours."),
            ("SSLKEYLOGFILE", "DANGEROUS: the file that gets every connection's secrets, as --key-log."),
        ] {
            macro("It", "Ev \(name)")
            prose(text)
        }
        macro("El")
        macro("Sh", "FILES")
        macro("Bl", "-tag -width Ds")
        for (name, text) in [
            ("~/.local/share/kith", "The data directory: this device's key, its devices, its audit log."),
            ("~/.local/share/kith/config", "The configuration file."),
            ("~/.config/kith/config", "The configuration file when there is none in the data directory."),
        ] {
            macro("It", "Pa \(name)")
            prose(text)
        }
        macro("El")
    }

    // MARK: - Roff

    private mutating func macro(_ name: String, _ arguments: String = "") {
        lines.append(arguments.isEmpty ? ".\(name)" : ".\(name) \(arguments)")
    }

    /// Running text: each sentence on lines of its own, none longer than 78 characters.
    private mutating func prose(_ text: String) {
        var line = ""
        func end(_ lines: inout [String]) {
            if !line.isEmpty { lines.append(Self.guarded(line)) }
            line = ""
        }
        for word in text.split(whereSeparator: \.isWhitespace) {
            let escaped = Self.escaped(word)
            if line.count + escaped.count > 77 { end(&lines) }
            line += (line.isEmpty ? "" : " ") + escaped
            if let last = word.last(where: { !")\"'".contains($0) }), ".!?".contains(last) { end(&lines) }
        }
        end(&lines)
    }

    /// A line that is shown as it is.
    static func literal(_ text: String) -> String { guarded(escaped(text[...])) }

    /// An argument of a macro: what would be taken for a macro itself, or for punctuation, is not.
    static func word(_ text: String) -> String {
        text.split(whereSeparator: \.isWhitespace).map { word in
            let escaped = escaped(word)
            // Two or three letters might be a macro's name, and a mark alone is set apart.
            let isCallable = (1...3).contains(word.count)
            return isCallable || word.last.map { ".,:;()[]?!|".contains($0) } == true && word.count == 1
                ? "\\&" + escaped : escaped
        }.joined(separator: " ")
    }

    private static func escaped(_ text: Substring) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "\\": result += "\\e"
            case "-": result += "\\-"
            case "`": result += "\\(ga"
            case "^": result += "\\(ha"
            case "~": result += "\\(ti"
            case "'": result += "\\(aq"
            case "\"": result += "\\(dq"
            default:
                if let scalar = character.unicodeScalars.first, !character.isASCII {
                    result += "\\[u\(String(format: "%04X", scalar.value))]"
                } else {
                    result.append(character)
                }
            }
        }
    }

    /// A line that begins no request.
    private static func guarded(_ line: String) -> String {
        line.hasPrefix(".") ? "\\&" + line : line
    }

    private static func withoutStop(_ text: String) -> String { text.hasSuffix(".") ? String(text.dropLast()) : text }

    /// A discussion in its paragraphs and its examples: the lines that begin with blanks.
    static func parts(of discussion: String) -> (prose: [String], examples: [String]) {
        var prose: [String] = []
        var examples: [String] = []
        var paragraph: [Substring] = []
        for line in discussion.split(separator: "\n", omittingEmptySubsequences: false) + [Substring()] {
            if line.hasPrefix("  ") {
                examples.append(String(line.dropFirst(2)))
            } else if line.isEmpty {
                if !paragraph.isEmpty { prose.append(paragraph.joined(separator: " ")) }
                paragraph = []
            } else {
                paragraph.append(line)
            }
        }
        return (prose, examples)
    }
}
