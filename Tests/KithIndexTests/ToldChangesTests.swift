import KithTesting
import Synchronization
import Testing

@testable import KithIndex

/// What macOS's FSEvents tells, as its manual describes it; the stream itself is Apple's.
@Suite struct ToldChangesTests {
    private func changes(
        of events: [(path: String, flags: ToldChanges.Flags)], at top: String
    ) -> FolderWatcher.Changes {
        var changes = FolderWatcher.Changes()
        for event in events { ToldChanges(top: Array(top.utf8)).add(event.path.utf8, event.flags, to: &changes) }
        return changes
    }

    private func folders(_ paths: String...) -> Set<[UInt8]> { Set(paths.map { Array($0.utf8) }) }

    @Test("folders are those of the tree, without the slash at their ends")
    func paths() {
        let told = changes(
            of: [("/Users/ana/Photos/", []), ("/Users/ana/Photos/2026/", []), ("/Users/ana/Photography/", [])],
            at: "/Users/ana/Photos")
        #expect(told.folders == folders("/Users/ana/Photos", "/Users/ana/Photos/2026"))
        #expect(!told.isEverything)
    }

    @Test("a tree below a link of the system is told by the path behind it")
    func privateFolders() {
        let told = changes(of: [("/private/tmp/tree/a/", [])], at: "/tmp/tree")
        #expect(told.folders == folders("/tmp/tree/a"))
        #expect(
            changes(of: [("/private/tmp/tree/", [])], at: "/private/tmp/tree").folders == folders("/private/tmp/tree"))
    }

    @Test("what was joined or lost means everything, and a top that moved itself")
    func flags() {
        #expect(changes(of: [("/srv/", .mustScanSubfolders)], at: "/srv").isEverything)
        #expect(changes(of: [("/", [.mustScanSubfolders, .init(rawValue: 0x04)])], at: "/srv").isEverything)
        let moved = changes(of: [("/srv", .topChanged)], at: "/srv")
        #expect(moved.folders == folders("/srv") && !moved.isEverything)
        #expect(changes(of: [("/srv", .historyDone)], at: "/srv").isEmpty)
    }

    @Test("what two kinds of events tell is gathered until it is taken")
    func gathering() async throws {
        let watcher = FolderWatcher(Told())
        let changes = try #require(await watcher.next())
        #expect(changes.folders == folders("/srv", "/srv/a") && changes.isEverything)
        #expect(watcher.available() == nil)
        let waiting = Task { await watcher.next() }
        waiting.cancel()
        #expect(await waiting.value == nil)
    }

    /// Tells two things, one after the other.
    private final class Told: FolderEvents {
        private let left = Mutex<[FolderWatcher.Changes]>([
            .init(folders: [Array("/srv/a".utf8)], isEverything: true), .init(folders: [Array("/srv".utf8)]),
        ])
        var count: Int { 1 }
        var isFull: Bool { false }
        func watch(_ folder: OpenFolder, at path: [UInt8]) {}
        func forget(_ path: [UInt8]) {}
        func wait() async { try? await untilCancelled() }
        func read(into changes: inout FolderWatcher.Changes) -> Bool {
            guard let next = left.withLock({ $0.popLast() }) else { return false }
            changes.formUnion(next)
            return true
        }
    }
}
