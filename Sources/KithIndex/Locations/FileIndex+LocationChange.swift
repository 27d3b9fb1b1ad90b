import Foundation
import GRDB
package import KithWire

extension FileIndex {
    /// Gives a location another name, another mode, or other rules; what it holds is right after the next scan of it.
    ///
    /// Nobody else scans it meanwhile. Made shallow, it forgets at once what lies deeper; tags and notes of that are kept
    /// until every location was looked through.
    ///
    /// - Parameters:
    ///   - id: The location.
    ///   - name: Its name from now on; `nil`: as before.
    ///   - mode: How much of it is in the index; `nil`: as before.
    ///   - rules: What it leaves out; `nil`: as before.
    /// - Returns: the location as it is now.
    /// - Throws: `.notFound` when there is no such location, `.invalid` for rules that cannot be read.
    package func changeLocation(
        _ id: Int64, name: String? = nil, mode: LocationMode? = nil, rules: LocationRules? = nil
    ) async throws(KithError) -> IndexLocation {
        let location = try location(id)
        if let rules { _ = try ruleStack(rules) }
        let text = try rules.map { rules throws(KithError) in try Self.encoded(rules) }
        do {
            try await database.write { database in
                try database.execute(
                    sql: """
                        UPDATE location SET name = ifnull(?2, name), mode = ifnull(?3, mode), rules = ifnull(?4, rules)
                        WHERE id = ?1
                        """, arguments: [id, name, mode?.rawValue, text])
            }
            if mode == .shallow, location.mode != .shallow { try await emptyFolders(of: location) }
        } catch {
            throw Self.failure("change \(location.name)", error)
        }
        tellEverything()
        return try self.location(id)
    }

    /// Removes what lies deeper than in the location's folder itself, a part at a time.
    private func emptyFolders(of location: IndexLocation) async throws {
        var last: Int64 = 0
        while true {
            let folders = try await database.write { [names, now, last] database in
                let folders = try Int64.fetchAll(
                    database,
                    sql: """
                        SELECT folder.id FROM folder JOIN entry ON entry.id = folder.id
                            JOIN location ON location.entry = entry.folder
                        WHERE location.id = ? AND folder.id > ? ORDER BY folder.id LIMIT 20
                        """, arguments: [location.id, last])
                let writer = try ListingWriter(database, names: names, now: now())
                for folder in folders { try writer.empty(folder) }
                try writer.finish()
                return folders
            }
            guard let end = folders.last else { return }
            last = end
        }
    }

    // MARK: - What is usual

    /// What locations of this library are like that are added with nothing else said.
    package struct Usual: Hashable, Sendable {
        /// `nil`: ``LocationMode/recursive``.
        package var mode: LocationMode?
        /// `nil`: as ``LocationRules/init(patterns:followsIgnoreFiles:)`` without arguments.
        package var rules: LocationRules?

        package init(mode: LocationMode? = nil, rules: LocationRules? = nil) {
            (self.mode, self.rules) = (mode, rules)
        }
    }

    /// What is usual for new locations.
    package func usual() throws(KithError) -> Usual {
        do {
            return try database.read { database in
                func value(_ name: String) throws -> String? {
                    try String.fetchOne(database, sql: "SELECT value FROM meta WHERE name = ?", arguments: [name])
                }
                // What a later version wrote is not known here, and as if it had not been said.
                return Usual(
                    mode: try value("mode").flatMap { LocationMode(rawValue: $0) },
                    rules: try value("rules").flatMap {
                        try? JSONDecoder().decode(LocationRules.self, from: Data($0.utf8))
                    })
            }
        } catch {
            throw Self.failure("read what is usual for locations", error)
        }
    }

    /// Says what is usual for new locations; those that are there stay as they are.
    ///
    /// - Throws: `.invalid` for rules that cannot be read.
    package func setUsual(_ usual: Usual) async throws(KithError) {
        if let rules = usual.rules { _ = try ruleStack(rules) }
        let values = [
            ("mode", usual.mode?.rawValue),
            (
                "rules",
                try usual.rules.map { rules throws(KithError) in
                    try Self.encoded(rules)
                }
            ),
        ]
        do {
            try await database.write { database in
                for (name, value) in values {
                    try database.execute(sql: "DELETE FROM meta WHERE name = ?", arguments: [name])
                    if let value {
                        try database.execute(
                            sql: "INSERT INTO meta (name, value) VALUES (?, ?)", arguments: [name, value])
                    }
                }
            }
        } catch {
            throw Self.failure("keep what is usual for locations", error)
        }
    }
}
