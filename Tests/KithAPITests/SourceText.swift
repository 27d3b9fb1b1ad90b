import Foundation
import Testing

/// What the package's own sources say, for tests that no requirement of a protocol is forgotten.
enum SourceText {
    private static let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources")

    private static func text(_ file: String) throws -> String {
        try String(contentsOf: sources.appending(path: file), encoding: .utf8)
    }

    /// The part of a file from a declaration's head to the brace in the first column that ends it.
    private static func block(_ head: String, in file: String) throws -> String {
        let text = try text(file)
        let start = try #require(text.range(of: head), "\(file) has no \(head)")
        let end = try #require(text.range(of: "\n}", range: start.upperBound..<text.endIndex))
        return String(text[start.upperBound..<end.lowerBound])
    }

    /// The members a block declares in its first rank: of a function its name and first label.
    private static func members(of block: String) -> Set<String> {
        let function = /\n    (?:[a-z]+(?:\(set\))? )*func (\w+)(?:<[^(]*>)?\(\s*(\w*)/
        let variable = /\n    (?:[a-z]+(?:\(set\))? )*(?:var|let) (\w+):/
        return Set(
            block.matches(of: function).map { "\($0.output.1)(\($0.output.2)" }
                + block.matches(of: variable).map { String($0.output.1) })
    }

    /// The requirements of a protocol.
    static func requirements(of name: String, in file: String) throws -> Set<String> {
        let head = try #require(text(file).firstMatch(of: try Regex("protocol \(name): [^\\n]*\\{")))
        return members(of: try block(String(try text(file)[head.range]), in: file))
    }

    /// The requirements that a declaration does not meet itself.
    static func missing(_ requirements: Set<String>, from head: String, in file: String) throws -> Set<String> {
        requirements.subtracting(members(of: try block(head, in: file)))
    }

    /// The types declared to conform to a protocol alone, by name, each with its text.
    static func types(conformingTo name: String) throws -> [(name: String, text: String)] {
        let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        let head = try Regex<(Substring, Substring)>("(?:class|struct|actor) (\\w+)[^\\n]*: \(name) \\{")
        var types: [(name: String, text: String)] = []
        for case let file as URL in files where file.pathExtension == "swift" {
            // A type ends at the first brace in its first column.
            for text in try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n}") {
                if let match = text.firstMatch(of: head) { types.append((String(match.output.1), text)) }
            }
        }
        return types
    }
}
