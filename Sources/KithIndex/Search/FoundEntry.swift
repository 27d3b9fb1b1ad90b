package import KithCatalog

/// An entry that a search found.
package struct FoundEntry: Hashable, Sendable, Identifiable {
    /// Its number in the index, the same after it was renamed or moved.
    package var id: Int64
    /// The path of its folder.
    package var folder: [UInt8]
    /// Its name there.
    package var name: [UInt8]
    package var kind: EntryKind
    /// What kind of file it is; `nil` for what is no file.
    package var category: FileCategory?
    /// Bytes; 0 for what is no file.
    package var size: UInt64
    /// The last change, in nanoseconds since 1970.
    package var modified: Int64
    /// When it was made, in nanoseconds since 1970; `nil` where the file system does not say.
    package var created: Int64?
    /// When the index saw it first, in seconds since 1970.
    package var added: Int64
    package var location: Int64
    package var isHidden: Bool
    /// The paths of its tags.
    package var tags: [[String]]
    /// What was found in its text; `nil` when its text was not asked for.
    package var snippet: Snippet?
    /// What a person has noted of it.
    package var annotation = Annotation()

    /// The whole path.
    package var path: [UInt8] { folder.appending(name: name) }
}

/// What a person notes of an entry, beside tags.
package struct Annotation: Hashable, Sendable {
    package var isFavorite: Bool
    /// Stars, 0…5; 0 is none.
    package var rating: Int
    package var note: String?

    package init(isFavorite: Bool = false, rating: Int = 0, note: String? = nil) {
        (self.isFavorite, self.rating, self.note) = (isFavorite, rating, note)
    }
}

/// Some of what a search finds.
package struct FoundPage: Hashable, Sendable {
    package var entries: [FoundEntry]
    /// Whether there are more behind these.
    package var hasMore: Bool
    /// How many there are in all, where that is known.
    package var total: Int?
    /// The place of each entry.
    var places: [SearchPlace]

    /// Where the page behind the first so many entries of this one begins; `nil` at the end.
    package func next(after count: Int) -> SearchPlace? {
        guard count > 0, count <= places.count, hasMore || count < places.count else { return nil }
        return places[count - 1]
    }

    /// Where the next page begins; `nil` at the end.
    package var next: SearchPlace? { next(after: places.count) }
}
