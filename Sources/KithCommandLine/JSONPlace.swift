/// The place at the end of a half-typed JSON object, as far as it concerns the object's own members.
struct JSONPlace: Hashable {
    /// The text before a member's name that stands, or can begin, at the end; `nil` where none can.
    private(set) var nameStart: String?
    /// The members that were given before.
    private(set) var given: Set<String> = []

    /// Reads what was typed so far; what is no beginning of an object has no place for a name.
    init(_ text: String) {
        guard let first = text.first(where: { !$0.isWhitespace }) else {
            nameStart = text
            return
        }
        guard first == "{" else { return }
        var depth = 0
        var awaitsName = false
        /// Where the string that is being read began, and what of it has come.
        var string: (start: String.Index, content: String)?
        var isEscaped = false
        for index in text.indices {
            let character = text[index]
            if let open = string {
                if isEscaped || (character != "\"" && character != "\\") {
                    string?.content.append(character)
                    isEscaped = false
                } else if character == "\\" {
                    isEscaped = true
                } else {
                    if depth == 1, awaitsName {
                        given.insert(open.content)
                        awaitsName = false
                    }
                    string = nil
                }
                continue
            }
            switch character {
            case "\"": string = (index, "")
            case "{", "[":
                depth += 1
                awaitsName = depth == 1
            case "}", "]":
                depth -= 1
                awaitsName = false
                if depth <= 0 { return }
            case ",": if depth == 1 { awaitsName = true }
            default: if !character.isWhitespace, depth == 1, awaitsName { return }
            }
        }
        if depth == 1, awaitsName { nameStart = String(string.map { text[..<$0.start] } ?? text[...]) }
    }
}
