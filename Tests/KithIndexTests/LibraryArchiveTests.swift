import Crypto
import Foundation
import GRDB
import KithCatalog
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithIndex

@Suite(.timeLimit(.minutes(4))) struct LibraryArchiveTests {
    /// A library with a scanned location.
    private struct Place {
        let folder: TemporaryFolder
        let description = LibraryDescription(id: UUID(), name: "Photos", created: 1_700_000_000)
        var library: String { folder.path + "/library" }
        var archive: String { folder.path + "/photos.kithlibrary" }
        var tree: String { folder.path + "/tree" }

        init(isOpen: Bool = false) async throws {
            folder = try TemporaryFolder()
            for path in [library, tree + "/docs"] {
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            }
            for name in ["docs/report.txt", "photo.jpg"] {
                try Data(name.utf8).write(to: URL(fileURLWithPath: tree + "/" + name))
            }
            try description.write(to: library)
            let index = try FileIndex(path: library + "/index.sqlite", logger: Logger(label: "test"))
            defer { index.close() }
            let location = try index.addLocation(at: Array(tree.utf8))
            _ = try await index.scan(location.id)
            _ = try await index.changeTags(of: [Array((tree + "/photo.jpg").utf8)], add: [["holiday"]], remove: [])
        }

        func export(overwrites: Bool = false, step: @escaping @Sendable (String) -> Void = { _ in }) async throws {
            try await LibraryArchive.write(
                description, folder: library, to: archive, overwrites: overwrites, step: step, progress: { _ in })
        }

        func staging() throws -> String {
            let path = folder.path + "/staging-\(UInt64.random(in: 0 ... .max))"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }

        func imported() throws -> (LibraryArchive.Contents, String) {
            let staging = try staging()
            return (try LibraryArchive.read(archive, into: staging, progress: { _ in }), staging)
        }

        var remains: [String] {
            get throws {
                try FileManager.default.contentsOfDirectory(atPath: library).filter { $0.hasPrefix(".") }
                    + FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix(".") }
            }
        }
    }

    @Test func `an index with a journal beside it is not opened, which would play it back`() async throws {
        let place = try await Place()
        try LibraryArchive.checkIndex(in: place.library, isWhole: true)
        try Data().write(to: URL(fileURLWithPath: place.library + "/index.sqlite-journal"))
        for isWhole in [false, true] {
            let refused = #expect(throws: KithError.self) {
                try LibraryArchive.checkIndex(in: place.library, isWhole: isWhole)
            }
            #expect(refused?.code == .corrupt)
        }
    }

    @Test func `what is usual for its locations goes with a library`() async throws {
        let place = try await Place()
        let index = try FileIndex(path: place.library + "/index.sqlite", logger: Logger(label: "test"))
        try await index.setUsual(FileIndex.Usual(mode: .content, rules: LocationRules(patterns: ["*.o"])))
        index.close()
        try await place.export()
        _ = try place.imported()
    }

    @Test func `a library comes back as it was`() async throws {
        let place = try await Place()
        // It goes on to be used: an open transaction of another connection does not hold it up.
        let index = try FileIndex(path: place.library + "/index.sqlite", logger: Logger(label: "test"))
        defer { index.close() }
        let before = try IndexedTree.contents(of: index)
        let phases = Mutex<[LibraryArchive.Progress.Phase]>([])
        try await LibraryArchive.write(
            place.description, folder: place.library, to: place.archive, overwrites: false
        ) { step in phases.withLock { if $0.last != step.phase { $0.append(step.phase) } } }
        #expect(phases.withLock { $0 } == [.copying, .packing])
        let attributes = try FileManager.default.attributesOfItem(atPath: place.archive)
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        #expect(try place.remains.isEmpty)
        let (contents, staging) = try place.imported()
        #expect(contents.description == place.description)
        #expect(contents.locations.map(\.path) == [Array(place.tree.utf8)])
        let copy = try FileIndex(path: staging + "/index.sqlite", logger: Logger(label: "test"))
        defer { copy.close() }
        #expect(try IndexedTree.contents(of: copy) == before)
        #expect(try copy.tags().map(\.path) == [["holiday"]])
        #expect(try await copy.statistics().files == 2)
    }

    @Test func `others can read it`() async throws {
        let place = try await Place()
        try await place.export()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/tar")
        process.arguments = ["-xf", place.archive, "-C", try place.staging()]
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    @Test func `nothing is overwritten unasked`() async throws {
        let place = try await Place()
        try Data("mine".utf8).write(to: URL(fileURLWithPath: place.archive))
        await #expect(throws: KithError(.conflict, "")) { try await place.export() }
        #expect(try String(contentsOfFile: place.archive, encoding: .utf8) == "mine")
        try await place.export(overwrites: true)
        #expect(try place.imported().0.description == place.description)
        for path in ["relative", place.folder.path + "/", "/", place.folder.path + "/no/such", place.folder.path] {
            await #expect(throws: KithError.self) {
                try await LibraryArchive.write(
                    place.description, folder: place.library, to: path, overwrites: false, progress: { _ in })
            }
        }
        // What is not a file is not replaced, whatever is asked for.
        let pipe = place.folder.path + "/pipe"
        #expect(mkfifo(pipe, 0o600) == 0)
        await #expect(throws: KithError(.conflict, "")) {
            try await LibraryArchive.write(
                place.description, folder: place.library, to: pipe, overwrites: true, progress: { _ in })
        }
        #expect(try place.remains.isEmpty)
    }

    @Test(arguments: ["export.copy", "export.pack", "export.sync", "export.move", "export.end"])
    func `killed while it is exported, the file is there whole or not at all`(step: String) async throws {
        let place = try await Place()
        let (description, library, archive) = (place.description.encoded(), place.library, place.archive)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [
                description = description as [UInt8], library = library as String, archive = archive as String,
                step = step as String
            ] in
            try await LibraryArchive.write(
                LibraryDescription(decoding: description, at: "test"), folder: library, to: archive,
                overwrites: false, step: { if $0 == step { kill(getpid(), SIGKILL) } }, progress: { _ in })
        }
        #expect(FileManager.default.fileExists(atPath: archive) == (step == "export.end"))
        // Nothing is in the way of the next one, and nothing stays behind it.
        LibraryArchive.removeRemains(in: library)
        try await place.export(overwrites: true)
        #expect(try place.imported().0.description == place.description)
        #expect(try place.remains.isEmpty)
    }

    @Test(arguments: ["import.unpack", "import.check"])
    func `killed while it is read, nothing but its own folder has been changed`(step: String) async throws {
        let place = try await Place()
        try await place.export()
        let (archive, staging) = (place.archive, try place.staging())
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [archive = archive as String, staging = staging as String, step = step as String] in
            _ = try LibraryArchive.read(
                archive, into: staging, step: { if $0 == step { kill(getpid(), SIGKILL) } }, progress: { _ in })
        }
        #expect(try place.imported().0.description == place.description)
    }

    // MARK: - Hostile files

    private struct Part {
        var name: String
        var bytes: [UInt8]
        var type = UInt8(ascii: "0")
        var count: UInt64?

        var packed: [UInt8] {
            var block = ArchiveHeader(name: name, count: count ?? UInt64(bytes.count), modified: 1).encoded()
            block[156] = type
            for index in 148..<156 { block[index] = UInt8(ascii: " ") }
            let sum = String(block.reduce(0) { $0 + Int($1) }, radix: 8)
            let text = String(repeating: "0", count: 6 - sum.count) + sum + "\0 "
            block.replaceSubrange(148..<156, with: Array(text.utf8))
            return block + bytes + [UInt8](repeating: 0, count: (512 - bytes.count % 512) % 512)
        }
    }

    /// An archive of an index, with a manifest that is right.
    private static func parts(_ index: [UInt8], _ description: LibraryDescription) -> [Part] {
        let identity = description.encoded()
        func sum(_ bytes: [UInt8]) -> String {
            SHA256.hash(data: Data(bytes)).map { String(format: "%02x", $0) }.joined()
        }
        let manifest = """
            {"version":1,"exported":1,"files":[
            {"name":"library.json","size":\(identity.count),"sha256":"\(sum(identity))"},
            {"name":"index.sqlite","size":\(index.count),"sha256":"\(sum(index))"}]}
            """
        return [
            Part(name: "manifest.json", bytes: Array(manifest.utf8)), Part(name: "library.json", bytes: identity),
            Part(name: "index.sqlite", bytes: index),
        ]
    }

    private func refused(_ place: Place, _ bytes: [UInt8], _ what: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: place.archive))
        #expect(throws: KithError.self, "\(what)") { _ = try place.imported() }
    }

    private func index(_ place: Place) async throws -> [UInt8] {
        let path = place.folder.path + "/copy-\(UInt64.random(in: 0 ... .max)).sqlite"
        try await IndexCopy.make(of: place.library + "/index.sqlite", at: path) { _ in }
        return [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    @Test func `an archive that is not exactly one is refused`() async throws {
        let place = try await Place()
        let index = try await index(place)
        let good = Self.parts(index, place.description)
        let end = [UInt8](repeating: 0, count: 1_024)
        func joined(_ parts: [Part]) -> [UInt8] { parts.flatMap(\.packed) + end }
        // The parts themselves are right.
        try Data(joined(good)).write(to: URL(fileURLWithPath: place.archive))
        #expect(try place.imported().0.description == place.description)

        try refused(place, [], "empty")
        try refused(place, end, "nothing in it")
        try refused(place, [UInt8](repeating: 0x41, count: 4_096), "letters")
        try refused(place, Array(joined(good).prefix(9_000)), "cut off")
        try refused(place, joined(Array(good.dropFirst())), "no manifest")
        try refused(place, joined(Array(good.dropLast())), "no index")
        try refused(place, joined([good[0], good[2], good[1]]), "another order")
        try refused(place, joined(good + [Part(name: "more", bytes: [1])]), "one file more")
        try refused(place, good.flatMap(\.packed) + end + [UInt8](repeating: 0, count: 100_000), "a long end")
        for name in ["../index.sqlite", "/etc/passwd", "a/index.sqlite", "index.sqlite\u{1B}", "INDEX.SQLITE"] {
            try refused(place, joined([good[0], good[1], Part(name: name, bytes: index)]), name)
        }
        for type in "123456xgLKS".utf8 {
            try refused(
                place, joined([good[0], good[1], Part(name: "index.sqlite", bytes: index, type: type)]), "type")
        }
        for count in [UInt64.max, 1 << 63, 1 << 40, UInt64(index.count) + 513, UInt64(index.count) + 1, 0] {
            try refused(
                place, joined([good[0], good[1], Part(name: "index.sqlite", bytes: index, count: count)]), "\(count)")
            try refused(place, joined([Part(name: "manifest.json", bytes: good[0].bytes, count: count)]), "\(count)")
        }
        var changed = good
        changed[2].bytes[index.count - 1] ^= 1
        try refused(place, joined(changed), "one bit of the index")
        changed = good
        changed[1].bytes = LibraryDescription(id: UUID(), name: "Fhotos", created: 1_700_000_000).encoded()
        try refused(place, joined(changed), "another identity")
        let manifest = String(decoding: good[0].bytes, as: UTF8.self)
        for (old, new) in [
            ("\"version\":1", "\"version\":2"), ("index.sqlite", "../../x"), ("\"size\":", "\"size\":9"),
            ("\"exported\":1", "\"exported\":1,\"more\":1"), ("sha256\":\"", "sha256\":\"0"), ("{", ""),
        ] {
            changed = good
            changed[0].bytes = Array(manifest.replacingOccurrences(of: old, with: new).utf8)
            try refused(place, joined(changed), "\(old) became \(new)")
        }
        // Sums that are wrong, and digits that are none.
        for offset in [0, 124, 148, 257] {
            var bytes = joined(good)
            bytes[offset] = bytes[offset] == 0x39 ? 0x38 : 0x39
            try refused(place, bytes, "byte \(offset)")
        }
    }

    @Test func `what is no file is not imported`() async throws {
        let place = try await Place()
        #expect(throws: KithError(.notFound, "")) { _ = try place.imported() }
        #expect(mkfifo(place.archive, 0o600) == 0)
        #expect(throws: KithError(.corrupt, "")) { _ = try place.imported() }
        try FileManager.default.removeItem(atPath: place.archive)
        try FileManager.default.createDirectory(atPath: place.archive, withIntermediateDirectories: true)
        #expect(throws: KithError.self) { _ = try place.imported() }
        // Ten thousand million bytes of nothing are read no further than their head.
        try FileManager.default.removeItem(atPath: place.archive)
        #expect(FileManager.default.createFile(atPath: place.archive, contents: nil))
        #expect(truncate(place.archive, 10_000_000_000) == 0)
        #expect(throws: KithError(.corrupt, "")) { _ = try place.imported() }
    }

    @Test(arguments: [
        "CREATE TRIGGER t AFTER INSERT ON tag BEGIN DELETE FROM location; END",
        "CREATE VIEW v AS SELECT 1", "CREATE TABLE more (x)", "DROP TABLE tag_use", "CREATE INDEX i ON entry (flags)",
        "CREATE TABLE sqlite_statx (x)", "ALTER TABLE tag ADD COLUMN more TEXT", "DROP INDEX entry_inode",
        "INSERT INTO grdb_migrations VALUES ('later')", "DELETE FROM grdb_migrations",
        "DROP TABLE grdb_migrations; CREATE VIEW grdb_migrations AS SELECT '1' AS identifier",
        "UPDATE location SET path = CAST('etc' AS BLOB)", "UPDATE location SET path = CAST('/etc/../root' AS BLOB)",
        "UPDATE location SET path = CAST('/a//b' AS BLOB)",
        "UPDATE folder SET path = CAST('/etc' AS BLOB) WHERE id = 1",
        "UPDATE folder SET path = CAST(path || '/../..' AS BLOB)", "UPDATE folder SET location = 99",
        "UPDATE entry SET name = CAST('../x' AS BLOB) WHERE kind = 0",
        "UPDATE entry SET name = x'2e2e' WHERE kind = 0 AND size = 9",
        "UPDATE entry SET name = x'610062' WHERE size = 9", "UPDATE entry SET name = x'' WHERE size = 9",
        "UPDATE entry SET size = -1", "UPDATE location SET rules = 'x'",
        "UPDATE meta SET value = 9223372036854775807 WHERE name = 'next'", "UPDATE meta SET value = -1",
        "UPDATE entry SET extension = hex(zeroblob(1000))", "UPDATE folder SET problem = hex(zeroblob(10000))",
        "UPDATE tag SET parent = id", "UPDATE tag SET parent = 99", "UPDATE tag SET name = hex(zeroblob(200))",
        "WITH RECURSIVE n (i) AS (VALUES (10) UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO tag SELECT i, 'x', iif(i = 10, NULL, i - 1) FROM n",
        "INSERT INTO annotation SELECT id, 0, 0, hex(zeroblob(10000)) FROM entry LIMIT 1",
        "INSERT INTO annotation SELECT id, 0, 6, NULL FROM entry LIMIT 1",
        "INSERT INTO media SELECT id, 1, 1, 1, 1, '', 0, zeroblob(70000) FROM entry LIMIT 1",
        "INSERT INTO location (id, entry, path, name, rules, device, added) SELECT 2, entry, CAST(path || '/docs' AS BLOB), name, rules, device, added FROM location",
    ])
    func `a database that is not as ours is refused`(sql: String) async throws {
        let place = try await Place()
        let path = place.folder.path + "/hostile.sqlite"
        try Data(try await index(place)).write(to: URL(fileURLWithPath: path))
        // Keys that lead nowhere, too.
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        // SQLite makes no table of this name itself.
        do { try await queue.write { try $0.execute(sql: sql) } } catch {
            guard sql.contains("sqlite_statx") else { throw error }
            return
        }
        try queue.close()
        let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        try Data(Self.parts(bytes, place.description).flatMap(\.packed) + [UInt8](repeating: 0, count: 1_024)).write(
            to: URL(fileURLWithPath: place.archive))
        #expect(throws: KithError(.corrupt, "")) { _ = try place.imported() }
    }

    @Test func `an index without numbers left ends a scan, and not the device`() async throws {
        let tree = try IndexedTree()
        let location = try tree.added()
        try await tree.index.database.write {
            try $0.execute(sql: "UPDATE meta SET value = 9223372036854775807 WHERE name = 'next'")
        }
        try tree.write("one")
        await #expect(throws: KithError(.corrupt, "")) { _ = try await tree.index.scan(location.id) }
        try tree.make("other")
        try await tree.index.database.write { try $0.execute(sql: "DELETE FROM location") }
        #expect(throws: KithError(.corrupt, "")) { _ = try tree.added() }
    }

    @Test func `a database that is damaged, or none, is refused, whatever its manifest says`() async throws {
        let place = try await Place()
        let index = try await index(place)
        var random = SeededRandom.fromEnvironment()
        let hostile: [[UInt8]] = [
            [], Array("SQLite format 3\0".utf8), [UInt8](repeating: 0, count: 8_192),
            Array(index.prefix(index.count / 2)),
            Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0xFF, count: 8_192),
        ]
        func write(_ bytes: [UInt8]) throws {
            try Data(Self.parts(bytes, place.description).flatMap(\.packed) + [UInt8](repeating: 0, count: 1_024))
                .write(to: URL(fileURLWithPath: place.archive))
        }
        for bytes in hostile {
            try write(bytes)
            #expect(throws: KithError.self) { _ = try place.imported() }
        }
        // With bytes of it changed anywhere it is refused, or is an index that can be used.
        for count in [1, 2, 5, 10, 50, 200] {
            for _ in 0..<10 {
                var bytes = index
                for _ in 0..<count {
                    bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
                }
                try write(bytes)
                do {
                    let (_, staging) = try place.imported()
                    let index = try FileIndex(path: staging + "/index.sqlite", logger: Logger(label: "test"))
                    defer { index.close() }
                    #expect(try await index.statistics().locations <= 1)
                    _ = try await index.search(SearchQuery("report", now: 0, offsetFromUTC: 0))
                } catch let error as KithError {
                    #expect(error.code == .corrupt, "\(error)")
                }
            }
        }
    }

    @Test func `an archive with bytes changed is refused, or reads the same`() async throws {
        let place = try await Place()
        try await place.export()
        let archive = [UInt8](try Data(contentsOf: URL(fileURLWithPath: place.archive)))
        var random = SeededRandom.fromEnvironment()
        for round in 0..<200 {
            var bytes = archive
            // Half of them in the beginning, where the sizes and names are.
            let range = round % 2 == 0 ? 2_048 : bytes.count
            for _ in 0...(round % 4) {
                bytes[Int(random.next() % UInt64(range))] = UInt8(truncatingIfNeeded: random.next())
            }
            try Data(bytes).write(to: URL(fileURLWithPath: place.archive))
            do {
                #expect(try place.imported().0.description == place.description)
            } catch let error as KithError {
                #expect(error.code == .corrupt, "\(error)")
            }
        }
    }

    @Test func `an import would not fill the disk`() async throws {
        let place = try await Place()
        try await place.export()
        // A file full of holes is as large as it says, and takes nothing itself.
        var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: place.archive)))
        let manifest = Part(
            name: "manifest.json",
            bytes: Array(
                """
                {"version":1,"exported":1,"files":[{"name":"library.json","size":\(place.description.encoded().count),\
                "sha256":"\(SHA256.hash(data: Data(place.description.encoded())).map { String(format: "%02x", $0) }.joined())"},\
                {"name":"index.sqlite","size":1099511627776,"sha256":""}]}
                """.utf8))
        bytes =
            manifest.packed + Part(name: "library.json", bytes: place.description.encoded()).packed
            + ArchiveHeader(name: "index.sqlite", count: 1 << 40, modified: 1).encoded()
        try Data(bytes).write(to: URL(fileURLWithPath: place.archive))
        // Where a file cannot be so large, it is refused before that.
        _ = truncate(place.archive, 1 << 40 + 1 << 20)
        #expect(throws: KithError.self) { _ = try place.imported() }
    }
}
