import Foundation
import GRDB
import KithCatalog
import KithTesting
import Logging

@testable import KithIndex

/// A tree of files, and an index of it.
final class IndexedTree: Sendable {
    let folder: TemporaryFolder
    let index: FileIndex
    var top: String { folder.path + "/tree" }

    init() throws {
        folder = try TemporaryFolder()
        index = try FileIndex(path: folder.path + "/index.sqlite", logger: Logger(label: "test"))
        try make("")
    }

    func path(_ name: String) -> String { name.isEmpty ? top : top + "/" + name }

    func make(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    }

    func write(_ name: String, _ text: String = "") throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path(name)))
    }

    func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: path(name)) }

    func move(_ name: String, to other: String) throws {
        try FileManager.default.moveItem(atPath: path(name), toPath: path(other))
    }

    func added(_ rules: LocationRules = LocationRules()) throws -> IndexLocation {
        try index.addLocation(at: Array(top.utf8), rules: rules)
    }

    /// All that the index holds: by path, with what is compared between two indexes.
    func contents() throws -> [String: String] {
        try Self.contents(of: index)
    }

    /// The ids by path.
    func numbers() throws -> [String: Int64] {
        try index.database.read { database in
            Dictionary(
                uniqueKeysWithValues: try Row.fetchAll(
                    database,
                    sql: "SELECT folder.path, entry.name, entry.id FROM entry JOIN folder ON folder.id = entry.folder"
                ).map { row in
                    (
                        String(decoding: row[0] as Data, as: UTF8.self) + "/"
                            + String(decoding: row[1] as Data, as: UTF8.self), row[2]
                    )
                })
        }
    }

    static func contents(of index: FileIndex) throws -> [String: String] {
        try index.database.write { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT folder.path, entry.name, entry.kind, entry.size, entry.modified, entry.changed, entry.inode,
                        entry.extension, entry.flags, entry.category, entry.created
                    FROM entry JOIN folder ON folder.id = entry.folder
                    """)
            var contents: [String: String] = [:]
            for row in rows {
                let path = (row[0] as Data) + Data("/".utf8) + (row[1] as Data)
                let key = String(
                    path.map { $0 < 128 ? String(UnicodeScalar($0)) : "\\x" + String($0, radix: 16) }.joined())
                contents[key] = (2..<11).map { "\(row[$0] as DatabaseValue)" }.joined(separator: " ")
            }
            // Each folder row is a folder's, each folder has one.
            let orphans = try Int.fetchOne(
                database,
                sql: """
                    SELECT (SELECT count(*) FROM folder LEFT JOIN entry USING (id) WHERE entry.kind IS NOT 1)
                        + (SELECT count(*) FROM entry LEFT JOIN folder USING (id) WHERE entry.kind = 1 AND folder.id IS NULL
                            AND entry.id NOT IN (SELECT entry FROM kept))
                        + (SELECT count(*) FROM entry LEFT JOIN folder ON folder.id = entry.folder
                            WHERE entry.folder <> 0 AND folder.id IS NULL)
                    """)
            contents["orphans"] = "\(orphans ?? -1)"
            // Until somebody searches there are none in memory.
            contents["searched"] = "\(try !index.names.isLoaded || searched(index, database) == expected(database))"
            return contents
        }
    }

    /// The names in memory, by the numbers of their entries; `nil` when they are of another version than the database.
    static func searched(_ index: FileIndex, _ database: Database) throws -> [Int64: String]? {
        let version = try Int64.fetchOne(database, sql: "SELECT value FROM meta WHERE name = 'names'") ?? -1
        guard let names = index.names.names(version: version) else { return nil }
        return names.contents
    }

    /// What the names should be.
    static func expected(_ database: Database) throws -> [Int64: String] {
        let rows = try Row.fetchAll(
            database,
            sql: """
                SELECT entry.id, entry.name, length(folder.path), entry.kind = 0
                FROM entry JOIN folder ON folder.id = entry.folder
                """)
        return Dictionary(
            uniqueKeysWithValues: rows.map { row in
                let name = [UInt8](row[1] as Data)
                return (row[0], "\(foldedName(name)) \(name.count) \(row[3] as Bool) \(row[2] as Int)")
            })
    }

    /// What an index made from nothing holds.
    func fresh(_ rules: LocationRules = LocationRules()) async throws -> [String: String] {
        let path = folder.path + "/fresh-\(UInt64.random(in: 0...UInt64.max)).sqlite"
        let index = try FileIndex(path: path, logger: Logger(label: "test"))
        defer { index.close() }
        let location = try index.addLocation(at: Array(top.utf8), rules: rules)
        _ = try await index.scan(location.id)
        return try Self.contents(of: index)
    }
}

extension NameTable.Names {
    /// The names with their lengths, by the numbers of their entries.
    var contents: [Int64: String] {
        var contents: [Int64: String] = [:]
        for block in blocks {
            for slot in 0..<block.count where block.isLive(slot) {
                let name = String(decoding: block.text[block.range(slot)].prefix { $0 != 0 }, as: UTF8.self)
                let measure = block.measure(slot)
                contents[block.id(slot)] = "\(name) \(measure.name) \(measure.isFile) \(measure.folder)"
            }
        }
        return contents
    }
}
