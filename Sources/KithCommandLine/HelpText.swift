/// Text for `--help`, written in lines as wide as source code, set for a terminal of 80 columns, the last of which stays free.
///
/// Lines that begin with a blank are examples and stay lines of their own; what follows two blanks or more in one of
/// them is its comment, and goes on below itself where it is too long. All other lines, up to an empty one, are one
/// paragraph: whoever prints it breaks it as wide as the terminal is.
package func helpText(_ text: String, columns: Int = 79) -> String {
    var lines: [String] = []
    var paragraph: [Substring] = []
    func endParagraph() {
        if !paragraph.isEmpty { lines.append(paragraph.joined(separator: " ")) }
        paragraph = []
    }
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
        if let first = line.first, first != " " {
            paragraph.append(line)
        } else {
            endParagraph()
            lines += example(line, columns: columns)
        }
    }
    endParagraph()
    return lines.joined(separator: "\n")
}

/// An example and its comment, in lines of at most `columns` characters where its words allow it.
private func example(_ line: Substring, columns: Int) -> [String] {
    guard line.count > columns else { return [String(line)] }
    let indent = line.prefix { $0 == " " }.count
    let body = line.dropFirst(indent)
    var parts: (command: Substring, column: Int, comment: Substring) = ("", indent, body)
    if let gap = body.firstRange(of: "  ") {
        let comment = body[gap.upperBound...].drop { $0 == " " }
        parts = (body[..<gap.lowerBound], line.count - comment.count, comment)
    }
    var lines: [String] = []
    var current = String(repeating: " ", count: indent) + parts.command
    var column = parts.column
    if column > columns * 5 / 8 {
        // Too far to the right to be read in: on lines of its own.
        lines.append(current)
        current = ""
        column = indent + 4
    }
    current += String(repeating: " ", count: max(column - current.count, 0))
    var isFresh = true
    for word in parts.comment.split(separator: " ") {
        if !isFresh, current.count + 1 + word.count > columns {
            lines.append(current)
            current = String(repeating: " ", count: column)
            isFresh = true
        }
        current += isFresh ? word : " " + word
        isFresh = false
    }
    return lines + [current]
}
