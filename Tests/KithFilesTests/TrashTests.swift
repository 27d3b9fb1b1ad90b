import Foundation
import KithAPI
import KithIndex
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithFiles

@Suite(.timeLimit(.minutes(5))) struct TrashTests {
    @Test func `a note says where something was, whatever its name`() throws {
        for path in ["/home/ana/a b.txt", "/ü/%41", "relative/x", "/line\nbreak", "/~-._"] {
            let info = TrashInfo(path: Array(path.utf8), deleted: 1_725_136_328)
            #expect(TrashInfo(parsing: info.text) == info)
        }
        let bytes = TrashInfo(path: [0x2F, 0xFF, 0x20], deleted: 0)
        #expect(String(decoding: bytes.text, as: UTF8.self).contains("Path=/%FF%20\n"))
        #expect(TrashInfo(parsing: bytes.text)?.path == [0x2F, 0xFF, 0x20])
    }

    @Test func `notes that are none, or lead elsewhere, are not believed`() {
        for text in [
            "", "Path=/a", "[Trash Info]\n", "[Trash Info]\nPath=\n", "[Trash Info]\nPath=../../etc/passwd\n",
            "[Trash Info]\nPath=/a/%2e%2e/b\n", "[Trash Info]\nPath=/a%00b\n",
        ] {
            #expect(TrashInfo(parsing: Array(text.utf8)) == nil, "\(text)")
        }
        let odd = "[Other]\nPath=/no\n[Trash Info]\nDeletionDate=yesterday\nPath=/a%zz%4\nPath=/second\n"
        #expect(TrashInfo(parsing: Array(odd.utf8)) == TrashInfo(path: Array("/a%zz%4".utf8), deleted: nil))
        for date in ["2024-13-01T00:00:00", "2024-01-01", "99999999999-01-01T00:00:00", "2024-01-01T25:00:00"] {
            #expect(TrashInfo.seconds(date) == nil)
        }
    }

    @Test func `what is put into the trash lies there by its name, and comes back`() async throws {
        let place = try OperationPlace()
        try place.fill("a.txt=1", "sub/a.txt=2", "folder/x=3", "folder/y/z=4")
        let before = try place.tree
        let plan = try await place.plan(.trash, ["a.txt", "sub/a.txt", "folder"])
        try await place.run(plan)
        #expect(try place.tree == ["sub/"])
        let trash = try OperationPlace.tree(place.folder.path + "/trash")
        #expect(trash.contains("files/a.txt=1") && trash.contains("files/a.txt.2=2"))
        #expect(
            trash.contains("files/folder/y/z=4")
                && trash.contains { $0.hasPrefix("info/folder.trashinfo=[Trash Info]") })
        #expect(trash.contains { $0.hasPrefix("directorysizes=") && $0.hasSuffix(" folder\n") })
        for name in ["trash", "trash/files", "trash/info"] { #expect(try place.folder.mode(of: name) == 0o700) }
        let items = try await place.engine.trashed(.init()).items
        #expect(Set(items.map(\.original)) == Set(["a.txt", "sub/a.txt", "folder"].map { place.path($0) }))
        #expect(items.allSatisfy { $0.deleted != nil && ($0.kind != .folder || $0.size > 0) })
        let back = try await place.engine.plan(
            .init(kind: .restore, paths: ["a.txt", "sub/a.txt", "folder"].map { place.path($0) }), by: "owner")
        try await place.run(back)
        #expect(try place.tree == before)
        #expect(try await place.engine.trashed(.init()).total == 0)
        // And once more, by the way back.
        _ = try await place.undo()
        #expect(try place.tree == ["sub/"])
    }

    @Test func `the one deleted last comes back, not over what is there`() async throws {
        let now = Clock()
        let place = try OperationPlace(now: { now.time })
        for text in ["first", "second"] {
            try place.fill("a=\(text)")
            now.advance()
            try await place.run(try await place.plan(.trash, ["a"]))
        }
        try place.fill("a=third")
        let plan = try await place.engine.plan(.init(kind: .restore, paths: [place.path("a")]), by: "owner")
        #expect(plan.totals.unresolved == 1)
        try await place.run(plan, otherwise: .keepBoth)
        #expect(try place.tree == ["a=third", "a (2)=second"])
    }

    @Test func `emptying takes what is old enough, and what other programs have left half`() async throws {
        let now = Clock()
        let place = try OperationPlace(now: { now.time })
        try place.fill("old/x", "new")
        try await place.run(try await place.plan(.trash, ["old"]))
        now.advance(by: 86_400)
        try await place.run(try await place.plan(.trash, ["new"]))
        let plan = try await place.engine.planEmptying(olderThan: 3_600, by: "owner")
        #expect(plan.steps.map(\.destination) == [place.path("old")] && !plan.isUndoable)
        try await place.run(plan)
        #expect(try await place.engine.trashed(.init()).items.map(\.original) == [place.path("new")])
        // A note of something that is not there.
        try Data("[Trash Info]\nPath=/gone\nDeletionDate=2024-01-01T00:00:00\n".utf8).write(
            to: URL(fileURLWithPath: place.folder.path + "/trash/info/gone.trashinfo"))
        try await place.run(try await place.engine.planEmptying(olderThan: nil, by: "owner"))
        #expect(try OperationPlace.tree(place.folder.path + "/trash") == ["directorysizes=", "files/", "info/"])
        await #expect(throws: KithError.self) {
            try await place.engine.planEmptying(olderThan: nil, by: "owner")
        }
    }

    @Test func `emptying does not follow a link out of the trash`() async throws {
        let place = try OperationPlace()
        try place.fill("precious/file", "link-holder/")
        try FileManager.default.createSymbolicLink(
            atPath: place.top + "/link-holder/out", withDestinationPath: place.top + "/precious")
        try await place.run(try await place.plan(.trash, ["link-holder"]))
        try await place.run(try await place.engine.planEmptying(olderThan: nil, by: "owner"))
        #expect(try place.tree == ["precious/", "precious/file=precious/file"])
    }

    @Test(.enabled(if: OtherFileSystem.isThere))
    func `on another file system the trash is at its top, for this user alone`() async throws {
        let other = try OtherFileSystem()
        let place = try OperationPlace(other)
        let path = other.path + "/a b.txt"
        try Data("x".utf8).write(to: URL(fileURLWithPath: path))
        let plan = try await place.engine.plan(.init(kind: .trash, paths: [Files.Path(path)]), by: "owner")
        try await place.run(plan)
        let item = try #require(try await place.engine.trashed(.init()).items.first { $0.original == Files.Path(path) })
        #expect(item.path.description.hasPrefix(other.path + "/.Trash-"))
        let note = item.path.description.replacing("/files/", with: "/info/") + ".trashinfo"
        let text = try String(contentsOfFile: note, encoding: .utf8)
        #expect(text.contains("\nPath=a%20b.txt\n"))
        // A note there that leads out of the file system is not believed.
        let evil = note.replacing("a b.txt", with: "evil-\(UInt32.random(in: 0...UInt32.max))")
        try Data("[Trash Info]\nPath=/etc/cron.d/evil\nDeletionDate=2024-01-01T00:00:00\n".utf8).write(
            to: URL(fileURLWithPath: evil))
        #expect(
            try await place.engine.trashed(.init()).items.allSatisfy { $0.original?.description != "/etc/cron.d/evil" })
        let undone = try await place.undo()
        #expect(undone.done == 1)
        #expect(FileManager.default.fileExists(atPath: path))
    }

    /// A clock that is moved by hand.
    private final class Clock: Sendable {
        private let seconds = Mutex<Int64>(1_700_000_000)
        var time: Int64 { seconds.withLock { $0 } }
        func advance(by count: Int64 = 10) { seconds.withLock { $0 += count } }
    }

    // MARK: - With other programs

    /// trash-cli (Debian) with a home of its own.
    private struct TrashCommandLine {
        let home: String

        static func isThere(_ program: String) -> Bool {
            FileManager.default.isExecutableFile(atPath: "/usr/bin/" + program)
        }

        func run(_ program: String, _ arguments: [String], in folder: String, input: String = "") throws -> String {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/" + program)
            process.arguments = arguments
            process.currentDirectoryURL = URL(fileURLWithPath: folder)
            process.environment = [
                "HOME": home, "XDG_DATA_HOME": home + "/data", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
            ]
            let (output, standardInput) = (Pipe(), Pipe())
            (process.standardOutput, process.standardInput) = (output, standardInput)
            process.standardError = FileHandle.nullDevice
            try process.run()
            try standardInput.fileHandleForWriting.write(contentsOf: Data(input.utf8))
            try standardInput.fileHandleForWriting.close()
            let text = try output.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return String(decoding: text, as: UTF8.self)
        }
    }

    private func withTrash(
        _ body: (OperationPlace, OperationEngine, TrashCommandLine) async throws -> Void
    ) async throws {
        let place = try OperationPlace()
        let engine = OperationPlace.engine(place.folder.path, trash: "/data/Trash")
        try await body(place, engine, TrashCommandLine(home: place.folder.path))
    }

    private func run(_ plan: Operations.Planned, _ engine: OperationEngine) async throws {
        let confirmed = try await engine.confirm(.init(plan: plan.id), by: "owner")
        let outcome = try await engine.run(confirmed.id, report: { _ in }, checkpoint: { _ in })
        #expect(outcome.failed == 0 && outcome.skipped == 0 && outcome.done > 0)
    }

    @Test(.enabled(if: TrashCommandLine.isThere("trash-list"), "trash-cli is not installed"))
    func `trash-cli lists, restores and empties what we put there`() async throws {
        try await withTrash { place, engine, other in
            try place.fill("a b ü.txt=1", "folder/x=2", "stays=3")
            try await run(
                try await engine.plan(
                    .init(kind: .trash, paths: ["a b ü.txt", "folder", "stays"].map { place.path($0) }), by: "owner"),
                engine)
            let listed = try other.run("trash-list", [], in: place.top)
            for name in ["a b ü.txt", "folder", "stays"] {
                #expect(listed.contains("\(place.top)/\(name)\n"), "\(listed)")
            }
            let offered = try other.run("trash-restore", [place.top + "/folder"], in: place.top, input: "0\n")
            #expect(try place.tree == ["folder/", "folder/x=2"], "\(offered)")
            _ = try other.run("trash-empty", [], in: place.top)
            #expect(try await engine.trashed(.init()).total == 0)
        }
    }

    @Test(.enabled(if: TrashCommandLine.isThere("trash-put"), "trash-cli is not installed"))
    func `we list, restore and empty what trash-cli put there`() async throws {
        try await withTrash { place, engine, other in
            try place.fill("a b ü.txt=1", "folder/x=2", "stays=3")
            _ = try other.run("trash-put", ["a b ü.txt", "folder", "stays"], in: place.top)
            #expect(try place.tree.isEmpty)
            let items = try await engine.trashed(.init()).items
            #expect(Set(items.map(\.original)) == Set(["a b ü.txt", "folder", "stays"].map { place.path($0) }))
            #expect(items.allSatisfy { abs(($0.deleted ?? 0) - Int64(Date().timeIntervalSince1970)) < 3_600 })
            try await run(
                try await engine.plan(
                    .init(kind: .restore, paths: [place.path("folder"), place.path("a b ü.txt")]), by: "owner"), engine)
            #expect(try place.tree == ["a b ü.txt=1", "folder/", "folder/x=2"])
            try await run(try await engine.planEmptying(olderThan: nil, by: "owner"), engine)
            #expect(try other.run("trash-list", [], in: place.top).isEmpty)
        }
    }

    @Test(.enabled(if: TrashCommandLine.isThere("gio"), "gio is not installed"))
    func `we find and restore what gio put there`() async throws {
        try await withTrash { place, engine, other in
            try place.fill("a b ü.txt=1", "folder/x=2")
            _ = try other.run("gio", ["trash", "a b ü.txt", "folder"], in: place.top)
            // gio puts nothing into the trash of some file systems.
            guard try place.tree.isEmpty else { return }
            let items = try await engine.trashed(.init()).items
            #expect(Set(items.map(\.original)) == Set(["a b ü.txt", "folder"].map { place.path($0) }))
            try await run(
                try await engine.plan(
                    .init(kind: .restore, paths: [place.path("folder"), place.path("a b ü.txt")]), by: "owner"), engine)
            #expect(try place.tree == ["a b ü.txt=1", "folder/", "folder/x=2"])
        }
    }
}
