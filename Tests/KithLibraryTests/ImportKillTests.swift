import Foundation
import KithIndex
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithLibrary

/// An import that the process does not live to see the end of.
///
/// It is killed wherever something has been done, each block of the archive among them: then the library is there as a
/// whole or not at all, and the next import goes well.
@Suite(.timeLimit(.minutes(10))) struct ImportKillTests {
    /// Kills the process at the place with a number, counted from 1.
    private final class Places: Sendable {
        private let count = Mutex(0)
        private let end: Int?

        init(killAt end: Int? = nil) { self.end = end }

        var reached: Int { count.withLock { $0 } }

        func reach() {
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number == end { kill(getpid(), SIGKILL) }
        }
    }

    /// What is there of a library: its name, and how many files it knows.
    private struct Found: Hashable {
        var name: String
        var entries: Int
    }

    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private static func `import`(
        _ archive: String, into data: String, replaces: Bool, _ places: Places = Places()
    ) async throws {
        let collection = LibraryCollection(data: data, keepsUp: false, logger: logger, step: { _ in places.reach() })
        _ = try await collection.import(archive, name: nil, replaces: replaces) { _ in places.reach() }
        places.reach()
        await collection.stop()
    }

    /// The libraries of a device that starts anew; nothing else may be where they are.
    private static func found(in data: String) async throws -> Set<Found> {
        let collection = LibraryCollection(data: data, keepsUp: false, logger: logger)
        var found: Set<Found> = []
        for library in try await collection.libraries() {
            #expect(library.problem == nil && library.isUnconfirmed, "\(library)")
            try LibraryArchive.checkIndex(in: library.path, isWhole: true)
            let index = try await collection.keeper(library.idText, isOwner: true).index()
            let locations = try index.locations(counted: true)
            found.insert(Found(name: library.name, entries: locations.reduce(0) { $0 + Int($1.entries ?? 0) }))
        }
        let folder = data + "/libraries"
        let remains = (try? FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix(".") }) ?? []
        #expect(remains.isEmpty)
        await collection.stop()
        return found
    }

    /// Makes two archives of one library: of its first files, and of twice as many.
    private static func makeArchives(in folder: TemporaryFolder) async throws -> [String] {
        let (top, data) = (folder.path + "/tree", folder.path + "/home")
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        let collection = LibraryCollection(data: data, keepsUp: false, logger: logger)
        let library = try await collection.create(name: "Photos", at: nil)
        let index = try await collection.keeper(library.idText, isOwner: true).index()
        var archives: [String] = []
        for number in 0..<2 {
            try FileManager.default.createDirectory(atPath: top + "/\(number)", withIntermediateDirectories: true)
            for file in 0..<3_000 {
                let made = FileManager.default.createFile(
                    atPath: "\(top)/\(number)/a rather long name of a file, number \(file)", contents: nil)
                try #require(made)
            }
            if number == 0 { _ = try index.addLocation(at: Array(top.utf8)) }
            for location in try index.locations() { _ = try await index.scan(location.id) }
            archives.append(folder.path + "/\(number).kithlibrary")
            _ = try await collection.export(library.idText, to: archives[number], overwrites: false) { _ in }
        }
        await collection.stop()
        return archives
    }

    @Test(arguments: [false, true])
    func `killed at any place, a library is there whole or not at all`(replaces: Bool) async throws {
        let folder = try TemporaryFolder()
        let archives = try await Self.makeArchives(in: folder)
        let (archive, bytes) = (archives[1], try Data(contentsOf: URL(fileURLWithPath: archives[1])))
        let dated = try FileManager.default.attributesOfItem(atPath: archive)[.modificationDate] as? Date

        let start = folder.path + "/start"
        try FileManager.default.createDirectory(atPath: start, withIntermediateDirectories: true)
        if replaces { try await Self.import(archives[0], into: start, replaces: false) }
        let before = try await Self.found(in: start)
        #expect(before == (replaces ? [Found(name: "Photos", entries: 3_001)] : []))
        let after: Set = [Found(name: "Photos", entries: 6_002)]

        func device(_ number: Int) throws -> String {
            let path = folder.path + "/device\(number)"
            try FileManager.default.copyItem(atPath: start, toPath: path)
            return path
        }
        let places = Places()
        let undisturbed = try device(0)
        try await Self.import(archive, into: undisturbed, replaces: replaces, places)
        #expect(try await Self.found(in: undisturbed) == after)
        // Blocks of the archive, and what is done around them.
        #expect(places.reached > 8)

        var isWhole = false
        for place in 1...places.reached {
            let data = try device(place)
            let turn = await ExitTestTurn.take()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [archive = archive as String, data = data as String, replaces = replaces as Bool, place = place as Int]
                in
                try await ImportKillTests.import(archive, into: data, replaces: replaces, Places(killAt: place))
            }
            turn.end()
            let found = try await Self.found(in: data)
            #expect(found == before || found == after, "\(place) of \(places.reached)")
            // Once it is there, it stays.
            #expect(!isWhole || found == after, "\(place) of \(places.reached)")
            isWhole = found == after
            #expect(try Data(contentsOf: URL(fileURLWithPath: archive)) == bytes)
            #expect(try FileManager.default.attributesOfItem(atPath: archive)[.modificationDate] as? Date == dated)
            try await Self.import(archive, into: data, replaces: true)
            #expect(try await Self.found(in: data) == after)
            try FileManager.default.removeItem(atPath: data)
        }
        #expect(isWhole)
    }
}
