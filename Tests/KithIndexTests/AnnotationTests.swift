import Foundation
import GRDB
import KithCatalog
import KithTesting
import KithWire
import Testing

@testable import KithIndex

@Suite struct AnnotationTests {
    /// Two locations side by side, `a` added before `b`.
    private struct Two {
        let tree: IndexedTree
        let a: IndexLocation
        let b: IndexLocation

        init() async throws {
            tree = try IndexedTree()
            try tree.make("a")
            try tree.make("b")
            a = try tree.index.addLocation(at: Array(tree.path("a").utf8))
            b = try tree.index.addLocation(at: Array(tree.path("b").utf8))
        }

        func scan() async throws {
            _ = try await tree.index.scan(a.id)
            _ = try await tree.index.scan(b.id)
        }
    }

    private func tag(_ tree: IndexedTree, _ name: String, _ tag: String = "work") async throws {
        _ = try await tree.index.changeTags(of: [Array(tree.path(name).utf8)], add: [[tag]], remove: [])
    }

    private func found(_ tree: IndexedTree, _ text: String) async throws -> [String] {
        let query = try SearchQuery(text, now: Int64(Date().timeIntervalSince1970), offsetFromUTC: 0)
        return try await tree.index.search(query, limit: 1_000).entries.map {
            String(decoding: $0.path.dropFirst(tree.top.utf8.count + 1), as: UTF8.self)
        }.sorted()
    }

    @Test(arguments: [("a", "b"), ("b", "a")], [false, true])
    func `tags stay with a file that moves to another location`(_ way: (from: String, to: String), watched: Bool)
        async throws
    {
        let two = try await Two()
        let tree = two.tree
        try tree.write("\(way.from)/one.txt", "1")
        try tree.make("\(way.from)/folder/inner")
        try tree.write("\(way.from)/folder/inner/two.txt", "2")
        let watcher = try FolderWatcher()
        for location in [two.a, two.b] { _ = try await tree.index.scan(location.id, watcher: watcher) }
        for name in ["one.txt", "folder", "folder/inner/two.txt"] { try await tag(tree, "\(way.from)/\(name)") }
        try tree.move("\(way.from)/one.txt", to: "\(way.to)/other.txt")
        try tree.move("\(way.from)/folder", to: "\(way.to)/folder")
        if watched {
            while let changes = watcher.available() { _ = try await tree.index.take(changes, from: watcher) }
        } else {
            try await two.scan()
        }
        let expected = ["\(way.to)/folder", "\(way.to)/folder/inner/two.txt", "\(way.to)/other.txt"]
        #expect(try await found(tree, "tag:work") == expected)
        #expect(try tree.index.tags().map(\.uses) == [3])
        #expect(try tree.contents()["orphans"] == "0")
        #expect(try tree.contents()["searched"] == "true")
    }

    @Test func `tags of what is gone for good go, once every location was looked through`() async throws {
        let two = try await Two()
        let tree = two.tree
        try tree.write("a/one.txt", "1")
        try await two.scan()
        try await tag(tree, "a/one.txt")
        try tree.remove("a/one.txt")
        _ = try await tree.index.scan(two.a.id)
        #expect(try await found(tree, "tag:work") == [])
        #expect(try tree.index.tags().map(\.uses) == [0])
        // A new file is another one, whatever number it has.
        try tree.write("b/one.txt", "1")
        try await two.scan()
        try await two.scan()
        #expect(try await found(tree, "tag:work") == [])
        let left = try await tree.index.database.read { database in
            try Int.fetchOne(database, sql: "SELECT (SELECT count(*) FROM tag_use) + (SELECT count(*) FROM kept)")
        }
        #expect(left == 0)
    }

    @Test func `an editor that writes a new file and renames it over the old one keeps the tags`() async throws {
        let tree = try IndexedTree()
        try tree.write("letter.txt", "1")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        try await tag(tree, "letter.txt")
        // The new file was seen by a scan, or was not.
        for isSeen in [true, false] {
            try tree.write(".letter.txt.new", "longer \(isSeen)")
            if isSeen { _ = try await tree.index.scan(location.id) }
            try rename(tree, ".letter.txt.new", "letter.txt")
            _ = try await tree.index.scan(location.id)
            #expect(try await found(tree, "tag:work") == ["letter.txt"])
        }
        // And one that moves the old one away first, and deletes it then.
        try tree.move("letter.txt", to: "letter.txt~")
        try tree.write("letter.txt", "new")
        try tree.remove("letter.txt~")
        _ = try await tree.index.scan(location.id)
        #expect(try await found(tree, "tag:work") == ["letter.txt"])
    }

    @Test func `a tagged file that is moved over another name keeps its own tags`() async throws {
        let tree = try IndexedTree()
        try tree.make("sub")
        for name in ["one", "two", "sub/three", "four"] { try tree.write(name, name) }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        try await tag(tree, "one", "first")
        try await tag(tree, "two", "second")
        try rename(tree, "one", "sub/three")
        _ = try await tree.index.scan(location.id)
        #expect(try await found(tree, "tag:first") == ["sub/three"])
        // Two that change names, and one that another takes the name of.
        try rename(tree, "two", "aside")
        try rename(tree, "sub/three", "two")
        try rename(tree, "aside", "sub/three")
        _ = try await tree.index.scan(location.id)
        #expect(try await found(tree, "tag:first") == ["two"])
        #expect(try await found(tree, "tag:second") == ["sub/three"])
        try rename(tree, "two", "zwei")
        try tree.write("two", "another")
        _ = try await tree.index.scan(location.id)
        #expect(try await found(tree, "tag:first") == ["zwei"])
        #expect(try tree.contents() == (try await tree.fresh()))
    }

    private func rename(_ tree: IndexedTree, _ name: String, _ other: String) throws {
        try #require(Foundation.rename(tree.path(name), tree.path(other)) == 0)
    }

    @Test func `notes, stars and favourites are found, sorted by, and stay with what is moved`() async throws {
        let tree = try IndexedTree()
        for name in ["one", "two", "three"] { try tree.write(name, name) }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let path = { (name: String) in Array(tree.path(name).utf8) }
        try await tree.index.annotate([path("one")], rating: 5, note: "Call Ämter back")
        try await tree.index.annotate([path("two")], isFavorite: true, rating: 3)
        #expect(try await found(tree, "note:\"call ämter\"") == ["one"])
        #expect(try await found(tree, "is:favorite") == ["two"])
        #expect(try await found(tree, "rating:>=3") == ["one", "two"])
        #expect(try await found(tree, "rating:0") == ["three"])
        #expect(try await found(tree, "-is:favorite -rating:5") == ["three"])
        let sorted = try await tree.index.search(try SearchQuery("sort:-rating", now: 0, offsetFromUTC: 0))
        #expect(sorted.entries.map(\.annotation.rating) == [5, 3, 0])
        try tree.move("one", to: "moved")
        _ = try await tree.index.scan(location.id)
        #expect(try await found(tree, "rating:5 note:back") == ["moved"])
        try await tree.index.annotate([path("moved")], rating: 0, note: "")
        #expect(try await tree.index.annotation(of: path("moved")) == Annotation())
        #expect(try await tree.index.annotation(of: path("two")) == Annotation(isFavorite: true, rating: 3))
        await #expect(throws: KithError(.invalid, "")) { try await tree.index.annotate([path("two")], rating: 6) }
        await #expect(throws: KithError(.notFound, "")) { try await tree.index.annotate([path("one")], rating: 1) }
        let long = String(repeating: "x", count: FileIndex.noteLimit + 1)
        await #expect(throws: KithError(.invalid, "")) { try await tree.index.annotate([path("two")], note: long) }
    }

    @Test func `a file is found by the time at which it was made, and is no pipe`() async throws {
        let tree = try IndexedTree()
        try tree.write("made")
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1)], ofItemAtPath: tree.path("made"))
        try #require(mkfifo(tree.path("pipe"), 0o600) == 0)
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        #expect(try await found(tree, "is:file") == ["made"])
        #expect(try await found(tree, "is:other") == ["pipe"])
        #expect(try await found(tree, "kind:other") == ["made", "pipe"])
        #expect(try await found(tree, "modified:1970") == ["made"])
        let entry = try #require(
            try await tree.index.search(try SearchQuery("made", now: 0, offsetFromUTC: 0)).entries.first)
        // Not every file system says.
        guard entry.created != nil else { return }
        #expect(try await found(tree, "created:<1d made") == ["made"])
        #expect(try await found(tree, "created:>1d") == [])
    }
}
