import Foundation
import GRDB
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithIndex

/// Changes of tags and notes, and the way back.
@Suite struct NotedChangeTests {
    private func scanned(_ names: String...) async throws -> IndexedTree {
        let tree = try IndexedTree()
        for name in names { try tree.write(name, name) }
        _ = try await tree.index.scan(try tree.added().id)
        return tree
    }

    private func path(_ tree: IndexedTree, _ name: String) -> [UInt8] { Array(tree.path(name).utf8) }

    private func tags(_ tree: IndexedTree) throws -> [String] {
        try tree.index.tags().map { "\($0.path.joined(separator: "/")) \($0.uses)" }
    }

    @Test func `tags that were given are taken back, with those that were made for it`() async throws {
        let tree = try await scanned("one", "two")
        _ = try await tree.index.changeTags(of: [path(tree, "one")], add: [["work"]], remove: [])
        _ = try await tree.index.changeTags(
            of: ["one", "two"].map { path(tree, $0) }, add: [["work", "ana"], ["work"]], remove: [])
        #expect(try tags(tree) == ["work 2", "work/ana 2"])
        let undone = try await tree.index.undoNoteChange()
        #expect(undone.restored == 2 && undone.skipped == 0)
        #expect(undone.change.kind == .tags && undone.change.tags == ["work", "work/ana"])
        #expect(try tags(tree) == ["work 1"])
        _ = try await tree.index.undoNoteChange()
        #expect(try tags(tree) == [])
        await #expect(throws: KithError(.notFound, "")) { try await tree.index.undoNoteChange() }
        // Taking back is a change of its own, which is taken back by its name.
        let last = try #require(try await tree.index.noteChanges().first)
        #expect(last.kind == .undo && last.undoes != nil)
        _ = try await tree.index.undoNoteChange(last.id)
        #expect(try tags(tree) == ["work 1"])
        await #expect(throws: KithError(.conflict, "")) { try await tree.index.undoNoteChange(last.id) }
    }

    @Test func `a tag that was taken away from files comes back to them`() async throws {
        let tree = try await scanned("one", "two")
        let paths = ["one", "two"].map { path(tree, $0) }
        _ = try await tree.index.changeTags(of: paths, add: [["a"]], remove: [])
        _ = try await tree.index.changeTags(of: [paths[0]], add: [["b"]], remove: [["a"]])
        #expect(try tags(tree) == ["a 1", "b 1"])
        _ = try await tree.index.undoNoteChange()
        #expect(try tags(tree) == ["a 2"])
    }

    @Test func `a tag that was deleted comes back with those beneath it, and their files`() async throws {
        let tree = try await scanned("one", "two")
        _ = try await tree.index.changeTags(of: [path(tree, "one")], add: [["a"], ["a", "b", "c"]], remove: [])
        _ = try await tree.index.changeTags(of: [path(tree, "two")], add: [["a", "b"], ["other"]], remove: [])
        try await tree.index.deleteTag(["a"])
        #expect(try tags(tree) == ["other 1"])
        let undone = try await tree.index.undoNoteChange()
        #expect(undone.change.kind == .deletedTag && undone.restored == 2)
        #expect(try tags(tree) == ["a 1", "a/b 1", "a/b/c 1", "other 1"])
    }

    @Test func `stars, marks and notes become what they were, each by itself`() async throws {
        let tree = try await scanned("one")
        let one = path(tree, "one")
        try await tree.index.annotate([one], isFavorite: true, rating: 2, note: "first")
        try await tree.index.annotate([one], rating: 5)
        try await tree.index.annotate([one], note: "")
        #expect(try await tree.index.annotation(of: one) == Annotation(isFavorite: true, rating: 5))
        let changes = try await tree.index.noteChanges()
        #expect(changes.map(\.fields) == [["note"], ["rating"], ["favorite", "note", "rating"]])
        #expect(changes.allSatisfy { $0.first == one && $0.entries == 1 })
        _ = try await tree.index.undoNoteChange(changes[1].id)
        #expect(try await tree.index.annotation(of: one) == Annotation(isFavorite: true, rating: 2))
        _ = try await tree.index.undoNoteChange()
        #expect(try await tree.index.annotation(of: one) == Annotation(isFavorite: true, rating: 2, note: "first"))
    }

    @Test func `what was changed again since, or has gone, is left alone and counted`() async throws {
        let tree = try await scanned("kept", "changed", "gone")
        let paths = ["kept", "changed", "gone"].map { path(tree, $0) }
        try await tree.index.annotate(paths, rating: 1)
        let first = try #require(try await tree.index.noteChanges().first)
        try await tree.index.annotate([paths[1]], rating: 3)
        try await tree.index.annotate([paths[2]], rating: 0)
        try tree.remove("gone")
        let location = try #require(try tree.index.locations().first)
        _ = try await tree.index.scan(location.id)
        let undone = try await tree.index.undoNoteChange(first.id)
        #expect(undone.restored == 1 && undone.skipped == 2)
        #expect(try await tree.index.annotation(of: paths[0]) == Annotation())
        #expect(try await tree.index.annotation(of: paths[1]) == Annotation(rating: 3))
    }

    @Test func `what changes nothing is no change, and what moves keeps its way back`() async throws {
        let tree = try await scanned("one")
        try await tree.index.annotate([path(tree, "one")], rating: 0, note: "")
        _ = try await tree.index.changeTags(of: [path(tree, "one")], add: [], remove: [])
        #expect(try await tree.index.noteChanges() == [])
        _ = try await tree.index.changeTags(of: [path(tree, "one")], add: [["a"]], remove: [])
        try tree.move("one", to: "two")
        let location = try #require(try tree.index.locations().first)
        _ = try await tree.index.scan(location.id)
        #expect(try await tree.index.noteChanges().first?.first == path(tree, "two"))
        #expect(try await tree.index.undoNoteChange().restored == 1)
        #expect(try tags(tree) == [])
    }

    @Test func `a tag that others use by now stays when the change that made it is taken back`() async throws {
        let tree = try await scanned("one", "two")
        _ = try await tree.index.changeTags(of: [path(tree, "one")], add: [["a"]], remove: [])
        let first = try #require(try await tree.index.noteChanges().first)
        _ = try await tree.index.changeTags(of: [path(tree, "two")], add: [["a"]], remove: [])
        #expect(try await tree.index.undoNoteChange(first.id).restored == 1)
        #expect(try tags(tree) == ["a 1"])
    }

    @Test func `old changes go, and the latest thousand stay`() async throws {
        let folder = try TemporaryFolder()
        let clock = ManualSeconds(1_000_000)
        let index = try FileIndex(
            path: folder.path + "/index.sqlite", logger: Logger(label: "test"), now: { clock.now })
        defer { index.close() }
        try FileManager.default.createDirectory(atPath: folder.path + "/t", withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: folder.path + "/t/f"))
        _ = try await index.scan(try index.addLocation(at: Array((folder.path + "/t").utf8)).id)
        let file = Array((folder.path + "/t/f").utf8)
        try await index.annotate([file], rating: 1)
        clock.advance(by: ChangeRecorder.maximumAge + 1)
        try await index.annotate([file], rating: 2)
        #expect(try await index.noteChanges(limit: 1_000).count == 1)
        for number in 0..<(ChangeRecorder.maximumChanges + 5) {
            try await index.annotate([file], note: "\(number)")
        }
        #expect(try await index.noteChanges(limit: 10_000).count == ChangeRecorder.maximumChanges)
        let steps = try await index.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM change_step") }
        #expect(steps == ChangeRecorder.maximumChanges)
    }
}

/// Seconds that are moved by hand.
private final class ManualSeconds: Sendable {
    private let held: Mutex<Int64>
    init(_ start: Int64) { held = Mutex(start) }
    var now: Int64 { held.withLock { $0 } }
    func advance(by seconds: Int64) { held.withLock { $0 += seconds } }
}
