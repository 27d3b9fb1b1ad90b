import Foundation
import GRDB
public import KithIdentity
public import KithWire

extension Store {
    /// The number of invitations that may wait at once.
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
                    database,
                    sql: """
                        SELECT count(*) FROM invitations
                        WHERE used_at IS NULL AND proof_key IS NOT NULL AND expires_at > ?
                        """,
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

    /// The invitations that can still be used, and those that could if their attempts were not used up; the next to
    /// expire first.
    public func invitations(now: Int64) throws(KithError) -> [InvitationRecord] {
        try transaction("list the invitations") { database in
            try Row.fetchAll(
                database,
                sql: "SELECT * FROM invitations WHERE used_at IS NULL AND expires_at > ? ORDER BY expires_at",
                arguments: [now]
            ).map { try Self.invitation($0, database) }
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
    /// `attempt` is the number that ``beginAttempt(by:from:at:now:)`` gave. A device that is paired already keeps its
    /// grants, and gets those of `device` besides.
    ///
    /// - Throws: `KithError` `.unpaired` when the invitation cannot be used any more.
    public func pair(
        _ device: PairedDevice, invitation id: String, attempt: Int64, now: Int64
    ) throws(KithError) -> PairedDevice {
        try granting("pair a device") { database in
            _ = try Self.unused(id, now: now, database)
            try database.execute(
                sql: """
                    UPDATE pairing_attempts SET ending = ?
                    WHERE number = ? AND invitation = ? AND device = ? AND NOT is_joining AND ending IS NULL
                    """,
                arguments: [Self.paired, attempt, id, Data(device.id.bytes)])
            guard database.changesCount == 1 else { throw Pairing.refused }
            // What proved the secret is worth nothing any more: it goes, the fact of the use stays.
            try database.execute(
                sql: "UPDATE invitations SET used_at = ?, used_by = ?, proof_key = NULL WHERE id = ?",
                arguments: [now, Data(device.id.bytes), id])
            let device = try Self.insert(device, database)
            try Self.record(
                AuditEntry(
                    time: now, device: device.name, method: Self.method, decision: .allowed,
                    detail: "paired by invitation \(id)"),
                database)
            return device
        }
    }

    /// An invitation that was not used, taken back or forgotten, and has not expired.
    private static func unused(_ id: String, now: Int64, _ database: Database) throws -> InvitationRecord {
        guard
            let row = try Row.fetchOne(
                database, sql: "SELECT * FROM invitations WHERE id = ? AND used_at IS NULL", arguments: [id])
        else { throw Pairing.refused }
        let invitation = try invitation(row, database)
        guard invitation.expiresAt > now else {
            throw KithError(.unpaired, "That invitation has expired. Ask for a new one.")
        }
        return invitation
    }

    private static func usable(_ id: String, now: Int64, _ database: Database) throws -> InvitationRecord {
        let invitation = try unused(id, now: now, database)
        guard !invitation.proofKey.isEmpty else {
            throw KithError(
                .unpaired,
                """
                That invitation is no longer valid: \(Pairing.attemptLimit) attempts to pair by it came to nothing. Ask \
                for a new one, and get it another way if those attempts were not yours.
                """)
        }
        return invitation
    }

    private static func invitation(_ row: Row, _ database: Database) throws -> InvitationRecord {
        let proofKey: Data? = row["proof_key"]
        let grants: String = row["grants"]
        let id: String = row["id"]
        return InvitationRecord(
            id: id, proofKey: Array(proofKey ?? Data()),
            grants: try grants.split(separator: "\n").map { text in
                guard let grant = Grant(String(text)) else {
                    throw KithError(.corrupt, "The store holds an unknown grant: \(text).")
                }
                return grant
            },
            expiresAt: row["expires_at"], isAutomatic: row["is_automatic"],
            attemptsLeft: proofKey == nil ? 0 : max(0, Pairing.attemptLimit - (try attempts(by: id, database))))
    }
}

// MARK: - Attempts

extension Store {
    /// The number of attempts by all invitations together that may fail in an hour.
    public static let attemptsPerHour = 12

    private static let paired = "paired"

    /// Counts an attempt to pair by an invitation, on the disk before its challenge is sent.
    ///
    /// The last one that an invitation allows takes its proof key away: whatever becomes of that attempt, and of this
    /// process, there is no further one.
    ///
    /// - Throws: `KithError` `.unpaired` when the invitation cannot be used, `.exhausted` when too many attempts have
    ///   come to nothing within an hour.
    public func beginAttempt(
        by id: String, from device: DeviceID, at address: String, now: Int64
    ) throws(KithError) -> (number: Int64, attempts: Pairing.Attempts) {
        try transaction("count an attempt to pair") { database in
            _ = try Self.usable(id, now: now, database)
            // Those of a clock that was wrong do not count.
            let recent =
                try Int.fetchOne(
                    database,
                    sql: """
                        SELECT count(*) FROM pairing_attempts
                        WHERE NOT is_joining AND ending IS NOT ? AND began_at > ? AND began_at < ?
                        """,
                    arguments: [Self.paired, now - 3_600, now + 3_600]) ?? 0
            guard recent < Self.attemptsPerHour else {
                throw KithError(
                    .exhausted,
                    "\(recent) attempts to pair with this device came to nothing within an hour. Try again in an hour.")
            }
            let earlier = try Self.attempts(by: id, database)
            let byOthers = try Self.attempts(by: id, notBy: device, database)
            try database.execute(
                sql: """
                    INSERT INTO pairing_attempts (invitation, is_joining, device, address, began_at)
                    VALUES (?, FALSE, ?, ?, ?)
                    """,
                arguments: [id, Data(device.bytes), address, now])
            let number = database.lastInsertedRowID
            let left = Pairing.attemptLimit - earlier - 1
            if left <= 0 {
                try database.execute(sql: "UPDATE invitations SET proof_key = NULL WHERE id = ?", arguments: [id])
            }
            try Self.forgetOldAttempts(now: now, database)
            try Self.record(
                AuditEntry(
                    time: now, device: device.description, method: Self.method, decision: .allowed,
                    detail: "attempt \(earlier + 1) of \(Pairing.attemptLimit) by invitation \(id)"
                        + (address.isEmpty ? "" : ", from \(address)")),
                database)
            return (number, Pairing.Attempts(earlier: earlier, byOthers: byOthers, left: max(0, left)))
        }
    }

    /// Notes how an attempt came to nothing; `burning` takes its invitation's remaining attempts away as well.
    ///
    /// Returns how many more attempts may be made by the invitation.
    public func endAttempt(
        _ number: Int64, _ ending: String, burning: Bool = false, now: Int64
    ) throws(KithError) -> Int {
        try transaction("note how an attempt to pair ended") { database in
            guard
                let row = try Row.fetchOne(
                    database,
                    sql: """
                        UPDATE pairing_attempts SET ending = ? WHERE number = ? AND ending IS NULL
                        RETURNING invitation, device
                        """,
                    arguments: [ending, number])
            else { return 0 }
            let id: String = row["invitation"]
            let device: Data = row["device"]
            if burning {
                try database.execute(
                    sql: "UPDATE invitations SET proof_key = NULL WHERE id = ? AND used_at IS NULL", arguments: [id])
            }
            try Self.record(
                AuditEntry(
                    time: now, device: try DeviceID(publicKey: Array(device)).description, method: Self.method,
                    decision: .denied, detail: "not paired by invitation \(id): \(ending)"),
                database)
            let left = try Row.fetchOne(
                database, sql: "SELECT * FROM invitations WHERE id = ? AND used_at IS NULL AND expires_at > ?",
                arguments: [id, now])
            return try left.map { try Self.invitation($0, database).attemptsLeft } ?? 0
        }
    }

    /// The attempts of the last week that came to nothing, the newest first, 100 at the most.
    ///
    /// Those that a pairing of the same device by the same invitation followed are left out: a person has seen its code.
    public func failedAttempts(now: Int64) throws(KithError) -> [PairingAttempt] {
        try transaction("list the attempts to pair") { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT * FROM pairing_attempts AS failed
                    WHERE NOT is_joining AND ending IS NOT :paired AND began_at > :begin AND NOT EXISTS (
                        SELECT 1 FROM pairing_attempts AS later
                        WHERE later.invitation = failed.invitation AND later.device = failed.device
                            AND NOT later.is_joining AND later.ending = :paired)
                    ORDER BY number DESC LIMIT 100
                    """,
                arguments: ["paired": Self.paired, "begin": now - 604_800]
            ).map { row in
                let device: Data = row["device"]
                return PairingAttempt(
                    number: row["number"], invitation: row["invitation"],
                    device: try DeviceID(publicKey: Array(device)), address: row["address"], beganAt: row["began_at"],
                    ending: row["ending"])
            }
        }
    }

    /// Counts an attempt of this device to pair by an invitation of another one, before its nonce is revealed there.
    ///
    /// Returns its number, and how many there were before.
    ///
    /// - Throws: `KithError` `.exhausted` when there were as many as an invitation allows.
    public func beginJoining(
        by id: String, of device: DeviceID, now: Int64
    ) throws(KithError) -> (number: Int64, earlier: Int) {
        try transaction("count an attempt to pair") { database in
            let earlier =
                try Int.fetchOne(
                    database,
                    sql:
                        "SELECT count(*) FROM pairing_attempts WHERE invitation = ? AND is_joining AND ending IS NOT ?",
                    arguments: [id, Self.paired]) ?? 0
            guard earlier < Pairing.attemptLimit else {
                throw KithError(
                    .exhausted,
                    "\(earlier) attempts to pair by that invitation came to nothing. Ask for a new one, and get it another way."
                )
            }
            try database.execute(
                sql: """
                    INSERT INTO pairing_attempts (invitation, is_joining, device, address, began_at)
                    VALUES (?, TRUE, ?, '', ?)
                    """,
                arguments: [id, Data(device.bytes), now])
            let number = database.lastInsertedRowID
            try Self.forgetOldAttempts(now: now, database)
            return (number, earlier)
        }
    }

    /// Notes that an attempt of this device came to nothing, or not.
    public func endJoining(_ number: Int64, isPaired: Bool) throws(KithError) {
        try transaction("note how an attempt to pair ended") { database in
            try database.execute(
                sql: "UPDATE pairing_attempts SET ending = ? WHERE number = ?",
                arguments: [isPaired ? Self.paired : "not paired", number])
        }
    }

    /// The name of the method in the audit log.
    private static let method = "pairing.present"

    /// Counts the attempts made by an invitation, of all devices or of those that are not `device`.
    private static func attempts(by id: String, notBy device: DeviceID? = nil, _ database: Database) throws -> Int {
        try Int.fetchOne(
            database,
            sql: "SELECT count(*) FROM pairing_attempts WHERE invitation = ? AND NOT is_joining AND device IS NOT ?",
            arguments: [id, device.map { Data($0.bytes) }]) ?? 0
    }

    /// An invitation lives for a week; nobody asks for its attempts a day later.
    private static func forgetOldAttempts(now: Int64, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM pairing_attempts WHERE began_at < ?",
            arguments: [now - 8 * 86_400])
    }
}
