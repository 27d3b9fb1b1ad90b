import GRDB
package import KithWire

extension FileIndex {
    /// The most bytes of a note.
    package static let noteLimit = 16_384

    /// Changes what is noted of entries, all or nothing.
    ///
    /// - Parameters:
    ///   - paths: The paths of the entries.
    ///   - isFavorite: Whether they are favourites from now on; `nil`: as before.
    ///   - rating: Their stars, 0…5, from now on; `nil`: as before.
    ///   - note: Their note from now on, none when it is empty; `nil`: as before.
    /// - Throws: `.notFound` for a path that is not in the index; `.invalid` for other numbers of stars, and a note of
    ///   more than ``noteLimit`` bytes or with a NUL.
    package func annotate(
        _ paths: [[UInt8]], isFavorite: Bool? = nil, rating: Int? = nil, note: String? = nil
    ) async throws(KithError) {
        if let rating, !(0...5).contains(rating) {
            throw KithError(.invalid, "A rating is 0 to 5 stars, not \(rating).")
        }
        if let note, note.utf8.count > Self.noteLimit || note.utf8.contains(0) {
            throw KithError(.invalid, "A note has at most \(Self.noteLimit) bytes, and no NUL.")
        }
        do {
            try await database.write { database in
                for path in paths {
                    let entry = try Self.entry(at: path, database)
                    try database.execute(
                        sql: "INSERT OR IGNORE INTO annotation (entry) VALUES (?)", arguments: [entry])
                    try database.execute(
                        sql: """
                            UPDATE annotation SET favorite = ifnull(?2, favorite), rating = ifnull(?3, rating),
                                note = CASE WHEN ?4 IS NULL THEN note ELSE nullif(?4, '') END
                            WHERE entry = ?1
                            """, arguments: [entry, isFavorite, rating, note])
                    try database.execute(
                        sql: """
                            DELETE FROM annotation WHERE entry = ? AND favorite = 0 AND rating = 0 AND note IS NULL
                            """, arguments: [entry])
                }
            }
            tell()
        } catch {
            throw Self.failure("note that", error)
        }
    }

    /// What is noted of one entry.
    ///
    /// - Throws: `.notFound` for a path that is not in the index.
    package func annotation(of path: [UInt8]) async throws(KithError) -> Annotation {
        do {
            return try await database.read { database in
                let row = try Row.fetchOne(
                    database, sql: "SELECT favorite, rating, note FROM annotation WHERE entry = ?",
                    arguments: [try Self.entry(at: path, database)])
                return row.map { Annotation(isFavorite: $0[0], rating: $0[1], note: $0[2]) } ?? Annotation()
            }
        } catch {
            throw Self.failure("read the note", error)
        }
    }
}
