import Foundation
import KithAPI
import KithIO
import KithIndex
import KithWire
import Logging

/// How far a scan is, and whether that is the end.
struct ScanProgress: Sendable {
    var counts = ScanCounts()
    var isLast = false
}

/// Holds the index of a library open, and its locations as the disk is: one scan at a time for each, then watching.
actor LibraryKeeper {
    /// A scan that goes on, with those who follow it.
    private final class Run {
        let location: IndexLocation
        var last = ScanProgress()
        var followers: [Int: AsyncThrowingStream<ScanProgress, any Error>.Continuation] = [:]
        var task: Task<Void, Never>?

        init(_ location: IndexLocation) { self.location = location }
    }

    /// How often a location is scanned whose changes nobody tells, or that was not there.
    private static let interval = Duration.seconds(300)

    /// The library it keeps.
    nonisolated let id: UUID
    /// Its folder.
    nonisolated let directory: String
    private let data: String
    private var keepsUp: Bool
    private let isElsewhere: Bool
    private let logger: Logger
    /// Called when the index is not as it was, as long as the locations are kept up.
    private let changed: @Sendable (UUID) async -> Void
    private var noticing: Task<Void, Never>?
    private var opened: FileIndex?
    private var lock: LibraryLock?
    private var watcher: FolderWatcher?
    private var runs: [Int64: Run] = [:]
    private var watched: Set<Int64> = []
    private var isStopping = false
    private var following: Task<Void, Never>?
    private var repeating: Task<Void, Never>?
    private var nextFollower = 0
    /// Publishes what happens; `nil` where there are no events.
    let topics: LibraryTopics?
    /// Publishes what changes in the index.
    var publishing: Task<Void, Never>?

    /// Makes the keeper of a library that is there.
    ///
    /// - Parameters:
    ///   - library: The library.
    ///   - data: The device's data directory, which is in no location.
    ///   - keepsUp: Whether its locations are scanned and watched; else only on request.
    ///   - topics: Publishes what happens; `nil` where there are no events.
    ///   - logger: Told what a person is not.
    ///   - changed: Called with the id of the library when its index is not as it was, as long as it is kept up.
    init(
        _ library: KnownLibrary, data: String, keepsUp: Bool, topics: LibraryTopics?, logger: Logger,
        changed: @escaping @Sendable (UUID) async -> Void = { _ in }
    ) {
        self.changed = changed
        self.topics = topics
        (id, directory, isElsewhere) = (library.id, library.path, library.isElsewhere)
        self.data = data
        self.keepsUp = keepsUp
        self.logger = logger
    }

    // MARK: - Life

    /// The index, if it is open.
    var openedIndex: FileIndex? { opened }

    /// The index, opened now if it is not; made when it is not there.
    ///
    /// - Throws: `.conflict` when another process has the library open, `.corrupt` when it is damaged.
    func index() throws(KithError) -> FileIndex {
        if let opened { return opened }
        guard !isStopping else { throw KithError(.closed, "The library was closed. `kith library open` opens it.") }
        let lock = try LibraryLock(folder: directory)
        LibraryArchive.removeRemains(in: directory)
        let path = directory + "/index.sqlite"
        if isElsewhere { try LibraryArchive.checkIndex(in: directory) }
        // The device's own data change with each of its calls.
        let index = try FileIndex(path: path, excluding: data, logger: logger)
        (opened, self.lock) = (index, lock)
        if let topics, topics.areWanted { publishChanges(of: index, to: topics) }
        return index
    }

    /// From now on its locations are scanned and watched.
    func keepUpFromNowOn() {
        guard !keepsUp, !isStopping else { return }
        keepsUp = true
        keepUp()
    }

    /// Scans every location, and then watches it; nothing when there is no library yet.
    func start() {
        isStopping = false
        guard keepsUp, FileManager.default.fileExists(atPath: directory + "/index.sqlite") else { return }
        keepUp()
    }

    private func keepUp() {
        guard keepsUp, repeating == nil else { return }
        watch()
        notice()
        repeating = Task { [weak self] in
            while !Task.isCancelled {
                await self?.lookAgain()
                await self?.noteVolumes()
                do { try await Task.sleep(for: Self.interval) } catch { return }
            }
        }
    }

    /// Has what depends on the index look at each change of it: many at once are one, and what takes long is done less often.
    private func notice() {
        do {
            let changes = try index().changes()
            noticing = Task { [changed, id] in
                var next = changes.makeAsyncIterator()
                repeat {
                    let start = ContinuousClock.now
                    await changed(id)
                    do { try await Task.sleep(for: max(.seconds(1), start.duration(to: .now) * 4)) } catch { return }
                } while await next.next() != nil
            }
        } catch {
            logger.warning("The content of files is not read by itself.", metadata: ["error": "\(error)"])
        }
    }

    /// Begins to watch, where the system lets us.
    private func watch() {
        do {
            let index = try index()
            let watcher = try FolderWatcher()
            self.watcher = watcher
            following = Task { [weak self, logger] in
                do throws(KithError) { try await index.follow(watcher) } catch {
                    logger.error("Changes of files are not noticed for now.", metadata: ["error": "\(error)"])
                    await self?.endWatching()
                }
            }
        } catch {
            logger.notice("Changes of files are not noticed as they happen.", metadata: ["error": "\(error)"])
        }
    }

    /// From now on only scans find what has changed, until it is watched again.
    private func endWatching() {
        (watcher, following) = (nil, nil)
        watched = []
    }

    /// Ends all that goes on, and closes the index.
    func stop() async {
        isStopping = true
        following?.cancel()
        repeating?.cancel()
        noticing?.cancel()
        let tasks = runs.values.compactMap(\.task)
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        await following?.value
        await repeating?.value
        await noticing?.value
        noticing = nil
        (following, repeating, watcher) = (nil, nil, nil)
        watched = []
        publishing?.cancel()
        await publishing?.value
        publishing = nil
        opened?.close()
        opened = nil
        lock?.release()
        lock = nil
    }

    /// Scans what is not watched, or was not there.
    private func lookAgain() {
        if following == nil, !isStopping { watch() }
        guard let locations = try? index().locations() else { return }
        for location in locations where !watched.contains(location.id) || location.problem != nil {
            _ = try? run(location.id)
        }
    }

    // MARK: - Locations

    /// Adds a location, with the notes that came with it, and begins to scan it.
    func add(
        _ path: [UInt8], name: String?, rules: LocationRules, mode: LocationMode, notes: [LocationFile.Note] = []
    ) async throws(KithError) -> IndexLocation {
        try await index().checkAnswers(path)
        let location = try index().addLocation(at: path, name: name, rules: rules, mode: mode, notes: notes)
        topics?.publish(.locationAdded(.init(location)))
        keepUp()
        _ = try run(location.id)
        return location
    }

    /// Takes one out, after the scan of it has ended.
    func remove(_ id: Int64) async throws(KithError) {
        let index = try index()
        let location = try index.location(id)
        try await release(id)
        try await index.removeLocation(id)
        topics?.publish(.locationRemoved(.init(location)))
    }

    /// Changes a location, and begins to scan it where that finds other things.
    func change(
        _ id: Int64, name: String?, mode: LocationMode?, rules: LocationRules?
    ) async throws(KithError) -> IndexLocation {
        let index = try index()
        let before = try index.location(id)
        let isOther = mode.map { $0 != before.mode } ?? false || rules.map { $0 != before.rules } ?? false
        // A scan goes by what was so when it began.
        if isOther { try await release(id) }
        let location = try await index.changeLocation(id, name: name, mode: mode, rules: rules)
        if isOther || location.name != before.name { topics?.publish(.locationChanged(.init(location))) }
        if isOther {
            // One may have begun meanwhile.
            try await release(id)
            _ = try run(id)
        }
        return location
    }

    /// Ends the scan of a location, and watches it no more until the next one.
    func release(_ id: Int64) async throws(KithError) {
        let location = try index().location(id)
        if let run = runs[id] {
            run.task?.cancel()
            await run.task?.value
        }
        watcher?.forget(location.path)
        watched.remove(id)
    }

    /// Begins to scan a location, which nobody has to follow.
    func beginScan(_ id: Int64) throws(KithError) { _ = try run(id) }

    /// Whether a location is being scanned, and whether its changes are noticed.
    func state(of id: Int64) -> (isScanning: Bool, isWatched: Bool) {
        (runs[id] != nil, watched.contains(id) && watcher.map { !$0.isFull } ?? false)
    }

    /// Scans a location, or follows the scan that goes on.
    func scan(_ id: Int64) throws(KithError) -> AsyncThrowingStream<ScanProgress, any Error> {
        let run = try run(id)
        // Whoever is slow sees fewer steps, but the last one.
        let (stream, continuation) = AsyncThrowingStream.makeStream(
            of: ScanProgress.self, bufferingPolicy: .bufferingNewest(1))
        nextFollower += 1
        let number = nextFollower
        run.followers[number] = continuation
        continuation.yield(run.last)
        continuation.onTermination = { [weak self] _ in
            Task { await self?.leave(id, number) }
        }
        return stream
    }

    private func leave(_ id: Int64, _ number: Int) { runs[id]?.followers[number] = nil }

    private func run(_ id: Int64) throws(KithError) -> Run {
        if let run = runs[id] { return run }
        let index = try index()
        let run = Run(try index.location(id))
        runs[id] = run
        topics?.publish(.scanBegan(.init(run.location)))
        let watcher = watcher
        run.task = Task { [weak self] in
            do throws(KithError) {
                let counts = try await index.scan(id, watcher: watcher) { [weak self] in await self?.tell(id, $0) }
                await self?.end(id, counts)
            } catch {
                await self?.end(id, error)
            }
        }
        return run
    }

    private func tell(_ id: Int64, _ counts: ScanCounts) {
        guard let run = runs[id] else { return }
        run.last = ScanProgress(counts: counts)
        topics?.publish(.scanProgressed(.init(run.location, run.last)))
        for follower in run.followers.values { follower.yield(run.last) }
    }

    private func end(_ id: Int64, _ counts: ScanCounts) {
        if let watcher, !watcher.isFull { watched.insert(id) } else { watched.remove(id) }
        guard let run = runs.removeValue(forKey: id) else { return }
        run.last = ScanProgress(counts: counts, isLast: true)
        topics?.publish(.scanEnded(.init(run.location, run.last)))
        for follower in run.followers.values {
            follower.yield(run.last)
            follower.finish()
        }
    }

    private func end(_ id: Int64, _ error: KithError) {
        guard let run = runs.removeValue(forKey: id) else { return }
        topics?.publish(.scanEnded(.init(run.location, run.last, problem: error.message)))
        if error.code != .cancelled { logger.warning("A scan failed.", metadata: ["error": "\(error)"]) }
        for follower in run.followers.values { follower.finish(throwing: error) }
    }
}
