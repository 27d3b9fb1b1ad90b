import CKithSystem
import Foundation
import GRDB
import KithCatalog
import KithIO
package import KithWire
package import Logging
import Synchronization

/// An index of files: their names and attributes, in a database of its own, searched without the disks they lie on.
///
/// It has locations: folders of this machine, with all that is beneath them. Nothing in them is ever changed. Reading goes
/// on while a scan writes; killed at any moment it opens as of the last transaction, and the next scan finds the rest.
package final class FileIndex: Sendable {
    /// The path of its database.
    package let path: String
    let database: DatabasePool
    let logger: Logger
    /// The time in seconds since 1970.
    let now: @Sendable () -> Int64
    /// A folder that is in no location, wherever it lies: one in which this index, or a log of it, changes with each change.
    let excluded: [UInt8]?
    /// The most names of one transaction of a scan, about.
    let batch: Int
    /// For walks.
    let disk = DiskExecutor()
    /// How long a disk is waited for that does not answer.
    let patience: Duration
    /// Finds out which locations are there.
    let presence: Presence
    /// For tasks that read.
    let reading = ReadingQueue()
    /// The scans that go on; each takes the database for a transaction at a time.
    let scans = Mutex(RunningScans())
    /// The names in memory, once they were searched.
    let names = NameTable()
    /// Held by whoever reads them.
    let namesLoading = AsyncMutex()
    private let observers = Mutex(Observers())

    private struct Observers {
        var next = 0
        var streams: [Int: AsyncStream<Void>.Continuation] = [:]
        var followers: [Int: ChangeFollower.Box] = [:]
    }

    /// Opens an index, making it when it is not there.
    ///
    /// - Parameters:
    ///   - path: Where its database is.
    ///   - excluded: A folder that is in no location, wherever it lies.
    ///   - batch: The most names of one transaction of a scan, about.
    ///   - patience: How long a disk is waited for that does not answer; one may have to begin to turn first.
    ///   - logger: Told what a person is not.
    ///   - now: The time in seconds since 1970.
    /// - Throws: `.corrupt` when it is damaged or was written by a later version; what the disk says.
    package init(
        path: String, excluding excluded: String? = nil, batch: Int = 4_000, patience: Duration = .seconds(30),
        logger: Logger,
        now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
    ) throws(KithError) {
        self.path = path
        self.batch = batch
        self.patience = patience
        presence = Presence(patience: patience)
        // As locations are: without links in it.
        self.excluded = excluded.map { Array(URL(fileURLWithPath: $0).resolvingSymlinksInPath().path.utf8) }
        self.logger = logger
        self.now = now
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        configuration.busyMode = .timeout(5)
        configuration.label = "kith.index"
        configuration.maximumReaderCount = ReadingQueue.connections
        configuration.prepareDatabase { database in
            // What is lost by a failure of power is found again by a scan; the database stays whole.
            try database.execute(sql: "PRAGMA synchronous = NORMAL")
            // In KiB. Readers find what is behind it in memory, where the system keeps the file.
            try database.execute(sql: "PRAGMA cache_size = \(database.configuration.readonly ? -2048 : -8192)")
        }
        do {
            try Self.makePrivate(path)
            database = try DatabasePool(path: path, configuration: configuration)
            if try database.read({ try IndexSchema.migrator.hasBeenSuperseded($0) }) {
                throw KithError(.corrupt, "\(path) was written by a later version of Kith. Update this one.")
            }
            try IndexSchema.migrator.migrate(database)
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.failure("open \(path)", error)
        }
    }

    /// Makes the file of the database, or sees to it that nobody else may read it: what SQLite makes beside it is as it is.
    private static func makePrivate(_ path: String) throws(KithError) {
        let flags = Int32(KITH_FILE_READ_WRITE | KITH_FILE_NO_FOLLOW)
        for name in [path, path + "-wal", path + "-shm"] {
            var file = unsafe kith_open(-1, name, flags, 0)
            if file == -ENOENT, name == path {
                file = unsafe kith_open(-1, name, flags | Int32(KITH_FILE_CREATE), 0o600)
            }
            // Nothing is there; or the database says better what is wrong with it.
            guard file >= 0 else { continue }
            defer { kith_file_close(file) }
            let status = kith_file_chmod(file, 0o600)
            guard status >= 0 else {
                throw KithError(.denied, "\(name) cannot be kept from others: \(SystemError(-status)).")
            }
        }
    }

    /// Closes the database; nothing else may be called after it.
    package func close() {
        // Outside of the lock: a stream that ends takes itself out.
        let (streams, followers) = observers.withLock { observers in
            defer { (observers.streams, observers.followers) = ([:], [:]) }
            return (Array(observers.streams.values), Array(observers.followers.values))
        }
        for stream in streams { stream.finish() }
        for box in followers { box.finish() }
        try? database.close()
    }

    /// What a failure of the database says to a person.
    static func failure(_ what: String, _ error: any Error) -> KithError {
        switch error {
        case let error as KithError: return error
        case is CancellationError: return KithError(.cancelled, "Could not \(what): it was cancelled.")
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL:
            return KithError(.exhausted, "Could not \(what): the disk is full.", cause: error)
        case let error as DatabaseError
        where error.resultCode == .SQLITE_CORRUPT || error.resultCode == .SQLITE_NOTADB:
            return KithError(
                .corrupt,
                "Could not \(what): the index is damaged. Delete it and add its locations again; your files are not in it.",
                cause: error)
        // The statement is nobody else's business.
        case let error as DatabaseError:
            return KithError(.internal, "Could not \(what): \(error.message ?? "the database failed").", cause: error)
        default: return KithError(.internal, "Could not \(what): \(error)", cause: error)
        }
    }

    /// Gives back memory that can be had again: what the database has read, and what the allocator keeps of what is free.
    func releaseMemory() {
        database.releaseMemoryEventually()
        kith_release_free_memory()
    }

    // MARK: - Changes

    /// An element whenever there is reason to look again; what was not taken yet is one.
    package func changes() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = observers.withLock { observers in
            observers.next += 1
            observers.streams[observers.next] = continuation
            return observers.next
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.observers.withLock { $0.streams.removeValue(forKey: number) }
        }
        return stream
    }

    /// Follows what changes, transaction by transaction; the follower is let go of with its last reference.
    ///
    /// Whoever is slow gets several as one, that may list nothing any more.
    package func changeSets() -> ChangeFollower {
        observers.withLock { observers in
            observers.next += 1
            let number = observers.next
            let follower = ChangeFollower { [weak self] in
                self?.observers.withLock { _ = $0.followers.removeValue(forKey: number) }
            }
            observers.followers[number] = follower.box
            return follower
        }
    }

    /// A set to note changes in; `nil` when nobody follows.
    func newChangeSet() -> ChangeSet? {
        observers.withLock { $0.followers.isEmpty } ? nil : ChangeSet()
    }

    /// Hands on what a transaction changed, after it.
    func tell(_ changes: ChangeSet?) {
        guard let changes, !changes.isEmpty else { return }
        for box in observers.withLock({ Array($0.followers.values) }) { box.put(changes) }
    }

    /// Tells all who follow that so much changed that nobody lists it.
    func tellEverything() {
        tell()
        guard var changes = newChangeSet() else { return }
        changes.touchEverything()
        tell(changes)
    }

    /// Tells all who follow that something changed.
    func tell() {
        for stream in observers.withLock({ Array($0.streams.values) }) { stream.yield() }
    }
}
