import Foundation
import GRDB

/// The shape of `kith.sqlite`, as steps that are never changed once released: a later version adds its own.
enum Migrations {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE devices (
                        id BLOB PRIMARY KEY CHECK (length(id) = 32),
                        name TEXT NOT NULL UNIQUE COLLATE NOCASE,
                        addresses TEXT NOT NULL,
                        relays TEXT NOT NULL,
                        paired_at INTEGER NOT NULL,
                        last_seen INTEGER
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE grants (
                        device BLOB NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
                        grant_text TEXT NOT NULL,
                        PRIMARY KEY (device, grant_text)
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE invitations (
                        id TEXT PRIMARY KEY,
                        proof_key BLOB,
                        grants TEXT NOT NULL,
                        expires_at INTEGER NOT NULL,
                        is_automatic INTEGER NOT NULL,
                        used_at INTEGER,
                        used_by BLOB
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE audit (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        time INTEGER NOT NULL,
                        device TEXT NOT NULL,
                        method TEXT NOT NULL,
                        decision TEXT NOT NULL,
                        detail TEXT NOT NULL
                    ) STRICT;
                    CREATE TABLE settings (
                        name TEXT PRIMARY KEY,
                        value TEXT NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
        migrator.registerMigration("addresses") { database in
            try database.execute(
                sql: """
                    CREATE TABLE addresses (
                        device BLOB NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
                        position INTEGER NOT NULL,
                        address TEXT NOT NULL,
                        last_good INTEGER,
                        told_at INTEGER,
                        PRIMARY KEY (device, position)
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE standings (
                        device BLOB PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE,
                        is_forgotten INTEGER NOT NULL,
                        grants TEXT NOT NULL,
                        time INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    """)
            for row in try Row.fetchAll(database, sql: "SELECT * FROM devices") {
                let (id, addresses): (Data, String) = (row["id"], row["addresses"])
                for (position, address) in addresses.split(separator: "\n").enumerated() {
                    // The first was the last one a connection went to, when there was one.
                    let lastGood: Int64? = position == 0 ? row["last_seen"] : nil
                    try database.execute(
                        sql: "INSERT INTO addresses VALUES (?, ?, ?, ?, ?)",
                        arguments: [id, position, String(address), lastGood, row["paired_at"] as Int64])
                }
            }
            try database.execute(sql: "ALTER TABLE devices DROP COLUMN addresses")
        }
        migrator.registerMigration("unpaired attempts") { database in
            try database.execute(
                sql: """
                    CREATE TABLE attempts (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        first INTEGER NOT NULL,
                        last INTEGER NOT NULL,
                        count INTEGER NOT NULL,
                        device TEXT NOT NULL,
                        method TEXT NOT NULL,
                        detail TEXT NOT NULL
                    ) STRICT;
                    CREATE INDEX audit_by_device ON audit (device, number);
                    """)
        }
        migrator.registerMigration("roots") { database in
            // Where the roots of grants lay when they were granted.
            try database.execute(
                sql: "CREATE TABLE roots (root TEXT PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID")
            try Store.resolveOldRoots(database)
        }
        migrator.registerMigration("pairing attempts") { database in
            try database.execute(
                sql: """
                    CREATE TABLE pairing_attempts (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        invitation TEXT NOT NULL,
                        is_joining INTEGER NOT NULL,
                        device BLOB NOT NULL CHECK (length(device) = 32),
                        address TEXT NOT NULL,
                        began_at INTEGER NOT NULL,
                        ending TEXT
                    ) STRICT;
                    CREATE INDEX pairing_attempts_invitation ON pairing_attempts (invitation);
                    """)
        }
        migrator.registerMigration("outbox") { database in
            try database.execute(
                sql: """
                    CREATE TABLE outbox (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        topic TEXT NOT NULL,
                        message BLOB NOT NULL,
                        epoch INTEGER NOT NULL,
                        sequence INTEGER NOT NULL,
                        time INTEGER NOT NULL,
                        sender BLOB,
                        expiry INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE outbox_deliveries (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        event INTEGER NOT NULL REFERENCES outbox (number) ON DELETE CASCADE,
                        device BLOB NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
                        tries INTEGER NOT NULL
                    ) STRICT;
                    CREATE INDEX outbox_deliveries_by_device ON outbox_deliveries (device, number);
                    CREATE INDEX outbox_deliveries_by_event ON outbox_deliveries (event);
                    """)
        }
        Store.registerKeyRing(&migrator)
        Store.registerTrust(&migrator)
        Store.registerEnrolled(&migrator)
        Store.registerLabels(&migrator)
        Store.registerGrantEnds(&migrator)
        Store.registerBrowsers(&migrator)
        return migrator
    }
}
