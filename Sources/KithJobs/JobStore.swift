import CKithSystem
import Foundation
import GRDB
import KithIO
import KithWire

/// The jobs of a queue on the disk.
///
/// Every call blocks while the disk works; each is one transaction.
final class JobStore: Sendable {
    /// The most jobs that have not ended.
    static let openLimit = 1_000
    /// The most jobs that have ended, and the seconds for which they are kept.
    static let historyLimit = 200
    static let historySeconds: Int64 = 30 * 86_400
    /// The most lines of one log, and bytes of one line.
    static let logLimit: Int64 = 1_000
    static let lineLimit = 1_000

    private let path: String
    private let database: DatabaseQueue

    /// Opens the database, making it when it is not there.
    init(path: String) throws(KithError) {
        self.path = path
        do throws(SystemError) { try Self.makePrivate(path) } catch {
            throw KithError(
                error.number == ENOSPC ? .exhausted : .denied, "The jobs in \(path) cannot be opened: \(error).")
        }
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        configuration.label = "kith.jobs"
        // One process at a time: another one would take what runs here for what a killed process left behind.
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try database.execute(sql: "PRAGMA journal_mode = WAL")
            try database.execute(sql: "PRAGMA synchronous = FULL")
        }
        do {
            database = try DatabaseQueue(path: path, configuration: configuration)
            if try database.read({ try JobSchema.migrator.hasBeenSuperseded($0) }) {
                throw KithError(.corrupt, "\(path) was written by a later version of Kith. Update this one.")
            }
            try JobSchema.migrator.migrate(database)
            // The lock is taken with the first transaction that writes.
            try database.write { try $0.execute(sql: "UPDATE job SET number = number WHERE number = 0") }
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.failure("open the jobs in \(path)", error)
        }
    }

    func close() throws { try database.close() }

    /// Makes the file so that only its owner may read it; SQLite gives its other files the same mode.
    private static func makePrivate(_ path: String) throws(SystemError) {
        let flags = Int32(KITH_FILE_READ_WRITE) | Int32(KITH_FILE_NO_FOLLOW)
        let descriptor = unsafe withCString(Array(path.utf8)) { path in
            let made = unsafe kith_open(-1, path, flags | Int32(KITH_FILE_CREATE), 0o600)
            return made == -EEXIST ? unsafe kith_open(-1, path, flags, 0) : made
        }
        guard descriptor >= 0 else { throw SystemError(-descriptor) }
        defer { kith_file_close(descriptor) }
        let result = kith_file_chmod(descriptor, 0o600)
        guard result >= 0 else { throw SystemError(-result) }
    }

    private static func failure(_ what: String, _ error: any Error) -> KithError {
        guard let error = error as? DatabaseError else {
            return error as? KithError ?? KithError(.internal, "Could not \(what): \(error)", cause: error)
        }
        return switch error.resultCode {
        case .SQLITE_FULL: KithError(.exhausted, "Could not \(what): the disk is full.", cause: error)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            KithError(
                .corrupt,
                "Could not \(what): the file is damaged. Move it away to begin with no jobs; your files are not in it.",
                cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            KithError(.conflict, "Could not \(what): another process runs these jobs.", cause: error)
        default: KithError(.internal, "Could not \(what): \(error.message ?? "the database failed").", cause: error)
        }
    }

    /// Runs one transaction, which a failure of power may take back only where it is not `isFlushed`.
    private func write<Result>(
        _ what: String, isFlushed: Bool = true, _ work: (Database) throws -> Result
    ) throws(KithError) -> Result {
        do {
            guard !isFlushed else { return try database.write(work) }
            return try database.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA synchronous = NORMAL")
                let result = Swift.Result { () throws -> Result in
                    var result: Result?
                    try database.inTransaction {
                        result = try work(database)
                        return .commit
                    }
                    guard let result else { throw KithError(.internal, "A transaction had no result.") }
                    return result
                }
                try database.execute(sql: "PRAGMA synchronous = FULL")
                return try result.get()
            }
        } catch {
            throw Self.failure(what, error)
        }
    }

    private func read<Result>(_ what: String, _ work: (Database) throws -> Result) throws(KithError) -> Result {
        do { return try database.read(work) } catch { throw Self.failure(what, error) }
    }

    // MARK: - Jobs

    /// A job as it is stored.
    struct Stored: Sendable {
        var number: Int64
        var id: JobID
        var kind: String
        var version: Int
        var title: String
        var state: JobState
        var priority: JobPriority
        var attempts: Int
        /// What it left behind is still to be put away.
        var isCleaning: Bool
        var created: Int64
        var started: Int64?
        var ended: Int64?
        var failure: JobFailure?
        var progress: JobProgress
    }

    private static let columns = """
        SELECT job.number, id, kind, version, title, state, priority, attempts, cleaning, created, started, ended, code,
            error, progress
        FROM job JOIN job_place ON job_place.job = job.number
        """

    private static func stored(_ row: Row) throws -> Stored {
        let (id, state, priority): (String, String, Int) = (row[1], row[5], row[6])
        guard let id = JobID(uuidString: id), let state = JobState(rawValue: state) else {
            throw KithError(.corrupt, "The queue holds a job that cannot be read.")
        }
        let code: String? = row[12]
        return Stored(
            number: row[0], id: id, kind: row[2], version: row[3], title: row[4], state: state,
            priority: JobPriority(rawValue: priority) ?? .normal, attempts: row[7], isCleaning: row[8], created: row[9],
            started: row[10], ended: row[11],
            failure: code.map { JobFailure(code: KithError.Code(rawValue: $0) ?? .internal, message: row[13] ?? "") },
            progress: try JobCoding.decode(JobProgress.self, row[14]))
    }

    /// Adds a job, or finds the one of its kind and topic that has not ended.
    func add(
        kind: String, version: Int, title: String, topic: String?, priority: JobPriority, input: Data, now: Int64
    ) throws(KithError) -> (id: JobID, isNew: Bool) {
        try write("add a job") { database in
            let open = "state IN ('queued', 'running', 'paused')"
            if let topic,
                let text = try String.fetchOne(
                    database, sql: "SELECT id FROM job WHERE kind = ? AND topic = ? AND \(open)",
                    arguments: [kind, topic]), let id = JobID(uuidString: text)
            {
                return (id, false)
            }
            let count = try Int.fetchOne(database, sql: "SELECT count(*) FROM job WHERE \(open)") ?? 0
            guard count < Self.openLimit else {
                throw KithError(
                    .exhausted, "Could not add a job: \(Self.openLimit) wait already. `kith jobs` lists them.")
            }
            let id = JobID()
            try database.execute(
                sql: """
                    INSERT INTO job
                        (id, kind, version, title, topic, state, priority, attempts, cleaning, created)
                    VALUES (?, ?, ?, ?, ?, 'queued', ?, 0, 0, ?)
                    """,
                arguments: [
                    id.uuidString.lowercased(), kind, version, title.prefix(bytes: 500), topic, priority.rawValue, now,
                ])
            let number = database.lastInsertedRowID
            try database.execute(sql: "INSERT INTO job_data (job, input) VALUES (?, ?)", arguments: [number, input])
            try database.execute(
                sql: "INSERT INTO job_place (job, progress) VALUES (?, ?)",
                arguments: [number, try JobCoding.encode(JobProgress(), "the progress")])
            return (id, true)
        }
    }

    func hasOpenJob(_ kind: String, _ topic: String) throws(KithError) -> Bool {
        try read("list the jobs") { database in
            try Bool.fetchOne(
                database,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM job WHERE kind = ? AND topic = ?
                        AND state IN ('queued', 'running', 'paused'))
                    """, arguments: [kind, topic]) ?? false
        }
    }

    func all() throws(KithError) -> [Stored] {
        try read("list the jobs") { database in
            try Row.fetchAll(database, sql: Self.columns + " ORDER BY job.number").map(Self.stored)
        }
    }

    func job(_ id: JobID) throws(KithError) -> Stored {
        try read("read a job") { database in
            guard
                let row = try Row.fetchOne(
                    database, sql: Self.columns + " WHERE id = ?", arguments: [id.uuidString.lowercased()])
            else { throw KithError(.notFound, "There is no job \(id.uuidString.lowercased()).") }
            return try Self.stored(row)
        }
    }

    /// Those that wait, in the order in which they get their turn.
    func queued() throws(KithError) -> [Stored] {
        try read("list the jobs") { database in
            try Row.fetchAll(
                database, sql: Self.columns + " WHERE state = 'queued' ORDER BY priority DESC, job.number"
            ).map(Self.stored)
        }
    }

    /// What was asked, and the cursor of the last checkpoint.
    func work(of number: Int64) throws(KithError) -> (input: Data, cursor: Data?) {
        try read("read a job") { database in
            guard
                let row = try Row.fetchOne(
                    database,
                    sql: "SELECT input, cursor FROM job_data JOIN job_place USING (job) WHERE job = ?",
                    arguments: [number])
            else { throw KithError(.corrupt, "The queue holds a job without its input.") }
            return (row[0], row[1])
        }
    }

    func output(of number: Int64) throws(KithError) -> Data? {
        try read("read the result of a job") { database in
            try Data.fetchOne(database, sql: "SELECT output FROM job_data WHERE job = ?", arguments: [number])
        }
    }

    // MARK: - Changes

    /// Notes that a job begins to run.
    func begin(_ number: Int64, now: Int64) throws(KithError) {
        try write("begin a job") { database in
            try database.execute(
                sql: """
                    UPDATE job SET state = 'running', attempts = attempts + 1, started = ifnull(started, ?), code = NULL,
                        error = NULL, ended = NULL
                    WHERE number = ?
                    """, arguments: [now, number])
        }
    }

    /// Stores a checkpoint; one that is not the last one again counts as a step for good.
    func checkpoint(_ cursor: Data, _ progress: JobProgress, of id: JobID) throws(KithError) {
        let progress = try JobCoding.encode(progress, "the progress")
        try write("store how far a job is") { database in
            let id = id.uuidString.lowercased()
            guard
                let row = try Row.fetchOne(
                    database,
                    sql: "SELECT job.number, cursor FROM job JOIN job_place ON job = number WHERE id = ?",
                    arguments: [id])
            else { throw KithError(.notFound, "There is no job \(id).") }
            let (number, last): (Int64, Data?) = (row[0], row[1])
            if last != cursor {
                try database.execute(
                    sql: "UPDATE job SET attempts = 1 WHERE number = ? AND attempts > 1", arguments: [number])
            }
            try database.execute(
                sql: "UPDATE job_place SET cursor = ?, progress = ? WHERE job = ?",
                arguments: [cursor, progress, number])
        }
    }

    /// Puts a job into a state; `attempts` begin anew unless they are kept.
    func set(_ state: JobState, of number: Int64, keepsAttempts: Bool = false) throws(KithError) {
        try write("change a job") { database in
            try database.execute(
                sql: "UPDATE job SET state = ?\(keepsAttempts ? "" : ", attempts = 0") WHERE number = ?",
                arguments: [state.rawValue, number])
        }
    }

    /// Ends a job; where it is `isCleaning`, what it left behind is to be put away.
    func end(
        _ number: Int64, as state: JobState, output: Data? = nil, failure: JobFailure? = nil, isCleaning: Bool = false,
        progress: JobProgress? = nil, now: Int64
    ) throws(KithError) {
        let progress = try progress.map { progress throws(KithError) in try JobCoding.encode(progress, "the progress") }
        try write("end a job") { database in
            try database.execute(
                sql:
                    "UPDATE job SET state = ?, ended = ?, code = ?, error = ?, cleaning = ?, attempts = 0 WHERE number = ?",
                arguments: [
                    state.rawValue, now, failure?.code.rawValue, failure?.message.prefix(bytes: 2_000), isCleaning,
                    number,
                ])
            if let output {
                try database.execute(sql: "UPDATE job_data SET output = ? WHERE job = ?", arguments: [output, number])
            }
            if let progress {
                try database.execute(
                    sql: "UPDATE job_place SET progress = ? WHERE job = ?", arguments: [progress, number])
            }
        }
    }

    /// Notes that what a job left behind is being put away, or has been.
    func clean(_ number: Int64, isDone: Bool) throws(KithError) {
        try write("change a job") { database in
            try database.execute(
                sql: isDone
                    ? "UPDATE job SET cleaning = 0, attempts = 0 WHERE number = ?"
                    : "UPDATE job SET attempts = attempts + 1 WHERE number = ?", arguments: [number])
        }
    }

    func setPriority(_ priority: JobPriority, of number: Int64) throws(KithError) {
        try write("change a job") { database in
            try database.execute(
                sql: "UPDATE job SET priority = ? WHERE number = ?", arguments: [priority.rawValue, number])
        }
    }

    // MARK: - Logs and history

    func log(_ line: String, of id: JobID, now: Int64) throws(KithError) {
        try write("write a job's log", isFlushed: false) { database in
            guard
                let number = try Int64.fetchOne(
                    database, sql: "SELECT number FROM job WHERE id = ?", arguments: [id.uuidString.lowercased()])
            else { return }
            let last =
                try Int64.fetchOne(
                    database, sql: "SELECT max(line) FROM job_log WHERE job = ?", arguments: [number]) ?? 0
            try database.execute(
                sql: "INSERT INTO job_log VALUES (?, ?, ?, ?)",
                arguments: [number, last + 1, now, line.prefix(bytes: Self.lineLimit)])
            try database.execute(
                sql: "DELETE FROM job_log WHERE job = ? AND line <= ?", arguments: [number, last + 1 - Self.logLimit])
        }
    }

    func log(of number: Int64) throws(KithError) -> [JobLogLine] {
        try read("read a job's log") { database in
            try Row.fetchAll(
                database, sql: "SELECT time, text FROM job_log WHERE job = ? ORDER BY line", arguments: [number]
            ).map { JobLogLine(time: $0[0], text: $0[1]) }
        }
    }

    /// Deletes what ended long ago, and returns which jobs that were.
    func prune(now: Int64) throws(KithError) -> [JobID] {
        try write("delete old jobs") { database in
            let condition = """
                FROM job WHERE state IN ('cancelled', 'failed', 'done') AND cleaning = 0
                    AND (ended < ?1 OR number NOT IN (
                        SELECT number FROM job WHERE state IN ('cancelled', 'failed', 'done')
                        ORDER BY ended DESC, number DESC LIMIT ?2))
                """
            let arguments: StatementArguments = [now - Self.historySeconds, Self.historyLimit]
            let old = try String.fetchAll(database, sql: "SELECT id " + condition, arguments: arguments)
            guard !old.isEmpty else { return [] }
            try database.execute(sql: "DELETE " + condition, arguments: arguments)
            return old.compactMap(JobID.init(uuidString:))
        }
    }
}
