import GRDB

/// The shape of a queue's database, as steps that are never changed once released.
enum JobSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE job (
                        number INTEGER PRIMARY KEY AUTOINCREMENT,
                        id TEXT NOT NULL UNIQUE,
                        kind TEXT NOT NULL,
                        version INTEGER NOT NULL,
                        title TEXT NOT NULL,
                        topic TEXT,
                        state TEXT NOT NULL,
                        priority INTEGER NOT NULL,
                        attempts INTEGER NOT NULL,
                        cleaning INTEGER NOT NULL,
                        created INTEGER NOT NULL,
                        started INTEGER,
                        ended INTEGER,
                        code TEXT,
                        error TEXT
                    ) STRICT;
                    CREATE INDEX job_state ON job (state);
                    CREATE TABLE job_data (
                        job INTEGER PRIMARY KEY REFERENCES job (number) ON DELETE CASCADE,
                        input BLOB NOT NULL,
                        output BLOB
                    ) STRICT;
                    CREATE TABLE job_place (
                        job INTEGER PRIMARY KEY REFERENCES job (number) ON DELETE CASCADE,
                        cursor BLOB,
                        progress BLOB NOT NULL
                    ) STRICT;
                    CREATE TABLE job_log (
                        job INTEGER NOT NULL REFERENCES job (number) ON DELETE CASCADE,
                        line INTEGER NOT NULL,
                        time INTEGER NOT NULL,
                        text TEXT NOT NULL,
                        PRIMARY KEY (job, line)
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
        return migrator
    }
}
