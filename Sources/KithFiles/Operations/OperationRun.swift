import KithAPI
import KithIO
import KithWire

/// How far an operation is.
struct OperationProgress: Hashable, Sendable {
    /// Steps.
    var completed = 0
    var total = 0
    /// Of copies.
    var bytes: UInt64 = 0
    var totalBytes: UInt64 = 0
    /// What is being done.
    var current: [UInt8]?
}

/// What came of an operation: the numbers of its steps.
struct OperationOutcome: Codable, Hashable, Sendable {
    var done = 0
    var skipped = 0
    var failed = 0
}

/// Does the steps of an operation that was confirmed, from wherever it stopped.
///
/// Some steps at a time: they are noted as begun, done, and noted as done. A copy has a name of its own until it is on the
/// disk; which file it is is noted before it gets the one that was asked for. So whatever a kill leaves behind is told
/// apart: done, or still to do. What is not as it was planned is left alone.
///
/// Used by one task, on a ``DiskExecutor``.
final class OperationRun {
    /// The most steps, and about the most bytes, between two notes.
    private static let batch = (steps: 64, bytes: UInt64(64 << 20))

    private let operation: OperationJournal.Operation
    private let journal: OperationJournal
    private let files: OperationFiles
    private let trash: TrashCan
    /// Called at each moment at which a kill makes a difference, for tests.
    private let moment: (String) -> Void
    private var progress = OperationProgress()
    /// Told how far it is; throws to end it.
    private let report: (OperationProgress) throws -> Void
    /// The copies that are whole, and have no name yet; a file is to be brought to the disk first.
    private var whole: [(index: Int, file: Descriptor?)] = []
    private var steps: [OperationStep] = []
    /// The folders whose names have changed.
    private var changed: Set<[UInt8]> = []

    init(
        _ operation: OperationJournal.Operation, in journal: OperationJournal, files: OperationFiles, trash: TrashCan,
        moment: @escaping (String) -> Void = { _ in }, report: @escaping (OperationProgress) throws -> Void
    ) {
        self.operation = operation
        self.journal = journal
        self.files = files
        self.trash = trash
        self.moment = moment
        self.report = report
    }

    /// Does what is to be done.
    ///
    /// - Throws: `.exhausted` when a disk is full: done again it goes on; `CancellationError` and what `checkpoint`
    ///   throws, between two steps.
    func run(checkpoint: (OperationProgress) async throws -> Void) async throws -> OperationOutcome {
        let counts = try journal.counts(of: operation)
        progress.total = counts.values.reduce(0, +)
        progress.completed = (counts[.done] ?? 0) + (counts[.skipped] ?? 0) + (counts[.failed] ?? 0)
        progress.totalBytes = operation.summary.totals.bytes
        var last = Int64.min
        while true {
            let next = try journal.steps(
                of: operation, after: last, limit: Self.batch.steps, states: [.pending, .begun, .placing])
            guard !next.isEmpty else { break }
            steps = []
            var bytes: UInt64 = 0
            for step in next where bytes < Self.batch.bytes {
                steps.append(step)
                bytes = bytes.addingReportingOverflow(step.bytes).partialValue
            }
            last = steps.last?.number ?? last
            try doBatch()
            try await checkpoint(progress)
        }
        try journal.end(operation)
        return try outcome()
    }

    /// Ends an operation that was cancelled: what was begun is finished or taken away, the rest is left out.
    func abandon() throws {
        var last = Int64.min
        while true {
            steps = try journal.steps(of: operation, after: last, limit: 1_000, states: [.pending, .begun, .placing])
            guard let end = steps.last else { break }
            last = end.number
            for index in steps.indices {
                if steps[index].state != .pending, (try? isDone(index)) == true {
                    finish(index)
                } else {
                    removeLeftovers(of: steps[index])
                    skip(index, "the operation was cancelled")
                }
            }
            try journal.put(steps, of: operation)
        }
        try journal.end(operation)
    }

    private func outcome() throws -> OperationOutcome {
        let counts = try journal.counts(of: operation)
        return OperationOutcome(
            done: counts[.done] ?? 0, skipped: counts[.skipped] ?? 0, failed: counts[.failed] ?? 0)
    }

    // MARK: - A batch

    private func doBatch() throws {
        files.forget()
        let wasBegun = steps.map { $0.state != .pending }
        try begin()
        moment("begun")
        var stopped: (any Error)?
        for index in steps.indices {
            do {
                try Task.checkCancellation()
                try doStep(index, wasBegun: wasBegun[index])
            } catch let error as Errno where !error.isFullDisk {
                fail(index, error)
            } catch let error as KithError where error.code != .exhausted {
                fail(index, error.message)
            } catch {
                stopped = error
                break
            }
        }
        try place()
        try syncFolders()
        progress.completed += steps.count { $0.state.rawValue >= OperationStep.State.done.rawValue }
        moment("done")
        try journal.put(steps, of: operation)
        moment("noted")
        if let error = stopped as? Errno {
            throw error.failure("go on with the operation at", (progress.current ?? []).shown)
        }
        if let stopped { throw stopped }
    }

    /// Notes that the steps may be done from now on, and the names of what goes into the trash.
    private func begin() throws {
        var names: [[UInt8]: Int] = [:]
        for index in steps.indices where steps[index].state == .pending {
            steps[index].state = .begun
            guard steps[index].action == .trash, let source = steps[index].source else { continue }
            do {
                let folder = try trash.folder(for: source)
                try trash.make(folder)
                let name = source.splitAtName.name
                // Those of one name in this batch do not see each other yet.
                let key = folder.files.appendingName(name)
                let (free, number) = try trash.freeName(for: name, in: folder, from: names[key] ?? 1)
                names[key] = number + 1
                steps[index].destination = folder.files.appendingName(free)
            } catch let error as Errno {
                fail(index, error)
            } catch let error as KithError {
                fail(index, error.message)
            }
        }
        try journal.put(steps, of: operation)
    }

    private func doStep(_ index: Int, wasBegun: Bool) throws {
        let step = steps[index]
        guard step.state != .failed else { return }
        progress.current = step.source ?? step.destination
        try report(progress)
        if let after = step.after, try !isDone(stepNumbered: after) {
            return skip(index, "what had to be done before it was not")
        }
        if step.action != .copy { try place() }
        if wasBegun, try isDone(index) { return finish(index) }
        switch step.action {
        case .copy: try copy(index)
        case .makeFolder: try makeFolder(index)
        case .finishFolder: try finishFolder(index)
        case .rename: try rename(index)
        case .exchange: try exchange(index)
        case .delete, .deleteFolder: try delete(index)
        case .trash: try putIntoTrash(index)
        case .restore: try restore(index)
        case .purge: try purge(index)
        }
    }

    private func isDone(stepNumbered number: Int64) throws -> Bool {
        if let step = steps.first(where: { $0.number == number }) {
            if step.state == .placing { try place() }
            return steps.first { $0.number == number }?.state == .done
        }
        return try journal.step(number, of: operation)?.state == .done
    }

    private func skip(_ index: Int, _ reason: String) {
        steps[index].state = .skipped
        steps[index].message = reason
    }

    private func fail(_ index: Int, _ reason: String) {
        steps[index].state = .failed
        steps[index].message = reason
    }

    private func fail(_ index: Int, _ error: Errno) {
        let step = steps[index]
        removeLeftovers(of: step)
        guard error != .truncated else { return skip(index, "it has changed since it was planned") }
        fail(index, error.failure(step.action.rawValue, (step.source ?? step.destination ?? []).shown).message)
    }

    private func finish(_ index: Int) {
        steps[index].state = .done
        for path in [steps[index].source, steps[index].destination] {
            if let path { changed.insert(path.splitAtName.folder) }
        }
    }

    private func syncFolders() throws {
        for folder in changed {
            do throws(Errno) { try files.sync(folder: folder) } catch {
                // One that has gone since needs nothing.
                guard error == .notFound || error == .notAFolder else {
                    throw error.failure("write", folder.shown)
                }
            }
        }
        changed = []
    }

    // MARK: - What a kill leaves behind

    /// Whether a step that was begun is done; what it landed as is noted then.
    private func isDone(_ index: Int) throws -> Bool {
        let step = steps[index]
        switch (step.action, step.source, step.destination) {
        case (.makeFolder, _, let place?):
            guard let there = try files.identity(place), there.kind == .folder else { return false }
            steps[index].landed = there
        case (.copy, _, let place?):
            guard let landed = step.landed, let found = try find(landed, at: place) else { return false }
            steps[index].destination = found
        case (.rename, _, let place?), (.restore, _, let place?):
            guard let identity = step.identity, let found = try find(identity, at: place) else { return false }
            // The same name in another case was there before, too.
            if let source = step.source, source != found, try files.identity(source)?.isSame(as: identity) == true {
                return false
            }
            steps[index].destination = found
            steps[index].landed = try files.identity(found)
            if step.action == .restore, let source = step.source { try forgetNote(of: source) }
        case (.exchange, let source?, let place?):
            guard let identity = step.identity, let other = step.landed else { return false }
            return try files.identity(place)?.isSame(as: identity) == true
                && files.identity(source)?.isSame(as: other) == true
        case (.delete, let source?, _), (.deleteFolder, let source?, _): return try files.identity(source) == nil
        case (.trash, _, let place?):
            guard let identity = step.identity, let there = try files.identity(place), there.isSame(as: identity) else {
                return false
            }
            steps[index].landed = there
        case (.purge, let source?, _):
            guard try files.identity(source) == nil else { return false }
            try forgetNote(of: source)
        default: return false
        }
        return true
    }

    /// The name of a file, or one with a number, under which something is.
    private func find(_ identity: FileIdentity, at place: [UInt8]) throws -> [UInt8]? {
        let (folder, name) = place.splitAtName
        var candidate = place
        for number in 2...1_000 {
            guard let there = try files.identity(candidate) else { return nil }
            if there.isSame(as: identity) { return candidate }
            candidate = folder.appendingName(name.numbered(number))
        }
        return nil
    }

    /// The name of a copy until it is whole; nothing else has such a name.
    private func temporaryName(_ step: OperationStep) -> [UInt8] {
        Array(".kith-operation-\(operation.id.prefix(13))-\(step.number)".utf8)
    }

    /// Takes away what a step that is not done has left behind.
    private func removeLeftovers(of step: OperationStep) {
        guard let place = step.destination else { return }
        let folder = place.splitAtName.folder
        switch step.action {
        case .copy:
            // Most have none.
            try? files.folder(folder).remove(temporaryName(step))
        case .trash:
            let name = place.splitAtName.name
            guard let source = step.source, let can = try? trash.folder(for: source), can.files == folder,
                isNoted(name, as: source, in: can), (try? files.identity(place)) == .some(nil)
            else { return }
            // One that stays notes something that is not there, which emptying the trash takes away.
            try? trash.forget(name, in: can)
        default: break
        }
    }

    // MARK: - Copying

    private func copy(_ index: Int) throws {
        let step = steps[index]
        guard let source = step.source, let place = step.destination, let identity = step.identity else { return }
        if let there = step.there, step.choice == .skip {
            return skip(index, "something of that name is there: \(there.kind.rawValue)")
        }
        let ((from, name), (to, _)) = (source.splitAtName, place.splitAtName)
        let temporary = temporaryName(step)
        let before = progress
        let folder = try files.folder(to)
        do throws(Errno) { try folder.remove(temporary) } catch { guard error == .notFound else { throw error } }
        do {
            let (landed, file) = try FileCopying(
                source: try files.folder(from), name: name, identity: identity, folder: folder, temporary: temporary,
                progress: { [self] count in
                    progress.bytes = progress.bytes.addingReportingOverflow(count).partialValue
                    try Task.checkCancellation()
                    try report(progress)
                }
            ).run()
            progress.bytes = before.bytes.addingReportingOverflow(step.bytes).partialValue
            steps[index].landed = landed
            steps[index].state = .placing
            whole.append((index, file))
        } catch {
            progress.bytes = before.bytes
            // Nothing is lost by what cannot be removed: it has a name of its own.
            try? folder.remove(temporary)
            if let error = error as? Errno, error == .notFound { return skip(index, "it is not there any more") }
            throw error
        }
        moment("copied")
    }

    /// Gives the copies that are whole the names that were asked for.
    private func place() throws {
        guard !whole.isEmpty else { return }
        let copied = whole
        whole = []
        var indices: [Int] = []
        for (index, file) in copied {
            do throws(Errno) {
                try file?.sync()
                indices.append(index)
            } catch {
                fail(index, error)
            }
        }
        // Which files they are, before anybody could take them for others.
        try journal.put(indices.map { steps[$0] }, of: operation)
        moment("placing")
        for index in indices {
            let step = steps[index]
            guard let place = step.destination else { continue }
            let folder = place.splitAtName.folder
            do throws(Errno) {
                let name = try rename(
                    temporaryName(step), from: files.folder(folder), to: place.splitAtName.name,
                    in: files.folder(folder), numbering: step.choice == .keepBoth)
                steps[index].destination = folder.appendingName(name)
                finish(index)
                moment("placed")
            } catch {
                removeLeftovers(of: step)
                if error == .exists { skip(index, "something has that name by now") } else { fail(index, error) }
            }
        }
    }

    /// Renames to a name nothing has, or to one with a number where that is wanted; returns the name.
    private func rename(
        _ name: [UInt8], from: Descriptor, to other: [UInt8], in folder: Descriptor, numbering: Bool
    ) throws(Errno) -> [UInt8] {
        var candidate = other
        for number in 2...1_000 {
            do throws(Errno) {
                try from.rename(name, to: candidate, in: folder, overwrite: false)
                return candidate
            } catch {
                guard error == .exists, numbering else { throw error }
                candidate = other.numbered(number)
            }
        }
        throw .exists
    }

    private func makeFolder(_ index: Int) throws {
        let step = steps[index]
        guard let place = step.destination else { return }
        if let there = step.there, step.choice == .skip {
            return skip(index, "something of that name is there: \(there.kind.rawValue)")
        }
        let (folder, name) = place.splitAtName
        do throws(Errno) {
            // One that is copied gets its own permissions when all that is in it is there.
            try files.folder(folder).makeFolder(name, mode: step.source == nil ? 0o777 : 0o700)
        } catch {
            guard error == .exists else { throw error }
            let isFolder = (try files.identity(place))?.kind == .folder
            return skip(index, isFolder ? "a folder of that name is there by now" : "something has that name by now")
        }
        steps[index].landed = try files.identity(place)
        finish(index)
        moment("made")
    }

    private func finishFolder(_ index: Int) throws {
        let step = steps[index]
        guard let source = step.source, let place = step.destination, let identity = step.identity else { return }
        let (from, to) = (source.splitAtName, place.splitAtName)
        let info = try files.folder(from.folder).info(from.name)
        guard identity.isSame(as: FileIdentity(info)) else {
            return skip(index, "the folder it was copied from is another by now")
        }
        let original = try files.folder(from.folder).open(name: from.name, [.folder, .noFollow])
        let folder = try files.folder(to.folder).open(name: to.name, [.folder, .noFollow])
        do throws(Errno) {
            try ExtendedAttributes.write(try ExtendedAttributes.read(original), to: folder)
        } catch {
            guard error == .notSupported || error.isDenial else { throw error }
        }
        try folder.setMode(info.mode & 0o777)
        try folder.setModified(info.seconds, info.nanoseconds)
        steps[index].state = .done
    }

    // MARK: - Names

    /// Whether what a step is for is there, as it was; else the step is left out.
    private func isAsPlanned(_ index: Int) throws -> Bool {
        let step = steps[index]
        guard let source = step.source else { return true }
        guard let there = try files.identity(source) else {
            skip(index, "it is not there any more")
            return false
        }
        guard let identity = step.identity, identity.matches(there) else {
            skip(index, "it has changed since it was planned")
            return false
        }
        return true
    }

    private func rename(_ index: Int) throws {
        let step = steps[index]
        guard let source = step.source, let place = step.destination, try isAsPlanned(index) else { return }
        if let there = step.there, step.choice == .skip {
            return skip(index, "something of that name is there: \(there.kind.rawValue)")
        }
        let (from, to) = (source.splitAtName, place.splitAtName)
        // In another case of letters, where those do not count, it is in its own way.
        let isItself =
            try step.there == nil && source.shown.lowercased() == place.shown.lowercased()
            && files.identity(place).map { step.identity?.isSame(as: $0) ?? false } ?? false
        do throws(Errno) {
            let name: [UInt8]
            if isItself {
                try files.folder(from.folder).rename(
                    from.name, to: to.name, in: files.folder(to.folder), overwrite: true)
                name = to.name
            } else {
                name = try rename(
                    from.name, from: files.folder(from.folder), to: to.name, in: files.folder(to.folder),
                    numbering: step.choice == .keepBoth)
            }
            steps[index].destination = to.folder.appendingName(name)
        } catch {
            guard error == .exists || error == .notEmpty else { throw error }
            return skip(index, "something has that name by now")
        }
        moment("renamed")
        steps[index].landed = try steps[index].destination.flatMap { try files.identity($0) }
        finish(index)
    }

    private func exchange(_ index: Int) throws {
        let step = steps[index]
        guard let source = step.source, let place = step.destination, try isAsPlanned(index) else { return }
        guard let other = step.landed, let there = try files.identity(place), other.matches(there) else {
            return skip(index, "what it changes place with has changed since")
        }
        let (from, to) = (source.splitAtName, place.splitAtName)
        try files.folder(from.folder).exchange(from.name, with: to.name, in: files.folder(to.folder))
        moment("exchanged")
        finish(index)
    }

    // MARK: - Deleting

    private func delete(_ index: Int) throws {
        let step = steps[index]
        guard let source = step.source, try isAsPlanned(index) else { return }
        if let after = step.after, let copy = try self.step(after), copy.action == .copy {
            // Never the last of two.
            guard let place = copy.destination, let landed = copy.landed, let there = try files.identity(place),
                landed.matches(there)
            else { return skip(index, "its copy is not as it was made") }
            // On the disk under its name before this one is gone from it.
            let around = place.splitAtName.folder
            if changed.contains(around) {
                try files.sync(folder: around)
                changed.remove(around)
            }
        }
        let (folder, name) = source.splitAtName
        do throws(Errno) {
            try files.folder(folder).remove(name, isFolder: step.action == .deleteFolder)
        } catch {
            guard error == .notEmpty || error == .exists else { throw error }
            return skip(index, "it is not empty")
        }
        moment("deleted")
        finish(index)
    }

    private func step(_ number: Int64) throws -> OperationStep? {
        try steps.first { $0.number == number } ?? journal.step(number, of: operation)
    }

    // MARK: - Trash

    private func isNoted(_ name: [UInt8], as source: [UInt8], in folder: TrashFolder) -> Bool {
        trash.noted(name, in: folder)?.path == trash.notedPath(of: source, in: folder)
    }

    private func putIntoTrash(_ index: Int) throws {
        guard let source = steps[index].source, try isAsPlanned(index) else {
            return removeLeftovers(of: steps[index])
        }
        let folder = try trash.folder(for: source)
        let (from, own) = source.splitAtName
        for number in 1...1_000 {
            guard let place = steps[index].destination else { return }
            let name = place.splitAtName.name
            var hasNoted = false
            do throws(Errno) {
                // What an earlier attempt has noted is as good.
                let isTaken = try files.identity(place) != nil
                if isTaken || !isNoted(name, as: source, in: folder) {
                    try trash.note(
                        trash.info(of: source, in: folder, deleted: journal.now(), steps[index].identity), of: name,
                        in: folder, temporary: temporaryName(steps[index]))
                    hasNoted = true
                    moment("noted for the trash")
                }
                try files.folder(from).rename(own, to: name, in: files.folder(folder.files), overwrite: false)
            } catch {
                if hasNoted { try trash.forget(name, in: folder) }
                guard error == .exists else { throw error }
                let free = try trash.freeName(for: own, in: folder, from: number)
                steps[index].destination = folder.files.appendingName(free.name)
                try journal.put([steps[index]], of: operation)
                continue
            }
            moment("trashed")
            steps[index].landed = try files.identity(place)
            if steps[index].identity?.kind == .folder { trash.noteSize(of: name, in: folder) }
            return finish(index)
        }
        fail(index, "no name is free for it in the trash")
    }

    /// Takes away what is noted of something that has left the trash.
    private func forgetNote(of path: [UInt8]) throws {
        let (parent, name) = path.splitAtName
        guard let folder = trash.folders().first(where: { $0.files == parent }) else { return }
        try trash.forget(name, in: folder)
        changed.insert(folder.info)
    }

    private func restore(_ index: Int) throws {
        try rename(index)
        guard steps[index].state == .done, let source = steps[index].source else { return }
        moment("restored")
        try forgetNote(of: source)
    }

    private func purge(_ index: Int) throws {
        let step = steps[index]
        guard let source = step.source else { return }
        let (folder, name) = source.splitAtName
        if let there = try files.identity(source) {
            guard let identity = step.identity, identity.isSame(as: there) else {
                return skip(index, "something else has its name in the trash by now")
            }
            _ = try Removal.removeTree(name, from: try files.folder(folder))
            moment("purged")
        }
        try forgetNote(of: source)
        finish(index)
    }
}
