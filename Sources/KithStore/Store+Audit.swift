import GRDB
public import KithWire

extension Store {
    /// Adds a line to the audit log.
    public func record(_ entry: AuditEntry) throws(KithError) {
        try transaction("write the audit log") { database in
            try database.execute(
                sql: "INSERT INTO audit (time, device, method, decision, detail) VALUES (?, ?, ?, ?, ?)",
                arguments: [
                    entry.time, entry.device, entry.method, entry.decision.rawValue, String(entry.detail.prefix(500)),
                ])
            try database.execute(
                sql: "DELETE FROM audit WHERE number <= ?",
                arguments: [database.lastInsertedRowID - Int64(Self.auditLimit)])
        }
    }

    /// The newest lines of the audit log, newest first.
    public func audit(limit: Int) throws(KithError) -> [AuditEntry] {
        try transaction("read the audit log") { database in
            try Row.fetchAll(
                database, sql: "SELECT * FROM audit ORDER BY number DESC LIMIT ?", arguments: [max(0, limit)]
            ).map { row in
                AuditEntry(
                    time: row["time"], device: row["device"], method: row["method"],
                    decision: AuditEntry.Decision(rawValue: row["decision"]) ?? .denied, detail: row["detail"])
            }
        }
    }
}
