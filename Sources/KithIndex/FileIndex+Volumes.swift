import Foundation
import GRDB
import KithIO
package import KithWire

/// The volume that a location lies on.
package struct LocationVolume: Hashable, Sendable {
    /// What the volume is told by, wherever it is mounted.
    package var fingerprint: String
    /// The path of the location from the top of the volume, without a slash at its beginning.
    package var path: [UInt8]

    /// Names a place on a volume.
    package init(fingerprint: String, path: [UInt8]) {
        self.fingerprint = fingerprint
        self.path = path
    }
}

extension FileIndex {
    /// The volumes that locations were on when they were there last, by the locations' numbers.
    package func locationVolumes() throws(KithError) -> [Int64: LocationVolume] {
        do {
            return try database.read { database in
                var volumes: [Int64: LocationVolume] = [:]
                for row in try Row.fetchAll(database, sql: "SELECT location, fingerprint, path FROM location_volume") {
                    volumes[row[0]] = LocationVolume(fingerprint: row[1], path: [UInt8](row[2] as Data))
                }
                return volumes
            }
        } catch {
            throw Self.failure("read the volumes of the locations", error)
        }
    }

    /// Notes the volume that a location is on.
    package func note(_ volume: LocationVolume, of location: Int64) throws(KithError) {
        do {
            try database.write { database in
                try database.execute(
                    sql: "INSERT OR REPLACE INTO location_volume (location, fingerprint, path) VALUES (?, ?, ?)",
                    arguments: [location, volume.fingerprint, Data(volume.path)])
            }
        } catch {
            throw Self.failure("note the volume of a location", error)
        }
    }

    /// Takes a location for the folder at another path, with all that is known of it, in one transaction.
    ///
    /// - Parameters:
    ///   - id: The location.
    ///   - path: Where it is now, from the top of the file system and without links.
    ///   - isTrusted: Whether it is known to be the same; else half of the names in the location have to be there.
    /// - Throws: `.notFound` for no such location or folder, `.conflict` when that is another folder, or lies in a
    ///   location or around one.
    package func relocate(_ id: Int64, to path: [UInt8], isTrusted: Bool) async throws(KithError) {
        let location = try location(id)
        let shown = String(decoding: path, as: UTF8.self)
        try await checkAnswers(path)
        let attributes: FileAttributes
        let names: Set<[UInt8]>
        do throws(SystemError) {
            let folder = try OpenFolder(path: path)
            attributes = try folder.attributes()
            names = isTrusted ? [] : Set(try folder.list().map(\.name))
        } catch {
            let code: KithError.Code = error.number == ENOENT ? .notFound : error.number == ENOTDIR ? .invalid : .denied
            throw KithError(code, "\(location.name) cannot be at \(shown): \(error).")
        }
        if let excluded, path.isWithin(excluded) {
            throw KithError(.invalid, "\(shown) is part of this device's own data, which changes with each search.")
        }
        do {
            try await database.write { database in
                try Self.checkPlace(path, of: location, database)
                if !isTrusted { try Self.check(names, for: location, at: shown, database) }
                try Self.move(location, to: path, device: attributes.device, database)
                let changes = NameChanges(database, self.names)
                try changes.moved(to: path)
                try changes.finish()
            }
        } catch {
            throw Self.failure("relocate \(location.name)", error)
        }
        tellEverything()
    }

    private static func checkPlace(_ path: [UInt8], of location: IndexLocation, _ database: Database) throws {
        for other in try locations(database) where other.id != location.id {
            guard path.isWithin(other.path) || other.path.isWithin(path) else { continue }
            throw KithError(
                .conflict,
                "\(String(decoding: path, as: UTF8.self)) lies in \(other.name), which is in the library, or around it."
            )
        }
    }

    /// Refuses a folder in which little is of what the location holds.
    private static func check(
        _ names: Set<[UInt8]>, for location: IndexLocation, at shown: String, _ database: Database
    ) throws {
        let known = try Data.fetchAll(
            database,
            sql: """
                SELECT entry.name FROM entry JOIN location ON entry.folder = location.entry
                WHERE location.id = ? AND entry.flags & 2 = 0 LIMIT 1000
                """, arguments: [location.id]
        ).map { [UInt8]($0) }
        let found = known.count { names.contains($0) }
        guard found * 2 >= known.count else {
            throw KithError(
                .conflict,
                "\(shown) does not look like \(location.name): of \(known.count) names in it \(found) are there. Pass --force to take it for the same; what is not there is forgotten."
            )
        }
    }

    private static func move(
        _ location: IndexLocation, to path: [UInt8], device: Int64, _ database: Database
    ) throws {
        let start = location.path == [UInt8(ascii: "/")] ? 1 : location.path.count + 1
        let base = path == [UInt8(ascii: "/")] ? [] : path
        // By way of names that no path has: the new ones may be old ones of others.
        try database.execute(
            sql: """
                UPDATE folder SET path = CAST(CAST('//' AS BLOB) || ? || substr(path, ?) AS BLOB), device = ?
                WHERE location = ? AND path <> ?
                """,
            arguments: [Data(base), start, device, location.id, Data(location.path)])
        try database.execute(
            sql: "UPDATE folder SET path = CAST(substr(path, 3) AS BLOB) WHERE location = ? AND path <> ?",
            arguments: [location.id, Data(location.path)])
        try database.execute(
            sql: "UPDATE folder SET path = ?, device = ? WHERE location = ? AND path = ?",
            arguments: [Data(path), device, location.id, Data(location.path)])
        try database.execute(
            sql: "UPDATE entry SET name = ? WHERE id = (SELECT entry FROM location WHERE id = ?)",
            arguments: [Data(path), location.id])
        try database.execute(
            sql: "UPDATE location SET path = ?, device = ?, problem = NULL WHERE id = ?",
            arguments: [Data(path), device, location.id])
    }
}
