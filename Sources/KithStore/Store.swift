import GRDB
package import KithIdentity
public import KithWire
public import Logging
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A device's data directory, held by this process: who it is paired with, what they may do, what happened.
///
/// The folder is 0700. `kith.sqlite` is in write-ahead mode with full synchronisation: killed at any moment, it opens
/// with every change that was reported done. A file that cannot be opened is never overwritten.
///
/// Calls are synchronous and short (well under a millisecond, a flush to the disk for a change), from any thread.
public final class Store: Sendable {
    /// The number of audit entries kept; the oldest go first.
    public static let auditLimit = 10_000

    /// The data directory, absolute.
    public let directory: String
    let database: DatabaseQueue
    private let lock: DirectoryLock
    let logger: Logger
    /// The known devices as of the last change.
    let known: Mutex<KnownPeers>
    /// The time until which devices may show certificates; `nil`: they may not.
    let enrolledUntil = Mutex<Int64?>(nil)
    let attempts = Mutex(CountedAttempts())
    /// Held while attempts are written, so that no line is written twice.
    let attemptWriting = Mutex(())
    /// The roots that ``grantedRoot(_:)`` has read.
    let roots = Mutex<[String: String]>([:])

    /// Opens a data directory, making it when it is not there.
    ///
    /// - Throws: `KithError` `.conflict` when another process uses it, `.denied` when we may not, or others may look into
    ///   it, `.invalid` when it holds other things, `.corrupt` when the database is damaged, missing beside a device's
    ///   key, or of a later version of Kith.
    public static func open(directory: String, logger: Logger) throws(KithError) -> Store {
        try DataDirectory.prepare(directory)
        let lock = try DirectoryLock(directory: directory)
        let path = directory + "/kith.sqlite"
        do throws(KithError) {
            // A device has its database before its key: one that has a key has lost its database.
            guard SecretFile.exists(path) || !FileKeyStore.holdsDeviceKey(directory: directory) else {
                throw KithError(
                    .corrupt,
                    "\(path) is missing beside this device's key, and with it all pairings, grants and the audit log. "
                        + "Restore it from a backup; or, to go on with the same key and pair anew, run: touch \(path)")
            }
            let database = try openDatabase(at: path, label: "kith.store", migrator: Migrations.migrator)
            let known: KnownPeers
            do {
                try mark(database)
                known = try database.read { try KnownPeers($0, version: 0) }
            } catch {
                throw failure("read \(path)", error)
            }
            return Store(directory: directory, database: database, known: known, lock: lock, logger: logger)
        } catch {
            lock.release()
            throw error
        }
    }

    /// Opens a database in the shape of `migrator`, only this account's to read, made when it is not there.
    ///
    /// It is in write-ahead mode unless another is named, with full synchronisation; what is deleted is overwritten. A new
    /// one has pages of `pageSize` bytes.
    static func openDatabase(
        at path: String, label: String, journal: String = "WAL", pageSize: Int = 4_096, migrator: DatabaseMigrator
    ) throws(KithError) -> DatabaseQueue {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        configuration.busyMode = .timeout(5)
        configuration.label = label
        configuration.prepareDatabase { database in
            // Of a database that is there already it changes nothing.
            try database.execute(sql: "PRAGMA page_size = \(pageSize)")
            try database.execute(sql: "PRAGMA journal_mode = \(journal)")
            try database.execute(sql: "PRAGMA synchronous = FULL")
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        makePrivate(path)
        do {
            let database = try DatabaseQueue(path: path, configuration: configuration)
            if try database.read({ try migrator.hasBeenSuperseded($0) }) {
                throw KithError(.corrupt, "\(path) was written by a later version of Kith. Update this one.")
            }
            try migrator.migrate(database)
            return database
        } catch let error as KithError {
            throw error
        } catch {
            throw hasNoRoom(path) ? full("open \(path)", error) : failure("open \(path)", error)
        }
    }

    /// Tells whether there is no room for a file, or for another one beside it.
    ///
    /// SQLite says that it cannot open its files, then.
    private static func hasNoRoom(_ path: String) -> Bool {
        var status = statvfs()
        // The file itself may not be there.
        guard unsafe statvfs(path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ".", &status) == 0 else {
            return false
        }
        return status.f_bavail == 0 || status.f_files > 0 && status.f_favail == 0
    }

    private static func full(_ what: String, _ error: any Error) -> KithError {
        KithError(.exhausted, "Could not \(what): the disk is full.", cause: error)
    }

    /// The application id in the header of a device's database: `kith`; KithProtection.c looks for it.
    private static let mark = 0x6B69_7468

    /// Marks a database as a device's, in its file, so that it is recognised by whatever name.
    private static func mark(_ database: DatabaseQueue) throws {
        try database.writeWithoutTransaction { database in
            guard try Int.fetchOne(database, sql: "PRAGMA application_id") != mark else { return }
            try database.execute(sql: "PRAGMA application_id = \(mark)")
            _ = try database.checkpoint(.truncate)
        }
    }

    private init(
        directory: String, database: DatabaseQueue, known: KnownPeers, lock: DirectoryLock, logger: Logger
    ) {
        self.known = Mutex(known)
        self.directory = directory
        self.database = database
        self.lock = lock
        self.logger = logger
    }

    /// The process that uses a data directory now; `nil` when none does, 0 when it did not say.
    public static func holder(of directory: String) -> Int32? { DirectoryLock.holder(of: directory) }

    /// Closes the database and gives the directory back.
    ///
    /// Nothing else may be called after it.
    public func close() {
        writeAttempts()
        attempts.withLock { $0.isClosed = true }
        do {
            try database.close()
        } catch {
            logger.warning("closing the store: \(error)")
        }
        lock.release()
    }

    /// Lets go of memory that can be had again: what the database has read, and the roots of grants.
    public func releaseMemory() {
        database.releaseMemory()
        roots.withLock { $0 = [:] }
    }

    /// Reads or writes in one transaction, and words what goes wrong.
    func transaction<Value>(_ what: String, _ body: (Database) throws -> Value) throws(KithError) -> Value {
        do {
            let (value, known) = try database.write { database in
                let before = database.totalChangesCount
                let value = try body(database)
                let changes = UInt64(clamping: database.totalChangesCount)
                return (value, database.totalChangesCount == before ? nil : try KnownPeers(database, version: changes))
            }
            // Another thread may have changed it since.
            if let known { self.known.withLock { if $0.version < known.version { $0 = known } } }
            return value
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.failure(what, error)
        }
    }

    static func failure(_ what: String, _ error: any Error) -> KithError {
        guard let error = error as? DatabaseError else {
            return KithError(.internal, "Could not \(what): \(error).", cause: error)
        }
        // The shared index of the log can only fail to grow.
        if error.extendedResultCode == .SQLITE_IOERR_SHMSIZE { return full(what, error) }
        return switch error.resultCode {
        case .SQLITE_FULL: full(what, error)
        case .SQLITE_PERM, .SQLITE_READONLY, .SQLITE_CANTOPEN, .SQLITE_AUTH:
            KithError(.denied, "Could not \(what): permission denied.", cause: error)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            KithError(
                .corrupt, "Could not \(what): the database is damaged. Restore it from a backup; it was left as it is.",
                cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            KithError(.conflict, "Could not \(what): another program holds the database.", cause: error)
        default: KithError(.internal, "Could not \(what): \(error.message ?? "SQLite failed").", cause: error)
        }
    }
}

/// Makes a file that only its owner may read, or makes one so; SQLite gives its other files the same mode.
///
/// A failure here happens again, and is reported, when the file is opened.
func makePrivate(_ path: String) {
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { return }
    _ = fchmod(descriptor, 0o600)
    close(descriptor)
}

// MARK: - Whose it is

extension Store {
    /// The device this is the store of; `nil` before ``setOwner(_:)``.
    package func owner() throws(KithError) -> DeviceID? { try setting("id").flatMap { DeviceID($0) } }

    /// Notes whose store this is, once that device's key is stored.
    package func setOwner(_ id: DeviceID) throws(KithError) { try setSetting("id", id.description) }

    /// Notes how often the device's keys have changed by now.
    ///
    /// Call it after the change: a process that ends between the two leaves keys that are newer than what is noted.
    ///
    /// - Throws: `.corrupt` when they had changed more often before, so that they are an older copy. Keys and a database
    ///   that come from one backup agree.
    package func noteKeys(generation: UInt64) throws(KithError) {
        try transaction("note the device's keys") { database in
            let known = try String.fetchOne(database, sql: "SELECT value FROM settings WHERE name = 'keys'")
            guard let known = UInt64(known ?? "0") else {
                throw KithError(.corrupt, "\(directory)/kith.sqlite does not say how often its keys changed.")
            }
            guard generation >= known else {
                throw KithError(
                    .corrupt,
                    "The keys in \(directory) are an older copy: the database there knows change \(known) "
                        + "of them, and these are at change \(generation). Restore the newest copy of the key files "
                        + "there (*.sealed and machine.key), or these and kith.sqlite from one backup.")
            }
            guard generation > known else { return }
            try database.execute(
                sql: "INSERT INTO settings VALUES ('keys', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                arguments: [String(generation)])
        }
    }

    /// Tells whether nothing was ever noted here, as when the process ended before its device had a key.
    package func isBlank() throws(KithError) -> Bool {
        try transaction("read the database") { database in
            for table in ["devices", "invitations", "audit", "settings"] {
                let isEmpty = try Bool.fetchOne(database, sql: "SELECT NOT EXISTS (SELECT 1 FROM \(table))")
                guard isEmpty == true else { return false }
            }
            return true
        }
    }
}

// MARK: - Settings

extension Store {
    /// A setting, or `nil` when it was never made.
    public func setting(_ name: String) throws(KithError) -> String? {
        try transaction("read a setting") { database in
            try String.fetchOne(database, sql: "SELECT value FROM settings WHERE name = ?", arguments: [name])
        }
    }

    /// Makes or changes a setting.
    public func setSetting(_ name: String, _ value: String) throws(KithError) {
        try transaction("store a setting") { database in
            try database.execute(
                sql: "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                arguments: [name, value])
        }
    }

    /// A setting, which is forgotten; `nil` when it was never made.
    public func takeSetting(_ name: String) throws(KithError) -> String? {
        try transaction("take a setting") { database in
            try String.fetchOne(
                database, sql: "DELETE FROM settings WHERE name = ? RETURNING value", arguments: [name])
        }
    }
}
