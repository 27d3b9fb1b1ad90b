import Foundation
import KithMLS
import Testing

/// `Documentation/Groups/Validation.md` is written by this test with `KITH_WRITE_TABLE=1` and compared without.
@Suite struct RuleTableTests {
    static var table: String {
        var lines = [
            "# What is checked",
            "",
            "One row for each rule of RFC 9420 that a message, a key package, a tree or a Welcome can break: the section, what",
            "holds, and the case of `MLSError` that names the violation. Each row has a test in `Tests/KithMLSTests/Evil` in which a",
            "member with valid keys breaks exactly that rule; the group must refuse, and go on as if nothing had come.",
            "This file is written by `KITH_WRITE_TABLE=1 scripts/test --filter RuleTableTests`.",
            "",
            "`scripts/mutate-mls SEED 10` takes ten checks out of the engine, chosen by the seed, one at a time, and shows which",
            "tests then fail: those of the row, and no others (`scripts/mutate-mls all` for every check). It builds the tests once,",
            "and takes ten seconds for each check.",
            "",
            "| § | what holds | error |",
            "| --- | --- | --- |",
        ]
        for rule in Rule.all { lines.append("| \(rule.section) | \(rule.sentence) | `\(rule.error)` |") }
        return lines.joined(separator: "\n") + "\n"
    }

    @Test func `the table in the documentation is the table of the tests`() throws {
        let file = URL(filePath: #filePath).appending(path: "../../../../Documentation/Groups/Validation.md")
            .standardized
        if ProcessInfo.processInfo.environment["KITH_WRITE_TABLE"] != nil {
            try Self.table.write(to: file, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: file, encoding: .utf8) == Self.table)
    }

    @Test func `no rule stands in the table twice`() {
        let sentences = Rule.all.map { "\($0.section) \($0.sentence)" }
        #expect(Set(sentences).count == sentences.count)
    }
}
