import Foundation
import KithCatalog
import KithIO
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithIndex

@Suite struct SearchTests {
    private func find(
        _ tree: IndexedTree, _ text: String, after: SearchPlace? = nil, limit: Int = 50
    ) async throws -> FoundPage {
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
        let second = try await find(tree, "report", after: first.next, limit: 3)
        #expect(first.entries.count == 3 && second.entries.count == 1 && second.next == nil)
        #expect(first.total == 4)
        let bySize = try await find(tree, "is:file sort:-size", limit: 2)
        #expect(bySize.entries.map(\.size) == [5_000, 5] && bySize.next != nil)
    }

    @Test func `tags are found with those beneath them, and stay with what is moved`() async throws {
        let tree = try await filled()
        let path = Array(tree.path("docs/report.txt").utf8)
        #expect(try await tree.index.changeTags(of: [path], add: [["work", "clients"]], remove: []) == 1)
        #expect(try await tree.index.changeTags(of: [path], add: [["work", "clients"]], remove: []) == 0)
        #expect(try await names(tree, "tag:work") == ["docs/report.txt"])
        #expect(try await names(tree, "tag:=work") == [])
        #expect(try await names(tree, "is:untagged report.txt") == [])
        try tree.move("docs/report.txt", to: "moved.txt")
        _ = try await tree.index.scan(1)
        #expect(try await names(tree, "tag:clients") == ["moved.txt"])
        await #expect(throws: KithError(.notFound, "")) {
            _ = try await tree.index.changeTags(of: [path], add: [["other"]], remove: [])
        }
        // All or nothing: the tag was not made.
        #expect(try tree.index.tags().map(\.path) == [["work"], ["work", "clients"]])
        try await tree.index.deleteTag(["work"])
        #expect(try tree.index.tags().isEmpty)
        #expect(try await names(tree, "is:untagged moved.txt") == ["moved.txt"])
    }

    /// All that a query finds, by pages of a size; `between` runs between two of them.
    private func paged(
        _ tree: IndexedTree, _ text: String, by size: Int, between: () async throws -> Void = {}
    ) async throws -> [FoundEntry] {
        var (entries, next) = ([FoundEntry](), SearchPlace?.none)
        repeat {
            let page = try await find(tree, text, after: next, limit: size)
            entries += page.entries
            #expect(page.entries.count == size || page.next == nil)
            // As it comes back from a caller.
            next = try page.next.map { try #require(SearchPlace(text: $0.text)) }
            try await between()
        } while next != nil
        return entries
    }

    @Test(arguments: [
        "", "sort:name", "sort:-name", "sort:path", "sort:-path", "sort:size,-name", "sort:-size,ext,name",
        "sort:kind,-modified", "sort:-ext,-size", "sort:created,name", "sort:-added", "sort:-rating,size",
        "report", "report sort:relevance,-size", "report sort:-relevance", "is:file sort:size", "re | an sort:modified",
    ])
    func `pages of any size have what one page has, in its order`(query: String) async throws {
        let tree = try await filled()
        try await tree.index.annotate([Array(tree.path("ab").utf8)], rating: 2)
        let whole = try await find(tree, query, limit: 1_000).entries
        #expect(whole.count > 3)
        for size in [1, 2, 3, 7] { #expect(try await paged(tree, query, by: size) == whole, "\(size)") }
        #expect(try await tree.index.count(try SearchQuery(query, now: 0, offsetFromUTC: 0)) == whole.count)
    }

    @Test(arguments: ["file", "sort:name", "ext:txt", "file sort:-size", "kind:text sort:modified"])
    func `what comes and goes between two pages disturbs nothing else`(query: String) async throws {
        let tree = try IndexedTree()
        try tree.make("many")
        for number in 0..<1_300 {
            try tree.write("many/file \(number).txt", String(repeating: "x", count: number % 5))
        }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let before = try await paged(tree, query, by: 1_000)
        var step = 0
        let paged = try await paged(tree, query, by: 100) {
            step += 1
            try tree.write("many/file 00\(step).txt")
            try tree.remove("many/file \(step).txt")
            _ = try await tree.index.scan(location.id)
        }
        #expect(Set(paged.map(\.id)).count == paged.count)
        let gone = Set((1...step).map { tree.path("many/file \($0).txt") })
        let missing = Set(before.map(\.id)).subtracting(paged.map(\.id))
        let names = before.filter { missing.contains($0.id) }.map { String(decoding: $0.path, as: UTF8.self) }
        #expect(Set(names).isSubset(of: gone))
    }

    @Test func `every key of an order counts`() async throws {
        let tree = try IndexedTree()
        for (name, text) in [("b.txt", "1"), ("a.md", "1"), ("c.txt", "22"), ("a.txt", "1")] {
            try tree.write(name, text)
        }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        #expect(try await names(tree, "sort:size,ext,-name") == ["a.md", "b.txt", "a.txt", "c.txt"])
        #expect(try await names(tree, "sort:-size,name") == ["c.txt", "a.md", "a.txt", "b.txt"])
        await #expect(throws: KithError(.invalid, "")) { try await names(tree, "a sort:size,relevance") }
    }

    @Test func `a place in another answer is refused, and so is what is none`() async throws {
        let tree = try await filled()
        let bySize = try #require(try await find(tree, "sort:size", limit: 1).next)
        let ranked = try #require(try await find(tree, "report", limit: 1).next)
        for (query, place) in [("sort:-size", bySize), ("report", bySize), ("sort:size", ranked), ("", ranked)] {
            await #expect(throws: KithError(.invalid, "")) { try await find(tree, query, after: place) }
        }
        for text in ["", "50", "{}", "bm9uZQ==", String(repeating: "A", count: 100_000)] {
            #expect(SearchPlace(text: text) == nil)
        }
        // One that somebody has made has a place, or is refused; nothing else.
        let made = #"{"order":"size","values":[{"bytes":{"_0":"AAAA"}},{"integer":{"_0":9223372036854775807}}]}"#
        let place = try #require(SearchPlace(text: Data(made.utf8).base64EncodedString()))
        #expect(try await find(tree, "sort:size", after: place).entries.isEmpty)
    }

    @Test(arguments: ["file", "sort:name", "regex:[0-9]$", "-x"])
    func `a search that nobody waits for any more ends between two rows`(text: String) async throws {
        let tree = try IndexedTree()
        for number in 0..<2_000 { try tree.write("file \(number)") }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let seen = Mutex(0)
        let task = Mutex<Task<Int, any Error>?>(nil)
        let query = try SearchQuery(text, now: 0, offsetFromUTC: 0)
        let isSet = AsyncEvent()
        let search = Task {
            await isSet.wait()
            return try await tree.index.search(
                query, "",
                visiting: {
                    let count = seen.withLock { seen in
                        seen += 1
                        return seen
                    }
                    if count == 10 { task.withLock { $0?.cancel() } }
                }
            ) { search, database in
                var count = 0
                try search.forEach(database) { _ in
                    count += 1
                    return true
                }
                return count
            }
        }
        task.withLock { $0 = search }
        isSet.happen()
        await #expect(throws: KithError(.cancelled, "")) { try await search.value }
        let visited = seen.withLock { $0 }
        #expect(visited == 10)
    }

    @Test func `what has become a folder is no file any more, and the other way`() async throws {
        let tree = try IndexedTree()
        try tree.write("report a")
        try tree.make("report b")
        let location = try tree.added()
        func files() async throws -> [String] {
            _ = try await tree.index.scan(location.id)
            return try await tree.index.search(SearchQuery("report size:>=0", now: 0, offsetFromUTC: 0)).entries
                .map { String(decoding: $0.name, as: UTF8.self) }
        }
        #expect(try await files() == ["report a"])
        try tree.remove("report a")
        try tree.make("report a")
        try tree.remove("report b")
        try tree.write("report b")
        #expect(try await files() == ["report b"])
    }

    @Test func `facets count all that is found, and say when they do not`() async throws {
        let tree = try await filled()
        _ = try await tree.index.changeTags(of: [Array(tree.path("ab").utf8)], add: [["work"]], remove: [])
        let facets = try await tree.index.facets(try SearchQuery("", now: 0, offsetFromUTC: 0))
        let counts = { (counts: [SearchFacets.Count]) in
            Dictionary(uniqueKeysWithValues: counts.map { ($0.value, $0.count) })
        }
        #expect(facets.total == 10 && !facets.isCut && facets.bytes == 5_010)
        #expect(counts(facets.kinds)["folder"] == 2 && counts(facets.kinds)["image"] == 1)
        #expect(counts(facets.extensions) == ["txt": 1, "pdf": 1, "md": 1, "jpg": 1])
        #expect(counts(facets.locations) == ["1": 10] && counts(facets.tags) == ["work": 1])
        #expect(facets.sizes == [.init(value: "empty", count: 1), .init(value: "<10K", count: 7)])
        let year = Calendar(identifier: .gregorian).component(.year, from: Date())
        #expect(facets.years.reduce(0) { $0 + $1.count } == 10 && (Int(facets.years[0].value) ?? 0) >= year - 1)
        let cut = try await tree.index.facets(try SearchQuery("", now: 0, offsetFromUTC: 0), limit: 3)
        #expect(cut.total == 3 && cut.isCut)
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
                "regex:o.t", "*.txt", "name:\"re\"*", "name:*\"g\"", "is:hidden", "is:file", "(report OR ab)",
                "(img OR Ämter)", "kind:other",
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
