import GRDB
import KithCatalog
import KithIO
import KithWire

extension FileIndex {
    /// Thrown within a transaction that sees other names than those in memory.
    struct NamesOutdated: Error {}

    /// Reads in a transaction of its own, with the names as it sees them.
    func readNames<Result: Sendable>(
        _ body: @escaping @Sendable (NameTable.Names, Database) throws -> Result
    ) async throws -> Result {
        var attempts = 0
        while true {
            if !names.isLoaded { try await loadNames() }
            do {
                return try await read { [names] database in
                    guard let names = names.names(version: try Self.nameVersion(database)) else {
                        throw NamesOutdated()
                    }
                    return try body(names, database)
                }
            } catch is NamesOutdated {
                // Between the end of a transaction and its taking over there is next to nothing; what takes longer was
                // changed by somebody else.
                attempts += 1
                if attempts % 8 == 0 { names.forget() } else { try await Task.sleep(for: .milliseconds(1)) }
            }
        }
    }

    /// Reads all names into memory: a second for two million.
    private func loadNames() async throws {
        try await namesLoading.lockUnlessCancelled()
        defer { namesLoading.unlock() }
        guard !names.isLoaded else { return }
        names.beginLoading()
        var isLoaded = false
        // Else what changes would be collected for nobody.
        defer { if !isLoaded { names.forget() } }
        let read = try await read { database in
            var names = NameTable.Names(version: try Self.nameVersion(database), blocks: [])
            let rows = try Row.fetchCursor(
                database,
                sql: """
                    SELECT entry.id, entry.name, length(folder.path), entry.kind
                    FROM entry CROSS JOIN folder ON folder.id = entry.folder ORDER BY entry.id
                    """)
            while let row = try rows.next() {
                let name = try row.withUnsafeData(atIndex: 1) { $0.map { [UInt8]($0) } ?? [] }
                let isFile = row[3] == StoredKind.file.rawValue
                names.append(
                    row[0], Array(foldedName(name).utf8), .init(name: name.count, folder: row[2], isFile: isFile))
            }
            return names
        }
        names.load(read)
        isLoaded = true
        releaseMemory()
    }

    private static func nameVersion(_ database: Database) throws -> Int64 {
        try Int64.fetchOne(database.cachedStatement(sql: "SELECT value FROM meta WHERE name = 'names'")) ?? 0
    }
}
