import KithTesting
import KithWire
import Testing

@testable import KithIndex

@Suite struct TagRenameTests {
    private func tagged(_ tags: [(file: String, tag: String)]) async throws -> IndexedTree {
        let tree = try IndexedTree()
        for file in Set(tags.map(\.file)) { try tree.write(file, file) }
        _ = try await tree.index.scan(try tree.added().id)
        for (file, tag) in tags {
            _ = try await tree.index.changeTags(of: [Array(tree.path(file).utf8)], add: [names(tag)], remove: [])
        }
        return tree
    }

    private func names(_ tag: String) -> [String] { tag.split(separator: "/").map(String.init) }

    private func tags(_ tree: IndexedTree) throws -> [String] {
        try tree.index.tags().map { "\($0.path.joined(separator: "/")) \($0.uses)" }
    }

    @Test func `a tag gets another name on all files, with those beneath it`() async throws {
        let tree = try await tagged([("one", "old"), ("two", "old/x"), ("two", "other"), ("three", "older")])
        let follower = tree.index.changeSets()
        let renamed = try await tree.index.renameTag(["old"], to: ["work", "new"])
        #expect(renamed == .init(tags: 2, entries: 2, isMerged: false))
        #expect(try tags(tree) == ["older 1", "other 1", "work 0", "work/new 1", "work/new/x 1"])
        let told = try #require(await follower.next())
        #expect(told.tags.map(\.added) == [[["work", "new"]]] && told.tags.map(\.deleted) == [[["old"]]])
        #expect(
            Set(told.tags[0].paths.map { String(decoding: $0, as: UTF8.self) }) == [tree.path("one"), tree.path("two")])
        #expect(told.touched?.count == 2)
        // A file that has two of them is one file.
        #expect(try await tree.index.renameTag(["work"], to: ["other"]) == .init(tags: 3, entries: 2, isMerged: true))
        #expect(try tags(tree) == ["older 1", "other 1", "other/new 1", "other/new/x 1"])
    }

    @Test func `a tag that is there already takes the other one in`() async throws {
        let tree = try await tagged([("one", "a"), ("one", "b"), ("two", "a/x"), ("three", "b/x")])
        #expect(try await tree.index.renameTag(["a"], to: ["b"]) == .init(tags: 2, entries: 2, isMerged: true))
        #expect(try tags(tree) == ["b 1", "b/x 2"])
        // The way back leaves to each file what it had before.
        _ = try await tree.index.undoNoteChange()
        #expect(try tags(tree) == ["a 1", "a/x 1", "b 1", "b/x 1"])
    }

    @Test(arguments: [
        ("old", "old/new", ["old 0", "old/new 1", "old/new/x 1", "old/new/x/x 1"]),
        ("old/x", "old", ["old 2", "old/x 1"]), ("old", "old", ["old 1", "old/x 1", "old/x/x 1"]),
    ])
    func `nothing is lost where one name lies beneath the other`(
        _ old: String, _ new: String, _ expected: [String]
    ) async throws {
        let tree = try await tagged([("one", "old"), ("two", "old/x"), ("three", "old/x/x")])
        let before = try tags(tree)
        let renamed = try await tree.index.renameTag(names(old), to: names(new))
        #expect(try tags(tree) == expected)
        guard renamed.tags > 0 else { return }
        _ = try await tree.index.undoNoteChange()
        #expect(try tags(tree) == before)
    }

    @Test func `a name that is none changes nothing`() async throws {
        let tree = try await tagged([("one", "old/x")])
        let deep = Array(repeating: "d", count: FileIndex.tagDepthLimit)
        for name in [[], [""], ["a", ""], ["a\n"], deep] {
            await #expect(throws: KithError(.invalid, "")) { try await tree.index.renameTag(["old"], to: name) }
            #expect(try tags(tree) == ["old 0", "old/x 1"])
        }
        await #expect(throws: KithError(.notFound, "")) { try await tree.index.renameTag(["gone"], to: ["a"]) }
    }
}
