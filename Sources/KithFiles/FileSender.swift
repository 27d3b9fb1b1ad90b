import KithAPI
import KithIO
import KithWire

/// Sends messages and contents of files over one stream, a buffer at a time.
///
/// It runs on a ``DiskExecutor``; the channel's other end writes to the network meanwhile.
@safe final class FileSender {  // the one pointer it holds never leaves it
    /// A buffer on its way to the network.
    struct Outgoing: Sendable {
        var bytes: [UInt8]
        /// The number of them that are contents of files.
        var contents: UInt64
    }

    /// A shared buffer goes out when it holds this much.
    static let batchLimit = 256 << 10
    /// The most of a file that one buffer carries.
    private static let chunk = 256 << 10

    let output: BoundedQueue<Outgoing>
    private let progress: TransferProgress
    private var batch: [UInt8] = []
    /// The bytes of contents that the shared buffer holds.
    private var batchContents: UInt64 = 0
    /// True while the total is still to be sent to the receiver, once it has been counted.
    private var reportsTotal: Bool
    /// The memory that small files are read into.
    private let scratch = UnsafeMutableRawBufferPointer.allocate(
        byteCount: TransferFrame.maximumSmall, alignment: 16)

    init(output: BoundedQueue<Outgoing>, progress: TransferProgress, reportsTotal: Bool) {
        self.output = output
        self.progress = progress
        self.reportsTotal = reportsTotal
    }

    deinit { unsafe scratch.deallocate() }

    // MARK: - Messages

    /// The bytes that wait to go out together.
    var waiting: Int { batch.count }

    var batchIsFull: Bool { batch.count >= Self.batchLimit }

    /// Appends the first message of all, which not even the total may precede.
    func greet(_ features: TransferFrame.Features) throws {
        try TransferFrame.hello(version: TransferFrame.version, features: features).append(to: &batch)
    }

    func put(_ frame: TransferFrame) throws {
        if reportsTotal, let total = progress.total {
            reportsTotal = false
            try TransferFrame.total(bytes: total.bytes, files: total.files).append(to: &batch)
        }
        try frame.append(to: &batch)
    }

    /// Appends a message of bytes from elsewhere, behind some of our own.
    private func put(type: UInt8, _ head: [UInt8], _ data: UnsafeRawBufferPointer) async throws {
        batch += TransferFrame.prefix(type: type, count: head.count + data.count)
        batch += head
        unsafe batch.append(contentsOf: data)
        batchContents += UInt64(data.count)
        if batchIsFull { try await flush() }
    }

    func flush() async throws {
        guard !batch.isEmpty else { return }
        let full = Outgoing(bytes: batch, contents: batchContents)
        (batch, batchContents) = ([], 0)
        batch.reserveCapacity(Self.batchLimit + 2 * TransferFrame.maximumSmall)
        try await output.send(full)
    }

    // MARK: - Contents

    /// Sends a file, leaving out what the receiver has of it.
    func sendContents(of file: Descriptor, _ info: Descriptor.Info, announced: UInt64, _ basis: TreeSender.Basis)
        async throws
    {
        let leafSize = TreeHash.leafSize(for: announced)
        if let root = basis.root, try Self.root(of: file, leafSize: leafSize) == root {
            try put(.same)
            progress.add(bytes: info.size)
            return
        }
        let isDifference = !basis.leaves.isEmpty || !basis.chunks.isEmpty
        if !isDifference, info.size <= UInt64(TransferFrame.maximumSmall), try await sendSmall(file, info) { return }
        var hash = TreeHash(leafSize: leafSize)
        if try await sendLeaves(of: file, besides: basis.leaves, &hash) {
            // The file ended among them.
        } else if basis.chunks.isEmpty {
            try await sendPlain(file, hasHoles: info.allocated < info.size, &hash)
        } else {
            try await sendChunks(of: file, besides: basis.chunks, &hash)
        }
        try put(.fileEnd(root: hash.root()))
        if batchIsFull { try await flush() }
    }

    /// The hash of all of a file.
    static func root(of file: Descriptor, leafSize: Int) throws(Errno) -> [UInt8] {
        var hash = TreeHash(leafSize: leafSize)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: chunk, alignment: 4_096)
        defer { unsafe buffer.deallocate() }
        while true {
            let count = try unsafe file.read(into: buffer, at: hash.size)
            guard count > 0 else { return hash.root() }
            unsafe hash.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }

    /// Sends a file in one message; false when it turns out to be larger than one holds, and nothing was sent.
    private func sendSmall(_ file: Descriptor, _ info: Descriptor.Info) async throws -> Bool {
        // What it has grown by since it was opened is left to the next transfer. Zero may be a file of the system's
        // own whose size nobody knows.
        let wanted = info.size == 0 ? TransferFrame.maximumSmall : Int(info.size)
        let count = try unsafe file.readFully(into: UnsafeMutableRawBufferPointer(rebasing: scratch[..<wanted]), at: 0)
        guard info.size > 0 || count < wanted else { return false }
        let data = unsafe UnsafeRawBufferPointer(rebasing: scratch[..<count])
        try unsafe await put(type: 12, TreeHash.leaf(data), data)
        progress.add(bytes: UInt64(count))
        return true
    }

    /// Sends all there is from where the hash is, with its holes as holes.
    private func sendPlain(_ file: Descriptor, hasHoles: Bool, _ hash: inout TreeHash) async throws {
        var dataEnd = hasHoles ? hash.size : .max
        while true {
            if hasHoles, hash.size >= dataEnd {
                let data = try file.nextData(from: hash.size)
                let start = try data?.lowerBound ?? max(file.info().size, hash.size)
                if start > hash.size {
                    try put(.hole(start - hash.size))
                    progress.add(bytes: start - hash.size)
                    hash.appendZeros(start - hash.size)
                }
                guard let data else { return }
                dataEnd = data.upperBound
            }
            let limit = Int(min(UInt64(Self.chunk), dataEnd - hash.size))
            guard let buffer = try readChunk(file, limit, &hash) else { return }
            try await flush()
            try await output.send(
                Outgoing(bytes: buffer, contents: UInt64(buffer.count - TransferFrame.dataPrefix)))
        }
    }

    /// Reads the next part of a file as a whole data message; `nil` at its end.
    private func readChunk(_ file: Descriptor, _ limit: Int, _ hash: inout TreeHash) throws(Errno) -> [UInt8]? {
        var failure: Errno?
        var read = 0
        let prefix = TransferFrame.dataPrefix
        let buffer = unsafe [UInt8](unsafeUninitializedCapacity: prefix + limit) { buffer, count in
            let data = unsafe UnsafeMutableRawBufferPointer(
                rebasing: unsafe UnsafeMutableRawBufferPointer(buffer)[prefix..<(prefix + limit)])
            do throws(Errno) { read = try unsafe file.read(into: data, at: hash.size) } catch { failure = error }
            guard read > 0 else { return }
            unsafe hash.update(UnsafeRawBufferPointer(rebasing: data[..<read]))
            for (index, byte) in TransferFrame.prefix(type: 4, count: read).enumerated() {
                unsafe buffer[index] = byte
            }
            count = prefix + read
        }
        if let failure { throw failure }
        progress.add(bytes: UInt64(read))
        return read == 0 ? nil : buffer
    }

    /// Goes through the leaves the receiver has something of, and sends those that are not the same.
    ///
    /// Returns whether the file ended.
    private func sendLeaves(of file: Descriptor, besides leaves: [UInt8], _ hash: inout TreeHash) async throws -> Bool {
        guard !leaves.isEmpty else { return false }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: hash.leafSize, alignment: 4_096)
        defer { unsafe buffer.deallocate() }
        var kept: UInt64 = 0
        var isAtEnd = false
        for start in stride(from: 0, to: leaves.count, by: TreeHash.count) {
            try Task.checkCancellation()
            let count = try unsafe file.readFully(into: buffer, at: hash.size)
            isAtEnd = count < hash.leafSize
            guard count > 0 else { break }
            let data = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count])
            let own = unsafe TreeHash.leaf(data)
            if own.elementsEqual(leaves[start..<(start + TreeHash.count)]) {
                kept += 1
                progress.add(bytes: UInt64(count))
            } else {
                if kept > 0 { try put(.kept(leaves: kept)) }
                kept = 0
                try unsafe await putData(data)
            }
            hash.append(leaf: own, length: count)
            if isAtEnd { break }
        }
        if kept > 0 { try put(.kept(leaves: kept)) }
        return isAtEnd
    }

    /// Sends what the receiver's version has no chunks of, and says where the rest is in it.
    private func sendChunks(of file: Descriptor, besides table: ChunkTable, _ hash: inout TreeHash) async throws {
        let chunker = ContentChunker(exponent: table.exponent)
        let index = table.index()
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(4 * chunker.maximum, 1 << 20), alignment: 4_096)
        defer { unsafe buffer.deallocate() }
        var (filled, isAtEnd) = (0, false)
        var copy: (offset: UInt64, length: UInt64)?
        func putCopy() throws {
            if let copy { try put(.copied(offset: copy.offset, length: copy.length)) }
            copy = nil
        }
        while true {
            try Task.checkCancellation()
            if !isAtEnd {
                let free = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
                let count = try unsafe file.readFully(into: free, at: hash.size)
                unsafe hash.update(UnsafeRawBufferPointer(rebasing: free[..<count]))
                filled += count
                isAtEnd = count < free.count
            }
            var (position, literal) = (0, 0)
            while isAtEnd ? position < filled : filled - position >= chunker.maximum {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[position..<filled])
                let length = unsafe chunker.cut(rest)
                let chunk = unsafe ChunkHash(of: UnsafeRawBufferPointer(rebasing: rest[..<length]))
                if let extent = index.extent(of: chunk, length: length) {
                    if literal < position {
                        try putCopy()
                        try unsafe await putData(UnsafeRawBufferPointer(rebasing: buffer[literal..<position]))
                    }
                    if let before = copy, before.offset + before.length == extent.offset {
                        copy = (before.offset, before.length + UInt64(length))
                    } else {
                        try putCopy()
                        copy = (extent.offset, UInt64(length))
                    }
                    progress.add(bytes: UInt64(length))
                    literal = position + length
                }
                position += length
            }
            if literal < position {
                try putCopy()
                try unsafe await putData(UnsafeRawBufferPointer(rebasing: buffer[literal..<position]))
            }
            if isAtEnd { break }
            unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<(filled - position)]).copyMemory(
                from: UnsafeRawBufferPointer(rebasing: buffer[position..<filled]))
            filled -= position
            if batchIsFull { try await flush() }
        }
        try putCopy()
    }

    private func putData(_ data: UnsafeRawBufferPointer) async throws {
        var start = 0
        while start < data.count {
            let part = min(data.count - start, Self.batchLimit)
            try unsafe await put(type: 4, [], UnsafeRawBufferPointer(rebasing: data[start..<(start + part)]))
            start += part
        }
        progress.add(bytes: UInt64(data.count))
    }
}
