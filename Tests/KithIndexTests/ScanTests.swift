import Foundation
import GRDB
import KithCatalog
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithIndex

@Suite struct ScanTests {
    @Test func `a tree is in the index, and a second scan finds nothing new`() async throws {
        let tree = try IndexedTree()
        try tree.make("photos/2024")
        try tree.write("photos/2024/Ångström.JPG", "12345")
        try tree.write(".hidden")
        let location = try tree.added()
        let counts = try await tree.index.scan(location.id)
        #expect(counts.added == 4 && counts.folders == 3 && counts.problems == 0)
        #expect(try tree.contents().count == 6)
        #expect(try await tree.index.scan(location.id).foundNothingNew)
        #expect(try tree.index.locations(counted: true).map(\.entries) == [4])
        try await tree.index.removeLocation(location.id)
        #expect(try tree.contents() == ["orphans": "0", "searched": "true"])
    }

    @Test func `what was moved keeps its number, with all that is beneath it`() async throws {
        let tree = try IndexedTree()
        try tree.make("a/b")
        try tree.write("a/b/one", "1")
        try tree.make("c")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let before = try tree.numbers()
        try tree.move("a/b", to: "c/d")
        try tree.move("c/d/one", to: "two")
        let counts = try await tree.index.scan(location.id)
        #expect(counts.moved == 2 && counts.added == 0)
        let after = try tree.numbers()
        #expect(after[tree.path("c/d")] == before[tree.path("a/b")])
        #expect(after[tree.path("two")] == before[tree.path("a/b/one")])
        #expect(try tree.contents() == (try await tree.fresh()))
    }

    @Test func `the folder of one location that is moved into another is found there`() async throws {
        let tree = try IndexedTree()
        try tree.make("photos")
        try tree.make("archive")
        try tree.write("photos/a")
        _ = try tree.index.addLocation(at: Array(tree.path("photos").utf8))
        let archive = try tree.index.addLocation(at: Array(tree.path("archive").utf8))
        for location in try tree.index.locations() { _ = try await tree.index.scan(location.id) }
        try tree.move("photos", to: "archive/photos")
        _ = try await tree.index.scan(archive.id)
        #expect(try tree.numbers()[tree.path("archive/photos/a")] != nil)
    }

    @Test func `what cannot be looked at is not gone`() async {
        // A process of its own: it becomes a user for whom modes hold.
        await #expect(processExitsWith: .success) {
            if geteuid() == 0 { #expect(seteuid(65_534) == 0) }
            let tree = try IndexedTree()
            try tree.make("kept")
            try tree.write("kept/a")
            let location = try tree.added()
            _ = try await tree.index.scan(location.id)
            // It is listed again, as something has changed in it.
            try tree.write("kept/b")
            #expect(chmod(tree.path("kept"), 0o400) == 0)
            defer { chmod(tree.path("kept"), 0o700) }
            _ = try await tree.index.scan(location.id)
            _ = try await tree.index.scan(location.id)
            #expect(try tree.numbers()[tree.path("kept/a")] != nil)
            #expect(try await tree.index.problems().count == 1)
        }
    }

    @Test func `a location that is not there is not taken for an empty one`() async throws {
        let tree = try IndexedTree()
        try tree.write("one")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let before = try tree.contents()
        try FileManager.default.moveItem(atPath: tree.top, toPath: tree.folder.path + "/away")
        await #expect(throws: KithError(.unreachable, "")) { try await tree.index.scan(location.id) }
        #expect(try tree.contents() == before)
        #expect(try tree.index.location(location.id).problem != nil)
        try FileManager.default.moveItem(atPath: tree.folder.path + "/away", toPath: tree.top)
        _ = try await tree.index.scan(location.id)
        #expect(try tree.index.location(location.id).problem == nil)
    }

    @Test func `what the rules leave out is not in the index, nor once they are changed`() async throws {
        let tree = try IndexedTree()
        try tree.make("work/build")
        try tree.write("work/.gitignore", "build/\n*.log\n!keep.log\n")
        for name in ["work/build/x", "work/a.log", "work/keep.log", "work/a.txt", ".DS_Store"] { try tree.write(name) }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let names = try tree.numbers().keys.map { $0.dropFirst(tree.top.count + 1) }.sorted()
        #expect(names == ["work", "work/.gitignore", "work/a.txt", "work/keep.log"])
        try tree.remove("work/.gitignore")
        _ = try await tree.index.scan(location.id)
        #expect(try tree.contents() == (try await tree.fresh()))
        #expect(try tree.numbers().count == 6)
    }

    @Test func `a scan that ended anywhere is completed by the next one`() async throws {
        let tree = try IndexedTree()
        for folder in 0..<12 {
            try tree.make("f\(folder)/g")
            for file in 0..<9 { try tree.write("f\(folder)/g/\(file).txt") }
        }
        let path = tree.folder.path + "/small.sqlite"
        let first = try FileIndex(path: path, batch: 10, logger: Logger(label: "test"))
        let location = try first.addLocation(at: Array(tree.top.utf8))
        let fresh = try await tree.fresh()
        // Each time a little further, and then with changes to make.
        for step in 1...30 {
            // As after a kill: the one before was never closed.
            let index = try FileIndex(path: path, batch: 10, logger: Logger(label: "test"))
            let steps = Mutex(0)
            let scan = Task {
                try await index.scan(location.id) { _ in
                    if steps.withLock({
                        $0 += 1; return $0
                    }) == step {
                        withUnsafeCurrentTask { $0?.cancel() }
                    }
                }
            }
            if case .failure(let error) = await scan.result { #expect((error as? KithError)?.code == .cancelled) }
            if step % 10 == 9 { try tree.write("f\(step % 12)/g/new\(step)") }
        }
        let index = try FileIndex(path: path, batch: 10, logger: Logger(label: "test"))
        _ = try await index.scan(location.id)
        let found = try IndexedTree.contents(of: index)
        #expect(found.count == fresh.count + 3)
        #expect(try await tree.fresh() == found)
    }

    @Test func `the folder of the index itself is in no location`() async throws {
        let tree = try IndexedTree()
        try tree.make("data/library")
        try tree.write("data/library/own")
        try tree.write("other")
        let index = try FileIndex(
            path: tree.path("data/library/index.sqlite"), excluding: tree.path("data"), logger: Logger(label: "test"))
        let location = try index.addLocation(at: Array(tree.top.utf8))
        _ = try await index.scan(location.id)
        #expect(try index.locations(counted: true).map(\.entries) == [1])
        #expect(throws: KithError(.invalid, "")) { try index.addLocation(at: Array(tree.path("data/library").utf8)) }
        index.close()
    }

    @Test(arguments: 0..<10)
    func `two locations scanned at once, with what moves between them, are as ones made anew`(round: UInt64)
        async throws
    {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let tree = try IndexedTree()
        let path = tree.folder.path + "/two.sqlite"
        // Small transactions: the scans take turns often.
        let index = try FileIndex(path: path, batch: 5, logger: Logger(label: "test"))
        let fresh = { () async throws -> [String: String] in
            let path = tree.folder.path + "/fresh-\(UInt64.random(in: 0...UInt64.max)).sqlite"
            let index = try FileIndex(path: path, logger: Logger(label: "test"))
            defer { index.close() }
            for top in ["a", "b"] {
                _ = try await index.scan(try index.addLocation(at: Array(tree.path(top).utf8)).id)
            }
            return try IndexedTree.contents(of: index)
        }
        var locations: [IndexLocation] = []
        for top in ["a", "b"] {
            try tree.make(top)
            locations.append(try index.addLocation(at: Array(tree.path(top).utf8)))
        }
        let watcher = try FolderWatcher()
        var life = TreeLife(tree, folders: ["a", "b"])
        var tagged: Set<Int64> = []
        for step in 0..<8 {
            for _ in 0..<Int.random(in: 1...40, using: &random) { try life.happen(using: &random) }
            while step % 3 == 2, let changes = watcher.available() {
                _ = try await index.take(changes, from: watcher)
            }
            // Both at once, and what the watcher says beside them.
            try await withThrowingTaskGroup { group in
                for location in locations.shuffled(using: &random) {
                    group.addTask { _ = try await index.scan(location.id, watcher: watcher) }
                }
                group.addTask {
                    if let changes = watcher.available() { _ = try await index.take(changes, from: watcher) }
                }
                try await group.waitForAll()
            }
            let (found, expected) = (try IndexedTree.contents(of: index), try await fresh())
            try #require(
                found == expected,
                "seed \(seed), step \(step): \(Set(found.map { "\($0)" }).symmetricDifference(expected.map { "\($0)" }).sorted())"
            )
            // What is tagged and still there, wherever, has its tag and number.
            if let file = life.files.randomElement(using: &random) {
                let bytes = Array(tree.path(file).utf8)
                _ = try await index.changeTags(of: [bytes], add: [["work"]], remove: [])
                let query = try SearchQuery("tag:work", now: 0, offsetFromUTC: 0)
                let now = Set(try await index.search(query, limit: 1_000).entries.map(\.id))
                let new = now.subtracting(tagged)
                try #require(new.count <= 1, "seed \(seed), step \(step): \(new)")
                tagged = now
            }
        }
        index.close()
    }

    @Test func `a listing from before another one is not used, and a name taken meanwhile is not removed`() throws {
        var scans = RunningScans()
        scans.begin(1)
        var old = FolderListing(path: [1], number: scans.nextListing(), attributes: .none, entries: [])
        var new = old
        new.number = scans.nextListing()
        #expect(scans.isAlone)
        scans.begin(2)
        #expect(!scans.isAlone)
        let (isNewTaken, isOldTaken) = (scans.take(new), scans.take(old))
        #expect(isNewTaken && !isOldTaken)
        scans.end(2)
        let isStillRefused = !scans.take(old)
        #expect(isStillRefused)
        scans.end(1)
        old.number = scans.nextListing()
        let isTaken = scans.take(old)
        #expect(isTaken)
    }

    @Test func `what one scan misses is not removed while another one goes on`() async throws {
        let tree = try IndexedTree()
        for top in ["a", "b"] { try tree.make(top) }
        try tree.write("a/one", "1")
        try tree.make("a/folder")
        try tree.write("a/folder/two", "2")
        let (a, b) = (
            try tree.index.addLocation(at: Array(tree.path("a").utf8)),
            try tree.index.addLocation(at: Array(tree.path("b").utf8))
        )
        _ = try await tree.index.scan(a.id)
        let before = try tree.numbers()
        _ = try await tree.index.withScan("scan another") { _ in
            try tree.move("a/one", to: "b/one")
            try tree.move("a/folder", to: "b/folder")
            _ = try await tree.index.scan(a.id)
            // Nothing of it is found any more.
            let found = try await tree.index.search(SearchQuery(condition: .everything))
            #expect(found.entries.isEmpty)
            #expect(try tree.index.locations(counted: true).map(\.entries) == [0, 0])
            #expect(try await tree.index.scan(b.id).moved == 2)
        }
        let after = try tree.numbers()
        for name in ["one", "folder", "folder/two"] {
            #expect(after[tree.path("b/\(name)")] == before[tree.path("a/\(name)")])
        }
        #expect(try await tree.index.search(SearchQuery(condition: .everything)).entries.count == 3)
    }

    @Test func `a tag is given, and another location looked at, while a scan goes on`() async throws {
        let tree = try IndexedTree()
        for top in ["a", "b"] { try tree.make(top) }
        for number in 0..<200 {
            try tree.make("a/\(number)")
            try tree.write("a/\(number)/file")
        }
        try tree.write("b/one")
        let index = try FileIndex(path: tree.folder.path + "/two.sqlite", batch: 10, logger: Logger(label: "test"))
        let (a, b) = (
            try index.addLocation(at: Array(tree.path("a").utf8)),
            try index.addLocation(at: Array(tree.path("b").utf8))
        )
        _ = try await index.scan(b.id)
        try tree.write("b/two")
        let isDone = Mutex(false)
        _ = try await index.scan(a.id) { _ in
            let isFirst = isDone.withLock { isDone in
                defer { isDone = true }
                return !isDone
            }
            guard isFirst else { return }
            // This scan waits here: whatever it holds nobody else could have.
            do {
                _ = try await index.scan(b.id)
                let path = Array(tree.path("b/two").utf8)
                #expect(try await index.changeTags(of: [path], add: [["work"]], remove: []) == 1)
            } catch {
                Issue.record("\(error)")
            }
        }
        #expect(try index.locations(counted: true).map(\.entries) == [400, 2])
        index.close()
    }

    @Test func `folders that cannot be read are listed, page by page, until they can`() async throws {
        let tree = try IndexedTree()
        let location = try tree.added()
        for number in 0..<5 { try tree.make("f\(number)") }
        _ = try await tree.index.scan(location.id)
        #expect(try await tree.index.problems().isEmpty)
        // As root every folder can be read: the problem is noted as a scan does.
        try await tree.index.database.write { database in
            var writer = try ListingWriter(database, names: tree.index.names, now: 0)
            var state = ListingWriter.State(location: location.id, top: location.path, isFirst: false)
            for number in 0..<5 {
                let path = Array(tree.path("f\(number)").utf8)
                try writer.apply(
                    FolderListing(path: path, attributes: .none, entries: [], problem: "Permission denied"), &state)
            }
        }
        let first = try await tree.index.problems(in: location.id, limit: 3)
        let second = try await tree.index.problems(in: location.id, after: try #require(first.last).id)
        #expect(first.count == 3 && second.count == 2 && first[0].problem == "Permission denied")
        #expect(try await tree.index.problems(in: location.id + 1).isEmpty)
        _ = try await tree.index.scan(location.id)
        #expect(try await tree.index.problems().isEmpty)
    }

    @Test func `nobody else may read the database, whatever it was before`() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/index.sqlite"
        for round in 0..<2 {
            let index = try FileIndex(path: path, logger: Logger(label: "test"))
            for name in [path, path + "-wal", path + "-shm"] {
                let attributes = try FileManager.default.attributesOfItem(atPath: name)
                #expect((attributes[.posixPermissions] as? Int) == 0o600, "\(name), \(round)")
            }
            index.close()
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        }
    }

    @Test(arguments: 0..<16)
    func `whatever happens to a tree, the index is as one made anew`(round: UInt64) async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let tree = try IndexedTree()
        let location = try tree.added()
        let watcher = try FolderWatcher()
        _ = try await tree.index.scan(location.id, watcher: watcher)
        var life = TreeLife(tree)
        for step in 0..<6 {
            for _ in 0..<Int.random(in: 1...40, using: &random) { try life.happen(using: &random) }
            switch Int.random(in: 0..<3, using: &random) {
            // As the watcher says, until it says nothing more.
            case 0...1:
                while let changes = watcher.available() { _ = try await tree.index.take(changes, from: watcher) }
            // All at once.
            default: _ = try await tree.index.scan(location.id, watcher: watcher)
            }
            let (found, fresh) = (try tree.contents(), try await tree.fresh())
            try #require(
                found == fresh,
                "seed \(seed), step \(step): \(Set(found.map { "\($0)" }).symmetricDifference(fresh.map { "\($0)" }).sorted())"
            )
        }
    }
}

/// Things that happen to a tree.
struct TreeLife {
    let tree: IndexedTree
    var folders: [String]
    var files: [String] = []
    private var count = 0

    private let tops: [String]

    /// Begins in these folders, which stay.
    init(_ tree: IndexedTree, folders: [String] = [""]) {
        (self.tree, self.folders, tops) = (tree, folders, folders)
    }

    mutating func happen(using random: inout SeededRandom) throws {
        count += 1
        let folder = folders.randomElement(using: &random) ?? ""
        let last = ["n\(count % 9).txt", "ä\(count)", ".h\(count)", "x y\(count)"].randomElement(using: &random) ?? ""
        let name = (folder.isEmpty ? "" : folder + "/") + last
        let path = tree.path(name)
        let file = files.randomElement(using: &random)
        switch Int.random(in: 0..<12, using: &random) {
        case 0...2 where !FileManager.default.fileExists(atPath: path):
            try tree.write(name, String(repeating: "x", count: Int.random(in: 0..<100, using: &random)))
            files.append(name)
        case 3...4 where !FileManager.default.fileExists(atPath: path):
            try tree.make(name)
            folders.append(name)
        case 5: if let file { try tree.write(file, "changed \(count)") }
        case 6:
            guard let file else { return }
            try tree.remove(file)
            files.removeAll { $0 == file }
        case 7:
            guard let file, !FileManager.default.fileExists(atPath: path) else { return }
            try tree.move(file, to: name)
            files.removeAll { $0 == file }
            files.append(name)
        case 8:
            guard !tops.contains(folder) else { return }
            try tree.remove(folder)
            drop(folder)
        case 9:
            guard let target = folders.randomElement(using: &random), !tops.contains(folder),
                target != folder, !target.hasPrefix(folder + "/")
            else { return }
            let new = (target.isEmpty ? "" : target + "/") + "m\(count)"
            try tree.move(folder, to: new)
            func moved(_ name: String) -> String {
                name == folder ? new : name.hasPrefix(folder + "/") ? new + name.dropFirst(folder.count) : name
            }
            folders = folders.map(moved)
            files = files.map(moved)
        case 10:
            if let file {
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o600 | count % 8], ofItemAtPath: tree.path(file))
            }
        default:
            // A file where a folder was.
            guard !tops.contains(folder) else { return }
            try tree.remove(folder)
            drop(folder)
            try tree.write(folder, "a file now")
            files.append(folder)
        }
    }

    private mutating func drop(_ folder: String) {
        folders.removeAll { $0 == folder || $0.hasPrefix(folder + "/") }
        files.removeAll { $0.hasPrefix(folder + "/") }
    }
}
