import Foundation
import GRDB
import KithIdentity
public import KithWire

extension Store {
    /// How many invitations may wait at once.
    public static let invitationLimit = 100

    /// Remembers an invitation; expired ones are cleared away on the occasion.
    ///
    /// - Throws: `KithError` `.exhausted` when ``invitationLimit`` wait already.
    public func add(_ invitation: InvitationRecord, now: Int64) throws(KithError) {
        try granting("store an invitation") { database in
            try database.execute(
                sql: "DELETE FROM invitations WHERE expires_at < ?", arguments: [now - 86_400])
            let waiting =
                try Int.fetchOne(
                    database, sql: "SELECT count(*) FROM invitations WHERE used_at IS NULL AND expires_at > ?",
                    arguments: [now]) ?? 0
            guard waiting < Self.invitationLimit else {
                throw KithError(.exhausted, "\(waiting) invitations wait already. `kith invite --list` shows them.")
            }
            try Self.resolveRoots(of: invitation.grants, database)
            try database.execute(
                sql: "INSERT INTO invitations VALUES (?, ?, ?, ?, ?, NULL, NULL)",
                arguments: [
                    invitation.id, Data(invitation.proofKey),
                    invitation.grants.map(\.description).joined(separator: "\n"), invitation.expiresAt,
                    invitation.isAutomatic,
                ])
        }
    }

    /// The invitations that can still be used, the next to expire first.
    public func invitations(now: Int64) throws(KithError) -> [InvitationRecord] {
        try transaction("list the invitations") { database in
            try Row.fetchAll(
                database,
                sql: "SELECT * FROM invitations WHERE used_at IS NULL AND expires_at > ? ORDER BY expires_at",
                arguments: [now]
            ).map(Self.invitation)
        }
    }

    /// An invitation that can be used now.
    ///
    /// - Throws: `KithError` `.unpaired` when it is unknown or used, or has expired.
    public func usableInvitation(_ id: String, now: Int64) throws(KithError) -> InvitationRecord {
        try transaction("look up an invitation") { database in try Self.usable(id, now: now, database) }
    }

    /// Takes an invitation back; whether there was one to take.
    public func revokeInvitation(_ id: String) throws(KithError) -> Bool {
        try granting("take an invitation back") { database in
            try database.execute(
                sql: "DELETE FROM invitations WHERE id = ? AND used_at IS NULL", arguments: [id])
            let isTaken = database.changesCount == 1
            try Self.forgetRoots(database)
            return isTaken
        }
    }

    /// Uses an invitation up and adds the device that used it, both or neither.
    ///
    /// One that is paired already keeps its grants, and gets those of `device` besides.
    ///
    /// - Throws: `KithError` `.unpaired` when it cannot be used any more.
    public func pair(_ device: PairedDevice, invitation id: String, now: Int64) throws(KithError) -> PairedDevice {
        try granting("pair a device") { database in
            _ = try Self.usable(id, now: now, database)
            // What proved the secret is worth nothing any more: it goes, the fact of the use stays.
            try database.execute(
                sql: "UPDATE invitations SET used_at = ?, used_by = ?, proof_key = NULL WHERE id = ?",
                arguments: [now, Data(device.id.bytes), id])
            return try Self.insert(device, database)
        }
    }

    private static func usable(_ id: String, now: Int64, _ database: Database) throws -> InvitationRecord {
        guard
            let row = try Row.fetchOne(
                database, sql: "SELECT * FROM invitations WHERE id = ? AND used_at IS NULL", arguments: [id])
        else { throw Pairing.refused }
        let invitation = try invitation(row)
        guard invitation.expiresAt > now else {
            throw KithError(.unpaired, "That invitation has expired. Ask for a new one.")
        }
        return invitation
    }

    private static func invitation(_ row: Row) throws -> InvitationRecord {
        let proofKey: Data = row["proof_key"]
        let grants: String = row["grants"]
        return InvitationRecord(
            id: row["id"], proofKey: Array(proofKey),
            grants: try grants.split(separator: "\n").map { text in
                guard let grant = Grant(String(text)) else {
                    throw KithError(.corrupt, "The store holds an unknown grant: \(text).")
                }
                return grant
            },
            expiresAt: row["expires_at"], isAutomatic: row["is_automatic"])
    }
}
