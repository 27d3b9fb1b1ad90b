import CKithSystem
import Foundation
import KithAPI
import KithIndex
import KithTesting
import Testing

@testable import KithFiles

/// The trash of macOS, on whatever system this is.
@Suite(.timeLimit(.minutes(5))) struct AppleTrashTests {
    /// A home with its trash, and a volume beside it: the table of mounts tells them apart, the disk need not.
    private static func place() throws -> OperationPlace {
        let place = try OperationPlace { path in
            let lines = [path, path + "/volume"].enumerated().map { "\($0) 0 0:1 / \($1) rw - test none rw" }
            let mounts = MountTable(parsing: Array(lines.joined(separator: "\n").utf8))
            return OperationEngine(
                directory: path + "/journal", protecting: nil, trashHome: Array((path + "/.Trash").utf8),
                trashLayout: AppleTrash(), mounts: { mounts }, now: { 1_700_000_000 })
        }
        try FileManager.default.createDirectory(
            atPath: place.folder.path + "/volume", withIntermediateDirectories: true)
        return place
    }

    private func trash(_ place: OperationPlace, _ names: [String]) async throws {
        let outcome = try await place.run(try await place.plan(.trash, names))
        #expect(outcome.done == names.count && outcome.failed == 0)
    }

    @Test func `the home trash is in the home folder, whatever the environment says of data`() {
        let path = AppleTrash().homePath(["HOME": "/Users/ana", "XDG_DATA_HOME": "/elsewhere"])
        #expect(path == Array("/Users/ana/.Trash".utf8))
    }

    @Test func `things lie in it by their names, get a number where one is taken, and come back`() async throws {
        let place = try Self.place()
        try place.fill("a.txt=1", "sub/a.txt=2", "folder/x=3", "link-to/")
        let before = try place.tree
        try await trash(place, ["a.txt", "sub/a.txt", "folder"])
        let inTrash = try OperationPlace.tree(place.folder.path + "/.Trash")
        #expect(inTrash.contains("a.txt=1") && inTrash.contains("a 2.txt=2") && inTrash.contains("folder/x=3"))
        #expect(try place.folder.mode(of: ".Trash") == 0o700)
        let items = try await place.engine.trashed(.init()).items
        #expect(Set(items.map(\.original)) == Set(["a.txt", "sub/a.txt", "folder"].map { place.path($0) }))
        let back = try await place.engine.plan(
            .init(kind: .restore, paths: ["a.txt", "sub/a.txt", "folder"].map { place.path($0) }), by: "owner")
        try await place.run(back)
        #expect(try place.tree == before)
        #expect(
            try OperationPlace.tree(place.folder.path + "/.Trash") == [".kith/", ".kith/directorysizes="])
        _ = try await place.undo()
        #expect(try place.tree == ["link-to/", "sub/"])
    }

    @Test func `a name of 255 bytes finds room for its number and its note`() async throws {
        let place = try Self.place()
        let long = String(repeating: "x", count: 251) + ".txt"
        for text in ["1", "2"] {
            try place.fill("\(long)=\(text)")
            try await trash(place, [long])
        }
        let items = try await place.engine.trashed(.init()).items
        #expect(items.count == 2 && items.allSatisfy { $0.original == place.path(long) })
        #expect(items.contains { $0.path.description.hasSuffix(" 2.txt") })
    }

    @Test func `what the Finder put there is listed and emptied, and goes back by hand`() async throws {
        let place = try Self.place()
        try place.fill("ours")
        try await trash(place, ["ours"])
        let home = place.folder.path + "/.Trash"
        try Data("theirs".utf8).write(to: URL(fileURLWithPath: home + "/theirs"))
        try Data("ds".utf8).write(to: URL(fileURLWithPath: home + "/.DS_Store"))
        let items = try await place.engine.trashed(.init()).items
        #expect(items.count == 2)
        let theirs = try #require(items.first { $0.path == Files.Path(home + "/theirs") })
        #expect(theirs.original == nil && theirs.deleted == nil)
        let plan = try await place.engine.plan(.init(kind: .restore, paths: [theirs.path]), by: "owner")
        #expect(plan.totals.problems == 1)
        #expect(try await place.messages(plan).contains { $0.contains("move it from \(home)/theirs") })
        try await place.run(try await place.engine.planEmptying(olderThan: nil, by: "owner"))
        #expect(try OperationPlace.tree(home) == [".DS_Store=ds", ".kith/"])
    }

    @Test func `a note of something that the Finder took away is not of what has its name later`() async throws {
        let place = try Self.place()
        try place.fill("a=first", "keeper")
        try await trash(place, ["a"])
        let home = place.folder.path + "/.Trash"
        try FileManager.default.moveItem(atPath: home + "/a", toPath: place.top + "/put back by the Finder")
        try Data("second".utf8).write(to: URL(fileURLWithPath: home + "/a"))
        let items = try await place.engine.trashed(.init()).items
        #expect(items.map(\.original) == [nil])
    }

    @Test func `each volume has its own, which users do not see of each other`() async throws {
        let place = try Self.place()
        let volume = place.folder.path + "/volume"
        try Data("x".utf8).write(to: URL(fileURLWithPath: volume + "/a"))
        let plan = try await place.engine.plan(.init(kind: .trash, paths: [Files.Path(volume + "/a")]), by: "owner")
        try await place.run(plan)
        let own = ".Trashes/\(kith_effective_user())"
        #expect(try OperationPlace.tree(volume).contains("\(own)/a=x"))
        #expect(try place.folder.mode(of: "volume/.Trashes") == 0o1333)
        #expect(try place.folder.mode(of: "volume/" + own) == 0o700)
        let note = try String(contentsOfFile: "\(volume)/\(own)/.kith/a.trashinfo", encoding: .utf8)
        #expect(note.contains("\nPath=a\n"))
        #expect(try await place.engine.trashed(.init()).items.map(\.original) == [Files.Path(volume + "/a")])
        _ = try await place.undo()
        #expect(FileManager.default.fileExists(atPath: volume + "/a"))
    }

    @Test(arguments: [false, true])
    func `a folder of trashes that is a link, or that anybody may empty, is none`(isLink: Bool) async throws {
        let place = try Self.place()
        let volume = place.folder.path + "/volume"
        if isLink {
            try FileManager.default.createSymbolicLink(
                atPath: volume + "/.Trashes", withDestinationPath: place.top)
        } else {
            try FileManager.default.createDirectory(
                atPath: volume + "/.Trashes", withIntermediateDirectories: false, attributes: [.posixPermissions: 0o777]
            )
        }
        try Data("x".utf8).write(to: URL(fileURLWithPath: volume + "/a"))
        let plan = try await place.engine.plan(.init(kind: .trash, paths: [Files.Path(volume + "/a")]), by: "owner")
        #expect(plan.totals.problems == 1)
        #expect(try await place.messages(plan).contains { $0.contains("There is no trash on \(volume)") })
    }
}
