import Foundation
import Testing

@Suite struct `The public enumerations` {
    private static let sources = URL(filePath: #filePath).appending(path: "../../../Sources").standardized

    /// `@nonexhaustive` on one that may grow, so that who switches over it elsewhere has an answer for what comes.
    ///
    /// `@frozen` on one that never will.
    @Test func `say whether they may grow`() throws {
        let files = try #require(FileManager.default.enumerator(at: Self.sources, includingPropertiesForKeys: nil))
        var undecided: [String] = []
        var decided = 0
        for case let file as URL in files where file.pathExtension == "swift" {
            // What tests use is no product.
            if file.path.contains("/KithTesting/") { continue }
            // A client that is written for other programs is theirs.
            if file.path.contains("/Programs/Clients/") { continue }
            let lines = try String(contentsOf: file, encoding: .utf8).split(
                separator: "\n", omittingEmptySubsequences: false)
            for (index, line) in lines.enumerated() {
                let words = line.drop { $0 == " " }
                // A regular expression a line would take minutes.
                guard words.hasPrefix("public ") || words.hasPrefix("@frozen ") else { continue }
                guard let match = line.prefixMatch(of: /( *)(@frozen )?public (indirect )?enum (\w+)/) else { continue }
                // A namespace has no cases: at its own depth.
                let body = lines[(index + 1)...].prefix { !$0.hasPrefix("\(match.1)}") }
                guard body.contains(where: { $0.hasPrefix("\(match.1)    case ") }) else { continue }
                let before = index > 0 ? lines[index - 1].drop { $0 == " " } : ""
                if match.2 != nil || before == "@nonexhaustive" || before == "@frozen" {
                    decided += 1
                } else {
                    undecided.append("\(file.lastPathComponent): \(match.4)")
                }
            }
        }
        #expect(undecided == [])
        #expect(decided > 80)
    }
}
