import KithAPI
import KithWire

/// A folder that is being filled: what is still to come into it, and what it becomes when all has.
final class ReceivedFolder {
    /// The folder it is in; `nil` for the destination.
    let parent: ReceivedFolder?
    let name: [UInt8]
    /// From the destination on, for messages.
    let path: [UInt8]
    /// From the topmost folder's inside on, for patterns: empty for that folder itself, `nil` above it.
    let relative: [UInt8]?
    /// The folder, as long as something is to come; `nil` in a dry run where it is not there.
    private(set) var descriptor: Descriptor?
    /// The attributes to set once it is full.
    var attributes: TransferFrame.Attributes?
    var extended: [TransferFrame.ExtendedAttribute]?
    /// The partial that gives it its name, when it is the topmost new one.
    var partial: Partial?
    /// True when what has the name now makes way for it.
    var replaces = false
    /// True when it is the very folder it is said to be in: the destination that becomes the source's equal.
    var isItsParent = false
    /// True when it holds only what this transfer has put there.
    let isNew: Bool
    /// True when nobody sees it until the topmost new one gets its name.
    let isHidden: Bool
    /// The number of its parts that are not done: its listing, its files, its folders.
    var open = 1
    /// The names that were listed, where what was not is to go.
    var listed: ListedNames?
    /// True while the sender could list all of it.
    var isListedWhole = true

    init(
        _ descriptor: Descriptor?, in parent: ReceivedFolder?, name: [UInt8], path: [UInt8], relative: [UInt8]?,
        isNew: Bool, isHidden: Bool
    ) {
        self.parent = parent
        self.name = name
        self.path = path
        self.relative = relative
        self.descriptor = descriptor
        self.isNew = isNew
        self.isHidden = isHidden
    }

    /// The path of something in it, for patterns.
    func relative(of name: [UInt8]) -> [UInt8]? {
        relative.map { $0.isEmpty ? name : $0 + [UInt8(ascii: "/")] + name }
    }

    /// Lets go of the folder: nothing more comes.
    func close() { descriptor = nil }

    /// The folder, opened again by the names that lead to it when it is not open any more.
    func reopened() throws(Errno) -> Descriptor {
        if let descriptor { return descriptor }
        guard let parent else { throw .notFound }
        if isItsParent { return try parent.reopened() }
        return try parent.reopened().open(name: partial?.currentName ?? name, [.folder, .noFollow])
    }
}

/// A file that was listed and is not done.
struct ReceivedFile {
    let folder: ReceivedFolder
    /// With the name it gets here.
    let attributes: TransferFrame.Attributes
    /// Its size when it was listed.
    let size: UInt64
    let flags: TransferFrame.FileFlags
    let extended: [TransferFrame.ExtendedAttribute]?
    /// Which file of the listing it is.
    let index: UInt64
    /// The parts of it that are here, and what has its name.
    var plan = Plan()

    var name: [UInt8] { attributes.name }

    struct Plan {
        /// The part that an interrupted transfer has left, with the hashes of its leaves.
        var partial: Partial?
        var leaves: [UInt8] = []
        var partialSize: UInt64 = 0
        /// The version here, whose chunks the sender was told.
        var old: Descriptor?
        /// True when the version here may be the same, and the sender was sent its hash.
        var mayBeSame = false
        /// The kind of what has the name now.
        var existing: Files.Kind?
        /// About how many bytes the sender holds for it.
        var cost = 0
    }

    /// The key of its partial while it is not whole.
    var key: Partial.Key {
        Partial.Key(
            name: name, identity: attributes.identity, size: size, seconds: attributes.seconds,
            nanoseconds: attributes.nanoseconds)
    }

    var leafSize: Int { TreeHash.leafSize(for: size) }

    /// True for one worth going on with when it is interrupted.
    var isKept: Bool { size > UInt64(leafSize) }
}

/// A file whose contents are arriving.
struct ReceivedContents {
    let file: ReceivedFile
    /// `nil` for one written under its own name in a hidden folder.
    let partial: Partial?
    var arriving: ArrivingContents

    init(_ file: ReceivedFile, descriptor: Descriptor, partial: Partial?, extent: UInt64) {
        self.file = file
        self.partial = partial
        arriving = ArrivingContents(file, descriptor: descriptor, extent: extent)
    }
}

/// Writes what arrives of one file.
struct ArrivingContents: Sendable {
    let descriptor: Descriptor
    private let isSparse: Bool
    /// The hashes of the leaves that an interrupted transfer has left.
    private let leaves: [UInt8]
    private let partialSize: UInt64
    /// The version here, whose chunks the sender was told.
    private let old: Descriptor?
    private(set) var hash: TreeHash
    /// The number of its bytes that passed over the link.
    var sent: UInt64 = 0
    /// The size of the file on the disk, with what an earlier transfer has written.
    private(set) var extent: UInt64

    /// Bytes at a time that become a hole when all are zero.
    private static let block = 4_096

    fileprivate init(_ file: ReceivedFile, descriptor: Descriptor, extent: UInt64) {
        self.descriptor = descriptor
        self.extent = extent
        isSparse = file.flags.contains(.sparse)
        leaves = file.plan.leaves
        partialSize = file.plan.partialSize
        old = file.plan.old
        hash = TreeHash(leafSize: file.leafSize)
    }

    /// The number of its bytes that are there.
    var position: UInt64 { hash.size }

    /// The bytes there is room for: no file ends beyond 2⁶³-1.
    private var room: UInt64 { UInt64(Int64.max) - position }

    /// Takes the next bytes in.
    mutating func write(_ data: ArraySlice<UInt8>) throws(Errno) {
        guard UInt64(data.count) <= room else { throw .tooMany }
        if isSparse {
            try writeSparse(data)
        } else {
            try descriptor.write(data, at: position)
        }
        hash.update(data)
        extent = max(extent, position)
    }

    /// Leaves out blocks of zeros.
    private func writeSparse(_ data: ArraySlice<UInt8>) throws(Errno) {
        var (start, index) = (data.startIndex, data.startIndex)
        func offset(_ index: Int) -> UInt64 { position + UInt64(index - data.startIndex) }
        while index < data.endIndex {
            let end = min(index + Self.block - Int(offset(index) % UInt64(Self.block)), data.endIndex)
            if end - index == Self.block, data[index..<end].allSatisfy({ $0 == 0 }) {
                try descriptor.write(data[start..<index], at: offset(start))
                try clear(offset(index)..<offset(end))
                start = end
            }
            index = end
        }
        try descriptor.write(data[start...], at: offset(start))
    }

    /// Takes a hole in.
    mutating func skip(_ length: UInt64) throws(Errno) {
        guard length <= room else { throw .tooMany }
        try clear(position..<(position + length))
        hash.appendZeros(length)
    }

    /// Takes leaves in that are there already.
    mutating func keep(_ leaves: UInt64) throws(KithError) {
        let size = UInt64(hash.leafSize)
        let first = position / size
        let known = UInt64(self.leaves.count / TreeHash.count)
        guard hash.isAtBoundary, position % size == 0, leaves <= known, first <= known - leaves else {
            throw KithError(.invalid, "The other end refers to data that this one does not have.")
        }
        for leaf in first..<(first + leaves) {
            let start = Int(leaf) * TreeHash.count
            let length = min(size, partialSize - leaf * size)
            hash.append(leaf: Array(self.leaves[start..<(start + TreeHash.count)]), length: Int(length))
        }
    }

    /// Takes a part of the version here in.
    ///
    /// - Throws: ``Errno``; `.invalid` when there is no such part.
    mutating func copy(_ start: UInt64, _ length: UInt64) throws {
        let (end, isOver) = start.addingReportingOverflow(length)
        guard !isOver, end <= UInt64(Int64.max), let old else {
            throw KithError(.invalid, "The other end refers to data that this one does not have.")
        }
        var offset = start
        while offset < end {
            let limit = min(end - offset, 256 << 10)
            guard let bytes = try old.bytes(at: offset, limit: Int(limit)) else { throw Errno.truncated }
            try write(bytes[...])
            offset += UInt64(bytes.count)
        }
    }

    /// An error of writing, in words.
    static func failure(_ error: Errno, _ path: Files.Path) -> KithError {
        if error == .truncated {
            return KithError(.corrupt, "Cannot replace \(path): it changed meanwhile. Try again.")
        }
        return error.failure("write", path)
    }

    /// Gives the file its length.
    func end() throws(Errno) {
        // What the last transfer has written further on, or a hole at the end.
        if extent != position { try descriptor.truncate(to: position) }
    }

    private func clear(_ range: Range<UInt64>) throws(Errno) {
        let there = min(range.upperBound, extent)
        if range.lowerBound < there { try descriptor.clear(range.lowerBound..<there) }
    }
}
