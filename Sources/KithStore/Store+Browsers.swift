import Crypto
import Foundation
import GRDB
public import KithWire

/// A browser that may use this device's page, as its own person.
public struct BrowserRecord: Hashable, Sendable {
    /// The beginning of the SHA-256 of its key, 16 hexadecimal digits.
    public var id: String
    /// Its Ed25519 public key, 32 bytes.
    public var key: [UInt8]
    /// What it calls itself; no two have the same.
    public var name: String
    /// The time it was let in, in seconds since 1970.
    public var addedAt: Int64
    /// The time it was last used, in seconds since 1970.
    public var lastUse: Int64
    /// The time at which its right ends, in seconds since 1970.
    public var ends: Int64
    /// The time at which it ends at the latest, however much it is used.
    public var latestEnd: Int64
}

extension Store {
    /// The most browsers at once.
    public static let browserLimit = 64
    /// The time for which it is remembered that a browser's right has ended, in seconds: so that it can be told.
    private static let browserMemory: Int64 = 30 * 86_400

    static func registerBrowsers(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("browsers") { database in
            try database.execute(
                sql: """
                    CREATE TABLE browsers (
                        id TEXT PRIMARY KEY,
                        key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
                        name TEXT NOT NULL UNIQUE,
                        added_at INTEGER NOT NULL,
                        last_use INTEGER NOT NULL,
                        ends INTEGER NOT NULL,
                        latest_end INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    """)
        }
    }

    /// The browsers whose right has not ended at `now`, in seconds since 1970, the one used last first.
    public func browsers(now: Int64) throws(KithError) -> [BrowserRecord] {
        try transaction("list browsers") { database in
            try Row.fetchAll(
                database, sql: "SELECT * FROM browsers WHERE ends > ? ORDER BY last_use DESC, name", arguments: [now]
            ).map(Self.browser)
        }
    }

    /// The browser with this key, whether or not its right has ended; `nil` when there is none.
    public func browser(key: [UInt8]) throws(KithError) -> BrowserRecord? {
        try transaction("look for a browser") { database in
            try Row.fetchOne(database, sql: "SELECT * FROM browsers WHERE key = ?", arguments: [Data(key)])
                .map(Self.browser)
        }
    }

    /// Lets a browser in, or renews the right of one that was: it ends at `ends`, and at `latestEnd` at the latest.
    ///
    /// Its name gets a number where another one has it.
    ///
    /// - Throws: `KithError` `.exhausted` when there are ``browserLimit`` already.
    public func addBrowser(
        key: [UInt8], name: String, ends: Int64, latestEnd: Int64, now: Int64
    ) throws(KithError) -> BrowserRecord {
        let id = Hex.encode(SHA256.hash(data: key).prefix(8))
        return try transaction("let a browser in") { database in
            try database.execute(
                sql: "DELETE FROM browsers WHERE key = ? OR ends <= ?",
                arguments: [Data(key), now - Self.browserMemory])
            let count = try Int.fetchOne(
                database, sql: "SELECT count(*) FROM browsers WHERE ends > ?", arguments: [now])
            guard count ?? 0 < Self.browserLimit else {
                throw KithError(
                    .exhausted,
                    "\(Self.browserLimit) browsers may use the page already. End some: kith web forget NAME")
            }
            // Those whose right has ended give their names away.
            try database.execute(sql: "DELETE FROM browsers WHERE name = ? AND ends <= ?", arguments: [name, now])
            let taken = Set(try String.fetchAll(database, sql: "SELECT name FROM browsers"))
            let free = taken.contains(name) ? (2...).lazy.map { "\(name) \($0)" }.first { !taken.contains($0) } : name
            let record = BrowserRecord(
                id: id, key: key, name: free ?? name, addedAt: now, lastUse: now, ends: ends, latestEnd: latestEnd)
            try database.execute(
                sql: "INSERT INTO browsers VALUES (?, ?, ?, ?, ?, ?, ?)",
                arguments: [id, Data(key), record.name, now, now, ends, latestEnd])
            return record
        }
    }

    /// Notes that a browser is used, which has its right end at `ends`, or at its latest end.
    ///
    /// - Returns: the browser; `nil` when its right has ended, or there is none with that identifier.
    public func useBrowser(_ id: String, ends: Int64, now: Int64) throws(KithError) -> BrowserRecord? {
        try transaction("note the use of a browser") { database in
            try Row.fetchOne(
                database,
                sql: """
                    UPDATE browsers SET last_use = ?2, ends = max(ends, min(?3, latest_end))
                        WHERE id = ?1 AND ends > ?2 RETURNING *
                    """, arguments: [id, now, ends]
            ).map(Self.browser)
        }
    }

    /// Forgets a browser, by its name, its identifier or the beginning of either; without any, all of them.
    ///
    /// - Throws: `KithError` `.notFound` when there is no such browser, `.conflict` when several are meant.
    public func forgetBrowsers(_ reference: String?, now: Int64) throws(KithError) -> [BrowserRecord] {
        try transaction("forget a browser") { database in
            var all = try Row.fetchAll(database, sql: "SELECT * FROM browsers ORDER BY last_use DESC").map(Self.browser)
            if let reference {
                let text = reference.lowercased()
                // The identifier first, which nobody can give itself.
                let meant =
                    text.isEmpty
                    ? []
                    : [
                        all.filter { $0.id == text }, all.filter { $0.name == reference },
                        all.filter { $0.id.hasPrefix(text) || $0.name.lowercased().hasPrefix(text) },
                    ].first { !$0.isEmpty } ?? []
                guard !meant.isEmpty else {
                    throw KithError(
                        .notFound,
                        "No browser “\(reference.prefix(64))” may use the page. `kith web list` shows which may.")
                }
                guard meant.count == 1 else {
                    let several = meant.map { "\($0.name) (\($0.id))" }.joined(separator: ", ")
                    throw KithError(.conflict, "“\(reference.prefix(64))” is the beginning of several: \(several).")
                }
                all = meant
            }
            for browser in all {
                try database.execute(sql: "DELETE FROM browsers WHERE id = ?", arguments: [browser.id])
            }
            return all
        }
    }

    private static func browser(_ row: Row) -> BrowserRecord {
        let key: Data = row["key"]
        return BrowserRecord(
            id: row["id"], key: Array(key), name: row["name"], addedAt: row["added_at"], lastUse: row["last_use"],
            ends: row["ends"], latestEnd: row["latest_end"])
    }
}
