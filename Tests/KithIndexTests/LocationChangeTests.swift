import Foundation
import GRDB
import KithCatalog
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithIndex

/// Locations that are changed, and those that go into a file and come out of it.
@Suite struct LocationChangeTests {
    private func names(_ tree: IndexedTree, _ text: String = "") async throws -> [String] {
        let query = try SearchQuery(text, now: 0, offsetFromUTC: 0)
        return try await tree.index.search(query, limit: 1_000).entries.map {
            String(decoding: $0.path.dropFirst(tree.top.utf8.count + 1), as: UTF8.self)
        }.sorted()
    }

    private func filled() async throws -> (IndexedTree, IndexLocation) {
        let tree = try IndexedTree()
        try tree.make("sub/deep")
        for name in ["one", "two.o", "sub/three", "sub/deep/four"] { try tree.write(name, name) }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        return (tree, location)
    }

    @Test func `a location gets another name, and stays as it is otherwise`() async throws {
        let (tree, location) = try await filled()
        let before = try tree.contents()
        let changed = try await tree.index.changeLocation(location.id, name: "other")
        #expect(changed.name == "other" && changed.rules == location.rules && changed.mode == location.mode)
        #expect(try tree.contents() == before)
        await #expect(throws: KithError(.notFound, "")) { try await tree.index.changeLocation(99, name: "x") }
    }

    @Test func `other rules hold with the next scan, both ways`() async throws {
        let (tree, location) = try await filled()
        let rules = LocationRules(patterns: ["*.o", "deep/"], followsIgnoreFiles: false)
        _ = try await tree.index.changeLocation(location.id, rules: rules)
        _ = try await tree.index.scan(location.id)
        #expect(try await names(tree) == ["one", "sub", "sub/three"])
        #expect(try tree.contents() == (try await tree.fresh(rules)))
        _ = try await tree.index.changeLocation(location.id, rules: LocationRules())
        _ = try await tree.index.scan(location.id)
        #expect(try tree.contents() == (try await tree.fresh()))
    }

    @Test func `made shallow it forgets what lies deeper, and finds it again with its tags`() async throws {
        let (tree, location) = try await filled()
        _ = try await tree.index.changeTags(
            of: [Array(tree.path("sub/deep/four").utf8)], add: [["kept"]], remove: [])
        _ = try await tree.index.changeLocation(location.id, mode: .shallow)
        #expect(try await names(tree) == ["one", "sub", "two.o"])
        #expect(try tree.contents()["orphans"] == "0" && tree.contents()["searched"] == "true")
        _ = try await tree.index.changeLocation(location.id, mode: .recursive)
        _ = try await tree.index.scan(location.id)
        #expect(try await names(tree, "tag:kept") == ["sub/deep/four"])
        #expect(try tree.contents() == (try await tree.fresh()))
    }

    @Test func `what is usual for new locations is kept, and starts over`() async throws {
        let (tree, _) = try await filled()
        #expect(try tree.index.usual() == FileIndex.Usual())
        let usual = FileIndex.Usual(mode: .content, rules: LocationRules(patterns: ["*.o"], followsIgnoreFiles: false))
        try await tree.index.setUsual(usual)
        #expect(try tree.index.usual() == usual)
        try await tree.index.setUsual(FileIndex.Usual())
        #expect(try tree.index.usual() == FileIndex.Usual())
    }

    // MARK: - Files

    @Test func `a location goes into a file and comes out elsewhere, with tags and notes`() async throws {
        let (tree, location) = try await filled()
        let odd = Array(tree.path("").utf8) + [UInt8(ascii: "/"), 0xFF]
        let file = open(odd.map { CChar(bitPattern: $0) } + [0], O_CREAT | O_WRONLY, 0o600)
        try #require(file >= 0)
        close(file)
        _ = try await tree.index.scan(location.id)
        _ = try await tree.index.changeTags(
            of: [Array(tree.path("one").utf8), odd], add: [["a", "b"]], remove: [])
        try await tree.index.annotate([Array(tree.path("sub/three").utf8)], isFavorite: true, rating: 4, note: "ü\n2")
        let path = tree.folder.path + "/l.kithlocation"
        let written = try await tree.index.locationFile(location.id)
        #expect(written.notes.count == 3)
        _ = try written.write(to: path, overwrites: false)
        #expect(try tree.folder.mode(of: "l.kithlocation") == 0o600)
        #expect(throws: KithError(.conflict, "")) { try written.write(to: path, overwrites: false) }
        let read = try LocationFile.read(path)
        #expect(read == written)

        // Elsewhere: the same names, one of them only later.
        let other = try IndexedTree()
        try other.make("sub")
        for name in ["one", "sub/three"] { try other.write(name, "other") }
        _ = try other.index.addLocation(
            at: Array(other.top.utf8), name: read.name, rules: read.rules, mode: read.mode, notes: read.notes)
        let added = try #require(try other.index.locations().first)
        #expect(try await other.index.pendingNotes(of: added.id) == 3)
        _ = try await other.index.scan(added.id)
        #expect(try await names(other, "tag:a/b") == ["one"])
        let three = Array(other.path("sub/three").utf8)
        #expect(
            try await other.index.annotation(of: three) == Annotation(isFavorite: true, rating: 4, note: "ü\n2"))
        #expect(try await other.index.pendingNotes(of: added.id) == 1)
    }

    @Test func `what was noted before an import is not taken away by it`() async throws {
        let (tree, location) = try await filled()
        let one = Array(tree.path("one").utf8)
        try await tree.index.annotate([one], rating: 5, note: "own")
        let notes = [
            LocationFile.Note(
                path: Array("one".utf8), tags: [["t"]],
                annotation: Annotation(isFavorite: true, rating: 1, note: "theirs"))
        ]
        try await tree.index.database.write { try tree.index.keepPending(notes, of: location.id, $0) }
        _ = try await tree.index.scan(location.id)
        #expect(try await tree.index.annotation(of: one) == Annotation(isFavorite: true, rating: 5, note: "own"))
        #expect(try await names(tree, "tag:t") == ["one"])
    }

    @Test(arguments: [
        "", "{}", "[]", "not JSON",
        #"{"version":2,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[]}"#,
        #"{"version":1,"name":" ","path":"L2E=","mode":"recursive","rules":RULES,"notes":[]}"#,
        #"{"version":1,"name":"a","path":"YQ==","mode":"recursive","rules":RULES,"notes":[]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"sideways","rules":RULES,"notes":[]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[NOTE("../etc/passwd",1,"t")]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[NOTE("/etc/passwd",1,"t")]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[NOTE("a//b",1,"t")]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[NOTE("a",6,"t")]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[NOTE("a",1,"t//u")]}"#,
        #"{"version":1,"name":"a","path":"L2E=","mode":"recursive","rules":RULES,"notes":[NOTE("a",1,"t"),NOTE("a",2,"t")]}"#,
    ])
    func `a file that is not one is refused whole`(text: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/file"
        var text = text.replacing("RULES", with: #"{"patterns":[],"followsIgnoreFiles":true}"#)
        text = text.replacing(#/NOTE\(("[^"]*"),(\d),("[^"]*")\)/#) { match in
            #"{"path":\#(match.1),"tags":[\#(match.3)],"favorite":false,"rating":\#(match.2)}"#
        }
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        #expect(throws: KithError(.corrupt, "")) { try LocationFile.read(path) }
    }

    @Test func `a file that is large, a folder or a pipe is not read`() throws {
        let folder = try TemporaryFolder()
        #expect(throws: KithError.self) { try LocationFile.read(folder.path) }
        try #require(mkfifo(folder.path + "/pipe", 0o600) == 0)
        #expect(throws: KithError.self) { try LocationFile.read(folder.path + "/pipe") }
        #expect(throws: KithError(.notFound, "")) { try LocationFile.read(folder.path + "/none") }
    }
}
