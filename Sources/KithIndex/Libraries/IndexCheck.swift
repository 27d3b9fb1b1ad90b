import Foundation
import GRDB
import KithWire

/// Checks a database from elsewhere before it is used as an index.
///
/// A database is a program, too: triggers, views and expressions in its schema run when it is used. So its schema has to
/// be, word for word, what one of our versions makes.
enum IndexCheck {
    /// The most locations of an index.
    static let locationLimit = 10_000

    /// Checks the schema alone, which is quick.
    static func checkSchema(_ path: String) throws(KithError) {
        try check(path) { database in try schema(database) }
    }

    /// Checks everything: schema, pages, and that no name or path in it leads out of its locations.
    ///
    /// Takes time with its size; ends with the task.
    ///
    /// - Returns: its locations.
    static func checkAll(_ path: String) throws(KithError) -> [IndexLocation] {
        try check(path) { database in
            try schema(database)
            let answers = try String.fetchAll(database, sql: "PRAGMA quick_check(1)")
            guard answers == ["ok"] else { throw Damage("its pages are damaged") }
            for table in try String.fetchAll(
                database, sql: "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%'")
            {
                try Task.checkCancellation()
                // The name is one of ours: the schema has been compared.
                try database.execute(sql: "INSERT INTO \(table) (\(table)) VALUES ('integrity-check')")
            }
            return try content(database)
        }
    }

    private struct Damage: Error {
        let description: String
        init(_ description: String) { self.description = description }
    }

    private static func check<Result>(
        _ path: String, _ body: @escaping @Sendable (Database) throws -> Result
    ) throws(KithError) -> Result {
        var configuration = Configuration()
        configuration.label = "kith.index.check"
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA trusted_schema = OFF")
            try database.execute(sql: "PRAGMA cell_size_check = ON")
            try database.execute(sql: "PRAGMA mmap_size = 0")
        }
        do {
            let header = try DurableFile.head(of: path, count: 16)
            guard header == Array("SQLite format 3".utf8) + [0] else { throw Damage("it is no SQLite database") }
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            defer {
                // Whatever it was, it has been read.
                try? queue.close()
            }
            // Inside of a transaction that is given up: nothing is changed.
            return try queue.writeWithoutTransaction { database in
                var result: Result?
                try database.inTransaction {
                    result = try body(database)
                    return .rollback
                }
                guard let result else { preconditionFailure("a transaction without an error has run its body") }
                return result
            }
        } catch let error as KithError {
            throw error
        } catch let error as Damage {
            throw KithError(.corrupt, "The index of the library is not one: \(error.description).")
        } catch is CancellationError {
            throw KithError(.cancelled, "The library was not checked: it was cancelled.")
        } catch let error as SystemFailure {
            throw KithError(error.code, "The index of the library cannot be read: \(error).")
        } catch {
            throw KithError(.corrupt, "The index of the library is damaged.", cause: error)
        }
    }

    // MARK: - The schema

    private struct Object: Hashable {
        var type: String
        var name: String
        var table: String
        var sql: String?
    }

    private static func objects(_ database: Database) throws -> Set<Object> {
        var objects: Set<Object> = []
        let rows = try Row.fetchCursor(
            database, sql: "SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT 2000")
        while let row = try rows.next() {
            // A schema that somebody wrote by hand may hold anything.
            guard let type = String.fromDatabaseValue(row[0]), let name = String.fromDatabaseValue(row[1]),
                let table = String.fromDatabaseValue(row[2])
            else { throw Damage("its schema is damaged") }
            let sql = String.fromDatabaseValue(row[3])
            if Self.statistics.contains(where: { $0.name == name && $0.sql == sql && type == "table" }) { continue }
            guard objects.insert(Object(type: type, name: name, table: table, sql: sql)).inserted else {
                throw Damage("its schema is damaged")
            }
        }
        return objects
    }

    /// What SQLite makes by itself to plan queries.
    private static let statistics = [
        (name: "sqlite_stat1", sql: "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
        (name: "sqlite_stat4", sql: "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
    ]

    /// Compares with what each version of ours makes.
    private static func schema(_ database: Database) throws {
        let found = try objects(database)
        let migrator = IndexSchema.migrator
        for last in migrator.migrations.reversed() {
            let queue = try DatabaseQueue()
            try migrator.migrate(queue, upTo: last)
            let expected = try queue.read { try objects($0) }
            guard found == expected else { continue }
            // Only now is the table of migrations known to be one.
            let all = migrator.migrations
            let applied = all[...(all.firstIndex(of: last) ?? 0)]
            guard
                try Set(String.fetchAll(database, sql: "SELECT identifier FROM grdb_migrations LIMIT 1000"))
                    == Set(applied)
            else { continue }
            return
        }
        if try found.contains(where: { $0.name == "grdb_migrations" })
            && Set(String.fetchAll(database, sql: "SELECT identifier FROM grdb_migrations LIMIT 1000"))
                .subtracting(migrator.migrations).count > 0
        {
            throw Damage("a later version of Kith has made it, or something else; update this one")
        }
        throw Damage("it has tables, triggers or views that Kith does not make")
    }

    // MARK: - What is in it

    private static func content(_ database: Database) throws -> [IndexLocation] {
        guard try Int.fetchOne(database, sql: "SELECT count(*) FROM location") ?? 0 <= locationLimit else {
            throw Damage("it has more than \(locationLimit) locations")
        }
        let locations = try FileIndex.locations(database)
        for location in locations {
            guard isPlain(location.path), location.path.count <= 4_096, location.name.utf8.count <= 1_024,
                !locations.contains(where: { $0.id != location.id && location.path.isWithin($0.path) })
            else { throw Damage("a location in it is not a plain path, or lies in another one") }
        }
        let paths = Dictionary(uniqueKeysWithValues: locations.map { ($0.id, $0.path) })
        let folders = try Row.fetchCursor(database, sql: "SELECT location, path FROM folder")
        while let row = try folders.next() {
            try Task.checkCancellation()
            let path = [UInt8](row[1] as Data)
            guard let top = paths[row[0]], isPlain(path), path.isWithin(top) else {
                throw Damage("a folder in it lies in none of its locations")
            }
        }
        let isWrong = try Bool.fetchOne(
            database,
            sql: """
                SELECT EXISTS (
                    SELECT 1 FROM entry
                    WHERE folder <> 0 AND (
                        instr(name, x'2f') > 0 OR instr(name, x'00') > 0 OR length(name) NOT BETWEEN 1 AND 1024
                        OR name = x'2e' OR name = x'2e2e' OR size < 0))
                """)
        guard isWrong != true else { throw Damage("a name in it is not one of a file") }
        try sizes(database)
        return locations
    }

    /// What nobody can have entered, by its table: a long text would be read with each search, a large number overflow.
    private static let excesses = [
        (
            table: "meta",
            condition: """
            CASE WHEN name IN ('next', 'scans', 'names')
                THEN typeof(value) <> 'integer' OR value NOT BETWEEN 0 AND 1 << 62 ELSE length(value) > 1 << 20 END
            """,
            what: "a number in it"
        ),
        ("entry", "id NOT BETWEEN 0 AND 1 << 62 OR length(category) > 64 OR length(extension) > 1024", "an entry"),
        ("location", "id NOT BETWEEN 0 AND 1 << 62 OR length(rules) > 1 << 20 OR length(problem) > 4096", "a location"),
        ("folder", "length(problem) > 4096", "what it says of a folder"),
        ("tag", "length(CAST(name AS BLOB)) NOT BETWEEN 1 AND \(FileIndex.tagNameLimit)", "the name of a tag"),
        ("extraction", "length(problem) > 4096", "what it says of a file"),
        ("media", "length(properties) > 65536 OR length(camera) > 4096", "what it says of a file"),
        (
            "annotation",
            """
            length(CAST(note AS BLOB)) > \(FileIndex.noteLimit) OR rating NOT BETWEEN 0 AND 5
                OR favorite NOT BETWEEN 0 AND 1
            """, "a note"
        ),
    ]
    /// The most tags.
    private static let tagLimit = 100_000

    private static func sizes(_ database: Database) throws {
        for (table, condition, what) in excesses where try database.tableExists(table) {
            try Task.checkCancellation()
            if try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM \(table) WHERE \(condition))") == true {
                throw Damage(what + " is not what Kith writes")
            }
        }
        guard try Int.fetchOne(database, sql: "SELECT count(*) FROM tag") ?? 0 <= tagLimit else {
            throw Damage("it has more than \(tagLimit) tags")
        }
        // Tags in one another, each once, and not too deep.
        let parents = Dictionary(
            uniqueKeysWithValues: try Row.fetchAll(database, sql: "SELECT id, parent FROM tag").map {
                ($0[0] as Int64, $0[1] as Int64?)
            })
        for tag in parents.keys {
            var (next, depth) = (Optional(tag), 0)
            while let id = next {
                guard let parent = parents[id], depth < FileIndex.tagDepthLimit else {
                    throw Damage("a tag in it lies in none, or in itself")
                }
                (next, depth) = (parent, depth + 1)
            }
        }
    }

    /// True for a path from the top in which nothing leads up, or nowhere.
    private static func isPlain(_ path: [UInt8]) -> Bool {
        guard path.first == UInt8(ascii: "/"), !path.contains(0) else { return false }
        guard path.count > 1 else { return true }
        return path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).allSatisfy {
            !$0.isEmpty && $0 != [UInt8(ascii: ".")] && $0 != [UInt8(ascii: "."), UInt8(ascii: ".")]
        }
    }
}

extension DurableFile {
    /// The first bytes of a file.
    static func head(of path: String, count: Int) throws(SystemFailure) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw SystemFailure() }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: count)
        let got = unsafe bytes.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard got >= 0 else { throw SystemFailure() }
        return Array(bytes.prefix(got))
    }
}
