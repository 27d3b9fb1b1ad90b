import CKithSystem
package import KithIO
import Synchronization

/// Tells which folders have changed, of those that an index lists (Linux: inotify).
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
    }

    /// The descriptor; closed with the last reference.
    private final class Descriptor: Sendable {
        let number: Int32
        init(_ number: Int32) { self.number = number }
        deinit { kith_file_close(number) }
    }

    fileprivate struct State {
        var folders = WatchedFolders()
        var changes = Changes()
        var isFull = false
    }

    /// How long changes are gathered: until nothing came for the first time, at most for the second.
    private static let quiet = (gap: Duration.milliseconds(100), most: Duration.seconds(1))

    private let descriptor: Descriptor
    private let reactor: Reactor
    private let readable: Watch
    private let state = Mutex(State())

    /// Begins to watch, nothing at first.
    ///
    /// - Throws: when the system watches no folders, or no more.
    package init() throws(SystemError) {
        let number = kith_folder_watch_open()
        guard number >= 0 else { throw SystemError(-number) }
        descriptor = Descriptor(number)
        reactor = try Reactor(name: "kith.watch")
        readable = try reactor.watch(number, keeping: descriptor)
    }

    /// The number of folders watched.
    package var count: Int { state.withLock { $0.folders.count } }

    /// True when the system would not watch all: then the index has to look by itself from time to time.
    package var isFull: Bool { state.withLock { $0.isFull } }

    /// Watches a folder that is about to be listed.
    func watch(_ folder: OpenFolder, at path: [UInt8]) {
        let number = kith_folder_watch_add(descriptor.number, folder.number)
        let isWatched = state.withLock { state in
            let isWatched = number >= 0 && state.folders.add(number, at: path)
            if !isWatched { state.isFull = true }
            return isWatched
        }
        if number >= 0, !isWatched { _ = kith_folder_watch_remove(descriptor.number, number) }
    }

    /// Ends the watch of a folder and of those beneath it.
    package func forget(_ folder: [UInt8]) {
        let ended = state.withLock { state in state.folders.removeAll(in: state.folders.numbers(within: folder)) }
        for number in ended {
            _ = kith_folder_watch_remove(descriptor.number, number)
        }
    }

    /// The changes since the last call; waits for some, and then until there are no more for a moment.
    ///
    /// Returns `nil` when the task is cancelled.
    package func next() async -> Changes? {
        let clock = ContinuousClock()
        while state.withLock({ $0.changes.isEmpty }) {
            if read() { continue }
            guard !Task.isCancelled else { return nil }
            await readable.wait(for: .reading)
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
        return state.withLock { state in
            defer { state.changes = Changes() }
            return state.changes.isEmpty ? nil : state.changes
        }
    }

    /// Takes what the system has; returns true when it had something.
    private func read() -> Bool {
        var hadSome = false
        unsafe withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            while true {
                let count = unsafe kith_folder_watch_read(descriptor.number, buffer.baseAddress, buffer.count)
                guard count > 0 else { return }
                hadSome = true
                let moved = state.withLock { state in
                    unsafe state.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                }
                for number in moved { _ = kith_folder_watch_remove(descriptor.number, number) }
            }
        }
        return hadSome
    }
}

extension FolderWatcher.State {
    /// Notes events; returns the watches to be ended, of folders that were moved away.
    mutating func take(_ events: UnsafeRawBufferPointer) -> [Int32] {
        var (offset, number, length, moved) = (0, Int32(0), 0, Set<Int32>())
        var name: UnsafePointer<UInt8>?
        while true {
            let kinds = unsafe kith_folder_watch_next(
                events.baseAddress, events.count, &offset, &number, &name, &length)
            guard kinds >= 0 else { return folders.removeAll(in: moved) }
            if kinds & Int32(KITH_FOLDER_OVERFLOW) != 0 { changes.isEverything = true }
            if kinds & Int32(KITH_FOLDER_CHANGED | KITH_FOLDER_GONE) != 0, let path = folders.path(of: number) {
                changes.folders.insert(path)
            }
            if kinds & Int32(KITH_FOLDER_GONE) != 0 { folders.remove(number) }
            if kinds & Int32(KITH_FOLDER_MOVED_AWAY) != 0, let start = unsafe name {
                let bytes = unsafe [UInt8](UnsafeBufferPointer(start: start, count: length))
                moved.formUnion(folders.numbers(of: bytes, in: number))
            }
        }
    }
}
