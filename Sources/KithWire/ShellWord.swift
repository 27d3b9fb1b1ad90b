/// A text as one word of a command line: a POSIX shell, and fish, takes exactly it.
package func shellWord(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        // % + , - . / : = @ _ ~
        case 0x25, 0x2B, 0x2C, 0x2D, 0x2E, 0x2F, 0x3A, 0x3D, 0x40, 0x5F, 0x7E: true
        default: false
        }
    }
    // A tilde is a folder where a word, or what follows a colon or an equals sign, begins with it.
    let isHome = text.hasPrefix("~") || text.contains("=~") || text.contains(":~")
    if isPlain, !isHome, !text.isEmpty { return text }
    var result = "'"
    for character in text.unicodeScalars {
        // A quote and a backslash stand outside of the quotes: fish gives both a meaning inside.
        if character == "'" || character == "\\" {
            result += "'\\"
            result.unicodeScalars.append(character)
            result += "'"
        } else {
            result.unicodeScalars.append(character)
        }
    }
    return result + "'"
}
