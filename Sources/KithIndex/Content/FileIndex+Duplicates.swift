import Foundation
import GRDB
import KithIO
import KithWire

/// The files among which duplicates are looked for.
package struct DuplicateScope: Codable, Hashable, Sendable {
    /// Only what is in these folders, at most 100; empty: all.
    package var folders: [[UInt8]]
    /// The least size in bytes; empty files are never duplicates.
    package var minimumSize: Int64
    /// Only files of this size, for the copies of one file.
    package var size: Int64?

    package init(folders: [[UInt8]] = [], minimumSize: Int64 = 1, size: Int64? = nil) {
        self.folders = Array(folders.prefix(100))
        self.minimumSize = max(minimumSize, 1)
        self.size = size
    }

    /// A condition over `entry` and `folder`, with ``arguments``.
    var sql: String {
        var sql = "entry.size >= ?"
        if size != nil { sql += " AND entry.size = ?" }
        if !folders.isEmpty {
            let each = "folder.path = ? OR folder.path >= ? AND folder.path < ?"
            sql += " AND (" + Array(repeating: each, count: folders.count).joined(separator: " OR ") + ")"
        }
        return sql
    }

    var arguments: StatementArguments {
        var arguments: [(any DatabaseValueConvertible)?] = [minimumSize]
        if let size { arguments.append(size) }
        for folder in folders { arguments += [Data(folder), Data(folder.beneath.from), Data(folder.beneath.to)] }
        return StatementArguments(arguments)
    }

    /// The sizes that several files have, not only several names of one.
    var sizes: String {
        """
        SELECT entry.size FROM entry JOIN folder ON folder.id = entry.folder
        WHERE entry.kind = 0 AND entry.flags & 2 = 0 AND folder.gone = 0 AND \(sql)
        GROUP BY entry.size
        HAVING min(entry.inode) <> max(entry.inode) OR min(folder.device) <> max(folder.device)
        """
    }
}

/// Files with the same content.
package struct DuplicateGroup: Hashable, Sendable {
    /// Why they are taken for the same.
    package enum Evidence: String, Codable, Hashable, Sendable {
        /// Their SHA-256 was the same when they were read, and they have not changed since.
        case digest
        /// They were compared byte by byte just now.
        case bytes
    }

    /// The SHA-256.
    package var digest: [UInt8]
    /// Bytes of each.
    package var size: Int64
    package var evidence: Evidence
    /// The files, each with all its names; at most ``FileIndex/copyLimit`` names in all.
    package var copies: [FileCopy]
    /// The number of files in all.
    package var count: Int

    /// The bytes that one of them alone would not take.
    package var waste: UInt64 {
        let (waste, overflows) = UInt64(clamping: size).multipliedReportingOverflow(by: UInt64(max(count - 1, 0)))
        return overflows ? .max : waste
    }
}

/// A file with the names that the index knows of it: several are hard links to it.
package struct FileCopy: Hashable, Sendable {
    /// The file system it lies on, by the system's number.
    package var device: Int64
    package var inode: Int64
    package var paths: [[UInt8]]
    /// Nanoseconds since 1970.
    package var modified: Int64
    /// When it was read last, in seconds since 1970.
    package var read: Int64
    /// True while its location is not there.
    package var isOffline: Bool
    /// True when its bytes were found to be others than they were.
    package var isDamaged: Bool
}

/// What duplicates there are in all.
package struct DuplicateTotals: Hashable, Sendable {
    package var groups: UInt64 = 0
    /// The files that are one more than needed.
    package var files: UInt64 = 0
    /// The bytes those take.
    package var waste: UInt64 = 0

    package init(groups: UInt64 = 0, files: UInt64 = 0, waste: UInt64 = 0) {
        (self.groups, self.files, self.waste) = (groups, files, waste)
    }
}

extension FileIndex {
    /// The most names of one group that are told.
    package static let copyLimit = 1_000

    /// Reads what has to be read before duplicates can be told: of the files that have their size in common their
    /// identity, and all of the large ones that have their sample in common, too.
    ///
    /// What it stores stays: it may be killed, cancelled and called again.
    package func identifyCandidates(
        _ scope: DuplicateScope, counts: ContentCounts? = nil, steps: ContentSteps = ContentSteps()
    ) async throws -> ContentCounts {
        let counts = try await readContent(.candidates(scope), counts, steps)
        let all = try await readContent(.matching(scope), counts, steps)
        if all.files > 0 { tell() }
        return all
    }

    /// The digests of the groups of files that are the same by what was read of them, those that waste most first, with
    /// the totals of all.
    package func duplicates(
        _ scope: DuplicateScope, limit: Int = 10_000
    ) async throws -> (digests: [[UInt8]], totals: DuplicateTotals) {
        try await contentRead("find duplicates") { database in
            let rows = try Row.fetchCursor(
                database,
                sql: """
                    SELECT whole, size, count(*) FROM (
                        SELECT DISTINCT identity.whole, identity.size, identity.device, identity.inode
                        FROM identity JOIN entry ON entry.id = identity.entry JOIN folder ON folder.id = entry.folder
                        WHERE \(Self.isKnown) AND \(scope.sql))
                    GROUP BY whole HAVING count(*) > 1
                    """, arguments: scope.arguments)
            var (groups, totals) = ([(digest: [UInt8], waste: UInt64)](), DuplicateTotals())
            while let row = try rows.next() {
                let (size, count): (Int64, Int) = (row[1], row[2])
                let more = UInt64(count - 1)
                let (waste, overflows) = UInt64(clamping: size).multipliedReportingOverflow(by: more)
                groups.append(([UInt8](row[0] as Data), overflows ? .max : waste))
                totals.groups += 1
                totals.files = totals.files.saturatingAdding(more)
                totals.waste = totals.waste.saturatingAdding(overflows ? .max : waste)
            }
            groups.sort { ($1.waste, $0.digest[0]) < ($0.waste, $1.digest[0]) }
            return (groups.prefix(limit).map(\.digest), totals)
        }
    }

    /// True for an identity of a file that is as it was, and was read whole.
    private static let isKnown = """
        entry.kind = 0 AND entry.flags & 2 = 0 AND folder.gone = 0 AND identity.whole IS NOT NULL
            AND identity.damaged IS NULL
            AND identity.inode = entry.inode AND identity.size = entry.size AND identity.modified = entry.modified
            AND identity.changed = entry.changed AND identity.device = folder.device
        """

    /// The files with a digest, in a scope; `nil` when there is none.
    package func group(_ digest: [UInt8], _ scope: DuplicateScope) async throws -> DuplicateGroup? {
        try await contentRead("find duplicates") { database in
            let rows = try Row.fetchCursor(
                database,
                sql: """
                    SELECT folder.path, entry.name, identity.device, identity.inode, identity.modified, identity.read,
                        location.problem IS NOT NULL, identity.size
                    FROM identity JOIN entry ON entry.id = identity.entry JOIN folder ON folder.id = entry.folder
                        JOIN location ON location.id = folder.location
                    WHERE identity.whole = ? AND \(Self.isKnown) AND \(scope.sql)
                    ORDER BY folder.path, entry.name
                    """, arguments: [Data(digest)] + scope.arguments)
            var group = DuplicateGroup(digest: digest, size: 0, evidence: .digest, copies: [], count: 0)
            var (places, names) = ([FileKey: Int](), 0)
            while let row = try rows.next() {
                let key = FileKey(device: row[2], inode: row[3])
                if places[key] == nil {
                    group.count += 1
                    group.size = row[7]
                }
                names += 1
                guard names <= Self.copyLimit else {
                    places[key] = places[key] ?? -1
                    continue
                }
                let path = [UInt8](row[0] as Data).appending(name: [UInt8](row[1] as Data))
                if let place = places[key], place >= 0 {
                    group.copies[place].paths.append(path)
                } else {
                    places[key] = group.copies.count
                    group.copies.append(
                        FileCopy(
                            device: key.device, inode: key.inode, paths: [path], modified: row[4], read: row[5],
                            isOffline: row[6], isDamaged: false))
                }
            }
            return group.count == 0 ? nil : group
        }
    }

    private struct FileKey: Hashable {
        var device: Int64
        var inode: Int64
    }

    /// The file at a path, with what is known of its content.
    ///
    /// - Returns: its size, and its digest; `nil` for the digest when it was not read whole, or has changed since.
    /// - Throws: `.notFound` when no file of the library has the path.
    package func content(of path: [UInt8]) async throws -> (size: Int64, digest: [UInt8]?, isDamaged: Bool) {
        let shown = String(decoding: path, as: UTF8.self)
        guard let (folder, name) = path.splitPath else {
            throw KithError(.invalid, "\(shown) is not the path of a file.")
        }
        return try await contentRead("read \(shown)") { database in
            guard
                let row = try Row.fetchOne(
                    database,
                    sql: """
                        SELECT entry.kind, entry.size, \(IdentitySQL.isUnknown), identity.whole,
                            identity.damaged IS NOT NULL
                        FROM folder JOIN entry ON entry.folder = folder.id
                            LEFT JOIN identity ON identity.entry = entry.id
                        WHERE folder.path = ? AND entry.name = ? AND entry.flags & 2 = 0
                        """, arguments: [Data(folder), Data(name)])
            else {
                throw KithError(.notFound, "\(shown) is not in the library. `kith add` adds the folder it lies in.")
            }
            guard row[0] == StoredKind.file.rawValue else { throw KithError(.invalid, "\(shown) is no file.") }
            return (row[1], row[2] ? nil : (row[3] as Data?).map { [UInt8]($0) }, row[4])
        }
    }

    // MARK: - Byte by byte

    /// Compares the files of a group byte by byte.
    ///
    /// - Returns: the groups of those that are equal, each of two files or more: one, unless a digest deceives. What has
    ///   changed, is not there or cannot be read is in none.
    package func compare(
        _ group: DuplicateGroup, progress: @escaping @Sendable (Int) -> Void = { _ in }
    ) async throws -> [DuplicateGroup] {
        var tops: [(folder: OpenFolder, path: [UInt8])] = []
        let items = try await comparedItems(group)
        for location in try locations() where items.contains(where: { $0.item.folder.isWithin(location.path) }) {
            // Of one that is not there, or does not answer, nothing can be compared.
            if let top = try? await contentTop(location) { tops.append(top) }
            try Task.checkCancellation()
        }
        return try await disk.run { [tops] in
            let first = UnsafeMutableRawBufferPointer.allocate(byteCount: ContentReader.bufferSize, alignment: 16)
            let second = UnsafeMutableRawBufferPointer.allocate(byteCount: ContentReader.bufferSize, alignment: 16)
            defer {
                unsafe first.deallocate()
                unsafe second.deallocate()
            }
            let open = { (item: ContentItem) -> ContentFile? in
                guard let top = tops.first(where: { item.folder.isWithin($0.path) }) else { return nil }
                var reader = ContentReader(top: top.folder, path: top.path)
                // One that cannot be opened is in no group, whatever the reason.
                return try? reader.open(item)
            }
            var (rest, groups) = (items[...], [DuplicateGroup]())
            while let one = rest.popFirst() {
                guard rest.count > 0 else { break }
                guard let reference = open(one.item) else { continue }
                var (same, others) = ([one.copy], [(item: ContentItem, copy: FileCopy)]())
                for other in rest {
                    guard let file = open(other.item) else { continue }
                    switch try unsafe Self.compare(
                        (reference, one.item), (file, other.item), first, second, progress)
                    {
                    case .same: same.append(other.copy)
                    case .different: others.append(other)
                    case .changed: break
                    }
                }
                // The first may have changed while others were read.
                if same.count > 1, let now = try? reference.attributes(), one.item.isSame(as: now) {
                    groups.append(
                        DuplicateGroup(
                            digest: group.digest, size: group.size, evidence: .bytes, copies: same, count: same.count))
                }
                rest = others[...]
            }
            return groups
        }
    }

    private enum Comparison { case same, different, changed }

    private static func compare(
        _ one: (file: ContentFile, item: ContentItem), _ other: (file: ContentFile, item: ContentItem),
        _ first: UnsafeMutableRawBufferPointer, _ second: UnsafeMutableRawBufferPointer, _ progress: (Int) -> Void
    ) throws -> Comparison {
        var offset: Int64 = 0
        do throws(ContentFailure) {
            while offset < one.item.size {
                if Task.isCancelled { throw ContentFailure.cancelled }
                let count = try unsafe one.file.read(at: offset, first, upTo: first.count)
                let theirs = try unsafe other.file.read(at: offset, second, upTo: second.count)
                guard count > 0, theirs > 0 else { return .changed }
                guard count == theirs, let left = first.baseAddress, let right = second.baseAddress,
                    unsafe memcmp(left, right, count) == 0
                else { return .different }
                offset += Int64(count)
                progress(count)
            }
            return other.item.isSame(as: try other.file.checked()) ? .same : .changed
        } catch {
            if case .cancelled = error { throw CancellationError() }
            return .changed
        }
    }

    /// The files of a group as the index knows them now, each by its first name.
    private func comparedItems(_ group: DuplicateGroup) async throws -> [(item: ContentItem, copy: FileCopy)] {
        try await contentRead("compare files") { database in
            try group.copies.compactMap { copy in
                guard let path = copy.paths.first, let (folder, name) = path.splitPath,
                    let row = try Row.fetchOne(
                        database.cachedStatement(
                            sql: """
                                SELECT entry.id, folder.device, entry.size, entry.modified, entry.changed, entry.inode
                                FROM folder JOIN entry ON entry.folder = folder.id
                                WHERE folder.path = ? AND entry.name = ? AND entry.kind = 0 AND entry.flags & 2 = 0
                                """), arguments: [Data(folder), Data(name)])
                else { return nil }
                let item = ContentItem(
                    entry: row[0], folder: folder, device: row[1], name: name, size: row[2], modified: row[3],
                    changed: row[4], inode: row[5])
                return item.inode == copy.inode && item.device == copy.device && item.size == group.size
                    ? (item, copy) : nil
            }
        }
    }
}
