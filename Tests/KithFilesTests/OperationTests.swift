import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithIndex
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithFiles

/// A tree of files, a trash of its own, and the engine of operations.
struct OperationPlace: Sendable {
    let folder: TemporaryFolder
    let engine: OperationEngine
    var top: String { folder.path + "/tree" }

    init(
        _ other: OtherFileSystem? = nil, now: @escaping @Sendable () -> Int64 = { Int64(time(nil)) }
    ) throws {
        try self.init { Self.engine($0, other, now: now) }
    }

    /// The same with an engine that is made for the folder.
    init(_ engine: (String) -> OperationEngine) throws {
        folder = try TemporaryFolder()
        self.engine = engine(folder.path)
        try FileManager.default.createDirectory(atPath: folder.path + "/tree", withIntermediateDirectories: true)
    }

    /// An engine that knows no file systems but a folder, and another one: the trash of whoever runs the tests is not
    /// touched.
    static func engine(
        _ path: String, _ other: OtherFileSystem? = nil, trash: String = "/trash",
        now: @escaping @Sendable () -> Int64 = { Int64(time(nil)) }
    ) -> OperationEngine {
        let points = [path] + (other.map { [$0.path] } ?? [])
        let lines = points.enumerated().map { "\($0) 0 0:1 / \($1) rw - test none rw" }
        let mounts = MountTable(parsing: Array(lines.joined(separator: "\n").utf8))
        return OperationEngine(
            directory: path + "/journal", protecting: nil, trashHome: Array((path + trash).utf8), mounts: { mounts },
            now: now)
    }

    /// Fills the tree: a path that ends in a slash is a folder, what is behind an equals sign is in the file.
    static func fill(_ top: String, _ names: [String]) throws {
        for name in names {
            let parts = name.split(separator: "=", maxSplits: 1).map(String.init)
            let path = top + "/" + parts[0]
            let parent = name.hasSuffix("/") ? path : (path as NSString).deletingLastPathComponent
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            if name.hasSuffix("/") { continue }
            try Data((parts.count > 1 ? parts[1] : parts[0]).utf8).write(to: URL(fileURLWithPath: path))
        }
    }

    func fill(_ names: String...) throws { try Self.fill(top, names) }

    /// All that is beneath a folder: folders end in a slash, behind an equals sign is what is in a file.
    static func tree(_ top: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: top).sorted().map { name in
            var isFolder: ObjCBool = false
            let path = top + "/" + name
            if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path) {
                return "\(name)->\(target)"
            }
            _ = FileManager.default.fileExists(atPath: path, isDirectory: &isFolder)
            if isFolder.boolValue { return name + "/" }
            return "\(name)=\(String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self))"
        }
    }

    var tree: [String] { get throws { try Self.tree(top) } }

    func path(_ name: String) -> Files.Path { Files.Path(top + "/" + name) }

    func plan(
        _ kind: Operations.Kind, _ names: [String], to destination: String? = nil, names new: [String]? = nil,
        pattern: String? = nil, conflicts: Operations.Choice = .ask
    ) async throws -> Operations.Planned {
        try await engine.plan(
            Operations.Plan.Input(
                kind: kind, paths: names.map { path($0) }, destination: destination.map { path($0) },
                names: new?.map { Files.Path($0) }, pattern: pattern, conflicts: conflicts), by: "owner")
    }

    @discardableResult
    func run(_ plan: Operations.Planned, otherwise: Operations.Choice? = nil) async throws -> OperationOutcome {
        let confirmed = try await engine.confirm(.init(plan: plan.id, otherwise: otherwise), by: "owner")
        return try await engine.run(confirmed.id, report: { _ in }, checkpoint: { _ in })
    }

    func undo(_ id: String? = nil) async throws -> OperationOutcome {
        try await run(try await engine.planUndoing(id, conflicts: .ask, by: "owner"))
    }

    func messages(_ plan: Operations.Planned) async throws -> [String] {
        try await engine.results(.init(operation: plan.id)).steps.compactMap(\.message)
    }
}

@Suite(.timeLimit(.minutes(5))) struct OperationTests {
    // MARK: - Plans

    @Test func `a plan says what would be done, and changes nothing`() async throws {
        let place = try OperationPlace()
        try place.fill("a/one=12345", "a/b/two=1", "into/")
        let before = try place.tree
        let plan = try await place.plan(.copy, ["a"], to: "into")
        #expect(plan.steps.map(\.action) == [.makeFolder, .makeFolder, .copy, .finishFolder, .copy, .finishFolder])
        #expect(plan.totals.files == 2 && plan.totals.folders == 2 && plan.totals.bytes == 6)
        #expect(plan.room.map(\.needed) == [6] && plan.room.allSatisfy(\.suffices))
        #expect(plan.isUndoable && !plan.crossesFileSystems && plan.totals.conflicts == 0)
        #expect(try place.tree == before)
    }

    @Test func `a plan belongs to whoever made it, is good for ten minutes, and once`() async throws {
        let now = Mutex<Int64>(1_000_000)
        let place = try OperationPlace(now: { now.withLock { $0 } })
        try place.fill("a", "into/")
        let plan = try await place.plan(.copy, ["a"], to: "into")
        await #expect { try await place.engine.confirm(.init(plan: plan.id), by: "somebody else") } throws: {
            ($0 as? KithError)?.code == .denied
        }
        now.withLock { $0 += 601 }
        await #expect { try await place.engine.confirm(.init(plan: plan.id), by: "owner") } throws: {
            ($0 as? KithError)?.code == .notFound
        }
        let again = try await place.plan(.copy, ["a"], to: "into")
        try await place.run(again)
        await #expect { try await place.engine.confirm(.init(plan: again.id), by: "owner") } throws: {
            ($0 as? KithError)?.code == .conflict
        }
    }

    @Test func `what cannot be done is a problem of the plan`() async throws {
        let place = try OperationPlace()
        try place.fill("a/one", "file")
        let into = try await place.plan(.move, ["a"], to: "a/inside")
        #expect(into.totals.problems == 1 && into.steps[0].message == "a folder cannot be put into itself")
        let missing = try await place.plan(.delete, ["nothing"])
        #expect(missing.steps.map(\.message) == ["it is not there"])
        let root = try await place.engine.plan(.init(kind: .delete, paths: ["/"]), by: "owner")
        #expect(root.totals.problems >= 1 && root.totals.problems == root.totals.steps)
        await #expect(throws: KithError.self) { try await place.plan(.copy, ["a", "file"], to: "file") }
    }

    // MARK: - Copies

    @Test func `a copy has the contents, times, permissions, links and holes`() async throws {
        let place = try OperationPlace()
        try place.fill("a/one=hello", "a/sub/two")
        let (one, sub) = (place.top + "/a/one", place.top + "/a/sub")
        try FileManager.default.createSymbolicLink(atPath: place.top + "/a/link", withDestinationPath: "nowhere")
        let past = Date(timeIntervalSince1970: 1_000_000_000)
        try FileManager.default.setAttributes([.posixPermissions: 0o640, .modificationDate: past], ofItemAtPath: one)
        try FileManager.default.setAttributes([.posixPermissions: 0o750, .modificationDate: past], ofItemAtPath: sub)
        let sparse = try FileHandle(
            forWritingTo: {
                let url = URL(fileURLWithPath: place.top + "/a/sparse")
                try Data().write(to: url)
                return url
            }())
        try sparse.seek(toOffset: 8 << 20)
        try sparse.write(contentsOf: Data("end".utf8))
        try sparse.close()
        let outcome = try await place.run(try await place.plan(.copy, ["a"], to: "b"))
        #expect(outcome.failed == 0 && outcome.skipped == 0)
        #expect(try OperationPlace.tree(place.top + "/b") == OperationPlace.tree(place.top + "/a"))
        func attributes(_ path: String) throws -> (mode: Int?, modified: Date?, allocated: UInt64) {
            let all = try FileManager.default.attributesOfItem(atPath: path)
            let allocated = try Descriptor.open(Array(path.utf8), .path).info().allocated
            return (all[.posixPermissions] as? Int, all[.modificationDate] as? Date, allocated)
        }
        #expect(try attributes(place.top + "/b/one").mode == 0o640)
        #expect(try attributes(place.top + "/b/one").modified == past)
        #expect(try attributes(place.top + "/b/sub").mode == 0o750)
        #expect(try attributes(place.top + "/b/sub").modified == past)
        #expect(try attributes(place.top + "/b/sparse").allocated < 1 << 20)
    }

    @Test func `a name that is taken is skipped, replaced into the trash, or kept beside`() async throws {
        for (choice, expected) in [
            (Operations.Choice.skip, ["into/a.txt=old"]), (.overwrite, ["into/a.txt=new"]),
            (.keepBoth, ["into/a (2).txt=new", "into/a.txt=old"]),
        ] {
            let place = try OperationPlace()
            try place.fill("a.txt=new", "into/a.txt=old")
            let plan = try await place.plan(.copy, ["a.txt"], to: "into")
            #expect(plan.totals.conflicts == 1 && plan.totals.unresolved == 1)
            #expect(plan.steps[0].conflict?.choices == [.skip, .overwrite, .keepBoth])
            await #expect(throws: KithError.self) { try await place.run(plan) }
            try await place.run(plan, otherwise: choice)
            #expect(try place.tree == ["a.txt=new", "into/"] + expected)
            let trashed = try await place.engine.trashed(.init()).items
            #expect(trashed.map(\.original) == (choice == .overwrite ? [place.path("into/a.txt")] : []))
            guard choice != .skip else { continue }
            let undone = try await place.undo()
            #expect(undone.failed == 0 && undone.skipped == 0)
            #expect(try place.tree == ["a.txt=new", "into/", "into/a.txt=old"], "\(choice)")
        }
    }

    @Test func `a choice that was withdrawn leaves nothing behind`() async throws {
        let place = try OperationPlace()
        try place.fill("a=new", "b=new", "into/a=old", "into/b=old")
        let plan = try await place.plan(.copy, ["a", "b"], to: "into")
        // The first step is taken in, the second refused.
        await #expect(throws: KithError.self) {
            try await place.engine.confirm(
                .init(plan: plan.id, choices: [.init(number: plan.steps[0].number, choice: .overwrite)]), by: "owner")
        }
        try await place.run(plan, otherwise: .skip)
        #expect(try place.tree.suffix(3) == ["into/", "into/a=old", "into/b=old"])
    }

    @Test func `what changed after the plan is left alone`() async throws {
        let place = try OperationPlace()
        try place.fill("changed=1", "gone=1", "same=1", "into/")
        let copy = try await place.plan(.copy, ["changed", "gone", "same"], to: "into")
        let delete = try await place.plan(.delete, ["changed", "gone", "same"])
        try place.fill("changed=longer", "into/same=came meanwhile")
        try FileManager.default.removeItem(atPath: place.top + "/gone")
        let copied = try await place.run(copy)
        #expect(copied.skipped == 3 && copied.done == 0)
        #expect(
            try await place.messages(copy) == [
                "it has changed since it was planned", "it is not there any more", "something has that name by now",
            ])
        let deleted = try await place.run(delete)
        #expect(deleted.skipped == 2 && deleted.done == 1)
        #expect(try place.tree == ["changed=longer", "into/", "into/same=came meanwhile"])
    }

    @Test func `a folder that became a link since is not entered`() async throws {
        let place = try OperationPlace()
        try place.fill("tree/sub/file", "outside/file")
        let plan = try await place.plan(.delete, ["tree"])
        try FileManager.default.moveItem(atPath: place.top + "/tree/sub", toPath: place.top + "/was")
        try FileManager.default.createSymbolicLink(
            atPath: place.top + "/tree/sub", withDestinationPath: place.top + "/was")
        let outcome = try await place.run(plan)
        #expect(outcome.done == 0)
        #expect(try place.tree.contains("was/file=tree/sub/file"))
    }

    @Test func `pipes and sockets are not copied, and stop nothing`() async throws {
        let place = try OperationPlace()
        try place.fill("a/file")
        #expect(mkfifo(place.top + "/a/pipe", 0o600) == 0)
        let plan = try await place.plan(.copy, ["a"], to: "b")
        #expect(plan.totals.problems == 1)
        let outcome = try await place.run(plan)
        #expect(outcome.failed == 1 && outcome.done == 3)
        #expect(try OperationPlace.tree(place.top + "/b") == ["file=a/file"])
    }

    @Test func `names that are not UTF-8 stay what they are`() async throws {
        let place = try OperationPlace()
        let name: [UInt8] = [0x66, 0xFF, 0x6F]
        let path = Array((place.top + "/").utf8) + name
        let made = withCString(path) { open($0, O_CREAT | O_WRONLY, 0o600) }
        #expect(made >= 0)
        close(made)
        try place.fill("into/")
        let plan = try await place.engine.plan(
            .init(kind: .move, paths: [Files.Path(bytes: path)], destination: place.path("into")), by: "owner")
        try await place.run(plan)
        let found = try await place.engine.results(.init(operation: plan.id)).steps.map(\.destination)
        #expect(found == [Files.Path(bytes: Array((place.top + "/into/").utf8) + name)])
        #expect(plan.steps[0].state == .pending)
        let undone = try await place.undo()
        #expect(undone.done == 1)
    }

    // MARK: - Moves and names

    @Test func `a move takes a name at once, merges folders, and is taken back`() async throws {
        let place = try OperationPlace()
        try place.fill("a/one", "a/sub/two", "into/a/three", "b/x")
        let before = try place.tree
        let plan = try await place.plan(.move, ["a", "b"], to: "into")
        #expect(plan.steps.map(\.action) == [.rename, .rename, .rename, .deleteFolder])
        try await place.run(plan)
        #expect(
            try place.tree == [
                "into/", "into/a/", "into/a/one=a/one", "into/a/sub/", "into/a/sub/two=a/sub/two",
                "into/a/three=into/a/three", "into/b/", "into/b/x=b/x",
            ])
        let undone = try await place.undo()
        #expect(undone.failed == 0 && undone.skipped == 0)
        #expect(try place.tree == before)
        await #expect(throws: KithError.self) { _ = try await place.undo(plan.id) }
    }

    @Test func `many names follow a pattern, a chain, or go round`() async throws {
        let place = try OperationPlace()
        try place.fill("IMG_1.jpg=1", "IMG_2.jpg=2", "notes=3")
        try await place.run(
            try await place.plan(.rename, ["IMG_1.jpg", "IMG_2.jpg", "notes"], pattern: "trip-{n:3}.{ext}"))
        #expect(try place.tree == ["trip-001.jpg=1", "trip-002.jpg=2", "trip-003=3"])
        // Each takes the name of the next.
        try await place.run(
            try await place.plan(
                .rename, ["trip-001.jpg", "trip-002.jpg", "trip-003"], names: ["trip-002.jpg", "trip-003", "free"]))
        #expect(try place.tree == ["free=3", "trip-002.jpg=1", "trip-003=2"])
        let round = try await place.plan(
            .rename, ["free", "trip-002.jpg", "trip-003"], names: ["trip-002.jpg", "trip-003", "free"])
        #expect(round.steps.map(\.action) == [.exchange, .exchange] && round.totals.conflicts == 0)
        let outcome = try await place.run(round)
        #expect(outcome.done == 2)
        #expect(try place.tree == ["free=2", "trip-002.jpg=3", "trip-003=1"])
        for expected in [
            ["free=3", "trip-002.jpg=1", "trip-003=2"], ["trip-001.jpg=1", "trip-002.jpg=2", "trip-003=3"],
        ] {
            _ = try await place.undo()
            #expect(try place.tree == expected)
        }
    }

    @Test func `a second name of the same file is a name that is taken`() async throws {
        let place = try OperationPlace()
        try place.fill("a=1")
        try FileManager.default.linkItem(atPath: place.top + "/a", toPath: place.top + "/b")
        let plan = try await place.plan(.rename, ["a"], names: ["b"], conflicts: .skip)
        #expect(plan.totals.conflicts == 1)
        let outcome = try await place.run(plan)
        #expect(outcome.skipped == 1)
        #expect(try place.tree == ["a=1", "b=1"])
    }

    @Test func `of many plans the oldest go`() async throws {
        let place = try OperationPlace()
        try place.fill("a", "into/")
        let first = try await place.plan(.copy, ["a"], to: "into")
        for _ in 0..<OperationJournal.maximumPlans { _ = try await place.plan(.copy, ["a"], to: "into") }
        await #expect { try await place.run(first) } throws: { ($0 as? KithError)?.code == .notFound }
    }

    @Test func `two files do not get one name, and none gets a path`() async throws {
        let place = try OperationPlace()
        try place.fill("a", "b", "c")
        let plan = try await place.plan(.rename, ["a", "b"], names: ["same", "same"])
        #expect(plan.totals.problems == 1 && plan.totals.steps == 2)
        for name in ["../x", "", ".", "..", "a/b", String(repeating: "x", count: 256)] {
            let plan = try await place.plan(.rename, ["c"], names: [name])
            #expect(plan.totals.problems == 1, "\(name)")
        }
        await #expect(throws: KithError.self) { try await place.plan(.rename, ["a"], pattern: "{nonsense}") }
    }

    // MARK: - From one file system to another

    @Test(.enabled(if: OtherFileSystem.isThere))
    func `what crosses file systems is copied, then deleted, and taken back`() async throws {
        let other = try OtherFileSystem()
        let place = try OperationPlace(other)
        try place.fill("a/one", "a/sub/two", "a/empty/")
        let before = try place.tree
        let plan = try await place.engine.plan(
            .init(kind: .move, paths: [place.path("a")], destination: Files.Path(other.path)), by: "owner")
        #expect(plan.crossesFileSystems && plan.isUndoable)
        try await place.run(plan)
        #expect(try place.tree.isEmpty)
        #expect(try OperationPlace.tree(other.path) == before)
        let undone = try await place.undo()
        #expect(undone.failed == 0 && undone.skipped == 0)
        #expect(try place.tree == before)
        #expect(try OperationPlace.tree(other.path).isEmpty)
    }

    @Test(.enabled(if: OtherFileSystem.isThere))
    func `a copy that changed before its source is deleted keeps the source`() async throws {
        let other = try OtherFileSystem()
        let place = try OperationPlace(other)
        try place.fill("a=original")
        let plan = try await place.engine.plan(
            .init(kind: .move, paths: [place.path("a")], destination: Files.Path(other.path)), by: "owner")
        let confirmed = try await place.engine.confirm(.init(plan: plan.id), by: "owner")
        let path = other.path + "/a"
        _ = try await place.engine.run(
            confirmed.id,
            moment: { moment in
                // Somebody else spoils it as soon as it is there.
                if moment == "placed" { try? Data("spoilt!!".utf8).write(to: URL(fileURLWithPath: path)) }
            }, report: { _ in }, checkpoint: { _ in })
        #expect(try place.tree == ["a=original"])
        #expect(try await place.messages(plan) == ["its copy is not as it was made"])
    }

    // MARK: - Undo

    @Test func `undo leaves alone what changed since`() async throws {
        let place = try OperationPlace()
        try place.fill("a=1", "b=1", "into/")
        try await place.run(try await place.plan(.copy, ["a", "b"], to: "into"))
        try place.fill("into/a=edited since")
        let outcome = try await place.undo()
        #expect(outcome.done == 1 && outcome.skipped == 1)
        #expect(try place.tree == ["a=1", "b=1", "into/", "into/a=edited since"])
    }

    @Test func `deleting for good cannot be taken back, and says so`() async throws {
        let place = try OperationPlace()
        try place.fill("a/one", "b")
        let plan = try await place.plan(.delete, ["a", "b"])
        #expect(!plan.isUndoable && plan.notUndoable != nil)
        try await place.run(plan)
        #expect(try place.tree.isEmpty)
        await #expect(throws: KithError.self) { _ = try await place.undo() }
        #expect(try await place.engine.operations(limit: 10).map(\.isUndoable) == [false])
    }

    @Test func `a made folder is taken back while it is empty`() async throws {
        let place = try OperationPlace()
        try await place.run(try await place.plan(.makeFolder, ["x/y/z", "x/w"]))
        #expect(try place.tree == ["x/", "x/w/", "x/y/", "x/y/z/"])
        try place.fill("x/w/file")
        let outcome = try await place.undo()
        #expect(outcome.done == 2 && outcome.skipped == 2)
        #expect(try place.tree == ["x/", "x/w/", "x/w/file=x/w/file"])
    }

    // MARK: - Kills

    /// What an operation is tried with when it is killed.
    enum Killed: String, CaseIterable, Codable {
        case copy, move, rename, delete, trash, restore, emptyTrash, overwrite, undo

        func plan(_ engine: OperationEngine, _ top: String) async throws -> Operations.Planned {
            func paths(_ names: String...) -> [Files.Path] { names.map { Files.Path("\(top)/\($0)") } }
            func ended(_ plan: Operations.Planned) async throws {
                let confirmed = try await engine.confirm(.init(plan: plan.id, otherwise: .overwrite), by: "owner")
                _ = try await engine.run(confirmed.id, report: { _ in }, checkpoint: { _ in })
            }
            try OperationPlace.fill(top, ["a/one=1", "a/sub/two=2", "b=3", "into/b=old", "c=4"])
            switch self {
            case .copy, .overwrite:
                return try await engine.plan(
                    .init(
                        kind: .copy, paths: paths("a", "b", "c"), destination: paths("into")[0],
                        conflicts: self == .copy ? .keepBoth : .overwrite), by: "owner")
            case .move:
                return try await engine.plan(
                    .init(
                        kind: .move, paths: paths("a", "b", "c"), destination: paths("into")[0], conflicts: .keepBoth),
                    by: "owner")
            case .rename:
                return try await engine.plan(
                    .init(kind: .rename, paths: paths("a", "b", "c"), names: ["b", "c", "a"]), by: "owner")
            case .delete: return try await engine.plan(.init(kind: .delete, paths: paths("a", "b")), by: "owner")
            case .trash:
                return try await engine.plan(.init(kind: .trash, paths: paths("a", "b", "into/b")), by: "owner")
            case .restore:
                try await ended(
                    try await engine.plan(.init(kind: .trash, paths: paths("a", "into/b", "into")), by: "owner"))
                return try await engine.plan(.init(kind: .restore, paths: paths("a", "into")), by: "owner")
            case .emptyTrash:
                try await ended(try await engine.plan(.init(kind: .trash, paths: paths("a", "b")), by: "owner"))
                return try await engine.planEmptying(olderThan: nil, by: "owner")
            case .undo:
                try await ended(
                    try await engine.plan(
                        .init(
                            kind: .copy, paths: paths("a", "b", "c"), destination: paths("into")[0],
                            conflicts: .overwrite), by: "owner"))
                return try await engine.planUndoing(nil, conflicts: .ask, by: "owner")
            }
        }

        /// Does it, until a moment; returns the number of moments.
        func run(_ path: String, killAt place: Int? = nil) async throws -> Int {
            let engine = OperationPlace.engine(path, now: { 1_700_000_000 })
            let plan = try await plan(engine, path + "/tree")
            let confirmed = try await engine.confirm(.init(plan: plan.id), by: "owner")
            try Data(confirmed.id.utf8).write(to: URL(fileURLWithPath: path + "/id"))
            return try await Self.goOn(path, engine, killAt: place)
        }

        static func goOn(_ path: String, _ engine: OperationEngine, killAt place: Int? = nil) async throws -> Int {
            let id = String(decoding: try Data(contentsOf: URL(fileURLWithPath: path + "/id")), as: UTF8.self)
            let count = Mutex(0)
            _ = try await engine.run(
                id,
                moment: { _ in
                    let number = count.withLock { count in
                        count += 1
                        return count
                    }
                    if number == place { kill(getpid(), SIGKILL) }
                }, report: { _ in }, checkpoint: { _ in })
            return count.withLock { $0 }
        }

        /// What it leaves: the tree and the trash.
        static func state(_ path: String) throws -> [String] {
            try OperationPlace.tree(path + "/tree")
                + ((try? OperationPlace.tree(path + "/trash")) ?? []).filter { !$0.hasPrefix("directorysizes") }
                .map { $0.replacing(path, with: "") }
        }
    }

    @Test(arguments: Killed.allCases)
    func `killed at any moment, an operation ends as if nothing had happened`(killed: Killed) async throws {
        let whole = try TemporaryFolder()
        let moments = try await killed.run(whole.path)
        let expected = try Killed.state(whole.path)
        #expect(moments >= 4)
        for moment in 1...moments {
            let folder = try TemporaryFolder()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = folder.path as String, moment = moment as Int, killed = killed as Killed] in
                _ = try await killed.run(path, killAt: moment)
            }
            _ = try await Killed.goOn(folder.path, OperationPlace.engine(folder.path, now: { 1_700_000_000 }))
            #expect(try Killed.state(folder.path) == expected, "killed at moment \(moment) of \(moments)")
        }
    }

    @Test func `cancelled, an operation leaves whole files and no others`() async throws {
        let place = try OperationPlace()
        try place.fill("a/1", "a/2", "a/3", "into/")
        let plan = try await place.plan(.copy, ["a"], to: "into")
        let confirmed = try await place.engine.confirm(.init(plan: plan.id), by: "owner")
        let copied = Mutex(0)
        await #expect(throws: CancellationError.self) {
            _ = try await place.engine.run(
                confirmed.id, moment: { if $0 == "copied" { copied.withLock { $0 += 1 } } },
                report: { _ in if copied.withLock({ $0 }) == 2 { throw CancellationError() } }, checkpoint: { _ in })
        }
        try place.engine.abandon(confirmed.id)
        #expect(try OperationPlace.tree(place.top + "/into") == ["a/", "a/1=a/1", "a/2=a/2"])
        let undone = try await place.undo()
        #expect(undone.failed == 0)
        #expect(try OperationPlace.tree(place.top + "/into").isEmpty)
    }
}

/// A folder on another file system than `/tmp`: in memory.
final class OtherFileSystem: Sendable {
    let path: String

    static var isThere: Bool {
        let table = MountTable.current()
        return table.mount(of: Array("/dev/shm".utf8))?.type == "tmpfs"
            && table.mount(of: Array("/dev/shm".utf8))?.id != table.mount(of: Array("/tmp".utf8))?.id
            && access("/dev/shm", W_OK) == 0
    }

    init() throws {
        path = "/dev/shm/kith-\(UInt64.random(in: 0...UInt64.max))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }  // memory, gone with the next boot
}
