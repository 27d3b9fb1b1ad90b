import KithCommandLine
import Testing

@testable import KithCommand

/// The examples in `--help`.
@Suite struct HelpExampleTests {
    /// The words behind `kith` in a line of help that is an example; `nil` for any other line.
    private static func words(_ line: Substring) -> [String]? {
        guard line.hasPrefix(" ") else { return nil }
        // Two blanks begin a comment.
        let text = line.drop { $0 == " " }
        let example = text.firstRange(of: "  ").map { text[..<$0.lowerBound] } ?? text
        let starts = ["kith ", "| kith ", "<(kith ", "='kith "]
        guard
            let start = starts.lazy.compactMap({ example.firstRange(of: $0) }).first(where: {
                $0.lowerBound == example.startIndex || example[$0.lowerBound] != "k"
            })
        else { return nil }
        var rest = example[start.upperBound...]
        for end in [" | ", " > ", " < ", " 3<", " && "] + (example[start] == "<(kith " ? [")"] : []) {
            if let range = rest.firstRange(of: end) { rest = rest[..<range.lowerBound] }
        }
        if example[start] == "='kith " { rest = rest.prefix { $0 != "'" } }
        let shell = ShellLine(String(rest))
        let all = shell.words + (shell.current.isEmpty ? [] : [shell.current])
        // ssh puts a host and a port in their place.
        return all.map { $0 == "%h" ? "host" : $0 == "%p" ? "22" : $0 }
    }

    @Test func `every command has an example, and takes every one as it stands`() throws {
        var count = 0
        for (path, command) in try Root.description().all {
            let examples = command.discussion.split(separator: "\n").compactMap(Self.words)
            #expect(examples.contains { $0.starts(with: path) }, "kith \(path.joined(separator: " ")) has no example")
            for words in examples {
                count += 1
                #expect(throws: Never.self, "kith \(words)") { _ = try Root.parse(withSettings: words) }
            }
        }
        #expect(count > 100)
    }
}
