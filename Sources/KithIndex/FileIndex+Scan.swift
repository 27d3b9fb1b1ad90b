import Foundation
import GRDB
import KithIO
package import KithWire
import Synchronization

extension FileIndex {
    /// Brings the index to what is on the disk, for a whole location.
    ///
    /// What it finds can be searched while it goes on. Cancelled, it stops after the transaction at hand: what was found
    /// stays, what has gone may still be there.
    ///
    /// - Parameters:
    ///   - id: The number of the location.
    ///   - watcher: Told of each folder before it is listed.
    ///   - progress: Called after each transaction.
    /// - Returns: what it did.
    /// - Throws: `.notFound` when there is no such location, `.unreachable` when its folder is not there, or another file
    ///   system is: then the index stays as it is. `.cancelled`.
    package func scan(
        _ id: Int64, watcher: FolderWatcher? = nil,
        progress: @escaping @Sendable (ScanCounts) async -> Void = { _ in }
    ) async throws(KithError) -> ScanCounts {
        let location = try location(id)
        try await checkPresence(of: location)
        let counts = try await withScan("scan \(location.name)") { number in
            let counts = try await scan(
                [location.path], isRecursive: location.mode != .shallow, in: location, watcher, progress)
            try await database.write { [now] database in
                try database.execute(
                    sql: "UPDATE location SET scanned = ?, walked = ?, problem = NULL WHERE id = ?",
                    arguments: [now(), number, id])
            }
            try await takePending(of: location)
            return counts
        }
        releaseMemory()
        return counts
    }

    /// Brings the index to what is in these folders themselves, and whole in those that are new in them; within a scan.
    func refresh(
        _ folders: some Sequence<[UInt8]>, in location: IndexLocation, watcher: FolderWatcher?
    ) async throws(KithError) -> ScanCounts {
        try await checkPresence(of: location)
        do {
            return try await scan(
                folders.sorted { $0.lexicographicallyPrecedes($1) }, isRecursive: false, in: location, watcher
            ) { _ in }
        } catch {
            throw Self.failure("scan \(location.name)", error)
        }
    }

    /// Runs `body` as a scan with a number of its own, and then removes what has gone.
    ///
    /// Several go on at once. What one misses another may find, in a location of its own: it is removed by the one that
    /// ends last, or by each of several that end together.
    func withScan<Result: Sendable>(
        _ what: String, _ body: (_ number: Int64) async throws -> Result
    ) async throws(KithError) -> Result {
        var begun: Int64?
        defer { if let begun { scans.withLock { $0.end(begun) } } }
        do {
            let number = try await database.write { [self] database in
                let number = try Int64.fetchOne(
                    database, sql: "UPDATE meta SET value = value + 1 WHERE name = 'scans' RETURNING value")
                guard let number else { throw KithError(.corrupt, "The index has no count of its scans.") }
                // Within the transaction: nothing is removed between the two.
                scans.withLock { $0.begin(number) }
                return number
            }
            begun = number
            let result = try await body(number)
            scans.withLock { $0.endListing(number) }
            try await removeGone()
            return result
        } catch {
            throw Self.failure(what, error)
        }
    }

    /// Removes what has gone, a part at a time, unless another scan may still find it elsewhere.
    private func removeGone() async throws {
        var hasMore = true
        while hasMore {
            let empty = newChangeSet()
            let changes: ChangeSet?
            (hasMore, changes) = try await database.write { [self] database in
                guard scans.withLock({ $0.hasListedAll }) else { return (false, nil) }
                var changes = empty
                let writer = try ListingWriter(database, names: names, now: now())
                let hasMore = try writer.removeGone(limit: 200, &changes)
                if !hasMore { try writer.removeKept() }
                try writer.finish()
                return (hasMore, changes)
            }
            tell(changes)
        }
    }

    /// Refuses to take a folder that is not there, or whose disk is not, for one that is empty now.
    private func checkPresence(of location: IndexLocation) async throws(KithError) {
        let device: Int64?
        do {
            device = try await read { database in
                try Int64.fetchOne(
                    database, sql: "SELECT device FROM location WHERE id = ?", arguments: [location.id])
            }
        } catch {
            throw Self.failure("read \(location.name)", error)
        }
        do {
            let now = try await presence.attributes(of: location.path)
            guard let device, device != now.device else { return }
            throw await absence(of: location, "another disk is there now. What is known of it can still be searched")
        } catch let error as KithError {
            throw error
        } catch let error as SystemError {
            throw await absence(of: location, error.presenceText)
        } catch {
            throw Self.failure("scan \(location.name)", error)
        }
    }

    /// Notes why a location cannot be scanned; returns the error that says so.
    private func absence(of location: IndexLocation, _ problem: String) async -> KithError {
        let shown = String(decoding: location.path, as: UTF8.self)
        do {
            try await database.write { database in
                try database.execute(
                    sql: "UPDATE location SET problem = ? WHERE id = ?", arguments: [problem, location.id])
            }
        } catch {
            return Self.failure("note that \(shown) is not there", error)
        }
        return KithError(.unreachable, "\(shown) cannot be scanned: \(problem).")
    }

    private func scan(
        _ folders: [[UInt8]], isRecursive: Bool, in location: IndexLocation, _ watcher: FolderWatcher?,
        _ progress: @escaping @Sendable (ScanCounts) async -> Void
    ) async throws -> ScanCounts {
        let rules = try ruleStack(location.rules)
        // A name may also come from another location, or from one that has been taken out.
        let isFirst = try await isEmpty(location)
        let excluded = excluded.flatMap { try? OpenFolder(path: $0).attributes() }
        var state = ListingWriter.State(location: location.id, top: location.path, isFirst: isFirst)
        // A walk gets to what is new by itself.
        state.listsNew = !isRecursive
        var total = ScanCounts()
        func walk(_ folder: [UInt8], isRecursive: Bool) -> @Sendable () -> FolderWalk {
            { [rules] in
                FolderWalk(
                    folder, rules: rules.entered(from: location.path, to: folder), excluding: excluded,
                    isRecursive: isRecursive, willList: { watcher?.watch($0, at: $1) })
            }
        }
        for folder in folders {
            try await apply(walk(folder, isRecursive: isRecursive), in: location, &state, &total, progress)
        }
        // What a list of single folders found to be new is listed whole; a walk gets there by itself.
        while !isRecursive, location.mode != .shallow, let folder = state.toList.popLast() {
            try await apply(walk(folder, isRecursive: true), in: location, &state, &total, progress)
            state.toList.removeAll { $0.isWithin(folder) }
        }
        if !total.foundNothingNew { tell() }
        return total
    }

    /// A disk that has stopped to answer a walk.
    private struct Silence: Error {}

    /// Writes what a walk lists, while the walk goes on.
    ///
    /// - Throws: `.unreachable` when the disk does not answer any more: then a thread waits there until it does.
    private func apply(
        _ makeWalk: @escaping @Sendable () -> FolderWalk, in location: IndexLocation,
        _ state: inout ListingWriter.State,
        _ total: inout ScanCounts, _ progress: @escaping @Sendable (ScanCounts) async -> Void
    ) async throws {
        let queue = BoundedQueue<[FolderListing]>(capacity: 4)
        let size = batch
        let pulse = DiskPulse()
        // The walk blocks: not on a thread of the tasks, and not as a part of this one, which would have to wait for it.
        let walking = Task.detached(name: "kith walk", executorPreference: disk) { [self] in
            var (listings, names) = ([FolderListing](), 0)
            var walk = pulse.whileAsking(makeWalk)
            do {
                while true {
                    let number = scans.withLock { $0.nextListing() }
                    guard var listing = pulse.whileAsking({ walk.next(pulse) }) else { break }
                    listing.number = number
                    try Task.checkCancellation()
                    names += listing.entries.count + 1
                    listings.append(listing)
                    if names >= size {
                        try await queue.send(listings)
                        (listings, names) = ([], 0)
                    }
                }
                if !listings.isEmpty { try await queue.send(listings) }
                queue.finish()
            } catch {
                queue.finish(throwing: error)
            }
        }
        let guarding = Task(name: "kith walk guard") { [patience] in
            try await pulse.untilSilent(for: patience)
            queue.finish(throwing: Silence())
        }
        defer {
            walking.cancel()
            guarding.cancel()
        }
        do {
            while let batch = try await queue.receive() {
                state.changes = newChangeSet()
                let before = state
                (state, total) = try await database.write { [self, total] database in
                    var state = before
                    state.counts = total
                    if !scans.withLock({ $0.isAlone }) { state.isFirst = false }
                    var writer = try ListingWriter(database, names: names, now: now())
                    for listing in batch where scans.withLock({ $0.take(listing) }) {
                        try writer.apply(listing, &state)
                    }
                    try writer.finish()
                    return (state, state.counts)
                }
                tell(state.changes)
                await progress(total)
            }
        } catch {
            queue.finish(throwing: error)
            throw error is Silence ? await absence(of: location, SystemError(ETIMEDOUT).presenceText) : error
        }
    }
}
