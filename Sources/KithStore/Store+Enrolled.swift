import Foundation
import GRDB
public import KithIdentity
public import KithWire

/// The treatment of devices under the root that is pinned, with which nobody has paired this one.
public struct EnrolledAdmission: Hashable, Sendable {
    /// True when they become known by showing their certificates.
    public var isOn: Bool
    /// The grants that each gets when it becomes known.
    public var grants: [Grant]

    /// Describes a treatment; as a rule they become known, and may do nothing.
    public init(isOn: Bool = true, grants: [Grant] = []) {
        self.isOn = isOn
        self.grants = grants
    }
}

/// A certificate that was checked: it holds now, for the device that presented it, under the root that is pinned.
public struct CheckedCertificate: Hashable, Sendable {
    /// The certificate, DER.
    public var certificate: [UInt8]
    /// The root's certificate, DER.
    public var root: [UInt8]
    /// The time until which both hold, in seconds since 1970.
    public var until: Int64

    /// Describes a certificate.
    public init(certificate: [UInt8], root: [UInt8], until: Int64) {
        self.certificate = certificate
        self.root = root
        self.until = until
    }
}

extension Store {
    /// Who decided that a device becomes known by its certificate.
    @frozen
    public enum Introducer: Hashable, Sendable {
        /// This device's person, who named it.
        case person
        /// The device itself, which showed its certificate.
        case device
    }

    /// Adds a device by its certificate, or notes that the certificate by which it is known holds longer.
    ///
    /// A new one gets the grants of `device`; one that is known keeps its name and its grants, and one that people paired
    /// stays so.
    ///
    /// - Throws: `KithError` `.denied` for one that was revoked, or that this device's person has forgotten, unless that
    ///   very person asks for it; `.conflict` when another root is pinned meanwhile; `.timedOut` for a certificate that is
    ///   over.
    public func addEnrolled(
        _ device: PairedDevice, _ checked: CheckedCertificate, by introducer: Introducer, now: Int64
    ) throws(KithError) -> PairedDevice {
        try granting("add a device by its certificate") { database in
            let key = Data(device.id.bytes)
            guard try Data.fetchOne(database, sql: "SELECT root FROM trust") == Data(checked.root) else {
                throw KithError(.conflict, "This device is under another root now. Try again.")
            }
            guard checked.until > now else {
                throw KithError(.timedOut, "The certificate of \(device.id.short) is over.")
            }
            try Self.refuseRevoked(device.id, database)
            let isForgotten = try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM forgotten_devices WHERE device = ?)", arguments: [key])
            guard isForgotten == false || introducer == .person else {
                throw KithError(.denied, "The device \(device.id.short) was forgotten here.")
            }
            let stored = StoredCertificate(device: device.id, certificate: checked.certificate)
            if let known = try Self.find(device.id, database) {
                try Self.write(presented: stored, until: checked.until, now: now, database)
                if !device.addresses.isEmpty {
                    var book = try Self.book(device.id, database)
                    book.announced(device.addresses, at: now)
                    try Self.write(book, of: device.id, database)
                }
                return try Self.find(device.id, database) ?? known
            }
            _ = try Self.insert(device, database)
            try database.execute(sql: "INSERT INTO enrolled_devices VALUES (?, ?)", arguments: [key, checked.until])
            try Self.write(presented: stored, until: checked.until, now: now, database)
            let added = try Self.find(device.id, database) ?? device
            let grants = added.grants.map(\.description).joined(separator: " ")
            try Self.record(
                AuditEntry(
                    time: now, device: added.name, method: "trust.introduce", decision: .allowed,
                    detail:
                        "\(added.id.short) is known by its certificate; it may do \(grants.isEmpty ? "nothing" : grants)"
                ),
                database)
            return added
        }
    }

    /// Forgets all devices that are known by certificates alone, and returns them.
    static func endEnrolled(_ database: Database, now: Int64) throws -> [PairedDevice] {
        let keys = try Data.fetchAll(database, sql: "SELECT device FROM enrolled_devices")
        let ended = try keys.compactMap { try find(DeviceID(publicKey: Array($0)), database) }
        for device in ended {
            try database.execute(sql: "DELETE FROM devices WHERE id = ?", arguments: [Data(device.id.bytes)])
            try record(
                AuditEntry(
                    time: now, device: device.name, method: "trust.enrol", decision: .denied,
                    detail: "its certificate is under the root before"), database)
        }
        if !ended.isEmpty { try forgetRoots(database) }
        return ended
    }

    // MARK: - What they may do

    private static let admission = "enrolled"

    /// The treatment of devices under this one's root.
    ///
    /// - Throws: `KithError` `.corrupt` when it cannot be read.
    public func enrolledAdmission() throws(KithError) -> EnrolledAdmission {
        try transaction("read a setting") { database in
            guard let text = try Self.admissionText(database) else { return EnrolledAdmission() }
            let lines = text.split(separator: "\n").map(String.init)
            guard let first = lines.first, ["on", "off"].contains(first) else {
                throw KithError(.corrupt, "The store holds an unknown treatment of devices under your root.")
            }
            return EnrolledAdmission(
                isOn: first == "on",
                grants: try lines.dropFirst().map { line in
                    guard let grant = Grant(line) else {
                        throw KithError(.corrupt, "The store holds an unknown grant: \(line).")
                    }
                    return grant
                })
        }
    }

    /// Changes the treatment of devices under this one's root, of those that become known from now on.
    public func setEnrolledAdmission(_ admission: EnrolledAdmission) throws(KithError) {
        try granting("store a setting") { database in
            try Self.resolveRoots(of: admission.grants, database)
            let lines = [admission.isOn ? "on" : "off"] + Set(admission.grants.map(\.description)).sorted()
            try database.execute(
                sql: "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                arguments: [Self.admission, lines.joined(separator: "\n")])
            try Self.forgetRoots(database)
        }
    }

    static func admissionText(_ database: Database) throws -> String? {
        try String.fetchOne(database, sql: "SELECT value FROM settings WHERE name = ?", arguments: [admission])
    }

    static func registerEnrolled(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("enrolled devices") { database in
            try database.execute(
                sql: """
                    CREATE TABLE enrolled_devices (
                        device BLOB PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE,
                        until INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE forgotten_devices (
                        device BLOB PRIMARY KEY CHECK (length(device) = 32)
                    ) STRICT, WITHOUT ROWID;
                    """)
            // Who was forgotten before was not noted: whoever has shown a certificate and is not paired any more was.
            try database.execute(
                sql: """
                    INSERT INTO forgotten_devices
                    SELECT device FROM trust_certificates WHERE device NOT IN (SELECT id FROM devices)
                    """)
        }
    }
}
