import CKithSystem
import KithIO
import Synchronization

/// The watches of Linux's inotify, one for each folder.
final class FolderWatches: FolderEvents {
    /// The descriptor; closed with the last reference.
    private final class Descriptor: Sendable {
        let number: Int32
        init(_ number: Int32) { self.number = number }
        deinit { kith_file_close(number) }
    }

    fileprivate struct State {
        var folders = WatchedFolders()
        var isFull = false
    }

    private let descriptor: Descriptor
    private let reactor: Reactor
    private let readable: Watch
    private let state = Mutex(State())

    /// Begins with none.
    ///
    /// - Throws: when the system has none, or no more.
    init() throws(SystemError) {
        let number = kith_folder_watch_open()
        guard number >= 0 else { throw SystemError(-number) }
        descriptor = Descriptor(number)
        reactor = try Reactor(name: "kith.watch")
        readable = try reactor.watch(number, keeping: descriptor)
    }

    var count: Int { state.withLock { $0.folders.count } }

    var isFull: Bool { state.withLock { $0.isFull } }

    func watch(_ folder: OpenFolder, at path: [UInt8]) {
        let number = kith_folder_watch_add(descriptor.number, folder.number)
        let isWatched = state.withLock { state in
            let isWatched = number >= 0 && state.folders.add(number, at: path)
            if !isWatched { state.isFull = true }
            return isWatched
        }
        if number >= 0, !isWatched { _ = kith_folder_watch_remove(descriptor.number, number) }
    }

    func forget(_ path: [UInt8]) {
        let ended = state.withLock { state in state.folders.removeAll(in: state.folders.numbers(within: path)) }
        for number in ended {
            _ = kith_folder_watch_remove(descriptor.number, number)
        }
    }

    func wait() async { await readable.wait(for: .reading) }

    func read(into changes: inout FolderWatcher.Changes) -> Bool {
        var hadSome = false
        unsafe withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            while true {
                let count = unsafe kith_folder_watch_read(descriptor.number, buffer.baseAddress, buffer.count)
                guard count > 0 else { return }
                hadSome = true
                let moved = state.withLock { state in
                    unsafe state.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]), into: &changes)
                }
                for number in moved { _ = kith_folder_watch_remove(descriptor.number, number) }
            }
        }
        return hadSome
    }
}

extension FolderWatches.State {
    /// Notes events; returns the watches to be ended, of folders that were moved away.
    fileprivate mutating func take(
        _ events: UnsafeRawBufferPointer, into changes: inout FolderWatcher.Changes
    ) -> [Int32] {
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
