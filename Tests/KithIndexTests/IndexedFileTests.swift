import Foundation
import GRDB
import KithTesting
import KithWire
import Testing

@testable import KithIndex

@Suite(.timeLimit(.minutes(4))) struct IndexedFileTests {
    private func tree() async throws -> (IndexedTree, IndexLocation) {
        let tree = try IndexedTree()
        try tree.make("docs/old")
        try tree.write("docs/report.txt", "12345")
        try tree.write("docs/old/a", "a")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        return (tree, location)
    }

    private func text(_ tree: IndexedTree, _ id: Int64) async throws -> String {
        let file = try await tree.index.open(entry: id)
        var bytes: [UInt8] = []
        while let part = try file.bytes(at: UInt64(bytes.count), limit: 2) { bytes += part }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func number(_ tree: IndexedTree, _ name: String) throws -> Int64 {
        try #require(try tree.numbers()[tree.path(name)])
    }

    @Test func `a file is read as it was indexed`() async throws {
        let (tree, _) = try await tree()
        let id = try number(tree, "docs/report.txt")
        #expect(try await text(tree, id) == "12345")
        let file = try await tree.index.open(entry: id)
        #expect(try file.bytes(at: 5, limit: 1) == nil)
        #expect(try file.bytes(at: .max, limit: .max) == nil)
        #expect(try file.bytes(at: 0, limit: 0) == nil)
        #expect(try file.bytes(at: 0, limit: -1) == nil)
        for folder in ["docs", "docs/old"] {
            await #expect(throws: KithError(.invalid, "")) { _ = try await text(tree, try number(tree, folder)) }
        }
        for hostile in [Int64.min, -1, 0, 1_000_000, .max] {
            await #expect(throws: KithError(.notFound, "")) { _ = try await text(tree, hostile) }
        }
    }

    @Test func `what is not as it was indexed is not read`() async throws {
        let (tree, _) = try await tree()
        let id = try number(tree, "docs/report.txt")
        func refused(_ change: () throws -> Void) async throws {
            try change()
            await #expect(throws: KithError(.conflict, "")) { _ = try await text(tree, id) }
        }
        let path = tree.path("docs/report.txt")
        try await refused {
            try tree.remove("docs/report.txt")
            try tree.write("docs/report.txt", "54321")
        }
        try await refused {
            try tree.remove("docs/report.txt")
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "/etc/passwd")
        }
        try await refused {
            try tree.remove("docs/report.txt")
            #expect(mkfifo(path, 0o600) == 0)
        }
        try await refused { try tree.remove("docs/report.txt") }
        // A folder on the way is a link now, even one to the same files.
        let other = try number(tree, "docs/old/a")
        #expect(try await text(tree, other) == "a")
        try tree.move("docs", to: "other")
        try FileManager.default.createSymbolicLink(atPath: tree.path("docs"), withDestinationPath: "other")
        await #expect(throws: KithError(.conflict, "")) { _ = try await text(tree, other) }
        try tree.remove("docs")
        try tree.move("other", to: "docs")
        #expect(try await text(tree, other) == "a")
        try FileManager.default.moveItem(atPath: tree.top, toPath: tree.top + ".away")
        await #expect(throws: KithError(.unreachable, "")) { _ = try await text(tree, other) }
    }

    @Test func `an index that lies leads nowhere else`() async throws {
        let (tree, _) = try await tree()
        let id = try number(tree, "docs/report.txt")
        try Data("secret".utf8).write(to: URL(fileURLWithPath: tree.folder.path + "/secret"))
        for sql in [
            "UPDATE entry SET name = CAST('../../secret' AS BLOB) WHERE id = \(id)",
            "UPDATE entry SET name = x'2e2e' WHERE id = \(id)", "UPDATE entry SET name = x'' WHERE id = \(id)",
            "UPDATE entry SET name = CAST('secret' AS BLOB) WHERE id = \(id); UPDATE folder SET path = CAST('\(tree.folder.path)' AS BLOB) WHERE id = (SELECT folder FROM entry WHERE id = \(id))",
            "UPDATE folder SET path = CAST('\(tree.top)/..' AS BLOB) WHERE id = (SELECT folder FROM entry WHERE id = \(id))",
        ] {
            try await tree.index.database.write { try $0.execute(sql: sql) }
            await #expect(throws: KithError(.corrupt, "")) { _ = try await text(tree, id) }
        }
    }

    @Test func `what is protected is not read`() async throws {
        let (tree, _) = try await tree()
        let id = try number(tree, "docs/report.txt")
        for denied in 0..<3 {
            var asked = 0
            await #expect(throws: KithError(.denied, "")) {
                _ = try await tree.index.open(entry: id) { _ in
                    asked += 1
                    return asked == denied + 1
                }
            }
            #expect(asked == denied + 1)
        }
    }

    @Test func `folders are listed by pages, also when the disk is away`() async throws {
        let (tree, location) = try await tree()
        for number in 0..<25 { try tree.write("docs/old/\(number)") }
        _ = try await tree.index.scan(location.id)
        try FileManager.default.moveItem(atPath: tree.top, toPath: tree.top + ".away")
        var (names, after) = ([String](), [UInt8]?.none)
        while true {
            let page = try await tree.index.folder(Array("docs/old".utf8), in: location.id, after: after, limit: 10)
            names += page.entries.map { String(decoding: $0.name, as: UTF8.self) }
            after = page.entries.last?.name
            if !page.hasMore { break }
        }
        #expect(names == (["a"] + (0..<25).map(String.init)).sorted())
        let top = try await tree.index.folder([], in: location.id)
        #expect(top.entries.map { String(decoding: $0.name, as: UTF8.self) } == ["docs"])
        for path in ["nope", "docs/report.txt", "../x", "docs/../docs", "/docs"] {
            await #expect(throws: KithError(.notFound, "")) {
                _ = try await tree.index.folder(Array(path.utf8), in: location.id)
            }
        }
        await #expect(throws: KithError(.notFound, "")) { _ = try await tree.index.folder([], in: 99) }
    }

    @Test func `the folder of a library in a location is not looked into`() async throws {
        let (tree, location) = try await tree()
        for name in ["library.json", "index.sqlite", "lock"] { try tree.write("docs/\(name)") }
        _ = try await tree.index.scan(location.id)
        let page = try await tree.index.folder(Array("docs".utf8), in: location.id)
        #expect(page.entries.isEmpty)
        // With one of them missing it is a folder like any other.
        try tree.remove("docs/lock")
        _ = try await tree.index.scan(location.id)
        #expect(try await tree.index.folder(Array("docs".utf8), in: location.id).entries.count == 4)
    }

    @Test func `closing an index ends what follows its changes`() async throws {
        let (tree, _) = try await tree()
        let changes = tree.index.changes()
        tree.index.close()
        var count = 0
        for await _ in changes { count += 1 }
        #expect(count <= 1)
    }

    @Test func `what is in it is counted`() async throws {
        let (tree, location) = try await tree()
        try tree.write("a.jpg", String(repeating: "x", count: 1_000))
        // Full of holes: more bytes than there are.
        for number in 0..<3 {
            try tree.write("hole\(number)")
            #expect(truncate(tree.path("hole\(number)"), 1 << 43) == 0)
        }
        _ = try await tree.index.scan(location.id)
        try await tree.index.database.write {
            try $0.execute(sql: "UPDATE entry SET size = 9223372036854775807 WHERE size > 1000000")
        }
        let numbers = try await tree.index.statistics()
        #expect(numbers.files == 6 && numbers.folders == 2 && numbers.others == 0 && numbers.locations == 1)
        #expect(numbers.bytes >= UInt64(Int64.max) && numbers.scanned != nil && numbers.indexBytes > 0)
        #expect(numbers.categories.first { $0.name == "image" }?.bytes == 1_000)
    }
}
