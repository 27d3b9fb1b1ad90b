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
            let (entries, noted) = try await database.write { [now] database in
                var recorder = ChangeRecorder(.annotation)
                var entries: [Int64] = []
                var noted = ChangeSet.Notes()
                for path in paths {
                    let entry = try Self.entry(at: path, database)
                    let before = try Self.annotation(of: entry, database)
                    var after = before
                    if let isFavorite { after.isFavorite = isFavorite }
                    if let rating { after.rating = rating }
                    if let note { after.note = note.isEmpty ? nil : note }
                    try Self.setAnnotation(of: entry, to: after, database)
                    recorder.add(entry, before: before, after: after)
                    if before != after { noted.paths.append(path) }
                    entries.append(entry)
                }
                try recorder.finish(database, now: now())
                noted.fields = Set(recorder.steps.map(\.target.field))
                return (entries, noted)
            }
            tell()
            if var changes = newChangeSet() {
                for entry in entries { changes.touch(entry) }
                changes.note(noted)
                tell(changes)
            }
        } catch {
            throw Self.failure("note that", error)
        }
    }

    /// What is noted of one entry.
    ///
    /// - Throws: `.notFound` for a path that is not in the index.
    package func annotation(of path: [UInt8]) async throws(KithError) -> Annotation {
        do {
            return try await read { database in
                try Self.annotation(of: try Self.entry(at: path, database), database)
            }
        } catch {
            throw Self.failure("read the note", error)
        }
    }

    static func annotation(of entry: Int64, _ database: Database) throws -> Annotation {
        let row = try Row.fetchOne(
            database, sql: "SELECT favorite, rating, note FROM annotation WHERE entry = ?", arguments: [entry])
        return row.map { Annotation(isFavorite: $0[0], rating: $0[1], note: $0[2]) } ?? Annotation()
    }

    /// Notes something of an entry; nothing takes no row.
    static func setAnnotation(of entry: Int64, to noted: Annotation, _ database: Database) throws {
        guard noted != Annotation() else {
            try database.execute(sql: "DELETE FROM annotation WHERE entry = ?", arguments: [entry])
            return
        }
        try database.execute(
            sql: "INSERT OR REPLACE INTO annotation (entry, favorite, rating, note) VALUES (?, ?, ?, ?)",
            arguments: [entry, noted.isFavorite, noted.rating, noted.note])
    }
}
