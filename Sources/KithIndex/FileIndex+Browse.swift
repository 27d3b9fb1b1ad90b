import CKithSystem
import Foundation
import GRDB
import KithCatalog
import KithIO
package import KithWire

/// A part of what is in a folder.
package struct FolderPage: Hashable, Sendable {
    /// In the order of the bytes of their names.
    package var entries: [FoundEntry]
    package var hasMore: Bool
}

/// A file of an index, open to be read, as it was when it was indexed.
package final class IndexedFile: Sendable {
    package let entry: FoundEntry
    private let file: OpenFile

    init(_ entry: FoundEntry, _ file: OpenFile) { (self.entry, self.file) = (entry, file) }

    /// Up to `limit` bytes at a place, at most 1 MiB; `nil` at the end.
    ///
    /// Blocks while the disk works. What has grown since it was indexed is not read.
    package func bytes(at offset: UInt64, limit: Int) throws(KithError) -> [UInt8]? {
        guard offset < entry.size else { return nil }
        let wanted = Int(min(UInt64(min(max(limit, 0), 1 << 20)), entry.size - offset))
        guard wanted > 0 else { return nil }
        var failure: SystemError?
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: wanted) { buffer, count in
            do throws(SystemError) {
                count = try unsafe file.read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
            } catch {
                failure = error
            }
        }
        if let failure {
            throw KithError(
                .internal, "\(String(decoding: entry.path, as: UTF8.self)) cannot be read: \(failure).")
        }
        guard !bytes.isEmpty else {
            throw KithError(
                .conflict, "\(String(decoding: entry.path, as: UTF8.self)) became shorter while it was read.")
        }
        return bytes
    }
}

extension FileIndex {
    /// Lists a folder as the index has it.
    ///
    /// - Parameters:
    ///   - path: The folder's path within the location; empty: the location itself.
    ///   - id: The number of the location.
    ///   - name: The name after which the page begins; `nil`: at the first.
    ///   - limit: The most entries, 1…1,000; more count as that.
    /// - Returns: what is in it.
    /// - Throws: `.notFound` when there is no such location or folder in the index.
    package func folder(
        _ path: [UInt8], in id: Int64, after name: [UInt8]? = nil, limit: Int = 1_000
    ) async throws(KithError) -> FolderPage {
        let location = try location(id)
        let whole = path.isEmpty ? location.path : location.path.appending(name: path)
        let count = min(max(limit, 1), Self.pageLimit)
        do {
            return try await read { database in
                guard
                    let folder = try Int64.fetchOne(
                        database, sql: "SELECT id FROM folder WHERE location = ? AND path = ?",
                        arguments: [id, Data(whole)])
                else {
                    throw KithError(
                        .notFound,
                        "There is no folder \(String(decoding: path, as: UTF8.self)) in \(location.name), as the library has it."
                    )
                }
                let tags = try TagTree(database)
                let rows = try Row.fetchCursor(
                    database,
                    sql: """
                        SELECT id, name, kind, category, size, modified, added, flags,
                            EXISTS (SELECT 1 FROM tag_use WHERE tag_use.entry = entry.id), created
                        FROM entry WHERE folder = ? AND flags & 2 = 0 AND name > ? ORDER BY name LIMIT ?
                        """,
                    arguments: [folder, Data(name ?? []), count + 1])
                var entries: [FoundEntry] = []
                while let row = try rows.next() {
                    let entry: Int64 = row[0]
                    entries.append(
                        FoundEntry(
                            id: entry, folder: whole, name: [UInt8](row[1] as Data), kind: Self.kind(row[2]),
                            category: FileCategory(rawValue: row[3]),
                            size: row[2] == StoredKind.file.rawValue ? UInt64(clamping: row[4] as Int64) : 0,
                            modified: row[5], created: row[9], added: row[6], location: id,
                            isHidden: IndexSchema.Flags(rawValue: row[7]).contains(.hidden),
                            tags: row[8] ? try tags.paths(of: entry, database) : []))
                }
                let hasMore = entries.count > count
                return FolderPage(entries: Array(entries.prefix(count)), hasMore: hasMore)
            }
        } catch {
            throw Self.failure("list a folder of \(location.name)", error)
        }
    }

    private static func kind(_ number: Int) -> EntryKind {
        switch StoredKind(rawValue: number) {
        case .folder: .folder
        case .link: .link
        default: .file
        }
    }

    // MARK: - Reading

    private struct Indexed {
        var entry: FoundEntry
        var location: IndexLocation
        var kind: StoredKind
        var inode: Int64
        var device: Int64
    }

    /// Opens a file to be read that is as it was when it was indexed; never one outside of its location.
    ///
    /// Every step from the location down is one name in a folder held open, through no link. What is found there must be
    /// the same file on the same file system, with the same size and time. Blocks while the disk works.
    ///
    /// - Parameters:
    ///   - id: The number of the file in the index.
    ///   - isProtected: Asked about each folder and about the file, once it is open.
    /// - Returns: the file.
    /// - Throws: `.notFound`, `.unreachable` when the location is not there, `.invalid` for what is no file, `.conflict`
    ///   for one that is not as it was, `.denied`.
    package func open(
        entry id: Int64, isProtected: (Int32) -> Bool = { _ in false }
    ) async throws(KithError) -> IndexedFile {
        let indexed = try await indexed(id)
        let (entry, location) = (indexed.entry, indexed.location)
        let shown = String(decoding: entry.path, as: UTF8.self)
        guard indexed.kind == .file else { throw KithError(.invalid, "\(shown) is not a file that can be read.") }
        guard entry.folder.isWithin(location.path) else {
            throw KithError(.corrupt, "\(shown) lies outside of its location: the index is damaged.")
        }
        let names = entry.folder.dropFirst(location.path.count).split(separator: UInt8(ascii: "/")).map(Array.init)
        let isPlain = (names + [entry.name]).allSatisfy { name in
            !name.isEmpty && !name.contains(0) && !name.contains(UInt8(ascii: "/"))
                && name != [UInt8(ascii: ".")] && name != [UInt8(ascii: "."), UInt8(ascii: ".")]
        }
        guard isPlain else { throw KithError(.corrupt, "\(shown) is no plain path: the index is damaged.") }
        let changed = KithError(
            .conflict, "\(shown) is not as it was when it was indexed. Search again once it has been scanned.")
        let denied = KithError(.denied, "\(shown) belongs to kith itself, and no other device reads it.")
        let top: OpenFolder
        do throws(SystemError) { top = try OpenFolder(path: location.path) } catch {
            throw KithError(.unreachable, "\(location.name) is not there: \(error).")
        }
        do {
            var folder = top
            guard !isProtected(folder.number) else { throw denied }
            for name in names {
                folder = try OpenFolder(name, in: folder)
                guard !isProtected(folder.number) else { throw denied }
            }
            // Looked at before it is opened: opening a device or a pipe may do something.
            let before = try folder.attributes(of: entry.name)
            guard before.kind == .file else { throw changed }
            let file = try folder.openFile(entry.name)
            let attributes = try file.attributes()
            guard attributes.kind == .file, attributes.inode == indexed.inode, attributes.device == indexed.device,
                UInt64(clamping: attributes.size) == entry.size, attributes.modified == entry.modified
            else { throw changed }
            guard !isProtected(file.number) else { throw denied }
            return IndexedFile(entry, file)
        } catch let error as KithError {
            throw error
        } catch {
            switch (error as? SystemError)?.number {
            case ENOENT, ENOTDIR, ELOOP: throw changed
            case EACCES, EPERM: throw KithError(.denied, "\(shown) cannot be read: \(error).")
            default: throw KithError(.internal, "\(shown) cannot be read: \(error).")
            }
        }
    }

    private func indexed(_ id: Int64) async throws(KithError) -> Indexed {
        do {
            return try await read { database in
                guard
                    let row = try Row.fetchOne(
                        database,
                        sql: """
                            SELECT folder.path, entry.name, entry.kind, entry.category, entry.size, entry.modified,
                                entry.added, folder.location, entry.inode, folder.device
                            FROM entry JOIN folder ON folder.id = entry.folder
                            WHERE entry.id = ? AND entry.folder <> 0 AND entry.flags & 2 = 0
                            """, arguments: [id]),
                    let location = try Self.locations(database).first(where: { $0.id == row[7] as Int64 })
                else { throw KithError(.notFound, "There is no file \(id) in the library.") }
                let entry = FoundEntry(
                    id: id, folder: [UInt8](row[0] as Data), name: [UInt8](row[1] as Data), kind: Self.kind(row[2]),
                    category: FileCategory(rawValue: row[3]), size: UInt64(clamping: row[4] as Int64),
                    modified: row[5], added: row[6], location: location.id, isHidden: false, tags: [])
                return Indexed(
                    entry: entry, location: location, kind: StoredKind(rawValue: row[2]) ?? .special,
                    inode: row[8], device: row[9])
            }
        } catch {
            throw Self.failure("read a file of the library", error)
        }
    }
}
