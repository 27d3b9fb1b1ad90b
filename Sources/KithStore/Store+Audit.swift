import GRDB
public import KithWire

extension Store {
    /// The number of lines removed at once, so that room need not be made for every line.
    private static let auditSlack = 64

    /// Adds a line to the audit log.
    ///
    /// When it is full, the oldest line of whoever has most goes: nobody can push what others did out of it.
    public func record(_ entry: AuditEntry) throws(KithError) {
        try transaction("write the audit log") { database in try Self.record(entry, database) }
    }

    static func record(_ entry: AuditEntry, _ database: Database) throws {
        try database.execute(
            sql: "INSERT INTO audit (time, device, method, decision, detail) VALUES (?, ?, ?, ?, ?)",
            arguments: [
                entry.time, entry.device, entry.method, entry.decision.rawValue, entry.detail.prefix(bytes: 500),
            ])
        if database.lastInsertedRowID % Int64(Self.auditSlack) == 0 { try Self.trimAudit(database) }
    }

    /// The newest lines of the audit log, newest first; what unpaired devices did is counted among them.
    public func audit(limit: Int) throws(KithError) -> [AuditEntry] {
        writeAttempts()
        let limit = min(max(0, limit), Self.auditLimit)
        return try transaction("read the audit log") { database in
            let lines = try Row.fetchAll(
                database, sql: "SELECT * FROM audit ORDER BY number DESC LIMIT ?", arguments: [limit]
            ).map { row in
                AuditEntry(
                    time: row["time"], device: row["device"], method: row["method"],
                    decision: AuditEntry.Decision(rawValue: row["decision"]) ?? .denied, detail: row["detail"])
            }
            let attempts = try Self.attempts(database, limit: limit)
            // Both are in order: merged, they keep it.
            var merged: [AuditEntry] = []
            var (line, attempt) = (lines[...], attempts[...])
            while merged.count < limit, let next = Self.newer(&line, &attempt) { merged.append(next) }
            return merged
        }
    }

    private static func newer(
        _ lines: inout ArraySlice<AuditEntry>, _ attempts: inout ArraySlice<AuditEntry>
    ) -> AuditEntry? {
        guard let attempt = attempts.first else { return lines.popFirst() }
        guard let line = lines.first, line.time >= attempt.time else { return attempts.popFirst() }
        return lines.popFirst()
    }

    /// Removes what is too much: the oldest lines of those who have more than an equal share.
    private static func trimAudit(_ database: Database) throws {
        let shares = try Row.fetchAll(database, sql: "SELECT device, count(*) AS lines FROM audit GROUP BY device")
            .map { row -> (device: String, lines: Int) in (row["device"], row["lines"]) }
        let cut = FairShare.cut(shares.map(\.lines), to: auditLimit - auditSlack)
        for (share, excess) in zip(shares, cut) where excess > 0 {
            try database.execute(
                sql: """
                    DELETE FROM audit WHERE number IN
                        (SELECT number FROM audit WHERE device = ? ORDER BY number LIMIT ?)
                    """, arguments: [share.device, excess])
        }
    }
}
