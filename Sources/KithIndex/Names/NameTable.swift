import Synchronization

/// The names of an index in memory, as of one transaction; read from the database when they are first asked for.
///
/// Every transaction that changes a name counts up a version in the database. A reader takes the names only in the version
/// that its own transaction sees, so that what it finds is exactly what that transaction holds.
final class NameTable: Sendable {
    private struct State {
        /// The transactions that came while the names are being read; `nil` when they are not.
        var pending: [(version: Int64, edits: [NameEdit])]?
        var names: Names?
    }

    /// All names in one version.
    struct Names: Sendable {
        var version: Int64
        var blocks: [NameBlock]

        /// The number of names.
        var count: Int { blocks.reduce(0) { $0 + $1.liveCount } }
    }

    private let state = Mutex(State())

    /// True when changes have to be told: else the version alone is counted.
    var isFollowing: Bool { state.withLock { $0.names != nil || $0.pending != nil } }

    var isLoaded: Bool { state.withLock { $0.names != nil } }

    /// The names as of a version; `nil` when the table has another one.
    func names(version: Int64) -> Names? {
        state.withLock { state in state.names?.version == version ? state.names : nil }
    }

    /// Begins to collect what changes while the names are read.
    func beginLoading() { state.withLock { $0.pending = $0.pending ?? [] } }

    /// Takes the names that were read, with what has changed since.
    func load(_ names: Names) {
        state.withLock { state in
            var names = names
            for (version, edits) in state.pending ?? [] where version > names.version {
                guard version == names.version + 1 else { break }
                names.apply(edits)
                names.version = version
            }
            state.names = names
            state.pending = nil
        }
    }

    /// Forgets the names: the next search reads them again.
    func forget() { state.withLock { $0 = State() } }

    /// Takes what a transaction has changed, once it is committed; `nil` when that was not noted.
    func apply(_ edits: [NameEdit]?, version: Int64) {
        state.withLock { state in
            guard let edits else {
                // Nobody asked for names when it began. Who does now reads a state without it.
                state.names = nil
                return
            }
            state.pending?.append((version, edits))
            guard state.names != nil else { return }
            guard state.names?.version == version - 1 else {
                state.names = nil
                return
            }
            state.names?.apply(edits)
            state.names?.version = version
        }
    }
}

/// A change of the names of an index.
enum NameEdit: Hashable, Sendable {
    /// An entry has this name now, folded.
    case set(Int64, [UInt8], NameBlock.Measure)
    /// An entry has no name that is searched any more.
    case removed(Int64)
    /// The path of an entry's folder has so many bytes now.
    case folder(Int64, length: Int)
}

extension NameTable.Names {
    mutating func apply(_ edits: [NameEdit]) {
        for edit in edits {
            switch edit {
            case .set(let id, let name, let measure): set(id, name, measure)
            case .removed(let id):
                guard let index = block(of: id) else { continue }
                blocks[index].set(id, [], .init(name: 0, folder: 0, isFile: false))
                if blocks[index].liveCount == 0 { blocks.remove(at: index) }
            case .folder(let id, let length):
                if let index = block(of: id) { blocks[index].set(id, folder: length) }
            }
        }
    }

    /// Puts a name behind all others; their numbers ascend.
    mutating func append(_ id: Int64, _ name: [UInt8], _ measure: NameBlock.Measure) {
        if blocks.last?.hasRoom(for: id) != true {
            if !blocks.isEmpty { blocks[blocks.count - 1].trim() }
            blocks.append(NameBlock(first: id))
        }
        blocks[blocks.count - 1].append(id, name, measure)
    }

    private mutating func set(_ id: Int64, _ name: [UInt8], _ measure: NameBlock.Measure) {
        guard let last = blocks.last, last.count > 0, id <= last.id(last.count - 1) else {
            return append(id, name, measure)
        }
        let index = block(of: id)
        guard let index, id - blocks[index].first <= Int64(UInt32.max) else {
            var block = NameBlock(first: id)
            block.append(id, name, measure)
            blocks.insert(block, at: index.map { $0 + 1 } ?? 0)
            return
        }
        blocks[index].set(id, name, measure)
    }

    /// The block in which an entry is, if it is in any.
    private func block(of id: Int64) -> Int? {
        var (low, high) = (0, blocks.count)
        while low < high {
            let middle = (low + high) / 2
            if blocks[middle].first <= id { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? low - 1 : nil
    }
}
