/// A command line of bash up to the cursor, taken apart by its rules of quoting (POSIX XCU §2.2).
///
/// Bash itself gives completion functions words that it has cut at colons, and with their quotes.
package struct ShellLine: Hashable, Sendable {
    /// The words before the one the cursor is in, without quotes.
    package private(set) var words: [String] = []
    /// The word the cursor is in, without quotes.
    package private(set) var current = ""
    /// The same as typed.
    package private(set) var rawCurrent = ""
    /// The quotes that are open at the cursor.
    package private(set) var openQuote: Character?

    /// Takes `line` apart.
    package init(_ line: String) {
        var isInWord = false
        var isEscaped = false
        for character in line {
            if isEscaped {
                // Within double quotes a backslash is itself before most characters.
                if openQuote == "\"", !"\"\\$`".contains(character) { current.append("\\") }
                current.append(character)
                rawCurrent.append(character)
                isEscaped = false
            } else if character == "\\", openQuote != "'" {
                isEscaped = true
                isInWord = true
                rawCurrent.append(character)
            } else if let quote = openQuote {
                rawCurrent.append(character)
                if character == quote { openQuote = nil } else { current.append(character) }
            } else if character == "'" || character == "\"" {
                openQuote = character
                isInWord = true
                rawCurrent.append(character)
            } else if character.isWhitespace {
                if isInWord { words.append(current) }
                current = ""
                rawCurrent = ""
                isInWord = false
            } else {
                isInWord = true
                current.append(character)
                rawCurrent.append(character)
            }
        }
    }

    /// The text for bash to put in place of `replaced`, the end of the current word that readline takes for the whole
    /// of it.
    ///
    /// - Returns: the rest of `word` with the quotes it needs there; `nil` when it does not go on from what is typed.
    package func replacement(for candidate: Completion.Candidate, replacing replaced: String) -> String? {
        let raw = rawCurrent.hasSuffix(replaced) ? String(rawCurrent.dropLast(replaced.count)) : ""
        let kept = ShellLine(raw)
        guard candidate.word.hasPrefix(kept.current) else { return nil }
        let rest = candidate.word.dropFirst(kept.current.count)
        switch openQuote {
        case "'": return rest.reduce(into: "") { $0 += $1 == "'" ? "'\\''" : String($1) }
        case "\"": return rest.reduce(into: "") { $0 += "\"\\$`".contains($1) ? "\\\($1)" : String($1) }
        default:
            // A tilde in front is left to the shell where it was typed so.
            let tilde = raw.isEmpty && rest.hasPrefix("~/") && replaced.hasPrefix("~") ? "~/" : ""
            return tilde + Self.escaped(rest.dropFirst(tilde.count)) + (candidate.isPartial ? "" : " ")
        }
    }

    /// A text with a backslash before all that means something to a shell.
    private static func escaped(_ text: Substring) -> String {
        var result = ""
        for (place, character) in text.enumerated() {
            if " !\"#$&'()*;<>?[\\]^`{|}".contains(character) || (character == "~" && place == 0) { result += "\\" }
            result.append(character)
        }
        return result
    }
}
