import Foundation
import KithCatalog
import KithIO

/// Lists a folder and, on request, all beneath it, each folder before those in it.
///
/// Links are not followed, and every step is one name in a folder held open: a folder that a link replaces meanwhile is
/// told as a problem. Every call blocks while the disk works.
struct FolderWalk: Sendable {
    /// The most folders in one another: each is held open while it is walked.
    static let maximumDepth = 200

    /// What is to be listed.
    private struct Pending: Sendable {
        let parent: OpenFolder?
        let name: [UInt8]
        let path: [UInt8]
        let depth: Int
        let rules: RuleStack
    }

    private var pending: [Pending]
    private let isRecursive: Bool
    /// A folder that is not told of.
    private let excluded: FileAttributes?
    /// Told of each folder, held open, before it is listed.
    private let willList: @Sendable (OpenFolder, [UInt8]) -> Void

    /// Begins at `path`, whose own name the rules are not asked about.
    init(
        _ path: [UInt8], rules: RuleStack, excluding excluded: FileAttributes? = nil, isRecursive: Bool = true,
        willList: @escaping @Sendable (OpenFolder, [UInt8]) -> Void = { _, _ in }
    ) {
        pending = [Pending(parent: nil, name: [], path: path, depth: 0, rules: rules)]
        self.isRecursive = isRecursive
        self.excluded = excluded
        self.willList = willList
    }

    /// The next folder; `nil` after the last.
    ///
    /// `pulse` is told of each answer of the disk.
    mutating func next(_ pulse: DiskPulse? = nil) -> FolderListing? {
        guard let item = pending.popLast() else { return nil }
        var listing = FolderListing(path: item.path, attributes: .none, entries: [])
        let folder: OpenFolder
        do throws(SystemError) {
            folder =
                if let parent = item.parent { try OpenFolder(item.name, in: parent) } else {
                    try OpenFolder(path: item.path)
                }
            listing.attributes = try folder.attributes()
            willList(folder, item.path)
            listing.entries = try folder.list(pulse)
            // What is in a library's own folder changes with each change that is written down there.
            if LibraryDescription.isFolder(with: listing.entries) { listing.entries = [] }
        } catch {
            listing.problem = error.description
            return listing
        }
        let rules = item.rules.entering(folder, listed: listing.entries)
        if !rules.isEmpty {
            listing.entries.removeAll { rules.excludes($0.name, isFolder: $0.attributes.kind == .folder) }
        }
        if let excluded {
            listing.entries.removeAll { entry in
                entry.attributes.inode == excluded.inode && entry.attributes.device == excluded.device
                    && entry.attributes.kind == .folder
            }
        }
        guard isRecursive else { return listing }
        guard item.depth < Self.maximumDepth else {
            listing.problem = "It lies deeper than \(Self.maximumDepth) folders; what is in its folders is not indexed."
            return listing
        }
        for entry in listing.entries where entry.attributes.kind == .folder {
            pending.append(
                Pending(
                    parent: folder, name: entry.name, path: item.path.appending(name: entry.name),
                    depth: item.depth + 1, rules: rules.entered(entry.name)))
        }
        return listing
    }
}

extension [UInt8] {
    /// The path of a name in the folder of this path.
    func appending(name: [UInt8]) -> [UInt8] {
        var path = [UInt8]()
        path.reserveCapacity(count + 1 + name.count)
        path += self
        if path.last != UInt8(ascii: "/") { path.append(UInt8(ascii: "/")) }
        path += name
        return path
    }

    /// The path of the folder around, and the name in it; `nil` for the top of the file system.
    var splitPath: (folder: [UInt8], name: [UInt8])? {
        guard let slash = lastIndex(of: UInt8(ascii: "/")), slash + 1 < count else { return nil }
        return (slash == 0 ? [UInt8(ascii: "/")] : Array(self[..<slash]), Array(self[(slash + 1)...]))
    }

    /// The range, in the order of bytes, of the paths beneath this one.
    var beneath: (from: Data, to: Data) {
        let prefix = last == UInt8(ascii: "/") ? self : self + [UInt8(ascii: "/")]
        return (Data(prefix), Data(prefix.dropLast() + [UInt8(ascii: "/") + 1]))
    }

    /// True for this path itself and for those beneath it.
    func isWithin(_ folder: [UInt8]) -> Bool {
        starts(with: folder)
            && (count == folder.count || folder.last == UInt8(ascii: "/") || self[folder.count] == UInt8(ascii: "/"))
    }
}
