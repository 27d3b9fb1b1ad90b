import Foundation
import GRDB
public import KithIdentity
public import KithWire

/// The root that a device pins, and its own certificate under it.
public struct PinnedTrust: Hashable, Sendable {
    /// The root's certificate, DER.
    public var root: [UInt8]
    /// The device's own certificate, DER.
    public var certificate: [UInt8]
    /// The device that issued it.
    public var holder: DeviceID

    /// Describes what is pinned.
    public init(root: [UInt8], certificate: [UInt8], holder: DeviceID) {
        self.root = root
        self.certificate = certificate
        self.holder = holder
    }
}

/// A certificate that this device issued, or that another one presented.
public struct StoredCertificate: Hashable, Sendable {
    /// The device it is for.
    public var device: DeviceID
    /// The certificate, DER.
    public var certificate: [UInt8]
    /// The agreement key of the device, 65 bytes; empty for one that was only presented.
    public var agreement: [UInt8]

    /// Describes a certificate.
    public init(device: DeviceID, certificate: [UInt8], agreement: [UInt8] = []) {
        self.device = device
        self.certificate = certificate
        self.agreement = agreement
    }
}

/// A list of revoked devices that was checked, to be stored.
public struct StoredRevocations: Hashable, Sendable {
    /// Its number.
    public var number: UInt64
    /// The list as it is signed.
    public var list: [UInt8]
    /// The devices on it.
    public var devices: [DeviceID]

    /// Describes a list.
    public init(number: UInt64, list: [UInt8], devices: [DeviceID]) {
        self.number = number
        self.list = list
        self.devices = devices
    }
}

extension Store {
    /// The most devices whose certificates are kept; the one heard of longest ago goes first.
    public static let certificateLimit = 1_000

    /// What this device pins; `nil` while it pins no root.
    public func trust() throws(KithError) -> PinnedTrust? {
        try transaction("look up the pinned root") { database in
            try Row.fetchOne(database, sql: "SELECT * FROM trust").map { row in
                PinnedTrust(
                    root: Array(row["root"] as Data), certificate: Array(row["certificate"] as Data),
                    holder: try DeviceID(publicKey: Array(row["holder"] as Data)))
            }
        }
    }

    /// Pins a root with this device's certificate under it, all or nothing.
    ///
    /// The certificates and revocations of another root that was pinned before are forgotten, unless `keepsOthers`, and
    /// so are the devices that were known by those certificates alone; returns these.
    public func pin(_ trust: PinnedTrust, keepsOthers: Bool, now: Int64) throws(KithError) -> [PairedDevice] {
        try granting("pin a root") { database in
            var ended: [PairedDevice] = []
            if !keepsOthers {
                ended = try Self.endEnrolled(database, now: now)
                for table in ["trust_certificates", "trust_revocations", "trust_revoked"] {
                    try database.execute(sql: "DELETE FROM \(table)")
                }
            }
            try database.execute(
                sql: "INSERT OR REPLACE INTO trust VALUES (1, ?, ?, ?, ?)",
                arguments: [Data(trust.root), Data(trust.certificate), Data(trust.holder.bytes), now])
            return ended
        }
    }

    /// Replaces this device's own certificate under the root that is pinned.
    public func setOwnCertificate(_ certificate: [UInt8], by holder: DeviceID) throws(KithError) {
        try transaction("store a certificate") { database in
            try database.execute(
                sql: "UPDATE trust SET certificate = ?, holder = ?",
                arguments: [Data(certificate), Data(holder.bytes)])
        }
    }

    /// Remembers a certificate that this device issues, and that the request it answers is used up.
    ///
    /// - Throws: `KithError` `.conflict` when a certificate was issued for that request before.
    public func addIssued(
        _ certificate: StoredCertificate, for nonce: [UInt8], until expiry: Int64, now: Int64
    ) throws(KithError) {
        try transaction("store a certificate that is issued") { database in
            try database.execute(sql: "DELETE FROM trust_nonces WHERE expires_at < ?", arguments: [now])
            try database.execute(
                sql: "INSERT OR IGNORE INTO trust_nonces VALUES (?, ?)", arguments: [Data(nonce), expiry])
            guard database.changesCount == 1 else {
                throw KithError(
                    .conflict, "A certificate was issued for that request already: each is good for one. Begin again.")
            }
            try Self.write(certificate, isIssued: true, now: now, database)
        }
    }

    /// Remembers a certificate that its device presented, once it was checked, and that it holds until a time.
    public func setPresented(_ certificate: StoredCertificate, until: Int64, now: Int64) throws(KithError) {
        try transaction("store a certificate that was presented") { database in
            try Self.write(presented: certificate, until: until, now: now, database)
        }
    }

    static func write(
        presented certificate: StoredCertificate, until: Int64, now: Int64, _ database: Database
    ) throws {
        try database.execute(
            sql: "UPDATE enrolled_devices SET until = ?1 WHERE device = ?2 AND until < ?1",
            arguments: [until, Data(certificate.device.bytes)])
        let known = try Data.fetchOne(
            database, sql: "SELECT certificate FROM trust_certificates WHERE device = ?",
            arguments: [Data(certificate.device.bytes)])
        guard known != Data(certificate.certificate) else { return }
        try write(certificate, isIssued: false, now: now, database)
    }

    private static func write(
        _ certificate: StoredCertificate, isIssued: Bool, now: Int64, _ database: Database
    ) throws {
        let key = Data(certificate.device.bytes)
        // What was issued here stays issued here, whatever the device presents later.
        try database.execute(
            sql: """
                INSERT INTO trust_certificates VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (device) DO UPDATE SET certificate = ?2, stored_at = ?5,
                    agreement = CASE WHEN ?4 THEN ?3 ELSE agreement END, is_issued = max(is_issued, ?4)
                """,
            arguments: [key, Data(certificate.certificate), Data(certificate.agreement), isIssued, now])
        try database.execute(
            sql: """
                DELETE FROM trust_certificates WHERE device IN
                    (SELECT device FROM trust_certificates ORDER BY stored_at DESC LIMIT -1 OFFSET ?)
                """,
            arguments: [certificateLimit])
    }

    /// The certificates of other devices under the root that is pinned; those that this one issued, or all.
    public func certificates(issuedHere: Bool) throws(KithError) -> [StoredCertificate] {
        try transaction("list the certificates") { database in
            try Row.fetchAll(
                database, sql: "SELECT * FROM trust_certificates WHERE is_issued >= ? ORDER BY device",
                arguments: [issuedHere]
            ).map { row in
                StoredCertificate(
                    device: try DeviceID(publicKey: Array(row["device"] as Data)),
                    certificate: Array(row["certificate"] as Data), agreement: Array(row["agreement"] as Data))
            }
        }
    }

    /// The revocation list; `nil` while there is none.
    public func revocations() throws(KithError) -> [UInt8]? {
        try transaction("look up the revocation list") { database in
            try Data.fetchOne(database, sql: "SELECT list FROM trust_revocations").map { Array($0) }
        }
    }

    /// Stores a revocation list, and ends the pairings with the devices on it; returns those that were paired.
    ///
    /// - Throws: `KithError` `.conflict` when a list with a number as great is stored already; nothing changes then.
    public func setRevocations(_ revocations: StoredRevocations, now: Int64) throws(KithError) -> [PairedDevice] {
        guard let number = Int64(exactly: revocations.number) else {
            throw KithError(.corrupt, "The number of a revocation list is too great.")
        }
        return try granting("store the revocation list") { database in
            let known = try Int64.fetchOne(database, sql: "SELECT number FROM trust_revocations")
            guard known.map({ $0 < number }) ?? true else {
                throw KithError(.conflict, "A revocation list as new is here already.")
            }
            try database.execute(sql: "DELETE FROM trust_revocations")
            try database.execute(
                sql: "INSERT INTO trust_revocations VALUES (?, ?)", arguments: [number, Data(revocations.list)])
            try database.execute(sql: "DELETE FROM trust_revoked")
            var ended: [PairedDevice] = []
            for device in revocations.devices {
                let key = Data(device.bytes)
                try database.execute(sql: "INSERT INTO trust_revoked VALUES (?)", arguments: [key])
                guard let paired = try Self.find(device, database) else { continue }
                try database.execute(sql: "DELETE FROM devices WHERE id = ?", arguments: [key])
                try Self.record(
                    AuditEntry(
                        time: now, device: paired.name, method: "trust.revoke", decision: .denied,
                        detail: "revoked by the root, list \(number)"), database)
                ended.append(paired)
            }
            try Self.forgetRoots(database)
            return ended
        }
    }

    /// Refuses a device that the root has revoked.
    static func refuseRevoked(_ id: DeviceID, _ database: Database) throws {
        let isRevoked = try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM trust_revoked WHERE device = ?)", arguments: [Data(id.bytes)])
        guard isRevoked == true else { return }
        throw KithError(
            .denied,
            "The device \(id.short) was revoked by your root key for good. With a new key it can be paired again.")
    }

    static func registerTrust(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("trust") { database in
            try database.execute(
                sql: """
                    CREATE TABLE trust (
                        number INTEGER PRIMARY KEY CHECK (number = 1),
                        root BLOB NOT NULL,
                        certificate BLOB NOT NULL,
                        holder BLOB NOT NULL CHECK (length(holder) = 32),
                        pinned_at INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE trust_certificates (
                        device BLOB PRIMARY KEY CHECK (length(device) = 32),
                        certificate BLOB NOT NULL,
                        agreement BLOB NOT NULL,
                        is_issued INTEGER NOT NULL,
                        stored_at INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE trust_nonces (
                        nonce BLOB PRIMARY KEY CHECK (length(nonce) = 16),
                        expires_at INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE trust_revocations (number INTEGER NOT NULL, list BLOB NOT NULL) STRICT;
                    CREATE TABLE trust_revoked (
                        device BLOB PRIMARY KEY CHECK (length(device) = 32)
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
    }
}
