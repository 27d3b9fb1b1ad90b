package import CKithSystem
import Foundation
import GRDB
import KithCatalog
package import KithContent
import KithIO
package import KithWire

/// A file of an index whose content is to be read, as the index knows it.
package struct ExtractionItem: Hashable, Sendable {
    /// The number of its entry.
    package var entry: Int64
    package var location: Int64
    var folder: [UInt8]
    var name: [UInt8]
    var device: Int64
    package var inode: Int64
    /// Bytes.
    package var size: Int64
    /// Nanoseconds since 1970, as the next.
    package var modified: Int64
    package var changed: Int64

    /// The whole path.
    package var path: [UInt8] { folder.appending(name: name) }
}

/// What came of reading a file.
package enum ExtractionOutcome: Hashable, Sendable {
    case read(ContentProperties, text: String?)
    /// It cannot be read, and is not tried again as it is.
    case unreadable(String)
}

/// What an index knows of the content of a file.
package struct ExtractedContent: Hashable, Sendable {
    package var properties: ContentProperties
    /// The bytes of its text in the index.
    package var textBytes: Int
    /// Why its content cannot be read; `nil` when it was.
    package var problem: String?
}

/// An open file, to be handed to whoever reads it.
package final class ExtractionFile: Sendable {
    /// The system's number for it, for reading.
    package let descriptor: Int32

    init(taking descriptor: Int32) { self.descriptor = descriptor }

    deinit { kith_file_close(descriptor) }
}

extension FileIndex {
    /// The most bytes of text of all files together.
    package static let textLimit: Int64 = 4 << 30
    /// What is read of files is this; a later version with a larger one reads all again.
    static let extractionVersion: Int64 = 1

    /// True for a file whose content may be of use and has not been read as it is now.
    private static let isPending = """
        entry.kind = 0 AND entry.flags & 2 = 0 AND entry.size > 0
            AND (entry.category IN ('image', 'video', 'audio', 'document', 'book', 'text', 'code')
                OR entry.category = 'other' AND entry.extension = '' AND entry.size <= 4194304)
            AND (extraction.entry IS NULL OR extraction.version < \(extractionVersion)
                OR extraction.inode <> entry.inode OR extraction.size <> entry.size
                OR extraction.modified <> entry.modified OR extraction.changed <> entry.changed)
        """
    private static let itemColumns = """
        entry.id, folder.location, folder.path, entry.name, folder.device, entry.inode, entry.size, entry.modified,
            entry.changed
        """

    private static func item(_ row: Row) -> ExtractionItem {
        ExtractionItem(
            entry: row[0], location: row[1], folder: [UInt8](row[2] as Data), name: [UInt8](row[3] as Data),
            device: row[4], inode: row[5], size: row[6], modified: row[7], changed: row[8])
    }

    /// The number of files of a location whose content is to be read.
    package func extractionCount(_ location: Int64) async throws(KithError) -> Int {
        try await extractionRead { database in
            try Int.fetchOne(
                database,
                sql: """
                    SELECT count(*) FROM folder JOIN entry ON entry.folder = folder.id
                        LEFT JOIN extraction ON extraction.entry = entry.id
                    WHERE folder.location = ? AND \(Self.isPending)
                    """, arguments: [location]) ?? 0
        }
    }

    /// Files of a location whose content is to be read, in the order of their numbers: those with a larger one than `entry`.
    package func filesToExtract(
        _ location: Int64, after entry: Int64, limit: Int
    ) async throws(KithError) -> [ExtractionItem] {
        try await extractionRead { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT \(Self.itemColumns) FROM entry JOIN folder ON folder.id = entry.folder
                        LEFT JOIN extraction ON extraction.entry = entry.id
                    WHERE entry.id > ? AND folder.location = ? AND \(Self.isPending)
                    ORDER BY entry.id LIMIT ?
                    """, arguments: [entry, location, limit]
            ).map(Self.item)
        }
    }

    /// The file at a path.
    ///
    /// - Throws: `.notFound` when the library does not hold it, `.invalid` when it is no file.
    package func extractionItem(at path: [UInt8]) async throws(KithError) -> ExtractionItem {
        let shown = String(decoding: path, as: UTF8.self)
        guard let (folder, name) = path.splitPath else { throw KithError(.invalid, "\(shown) is no file.") }
        let found: (ExtractionItem, Bool)? = try await extractionRead { database in
            try Row.fetchOne(
                database,
                sql: """
                    SELECT \(Self.itemColumns), entry.kind = 0 FROM entry JOIN folder ON folder.id = entry.folder
                    WHERE folder.path = ? AND entry.name = ? AND entry.flags & 2 = 0
                    """, arguments: [Data(folder), Data(name)]
            ).map { (Self.item($0), $0[9]) }
        }
        guard let (item, isFile) = found else {
            throw KithError(.notFound, "\(shown) is not in the library. `kith add FOLDER` adds what is in one.")
        }
        guard isFile else { throw KithError(.invalid, "\(shown) is no file.") }
        return item
    }

    /// The entry with a number; `nil` when there is none.
    package func entry(_ id: Int64) async throws(KithError) -> FoundEntry? {
        try await extractionRead { database in
            let row = try Row.fetchOne(
                database,
                sql: """
                    SELECT folder.path, entry.name, entry.kind, entry.category, entry.size, entry.modified, entry.added,
                        folder.location, entry.flags
                    FROM entry JOIN folder ON folder.id = entry.folder WHERE entry.id = ? AND entry.flags & 2 = 0
                    """, arguments: [id])
            guard let row else { return nil }
            let kind = StoredKind(rawValue: row[2])
            let isFile = kind == .file
            return FoundEntry(
                id: id, folder: [UInt8](row[0] as Data), name: [UInt8](row[1] as Data),
                kind: kind == .folder ? .folder : kind == .link ? .link : .file,
                category: FileCategory(rawValue: row[3]), size: isFile ? UInt64(clamping: row[4] as Int64) : 0,
                modified: row[5], added: row[6], location: row[7],
                isHidden: IndexSchema.Flags(rawValue: row[8]).contains(.hidden),
                tags: try TagTree(database).paths(of: id, database))
        }
    }

    /// Opens a file to be read: the one that the index knows, beneath the top of its location, through no link.
    ///
    /// Blocks while the disk works.
    ///
    /// - Parameters:
    ///   - item: The file.
    ///   - protection: What belongs to kith itself, and is not read for anybody.
    /// - Returns: `nil` when something else is there now, or it has changed: the next scan finds that.
    /// - Throws: `.denied` for what is protected or may not be read; what the disk says.
    package func open(
        _ item: ExtractionItem, protection: UnsafePointer<kith_protection>? = nil
    ) throws(KithError) -> ExtractionFile? {
        let top = try location(item.location)
        let path = item.path
        guard path.starts(with: top.path) else { return nil }
        let relative = Array(path.dropFirst(top.path.count).drop { $0 == UInt8(ascii: "/") })
        let shown = String(decoding: path, as: UTF8.self)
        do {
            let folder = try OpenFolder(path: top.path)
            // What cannot be told is kept.
            if let protection = unsafe protection, unsafe kith_protection_covers(protection, folder.number) != 0 {
                throw KithError.kept(shown)
            }
            let flags = Int32(KITH_FILE_NO_FOLLOW) | Int32(KITH_FILE_NO_LINKS)
            let descriptor = unsafe withCString(relative) { relative in
                unsafe kith_open_beneath(folder.number, relative, flags, 0, 1, protection)
            }
            if descriptor == -KITH_ERROR_PROTECTED { throw KithError.kept(shown) }
            // Gone, or a link on the way now.
            if descriptor == -ENOENT || descriptor == -ELOOP || descriptor == -ENOTDIR { return nil }
            guard descriptor >= 0 else { throw SystemError(-descriptor) }
            let file = ExtractionFile(taking: descriptor)
            var info = kith_file_info()
            let status = unsafe kith_file_stat(descriptor, "", &info)
            guard status >= 0 else { throw SystemError(-status) }
            let now = FileAttributes(info)
            let isSame =
                now.kind == .file && now.inode == item.inode && now.size == item.size && now.modified == item.modified
                && now.changed == item.changed
            return isSame ? file : nil
        } catch let error as KithError {
            throw error
        } catch {
            let isGone = (error as? SystemError)?.number == ENOENT
            throw KithError(isGone ? .unreachable : .denied, "\(shown) cannot be read: \(error).")
        }
    }

    /// Stores what came of reading files; one that has changed in the index meanwhile is left to be read again.
    package func storeExtractions(
        _ results: [(item: ExtractionItem, outcome: ExtractionOutcome)]
    ) async throws(KithError) {
        guard !results.isEmpty else { return }
        do {
            try await database.write { [now] database in
                let time = now()
                var room =
                    try Self.textLimit
                    - (Int64.fetchOne(database, sql: "SELECT ifnull(sum(text), 0) FROM extraction WHERE text > 0") ?? 0)
                for (item, outcome) in results { try Self.store(item, outcome, time, &room, database) }
            }
            tell()
        } catch {
            throw Self.failure("store what is in files", error)
        }
    }

    private static func store(
        _ item: ExtractionItem, _ outcome: ExtractionOutcome, _ time: Int64, _ room: inout Int64, _ database: Database
    ) throws {
        let isThere = try Bool.fetchOne(
            database.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM entry
                        WHERE id = ? AND inode = ? AND size = ? AND modified = ? AND changed = ?)
                    """), arguments: [item.entry, item.inode, item.size, item.modified, item.changed])
        guard isThere == true else { return }
        try database.cachedStatement(sql: "DELETE FROM extraction WHERE entry = ?").execute(arguments: [item.entry])
        try database.cachedStatement(sql: "DELETE FROM media WHERE entry = ?").execute(arguments: [item.entry])
        var (bytes, problem): (Int, String?) = (0, nil)
        switch outcome {
        case .unreadable(let reason): problem = reason
        case .read(let properties, let text):
            if !properties.isEmpty { try store(properties, of: item.entry, database) }
            if let text, text.utf8.count <= room {
                bytes = text.utf8.count
                room -= Int64(bytes)
                try database.cachedStatement(sql: "INSERT INTO text_index (rowid, text) VALUES (?, ?)").execute(
                    arguments: [item.entry, text])
            }
        }
        try database.cachedStatement(
            sql: """
                INSERT INTO extraction (entry, version, inode, size, modified, changed, read, text, problem)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            item.entry, extractionVersion, item.inode, item.size, item.modified, item.changed, time, bytes, problem,
        ])
    }

    private static func store(_ properties: ContentProperties, of entry: Int64, _ database: Database) throws {
        // A camera without a zone is taken to have been where this device is.
        let taken = properties.taken.map { taken in
            let zone = TimeZone.current.secondsFromGMT(for: Date(timeIntervalSince1970: Double(taken)))
            return taken - Int64(properties.takenOffset.map { $0 * 60 } ?? zone)
        }
        try database.cachedStatement(
            sql: """
                INSERT INTO media (entry, width, height, duration, taken, camera, has_place, properties)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            entry, properties.width, properties.height, properties.duration, taken, properties.camera,
            properties.latitude != nil, Data(try CBOREncoder().encode(properties)),
        ])
    }

    /// What is known of the content of a file; `nil` when it has not been read as the index knows it.
    package func extracted(_ item: ExtractionItem) async throws(KithError) -> ExtractedContent? {
        try await extractionRead { database in
            guard
                let row = try Row.fetchOne(
                    database,
                    sql: """
                        SELECT extraction.text, extraction.problem, media.properties
                        FROM extraction LEFT JOIN media USING (entry)
                        WHERE entry = ? AND inode = ? AND size = ? AND modified = ? AND changed = ? AND version = ?
                        """,
                    arguments: [
                        item.entry, item.inode, item.size, item.modified, item.changed, Self.extractionVersion,
                    ])
            else { return nil }
            let properties = try (row[2] as Data?).map {
                try CBORDecoder().decode(ContentProperties.self, from: [UInt8]($0))
            }
            return ExtractedContent(
                properties: properties ?? ContentProperties(), textBytes: row[0], problem: row[1])
        }
    }

    private func extractionRead<Result: Sendable>(
        _ work: @escaping @Sendable (Database) throws -> Result
    ) async throws(KithError) -> Result {
        do { return try await read(work) } catch { throw Self.failure("read what is known of files", error) }
    }
}

extension KithError {
    /// The refusal of a file that belongs to kith itself.
    fileprivate static func kept(_ path: String) -> KithError {
        KithError(.denied, "\(path) belongs to kith itself, and is not read.")
    }
}
