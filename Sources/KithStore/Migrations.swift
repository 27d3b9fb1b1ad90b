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
        return migrator
    }
}
