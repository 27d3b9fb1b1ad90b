import GRDB

/// All tags, with those above them.
struct TagTree {
    private var tags: [Int64: (name: String, parent: Int64?)] = [:]

    init(_ database: Database) throws {
        for row in try Row.fetchAll(database, sql: "SELECT id, name, parent FROM tag") {
            tags[row[0]] = (row[1], row[2])
        }
    }

    /// The names from the top of the hierarchy down to a tag.
    func path(of tag: Int64) -> [String] {
        // What a damaged index has deeper, or in itself, is cut off.
        var (names, next, left) = ([String](), Optional(tag), FileIndex.tagDepthLimit)
        while let id = next, let tag = tags[id], left > 0 {
            names.append(tag.name)
            next = tag.parent
            left -= 1
        }
        return names.reversed()
    }

    /// The tags of an entry, in the order of their paths.
    func paths(of entry: Int64, _ database: Database) throws -> [[String]] {
        try Int64.fetchAll(
            database.cachedStatement(sql: "SELECT tag FROM tag_use WHERE entry = ?"), arguments: [entry]
        ).map(path(of:)).sorted { $0.lexicographicallyPrecedes($1) }
    }
}
