import Foundation
import GRDB
public import KithIdentity
public import KithWire

extension Store {
    /// The most labels of a device.
    public static let labelLimit = 16

    static func registerLabels(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("labels") { database in
            try database.execute(
                sql: """
                    CREATE TABLE device_labels (
                        device BLOB NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
                        folded TEXT NOT NULL,
                        label TEXT NOT NULL,
                        PRIMARY KEY (device, folded)
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE favorite_devices (
                        device BLOB PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
    }

    /// Gives a device labels, takes some away, and has it come first in lists or not; all of it or, when anything is
    /// refused, nothing.
    ///
    /// Labels that differ in case alone are one; the first spelling stays. Without `isFavorite` it is as before.
    ///
    /// - Throws: `KithError` `.invalid` for what is no label, `.exhausted` for more than ``labelLimit``, `.notFound` when
    ///   the device is not paired, or has none of those to take away.
    public func label(
        _ id: DeviceID, add: [String], remove: [String], isFavorite: Bool?
    ) throws(KithError) {
        try transaction("label a device") { database in
            guard let device = try Self.find(id, database) else { throw Self.notPaired }
            for label in add where DeviceName.plain(label) != label {
                throw KithError(.invalid, "A label has 1 to 63 letters, digits, hyphens, underscores or dots.")
            }
            if let label = add.first(where: { Set(remove.map(Self.folded)).contains(Self.folded($0)) }) {
                throw KithError(.invalid, "\(label) is to be given and taken away at once.")
            }
            for label in remove {
                try database.execute(
                    sql: "DELETE FROM device_labels WHERE device = ? AND folded = ?",
                    arguments: [Data(id.bytes), Self.folded(label)])
                guard database.changesCount == 1 else {
                    let held = device.labels.joined(separator: ", ")
                    throw KithError(
                        .notFound,
                        "\(device.name) has no label \(label.prefix(64)); it has \(held.isEmpty ? "none" : held).")
                }
            }
            for label in add { try Self.write(label, of: id, database) }
            let count = try Int.fetchOne(
                database, sql: "SELECT count(*) FROM device_labels WHERE device = ?", arguments: [Data(id.bytes)])
            guard count ?? 0 <= Self.labelLimit else {
                throw KithError(.exhausted, "A device has at most \(Self.labelLimit) labels.")
            }
            if let isFavorite { try Self.write(isFavorite: isFavorite, of: id, database) }
        }
    }

    static func write(_ label: String, of id: DeviceID, _ database: Database) throws {
        try database.execute(
            sql: "INSERT OR IGNORE INTO device_labels VALUES (?, ?, ?)",
            arguments: [Data(id.bytes), folded(label), label])
    }

    private static func folded(_ label: String) -> String { label.lowercased() }

    static func write(isFavorite: Bool, of id: DeviceID, _ database: Database) throws {
        try database.execute(
            sql: isFavorite
                ? "INSERT OR IGNORE INTO favorite_devices VALUES (?)" : "DELETE FROM favorite_devices WHERE device = ?",
            arguments: [Data(id.bytes)])
    }

    /// Puts the labels of a device, and whether it is a favorite, into its record.
    static func addLabels(to device: inout PairedDevice, _ database: Database) throws {
        let key = Data(device.id.bytes)
        device.labels = try String.fetchAll(
            database, sql: "SELECT label FROM device_labels WHERE device = ? ORDER BY folded", arguments: [key])
        device.isFavorite =
            try Int.fetchOne(database, sql: "SELECT 1 FROM favorite_devices WHERE device = ?", arguments: [key]) != nil
    }
}
