/// The settings a person keeps in a file: defaults for commands, and other names for devices.
///
/// ```
/// # A comment; blank lines are free.
/// verbose = yes             # before the first section: for every command
///
/// [shell]                   # for one command; [service install] for one below another
/// env = TZ
///
/// [device work lab-*]       # for a device when it is named so; * and ? stand for anything, !lab-9 takes one out
/// device = laptop           # what is meant by that name
/// directory = "/srv/my app"
/// cp.quiet = yes            # only for one command
/// ```
///
/// A key is the long name of an option. Flags are `yes` or `no`; an option that may be repeated is set once per line.
package struct Configuration: Hashable, Sendable {
    /// Whom settings are for.
    package enum Scope: Hashable, Sendable {
        /// Every command.
        case everything
        /// The command these words lead to.
        case command([String])
        /// Devices whose name, as typed, matches one of the patterns and none of those with an exclamation mark.
        case device([String])

        /// The text as it stands in a file.
        package var text: String {
            switch self {
            case .everything: "before the first section"
            case .command(let path): "[\(path.joined(separator: " "))]"
            case .device(let patterns): "[device \(patterns.joined(separator: " "))]"
            }
        }
    }

    /// One line of a section.
    package struct Setting: Hashable, Sendable {
        /// The command it is limited to, in a device's section.
        package var command: [String]?
        /// The long name of the option; `device` in a device's section.
        package var key: String
        /// Its value, without quotes.
        package var value: String
        /// The line, from 1.
        package var line: Int
    }

    /// Settings for the same.
    package struct Section: Hashable, Sendable {
        /// Whom they are for.
        package var scope: Scope
        /// The line of its heading, from 1; 0 before the first heading.
        package var line: Int
        /// In the order of the file.
        package var settings: [Setting] = []
    }

    /// A fault of a line.
    package struct Problem: Error, Hashable, Sendable {
        /// The line, from 1.
        package var line: Int
        /// The fault and the remedy, in a sentence.
        package var message: String

        /// Makes a problem.
        package init(line: Int, message: String) {
            self.line = line
            self.message = message
        }
    }

    /// The largest file read, in bytes.
    package static let sizeLimit = 1 << 20

    /// The sections in the order of the file.
    package private(set) var sections: [Section] = []

    /// No settings at all.
    package init() {}

    /// Reads a file's text.
    ///
    /// - Throws: the first line that cannot be read. Whether keys exist is for ``problems(for:)``.
    package init(parsing text: String) throws(Problem) {
        var section = Section(scope: .everything, line: 0)
        var number = 0
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            number += 1
            // By scalars: a mark that combines with a quote or a # must not hide it.
            let content = Self.trim(line.unicodeScalars)
            if content.isEmpty || content.first == "#" || content.first == ";" { continue }
            if content.first == "[" {
                if !section.settings.isEmpty || section.line > 0 { sections.append(section) }
                section = Section(scope: try Self.heading(content, number), line: number)
            } else {
                section.settings.append(try Self.setting(content, number, in: section.scope))
            }
        }
        if !section.settings.isEmpty || section.line > 0 { sections.append(section) }
    }

    private static func trim(_ text: Substring.UnicodeScalarView) -> Substring.UnicodeScalarView {
        var text = text.drop { $0.properties.isWhitespace }
        while text.last?.properties.isWhitespace == true { text.removeLast() }
        return text
    }

    private static func heading(_ text: Substring.UnicodeScalarView, _ line: Int) throws(Problem) -> Scope {
        guard let end = text.firstIndex(of: "]") else {
            throw Problem(line: line, message: "a section's heading ends with ]")
        }
        let rest = trim(text[text.index(after: end)...])
        guard rest.isEmpty || rest.first == "#" else {
            throw Problem(line: line, message: "nothing follows the ] of a heading")
        }
        let words = text[..<end].dropFirst().split(whereSeparator: \.properties.isWhitespace)
            .map { String($0) }
        guard let first = words.first else {
            throw Problem(line: line, message: "a heading names a command, as [shell], or a device, as [device NAME]")
        }
        guard first == "device" else { return .command(words) }
        guard words.count > 1 else {
            throw Problem(line: line, message: "say which device: [device NAME]; [device *] stands for all")
        }
        return .device(Array(words.dropFirst()))
    }

    private static func setting(_ text: Substring.UnicodeScalarView, _ line: Int, in scope: Scope) throws(Problem)
        -> Setting
    {
        guard let equals = text.firstIndex(of: "=") else {
            throw Problem(line: line, message: "a setting is written KEY = VALUE; this line has no =")
        }
        var key = String(trim(text[..<equals]))
        guard !key.isEmpty, !key.contains(where: \.isWhitespace) else {
            throw Problem(line: line, message: "a setting is written KEY = VALUE, with one word before the =")
        }
        while key.hasPrefix("-") { key.removeFirst() }
        var command: [String]?
        if case .device = scope, let dot = key.lastIndex(of: ".") {
            command = key[..<dot].split(separator: ".").map(String.init)
            key = String(key[key.index(after: dot)...])
        }
        let value = try value(trim(text[text.index(after: equals)...]), line)
        return Setting(command: command, key: key, value: value, line: line)
    }

    /// A value without its quotes and without the comment behind it.
    private static func value(_ text: Substring.UnicodeScalarView, _ line: Int) throws(Problem) -> String {
        guard text.first == "\"" else {
            // A # begins a comment only after a blank, so that colours and fragments need no quotes.
            var end = text.startIndex
            var previous: Unicode.Scalar = " "
            while end < text.endIndex, !(text[end] == "#" && previous.properties.isWhitespace) {
                previous = text[end]
                end = text.index(after: end)
            }
            return String(trim(text[..<end]))
        }
        var result = String.UnicodeScalarView()
        var index = text.index(after: text.startIndex)
        while index < text.endIndex, text[index] != "\"" {
            if text[index] == "\\" {
                index = text.index(after: index)
                guard index < text.endIndex else { break }
                switch text[index] {
                case "\\", "\"": result.append(text[index])
                case "n": result.append("\n")
                case "t": result.append("\t")
                default:
                    throw Problem(line: line, message: "\\\(text[index]) means nothing; write \\\\ for a backslash")
                }
            } else {
                result.append(text[index])
            }
            index = text.index(after: index)
        }
        guard index < text.endIndex else { throw Problem(line: line, message: "the quotes are not closed") }
        let rest = trim(text[text.index(after: index)...])
        guard rest.isEmpty || rest.first == "#" else {
            throw Problem(line: line, message: "nothing but a comment follows the closing quotes")
        }
        return String(result)
    }

    /// `yes` and its kin; `nil` when it is neither yes nor no.
    package static func boolean(_ value: some StringProtocol) -> Bool? {
        switch value.lowercased() {
        case "yes", "true", "on", "1": true
        case "no", "false", "off", "0": false
        default: nil
        }
    }

    /// Tells whether `name` is one of those `patterns` mean.
    package static func matches(_ name: String, _ patterns: [String]) -> Bool {
        var isMatch = false
        for pattern in patterns {
            if pattern.hasPrefix("!") {
                if matches(name, pattern: String(pattern.dropFirst())) { return false }
            } else if matches(name, pattern: pattern) {
                isMatch = true
            }
        }
        return isMatch
    }

    /// Tells whether `name` matches one pattern of `*`, `?` and letters; case does not count.
    ///
    /// Takes time in proportion to the product of both lengths, whatever the pattern.
    private static func matches(_ name: String, pattern: String) -> Bool {
        let (name, pattern) = (Array(name.lowercased()), Array(pattern.lowercased()))
        var (position, wanted) = (0, 0)
        var star: (wanted: Int, position: Int)?
        while position < name.count {
            if wanted < pattern.count, pattern[wanted] == "*" {
                star = (wanted, position)
                wanted += 1
            } else if wanted < pattern.count, pattern[wanted] == "?" || pattern[wanted] == name[position] {
                wanted += 1
                position += 1
            } else if let last = star {
                star = (last.wanted, last.position + 1)
                (wanted, position) = (last.wanted + 1, last.position + 1)
            } else {
                return false
            }
        }
        return pattern[wanted...].allSatisfy { $0 == "*" }
    }

    /// The names of devices that are made here, for completion: those without a pattern's characters.
    package var aliases: [String] {
        var result: [String] = []
        for section in sections {
            guard case .device(let patterns) = section.scope else { continue }
            for name in patterns where !name.contains(where: { "*?!".contains($0) }) && !result.contains(name) {
                result.append(name)
            }
        }
        return result
    }
}
