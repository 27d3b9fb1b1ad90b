/// A pattern of a shell, matched by characters: `*`, `?`, `[a-z]`, `[!a-z]`, `\` before what stands for itself.
///
/// A slash is a character like any other. Takes time in proportion to the pattern times the text, whatever they are.
/// Bytes that are not UTF-8 are characters of their own.
package struct GlobPattern: Sendable {
    /// A character; numbers above those of Unicode are single bytes.
    private typealias Character = UInt32

    private enum Part: Sendable {
        case one(UInt32)
        case any
        case set([ClosedRange<UInt32>], isNegated: Bool)
        case many
    }

    private let parts: [Part]
    private let ignoresCase: Bool

    /// Reads a pattern; a bracket that is not closed stands for itself.
    package init(_ glob: String, ignoresCase: Bool = false) {
        self.ignoresCase = ignoresCase
        let characters = glob.unicodeScalars.map { Self.folded($0.value, ignoresCase) }
        var parts: [Part] = []
        var index = 0
        while index < characters.count {
            let character = characters[index]
            index += 1
            switch character {
            case "*":
                if case .many? = parts.last { continue }
                parts.append(.many)
            case "?": parts.append(.any)
            case "\\" where index < characters.count:
                parts.append(.one(characters[index]))
                index += 1
            case "[":
                if let (set, next) = Self.set(characters, from: index) {
                    parts.append(set)
                    index = next
                } else {
                    parts.append(.one(character))
                }
            default: parts.append(.one(character))
            }
        }
        self.parts = parts
    }

    /// Tells whether the pattern matches all of `text`.
    package func matches(_ text: [UInt8]) -> Bool {
        let characters = Self.characters(text, ignoresCase)
        var (part, place) = (0, 0)
        // Where to go on when it fails: the last `*` takes one character more.
        var retry: (part: Int, place: Int)?
        while place < characters.count {
            if part < parts.count {
                if case .many = parts[part] {
                    retry = (part, place)
                    part += 1
                    continue
                }
                if Self.matches(parts[part], characters[place]) {
                    part += 1
                    place += 1
                    continue
                }
            }
            guard let last = retry else { return false }
            retry = (last.part, last.place + 1)
            (part, place) = (last.part + 1, last.place + 1)
        }
        return parts[part...].allSatisfy { if case .many = $0 { true } else { false } }
    }

    private static func matches(_ part: Part, _ character: Character) -> Bool {
        switch part {
        case .one(let own): own == character
        case .any: true
        case .set(let ranges, let isNegated): ranges.contains { $0.contains(character) } != isNegated
        case .many: false
        }
    }

    /// Reads the contents of brackets, from after the opening one; `nil` when they are not closed.
    private static func set(_ characters: [Character], from start: Int) -> (Part, next: Int)? {
        var index = start
        var ranges: [ClosedRange<Character>] = []
        let isNegated = index < characters.count && (characters[index] == "!" || characters[index] == "^")
        if isNegated { index += 1 }
        let first = index
        while index < characters.count {
            // A bracket in the first place stands for itself.
            if characters[index] == "]", index > first { return (.set(ranges, isNegated: isNegated), index + 1) }
            if characters[index] == "[", index + 1 < characters.count, characters[index + 1] == ":",
                let (named, next) = namedClass(characters, from: index + 2)
            {
                ranges += named
                index = next
                continue
            }
            if characters[index] == "\\", index + 1 < characters.count { index += 1 }
            let low = characters[index]
            index += 1
            if index + 1 < characters.count, characters[index] == "-", characters[index + 1] != "]" {
                index += 1
                if characters[index] == "\\", index + 1 < characters.count { index += 1 }
                let high = characters[index]
                index += 1
                if low <= high { ranges.append(low...high) }
            } else {
                ranges.append(low...low)
            }
        }
        return nil
    }

    /// Reads `alpha:]` and the like, of ASCII as in the C locale.
    private static func namedClass(_ characters: [Character], from start: Int) -> ([ClosedRange<Character>], next: Int)?
    {
        guard let end = characters[start...].firstIndex(where: { $0 == ":" }), end + 1 < characters.count,
            characters[end + 1] == "]"
        else { return nil }
        let name = String(String.UnicodeScalarView(characters[start..<end].compactMap { Unicode.Scalar($0) }))
        let (digits, capitals, small): (ClosedRange<Character>, ClosedRange<Character>, ClosedRange<Character>) =
            (0x30...0x39, 0x41...0x5A, 0x61...0x7A)
        let punctuation: [ClosedRange<Character>] = [0x21...0x2F, 0x3A...0x40, 0x5B...0x60, 0x7B...0x7E]
        let ranges: [ClosedRange<Character>]
        switch name {
        case "alpha": ranges = [capitals, small]
        case "digit": ranges = [digits]
        case "alnum": ranges = [digits, capitals, small]
        case "upper": ranges = [capitals]
        case "lower": ranges = [small]
        case "xdigit": ranges = [digits, 0x41...0x46, 0x61...0x66]
        case "space": ranges = [0x09...0x0D, 0x20...0x20]
        case "blank": ranges = [0x09...0x09, 0x20...0x20]
        case "punct": ranges = punctuation
        case "print": ranges = [0x20...0x7E]
        case "graph": ranges = [0x21...0x7E]
        case "cntrl": ranges = [0x00...0x1F, 0x7F...0x7F]
        default: return nil
        }
        return (ranges, end + 2)
    }

    private static func characters(_ text: [UInt8], _ ignoresCase: Bool) -> [Character] {
        // What most names are needs no decoding.
        if text.allSatisfy({ $0 < 0x80 }) { return text.map { folded(Character($0), ignoresCase) } }
        var result: [Character] = []
        result.reserveCapacity(text.count)
        var index = 0
        while index < text.count {
            let length = text[index] < 0x80 ? 1 : text[index] >= 0xF0 ? 4 : text[index] >= 0xE0 ? 3 : 2
            if index + length <= text.count,
                let string = String(validating: text[index..<index + length], as: UTF8.self),
                let scalar = string.unicodeScalars.first, string.unicodeScalars.count == 1
            {
                result.append(folded(scalar.value, ignoresCase))
                index += length
            } else {
                result.append(0x11_0000 + Character(text[index]))
                index += 1
            }
        }
        return result
    }

    private static func folded(_ character: Character, _ ignoresCase: Bool) -> Character {
        guard ignoresCase else { return character }
        if character < 0x80 { return (0x41...0x5A).contains(character) ? character + 0x20 : character }
        let lower = Unicode.Scalar(character)?.properties.lowercaseMapping.unicodeScalars
        return lower?.count == 1 ? lower?.first?.value ?? character : character
    }
}

extension UInt32 {
    fileprivate static func ~= (pattern: Unicode.Scalar, value: UInt32) -> Bool { pattern.value == value }
    fileprivate static func == (value: UInt32, scalar: Unicode.Scalar) -> Bool { value == scalar.value }
    fileprivate static func != (value: UInt32, scalar: Unicode.Scalar) -> Bool { value != scalar.value }
}
