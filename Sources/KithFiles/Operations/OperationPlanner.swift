import KithAPI
import KithIndex
import KithWire

/// Finds out what an operation would do, and writes it down as steps; changes nothing else.
///
/// Used by one task, on a ``DiskExecutor``.
final class OperationPlanner {
    /// The most paths of one operation.
    static let maximumPaths = 10_000
    /// The most steps of one operation.
    static let maximumSteps = 1_000_000
    /// What is deleted after it was copied is so after everything has been.
    private static let afterwards: Int64 = 1 << 40

    private let journal: OperationJournal
    private let operation: OperationJournal.Operation
    private let files: OperationFiles
    private let trash: TrashCan
    private let conflicts: Operations.Choice
    private var waiting: [OperationStep] = []
    private var number: Int64 = 0
    private var summary = OperationJournal.Summary()
    private var needed: [[UInt8]: UInt64] = [:]
    /// The names that steps make, which are not there yet.
    private var taken: Set<[UInt8]> = []
    /// The names that steps free; true where that is done afterwards.
    private var freed: [[UInt8]: Bool] = [:]

    init(
        _ operation: OperationJournal.Operation, in journal: OperationJournal, files: OperationFiles,
        trash: TrashCan, conflicts: Operations.Choice
    ) {
        self.journal = journal
        self.operation = operation
        self.files = files
        self.trash = trash
        self.conflicts = conflicts
    }

    // MARK: - Steps

    /// Adds a step, with its number, and with what is done about a name that is taken.
    ///
    /// Numbers go by twos: before each is room for what makes way.
    @discardableResult
    private func add(_ step: OperationStep, afterwards: Bool = false) throws -> Int64 {
        number += 2
        guard number <= 2 * Self.maximumSteps else {
            throw KithError(
                .exhausted, "That would be more than \(Self.maximumSteps) steps. Do it in several operations.")
        }
        if waiting.count % 256 == 0 { try Task.checkCancellation() }
        var step = step
        step.number = afterwards ? number + Self.afterwards : number
        summary.totals.steps += 1
        if step.state == .failed {
            summary.totals.problems += 1
        } else {
            count(&step)
        }
        waiting.append(step)
        if waiting.count >= 2_000 { try flush() }
        return step.number
    }

    private func count(_ step: inout OperationStep) {
        switch step.action {
        case .finishFolder: break
        case .makeFolder, .deleteFolder: summary.totals.folders += 1
        // Each file counts once: where it is copied.
        case .delete where step.after != nil: break
        default:
            if step.identity?.kind == .folder { summary.totals.folders += 1 } else { summary.totals.files += 1 }
        }
        summary.totals.bytes = summary.totals.bytes.addingReportingOverflow(step.bytes).partialValue
        if step.bytes > 0, let destination = step.destination {
            let mount = files.mounts.mount(of: destination)?.point ?? [UInt8(ascii: "/")]
            let total = (needed[mount] ?? 0).addingReportingOverflow(step.bytes)
            needed[mount] = total.overflow ? .max : total.partialValue
        }
        guard step.there != nil else { return }
        summary.totals.conflicts += 1
        step.choice = step.choices.contains(conflicts) ? conflicts : conflicts == .ask ? .ask : .skip
        if step.choice == .ask { summary.totals.unresolved += 1 }
        if step.choice == .overwrite { noteReplacing(step) }
    }

    /// What is replaced without a trash is gone.
    private func noteReplacing(_ step: OperationStep) {
        guard let destination = step.destination, (try? trash.folder(for: destination)) == nil else { return }
        summary.notUndoable = "what is replaced has no trash to go to"
    }

    private func flush() throws {
        try journal.put(waiting, of: operation)
        waiting = []
    }

    /// A step that cannot be done, and why.
    private func addProblem(
        _ action: Operations.Action, _ source: [UInt8]?, _ destination: [UInt8]? = nil, _ identity: FileIdentity? = nil,
        _ message: String
    ) throws {
        try add(
            OperationStep(
                number: 0, action: action, source: source, destination: destination, identity: identity,
                state: .failed, message: message))
    }

    /// What is at a path that steps are to make.
    private func there(_ path: [UInt8]) throws -> FileIdentity? {
        try attempt("access", path.shown) { () throws(Errno) in try files.identity(path) }
    }

    /// Ends the plan.
    func finish() throws -> OperationJournal.Summary {
        try flush()
        summary.totals.steps = Int(number / 2)
        for (mount, bytes) in needed.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            let room = try attempt("measure", mount.shown) { () throws(Errno) in try files.room(mount) }
            summary.room.append(Operations.Room(path: Files.Path(bytes: mount), needed: bytes, free: room.free))
        }
        try journal.setSummary(summary, of: operation)
        return summary
    }

    // MARK: - Operations

    /// Plans what was asked for.
    func plan(_ input: Operations.Plan.Input) throws {
        guard (1...Self.maximumPaths).contains(input.paths.count) else {
            throw KithError(.invalid, "An operation is done with 1 to \(Self.maximumPaths) paths.")
        }
        switch input.kind {
        case .copy, .move: try planPlacing(input)
        case .rename: try planRenaming(input)
        case .delete:
            summary.notUndoable = "what is deleted for good is gone; `trash` keeps it"
            for path in try distinct(input.paths) { try delete(path) }
        case .trash: for path in try distinct(input.paths) { try putIntoTrash(path) }
        case .restore: try planRestoring(input.paths)
        case .makeFolder: for path in input.paths { try makeFolders(to: try resolvedAsFar(path)) }
        case .emptyTrash, .undo:
            throw KithError(.invalid, "`\(input.kind.rawValue)` has a method of its own.")
        }
    }

    private func distinct(_ paths: [Files.Path]) throws -> [[UInt8]] {
        var seen: Set<[UInt8]> = []
        return try paths.map { try files.resolved($0) }.filter { seen.insert($0).inserted }
    }

    /// The path without links as far as it is there.
    private func resolvedAsFar(_ path: Files.Path) throws -> [UInt8] {
        let parsed = try path.parsed()
        var names = parsed.components
        if parsed.anchor == .home {
            names =
                try attempt("find", "the home folder", homeFolder).split(separator: UInt8(ascii: "/")).map {
                    [UInt8]($0)
                }
                + names
        } else if parsed.anchor == .grant {
            throw KithError(.invalid, "The path \(path) must begin with / or ~.")
        }
        var rest: [[UInt8]] = []
        while true {
            let there = [UInt8(ascii: "/")] + Array(names.joined(separator: [UInt8(ascii: "/")]))
            do throws(KithError) {
                let real = try files.real(there, for: path)
                return rest.reversed().reduce(real) { $0.appendingName($1) }
            } catch {
                guard error.code == .notFound, let name = names.popLast() else { throw error }
                rest.append(name)
            }
        }
    }

    // MARK: Copies and moves

    private func planPlacing(_ input: Operations.Plan.Input) throws {
        guard let destination = input.destination else {
            throw KithError(.invalid, "Say where to \(input.kind.rawValue): `destination`.")
        }
        let target = try resolvedAsFar(destination)
        let there = try there(target)
        // A link to a folder was followed; one in the last place that leads nowhere is a name.
        let isFolder = there?.kind == .folder
        let saysFolder = try destination.parsed().isFolder
        if !isFolder, input.paths.count > 1 || saysFolder {
            throw KithError(.notFound, "\(destination) is not a folder.")
        }
        let parent = isFolder ? target : target.splitAtName.folder
        guard try self.there(parent)?.kind == .folder else {
            throw KithError(.notFound, "The folder \(parent.shown) is not there. Make it first.")
        }
        let room = try attempt("look at", parent.shown) { () throws(Errno) in try files.room(parent) }
        let canWrite = !room.isReadOnly && files.mayChange(folder: parent)
        for source in try distinct(input.paths) {
            let place = isFolder ? target.appendingName(source.splitAtName.name) : target
            let action: Operations.Action = input.kind == .copy ? .copy : .rename
            guard let identity = try self.there(source) else {
                try addProblem(action, source, place, nil, "it is not there")
                continue
            }
            guard canWrite else {
                try addProblem(action, source, place, identity, "\(parent.shown) cannot be written to")
                continue
            }
            if identity.kind == .folder, place.lies(in: source) {
                try addProblem(action, source, place, identity, "a folder cannot be put into itself")
                continue
            }
            if source == place {
                // Beside itself, as file managers do.
                if input.kind == .copy, conflicts == .keepBoth {
                    try copy(source, to: place, identity, isMove: false)
                } else {
                    try addProblem(action, source, place, identity, "it is there already")
                }
                continue
            }
            guard taken.insert(place).inserted else {
                try addProblem(action, source, place, identity, "something else of this operation has that name")
                continue
            }
            if input.kind == .copy {
                try copy(source, to: place, identity, isMove: false)
            } else if let reason = files.refusal(toRemove: source) {
                try addProblem(action, source, place, identity, reason)
            } else if !files.mayChange(folder: source.splitAtName.folder) {
                try addProblem(action, source, place, identity, "its folder cannot be written to")
            } else {
                try move(source, to: place, identity)
            }
        }
    }

    /// Moves something: by its name, or where that does not do, by copying and deleting.
    private func move(_ source: [UInt8], to place: [UInt8], _ identity: FileIdentity, depth: Int = 0) throws {
        guard files.isOneFileSystem(source, place.splitAtName.folder) else {
            summary.crossesFileSystems = true
            return try copy(source, to: place, identity, isMove: true, depth: depth)
        }
        let there = try there(place)
        if let there, there.kind == .folder, identity.kind == .folder, !there.isSame(as: identity) {
            // What is in it goes into the other.
            try forEachChild(of: source, depth) { name, child in
                try move(source.appendingName(name), to: place.appendingName(name), child, depth: depth + 1)
            }
            try add(
                OperationStep(number: 0, action: .deleteFolder, source: source, identity: identity), afterwards: true)
            return
        }
        guard !holdsMount(source) else {
            return try addProblem(.rename, source, place, identity, "a file system is mounted in it")
        }
        let isItself = isItself(source, place, identity, there)
        try add(
            OperationStep(
                number: 0, action: .rename, source: source, destination: place, identity: identity,
                there: isItself ? nil : there))
    }

    /// Whether a name is the same thing by another spelling, where letters' case does not count; not a second name of it.
    private func isItself(
        _ source: [UInt8], _ place: [UInt8], _ identity: FileIdentity, _ there: FileIdentity?
    ) -> Bool {
        guard let there, there.isSame(as: identity) else { return false }
        return source.shown.lowercased() == place.shown.lowercased()
    }

    private func holdsMount(_ path: [UInt8]) -> Bool {
        files.mounts.mounts.contains { $0.point != path && $0.point.lies(in: path) }
    }

    /// Copies something with all that is in it; of a move, it is deleted afterwards.
    private func copy(
        _ source: [UInt8], to place: [UInt8], _ identity: FileIdentity, isMove: Bool, depth: Int = 0
    ) throws {
        switch identity.kind {
        case .file, .link:
            guard identity.kind == .link || files.mayRead(source) else {
                return try addProblem(.copy, source, place, identity, "it cannot be read")
            }
            let number = try add(
                OperationStep(
                    number: 0, action: .copy, source: source, destination: place, identity: identity,
                    there: try there(place)))
            guard isMove else { return }
            try add(
                OperationStep(number: 0, action: .delete, source: source, identity: identity, after: number),
                afterwards: true)
        case .folder:
            guard files.mayRead(source) else {
                return try addProblem(.makeFolder, source, place, identity, "it cannot be listed")
            }
            let there = try there(place)
            var made: Int64?
            if there?.kind != .folder {
                made = try add(
                    OperationStep(
                        number: 0, action: .makeFolder, source: source, destination: place, identity: identity,
                        there: there))
            }
            try forEachChild(of: source, depth) { name, child in
                try copy(
                    source.appendingName(name), to: place.appendingName(name), child, isMove: isMove, depth: depth + 1)
            }
            if let made {
                try add(
                    OperationStep(
                        number: 0, action: .finishFolder, source: source, destination: place, identity: identity,
                        after: made))
            }
            if isMove {
                try add(
                    OperationStep(number: 0, action: .deleteFolder, source: source, identity: identity),
                    afterwards: true)
            }
        case .special:
            try addProblem(.copy, source, place, identity, "it is not a file, a folder or a link")
        }
    }

    private func forEachChild(
        of path: [UInt8], _ depth: Int, _ body: (_ name: [UInt8], FileIdentity) throws -> Void
    ) throws {
        guard depth < TreeSource.maximumDepth else {
            throw KithError(
                .exhausted, "\(path.shown) lies deeper than \(TreeSource.maximumDepth) folders. Nothing was changed.")
        }
        let names = try attempt("list", path.shown) { () throws(Errno) in
            try files.folder(path).names(limit: Self.maximumSteps)
        }
        for name in names.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            // What has gone since is none of its business.
            guard let child = try there(path.appendingName(name)) else { continue }
            try body(name, child)
        }
    }

    // MARK: Names

    private func planRenaming(_ input: Operations.Plan.Input) throws {
        let pattern = try input.pattern.map { text throws(KithError) in try RenamePattern(text) }
        guard (pattern == nil) != (input.names == nil) else {
            throw KithError(.invalid, "Say the new names by `names`, or by a `pattern`.")
        }
        if let names = input.names, names.count != input.paths.count {
            throw KithError(.invalid, "There are \(input.paths.count) paths and \(names.count) names.")
        }
        var moves: [(source: [UInt8], place: [UInt8], identity: FileIdentity)] = []
        var places: Set<[UInt8]> = []
        for (index, path) in input.paths.enumerated() {
            let source = try files.resolved(path)
            guard let identity = try there(source) else {
                try addProblem(.rename, source, nil, nil, "it is not there")
                continue
            }
            let (folder, old) = source.splitAtName
            let name =
                input.names.map { $0[index].bytes }
                ?? pattern?.name(for: old, number: index + 1, modified: identity.modified) ?? old
            guard Files.Path.isName(name) else {
                try addProblem(.rename, source, nil, identity, "“\(name.shown)” is not a name")
                continue
            }
            if name == old { continue }
            let place = folder.appendingName(name)
            if let reason = files.refusal(toRemove: source)
                ?? (files.mayChange(folder: folder) ? nil : "its folder cannot be written to")
            {
                try addProblem(.rename, source, place, identity, reason)
            } else if !places.insert(place).inserted {
                try addProblem(.rename, source, place, identity, "two of them would have that name")
            } else {
                moves.append((source, place, identity))
            }
        }
        try addRenames(moves)
    }

    /// Adds renames in an order in which none stands in the way of another; names that go round are exchanged.
    private func addRenames(_ moves: [(source: [UInt8], place: [UInt8], identity: FileIdentity)]) throws {
        let bySource = Dictionary(moves.enumerated().map { ($1.source, $0) }) { first, _ in first }
        var done = [Bool](repeating: false, count: moves.count)
        for start in moves.indices where !done[start] {
            // Each waits for the one that has its name.
            var chain = [start]
            done[start] = true
            while let next = chain.last.flatMap({ bySource[moves[$0].place] }), !done[next] {
                chain.append(next)
                done[next] = true
            }
            guard let last = chain.last else { continue }
            if moves[last].place == moves[start].source, chain.count > 1 {
                // All the way round: the first changes place with each of the others in turn.
                for (index, move) in chain.dropLast().enumerated() {
                    try add(
                        OperationStep(
                            number: 0, action: .exchange, source: moves[start].source, destination: moves[move].place,
                            identity: moves[chain[index]].identity, landed: moves[chain[index + 1]].identity))
                }
                continue
            }
            for move in chain.reversed() {
                let (source, place, identity) = moves[move]
                let isFreed = bySource[place] != nil
                let there = try isFreed ? nil : there(place)
                let isItself = isItself(source, place, identity, there)
                try add(
                    OperationStep(
                        number: 0, action: .rename, source: source, destination: place, identity: identity,
                        there: isItself ? nil : there))
            }
        }
    }

    // MARK: Deleting

    private func delete(_ path: [UInt8], depth: Int = 0) throws {
        guard let identity = try there(path) else {
            return try addProblem(.delete, path, nil, nil, "it is not there")
        }
        if let reason = files.refusal(toRemove: path) ?? (holdsMount(path) ? "a file system is mounted in it" : nil) {
            return try addProblem(.delete, path, nil, identity, reason)
        }
        guard files.mayChange(folder: path.splitAtName.folder) else {
            return try addProblem(.delete, path, nil, identity, "its folder cannot be written to")
        }
        try deleteTree(path, identity, depth: 0)
    }

    private func deleteTree(_ path: [UInt8], _ identity: FileIdentity, depth: Int) throws {
        guard identity.kind == .folder else {
            try add(OperationStep(number: 0, action: .delete, source: path, identity: identity))
            return
        }
        guard files.mayRead(path) else {
            return try addProblem(.deleteFolder, path, nil, identity, "it cannot be listed")
        }
        try forEachChild(of: path, depth) { name, child in
            try deleteTree(path.appendingName(name), child, depth: depth + 1)
        }
        try add(OperationStep(number: 0, action: .deleteFolder, source: path, identity: identity))
    }

    // MARK: Trash

    private func putIntoTrash(_ path: [UInt8], _ identity: FileIdentity? = nil) throws {
        guard let there = try there(path) else {
            return try addProblem(.trash, path, nil, nil, "it is not there")
        }
        let folder: TrashFolder
        do throws(KithError) { folder = try trash.folder(for: path) } catch {
            return try addProblem(.trash, path, nil, there, error.message)
        }
        if let reason = files.refusal(toRemove: path) ?? (holdsMount(path) ? "a file system is mounted in it" : nil) {
            return try addProblem(.trash, path, nil, there, reason)
        }
        guard !path.lies(in: folder.path), !folder.path.lies(in: path) else {
            return try addProblem(.trash, path, nil, there, "it is in the trash, or holds it")
        }
        guard files.mayChange(folder: path.splitAtName.folder) else {
            return try addProblem(.trash, path, nil, there, "its folder cannot be written to")
        }
        // The name there is found when it is put there.
        try add(
            OperationStep(
                number: 0, action: .trash, source: path,
                destination: folder.files.appendingName(path.splitAtName.name), identity: identity ?? there))
    }

    private func planRestoring(_ paths: [Files.Path]) throws {
        let items = trash.items()
        var used: Set<[UInt8]> = []
        for path in paths {
            let resolved = try resolvedAsFar(path)
            // The latest first: that is what is meant by where it was.
            guard
                let item = items.first(where: {
                    $0.identity != nil && ($0.original == resolved || $0.path == resolved) && !used.contains($0.path)
                })
            else {
                try addProblem(.restore, resolved, nil, nil, "it is not in the trash")
                continue
            }
            used.insert(item.path)
            guard let original = item.original else {
                try addProblem(
                    .restore, item.path, nil, item.identity,
                    "where it was is not known, or on another file system: move it from \(item.path.shown)")
                continue
            }
            try restore(item.path, to: original, item.identity)
        }
    }

    private func restore(_ path: [UInt8], to original: [UInt8], _ identity: FileIdentity?) throws {
        var parent = original.splitAtName.folder
        while parent.count > 1, try there(parent) == nil { parent = parent.splitAtName.folder }
        guard files.isOneFileSystem(path, parent) else {
            return try addProblem(
                .restore, path, original, identity,
                "its place is on another file system now: move it from \(path.shown)")
        }
        guard files.mayChange(folder: parent) else {
            return try addProblem(.restore, path, original, identity, "\(parent.shown) cannot be written to")
        }
        try makeFolders(to: original.splitAtName.folder)
        guard taken.insert(original).inserted else {
            return try addProblem(.restore, path, original, identity, "something else of this operation has that name")
        }
        try add(
            OperationStep(
                number: 0, action: .restore, source: path, destination: original, identity: identity,
                there: freed[original] == nil ? try there(original) : nil), afterwards: freed[original] ?? false)
    }

    /// Makes a folder, and those around it that are not there.
    private func makeFolders(to path: [UInt8]) throws {
        if let there = try there(path) {
            guard there.kind != .folder else { return }
            return try addProblem(.makeFolder, nil, path, nil, "something that is not a folder has that name")
        }
        guard taken.insert(path).inserted else { return }
        try makeFolders(to: path.splitAtName.folder)
        try add(OperationStep(number: 0, action: .makeFolder, destination: path))
    }

    /// Plans to delete for good what was put into the trash before a time, in seconds since 1970.
    func planEmptying(before: Int64?) throws {
        summary.notUndoable = "what is deleted from the trash is gone"
        for item in trash.items() {
            // Of what no time is known, nobody can say that it is old.
            if let before { guard let deleted = item.deleted, deleted < before else { continue } }
            try add(
                OperationStep(
                    number: 0, action: .purge, source: item.path, destination: item.original, identity: item.identity))
        }
        if number == 0 {
            throw KithError(
                .notFound, before == nil ? "The trash is empty." : "There is nothing that old in the trash.")
        }
    }

    // MARK: Undo

    /// Plans to take back what was done of an operation, from its end to its beginning.
    func planUndoing(_ undone: OperationJournal.Operation) throws {
        var before = Int64.max
        /// The copies that were deleted where they came from, and the steps that copy them back.
        var copiedBack: [Int64: Int64] = [:]
        while true {
            let steps = try journal.stepsBackwards(of: undone, before: before, limit: 1_000)
            guard let last = steps.last else { break }
            before = last.number
            for step in steps where step.state == .done { try undo(step, of: undone, &copiedBack) }
        }
        guard number > 0 else {
            throw KithError(.notFound, "Nothing of that operation was done, so that there is nothing to take back.")
        }
    }

    private func undo(
        _ step: OperationStep, of undone: OperationJournal.Operation, _ copiedBack: inout [Int64: Int64]
    ) throws {
        let landed = step.landed ?? step.identity
        switch (step.action, step.source, step.destination) {
        case (.rename, let source?, let place?):
            try reversed(
                OperationStep(number: 0, action: .rename, source: place, destination: source, identity: landed))
            freed[place] = false
        case (.exchange, let source?, let place?):
            try add(
                OperationStep(
                    number: 0, action: .exchange, source: source, destination: place, identity: step.landed,
                    landed: step.identity))
        case (.makeFolder, _, let place?):
            try add(
                OperationStep(number: 0, action: .deleteFolder, source: place, identity: landed), afterwards: true)
            freed[place] = true
        case (.copy, _, let place?):
            if let number = copiedBack.removeValue(forKey: step.number) {
                try add(
                    OperationStep(number: 0, action: .delete, source: place, identity: landed, after: number),
                    afterwards: true)
                freed[place] = true
            } else {
                try putIntoTrash(place, landed)
                freed[place] = false
            }
        case (.delete, let source?, _):
            // The one that was copied before comes back; what was deleted for good does not.
            guard let after = step.after, let copy = try journal.step(after, of: undone), copy.action == .copy,
                let place = copy.destination
            else { return try lost(step) }
            copiedBack[copy.number] = try reversed(
                OperationStep(number: 0, action: .copy, source: place, destination: source, identity: copy.landed))
            summary.crossesFileSystems = true
        case (.deleteFolder, let source?, _):
            guard undone.kind != .delete else { return try lost(step) }
            try makeFolders(to: source)
        case (.trash, let source?, let place?):
            try restore(place, to: source, step.identity)
        case (.restore, _, let place?):
            try putIntoTrash(place, landed)
            freed[place] = false
        case (.finishFolder, _, _): break
        default: try lost(step)
        }
    }

    /// Adds a step back, to a name that something may have taken since.
    @discardableResult
    private func reversed(_ step: OperationStep) throws -> Int64 {
        var step = step
        if let place = step.destination, freed[place] == nil, let there = try there(place),
            step.identity.map({ !$0.isSame(as: there) }) ?? true
        {
            step.there = there
        }
        return try add(step)
    }

    private func lost(_ step: OperationStep) throws {
        try addProblem(step.action, step.source, step.destination, step.identity, "that cannot be taken back")
    }
}
