extension SearchQuery: CustomStringConvertible {
    /// The query in the language of ``help``.
    ///
    /// Reading it gives an equal query, at any time and place (dates are written as seconds since 1970), when this one
    /// was read and the text keeps within ``lengthLimit``.
    package var description: String {
        let keys = sort.map { ($0.isDescending ? "-" : "") + $0.field.rawValue }
        let words = (condition == .everything ? [] : [condition.text(within: .all)])
        return (words + (keys.isEmpty ? [] : ["sort:" + keys.joined(separator: ",")])).joined(separator: " ")
    }
}

extension Condition: CustomStringConvertible {
    /// The condition in the language of ``SearchQuery/help``.
    package var description: String { text(within: .all) }

    /// What a condition stands in, and so when it needs parentheses.
    fileprivate enum Surroundings {
        /// Nothing, or words side by side.
        case all
        /// Words with `OR` between them.
        case any
        /// A negation.
        case not
    }

    fileprivate func text(within surroundings: Surroundings, isPart: Bool = false) -> String {
        switch self {
        case .everything: return "\"\""
        case .all(let parts):
            let text = parts.map { $0.text(within: .all, isPart: true) }.joined(separator: " ")
            return surroundings == .not ? "(\(text))" : text
        case .any(let parts):
            let text = parts.map { $0.text(within: .any) }.joined(separator: " OR ")
            return surroundings == .not || isPart ? "(\(text))" : text
        case .not(let part):
            let text = part.text(within: .not)
            // Before these a hyphen is text, whatever marks follow them.
            let first = text.unicodeScalars.first
            return first == "~" || first == "/" ? "-\"\(text)\"" : "-" + text
        case .term(let term): return term.description
        }
    }
}

extension Term: CustomStringConvertible {
    /// The term in the language of ``SearchQuery/help``.
    package var description: String {
        switch self {
        case .name(let match): match.description
        case .path(let text): "path:" + Self.quoted(text)
        case .inFolder(let folder): "in:" + Self.quoted(folder)
        case .category(let categories): "kind:" + categories.map(\.rawValue).sorted().joined(separator: ",")
        case .entry(let kind): "is:" + kind.rawValue
        case .fileExtension(let extensions): "ext:" + extensions.sorted().map(Self.quoted).joined(separator: ",")
        case .size(let range): "size:" + Self.range(range.from, range.through)
        case .date(let field, let range):
            "\(field.rawValue):" + Self.range(range.from.map { "@\($0)" }, range.until.map { "@\($0 - 1)" })
        case .tag(let tag, let includesDescendants): "tag:" + (includesDescendants ? "" : "=") + Self.quoted(tag)
        case .untagged: "is:untagged"
        case .location(let name): "location:" + Self.quoted(name)
        case .device(let name): "device:" + Self.quoted(name)
        case .flag(let flag): "is:" + flag.rawValue
        case .rating(let range): "rating:" + Self.range(range.lowerBound, range.upperBound)
        case .note(let text): "note:" + Self.quoted(text)
        case .content(let text): "content:" + Self.quoted(text)
        case .measure(.duration, let range):
            // Read back, a second takes in all of its thousandths.
            "duration:" + Self.range(range.from.map { "\($0 / 1_000)s" }, range.through.map { "\($0 / 1_000)s" })
        case .measure(let measure, let range): "\(measure.rawValue):" + Self.range(range.from, range.through)
        case .camera(let text): "camera:" + Self.quoted(text)
        case .has(let feature): "has:" + feature.rawValue
        }
    }

    /// `2..5`, `>=2`, `<=5` or, without bounds, `>=0`.
    private static func range<Number: CustomStringConvertible & Equatable>(_ low: Number?, _ high: Number?) -> String {
        switch (low, high) {
        case (let low?, let high?): low == high ? low.description : "\(low)..\(high)"
        case (let low?, nil): ">=\(low)"
        case (nil, let high?): "<=\(high)"
        case (nil, nil): ">=0"
        }
    }

    /// A text as a value: in quotation marks unless it is plain letters, digits and what stands in most names.
    fileprivate static func quoted(_ text: String) -> String {
        let isPlain = text.unicodeScalars.enumerated().allSatisfy { index, scalar in
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9": true
            case "-", ".", "_", "/", "~", "+", "#": index > 0 || scalar == "/" || scalar == "~"
            default: !scalar.isASCII && scalar.properties.isAlphabetic
            }
        }
        if isPlain, !text.isEmpty { return text }
        var quoted: String.UnicodeScalarView = "\"".unicodeScalars
        for scalar in text.unicodeScalars {
            if scalar == "\"" { quoted.append(scalar) }
            quoted.append(scalar)
        }
        quoted.append("\"")
        return String(quoted)
    }
}

extension NameMatch: CustomStringConvertible {
    /// The match in the language of ``SearchQuery/help``.
    package var description: String {
        switch self {
        case .contains(let text): Term.quoted(text)
        case .prefix(let text): "name:" + Term.quoted(text) + "*"
        case .suffix(let text): "name:*" + Term.quoted(text)
        case .exact(let text): "name:=" + Term.quoted(text)
        case .glob(let glob): "name:" + glob.description
        case .regex(let expression): "regex:" + Term.quoted(expression.pattern)
        }
    }
}

extension NameGlob: CustomStringConvertible {
    /// The pattern as a value of the filter `name:`.
    package var description: String {
        parts.map { part in
            switch part {
            case .text(let text): Term.quoted(text)
            case .one: "?"
            case .many: "*"
            }
        }.joined()
    }
}
