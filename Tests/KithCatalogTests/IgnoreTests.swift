import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithCatalog

private let git = ["/usr/bin/git", "/usr/local/bin/git"].first { FileManager.default.isExecutableFile(atPath: $0) }

@Suite struct IgnoreTests {
    @Test(
        arguments: [
            (["*.o"], "a/b.o", false, true), (["/a"], "b/a", false, false), (["a/"], "a", false, false),
            (["a/"], "x/a", true, true), (["a/b"], "x/a/b", false, false), (["**/a/b"], "x/a/b", false, true),
            (["a/**/b"], "a/b", false, true), (["a/**/b"], "a/x/y/b", false, true), (["a/**"], "a", true, false),
            (["*", "!keep"], "keep", false, false), (["#x"], "#x", false, false), (["\\#x"], "#x", false, true),
            (["\\!x"], "!x", false, true), (["x "], "x", false, true), (["x\\ "], "x ", false, true),
            (["[a-c]x"], "bx", false, true), (["[!a-c]x"], "bx", false, false), (["[]-]"], "]", false, true),
            (["a?c"], "a/c", false, false), (["a[/]c"], "a/c", false, false), (["[[:digit:]]"], "7", false, true),
            (["**\\/b"], "x/y/b", false, true), (["**\\/b"], "b", false, false),
            (["[a"], "[a", false, false), (["a\\"], "a\\", false, false), (["foo/*"], "foo/bar/baz", false, false),
        ])
    func `patterns mean what gitignore(5) says`(_ lines: [String], _ path: String, _ isFolder: Bool, _ result: Bool)
        throws
    {
        #expect(try IgnoreRules(lines).excludes(Array(path.utf8), isFolder: isFolder) == result)
    }

    @Test func `wildcards without end are refused, and as many names as anybody lists are not`() throws {
        let hungry = String(repeating: "*?", count: 2_000)
        #expect(throws: KithError(.invalid, "")) { try IgnoreRules([String](repeating: hungry, count: 64)) }
        _ = try IgnoreRules((0..<10_000).map { "build/output-\($0)" })
        _ = try IgnoreRules((0..<1_000).map { "**/*.generated-\($0)" })
    }

    @Test func `a pattern of many stars takes no time to fail`() throws {
        let rules = try IgnoreRules([String(repeating: "a*", count: 1_000) + "b"])
        #expect(!rules.excludes([UInt8](repeating: UInt8(ascii: "a"), count: 255), isFolder: false))
        #expect(throws: KithError(.invalid, "")) { try IgnoreRules([String(repeating: "a", count: 5_000)]) }
    }

    @Test(.enabled(if: git != nil, "needs git"))
    func `random patterns leave out what git check-ignore leaves out`() throws {
        let git = try #require(git)
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededRandom(seed: seed)
        let folder = try TemporaryFolder()
        let top = folder.path + "/tree"
        let names = ["a", "b", "ab", "foo.o", "x y", "[x]", "c!", "#d", "B", "a.b", "-", "é"]
        let parts = [
            "*", "?", "**", "/", "/", "a", "b", "ab", "foo", ".o", "o", "x", " ", "\\ ", "[ab]", "[!a]", "[^b]",
            "[a-c]",
            "[]x]", "[[:alpha:]]", "[[:punct:]]", "\\*", "\\[", "\\", "#", "!", ".", "é", "[", "]", "**/", "/**",
            "/**/",
            "[-a]", "[a-]", "[\\]]", "[[:nope:]]", "***",
        ]
        // One tree for all: folders with every name, three deep.
        var paths: [(path: String, isFolder: Bool)] = []
        func grow(_ prefix: String, _ depth: Int) throws {
            for name in names {
                let path = prefix + name
                let isFolder = depth < 2 && Bool.random(using: &random)
                paths.append((path, isFolder))
                if isFolder {
                    try FileManager.default.createDirectory(
                        atPath: top + "/" + path, withIntermediateDirectories: true)
                    try grow(path + "/", depth + 1)
                } else {
                    try Data().write(to: URL(fileURLWithPath: top + "/" + path))
                }
            }
        }
        try FileManager.default.createDirectory(atPath: top, withIntermediateDirectories: true)
        try grow("", 0)
        _ = try run(git, ["init", "-q", "."], in: top, input: "")
        let input = paths.map { $0.path + "\0" }.joined()
        var excluded = 0
        for round in 0..<150 {
            let drawn = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                (Int.random(in: 0..<5, using: &random) == 0 ? "!" : "")
                    + (0..<Int.random(in: 1...5, using: &random)).map { _ in parts.randomElement(using: &random)! }
                    .joined()
            }
            // Behind a name, gitignore(5) says that several stars are one; git itself forgets that where the name has no
            // wildcard, because it takes the name away before it looks at them.
            let lines = drawn.filter { $0.firstMatch(of: /[^\/*!]\*\*/) == nil }
            let text = lines.joined(separator: "\n") + "\n"
            try Data(text.utf8).write(to: URL(fileURLWithPath: top + "/.gitignore"))
            let output = try run(
                git, ["-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z"],
                in: top, input: input)
            let expected = Set(output.split(separator: "\0").map(String.init))
            let rules = try IgnoreRules(lines)
            var found: Set<String> = []
            for (path, isFolder) in paths {
                let parent = path.split(separator: "/").dropLast().joined(separator: "/")
                if found.contains(parent) || rules.excludes(Array(path.utf8), isFolder: isFolder) { found.insert(path) }
            }
            #expect(found == expected, "round \(round): \(lines): \(found.symmetricDifference(expected).sorted())")
            excluded += expected.count
        }
        #expect(excluded > 0)
    }

    private func run(_ program: String, _ arguments: [String], in folder: String, input: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        let file = folder + "/../input"
        try Data(input.utf8).write(to: URL(fileURLWithPath: file))
        process.standardInput = try FileHandle(forReadingFrom: URL(fileURLWithPath: file))
        let output = Foundation.Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
