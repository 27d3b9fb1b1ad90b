import GRDB

/// The shape of `groups.sqlite`, as steps that are never changed once released: a later version adds its own.
///
/// Numbers without a sign are stored with the same bits.
enum GroupMigrations {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE store (
                        only INTEGER PRIMARY KEY CHECK (only = 1),
                        generation INTEGER NOT NULL,
                        erased INTEGER NOT NULL
                    ) STRICT;
                    INSERT INTO store VALUES (1, 0, 0);
                    CREATE TABLE groups (
                        number INTEGER PRIMARY KEY,
                        id BLOB NOT NULL UNIQUE,
                        version INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE group_rows (
                        group_number INTEGER NOT NULL REFERENCES groups (number) ON DELETE CASCADE,
                        epoch INTEGER NOT NULL,
                        kind INTEGER NOT NULL,
                        number INTEGER NOT NULL,
                        seal INTEGER NOT NULL,
                        content BLOB NOT NULL,
                        PRIMARY KEY (group_number, epoch, kind, number)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX group_rows_by_seal ON group_rows (seal) WHERE seal > 0;
                    CREATE TABLE items (
                        kind INTEGER NOT NULL,
                        name BLOB NOT NULL,
                        seal INTEGER NOT NULL,
                        content BLOB NOT NULL,
                        PRIMARY KEY (kind, name)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX items_by_seal ON items (seal) WHERE seal > 0;
                    """)
        }
        migrator.registerMigration("2") { database in
            try database.execute(
                sql: """
                    ALTER TABLE store ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE groups ADD COLUMN rolled_back INTEGER NOT NULL DEFAULT 0;
                    """)
        }
        migrator.registerMigration("3") { database in
            try database.execute(
                sql: """
                    ALTER TABLE store ADD COLUMN tag BLOB;
                    CREATE INDEX groups_rolled_back ON groups (id) WHERE rolled_back = 1;
                    """)
        }
        return migrator
    }
}
