import GRDB
import KithWire

/// The shape of an index's database, as steps that are never changed once released: a later version adds its own.
enum IndexSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            // A name is kept as the bytes it has on the disk.
            try database.execute(
                sql: """
                    CREATE TABLE meta (
                        name TEXT PRIMARY KEY,
                        value ANY
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE location (
                        id INTEGER PRIMARY KEY,
                        entry INTEGER NOT NULL,
                        path BLOB NOT NULL UNIQUE,
                        name TEXT NOT NULL,
                        rules TEXT NOT NULL,
                        device INTEGER NOT NULL,
                        added INTEGER NOT NULL,
                        scanned INTEGER,
                        problem TEXT
                    ) STRICT;
                    CREATE TABLE entry (
                        id INTEGER PRIMARY KEY,
                        folder INTEGER NOT NULL,
                        name BLOB NOT NULL,
                        kind INTEGER NOT NULL,
                        category TEXT NOT NULL,
                        extension TEXT NOT NULL,
                        size INTEGER NOT NULL,
                        modified INTEGER NOT NULL,
                        changed INTEGER NOT NULL,
                        inode INTEGER NOT NULL,
                        added INTEGER NOT NULL,
                        flags INTEGER NOT NULL
                    ) STRICT;
                    CREATE UNIQUE INDEX entry_place ON entry (folder, name);
                    CREATE INDEX entry_inode ON entry (inode);
                    CREATE INDEX entry_size ON entry (size);
                    CREATE INDEX entry_modified ON entry (modified);
                    CREATE INDEX entry_extension ON entry (extension);
                    CREATE INDEX entry_gone ON entry (id) WHERE flags & 2;
                    CREATE TABLE folder (
                        id INTEGER PRIMARY KEY,
                        location INTEGER NOT NULL,
                        path BLOB NOT NULL UNIQUE,
                        device INTEGER NOT NULL,
                        problem TEXT
                    ) STRICT;
                    CREATE INDEX folder_location ON folder (location);
                    CREATE VIRTUAL TABLE name_index USING fts5 (
                        name, content = '', tokenize = 'trigram', detail = none, columnsize = 0
                    );
                    CREATE TABLE tag (
                        id INTEGER PRIMARY KEY,
                        name TEXT NOT NULL COLLATE NOCASE,
                        parent INTEGER REFERENCES tag (id) ON DELETE CASCADE
                    ) STRICT;
                    CREATE UNIQUE INDEX tag_place ON tag (ifnull(parent, 0), name);
                    CREATE TABLE tag_use (
                        entry INTEGER NOT NULL REFERENCES entry (id) ON DELETE CASCADE,
                        tag INTEGER NOT NULL REFERENCES tag (id) ON DELETE CASCADE,
                        PRIMARY KEY (entry, tag)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX tag_use_tag ON tag_use (tag);
                    INSERT INTO meta VALUES ('next', 1);
                    """)
        }
        migrator.registerMigration("content") { database in
            // What a file held when it had these attributes; while it has them, it is taken to hold it still. It is
            // damaged once its bytes were found to be others.
            try database.execute(
                sql: """
                    ALTER TABLE location ADD COLUMN mode TEXT NOT NULL DEFAULT 'recursive';
                    CREATE TABLE identity (
                        entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
                        device INTEGER NOT NULL,
                        inode INTEGER NOT NULL,
                        size INTEGER NOT NULL,
                        modified INTEGER NOT NULL,
                        changed INTEGER NOT NULL,
                        sample BLOB,
                        whole BLOB,
                        read INTEGER NOT NULL,
                        damaged INTEGER
                    ) STRICT;
                    CREATE INDEX identity_whole ON identity (whole) WHERE whole IS NOT NULL;
                    CREATE INDEX identity_sample ON identity (sample) WHERE sample IS NOT NULL;
                    """)
        }
        migrator.registerMigration("extraction") { database in
            // What was read out of a file when it had these attributes. Its text is kept in the index of words itself, for
            // passages; it goes with the row that says it is there.
            try database.execute(
                sql: """
                    CREATE TABLE extraction (
                        entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
                        version INTEGER NOT NULL,
                        inode INTEGER NOT NULL,
                        size INTEGER NOT NULL,
                        modified INTEGER NOT NULL,
                        changed INTEGER NOT NULL,
                        read INTEGER NOT NULL,
                        text INTEGER NOT NULL,
                        problem TEXT
                    ) STRICT;
                    CREATE INDEX extraction_text ON extraction (text) WHERE text > 0;
                    CREATE TABLE media (
                        entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
                        width INTEGER,
                        height INTEGER,
                        duration INTEGER,
                        taken INTEGER,
                        camera TEXT,
                        has_place INTEGER NOT NULL,
                        properties BLOB NOT NULL
                    ) STRICT;
                    CREATE INDEX media_taken ON media (taken) WHERE taken IS NOT NULL;
                    CREATE VIRTUAL TABLE text_index USING fts5 (
                        text, tokenize = "unicode61 remove_diacritics 2"
                    );
                    CREATE TRIGGER extraction_gone AFTER DELETE ON extraction WHEN old.text > 0 BEGIN
                        DELETE FROM text_index WHERE rowid = old.entry;
                    END;
                    """)
        }
        migrator.registerMigration("volumes") { database in
            // Where a location is on its volume, to find it again where that is mounted later.
            try database.execute(
                sql: """
                    CREATE TABLE location_volume (
                        location INTEGER PRIMARY KEY REFERENCES location (id) ON DELETE CASCADE,
                        fingerprint TEXT NOT NULL,
                        path BLOB NOT NULL
                    ) STRICT;
                    """)
        }
        migrator.registerMigration("annotations") { database in
            // An entry that has gone and carries tags or a note of a person's is kept, in no folder, until every location
            // has been looked through since (`mark` is the number of the last scan that had begun).
            try database.execute(
                sql: """
                    ALTER TABLE entry ADD COLUMN created INTEGER;
                    ALTER TABLE folder ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE location ADD COLUMN walked INTEGER NOT NULL DEFAULT 0;
                    CREATE INDEX folder_problem ON folder (id) WHERE problem IS NOT NULL;
                    CREATE TABLE annotation (
                        entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
                        favorite INTEGER NOT NULL DEFAULT 0,
                        rating INTEGER NOT NULL DEFAULT 0,
                        note TEXT
                    ) STRICT;
                    CREATE INDEX annotation_rating ON annotation (rating);
                    CREATE TABLE kept (
                        entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
                        device INTEGER NOT NULL,
                        mark INTEGER NOT NULL
                    ) STRICT;
                    INSERT INTO meta VALUES ('scans', 0);
                    """)
        }
        migrator.registerMigration("changes") { database in
            // What a person changed of tags and notes, with what was there before, to be taken back. And what came with a
            // location from elsewhere and waits for the scan that finds the files it is about.
            try database.execute(
                sql: """
                    CREATE TABLE change (
                        id INTEGER PRIMARY KEY,
                        uuid TEXT NOT NULL UNIQUE,
                        kind TEXT NOT NULL,
                        made INTEGER NOT NULL,
                        steps INTEGER NOT NULL,
                        undoes TEXT,
                        undone_by TEXT
                    ) STRICT;
                    CREATE TABLE change_step (
                        change INTEGER NOT NULL REFERENCES change (id) ON DELETE CASCADE,
                        number INTEGER NOT NULL,
                        entry INTEGER,
                        field TEXT NOT NULL,
                        tag TEXT,
                        before ANY,
                        after ANY,
                        PRIMARY KEY (change, number)
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE pending_note (
                        location INTEGER NOT NULL REFERENCES location (id) ON DELETE CASCADE,
                        path BLOB NOT NULL,
                        tags TEXT NOT NULL,
                        favorite INTEGER NOT NULL,
                        rating INTEGER NOT NULL,
                        note TEXT,
                        PRIMARY KEY (location, path)
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
        migrator.registerMigration("search") { database in
            // Names are searched in memory (NameTable). Every transaction that changes one counts this up.
            try database.execute(
                sql: """
                    DROP TABLE name_index;
                    INSERT INTO meta VALUES ('names', 0);
                    """)
        }
        return migrator
    }

    /// The number of the next entry.
    ///
    /// - Throws: `KithError` `.corrupt` where none are left, of a database that somebody else has written.
    static func nextNumber(_ database: Database) throws -> Int64 {
        let next = try Int64.fetchOne(database, sql: "SELECT value FROM meta WHERE name = 'next'") ?? 1
        guard (0..<1 << 62).contains(next) else {
            throw KithError(.corrupt, "The index of the library is damaged: it has no numbers left for files.")
        }
        return next
    }

    /// The bits of `entry.flags`.
    struct Flags: OptionSet {
        let rawValue: Int64
        /// Its name, or that of a folder around it within the location, begins with a dot.
        static let hidden = Flags(rawValue: 1)
        /// It was not there when its folder was listed last: to be moved when it turns up elsewhere, else to go.
        ///
        /// What is
        /// beneath a folder is marked by `folder.gone`.
        static let gone = Flags(rawValue: 2)
    }
}
