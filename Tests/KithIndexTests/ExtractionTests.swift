import Foundation
import GRDB
import KithCatalog
import KithContent
import KithTesting
import Testing

@testable import KithIndex

/// An index with what was read out of its files.
private func indexed(_ files: [(String, ContentProperties, String?)]) async throws -> (IndexedTree, IndexLocation) {
    let tree = try IndexedTree()
    for (name, _, text) in files { try tree.write(name, text ?? name) }
    let location = try tree.added()
    _ = try await tree.index.scan(location.id)
    for (name, properties, text) in files {
        let item = try await tree.index.extractionItem(at: Array(tree.path(name).utf8))
        try await tree.index.storeExtractions([(item, .read(properties, text: text))])
    }
    return (tree, location)
}

private func found(_ query: String, _ tree: IndexedTree) async throws -> [String] {
    let query = try SearchQuery(query, now: 1_717_000_000, offsetFromUTC: 0)
    return try await tree.index.search(query).entries.map { String(decoding: $0.name, as: UTF8.self) }.sorted()
}

@Suite struct ExtractionTests {
    @Test func `words of a text find its file, with the passage around them`() async throws {
        let (tree, _) = try await indexed([
            ("a.txt", .init(), "The net gain of the year was täglich larger."),
            ("b.txt", .init(), "A gain, net of tax."),
            ("c.txt", .init(), nil),
        ])
        #expect(try await found("content:\"net gain\"", tree) == ["a.txt"])
        #expect(try await found("content:gain", tree) == ["a.txt", "b.txt"])
        #expect(try await found("content:TAGLICH", tree) == ["a.txt"])
        #expect(try await found("-content:gain kind:text", tree) == ["c.txt"])
        #expect(try await found("content:gai", tree) == [])
        // What is syntax to the index of words is text here.
        for query in ["content:\"a* OR b\"", "content:\"NEAR(a b)\"", "content:\"\"\"\"", "content:\"-\""] {
            _ = try await found(query, tree)
        }
        let page = try await tree.index.search(
            SearchQuery("content:gain b", now: 0, offsetFromUTC: 0))
        #expect(page.entries.first?.snippet?.parts.filter(\.isHit).map(\.text) == ["gain"])
        #expect(page.entries.first?.snippet?.parts.map(\.text).joined() == "A gain, net of tax.")
    }

    @Test func `properties find files`() async throws {
        var picture = ContentProperties()
        (picture.width, picture.height, picture.camera) = (6_000, 4_000, "SONY ILCE-7M4")
        (picture.taken, picture.takenOffset) = (1_717_158_600, 120)
        (picture.latitude, picture.longitude) = (48.2, 16.4)
        var film = ContentProperties()
        (film.duration, film.width) = (900_000, 1_920)
        let (tree, _) = try await indexed([("a.jpg", picture, nil), ("b.mp4", film, nil), ("c.txt", .init(), "c")])
        #expect(try await found("width:>4000", tree) == ["a.jpg"])
        #expect(try await found("width:1000..2000", tree) == ["b.mp4"])
        #expect(try await found("height:4000", tree) == ["a.jpg"])
        #expect(try await found("duration:>10m", tree) == ["b.mp4"])
        #expect(try await found("duration:15:00", tree) == ["b.mp4"])
        #expect(try await found("duration:<10m", tree) == [])
        #expect(try await found("taken:2024-05-31", tree) == ["a.jpg"])
        #expect(try await found("taken:2023", tree) == [])
        #expect(try await found("camera:sony", tree) == ["a.jpg"])
        #expect(try await found("has:gps", tree) == ["a.jpg"])
        #expect(try await found("has:text", tree) == ["c.txt"])
        #expect(try await found("-has:gps kind:video", tree) == ["b.mp4"])
    }

    @Test func `what was read goes with the file, and is read again when it has changed`() async throws {
        let (tree, location) = try await indexed([("a.txt", .init(), "word"), ("b.txt", .init(), "word")])
        #expect(try await tree.index.extractionCount(location.id) == 0)
        try tree.remove("a.txt")
        try tree.write("b.txt", "changed it")
        _ = try await tree.index.scan(location.id)
        #expect(try await found("content:word", tree) == ["b.txt"])
        let pending = try await tree.index.filesToExtract(location.id, after: 0, limit: 10)
        #expect(pending.map { String(decoding: $0.path, as: UTF8.self) } == [tree.path("b.txt")])
        try await tree.index.storeExtractions([(pending[0], .unreadable("it ended the process twice"))])
        #expect(try await found("content:word", tree) == [])
        #expect(try await tree.index.extractionCount(location.id) == 0)
        #expect(try await tree.index.extracted(pending[0])?.problem == "it ended the process twice")
        try await tree.index.removeLocation(location.id)
        let left = try await tree.index.database.read { database in
            try Int.fetchOne(
                database, sql: "SELECT (SELECT count(*) FROM extraction) + (SELECT count(*) FROM text_index)")
        }
        #expect(left == 0)
    }

    @Test func `only the file itself is opened, through no link`() async throws {
        let (tree, location) = try await indexed([("a.txt", .init(), nil)])
        try tree.make("sub")
        try tree.write("sub/b.txt", "inside")
        _ = try await tree.index.scan(location.id)
        let (plain, below) = (
            try await tree.index.extractionItem(at: Array(tree.path("a.txt").utf8)),
            try await tree.index.extractionItem(at: Array(tree.path("sub/b.txt").utf8))
        )
        #expect(try tree.index.open(plain) != nil)
        #expect(try tree.index.open(below) != nil)
        // The same file, by way of a link that has taken the folder's place.
        try tree.move("sub", to: "../elsewhere")
        try FileManager.default.createSymbolicLink(
            atPath: tree.path("sub"), withDestinationPath: tree.folder.path + "/elsewhere")
        #expect(try tree.index.open(below) == nil)
        try tree.write("a.txt", "something longer than it was")
        #expect(try tree.index.open(plain) == nil)
        try tree.remove("a.txt")
        try #require(mkfifo(tree.path("a.txt"), 0o600) == 0)
        #expect(try tree.index.open(plain) == nil)
    }
}
