import Foundation
import GRDB
import KithAPI
import KithWire
import Synchronization

/// The operations on files of a device, planned and done, with all their steps: in a database of its own.
///
/// A step is noted as begun before anything is done, and what came of it afterwards; killed in between, the step is looked
/// at again. A plan that is not confirmed goes after ten minutes; an operation stays 90 days, and 1,000 stay.
final class OperationJournal: Sendable {
    /// How long a plan is good, in seconds.
    static let planLifetime: Int64 = 600
    /// The most plans at a time that are not confirmed.
    static let maximumPlans = 16
    static let maximumOperations = 1_000
    static let maximumAge: Int64 = 90 * 86_400

    /// The life of an operation.
    enum State: Int, Sendable {
        case planned = 0
        case confirmed = 1
        case ended = 2
    }

    /// An operation without its steps.
    struct Operation: Sendable {
        var row: Int64
        var id: String
        var kind: Operations.Kind
        var owner: String
        var state: State
        /// Seconds since 1970: when it was planned, later when it was confirmed.
        var made: Int64
        var ended: Int64?
        var job: String?
        var undoes: String?
        var undoneBy: String?
        /// What a plan says besides its steps.
        var summary: Summary
    }

    /// What a plan says besides its steps.
    struct Summary: Codable, Sendable {
        var totals = Operations.Totals()
        var room: [Operations.Room] = []
        var crossesFileSystems = false
        /// Why it cannot be taken back.
        var notUndoable: String?
    }

    private let path: String
    private let opened = Mutex<DatabasePool?>(nil)
    let now: @Sendable () -> Int64

    /// Makes a journal at a path; opened, and made, when it is first needed.
    init(path: String, now: @escaping @Sendable () -> Int64) {
        self.path = path
        self.now = now
    }

    /// Closes the database; the next use opens it again.
    func close() {
        opened.withLock { database in
            // Nothing is lost: what was written is on the disk.
            try? database?.close()
            database = nil
        }
    }

    private func database() throws -> DatabasePool {
        try opened.withLock { opened in
            if let opened { return opened }
            let folder = String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            var configuration = Configuration()
            configuration.foreignKeysEnabled = true
            configuration.busyMode = .timeout(5)
            configuration.label = "kith.operations"
            configuration.maximumReaderCount = 2
            configuration.prepareDatabase { database in
                // A rename that happened must not be forgotten when the power goes.
                try database.execute(sql: "PRAGMA synchronous = FULL")
            }
            // What SQLite makes beside it is readable for whoever this file is.
            if !FileManager.default.fileExists(atPath: path) {
                guard
                    FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
                else { throw KithError(.denied, "\(path) cannot be made.") }
            }
            let database = try DatabasePool(path: path, configuration: configuration)
            if try database.read({ try Self.migrator.hasBeenSuperseded($0) }) {
                throw KithError(.corrupt, "\(path) was written by a later version of Kith. Update this one.")
            }
            try Self.migrator.migrate(database)
            opened = database
            return database
        }
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE operation (
                        row INTEGER PRIMARY KEY AUTOINCREMENT,
                        id TEXT NOT NULL UNIQUE,
                        kind TEXT NOT NULL,
                        owner TEXT NOT NULL,
                        state INTEGER NOT NULL,
                        made INTEGER NOT NULL,
                        ended INTEGER,
                        job TEXT,
                        undoes TEXT,
                        undoneBy TEXT,
                        summary TEXT NOT NULL
                    ) STRICT;
                    CREATE TABLE step (
                        operation INTEGER NOT NULL REFERENCES operation (row) ON DELETE CASCADE,
                        number INTEGER NOT NULL,
                        action TEXT NOT NULL,
                        source BLOB,
                        destination BLOB,
                        identity TEXT,
                        there TEXT,
                        choice TEXT,
                        follows INTEGER,
                        state INTEGER NOT NULL,
                        message TEXT,
                        landed TEXT,
                        PRIMARY KEY (operation, number)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX step_state ON step (operation, state, number);
                    """)
        }
        return migrator
    }

    func write<Result>(_ what: String, _ body: (Database) throws -> Result) throws(KithError) -> Result {
        do { return try database().write(body) } catch { throw failure(what, error) }
    }

    func read<Result>(_ what: String, _ body: (Database) throws -> Result) throws(KithError) -> Result {
        do { return try database().read(body) } catch { throw failure(what, error) }
    }

    private func failure(_ what: String, _ error: any Error) -> KithError {
        switch error {
        case let error as KithError: return error
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL:
            return KithError(.exhausted, "Could not \(what): the disk is full.", cause: error)
        case let error as DatabaseError
        where error.resultCode == .SQLITE_CORRUPT || error.resultCode == .SQLITE_NOTADB:
            return KithError(
                .corrupt,
                "Could not \(what): the journal of operations \(path) is damaged. Move it away; nothing done before can be taken back then.",
                cause: error)
        case let error as DatabaseError:
            return KithError(.internal, "Could not \(what): \(error.message ?? "the database failed").", cause: error)
        default: return KithError(.internal, "Could not \(what): \(error)", cause: error)
        }
    }

    // MARK: - Operations

    /// Adds a plan without steps.
    func begin(_ kind: Operations.Kind, owner: String, undoes: String? = nil) throws(KithError) -> Operation {
        try write("plan an operation") { database in
            try prune(database)
            // The oldest one goes when there are too many: whoever made it can make it again.
            try database.execute(
                sql: """
                    DELETE FROM operation WHERE state = 0 AND row NOT IN (
                        SELECT row FROM operation WHERE state = 0 ORDER BY row DESC LIMIT ?)
                    """, arguments: [Self.maximumPlans - 1])
            let id = UUID().uuidString.lowercased()
            let made = now()
            try database.execute(
                sql:
                    "INSERT INTO operation (id, kind, owner, state, made, undoes, summary) VALUES (?, ?, ?, 0, ?, ?, ?)",
                arguments: [id, kind.rawValue, owner, made, undoes, try Self.text(Summary())])
            return Operation(
                row: database.lastInsertedRowID, id: id, kind: kind, owner: owner, state: .planned, made: made,
                undoes: undoes, summary: Summary())
        }
    }

    /// Takes plans away that were not confirmed in time, and operations that are too old or too many.
    private func prune(_ database: Database) throws {
        let now = now()
        // Ten plans' worth of rows at most; an operation that goes on stays.
        try database.execute(
            sql: """
                DELETE FROM operation WHERE state = 0 AND (made < ? OR made > ?)
                OR state = 2 AND (made < ? OR row NOT IN (
                    SELECT row FROM operation WHERE state > 0 ORDER BY row DESC LIMIT ?))
                """,
            arguments: [
                now - Self.planLifetime, now + Self.planLifetime, now - Self.maximumAge, Self.maximumOperations,
            ])
    }

    func remove(_ operation: Operation) {
        // It goes after ten minutes otherwise.
        try? write("remove a plan") { database in
            try database.execute(sql: "DELETE FROM operation WHERE row = ?", arguments: [operation.row])
        }
    }

    func setSummary(_ summary: Summary, of operation: Operation) throws(KithError) {
        try write("keep a plan") { database in
            try database.execute(
                sql: "UPDATE operation SET summary = ? WHERE row = ?",
                arguments: [try Self.text(summary), operation.row])
        }
    }

    /// Finds an operation.
    ///
    /// - Throws: `.notFound`, for a plan whose time is over, too.
    func operation(_ id: String) throws(KithError) -> Operation {
        let found = try read("read an operation") { database in
            try Row.fetchOne(database, sql: "SELECT * FROM operation WHERE id = ?", arguments: [id]).map(Self.operation)
        }
        guard let found else {
            throw KithError(.notFound, "There is no such plan or operation. A plan goes ten minutes after it was made.")
        }
        guard found.state != .planned || abs(now() - found.made) <= Self.planLifetime else {
            throw KithError(.notFound, "The plan is older than ten minutes. Plan it again.")
        }
        return found
    }

    /// The operations that were confirmed, the latest first.
    func operations(limit: Int) throws(KithError) -> [(Operation, counts: [OperationStep.State: Int], first: [UInt8]?)]
    {
        try read("list the operations") { database in
            try Row.fetchAll(
                database, sql: "SELECT * FROM operation WHERE state > 0 ORDER BY row DESC LIMIT ?", arguments: [limit]
            ).map { row in
                let operation = try Self.operation(row)
                var counts: [OperationStep.State: Int] = [:]
                for row in try Row.fetchAll(
                    database, sql: "SELECT state, count(*) FROM step WHERE operation = ? GROUP BY state",
                    arguments: [operation.row])
                {
                    if let state = OperationStep.State(rawValue: row[0]) { counts[state] = row[1] }
                }
                let first = try Data.fetchOne(
                    database,
                    sql: """
                        SELECT coalesce(source, destination) FROM step WHERE operation = ?
                        AND coalesce(source, destination) IS NOT NULL ORDER BY number LIMIT 1
                        """, arguments: [operation.row])
                return (operation, counts, first.map { [UInt8]($0) })
            }
        }
    }

    /// Notes that a plan is to be done; afterwards it cannot be confirmed again.
    func confirm(_ operation: Operation) throws(KithError) {
        try write("confirm a plan") { database in
            try database.execute(
                sql: "UPDATE operation SET state = 1, made = ? WHERE row = ? AND state = 0",
                arguments: [now(), operation.row])
            guard database.changesCount == 1 else {
                throw KithError(.conflict, "The plan was confirmed already.")
            }
        }
    }

    /// The operations that were confirmed and have not ended.
    func openOperations() throws(KithError) -> [Operation] {
        try read("list the operations") { database in
            try Row.fetchAll(database, sql: "SELECT * FROM operation WHERE state = 1 ORDER BY row LIMIT 1000")
                .map(Self.operation)
        }
    }

    /// Gives a plan back that could not be begun.
    func unconfirm(_ operation: Operation) throws(KithError) {
        try write("give a plan back") { database in
            try database.execute(
                sql: "UPDATE operation SET state = 0 WHERE row = ? AND job IS NULL", arguments: [operation.row])
        }
    }

    func setJob(_ job: String, of operation: Operation) throws(KithError) {
        try write("note a job") { database in
            try database.execute(
                sql: "UPDATE operation SET job = ? WHERE row = ?", arguments: [job, operation.row])
        }
    }

    /// Notes that an operation has ended, and what it took back.
    func end(_ operation: Operation) throws(KithError) {
        try write("end an operation") { database in
            try database.execute(
                sql: "UPDATE operation SET state = 2, ended = ? WHERE row = ? AND state <> 2",
                arguments: [now(), operation.row])
            if let undone = operation.undoes {
                let did = try Bool.fetchOne(
                    database, sql: "SELECT EXISTS (SELECT 1 FROM step WHERE operation = ? AND state = 3)",
                    arguments: [operation.row])
                if did == true {
                    try database.execute(
                        sql: "UPDATE operation SET undoneBy = ? WHERE id = ?", arguments: [operation.id, undone])
                }
            }
        }
    }

    private static func operation(_ row: Row) throws -> Operation {
        let summary: String = row["summary"]
        guard let kind = Operations.Kind(rawValue: row["kind"]), let state = State(rawValue: row["state"]) else {
            throw KithError(.corrupt, "The journal of operations holds a kind that this version does not know.")
        }
        return Operation(
            row: row["row"], id: row["id"], kind: kind, owner: row["owner"], state: state, made: row["made"],
            ended: row["ended"], job: row["job"], undoes: row["undoes"], undoneBy: row["undoneBy"],
            summary: try JSONDecoder().decode(Summary.self, from: Data(summary.utf8)))
    }

    private static func text(_ value: some Encodable) throws -> String {
        String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
    }

    // MARK: - Steps

    /// Adds steps, or replaces those with their numbers.
    func put(_ steps: [OperationStep], of operation: Operation) throws(KithError) {
        guard !steps.isEmpty else { return }
        try write("note the steps of an operation") { database in
            let statement = try database.cachedStatement(
                sql: """
                    INSERT OR REPLACE INTO step
                        (operation, number, action, source, destination, identity, there, choice, follows, state,
                        message, landed)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """)
            for step in steps {
                try statement.execute(arguments: [
                    operation.row, step.number, step.action.rawValue, step.source.map { Data($0) },
                    step.destination.map { Data($0) }, step.identity?.text, step.there?.text, step.choice?.rawValue,
                    step.after, step.state.rawValue, step.message, step.landed?.text,
                ])
            }
        }
    }

    /// Takes away the steps that make way for others, which have odd numbers: an attempt to confirm has left them.
    func removeWays(of operation: Operation) throws(KithError) {
        try write("confirm a plan") { database in
            try database.execute(
                sql: "DELETE FROM step WHERE operation = ? AND number % 2 <> 0", arguments: [operation.row])
        }
    }

    /// The steps behind a number.
    func steps(
        of operation: Operation, after: Int64 = .min, limit: Int, states: [OperationStep.State]? = nil
    ) throws(KithError) -> [OperationStep] {
        try read("read the steps of an operation") { database in
            let list = states.map { " AND state IN (\($0.map { String($0.rawValue) }.joined(separator: ", ")))" } ?? ""
            return try Row.fetchAll(
                database,
                sql: "SELECT * FROM step WHERE operation = ? AND number > ?\(list) ORDER BY number LIMIT ?",
                arguments: [operation.row, after, limit]
            ).map(Self.step)
        }
    }

    /// The steps before a number, the last first.
    func stepsBackwards(of operation: Operation, before: Int64, limit: Int) throws(KithError) -> [OperationStep] {
        try read("read the steps of an operation") { database in
            try Row.fetchAll(
                database, sql: "SELECT * FROM step WHERE operation = ? AND number < ? ORDER BY number DESC LIMIT ?",
                arguments: [operation.row, before, limit]
            ).map(Self.step)
        }
    }

    func step(_ number: Int64, of operation: Operation) throws(KithError) -> OperationStep? {
        try read("read the steps of an operation") { database in
            try Row.fetchOne(
                database, sql: "SELECT * FROM step WHERE operation = ? AND number = ?",
                arguments: [operation.row, number]
            ).map(Self.step)
        }
    }

    /// The number of steps that are to be done, and the bytes of those that were.
    func counts(of operation: Operation) throws(KithError) -> [OperationStep.State: Int] {
        try read("count the steps of an operation") { database in
            var counts: [OperationStep.State: Int] = [:]
            for row in try Row.fetchAll(
                database, sql: "SELECT state, count(*) FROM step WHERE operation = ? GROUP BY state",
                arguments: [operation.row])
            {
                if let state = OperationStep.State(rawValue: row[0]) { counts[state] = row[1] }
            }
            return counts
        }
    }

    private static func step(_ row: Row) throws -> OperationStep {
        guard let action = Operations.Action(rawValue: row["action"]),
            let state = OperationStep.State(rawValue: row["state"])
        else {
            throw KithError(.corrupt, "The journal of operations holds a step that this version does not know.")
        }
        return OperationStep(
            number: row["number"], action: action, source: (row["source"] as Data?).map { [UInt8]($0) },
            destination: (row["destination"] as Data?).map { [UInt8]($0) },
            identity: (row["identity"] as String?).flatMap { FileIdentity(text: $0) },
            there: (row["there"] as String?).flatMap { FileIdentity(text: $0) },
            choice: (row["choice"] as String?).flatMap { Operations.Choice(rawValue: $0) }, after: row["follows"],
            state: state, message: row["message"], landed: (row["landed"] as String?).flatMap { FileIdentity(text: $0) }
        )
    }
}

extension FileIdentity {
    /// As the journal keeps it: `file 64 1234 10 1700000000000000000`.
    var text: String { "\(kind.rawValue) \(device) \(inode) \(size) \(modified)" }

    init?(text: String) {
        let words = text.split(separator: " ")
        guard words.count == 5, let kind = Files.Kind(rawValue: String(words[0])), let device = UInt64(words[1]),
            let inode = UInt64(words[2]), let size = UInt64(words[3]), let modified = Int64(words[4])
        else { return nil }
        self.init(kind: kind, device: device, inode: inode, size: size, modified: modified)
    }
}
