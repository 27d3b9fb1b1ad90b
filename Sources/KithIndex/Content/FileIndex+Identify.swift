import Foundation
import GRDB
import KithIO
import KithWire
import Synchronization

/// What an identification, or a verification, has done.
package struct ContentCounts: Codable, Hashable, Sendable {
    /// The files that were to be read at the beginning, and their bytes.
    package var total: UInt64 = 0
    package var totalBytes: UInt64 = 0
    /// The files done, and the bytes of those.
    package var files: UInt64 = 0
    package var bytes: UInt64 = 0
    /// Those that are not as the index knew them: the next scan and identification find them.
    package var changed: UInt64 = 0
    /// Those that were not there.
    package var gone: UInt64 = 0
    /// Those that could not be read.
    package var unreadable: UInt64 = 0
    /// Those whose bytes are not what they were, though nothing says that anybody changed them.
    package var damaged: UInt64 = 0

    package init() {}

    /// Those of which the index knows more than before.
    fileprivate var stored: UInt64 {
        files.saturatingSubtracting(changed).saturatingSubtracting(gone).saturatingSubtracting(unreadable)
    }
}

/// What whoever has files read is told, and asked.
package struct ContentSteps: Sendable {
    /// Called after each transaction.
    ///
    /// What was done until then is not done again. What it throws ends the work.
    package var stored: @Sendable (ContentCounts) async throws -> Void
    /// Called often, with the path of a file at hand.
    package var progress: @Sendable (ContentCounts, [UInt8]) -> Void
    /// Called for a file that could not be read, is gone or damaged.
    package var problem: @Sendable (ContentProblem) async -> Void

    package init(
        stored: @escaping @Sendable (ContentCounts) async throws -> Void = { _ in },
        progress: @escaping @Sendable (ContentCounts, [UInt8]) -> Void = { _, _ in },
        problem: @escaping @Sendable (ContentProblem) async -> Void = { _ in }
    ) {
        self.stored = stored
        self.progress = progress
        self.problem = problem
    }
}

/// A file with which something is wrong.
package struct ContentProblem: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable {
        /// Its bytes are not what they were, though its size and its times are.
        case damaged
        case gone
        case unreadable
    }

    package var kind: Kind
    package var path: [UInt8]
    /// What the disk says; empty when that is all.
    package var reason: String
}

/// The files that are read.
enum ContentTask: Sendable {
    /// Those of a location whose identity is not known, at that depth.
    case identify(location: Int64, ContentDepth)
    /// Those of a location that have an identity and were not read after a time, in seconds since 1970.
    case verify(location: Int64, before: Int64)
    /// Those that may be duplicates and whose identity is not known.
    case candidates(DuplicateScope)
    /// Of the same, those of which only the sample is known, and that have it in common with others.
    case matching(DuplicateScope)

    var depth: ContentDepth {
        switch self {
        case .identify(_, let depth): depth
        case .candidates: .sampled
        case .verify, .matching: .whole
        }
    }
}

extension FileIndex {
    /// The most files, and bytes, of one transaction.
    static let contentBatch = (files: 2_000, bytes: Int64(256 << 20))
    /// A file that was changed so short a time ago may change again within one tick of the file system's clock.
    private static let settling: Int64 = 50_000_000

    /// Reads the files of a location whose identity is not known, or not at that depth.
    ///
    /// What it stores at each step stays: it may be killed, cancelled and called again.
    ///
    /// - Returns: what it did, with what `counts` says was done before.
    /// - Throws: `.notFound` when there is no such location, `.unreachable` when its folder is not there; what `steps`
    ///   throw.
    package func identify(
        _ location: Int64, depth: ContentDepth = .sampled, counts: ContentCounts? = nil,
        steps: ContentSteps = ContentSteps()
    ) async throws -> ContentCounts {
        let before = counts ?? ContentCounts()
        let counts = try await readContent(.identify(location: location, depth), counts, steps)
        // Of what could not be read there is nothing new: whoever is told comes again.
        if counts.stored > before.stored { tell() }
        return counts
    }

    /// Reads the files of a location again that have an identity, and compares.
    ///
    /// A file with the same size and times and other bytes is damaged, and keeps the identity it had; it is said again each
    /// time, and is no duplicate of anything. Those of which only a sample was known are known whole from then on.
    ///
    /// What was read after `began`, in seconds since 1970, is not read again.
    ///
    /// - Returns: what it did, with what `counts` says was done before.
    /// - Throws: as ``identify(_:depth:counts:steps:)``.
    package func verify(
        _ location: Int64, began: Int64, counts: ContentCounts? = nil, steps: ContentSteps = ContentSteps()
    ) async throws -> ContentCounts {
        try await readContent(.verify(location: location, before: began), counts, steps)
    }

    /// The number of files of a location that ``identify(_:depth:counts:steps:)`` would read.
    package func unidentified(in location: Int64) async throws -> Int {
        try await pending(.identify(location: location, .sampled)).ids.count
    }

    /// True when ``identifyCandidates(_:counts:steps:)`` would read anything.
    package func hasCandidates(_ scope: DuplicateScope) async throws -> Bool {
        let candidates = try await pending(.candidates(scope)).ids
        if !candidates.isEmpty { return true }
        return try await !pending(.matching(scope)).ids.isEmpty
    }

    func readContent(
        _ task: ContentTask, _ before: ContentCounts?, _ steps: ContentSteps
    ) async throws -> ContentCounts {
        let (ids, bytes) = try await pending(task)
        var counts = before ?? ContentCounts()
        // What is left, and what is done.
        counts.total = counts.files.saturatingAdding(UInt64(ids.count))
        counts.totalBytes = counts.bytes.saturatingAdding(bytes)
        var tops: [Int64: (folder: OpenFolder, path: [UInt8])] = [:]
        for location in try locations() {
            // One that is not there is left out, where others are asked as well.
            do throws(KithError) { tops[location.id] = try await contentTop(location) } catch {
                switch task {
                case .identify(location.id, _), .verify(location.id, _): throw error
                default: continue
                }
            }
        }
        var rest = ids[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let items = try await contentItems(rest.prefix(Self.contentBatch.files), task)
            var (taken, sum) = (0, Int64(0))
            while taken < items.count, taken == 0 || sum <= Self.contentBatch.bytes {
                sum = sum.saturatingAdding(items[taken].item?.size ?? 0)
                taken += 1
            }
            rest = rest.dropFirst(taken)
            let batch = items.prefix(taken).compactMap { entry in
                entry.item.flatMap { item in tops[entry.location].map { (item, $0) } }
            }
            // What has no item any more has gone from the index meanwhile.
            counts.files = counts.files.saturatingAdding(UInt64(taken - batch.count))
            let live = Mutex(counts)
            let outcomes = try await readBatch(batch, task.depth) { bytes, path in
                let now = live.withLock { counts in
                    counts.bytes = counts.bytes.saturatingAdding(UInt64(bytes))
                    return counts
                }
                steps.progress(now, path)
            } done: {
                live.withLock { $0.files = $0.files.saturatingAdding(1) }
            }
            let problems = try await storeContent(batch.map(\.0), outcomes, task, &counts)
            for problem in problems { await steps.problem(problem) }
            try await steps.stored(counts)
        }
        return counts
    }

    /// The folder of a location, held open.
    ///
    /// - Throws: `.unreachable` when it is not there, or does not answer.
    func contentTop(_ location: IndexLocation) async throws(KithError) -> (folder: OpenFolder, path: [UInt8]) {
        let shown = String(decoding: location.path, as: UTF8.self)
        do {
            _ = try await presence.attributes(of: location.path)
            return (try OpenFolder(path: location.path), location.path)
        } catch let error as SystemError {
            throw KithError(.unreachable, "The files in \(shown) cannot be read: \(error.presenceText).")
        } catch {
            throw Self.failure("read the files in \(shown)", error)
        }
    }

    /// Reads files with several readers, each those of a run of folders.
    private func readBatch(
        _ batch: [(ContentItem, (folder: OpenFolder, path: [UInt8]))], _ depth: ContentDepth,
        progress: @escaping @Sendable (Int, [UInt8]) -> Void, done: @escaping @Sendable () -> Void
    ) async throws -> [ContentOutcome] {
        let now = Int64(Date().timeIntervalSince1970 * 1_000_000_000)
        let youngest = batch.lazy.map { now.saturatingSubtracting($0.0.changed) }.filter { $0 >= 0 }.min() ?? .max
        if youngest < Self.settling { try await Task.sleep(for: .nanoseconds(Self.settling - youngest)) }
        let readers = min(max(ProcessInfo.processInfo.activeProcessorCount, 2) * 2, 8)
        let size = max((batch.count + readers - 1) / readers, 1)
        return try await withThrowingTaskGroup(of: (Int, [ContentOutcome]).self) { group in
            for start in stride(from: 0, to: batch.count, by: size) {
                let part = batch[start..<min(start + size, batch.count)]
                group.addTask(executorPreference: disk) {
                    (start, try Self.read(part, depth, progress, done))
                }
            }
            var parts: [(Int, [ContentOutcome])] = []
            for try await part in group { parts.append(part) }
            return parts.sorted { $0.0 < $1.0 }.flatMap(\.1)
        }
    }

    private static func read(
        _ part: ArraySlice<(ContentItem, (folder: OpenFolder, path: [UInt8]))>, _ depth: ContentDepth,
        _ progress: (Int, [UInt8]) -> Void, _ done: () -> Void
    ) throws -> [ContentOutcome] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: ContentReader.bufferSize, alignment: 16)
        defer { unsafe buffer.deallocate() }
        var reader: (path: [UInt8], reader: ContentReader)?
        var outcomes: [ContentOutcome] = []
        outcomes.reserveCapacity(part.count)
        for (item, top) in part {
            if Task.isCancelled { throw CancellationError() }
            var current =
                reader.flatMap { $0.path == top.path ? $0.reader : nil }
                ?? ContentReader(top: top.folder, path: top.path)
            outcomes.append(
                try unsafe current.digest(item, depth, buffer) { bytes throws(CancellationError) in
                    if Task.isCancelled { throw CancellationError() }
                    // A small file is told when it is done.
                    progress(bytes, bytes == item.size ? [] : item.path)
                })
            done()
            reader = (top.path, current)
        }
        return outcomes
    }

    // MARK: - The database

    /// The numbers of the files that are to be read, in the order of their folders, and the bytes they have.
    private func pending(_ task: ContentTask) async throws -> (ids: [Int64], bytes: UInt64) {
        try await contentRead("list the files to be read") { database in
            let (condition, arguments) = Self.condition(task)
            let rows = try Row.fetchCursor(
                database,
                sql: """
                    SELECT entry.id, entry.size
                    FROM folder JOIN entry ON entry.folder = folder.id LEFT JOIN identity ON identity.entry = entry.id
                    WHERE entry.kind = 0 AND entry.flags & 2 = 0 AND folder.gone = 0 AND \(condition)
                    ORDER BY folder.id, entry.inode
                    """, arguments: arguments)
            var (ids, bytes) = ([Int64](), UInt64(0))
            while let row = try rows.next() {
                ids.append(row[0])
                bytes = bytes.saturatingAdding(UInt64(clamping: row[1] as Int64))
            }
            return (ids, bytes)
        }
    }

    /// True for a file of a location that is there.
    private static let isPresent =
        "EXISTS (SELECT 1 FROM location WHERE location.id = folder.location AND location.problem IS NULL)"

    private static func condition(_ task: ContentTask) -> (String, StatementArguments) {
        switch task {
        case .identify(let location, .sampled):
            ("folder.location = ? AND (\(IdentitySQL.isUnknown))", [location])
        case .identify(let location, .whole):
            ("folder.location = ? AND (\(IdentitySQL.isUnknown) OR identity.whole IS NULL)", [location])
        case .verify(let location, let before):
            ("folder.location = ? AND identity.entry IS NOT NULL AND identity.read <= ?", [location, before])
        case .candidates(let scope):
            (
                "\(scope.sql) AND (\(IdentitySQL.isUnknown)) AND \(isPresent) AND entry.size IN (\(scope.sizes))",
                scope.arguments + scope.arguments
            )
        case .matching(let scope):
            (
                """
                \(scope.sql) AND NOT (\(IdentitySQL.isUnknown)) AND \(isPresent) AND identity.whole IS NULL AND identity.sample IN (
                    SELECT other.sample FROM identity AS other JOIN entry AS file ON file.id = other.entry
                    WHERE other.sample IS NOT NULL AND other.size = file.size AND file.flags & 2 = 0
                    GROUP BY other.sample HAVING count(*) > 1)
                """, scope.arguments
            )
        }
    }

    /// The files with these numbers, in their order; `nil` for what is not in the index any more.
    private func contentItems(
        _ ids: ArraySlice<Int64>, _ task: ContentTask
    ) async throws -> [(item: ContentItem?, location: Int64)] {
        let ofIdentity = if case .verify = task { true } else { false }
        return try await contentRead("list the files to be read") { database in
            let statement = try database.cachedStatement(
                sql: """
                    SELECT folder.path, folder.device, entry.name, entry.size, entry.modified, entry.changed,
                        entry.inode, folder.location, identity.size, identity.modified, identity.changed,
                        identity.inode, identity.sample, identity.whole, identity.entry, identity.device
                    FROM entry JOIN folder ON folder.id = entry.folder LEFT JOIN identity ON identity.entry = entry.id
                    WHERE entry.id = ? AND entry.kind = 0 AND entry.flags & 2 = 0
                    """)
            return try ids.map { id in
                guard let row = try Row.fetchOne(statement, arguments: [id]) else { return (nil, 0) }
                // What is verified is compared with what it was when it was read.
                let first = ofIdentity && row[14] != nil ? 8 : 3
                let known: ContentDigest? =
                    row[14] == nil
                    ? nil
                    : ContentDigest(
                        sample: (row[12] as Data?).map { [UInt8]($0) }, whole: (row[13] as Data?).map { [UInt8]($0) })
                let item = ContentItem(
                    entry: id, folder: [UInt8](row[0] as Data), device: row[1], name: [UInt8](row[2] as Data),
                    size: row[first], modified: row[first + 1], changed: row[first + 2], inode: row[first + 3],
                    known: known)
                return (item, row[7])
            }
        }
    }

    /// Stores what was read, and returns what is wrong.
    private func storeContent(
        _ items: [ContentItem], _ outcomes: [ContentOutcome], _ task: ContentTask, _ counts: inout ContentCounts
    ) async throws -> [ContentProblem] {
        let before = counts
        let result = try await contentWrite("store what was read") { [now] database in
            var (counts, problems) = (before, [ContentProblem]())
            let time = now()
            for (item, outcome) in zip(items, outcomes) {
                counts.files = counts.files.saturatingAdding(1)
                counts.bytes = counts.bytes.saturatingAdding(UInt64(clamping: item.size))
                switch outcome {
                case .read(let digest):
                    if case .verify = task, let known = item.known, !known.agrees(with: digest) {
                        counts.damaged += 1
                        problems.append(ContentProblem(kind: .damaged, path: item.path, reason: ""))
                        try database.cachedStatement(
                            sql: "UPDATE identity SET damaged = ifnull(damaged, ?1), read = ?1 WHERE entry = ?2"
                        ).execute(arguments: [time, item.entry])
                    } else {
                        try Self.store(digest, of: item, time, database)
                    }
                case .changed: counts.changed += 1
                case .gone:
                    counts.gone += 1
                    if case .verify = task {
                        problems.append(ContentProblem(kind: .gone, path: item.path, reason: ""))
                    }
                case .unreadable(let reason):
                    counts.unreadable += 1
                    problems.append(ContentProblem(kind: .unreadable, path: item.path, reason: reason))
                }
            }
            return (counts, problems)
        }
        counts = result.0
        return result.1
    }

    private static func store(
        _ digest: ContentDigest, of item: ContentItem, _ time: Int64, _ database: Database
    ) throws {
        let statement = try database.cachedStatement(
            sql: """
                INSERT INTO identity (entry, device, inode, size, modified, changed, sample, whole, read)
                SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE EXISTS (SELECT 1 FROM entry WHERE id = ?1)
                ON CONFLICT (entry) DO UPDATE SET device = ?2, inode = ?3, size = ?4, modified = ?5, changed = ?6,
                    sample = ?7, whole = ?8, read = ?9, damaged = NULL
                """)
        statement.setUncheckedArguments([
            item.entry, item.device, item.inode, item.size, item.modified, item.changed, digest.sample.map { Data($0) },
            digest.whole.map { Data($0) }, time,
        ])
        try statement.execute()
    }

    func contentRead<Result: Sendable>(
        _ what: String, _ work: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        do { return try await read(work) } catch { throw Self.failure(what, error) }
    }

    private func contentWrite<Result: Sendable>(
        _ what: String, _ work: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        do { return try await database.write(work) } catch { throw Self.failure(what, error) }
    }
}

extension ContentDigest {
    /// True unless one says otherwise where both were read.
    fileprivate func agrees(with other: ContentDigest) -> Bool {
        if let whole, let theirs = other.whole, whole != theirs { return false }
        if let sample, let theirs = other.sample, sample != theirs { return false }
        return true
    }
}

/// Conditions in SQL over the tables `entry`, `folder` and `identity`.
enum IdentitySQL {
    /// True where nothing is known of a file as it is now; `identity` is joined from the left.
    static let isUnknown = """
        identity.entry IS NULL OR identity.inode <> entry.inode OR identity.size <> entry.size
            OR identity.modified <> entry.modified OR identity.changed <> entry.changed
            OR identity.device <> folder.device
        """

    /// True for a file that another file, not another name of it, has the SHA-256 of.
    ///
    /// It says nothing of large files of which only a sample was read.
    static let isDuplicate = """
        EXISTS (
            SELECT 1 FROM identity AS mine JOIN identity AS other ON other.whole = mine.whole
                JOIN entry AS file ON file.id = other.entry
            WHERE mine.entry = entry.id AND mine.damaged IS NULL AND mine.inode = entry.inode
                AND mine.size = entry.size AND mine.size > 0 AND mine.modified = entry.modified
                AND mine.changed = entry.changed
                AND (other.inode <> mine.inode OR other.device <> mine.device) AND other.damaged IS NULL
                AND file.flags & 2 = 0 AND other.inode = file.inode AND other.size = file.size
                AND other.modified = file.modified AND other.changed = file.changed)
        """
}
