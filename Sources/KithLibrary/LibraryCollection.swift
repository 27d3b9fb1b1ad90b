import Foundation
import KithAPI
import KithIO
import KithIndex
import KithNode
import KithWire
import Logging

/// The libraries of a device, each with its keeper as long as it is open.
actor LibraryCollection {
    /// How often libraries are opened that were not there: a disk may have come back.
    private static let interval = Duration.seconds(60)

    private let data: String
    private let keepsUp: Bool
    private let logger: Logger
    private let changed: @Sendable (UUID) async -> Void
    private let step: @Sendable (String) -> Void
    private let disk = DiskExecutor()
    private var directory: LibraryDirectory?
    private var keepers: [UUID: LibraryKeeper] = [:]
    /// Those that are about to be closed, deleted or replaced: nobody opens them meanwhile.
    private var leaving: Set<UUID> = []
    /// The locations of unconfirmed libraries that the person here has had scanned.
    private var scanned: [UUID: Set<Int64>] = [:]
    private var repeating: Task<Void, Never>?
    private var isStopping = false
    /// Where what happens is published.
    private(set) var events: EventHub?
    private var areEventsWanted = false

    /// Makes the collection of the device with this data directory.
    ///
    /// `changed` is called with the id of a library whose index is not as it was, and `step` at the places at which a test
    /// may want to kill the process.
    init(
        data: String, keepsUp: Bool, logger: Logger, changed: @escaping @Sendable (UUID) async -> Void = { _ in },
        step: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        (self.data, self.keepsUp, self.logger) = (data, keepsUp, logger)
        (self.changed, self.step) = (changed, step)
    }

    // MARK: - Life

    /// Opens the libraries that are not closed, and keeps them up; one that cannot be opened harms no other.
    func start() async {
        isStopping = false
        guard keepsUp else { return }
        await openAll()
        repeating = Task(name: "kith libraries") { [weak self] in
            while !Task.isCancelled {
                do { try await Task.sleep(for: Self.interval) } catch { return }
                await self?.openAll()
            }
        }
    }

    private func openAll() async {
        let all: [KnownLibrary]
        do throws(KithError) { all = try libraries() } catch {
            return logger.error("The libraries cannot be listed.", metadata: ["error": "\(error)"])
        }
        for library in all where !library.isClosed {
            guard !isStopping else { return }
            if library.problem != nil {
                // What is held open of a disk that was taken away is of no use.
                if let keeper = keepers.removeValue(forKey: library.id) { await keeper.stop() }
                continue
            }
            do throws(KithError) { await (try keeper(of: library)).start() } catch {
                logger.error(
                    "A library cannot be opened.", metadata: ["library": "\(library.name)", "error": "\(error)"])
            }
        }
    }

    /// Closes all of them.
    func stop() async {
        isStopping = true
        repeating?.cancel()
        await repeating?.value
        repeating = nil
        let open = keepers.values
        keepers = [:]
        for keeper in open { await keeper.stop() }
    }

    /// Publishes what happens to the libraries there, once somebody wants to know.
    func publish(in hub: EventHub) { events = hub }

    /// Publishes from now on what happens, if it does not already.
    func publishEvents() async {
        areEventsWanted = true
        for keeper in keepers.values { await keeper.publishEvents() }
    }

    /// Publishes what became of a library, if somebody has asked for events.
    private func publish(
        _ kind: LibraryEvents.LibraryChange.Kind, _ library: KnownLibrary, before: String? = nil
    ) {
        guard areEventsWanted else { return }
        LibraryTopics.publish(
            .library(.init(kind: kind, name: library.name, before: before)), to: "$library/\(library.idText)/library",
            in: events)
    }

    /// What is there, read when it is asked for the first time.
    private func opened() throws(KithError) -> LibraryDirectory {
        if let directory { return directory }
        let opened = try LibraryDirectory(data: data, step: step)
        if let problem = opened.problem {
            logger.error("The list of libraries is damaged.", metadata: ["error": "\(problem)"])
        }
        directory = opened
        return opened
    }

    private func change<Result>(
        _ body: (inout LibraryDirectory) throws(KithError) -> Result
    ) throws(KithError) -> Result {
        var changed = try opened()
        defer { directory = changed }
        return try body(&changed)
    }

    // MARK: - Which

    /// The libraries, the default one first.
    func libraries() throws(KithError) -> [KnownLibrary] { try opened().libraries() }

    /// What is wrong with the list of them.
    func problem() throws(KithError) -> KithError? { try opened().problem }

    /// The one that a word means; without one the default one, made when there is none.
    ///
    /// - Parameters:
    ///   - word: Its name or its id.
    ///   - isOwner: False for another device, for which one that is unconfirmed is not there.
    /// - Returns: the library, which need not be open.
    /// - Throws: `.notFound`, `.conflict` for a name that several have.
    func library(_ word: String?, isOwner: Bool) throws(KithError) -> KnownLibrary {
        let library =
            if let word { try opened().library(named: word) } else {
                try defaultLibrary()
            }
        guard isOwner || !library.isUnconfirmed else {
            throw KithError(
                .notFound,
                "The library \(word ?? "") came from elsewhere. `kith library rescan` there takes it over before anything else."
            )
        }
        return library
    }

    private func defaultLibrary() throws(KithError) -> KnownLibrary {
        let isFirst = areEventsWanted ? try libraries().isEmpty : false
        let library = try change { (directory) throws(KithError) in try directory.defaultLibrary() }
        if isFirst { publish(.created, library) }
        return library
    }

    /// Its keeper, which holds it open.
    ///
    /// - Throws: `.closed`, `.unreachable` when its disk is away, what is wrong with it.
    func keeper(_ word: String?, isOwner: Bool) throws(KithError) -> LibraryKeeper {
        let library = try library(word, isOwner: isOwner)
        if let problem = library.problem {
            throw KithError(
                problem.code == .notFound ? .unreachable : problem.code,
                // Where it lies is for its person.
                "The library \(library.name) is not there\(isOwner ? ": \(problem.message)" : ".")")
        }
        guard !library.isClosed else {
            throw KithError(
                .closed, "The library \(library.name) is closed. `kith library open '\(library.name)'` opens it.")
        }
        return try keeper(of: library)
    }

    private func keeper(of library: KnownLibrary) throws(KithError) -> LibraryKeeper {
        guard !isStopping else { throw KithError(.closed, "This device stops.") }
        guard !leaving.contains(library.id) else {
            throw KithError(.conflict, "The library \(library.name) is being closed.")
        }
        if let keeper = keepers[library.id] {
            // A disk that came back elsewhere is opened there.
            if keeper.directory == library.path { return keeper }
            Task(name: "kith library moved") { await keeper.stop() }
        }
        let topics = events.map { LibraryTopics($0, library: library.idText) }
        if areEventsWanted { _ = topics?.want() }
        let keeper = LibraryKeeper(
            library, data: data, keepsUp: keepsUp && !library.isUnconfirmed, topics: topics, logger: logger,
            changed: changed)
        keepers[library.id] = keeper
        return keeper
    }

    // MARK: - Changes

    /// Makes a library, and opens it.
    func create(name: String, at path: String?) throws(KithError) -> KnownLibrary {
        let library = try change { (directory) throws(KithError) in try directory.create(name: name, at: path) }
        publish(.created, library)
        return library
    }

    /// Opens a closed one.
    func open(_ word: String) async throws(KithError) -> KnownLibrary {
        let library = try library(word, isOwner: true)
        if let problem = library.problem { throw problem }
        try change { (directory) throws(KithError) in try directory.setClosed(library.id, false) }
        let opened = try await started(library.id)
        if library.isClosed { publish(.opened, opened) }
        return opened
    }

    /// Opens one in a folder elsewhere, after its index has been checked.
    func open(at path: String) async throws(KithError) -> KnownLibrary {
        if let known = try libraries().first(where: { $0.path == path }) { return try await open(known.idText) }
        try await check(path)
        let library = try change { (directory) throws(KithError) in try directory.add(at: path) }
        scanned[library.id] = nil
        let opened = try await started(library.id)
        publish(.opened, opened)
        return opened
    }

    /// Checks the index of one elsewhere, which nobody else has open meanwhile.
    private func check(_ path: String) async throws(KithError) {
        // Before anything is written there.
        _ = try LibraryDescription.read(from: path)
        let lock = try LibraryLock(folder: path)
        defer { lock.release() }
        do {
            try await disk.run { try LibraryArchive.checkIndex(in: path, isWhole: true) }
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "The library in \(path) could not be checked: \(error)", cause: error)
        }
    }

    private func started(_ id: UUID) async throws(KithError) -> KnownLibrary {
        let library = try opened().library(id)
        let keeper = try keeper(of: library)
        // What is wrong with it is said to whoever opens it.
        _ = try await keeper.index()
        // Of one without locations there is nothing to confirm.
        try await confirm(keeper)
        await keeper.start()
        return try opened().library(id)
    }

    /// Closes one; `nil` when it is forgotten.
    func close(_ word: String, forgets: Bool) async throws(KithError) -> KnownLibrary? {
        let library = try library(word, isOwner: true)
        guard !forgets || library.isElsewhere else {
            throw KithError(
                .invalid,
                "\(library.name) is in this device's own data: it can be closed, or deleted, and not forgotten.")
        }
        return try await without(library) { (collection) async throws(KithError) in
            try collection.change { (directory) throws(KithError) in
                if forgets { try directory.forget(library.id) } else { try directory.setClosed(library.id, true) }
            }
            if forgets || !library.isClosed { collection.publish(forgets ? .forgotten : .closed, library) }
            return forgets ? nil : try collection.opened().library(library.id)
        }
    }

    /// Gives one another name.
    func rename(_ word: String, to name: String) throws(KithError) -> KnownLibrary {
        let library = try library(word, isOwner: true)
        let renamed = try change { (directory) throws(KithError) in try directory.rename(library.id, to: name) }
        if renamed.name != library.name { publish(.renamed, renamed, before: library.name) }
        return renamed
    }

    /// Makes one the default.
    func setDefault(_ word: String) throws(KithError) -> KnownLibrary {
        let library = try library(word, isOwner: true)
        return try change { (directory) throws(KithError) in try directory.setDefault(library.id) }
    }

    /// Deletes one.
    func delete(_ word: String) async throws(KithError) {
        let library = try library(word, isOwner: true)
        // One that another process has open stays.
        if library.problem == nil, keepers[library.id] == nil { try LibraryLock(folder: library.path).release() }
        try await without(library) { (collection) async throws(KithError) in
            try collection.change { (directory) throws(KithError) in try directory.delete(library.id) }
            collection.publish(.deleted, library)
        }
    }

    /// Notes that the person here has a location scanned; once that is true of all, an unconfirmed library is confirmed.
    ///
    /// One alone says nothing of the others, which may be anywhere.
    func confirm(_ keeper: LibraryKeeper, scanning location: Int64? = nil) async throws(KithError) {
        let id = keeper.id
        guard try opened().library(id).isUnconfirmed else { return }
        if let location { scanned[id, default: []].insert(location) }
        let all = try await keeper.index().locations().map(\.id)
        guard scanned[id, default: []].isSuperset(of: all) else { return }
        scanned[id] = nil
        try change { (directory) throws(KithError) in try directory.confirm(id) }
        if keepsUp { await keeper.keepUpFromNowOn() }
    }

    /// Closes it, and does something while nobody can open it.
    private func without<Result: Sendable>(
        _ library: KnownLibrary, _ body: (isolated LibraryCollection) async throws(KithError) -> Result
    ) async throws(KithError) -> Result {
        guard leaving.insert(library.id).inserted else {
            throw KithError(.conflict, "The library \(library.name) is being closed.")
        }
        defer { leaving.remove(library.id) }
        if let keeper = keepers.removeValue(forKey: library.id) { await keeper.stop() }
        // What was scanned is not what comes in its place.
        scanned[library.id] = nil
        return try await body(self)
    }

    // MARK: - Archives

    /// Writes one into a file.
    func export(
        _ word: String?, to path: String, overwrites: Bool,
        progress: @escaping @Sendable (LibraryArchive.Progress) -> Void
    ) async throws -> KnownLibrary {
        let keeper = try keeper(word, isOwner: true)
        // It is open, and with that locked, as long as it is copied.
        _ = try await keeper.index()
        let library = try opened().library(keeper.id)
        let description = LibraryDescription(id: library.id, name: library.name, created: library.created)
        try await disk.run {
            try await LibraryArchive.write(
                description, folder: library.path, to: path, overwrites: overwrites, progress: progress)
        }
        return library
    }

    /// Makes a library of a file.
    func `import`(
        _ path: String, name: String?, replaces: Bool,
        progress: @escaping @Sendable (LibraryArchive.Progress) -> Void
    ) async throws -> KnownLibrary {
        if let problem = try problem() { throw problem }
        if let name { _ = try LibraryDescription.checkedName(name) }
        let staging = try opened().makeStaging()
        let adopted: KnownLibrary
        let known = Set(try libraries().map(\.id))
        do {
            let contents = try await disk.run { [step] in
                try LibraryArchive.read(path, into: staging, step: step, progress: progress)
            }
            if replaces, let same = try libraries().first(where: { $0.id == contents.description.id }) {
                adopted = try await without(same) { (collection) async throws(KithError) in
                    try collection.adopt(staging, contents.description, name, replaces: true)
                }
            } else {
                adopted = try adopt(staging, contents.description, name, replaces: false)
            }
        } catch {
            LibraryDirectory.discard(staging)
            throw error
        }
        let opened = try await started(adopted.id)
        publish(known.contains(opened.id) ? .opened : .created, opened)
        return opened
    }

    private func adopt(
        _ staging: String, _ description: LibraryDescription, _ name: String?, replaces: Bool
    ) throws(KithError) -> KnownLibrary {
        try change { (directory) throws(KithError) in
            try directory.adopt(staging, as: description, name: name, replaces: replaces)
        }
    }
}
