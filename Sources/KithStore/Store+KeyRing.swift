import Foundation
import GRDB
public import KithWire

/// A device's key ring as it is stored: sealed, with the number of its last change.
public struct StoredKeyRing: Hashable, Sendable {
    /// The number of changes so far.
    public var generation: Int64
    /// The ring, sealed.
    public var sealed: [UInt8]

    /// Describes a ring.
    public init(generation: Int64, sealed: [UInt8]) {
        self.generation = generation
        self.sealed = sealed
    }
}

extension Store {
    /// The key ring; `nil` while there is none.
    public func keyRing() throws(KithError) -> StoredKeyRing? {
        try transaction("read the key ring") { database in
            try Row.fetchOne(database, sql: "SELECT * FROM key_ring").map { row in
                StoredKeyRing(generation: row["generation"], sealed: Array(row["sealed"] as Data))
            }
        }
    }

    /// Stores the key ring in the place of the generation before it, whole or not at all.
    ///
    /// - Throws: `KithError` `.conflict` when another generation than the one before is there; nothing changes then.
    public func setKeyRing(_ ring: StoredKeyRing) throws(KithError) {
        try transaction("store the key ring") { database in
            let last = try Int64.fetchOne(database, sql: "SELECT generation FROM key_ring") ?? 0
            guard last + 1 == ring.generation else {
                throw KithError(.conflict, "The key ring has changed meanwhile. Try again.")
            }
            try database.execute(
                sql: "INSERT OR REPLACE INTO key_ring VALUES (1, ?, ?)",
                arguments: [ring.generation, Data(ring.sealed)])
        }
    }

    static func registerKeyRing(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("key ring") { database in
            try database.execute(
                sql: """
                    CREATE TABLE key_ring (
                        number INTEGER PRIMARY KEY CHECK (number = 1),
                        generation INTEGER NOT NULL,
                        sealed BLOB NOT NULL
                    ) STRICT;
                    """)
        }
    }
}
