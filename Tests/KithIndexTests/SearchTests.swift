import Foundation
import KithCatalog
import KithTesting
import KithWire
import Testing

@testable import KithIndex

@Suite struct SearchTests {
    private func find(_ tree: IndexedTree, _ text: String, after: Int = 0, limit: Int = 50) async throws -> FoundPage {
        let query = try SearchQuery(text, now: Int64(Date().timeIntervalSince1970), offsetFromUTC: 0)
        return try await tree.index.search(query, device: "laptop", after: after, limit: limit)
    }

    private func names(_ tree: IndexedTree, _ text: String) async throws -> [String] {
        try await find(tree, text).entries.map {
            String(decoding: $0.path.dropFirst(tree.top.utf8.count + 1), as: UTF8.self)
        }
    }

    private func filled() async throws -> IndexedTree {
        let tree = try IndexedTree()
        try tree.make("docs/old")
        for (name, text) in [
            ("docs/report.txt", "12345"), ("docs/annual-report.pdf", String(repeating: "x", count: 5_000)),
            ("docs/old/O'Brien (c++).md", ""), ("docs/Ångström.jpg", "1"), (".hidden report", "2"),
            ("docs/old/my report", "3"), ("ab", "4"), ("docs/old/100%_sure", "5"),
        ] { try tree.write(name, text) }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        return tree
    }

    @Test(
        arguments: [
            ("report.txt", ["docs/report.txt"]), ("annual-report", ["docs/annual-report.pdf"]),
            ("O'Brien", ["docs/old/O'Brien (c++).md"]), ("c++", ["docs/old/O'Brien (c++).md"]),
            ("\"my report\"", ["docs/old/my report"]), ("eport txt", ["docs/report.txt"]),
            ("ÅNGSTRÖM", ["docs/Ångström.jpg"]), ("ångström", ["docs/Ångström.jpg"]), ("ab", ["ab"]), ("AB", ["ab"]),
            ("%_", ["docs/old/100%_sure"]), ("ab | txt", ["ab", "docs/report.txt"]),
            ("kind:image", ["docs/Ångström.jpg"]),
            ("report size:>1K", ["docs/annual-report.pdf"]), ("is:hidden", [".hidden report"]),
            ("is:empty is:file", ["docs/old/O'Brien (c++).md"]), ("kind:folder old", ["docs/old"]),
            ("regex:^[a-z]{2}$", ["ab"]), ("*.jpg", ["docs/Ångström.jpg"]),
            ("device:laptop ext:md", ["docs/old/O'Brien (c++).md"]),
            ("in:docs/old sure", ["docs/old/100%_sure"]), ("location:tree ext:txt", ["docs/report.txt"]),
            ("nothing here", []),
        ])
    func `queries find what they say`(query: String, expected: [String]) async throws {
        #expect(try await names(filled(), query) == expected)
    }

    @Test func `what fits best comes first, and pages go on where the last one ended`() async throws {
        let tree = try await filled()
        #expect(
            try await names(tree, "report") == [
                "docs/report.txt", "docs/old/my report", ".hidden report", "docs/annual-report.pdf",
            ])
        let first = try await find(tree, "report", limit: 3)
        let second = try await find(tree, "report", after: try #require(first.next), limit: 3)
        #expect(first.entries.count == 3 && second.entries.count == 1 && second.next == nil)
        #expect(first.total == 4)
        let bySize = try await find(tree, "is:file sort:-size", limit: 2)
        #expect(bySize.entries.map(\.size) == [5_000, 5] && bySize.next == 2)
    }

    @Test func `tags are found with those beneath them, and stay with what is moved`() async throws {
        let tree = try await filled()
        let path = Array(tree.path("docs/report.txt").utf8)
        try await tree.index.changeTags(of: [path], add: [["work", "clients"]], remove: [])
        #expect(try await names(tree, "tag:work") == ["docs/report.txt"])
        #expect(try await names(tree, "tag:=work") == [])
        #expect(try await names(tree, "is:untagged report.txt") == [])
        try tree.move("docs/report.txt", to: "moved.txt")
        _ = try await tree.index.scan(1)
        #expect(try await names(tree, "tag:clients") == ["moved.txt"])
        await #expect(throws: KithError(.notFound, "")) {
            try await tree.index.changeTags(of: [path], add: [["other"]], remove: [])
        }
        // All or nothing: the tag was not made.
        #expect(try tree.index.tags().map(\.path) == [["work"], ["work", "clients"]])
        try await tree.index.deleteTag(["work"])
        #expect(try tree.index.tags().isEmpty)
        #expect(try await names(tree, "is:untagged moved.txt") == ["moved.txt"])
    }

    @Test func `random queries find what trying each entry finds`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let tree = try IndexedTree()
        let words = ["report", "Ämter", "ab", "k", "K", "x y", "IMG_2024", "a.b", "é", "100%", "_"]
        for number in 0..<300 {
            let folder = ["", "docs/", "docs/old/"].randomElement(using: &random) ?? ""
            try tree.make(folder)
            let separator = ["", " ", "-"].randomElement(using: &random) ?? ""
            let parts = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                words.randomElement(using: &random) ?? ""
            }
            let end = ["", ".txt", ".JPG", ".tar.gz"].randomElement(using: &random) ?? ""
            try tree.write(
                folder + parts.joined(separator: separator) + end
                    + (number % 3 == 0 ? "\(number)" : ""), String(repeating: "x", count: number % 7))
        }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let everything = try await find(tree, "", limit: 1_000).entries
        #expect(everything.count > 100)
        let parts =
            words.map { "\"\($0)\"" } + [
                "ext:jpg", "ext:tar.gz", "size:>3", "size:0", "kind:folder", "kind:image", "in:docs", "path:old",
                "regex:o.t", "*.txt", "name:\"re\"*", "name:*\"g\"", "is:hidden", "is:file",
            ]
        for _ in 0..<300 {
            var text = ""
            for index in 0..<Int.random(in: 1...3, using: &random) {
                if index > 0 { text += [" ", " OR "].randomElement(using: &random) ?? "" }
                text += (Bool.random(using: &random) ? "" : "-") + (parts.randomElement(using: &random) ?? "")
            }
            let query = try SearchQuery(text, now: 0, offsetFromUTC: 0)
            let expected = everything.filter { entry in
                query.matches(
                    Subject(
                        name: NameFolding.display(entry.name), path: NameFolding.display(entry.path), kind: entry.kind,
                        category: entry.category, size: entry.kind == .file ? entry.size : nil,
                        flags: entry.isHidden ? [.hidden] : []))
            }
            let found = try await tree.index.search(query, limit: 1_000).entries
            #expect(Set(found.map(\.id)) == Set(expected.map(\.id)), "seed \(seed): \(text)")
        }
    }
}
