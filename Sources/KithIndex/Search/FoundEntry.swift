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
    /// When the index saw it first, in seconds since 1970.
    package var added: Int64
    package var location: Int64
    package var isHidden: Bool
    /// The paths of its tags.
    package var tags: [[String]]
    /// What was found in its text; `nil` when its text was not asked for.
    package var snippet: Snippet?

    /// The whole path.
    package var path: [UInt8] { folder.appending(name: name) }
}

/// Some of what a search finds.
package struct FoundPage: Hashable, Sendable {
    package var entries: [FoundEntry]
    /// Where the next page begins; `nil` at the end.
    package var next: Int?
    /// How many there are in all, where that is known.
    package var total: Int?
}
