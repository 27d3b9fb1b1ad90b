import Foundation
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithIndex

@Suite(.timeLimit(.minutes(4))) struct LibraryDirectoryTests {
    /// A data directory in a temporary folder.
    private struct Place {
        let folder: TemporaryFolder
        var data: String { folder.path + "/data" }

        init() throws {
            folder = try TemporaryFolder()
            try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        }

        func opened() throws -> LibraryDirectory { try LibraryDirectory(data: data) }

        /// What is in the folder of libraries, without what stays.
        func remains() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: data + "/libraries").filter {
                UUID(uuidString: $0) == nil && $0 != "libraries.json"
            }
        }
    }

    @Test func `libraries are made, named, chosen and deleted`() throws {
        let place = try Place()
        var directory = try place.opened()
        #expect(try directory.libraries().isEmpty)
        let first = try directory.defaultLibrary()
        #expect(first.name == "Library" && first.isDefault)
        let photos = try directory.create(name: "  Photos ")
        #expect(photos.name == "Photos" && !photos.isDefault)
        #expect(throws: KithError(.conflict, "")) { _ = try directory.create(name: "photos") }
        #expect(throws: KithError(.conflict, "")) { _ = try directory.rename(photos.id, to: "LIBRARY") }
        #expect(try directory.rename(photos.id, to: "PHOTOS").name == "PHOTOS")
        #expect(try directory.setDefault(photos.id).isDefault)
        // Another process finds the same.
        var again = try place.opened()
        #expect(try again.libraries().map(\.name) == ["PHOTOS", "Library"])
        #expect(try again.library(named: "photos").id == photos.id)
        #expect(try again.library(named: photos.idText.uppercased()).id == photos.id)
        #expect(throws: KithError(.notFound, "")) { _ = try again.library(named: "Music") }
        try again.delete(photos.id)
        #expect(try again.libraries().map(\.name) == ["Library"] && again.libraries()[0].isDefault)
        try again.setClosed(first.id, true)
        // One that is closed is not made anew.
        #expect(throws: KithError(.closed, "")) { _ = try again.defaultLibrary() }
        try again.setClosed(first.id, false)
        try again.delete(first.id)
        #expect(try again.libraries().isEmpty && place.remains().isEmpty)
    }

    @Test(arguments: [
        "", "   ", "-x", "a\nb", "a\u{1B}[2J", String(repeating: "a", count: 257),
        "0d9f4a52-7d0c-4f0e-a9c2-3f2b0d5b8a11",
    ])
    func `other names are refused`(name: String) throws {
        let place = try Place()
        var directory = try place.opened()
        #expect(throws: KithError(.invalid, "")) { _ = try directory.create(name: name) }
        #expect(try directory.libraries().isEmpty)
    }

    @Test func `the number of libraries is bounded`() throws {
        let place = try Place()
        var directory = try place.opened()
        for number in 1...LibraryDirectory.limit { _ = try directory.create(name: "\(number)") }
        #expect(throws: KithError(.exhausted, "")) { _ = try directory.create(name: "one more") }
    }

    @Test func `one elsewhere stays there, is remembered, and is offline when its folder is gone`() throws {
        let place = try Place()
        var directory = try place.opened()
        let path = place.folder.path + "/disk"
        let library = try directory.create(name: "Archive", at: path)
        #expect(library.isElsewhere && !library.isUnconfirmed && library.path == path)
        #expect(throws: KithError(.unsupported, "")) { try directory.delete(library.id) }
        try FileManager.default.moveItem(atPath: path, toPath: path + ".away")
        let offline = try directory.library(named: "archive")
        #expect(offline.problem?.code == .notFound)
        // Another library in its place is not taken for it.
        let other = LibraryDescription(id: UUID(), name: "Other", created: 1)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try other.write(to: path)
        #expect(try directory.library(named: "Archive").problem != nil)
        // It came back elsewhere.
        let moved = try directory.add(at: path + ".away")
        #expect(moved.id == library.id && moved.problem == nil && moved.path == path + ".away")
        #expect(moved.isUnconfirmed)
        try directory.confirm(library.id)
        #expect(try !place.opened().library(library.id).isUnconfirmed)
        try directory.forget(library.id)
        #expect(try place.opened().libraries().isEmpty)
        #expect(FileManager.default.fileExists(atPath: path + ".away/library.json"))
        for hostile in [place.data, place.data + "/x", place.folder.path, "relative", "/a\0b"] {
            #expect(throws: KithError.self) { _ = try directory.create(name: "x", at: hostile) }
        }
        // What is in a person's folder stays there.
        let full = place.folder.path + "/full"
        try FileManager.default.createDirectory(atPath: full + "/letters", withIntermediateDirectories: true)
        #expect(throws: KithError(.conflict, "")) { _ = try directory.create(name: "x", at: full) }
    }

    @Test func `a damaged list is never overwritten, and hides no library`() throws {
        let place = try Place()
        var directory = try place.opened()
        let library = try directory.create(name: "Photos")
        for text in [
            "", "{", "[]", #"{"version":2,"closed":[],"elsewhere":[],"unconfirmed":[]}"#,
            #"{"version":1,"closed":[],"elsewhere":[],"unconfirmed":[],"later":1}"#,
        ] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: place.data + "/libraries/libraries.json"))
            var damaged = try place.opened()
            #expect(damaged.problem?.code == .corrupt)
            #expect(try damaged.libraries().map(\.id) == [library.id])
            #expect(throws: KithError(.corrupt, "")) { _ = try damaged.create(name: "More") }
            #expect(throws: KithError(.corrupt, "")) { _ = try damaged.setDefault(library.id) }
            #expect(try String(contentsOfFile: place.data + "/libraries/libraries.json", encoding: .utf8) == text)
        }
    }

    @Test(arguments: [
        "", "{}", "[]", "null", #"{"version":1,"id":"x","name":"a","created":1}"#,
        #"{"version":1,"id":"0d9f4a52-7d0c-4f0e-a9c2-3f2b0d5b8a11","name":"","created":1}"#,
        #"{"version":1,"id":"0d9f4a52-7d0c-4f0e-a9c2-3f2b0d5b8a11","name":"a","created":-1}"#,
        #"{"version":1,"id":"0d9f4a52-7d0c-4f0e-a9c2-3f2b0d5b8a11","name":"a","created":1,"more":1}"#,
        #"{"version":2,"id":"0d9f4a52-7d0c-4f0e-a9c2-3f2b0d5b8a11","name":"a","created":1,"more":1}"#,
        #"{"version":1,"id":"0d9f4a52-7d0c-4f0e-a9c2-3f2b0d5b8a11","name":"a","created":1e30}"#,
    ])
    func `a damaged identity is told, and harms no other`(text: String) throws {
        let place = try Place()
        var directory = try place.opened()
        let good = try directory.create(name: "Good")
        let bad = try directory.create(name: "Bad")
        try Data(text.utf8).write(to: URL(fileURLWithPath: bad.path + "/library.json"))
        let found = try directory.libraries()
        #expect(found.first { $0.id == bad.id }?.problem?.code == .corrupt)
        #expect(found.first { $0.id == good.id }?.problem == nil)
    }

    @Test func `what is no file is not read`() throws {
        let place = try Place()
        var directory = try place.opened()
        let library = try directory.create(name: "Pipe")
        let path = library.path + "/library.json"
        try FileManager.default.moveItem(atPath: path, toPath: path + ".real")
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path + ".real")
        #expect(try directory.library(library.id).problem != nil)
        try FileManager.default.removeItem(atPath: path)
        #expect(mkfifo(path, 0o600) == 0)
        #expect(try directory.library(library.id).problem != nil)
        try FileManager.default.removeItem(atPath: path)
        #expect(FileManager.default.createFile(atPath: path, contents: Data(count: 70_000)))
        #expect(try directory.library(library.id).problem != nil)
    }

    @Test func `a folder is used by one at a time`() throws {
        let place = try Place()
        let lock = try LibraryLock(folder: place.data)
        do {
            _ = try LibraryLock(folder: place.data)
            Issue.record("it was taken twice")
        } catch {
            #expect(error.code == .conflict && error.message.contains("this process"), "\(error)")
        }
        lock.release()
        // However old the file is: only who holds it counts.
        try LibraryLock(folder: place.data).release()
        try FileManager.default.removeItem(atPath: place.data + "/lock")
        try FileManager.default.createSymbolicLink(atPath: place.data + "/lock", withDestinationPath: "/etc/passwd")
        #expect(throws: KithError.self) { _ = try LibraryLock(folder: place.data) }
    }

    // MARK: - Ends at any moment

    /// Ends the process as kill -9 does, at the step with this name.
    private static func killer(_ end: String) -> @Sendable (String) -> Void {
        { step in
            guard step == end else { return }
            kill(getpid(), SIGKILL)
        }
    }

    @Test(arguments: ["takeOver.describe", "takeOver.folder", "takeOver.move", "takeOver.end"])
    func `killed while it takes over, the library of an earlier version is found once`(step: String) async throws {
        let place = try Place()
        let data = place.data
        try FileManager.default.createDirectory(atPath: data + "/library", withIntermediateDirectories: true)
        let before = try FileIndex(path: data + "/library/index.sqlite", logger: Logger(label: "test"))
        try FileManager.default.createDirectory(
            atPath: place.folder.path + "/tree", withIntermediateDirectories: true)
        _ = try before.addLocation(at: Array((place.folder.path + "/tree").utf8))
        before.close()
        await #expect(processExitsWith: .signal(SIGKILL)) { [data = data as String, step = step as String] in
            _ = try LibraryDirectory(data: data, step: LibraryDirectoryTests.killer(step))
        }
        for _ in 0..<2 {
            let directory = try place.opened()
            let libraries = try directory.libraries()
            #expect(libraries.map(\.name) == ["Library"] && libraries.allSatisfy { $0.problem == nil })
            let index = try FileIndex(path: libraries[0].path + "/index.sqlite", logger: Logger(label: "test"))
            #expect(try index.locations().map(\.name) == ["tree"])
            index.close()
        }
        #expect(!FileManager.default.fileExists(atPath: data + "/library"))
        #expect(try place.remains().isEmpty)
    }

    @Test(arguments: ["create.folder", "create.describe", "create.move", "create.end"])
    func `killed while one is made, it is there whole or not at all`(step: String) async throws {
        let place = try Place()
        let data = place.data
        await #expect(processExitsWith: .signal(SIGKILL)) { [data = data as String, step = step as String] in
            var directory = try LibraryDirectory(data: data, step: LibraryDirectoryTests.killer(step))
            _ = try directory.create(name: "Photos")
        }
        var directory = try place.opened()
        let libraries = try directory.libraries()
        #expect(libraries.map(\.name) == (step == "create.end" ? ["Photos"] : []))
        #expect(libraries.allSatisfy { $0.problem == nil })
        #expect(try place.remains().isEmpty)
        if libraries.isEmpty { _ = try directory.create(name: "Photos") }
    }

    @Test(arguments: ["create.describe", "create.register", "create.end"])
    func `killed while one is made elsewhere, it is found or can be opened`(step: String) async throws {
        let place = try Place()
        let (data, path) = (place.data, place.folder.path + "/disk")
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [data = data as String, path = path as String, step = step as String] in
            var directory = try LibraryDirectory(data: data, step: LibraryDirectoryTests.killer(step))
            _ = try directory.create(name: "Photos", at: path)
        }
        var directory = try place.opened()
        if step == "create.describe" {
            #expect(try directory.create(name: "Photos", at: path).problem == nil)
        } else if step == "create.register" {
            #expect(try directory.add(at: path).problem == nil)
        }
        #expect(try place.opened().libraries().map(\.path) == [path])
    }

    @Test(arguments: ["delete.move", "delete.forget", "delete.remove", "delete.end"])
    func `killed while one is deleted, it is there whole or not at all`(step: String) async throws {
        let place = try Place()
        var directory = try place.opened()
        let kept = try directory.create(name: "Kept")
        let library = try directory.create(name: "Photos")
        try FileManager.default.createDirectory(
            atPath: library.path + "/thumbnails/a/b", withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: library.path + "/thumbnails/a/link", withDestinationPath: kept.path)
        let (data, id) = (place.data, library.id)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [data = data as String, id = id as UUID, step = step as String] in
            var directory = try LibraryDirectory(data: data, step: LibraryDirectoryTests.killer(step))
            try directory.delete(id)
        }
        let found = try place.opened().libraries()
        #expect(found.map(\.id).contains(library.id) == (step == "delete.move"))
        #expect(found.allSatisfy { $0.problem == nil } && found.map(\.id).contains(kept.id))
        #expect(try place.remains().isEmpty)
    }

    @Test(arguments: [
        "import.describe", "import.register", "import.moveAway", "import.move", "import.remove", "import.end",
    ])
    func `killed while one is replaced, the old or the new one is there`(step: String) async throws {
        let place = try Place()
        var directory = try place.opened()
        let library = try directory.create(name: "Photos")
        try Data("old".utf8).write(to: URL(fileURLWithPath: library.path + "/content"))
        let (data, id) = (place.data, library.id)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [data = data as String, id = id as UUID, step = step as String] in
            var directory = try LibraryDirectory(data: data, step: LibraryDirectoryTests.killer(step))
            let staging = try directory.makeStaging()
            try Data("new".utf8).write(to: URL(fileURLWithPath: staging + "/content"))
            _ = try directory.adopt(
                staging, as: LibraryDescription(id: id, name: "Pictures", created: 1), name: nil, replaces: true)
        }
        let found = try place.opened().libraries()
        let isNew = ["import.remove", "import.end"].contains(step)
        #expect(found.map(\.id) == [id] && found.map(\.name) == [isNew ? "Pictures" : "Photos"])
        #expect(found.allSatisfy { $0.problem == nil })
        #expect(try String(contentsOfFile: found[0].path + "/content", encoding: .utf8) == (isNew ? "new" : "old"))
        // Never taken for one that a person here has confirmed.
        #expect(!isNew || found[0].isUnconfirmed)
        #expect(try place.remains().isEmpty)
    }
}
