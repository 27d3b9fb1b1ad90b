package import KithWire

extension FileIndex {
    /// Brings the index to what a watcher says has changed, as long as the task is not cancelled.
    ///
    /// A location that is not there is left as it was, with a note of that. What takes long to look at is looked at less
    /// often: a file that is written to all the time keeps this at a fifth of one core.
    package func follow(_ watcher: FolderWatcher) async throws(KithError) {
        while let changes = await watcher.next() {
            let start = ContinuousClock.now
            _ = try await take(changes, from: watcher)
            do { try await Task.sleep(for: min(start.duration(to: .now) * 4, .seconds(5))) } catch { return }
        }
    }

    /// Brings the index to what one round of changes says.
    func take(_ changes: FolderWatcher.Changes, from watcher: FolderWatcher) async throws(KithError) -> ScanCounts {
        // One scan, in whichever locations: what has moved from one to another is not gone in between.
        try await withScan("look at what has changed") { _ in
            var total = ScanCounts()
            for location in try locations() {
                let folders = changes.folders.filter {
                    location.mode == .shallow ? $0 == location.path : $0.isWithin(location.path)
                }
                do throws(KithError) {
                    if changes.isEverything {
                        total += try await scan(location.id, watcher: watcher)
                    } else if !folders.isEmpty {
                        total += try await refresh(folders, in: location, watcher: watcher)
                    }
                } catch {
                    guard error.code == .unreachable || error.code == .notFound else { throw error }
                }
            }
            return total
        }
    }
}

extension ScanCounts {
    static func += (sum: inout ScanCounts, other: ScanCounts) {
        sum.folders += other.folders
        sum.entries += other.entries
        sum.added += other.added
        sum.changed += other.changed
        sum.moved += other.moved
        sum.removed += other.removed
        sum.problems += other.problems
    }
}
