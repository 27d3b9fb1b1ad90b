import Foundation
import GRDB
package import KithWire

/// The numbers of an index.
package struct IndexStatistics: Hashable, Sendable {
    /// Those of one category.
    package struct Category: Hashable, Sendable {
        package var name: String
        package var files: UInt64
        package var bytes: UInt64
    }

    package var files: UInt64 = 0
    package var folders: UInt64 = 0
    /// Links, pipes, sockets and devices.
    package var others: UInt64 = 0
    package var bytes: UInt64 = 0
    /// Those with the most bytes first.
    package var categories: [Category] = []
    package var locations = 0
    package var tags = 0
    /// The bytes of the database's files.
    package var indexBytes: UInt64 = 0
    /// When a location was scanned last to the end, in seconds since 1970.
    package var scanned: Int64?
}

extension FileIndex {
    /// Counts what is in it, which takes time with its size: a tenth of a second for a million entries.
    package func statistics() async throws(KithError) -> IndexStatistics {
        do {
            var statistics = try await read { database in
                var statistics = IndexStatistics()
                // Sizes are what file systems say, also of files full of holes: their sum may be no integer of 64 bits.
                let rows = try Row.fetchCursor(
                    database,
                    sql: """
                        SELECT kind, category, count(*), total(CASE kind WHEN 0 THEN size ELSE 0 END) FROM entry
                        WHERE folder <> 0 AND flags & 2 = 0 GROUP BY kind, category
                        """)
                while let row = try rows.next() {
                    let (count, bytes) = (UInt64(clamping: row[2] as Int64), Self.whole(row[3]))
                    switch StoredKind(rawValue: row[0]) {
                    case .file:
                        statistics.files += count
                        statistics.bytes = statistics.bytes.saturatingAdding(bytes)
                        statistics.categories.append(
                            IndexStatistics.Category(name: row[1], files: count, bytes: bytes))
                    case .folder: statistics.folders += count
                    default: statistics.others += count
                    }
                }
                statistics.categories.sort { ($0.bytes, $0.files, $1.name) > ($1.bytes, $1.files, $0.name) }
                statistics.locations = try Int.fetchOne(database, sql: "SELECT count(*) FROM location") ?? 0
                statistics.tags = try Int.fetchOne(database, sql: "SELECT count(*) FROM tag") ?? 0
                statistics.scanned = try Int64.fetchOne(database, sql: "SELECT max(scanned) FROM location")
                return statistics
            }
            for suffix in ["", "-wal"] {
                var info = stat()
                // Without a log there is none to be counted.
                guard unsafe stat(path + suffix, &info) == 0 else { continue }
                statistics.indexBytes += UInt64(max(0, info.st_size))
            }
            return statistics
        } catch {
            throw Self.failure("count what is in the library", error)
        }
    }

    private static func whole(_ number: Double) -> UInt64 {
        number >= 0x1p63 ? UInt64(Int64.max) : number > 0 ? UInt64(number) : 0
    }
}
