package import KithWire

/// Patterns in the syntax of `.gitignore` (gitignore(5)), all relative to one folder.
///
/// The last pattern that matches decides; one that begins with `!` takes a name back in. What lies in a folder that is
/// left out is left out with it: ask for each folder on the way, from the top.
package struct IgnoreRules: Sendable {
    /// The most patterns, and the most bytes of one.
    static let maximumCount = 10_000
    static let maximumLength = 4_096
    /// The most steps that all of them take for a byte of a name: a `.gitignore` may be somebody else's.
    static let maximumCost = 32_768

    private let rules: [Rule]

    /// Reads patterns, one per element; empty ones and comments are none.
    ///
    /// - Throws: `.invalid` when there are too many, one is too long, or their wildcards take too many steps.
    package init(_ lines: [String]) throws(KithError) {
        guard lines.count <= Self.maximumCount else {
            throw KithError(.invalid, "At most \(Self.maximumCount) patterns may be given; there are \(lines.count).")
        }
        var rules: [Rule] = []
        for line in lines {
            guard line.utf8.count <= Self.maximumLength else {
                throw KithError(.invalid, "A pattern is longer than \(Self.maximumLength) bytes.")
            }
            if let rule = Rule(Array(line.utf8)) { rules.append(rule) }
        }
        guard rules.reduce(0, { $0 + $1.glob.cost }) <= Self.maximumCost else {
            throw KithError(.invalid, "The patterns have more wildcards than can be looked for.")
        }
        self.rules = rules
    }

    /// True when there are no rules.
    package var isEmpty: Bool { rules.isEmpty }

    /// Tells whether the patterns leave out `path`, relative to their folder and without a slash at either end.
    package func excludes(_ path: [UInt8], isFolder: Bool) -> Bool { decision(on: path, isFolder: isFolder) ?? false }

    /// Tells what the last pattern that matches says of `path`: true leaves it out; `nil` when none matches.
    package func decision(on path: [UInt8], isFolder: Bool) -> Bool? {
        guard !rules.isEmpty else { return nil }
        let name = path.lastIndex(of: UInt8(ascii: "/")).map { path[($0 + 1)...] } ?? path[...]
        for rule in rules.reversed() where !rule.wantsFolder || isFolder {
            if rule.glob.matches(rule.isAnchored ? path[...] : name) { return !rule.isNegated }
        }
        return nil
    }

    private struct Rule: Sendable {
        var glob: Glob
        var isNegated = false
        /// True when it is about the whole path; otherwise it is about the last name, at any depth.
        var isAnchored = false
        var wantsFolder = false

        /// Takes a line apart; `nil` when it holds no pattern.
        init?(_ line: [UInt8]) {
            var text = line[...]
            if text.first == UInt8(ascii: "#") { return nil }
            // Spaces at the end count only when the last is escaped.
            while text.last == UInt8(ascii: " ") {
                let slashes = text.dropLast().reversed().prefix { $0 == UInt8(ascii: "\\") }.count
                if slashes % 2 == 1 { break }
                text = text.dropLast()
            }
            if text.first == UInt8(ascii: "!") {
                isNegated = true
                text = text.dropFirst()
            }
            if text.last == UInt8(ascii: "/") {
                wantsFolder = true
                text = text.dropLast()
            }
            isAnchored = text.contains(UInt8(ascii: "/"))
            if text.first == UInt8(ascii: "/") { text = text.dropFirst() }
            guard !text.isEmpty, let glob = Glob(text) else { return nil }
            self.glob = glob
        }
    }
}

/// One pattern with wildcards, matched in time proportional to its length times that of the text.
private struct Glob: Sendable {
    private enum Token: Sendable {
        case byte(UInt8)
        /// Any byte but a slash.
        case one
        /// One of a set, never a slash.
        case set(ByteSet)
        /// Any bytes but slashes.
        case some
        /// Any bytes.
        case all
        /// The rest may match here, or after the next two tokens.
        case skipTwo
    }

    private var tokens: [Token] = []

    /// The fewest bytes that match.
    private var minimum = 0

    /// The steps it takes for each byte of a name; none for one that is over at the first byte that differs.
    var cost: Int { tokens.count == minimum ? 0 : tokens.count }

    /// Compiles a pattern; `nil` when it can match nothing, such as one with an open bracket.
    init?(_ pattern: ArraySlice<UInt8>) {
        defer {
            minimum = tokens.count { token in
                switch token {
                case .byte, .one, .set: true
                case .some, .all, .skipTwo: false
                }
            }
            // What `skipTwo` passes over need not be there.
            if tokens.contains(where: { if case .skipTwo = $0 { true } else { false } }) { minimum = 0 }
        }
        let slash = UInt8(ascii: "/")
        var index = pattern.startIndex
        while index < pattern.endIndex {
            let byte = pattern[index]
            index += 1
            switch byte {
            case UInt8(ascii: "?"): tokens.append(.one)
            case UInt8(ascii: "\\"):
                guard index < pattern.endIndex else { return nil }
                tokens.append(.byte(pattern[index]))
                index += 1
            case UInt8(ascii: "["):
                guard let set = ByteSet(pattern, &index) else { return nil }
                tokens.append(.set(set))
            case UInt8(ascii: "*"):
                let start = index - 1
                while index < pattern.endIndex, pattern[index] == byte { index += 1 }
                // Before an escaped slash git takes several stars for whole names as well, but for one at the least.
                let isBeforeEscapedSlash = pattern[index...].starts(with: [UInt8(ascii: "\\"), slash])
                let isSegment =
                    (start == pattern.startIndex || pattern[start - 1] == slash)
                    && (index == pattern.endIndex || pattern[index] == slash || isBeforeEscapedSlash)
                guard index - start > 1, isSegment else {
                    tokens.append(.some)
                    continue
                }
                if index == pattern.endIndex || isBeforeEscapedSlash {
                    tokens.append(.all)
                } else {
                    tokens += [.skipTwo, .all, .byte(slash)]
                    index += 1
                }
            default: tokens.append(.byte(byte))
            }
        }
    }

    /// Tells whether all of `text` matches: follows every way through the tokens at once.
    func matches(_ text: ArraySlice<UInt8>) -> Bool {
        guard text.count >= minimum else { return false }
        var states = [Bool](repeating: false, count: tokens.count + 1)
        var next = states
        states[0] = true
        spread(&states)
        for byte in text {
            for index in next.indices { next[index] = false }
            var isAlive = false
            for (index, token) in tokens.enumerated() where states[index] {
                switch token {
                case .byte(let wanted): if byte == wanted { next[index + 1] = true }
                case .one: if byte != UInt8(ascii: "/") { next[index + 1] = true }
                case .set(let set): if set.contains(byte) { next[index + 1] = true }
                case .some: if byte != UInt8(ascii: "/") { next[index] = true }
                case .all: next[index] = true
                case .skipTwo: continue
                }
                isAlive = true
            }
            guard isAlive else { return false }
            spread(&next)
            swap(&states, &next)
        }
        return states[tokens.count]
    }

    /// Passes what needs no byte.
    private func spread(_ states: inout [Bool]) {
        for (index, token) in tokens.enumerated() where states[index] {
            switch token {
            case .some, .all: states[index + 1] = true
            case .skipTwo:
                states[index + 1] = true
                states[index + 3] = true
            default: break
            }
        }
    }
}

/// The bytes a bracket expression stands for.
private struct ByteSet: Sendable {
    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    private var isNegated = false

    /// Reads an expression whose bracket has been read; `nil` when it is not closed, or names no class there is.
    init?(_ pattern: ArraySlice<UInt8>, _ index: inout Int) {
        let end = pattern.endIndex
        guard index < end else { return nil }
        if pattern[index] == UInt8(ascii: "!") || pattern[index] == UInt8(ascii: "^") {
            isNegated = true
            index += 1
        }
        var previous: UInt8?
        var isFirst = true
        while true {
            guard index < end else { return nil }
            var byte = pattern[index]
            if byte == UInt8(ascii: "]"), !isFirst {
                index += 1
                return
            }
            isFirst = false
            if byte == UInt8(ascii: "-"), let low = previous, index + 1 < end, pattern[index + 1] != UInt8(ascii: "]") {
                index += 1
                if pattern[index] == UInt8(ascii: "\\") {
                    index += 1
                    guard index < end else { return nil }
                }
                byte = pattern[index]
                if low <= byte { for member in low...byte { insert(member) } }
                previous = nil
            } else if byte == UInt8(ascii: "["), index + 1 < end, pattern[index + 1] == UInt8(ascii: ":") {
                guard let close = pattern[(index + 2)...].firstIndex(of: UInt8(ascii: "]")) else { return nil }
                if close > index + 2, pattern[close - 1] == UInt8(ascii: ":") {
                    let name = String(decoding: pattern[(index + 2)..<(close - 1)], as: UTF8.self)
                    guard let members = Self.classes[name] else { return nil }
                    for member in UInt8(0)..<128 where members(member) { insert(member) }
                    index = close
                    previous = nil
                } else {
                    insert(byte)
                    previous = byte
                }
            } else {
                if byte == UInt8(ascii: "\\") {
                    index += 1
                    guard index < end else { return nil }
                    byte = pattern[index]
                }
                insert(byte)
                previous = byte
            }
            index += 1
        }
    }

    func contains(_ byte: UInt8) -> Bool {
        guard byte != UInt8(ascii: "/") else { return false }
        let word =
            switch byte >> 6 {
            case 0: words.0
            case 1: words.1
            case 2: words.2
            default: words.3
            }
        return (word >> UInt64(byte & 63) & 1 == 1) != isNegated
    }

    private mutating func insert(_ byte: UInt8) {
        let bit = UInt64(1) << UInt64(byte & 63)
        switch byte >> 6 {
        case 0: words.0 |= bit
        case 1: words.1 |= bit
        case 2: words.2 |= bit
        default: words.3 |= bit
        }
    }

    private static let classes: [String: @Sendable (UInt8) -> Bool] = [
        "alnum": { isDigit($0) || isUpper($0) || isLower($0) },
        "alpha": { isUpper($0) || isLower($0) },
        "blank": { $0 == 32 || $0 == 9 },
        "cntrl": { $0 < 32 || $0 == 127 },
        "digit": isDigit,
        "graph": { $0 > 32 && $0 < 127 },
        "lower": isLower,
        "print": { $0 >= 32 && $0 < 127 },
        "punct": { $0 > 32 && $0 < 127 && !isDigit($0) && !isUpper($0) && !isLower($0) },
        "space": { $0 == 32 || ($0 >= 9 && $0 <= 13) },
        "upper": isUpper,
        "xdigit": { isDigit($0) || ($0 | 32 >= 97 && $0 | 32 <= 102) },
    ]

    @Sendable private static func isDigit(_ byte: UInt8) -> Bool { byte >= 48 && byte <= 57 }
    @Sendable private static func isUpper(_ byte: UInt8) -> Bool { byte >= 65 && byte <= 90 }
    @Sendable private static func isLower(_ byte: UInt8) -> Bool { byte >= 97 && byte <= 122 }
}
