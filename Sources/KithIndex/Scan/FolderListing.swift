/// A folder as it is on the disk: all names in it that the rules of its location let in.
struct FolderListing: Sendable {
    /// Its path from the top of the file system.
    var path: [UInt8]
    /// Of two listings of one folder the later one has the larger number, which is taken before it begins.
    var number: UInt64 = 0
    /// Of the folder itself.
    var attributes: FileAttributes
    var entries: [ListedEntry]
    /// Why it could not be listed; then `entries` is empty and says nothing.
    var problem: String?
}
