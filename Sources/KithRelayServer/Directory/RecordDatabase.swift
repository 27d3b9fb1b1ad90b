import Foundation
import GRDB
import KithIdentity
import KithReach
import KithWire

/// The records of a directory on disk: one table in SQLite, for this process alone.
///
/// It is in write-ahead mode: killed at any moment, it opens with every record that was reported kept. Only a loss of
/// power may cost the latest; their devices repeat them within minutes.
final class RecordDatabase: Sendable {
    private let queue: DatabaseQueue
    private let path: String

    /// Opens the database in a folder; both are made, for this account alone, when they are not there.
    ///
    /// - Throws: `KithError` `.denied` for a folder that cannot be written, `.conflict` when another directory uses it,
    ///   `.corrupt` for a damaged file.
    init(folder: String) throws(KithError) {
        path = folder + "/records.sqlite"
        let files = FileManager.default
        do {
            try files.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw KithError(
                .denied, "The folder \(folder) for records could not be made. Choose another with --data.", cause: error
            )
        }
        // SQLite gives the files beside it the same permissions.
        if !files.fileExists(atPath: path) {
            guard files.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]) else {
                throw KithError(
                    .denied,
                    "Records cannot be written into \(folder). See to its permissions, or choose another folder "
                        + "with --data.")
            }
        }
        var configuration = Configuration()
        configuration.label = "kith.directory"
        configuration.prepareDatabase { database in
            // What is in memory would not be what another process wrote.
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = NORMAL")
        }
        do {
            queue = try DatabaseQueue(path: path, configuration: configuration)
            var migrator = DatabaseMigrator()
            migrator.registerMigration("records") { database in
                try database.execute(
                    sql: """
                        CREATE TABLE record (
                            key BLOB PRIMARY KEY, packet BLOB NOT NULL, time INTEGER NOT NULL, seen INTEGER NOT NULL
                        ) STRICT, WITHOUT ROWID;
                        CREATE INDEX record_seen ON record (seen);
                        """)
            }
            migrator.registerMigration("networks") { database in
                try database.execute(sql: "ALTER TABLE record ADD COLUMN network INTEGER NOT NULL DEFAULT 0")
            }
            if try queue.read({ try migrator.hasBeenSuperseded($0) }) {
                throw KithError(.corrupt, "\(path) was written by a later version of Kith. Update this one.")
            }
            try migrator.migrate(queue)
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.failure("opened", path, error)
        }
    }

    /// Reads every record that was heard of after `since`, and deletes the others.
    func records(since: Int64) throws(KithError) -> [(record: SignedRecord, network: RecordNetwork, seen: Int64)] {
        do {
            return try queue.write { database in
                try database.execute(sql: "DELETE FROM record WHERE seen <= ?", arguments: [since])
                var records: [(record: SignedRecord, network: RecordNetwork, seen: Int64)] = []
                records.reserveCapacity(try Int.fetchOne(database, sql: "SELECT count(*) FROM record") ?? 0)
                let rows = try Row.fetchCursor(database, sql: "SELECT key, packet, seen, network FROM record")
                while let row = try rows.next() {
                    let (key, packet, seen): (Data, Data, Int64) = (row[0], row[1], row[2])
                    let record = try SignedRecord(
                        unverified: DeviceID(publicKey: [UInt8](key)), body: [UInt8](packet))
                    records.append((record, RecordNetwork(value: UInt64(bitPattern: row[3] as Int64)), seen))
                }
                return records
            }
        } catch {
            throw Self.failure("read", path, error)
        }
    }

    /// A change of the table.
    enum Change {
        case put(SignedRecord, from: RecordNetwork, seen: Int64)
        case repeated(DeviceID, seen: Int64)
        case delete(DeviceID)
    }

    /// Makes all changes, or none.
    func apply(_ changes: [Change]) throws(KithError) {
        do {
            try queue.write { database in
                for change in changes {
                    switch change {
                    case .put(let record, let network, let seen):
                        try database.cachedStatement(
                            sql:
                                "INSERT OR REPLACE INTO record (key, packet, time, seen, network) VALUES (?, ?, ?, ?, ?)"
                        ).execute(arguments: [
                            Data(record.device.bytes), Data(record.body), Int64(bitPattern: record.time), seen,
                            Int64(bitPattern: network.value),
                        ])
                    case .repeated(let device, let seen):
                        try database.cachedStatement(sql: "UPDATE record SET seen = ? WHERE key = ?")
                            .execute(arguments: [seen, Data(device.bytes)])
                    case .delete(let device):
                        try database.cachedStatement(sql: "DELETE FROM record WHERE key = ?")
                            .execute(arguments: [Data(device.bytes)])
                    }
                }
            }
        } catch {
            throw Self.failure("written", path, error)
        }
    }

    /// Closes the file; nothing may be called after it.
    func close() throws(KithError) {
        do {
            try queue.close()
        } catch {
            throw Self.failure("closed", path, error)
        }
    }

    private static func failure(_ what: String, _ path: String, _ error: any Error) -> KithError {
        switch (error as? DatabaseError)?.resultCode {
        case .SQLITE_BUSY?, .SQLITE_LOCKED?:
            KithError(
                .conflict, "\(path) is in use by another directory. Stop that, or choose another folder with --data.",
                cause: error)
        case .SQLITE_FULL?:
            KithError(.exhausted, "\(path) could not be \(what): the disk is full.", cause: error)
        case .SQLITE_READONLY?, .SQLITE_PERM?, .SQLITE_CANTOPEN?:
            KithError(
                .denied, "\(path) cannot be \(what): see to its permissions and those of its folder.", cause: error)
        case .SQLITE_CORRUPT?, .SQLITE_NOTADB?:
            KithError(
                .corrupt,
                "\(path) is damaged. Move it away and start again: devices repeat their records within minutes.",
                cause: error)
        default:
            error is WireError || error is KithError
                ? KithError(.corrupt, "\(path) holds what is no record. Move it away and start again.", cause: error)
                : KithError(.internal, "\(path) could not be \(what): \(error).", cause: error)
        }
    }
}
