import CKithSystem
import Foundation
import GRDB
import KithCatalog
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithIndex

@Suite struct ContentTests {
    private func scanned(_ tree: IndexedTree) async throws -> IndexLocation {
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        return location
    }

    private func whole(_ tree: IndexedTree) throws -> [String: String] {
        try tree.index.database.read { database in
            Dictionary(
                uniqueKeysWithValues: try Row.fetchAll(
                    database,
                    sql: "SELECT entry.name, hex(identity.whole) FROM identity JOIN entry ON entry.id = identity.entry"
                ).map { (String(decoding: $0[0] as Data, as: UTF8.self), ($0[1] as String).lowercased()) })
        }
    }

    private func write(_ tree: IndexedTree, _ name: String, _ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: tree.path(name)))
    }

    /// Puts bytes into a file and gives it its times again, as a disk does that forgets.
    private func rot(_ tree: IndexedTree, _ name: String, at offset: UInt64) async throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: tree.path(name)))
        try handle.seek(toOffset: offset)
        try handle.write(contentsOf: Data("!".utf8))
        try handle.close()
        // The time of the last change cannot be set: what is known of the file is made to agree instead.
        let attributes = try OpenFolder(path: Array(tree.top.utf8)).attributes(of: Array(name.utf8))
        try await tree.index.database.write { database in
            for table in ["entry", "identity"] {
                try database.execute(
                    sql: """
                        UPDATE \(table) SET modified = ?, changed = ?
                        WHERE \(table == "entry" ? "id" : "entry") = (SELECT id FROM entry WHERE name = ?)
                        """, arguments: [attributes.modified, attributes.changed, Data(name.utf8)])
            }
        }
    }

    @Test func `each file has the SHA-256 of its bytes, and is not read again`() async throws {
        let tree = try IndexedTree()
        try tree.make("a/b")
        try tree.write("a/b/abc", "abc")
        try tree.write("empty")
        let location = try await scanned(tree)
        let counts = try await tree.index.identify(location.id)
        #expect(counts.files == 2 && counts.total == 2 && counts.bytes == 3 && counts.unreadable == 0)
        // FIPS 180-4.
        #expect(
            try whole(tree) == [
                "abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "empty": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ])
        #expect(try await tree.index.identify(location.id).files == 0)
        try tree.write("a/b/abc", "abd")
        _ = try await tree.index.scan(location.id)
        #expect(try await tree.index.identify(location.id).files == 1)
    }

    @Test func `a large file has a sample first, and its SHA-256 when it is asked for`() async throws {
        let tree = try IndexedTree()
        var random = SeededRandom(seed: 1)
        let bytes = (0..<(2 << 20) + 17).map { _ in UInt8.random(in: 0...255, using: &random) }
        try write(tree, "large", bytes)
        let location = try await scanned(tree)
        _ = try await tree.index.identify(location.id)
        #expect(try whole(tree) == ["large": ""])
        #expect(try await tree.index.identify(location.id).files == 0)
        // The rule, written down once more.
        var sampled = Array("kith sample 1".utf8)
        for shift in 0..<8 { sampled.append(UInt8(truncatingIfNeeded: bytes.count >> (shift * 8))) }
        sampled += bytes[..<65_536]
        let step = (bytes.count - 147_456) / 15
        for number in 1...14 { sampled += bytes[(65_536 + number * step)...].prefix(16_384) }
        sampled += bytes.suffix(65_536)
        let other = try IndexedTree()
        try write(other, "text", sampled)
        let expected = try await scanned(other)
        _ = try await other.index.identify(expected.id)
        let sample = try await tree.index.database.read {
            try String.fetchOne($0, sql: "SELECT hex(sample) FROM identity")
        }
        #expect(sample?.lowercased() == (try whole(other)["text"]))
        #expect(try await tree.index.identify(location.id, depth: .whole).files == 1)
        #expect(try whole(tree)["large"]?.count == 64)
    }

    @Test func `the sample of the largest file does not overflow`() {
        for size in [ContentSample.threshold + 1, .max] {
            let ranges = ContentSample.ranges(size)
            #expect(ranges.count == 16 && ranges.last?.upperBound == size)
            #expect(zip(ranges, ranges.dropFirst()).allSatisfy { $0.upperBound <= $1.lowerBound })
        }
    }

    @Test func `what has changed since the scan, a link, a pipe and what is not readable has no identity`() async throws
    {
        let tree = try IndexedTree()
        for name in ["changed", "linked", "piped", "gone"] { try tree.write(name, "1") }
        try tree.make("folder")
        try tree.write("folder/inner", "1")
        try tree.make("outside")
        try tree.write("outside/inner", "1")
        let location = try await scanned(tree)
        try tree.write("changed", "12")
        try tree.remove("linked")
        try FileManager.default.createSymbolicLink(atPath: tree.path("linked"), withDestinationPath: "/etc/passwd")
        try tree.remove("piped")
        #expect(mkfifo(tree.path("piped"), 0o600) == 0)
        try tree.remove("gone")
        try FileManager.default.removeItem(atPath: tree.path("folder"))
        try FileManager.default.createSymbolicLink(
            atPath: tree.path("folder"), withDestinationPath: tree.path("outside"))
        let counts = try await tree.index.identify(location.id)
        #expect(counts.files == 6 && counts.gone == 1 && counts.changed == 4)
        #expect(try whole(tree).keys.sorted() == ["inner"])
    }

    @Test func `what was stored stays when the work is interrupted`() async throws {
        let tree = try IndexedTree()
        for folder in 0..<3 {
            try tree.make("\(folder)")
            for file in 0..<1_000 { try tree.write("\(folder)/\(file)", "\(folder) \(file)") }
        }
        let location = try await scanned(tree)
        struct Stop: Error {}
        await #expect(throws: Stop.self) {
            try await tree.index.identify(location.id, steps: ContentSteps(stored: { _ in throw Stop() }))
        }
        let counts = try await tree.index.identify(location.id)
        #expect(counts.files == 1_000 && counts.total == 1_000)
        #expect(
            try await tree.index.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM identity") } == 3_000)
    }

    @Test func `bytes that changed by themselves are damaged until they are right again`() async throws {
        let tree = try IndexedTree()
        try tree.write("one", "same")
        try tree.write("two", "same")
        try tree.write("gone", "1")
        let large = [UInt8](repeating: 7, count: 3 << 20)
        try write(tree, "large", large)
        let location = try await scanned(tree)
        _ = try await tree.index.identify(location.id)
        let problems = Mutex<[ContentProblem]>([])
        let steps = ContentSteps(problem: { problem in problems.withLock { $0.append(problem) } })
        let whole = try await tree.index.verify(location.id, began: .max, steps: steps)
        #expect(whole.files == 4 && whole.damaged == 0 && problems.withLock { $0.isEmpty })
        #expect(try await found("is:duplicate", tree) == ["one", "two"])
        try await rot(tree, "two", at: 1)
        // Where no sample is.
        try await rot(tree, "large", at: 70_000)
        try tree.remove("gone")
        let counts = try await tree.index.verify(location.id, began: .max, steps: steps)
        #expect(counts.damaged == 2 && counts.gone == 1)
        #expect(
            Set(problems.withLock { $0.map { "\($0.kind) \(String(decoding: $0.path, as: UTF8.self))" } }) == [
                "damaged \(tree.path("two"))", "damaged \(tree.path("large"))", "gone \(tree.path("gone"))",
            ])
        #expect(try await found("is:duplicate", tree) == [], "what is damaged is a copy of nothing")
        #expect(try await tree.index.content(of: Array(tree.path("two").utf8)).isDamaged)
        #expect(try await tree.index.identify(location.id).files == 0, "nor is it taken for new")
        #expect(try await tree.index.verify(location.id, began: 0).files == 0, "what was read since is not read again")
    }

    private func found(_ query: String, _ tree: IndexedTree) async throws -> [String] {
        try await tree.index.search(try SearchQuery(query, now: 0, offsetFromUTC: 0)).entries
            .map { String(decoding: $0.name, as: UTF8.self) }.sorted()
    }

    // MARK: - Duplicates

    @Test func `duplicates are files with equal bytes, and names of one file are one`() async throws {
        let tree = try IndexedTree()
        try tree.make("a")
        try tree.make("b")
        for name in ["a/one", "b/one", "b/two"] { try tree.write(name, "equal") }
        try tree.write("a/other", "other")
        try FileManager.default.linkItem(atPath: tree.path("a/one"), toPath: tree.path("a/link"))
        for name in ["a/empty", "b/empty"] { try tree.write(name) }
        // Equal where the sample is, and not between.
        var large = [UInt8](repeating: 1, count: 4 << 20)
        try write(tree, "a/large", large)
        large[100_000] = 2
        try write(tree, "b/large", large)
        try write(tree, "b/same", large)
        // A size of its own.
        try tree.write("a/alone", "alone in its size")
        _ = try await scanned(tree)
        let counts = try await tree.index.identifyCandidates(DuplicateScope())
        #expect(counts.files == 11, "five small ones, three large ones twice")
        let (digests, totals) = try await tree.index.duplicates(DuplicateScope())
        #expect(totals == DuplicateTotals(groups: 2, files: 3, waste: (4 << 20) + 10))
        var groups: [DuplicateGroup] = []
        for digest in digests { groups.append(try #require(try await tree.index.group(digest, DuplicateScope()))) }
        #expect(names(groups, tree) == [[["b/large"], ["b/same"]], [["a/link", "a/one"], ["b/one"], ["b/two"]]])
        for group in groups {
            let compared = try await tree.index.compare(group)
            #expect(compared.map(\.evidence) == [.bytes] && compared.first?.copies == group.copies)
        }
        let scope = DuplicateScope(folders: [Array(tree.path("b").utf8)], minimumSize: 6)
        #expect(try await tree.index.duplicates(scope).totals == DuplicateTotals(groups: 1, files: 1, waste: 4 << 20))
        #expect(try await found("is:duplicate", tree) == ["large", "link", "one", "one", "same", "two"])
        #expect(try await found("-is:duplicate is:file", tree) == ["alone", "empty", "empty", "large", "other"])
        #expect(try await tree.index.identifyCandidates(DuplicateScope()).files == 0)
    }

    private func names(_ groups: [DuplicateGroup], _ tree: IndexedTree) -> [[[String]]] {
        groups.map { group in
            group.copies.map {
                $0.paths.map { String(String(decoding: $0, as: UTF8.self).dropFirst(tree.top.count + 1)) }
            }
        }
    }

    @Test func `a digest that deceives is found out, and what changes meanwhile is left out`() async throws {
        let tree = try IndexedTree()
        for name in ["1", "2", "3", "4"] { try tree.write(name, "xx") }
        for name in ["5", "6"] { try tree.write(name, "yy") }
        let location = try await scanned(tree)
        _ = try await tree.index.identify(location.id)
        // As if all had the same SHA-256.
        try await tree.index.database.write { database in
            try database.execute(sql: "UPDATE identity SET whole = (SELECT whole FROM identity LIMIT 1)")
        }
        let digest = try #require(try await tree.index.duplicates(DuplicateScope()).digests.first)
        let group = try #require(try await tree.index.group(digest, DuplicateScope()))
        #expect(group.count == 6)
        try tree.write("2", "zz")
        try tree.remove("3")
        let compared = try await tree.index.compare(group)
        #expect(names(compared, tree) == [[["1"], ["4"]], [["5"], ["6"]]])
    }

    @Test func `a group of many names is told in part, and counted whole`() async throws {
        let tree = try IndexedTree()
        for number in 0..<1_100 { try tree.write("\(number)", "same") }
        let location = try await scanned(tree)
        _ = try await tree.index.identify(location.id)
        let (digests, totals) = try await tree.index.duplicates(DuplicateScope())
        let digest = try #require(digests.first)
        let group = try #require(try await tree.index.group(digest, DuplicateScope()))
        #expect(group.count == 1_100 && group.copies.count == 1_000 && totals.files == 1_099)
    }

    // MARK: - Modes

    @Test func `a shallow location holds the names of its folder, and keeps to that`() async throws {
        let tree = try IndexedTree()
        try tree.make("folder")
        try tree.write("folder/inner")
        try tree.write("one")
        let location = try tree.index.addLocation(at: Array(tree.top.utf8), mode: .shallow)
        _ = try await tree.index.scan(location.id)
        #expect(try await found("is:file", tree) == ["one"])
        try tree.make("new")
        try tree.write("new/inner")
        _ = try await tree.index.scan(location.id)
        #expect(try tree.numbers().count == 3)
        #expect(try tree.index.locations().map(\.mode) == [.shallow])
    }
}
