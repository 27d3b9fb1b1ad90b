import KithIO
import Synchronization

/// What one transaction changed in an index; of much only the first part is listed.
package struct ChangeSet: Hashable, Sendable {
    /// A file, folder or link that changed.
    package struct Change: Hashable, Sendable {
        package enum Kind: Hashable, Sendable {
            case added, changed
            /// It was at this path; with a folder all that is beneath it moved.
            case moved(from: [UInt8])
            /// It is not there any more; with a folder all that was beneath it went.
            case removed
        }

        package var id: Int64
        package var kind: Kind
        /// The path from the top of the file system; of what went, the last one.
        package var path: [UInt8]
    }

    /// What happened to tags.
    package struct Tags: Hashable, Sendable {
        /// Each with those above it, from the top.
        package var added: [[String]] = []
        package var removed: [[String]] = []
        package var deleted: [[String]] = []
        /// The first of the entries.
        package var paths: [[UInt8]] = []
        /// The number of entries that are not listed.
        package var more = 0

        package var isEmpty: Bool { added.isEmpty && removed.isEmpty && deleted.isEmpty }
    }

    /// What happened to what a person noted beside tags.
    package struct Notes: Hashable, Sendable {
        /// Which of stars (`rating`), mark (`favorite`) and note (`note`) changed.
        package var fields: Set<String> = []
        /// The first of the entries.
        package var paths: [[UInt8]] = []
        /// The number of entries that are not listed.
        package var more = 0

        package var isEmpty: Bool { fields.isEmpty }
    }

    /// The most that are listed, and the most bytes their paths have.
    package static let limit = 256
    package static let byteLimit = 96 << 10
    /// The most entries, and a hundredth of it the most folders, that are listed for those who follow a search.
    static let touchedLimit = 10_000

    /// The first of what changed.
    package private(set) var changes: [Change] = []
    /// The number of those that are not listed.
    package private(set) var more = 0
    /// The nearest folder that holds all of them, the ones that are not listed, too; `nil`: nothing changed.
    package private(set) var folder: [UInt8]?
    package private(set) var tags: [Tags] = []
    package private(set) var notes: [Notes] = []
    /// All entries of which anything that a search may ask for is another now; `nil` when they are not listed.
    ///
    /// Those beneath ``goneFolders`` are not among them.
    package private(set) var touched: Set<Int64>? = []
    /// Folders beneath which nothing is any more.
    package private(set) var goneFolders: [[UInt8]] = []
    private var bytes = 0

    package init() {}

    package var isEmpty: Bool {
        folder == nil && tags.isEmpty && notes.isEmpty && touched?.isEmpty == true && goneFolders.isEmpty
    }

    /// Notes that a search may find another thing in an entry now.
    mutating func touch(_ id: Int64) {
        touched?.insert(id)
        if touched?.count ?? 0 > Self.touchedLimit { touchEverything() }
    }

    /// Notes that nothing is beneath a folder any more.
    mutating func empty(_ folder: [UInt8]) {
        guard touched != nil else { return }
        goneFolders.append(folder)
        if goneFolders.count > Self.touchedLimit / 100 { touchEverything() }
    }

    /// Notes that entries changed which nobody lists.
    mutating func touchEverything() { (touched, goneFolders) = (nil, []) }

    /// Notes a change.
    mutating func note(_ id: Int64, _ kind: Change.Kind, _ folder: [UInt8], _ name: [UInt8]) {
        touch(id)
        widen(to: folder)
        var size = folder.count + name.count + 1
        if case .moved(let from) = kind {
            size += from.count
            if let (above, _) = from.splitPath { widen(to: above) }
        }
        guard changes.count < Self.limit, bytes + size <= Self.byteLimit else {
            more += 1
            return
        }
        bytes += size
        changes.append(Change(id: id, kind: kind, path: folder.appending(name: name)))
    }

    /// Notes what happened to tags, of which only the first part of the paths is kept.
    mutating func note(_ tags: Tags) {
        guard !tags.isEmpty else { return }
        var kept = tags
        kept.paths = Self.first(of: tags.paths)
        kept.more += tags.paths.count - kept.paths.count
        self.tags.append(kept)
    }

    /// Notes what happened to stars, marks and notes, of which only the first part of the paths is kept.
    mutating func note(_ notes: Notes) {
        guard !notes.isEmpty else { return }
        var kept = notes
        kept.paths = Self.first(of: notes.paths)
        kept.more += notes.paths.count - kept.paths.count
        self.notes.append(kept)
    }

    /// As many paths as one event lists.
    private static func first(of paths: [[UInt8]]) -> [[UInt8]] {
        var room = byteLimit
        return Array(
            paths.prefix(limit).prefix { path in
                room -= path.count
                return room >= 0
            })
    }

    private mutating func widen(to other: [UInt8]) {
        guard var common = folder else {
            folder = other
            return
        }
        while !other.isWithin(common), let (above, _) = common.splitPath { common = above }
        folder = common
    }

    /// Both as one, within the same bounds.
    mutating func join(_ other: ChangeSet) {
        if let folder = other.folder { widen(to: folder) }
        if let more = other.touched {
            for id in more { touch(id) }
            for folder in other.goneFolders { empty(folder) }
        } else {
            touchEverything()
        }
        more += other.more
        for change in other.changes {
            guard changes.count < Self.limit, bytes + change.size <= Self.byteLimit else {
                more += 1
                continue
            }
            bytes += change.size
            changes.append(change)
        }
        tags += other.tags
        // Of so many nobody wants to know one by one: what there is now is to be read again.
        while tags.count > 64 {
            let first = tags.removeFirst()
            tags[0].more += first.paths.count + first.more
        }
        notes += other.notes
        while notes.count > 64 {
            let first = notes.removeFirst()
            notes[0].more += first.paths.count + first.more
            notes[0].fields.formUnion(first.fields)
        }
    }
}

extension ChangeSet.Change {
    fileprivate var size: Int {
        if case .moved(let from) = kind { return path.count + from.count }
        return path.count
    }
}

/// Takes the change sets of an index, one after the other; one task waits.
package final class ChangeFollower: Sendable {
    /// What has not been taken: at most 16 sets, then the last one takes in what comes.
    final class Box: Sendable {
        private struct State {
            var sets = Ring<ChangeSet>()
            var waiter: Waiter<Void>?
            var isEnded = false
        }

        private let state = Mutex(State())

        func put(_ set: ChangeSet) {
            state.withLock { state -> Waiter<Void>? in
                guard !state.isEnded else { return nil }
                if state.sets.count >= 16, var last = state.sets.popLast() {
                    last.join(set)
                    state.sets.append(last)
                } else {
                    state.sets.append(set)
                }
                return state.waiter.take()
            }?.resume()
        }

        func finish() {
            state.withLock { state -> Waiter<Void>? in
                state.isEnded = true
                return state.waiter.take()
            }?.resume()
        }

        func take() -> ChangeSet? { state.withLock { $0.sets.popFirst() } }

        func next() async -> ChangeSet? {
            while true {
                let (set, isEnded) = state.withLock { ($0.sets.popFirst(), $0.isEnded) }
                if let set { return set }
                if isEnded || Task.isCancelled { return nil }
                await state.wait(in: { $1(&$0.waiter) }) { !$0.sets.isEmpty || $0.isEnded }
            }
        }
    }

    let box = Box()
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    /// Waits for the next set; `nil` when the index is closed, or the task cancelled.
    package func next() async -> ChangeSet? { await box.next() }

    /// Waits for the next set, and takes all that are there as one.
    package func nextJoined() async -> ChangeSet? {
        guard var set = await box.next() else { return nil }
        while let more = box.take() { set.join(more) }
        return set
    }
}
