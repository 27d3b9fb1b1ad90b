import KithTerminal

/// A line of text being typed.
package struct TextField: Hashable, Sendable {
    /// The characters, each with its marks.
    private var characters: [Character]
    /// The number of characters before the cursor.
    private var cursor: Int
    private static let limit = 4_096

    package init(_ text: String = "", cursor: Int? = nil) {
        characters = Array(text)
        self.cursor = min(cursor ?? characters.count, characters.count)
    }

    package var text: String { String(characters) }
    var head: String { String(characters[..<cursor]) }
    var tail: String { String(characters[cursor...]) }

    /// Takes a key; returns whether it was one for a line of text.
    mutating func handle(_ event: InputEvent) -> Bool {
        switch event {
        case .paste(let bytes):
            // Only the first line: a line end would be an answer.
            let line = String(decoding: bytes, as: UTF8.self).prefix { !$0.isNewline }
            for scalar in line.unicodeScalars where scalar.value >= 0x20 && scalar.value != 0x7F { insert(scalar) }
        case .key(.scalar(let scalar), let modifiers) where modifiers.isEmpty: insert(scalar)
        case .key(.left, let modifiers):
            cursor = modifiers.isEmpty ? max(0, cursor - 1) : wordStart()
        case .key(.right, let modifiers):
            cursor = modifiers.isEmpty ? min(characters.count, cursor + 1) : wordEnd()
        case .key(.home, _), .key(.scalar("a"), .control): cursor = 0
        case .key(.end, _), .key(.scalar("e"), .control): cursor = characters.count
        case .key(.backspace, let modifiers):
            guard cursor > 0 else { break }
            let start = modifiers.isEmpty ? cursor - 1 : wordStart()
            characters.removeSubrange(start..<cursor)
            cursor = start
        case .key(.delete, _), .key(.scalar("d"), .control):
            if cursor < characters.count { characters.remove(at: cursor) }
        case .key(.scalar("u"), .control):
            characters.removeSubrange(..<cursor)
            cursor = 0
        case .key(.scalar("k"), .control): characters.removeSubrange(cursor...)
        case .key(.scalar("w"), .control):
            let start = wordStart()
            characters.removeSubrange(start..<cursor)
            cursor = start
        default: return false
        }
        return true
    }

    private mutating func insert(_ scalar: Unicode.Scalar) {
        guard characters.count < Self.limit else { return }
        // A mark joins the character before it.
        if cursor > 0, case let joined = String(characters[cursor - 1]) + String(scalar), joined.count == 1 {
            characters[cursor - 1] = Character(joined)
            return
        }
        characters.insert(Character(scalar), at: cursor)
        cursor += 1
    }

    private static func isWord(_ character: Character) -> Bool { character.isLetter || character.isNumber }

    private func wordStart() -> Int {
        var index = cursor
        while index > 0, !Self.isWord(characters[index - 1]) { index -= 1 }
        while index > 0, Self.isWord(characters[index - 1]) { index -= 1 }
        return index
    }

    private func wordEnd() -> Int {
        var index = cursor
        while index < characters.count, !Self.isWord(characters[index]) { index += 1 }
        while index < characters.count, Self.isWord(characters[index]) { index += 1 }
        return index
    }
}
