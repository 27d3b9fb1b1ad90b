import KithTesting
import KithWire
import Logging
import Testing

@testable import KithIndex

@Suite(.timeLimit(.minutes(4))) struct ChangeSetTests {
    /// Takes what was noted so far, as one.
    private func taken(_ follower: ChangeFollower, until count: Int) async throws -> ChangeSet {
        var all = try #require(await follower.next())
        while all.changes.count + all.more < count { all.join(try #require(await follower.next())) }
        return all
    }

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test func `each transaction says what it added, changed, moved and removed`() async throws {
        let tree = try IndexedTree()
        try tree.make("a/b")
        try tree.write("a/b/one", "1")
        try tree.write("a/two", "2")
        let location = try tree.added()
        let follower = tree.index.changeSets()
        _ = try await tree.index.scan(location.id)
        let added = try await taken(follower, until: 4)
        #expect(Set(added.changes.map(\.path)) == Set(["a", "a/b", "a/b/one", "a/two"].map { bytes(tree.path($0)) }))
        #expect(added.changes.allSatisfy { $0.kind == .added } && added.more == 0)
        #expect(added.folder == bytes(tree.top))

        let numbers = try tree.numbers()
        try tree.move("a/b", to: "c")
        try tree.write("a/two", "longer")
        _ = try await tree.index.scan(location.id)
        let moved = try await taken(follower, until: 3)
        let folder = try #require(moved.changes.first { $0.path == bytes(tree.path("c")) })
        #expect(folder.kind == .moved(from: bytes(tree.path("a/b"))) && folder.id == numbers[tree.path("a/b")])
        // What is beneath it is not listed; the folder it was in changed.
        #expect(!moved.changes.contains { $0.path == bytes(tree.path("c/one")) })
        #expect(moved.changes.contains { $0.path == bytes(tree.path("a/two")) && $0.kind == .changed })

        try tree.remove("c")
        _ = try await tree.index.scan(location.id)
        let gone = try await taken(follower, until: 1)
        #expect(gone.changes.filter { $0.kind == .removed }.map(\.path) == [bytes(tree.path("c"))])

        _ = try await tree.index.changeTags(of: [bytes(tree.path("a/two"))], add: [["x", "y"]], remove: [])
        let tagged = try #require(await follower.next())
        #expect(
            tagged.tags.map(\.added) == [[["x", "y"]]] && tagged.tags.map(\.paths) == [[bytes(tree.path("a/two"))]])
        #expect(tagged.folder == nil)
    }

    @Test func `stars, marks and notes are said with the files that have other ones, on the way back, too`()
        async throws
    {
        let tree = try IndexedTree()
        for name in ["one", "two"] { try tree.write(name, name) }
        _ = try await tree.index.scan(try tree.added().id)
        let follower = tree.index.changeSets()
        let paths = ["one", "two"].map { bytes(tree.path($0)) }
        try await tree.index.annotate([paths[0]], rating: 3)
        #expect(await follower.next()?.notes == [.init(fields: ["rating"], paths: [paths[0]])])
        try await tree.index.annotate(paths, rating: 3, note: "x")
        let both = try #require(await follower.next())
        #expect(both.notes == [.init(fields: ["note", "rating"], paths: paths)] && both.folder == nil)
        // What was so already is no news.
        try await tree.index.annotate(paths, rating: 3)
        #expect(await follower.next()?.notes == [])
        _ = try await tree.index.undoNoteChange()
        var undone: [ChangeSet.Notes] = []
        while undone.isEmpty { undone = try #require(await follower.next()).notes }
        #expect(undone.map(\.fields) == [["note", "rating"]] && Set(undone[0].paths) == Set(paths))
        var joined = ChangeSet()
        joined.note(.init(fields: ["note"], paths: [paths[0]]) as ChangeSet.Notes)
        #expect(!joined.isEmpty)
        for _ in 0..<100 { joined.join(both) }
        #expect(joined.notes.count == 64 && joined.notes.reduce(0) { $0 + $1.paths.count + $1.more } == 201)
    }

    @Test func `of many only the first are listed, and whoever is slow gets them as one`() async throws {
        let tree = try IndexedTree()
        for folder in 0..<40 {
            try tree.make("\(folder)")
            for file in 0..<20 { try tree.write("\(folder)/\(file)") }
        }
        let index = try FileIndex(path: tree.folder.path + "/small.sqlite", batch: 20, logger: Logger(label: "test"))
        let location = try index.addLocation(at: bytes(tree.top))
        let follower = index.changeSets()
        _ = try await index.scan(location.id)
        index.close()
        var (sets, count) = (0, 0)
        while let set = await follower.next() {
            sets += 1
            count += set.changes.count + set.more
            #expect(set.changes.count <= ChangeSet.limit)
        }
        #expect(sets <= 16 && count == 40 * 21)
    }

    @Test func `nothing is noted while nobody follows, and nothing is left of who did`() async throws {
        let tree = try IndexedTree()
        #expect(tree.index.newChangeSet() == nil)
        do {
            let follower = tree.index.changeSets()
            #expect(tree.index.newChangeSet() != nil)
            _ = follower
        }
        #expect(tree.index.newChangeSet() == nil)
        let follower = tree.index.changeSets()
        let waiting = Task { await follower.next() }
        waiting.cancel()
        #expect(await waiting.value == nil)
    }

    @Test func `the folder that holds all of them is the nearest, at the top of the file system, too`() {
        var set = ChangeSet()
        set.note(1, .added, bytes("/srv/a/b"), bytes("x"))
        #expect(set.folder == bytes("/srv/a/b"))
        set.note(2, .moved(from: bytes("/srv/a/c/y")), bytes("/srv/a/b"), bytes("y"))
        #expect(set.folder == bytes("/srv/a"))
        // Not of a name that only begins alike.
        set.note(3, .removed, bytes("/srv/ab"), bytes("z"))
        #expect(set.folder == bytes("/srv"))
        set.note(4, .removed, bytes("/home"), bytes("z"))
        #expect(set.folder == bytes("/"))
        #expect(set.changes.map(\.path).last == bytes("/home/z"))
    }

    @Test func `long paths do not make a set large`() {
        var set = ChangeSet()
        let name = [UInt8](repeating: 97, count: 4_000)
        for number in 0..<300 { set.note(Int64(number), .added, bytes("/srv"), name) }
        #expect(set.changes.count < 25 && set.changes.count + set.more == 300)
        var tags = ChangeSet.Tags(added: [["x"]])
        tags.paths = Array(repeating: name, count: 10_000)
        set.note(tags)
        #expect(set.tags[0].paths.count + set.tags[0].more == 10_000 && set.tags[0].paths.count < 25)
    }
}
