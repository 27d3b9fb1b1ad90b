package import KithIO
import Synchronization

/// Tells which folders have changed, of those that an index lists: by inotify on Linux, by FSEvents on macOS.
///
/// A folder is watched before it is listed, so that nothing falls between. Events say no more here than that a folder
/// should be looked at again: what is there decides, so that none of their orders matters.
package final class FolderWatcher: Sendable {
    /// What has changed.
    package struct Changes: Hashable, Sendable {
        /// The folders in which something has.
        package var folders: Set<[UInt8]> = []
        /// The system lost count: anything may have changed.
        package var isEverything = false

        var isEmpty: Bool { folders.isEmpty && !isEverything }

        /// Adds others.
        mutating func formUnion(_ others: Changes) {
            folders.formUnion(others.folders)
            isEverything = isEverything || others.isEverything
        }
    }

    /// How long changes are gathered: until nothing came for the first time, at most for the second.
    private static let quiet = (gap: Duration.milliseconds(100), most: Duration.seconds(1))

    private let events: any FolderEvents
    private let changes = Mutex(Changes())

    /// Begins to watch, nothing at first.
    ///
    /// - Throws: when the system watches no folders, or no more.
    package convenience init() throws(SystemError) {
        #if os(macOS) && canImport(CoreServices)
        self.init(FolderEventStreams())
        #else
        self.init(try FolderWatches())
        #endif
    }

    init(_ events: some FolderEvents) { self.events = events }

    /// The number of folders watched, or of trees.
    package var count: Int { events.count }

    /// True when the system would not watch all: then the index has to look by itself from time to time.
    package var isFull: Bool { events.isFull }

    /// Watches a folder that is about to be listed.
    func watch(_ folder: OpenFolder, at path: [UInt8]) { events.watch(folder, at: path) }

    /// Ends the watch of a folder and of those beneath it.
    package func forget(_ folder: [UInt8]) { events.forget(folder) }

    /// The changes since the last call; waits for some, and then until there are no more for a moment.
    ///
    /// Returns `nil` when the task is cancelled.
    package func next() async -> Changes? {
        let clock = ContinuousClock()
        while changes.withLock(\.isEmpty) {
            if read() { continue }
            guard !Task.isCancelled else { return nil }
            await events.wait()
        }
        let end = clock.now + Self.quiet.most
        repeat {
            guard (try? await Task.sleep(for: Self.quiet.gap)) != nil else { return nil }
        } while read() && clock.now < end
        return available()
    }

    /// The changes there are; `nil` when there are none.
    func available() -> Changes? {
        _ = read()
        return changes.withLock { changes in
            defer { changes = Changes() }
            return changes.isEmpty ? nil : changes
        }
    }

    /// Takes what the system has; returns true when it had something.
    private func read() -> Bool {
        var new = Changes()
        let hadSome = events.read(into: &new)
        changes.withLock { $0.formUnion(new) }
        return hadSome
    }
}

/// What a system tells of the folders in which something has changed.
protocol FolderEvents: Sendable {
    /// The number of folders watched, or of trees.
    var count: Int { get }

    /// True when the system would not watch all.
    var isFull: Bool { get }

    /// Watches a folder that is about to be listed, unless what is watched already tells of it.
    func watch(_ folder: OpenFolder, at path: [UInt8])

    /// Ends the watch of a folder and of those beneath it.
    func forget(_ path: [UInt8])

    /// Waits until there may be something to read, or the task is cancelled.
    func wait() async

    /// Adds what the system has told; returns true when it had something.
    func read(into changes: inout FolderWatcher.Changes) -> Bool
}
