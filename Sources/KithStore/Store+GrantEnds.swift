import Foundation
import GRDB
public import KithIdentity
public import KithWire

extension Store {
    static func registerGrantEnds(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("grant ends") { database in
            try database.execute(
                sql: """
                    CREATE TABLE grant_ends (
                        device BLOB NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
                        grant_text TEXT NOT NULL,
                        ends INTEGER NOT NULL,
                        PRIMARY KEY (device, grant_text)
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
    }

    /// Takes away the grants whose time is over at `now`, in seconds since 1970.
    ///
    /// - Returns: the devices that had them, each with those that it lost.
    public func endGrants(now: Int64) throws(KithError) -> [(device: PairedDevice, lost: [Grant])] {
        // As a rule there are none, and the disk is left alone.
        guard let next = try nextGrantEnd(), next <= now else { return [] }
        return try granting("end grants") { database in
            try Row.fetchAll(database, sql: "SELECT DISTINCT device FROM grant_ends WHERE ends <= ?", arguments: [now])
                .compactMap { row in
                    let key: Data = row["device"]
                    let id = try DeviceID(publicKey: Array(key))
                    guard let device = try Self.find(id, database) else { return nil }
                    let lost = device.grants.filter { device.grantEnds[$0].map { $0 <= now } ?? false }
                    try Self.write(device.grants.filter { !lost.contains($0) }, of: id, database)
                    return (device, lost)
                }
        }
    }

    /// The time at which the next grant ends, in seconds since 1970; `nil` when none does.
    public func nextGrantEnd() throws(KithError) -> Int64? {
        try transaction("look for the end of a grant") { database in
            try Int64.fetchOne(database, sql: "SELECT min(ends) FROM grant_ends")
        }
    }

    /// Notes when grants that a device has end; `nil`: never.
    static func write(
        end: Int64?, of grants: [Grant], _ id: DeviceID, _ database: Database
    ) throws {
        for grant in grants {
            try database.execute(
                sql: end == nil
                    ? "DELETE FROM grant_ends WHERE device = ? AND grant_text = ?"
                    : "INSERT OR REPLACE INTO grant_ends VALUES (?, ?, ?)",
                arguments: end.map { [Data(id.bytes), grant.description, $0] } ?? [Data(id.bytes), grant.description])
        }
    }

    /// Forgets the ends of grants that a device does not have any more.
    static func forgetEnds(_ id: DeviceID, _ database: Database) throws {
        try database.execute(
            sql: """
                DELETE FROM grant_ends WHERE device = ?1
                    AND grant_text NOT IN (SELECT grant_text FROM grants WHERE device = ?1)
                """, arguments: [Data(id.bytes)])
    }

    /// Puts the ends of its grants into the record of a device.
    static func addGrantEnds(to device: inout PairedDevice, _ database: Database) throws {
        let rows = try Row.fetchAll(
            database, sql: "SELECT grant_text, ends FROM grant_ends WHERE device = ?",
            arguments: [Data(device.id.bytes)])
        for row in rows {
            guard let grant = Grant(row["grant_text"]) else { continue }
            device.grantEnds[grant] = row["ends"]
        }
    }
}
