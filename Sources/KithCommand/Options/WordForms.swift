import ArgumentParser
import Foundation

/// Forms of words on the command line that the parser has no way to say, put into ones it has.
///
/// `up --web` is `up --web yes`; `head -20` is `head -n 20`; `cp -avz` is `cp -aiz`; the tests of `find`, as soon as it matters how they are joined, become one word that says so.
enum WordForms {
    /// The words for the parser.
    ///
    /// - Throws: `ValidationError` for an `-exec` without an end.
    static func understood(_ words: [String]) throws -> [String] {
        switch words.first {
        case "head", "tail": counted(words)
        case "find": try joined(words)
        case "cp", "sync": transferring(words)
        case "up": withWebValue(words)
        default: words
        }
    }

    /// `--web` with nothing behind it as `--web yes`.
    private static func withWebValue(_ words: [String]) -> [String] {
        words.indices.flatMap { index -> [String] in
            let next = index + 1 < words.count ? words[index + 1] : nil
            let hasValue = next.map { !$0.hasPrefix("-") } ?? false
            return words[index] == "--web" && !hasValue ? ["--web", "yes"] : [words[index]]
        }
    }

    /// `-20` as `-n 20`, `-20f` as `-n 20 -f`.
    private static func counted(_ words: [String]) -> [String] {
        var result: [String] = []
        var isOver = false
        for word in words {
            isOver = isOver || word == "--"
            // What stands behind these is theirs, whatever it looks like.
            let isValue = ["-n", "-c", "--lines", "--bytes", "--data"].contains(result.last ?? "")
            let digits = word.dropFirst().prefix { $0.isASCII && $0.isNumber }
            let rest = word.dropFirst(1 + digits.count)
            guard !isOver, !isValue, word.first == "-", !digits.isEmpty, rest.allSatisfy({ "fFq".contains($0) }) else {
                result.append(word)
                continue
            }
            result += ["-n", String(digits)]
            if !rest.isEmpty { result.append("-" + rest) }
        }
        return result
    }

    /// Those in front of a `--`, without the values of options.
    private static func transferring(_ words: [String]) -> [String] {
        let valued = [
            "--exclude", "--exclude-from", "--limit", "--parallel", "--retry-for", "--compress", "--on-conflict",
            "--confirm", "--data", "--qlog", "--key-log", "--passphrase-fd",
        ]
        var isOver = false
        return words.indices.map { index in
            isOver = isOver || words[index] == "--"
            let isValue = index > 0 && valued.contains(words[index - 1])
            return isOver || isValue ? words[index] : transferring(words[index])
        }
    }

    /// `-avz` as `-aiz`: a `v` among other letters asks for names, as rsync's; alone it is the log of every command.
    private static func transferring(_ word: String) -> String {
        let letters = word.dropFirst()
        guard word.hasPrefix("-"), letters.count > 1, letters.contains("v"),
            letters.allSatisfy({ "avzrRpinucqHWX".contains($0) })
        else { return word }
        return "-" + letters.map { $0 == "v" ? "i" : String($0) }.joined()
    }

    /// The tests and what joins them as `--expression`, and what is to be run as `--each` or `--together`.
    private static func joined(_ words: [String]) throws -> [String] {
        var rest: [String] = []
        var expression: [String] = []
        var commands: [String] = []
        var isJoined = false
        var at = 1
        while at < words.count, words[at] != "--" {
            let word = words[at]
            at += 1
            if FindExpression.operators.contains(word) {
                expression.append(word)
                isJoined = true
            } else if FindExpression.tests.contains(word), at < words.count {
                expression += [word, words[at]]
                at += 1
            } else if word == "-exec" {
                var command: [String] = []
                while at < words.count, words[at] != ";", !(words[at] == "+" && command.last == "{}") {
                    command.append(words[at])
                    at += 1
                }
                guard at < words.count, !command.isEmpty, command.first != "{}" else {
                    throw ValidationError("-exec takes a command with ';' behind it, or with {} + at its end.")
                }
                guard commands.isEmpty else { throw ValidationError("-exec can be given only once.") }
                let isTogether = words[at] == "+"
                commands = [isTogether ? "--together" : "--each", try text(isTogether ? command.dropLast() : command)]
                isJoined = true
                at += 1
            } else if word == "-print" {
                rest.append("--print")
                isJoined = true
            } else {
                rest.append(word)
            }
        }
        guard isJoined else { return words }
        if !expression.isEmpty { commands += ["--expression", try text(expression)] }
        return ["find"] + commands + rest + words[at...]
    }

    private static func text(_ words: [String]) throws -> String {
        String(decoding: try JSONEncoder().encode(words), as: UTF8.self)
    }

    /// The words of such a text.
    static func words(_ text: String?) throws -> [String] {
        guard let text else { return [] }
        return try JSONDecoder().decode([String].self, from: Data(text.utf8))
    }
}
