import KithAPI
import KithIO
import KithWire

/// The speed at which contents arrive, to know whether looking for what is here already is worthwhile.
struct ArrivalSpeed {
    private var bytes = 0
    private var time = Duration.zero

    /// Notes contents and how long they took.
    mutating func add(_ bytes: Int, in time: Duration) {
        self.bytes += bytes
        self.time += time
    }

    /// True when whole files come faster than both ends can cut and hash them.
    var isFasterThanHashing: Bool { bytes > 64 << 20 && Double(bytes) / max(time / .seconds(1), 0.001) > 250e6 }
}

/// Decides what is wanted of each file, and receives its contents.
extension TreeReceiver {
    /// Files smaller than this are sent whole.
    private static let minimumDifference: UInt64 = 64 << 10
    /// The most the sender may have to hold of our answers about files not done, and for how many.
    private static let maximumCost = 8 << 20
    private static let maximumPlanned = 16

    // MARK: - Deciding

    /// Answers for the files listed so far, as far as the sender can hold it.
    func answer() throws {
        while let file = pending.first {
            guard planned == 0 || (cost < Self.maximumCost && planned < Self.maximumPlanned) else { break }
            _ = pending.popFirst()
            try decide(file)
        }
        try sendAnswers()
    }

    /// Sends what has been decided and not sent.
    private func sendAnswers() throws {
        if toSend > 0 { try answers.put(.send(files: toSend)) }
        if notNeeded > 0 { try answers.put(.notNeeded(files: notNeeded)) }
        (toSend, notNeeded) = (0, 0)
    }

    private func want(_ file: ReceivedFile) throws {
        if options.dryRun {
            guard try isFree(file) else { return try leave(file, isThere: false) }
            note(file.folder, file.name, file.plan.existing == nil ? .new : .changed)
            summary.files += 1
            summary.bytes = try summary.bytes.adding(announced: file.size)
            return try leave(file, isThere: true)
        }
        wanted.append(file)
        if notNeeded > 0 { try sendAnswers() }
        toSend += 1
    }

    private func leave(_ file: ReceivedFile, isThere: Bool) throws {
        progress.add(bytes: file.size, files: 1)
        if toSend > 0 { try sendAnswers() }
        notNeeded += 1
        try finish(file, isThere: isThere)
        try release(file.folder)
    }

    private func decide(_ listed: ReceivedFile) throws {
        var file = listed
        let folder = file.folder
        guard !folder.isNew, let around = folder.descriptor else { return try want(file) }
        let path = shown(file.name, in: folder)
        let existing: Descriptor.Info?
        do throws(Errno) {
            existing = try around.info(file.name)
        } catch .notFound {
            existing = nil
        } catch {
            throw error.failure("access", path)
        }
        file.plan.existing = existing?.kind
        if let existing {
            if existing.kind == .folder, !folder.isHidden, !options.delete {
                throw KithError(.conflict, "Cannot copy the file to \(path): a folder of that name is there.")
            }
            if !options.overwrite, !folder.isHidden {
                leaveOut(path)
                return try leave(file, isThere: true)
            }
            if existing.kind == .file, try isCurrent(file, existing, path) {
                summary.unchanged += 1
                return try leave(file, isThere: true)
            }
        }
        if options.dryRun { return try want(file) }
        try findPartial(of: &file, in: around, path)
        if let existing, existing.kind == .file { try compare(&file, existing, in: around, path) }
        guard file.plan.cost > 0 else { return try want(file) }
        try answers.put(.sendDifference)
        wanted.append(file)
        cost += file.plan.cost
        planned += 1
    }

    /// Tells whether the file here stays; its mode becomes the source's then.
    private func isCurrent(_ file: ReceivedFile, _ existing: Descriptor.Info, _ path: Files.Path) throws -> Bool {
        let attributes = file.attributes
        if options.update, !file.folder.isHidden,
            (existing.seconds, existing.nanoseconds) > (attributes.seconds, attributes.nanoseconds)
        {
            return true
        }
        guard existing.size == file.size, existing.seconds == attributes.seconds,
            existing.nanoseconds == attributes.nanoseconds, !options.checksum || file.folder.isHidden
        else { return false }
        let isOther = keepsModes && existing.mode & 0o777 != attributes.mode & 0o777
        guard !options.dryRun, isOther || file.extended != nil else { return true }
        do throws(Errno) {
            guard let opened = try file.folder.descriptor?.open(name: file.name, .noFollow) else { return true }
            if let extended = file.extended { try ExtendedAttributes.write(extended, to: opened) }
            if isOther { try opened.setMode(attributes.mode & 0o777) }
            return true
        } catch {
            // One that may not be opened or changed is replaced by one that is sent whole.
            guard error.isDenial else { throw error.failure("change", path) }
            return false
        }
    }

    /// Looks for what an interrupted transfer has left of the file, and says which leaves it has.
    private func findPartial(of file: inout ReceivedFile, in folder: Descriptor, _ path: Files.Path) throws {
        guard file.isKept else { return }
        guard (try? folder.info(file.key.partialName)) != nil else { return }  // nothing to go on with
        let found = file
        let partial = try attempt("make", path) { () throws(Errno) in try kept(found, in: folder) }
        let size = try attempt("read", path) { () throws(Errno) in try partial.descriptor.info().size }
        file.plan.partial = partial
        guard partial.isResumed, size > 0 else { return }
        progress.begin(path.bytes)
        try sendAnswers()
        let leafSize = file.leafSize
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: leafSize, alignment: 4_096)
        defer { unsafe buffer.deallocate() }
        var reported = 0
        var offset: UInt64 = 0
        while offset < min(size, file.size) {
            try Task.checkCancellation()
            let count = try attempt("read", path) { () throws(Errno) in
                try unsafe partial.descriptor.readFully(into: buffer, at: offset)
            }
            guard count > 0 else { break }
            file.plan.leaves += unsafe TreeHash.leaf(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += UInt64(count)
            if file.plan.leaves.count - reported >= TransferFrame.maximumBasis {
                try answers.put(.leaves(file.plan.leaves[reported...]))
                reported = file.plan.leaves.count
            }
        }
        try answers.put(.leaves(file.plan.leaves[reported...]))
        file.plan.partialSize = offset
        file.plan.cost += file.plan.leaves.count
    }

    private func kept(_ file: ReceivedFile, in folder: Descriptor) throws(Errno) -> Partial {
        try Partial.resume(
            file.key, in: folder, isFolder: false, mode: mode(of: file), keeping: keeping, active: active,
            takenOver: takenOver)
    }

    /// The mode a file is made with: nobody else's until it is whole; or, less the umask, the source's, as with cp, or
    /// that of any download, which nobody can run by accident.
    private func mode(of file: ReceivedFile) -> UInt32 {
        switch origin {
        case .download: 0o666
        case .copy: options.preserve ? 0o600 : file.attributes.mode & 0o777
        }
    }

    /// Sends what the version here holds.
    private func compare(
        _ file: inout ReceivedFile, _ existing: Descriptor.Info, in folder: Descriptor, _ path: Files.Path
    ) throws {
        let mayBeSame = options.checksum && existing.size == file.size
        let isWorthIt =
            !options.wholeFile && !speed.isFasterThanHashing
            && min(existing.size, file.size) >= Self.minimumDifference && existing.size <= ContentChunker.maximumSize
        guard mayBeSame || isWorthIt else { return }
        // A version that cannot be read is replaced by one that is sent whole.
        guard let old = try? folder.open(name: file.name, .noFollow), let info = try? old.info(),
            info.kind == .file, info.inode == existing.inode
        else { return }
        progress.begin(path.bytes)
        try sendAnswers()
        if mayBeSame {
            let root = try attempt("read", path) { () throws(Errno) in
                try FileSender.root(of: old, leafSize: file.leafSize)
            }
            try answers.put(.root(root))
            file.plan.mayBeSame = true
            file.plan.cost += TreeHash.count
        }
        file.plan.old = old
        if isWorthIt { file.plan.cost += try sendChunks(of: old, existing.size, path) }
    }

    /// Cuts and hashes the version here; returns how many bytes say so.
    private func sendChunks(of old: Descriptor, _ size: UInt64, _ path: Files.Path) throws -> Int {
        let exponent = ContentChunker.exponent(for: size)
        let chunker = ContentChunker(exponent: exponent)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(4 * chunker.maximum, 1 << 20), alignment: 4_096)
        defer { unsafe buffer.deallocate() }
        var entries: [UInt8] = []
        entries.reserveCapacity(TransferFrame.maximumBasis)
        var (filled, isAtEnd, total) = (0, false, 0)
        var offset: UInt64 = 0
        while !isAtEnd {
            try Task.checkCancellation()
            let free = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            let count = try attempt("read", path) { () throws(Errno) in
                try unsafe old.readFully(into: free, at: offset)
            }
            offset += UInt64(count)
            filled += count
            // What it grows by meanwhile is not told of.
            isAtEnd = count < free.count || offset >= size
            var position = 0
            while isAtEnd ? position < filled : filled - position >= chunker.maximum {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[position..<filled])
                let length = unsafe chunker.cut(rest)
                let hash = unsafe ChunkHash(of: UnsafeRawBufferPointer(rebasing: rest[..<length]))
                var entry = ByteWriter(capacity: ChunkTable.entryCount)
                entry.integer(UInt32(length))
                entry.integer(hash.high)
                entry.integer(hash.low)
                entries += entry.bytes
                total += ChunkTable.entryCount
                position += length
                if entries.count >= TransferFrame.maximumBasis {
                    try answers.put(.chunks(exponent: UInt8(exponent), entries[...]))
                    entries.removeAll(keepingCapacity: true)
                }
            }
            unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<(filled - position)]).copyMemory(
                from: UnsafeRawBufferPointer(rebasing: buffer[position..<filled]))
            filled -= position
        }
        if !entries.isEmpty { try answers.put(.chunks(exponent: UInt8(exponent), entries[...])) }
        return total
    }

    // MARK: - Contents

    func nextWanted() throws -> ReceivedFile {
        guard contents == nil, let file = wanted.popFirst() else { throw Self.outOfOrder }
        if file.plan.cost > 0 {
            cost -= file.plan.cost
            planned -= 1
        }
        return file
    }

    func begin(_ file: ReceivedFile) throws -> ReceivedContents {
        let folder = file.folder
        let path = shown(file.name, in: folder)
        progress.begin(path.bytes)
        guard let around = folder.descriptor else { throw Self.outOfOrder }
        lastBegun = folder
        let mode = mode(of: file)
        return try attempt("make", path) { () throws(Errno) in
            if let partial = file.plan.partial {
                return ReceivedContents(
                    file, descriptor: partial.descriptor, partial: partial, extent: try partial.descriptor.info().size)
            }
            if file.isKept {
                let partial = try kept(file, in: around)
                return ReceivedContents(
                    file, descriptor: partial.descriptor, partial: partial,
                    extent: partial.isResumed ? try partial.descriptor.info().size : 0)
            }
            guard folder.isHidden else {
                let partial = try Partial.make(in: around, isFolder: false, mode: mode)
                return ReceivedContents(file, descriptor: partial.descriptor, partial: partial, extent: 0)
            }
            if file.plan.existing != nil { try removeLeft(file.name, from: around) }
            let descriptor = try around.open(name: file.name, [.write, .create, .noFollow], mode: mode)
            return ReceivedContents(file, descriptor: descriptor, partial: nil, extent: 0)
        }
    }

    private func removeLeft(_ name: [UInt8], from folder: Descriptor) throws(Errno) {
        do {
            _ = try Removal.removeTree(name, from: folder)
        } catch let error as Errno {
            throw error
        } catch {
            throw .tooMany
        }
    }

    /// Lets `body` change the contents that are arriving; returns by how much they grew.
    private func change(_ body: (inout ArrivingContents) throws -> Void) throws -> UInt64 {
        var current = try contents ?? begin(try nextWanted())
        // One owner only, so that the bytes of the hash are not copied.
        contents = nil
        let before = current.arriving.position
        do {
            try body(&current.arriving)
        } catch {
            // Until it is known whether it is worth keeping.
            contents = current
            guard let error = error as? Errno else { throw error }
            throw ArrivingContents.failure(error, shown(current.file.name, in: current.file.folder))
        }
        contents = current
        return current.arriving.position - before
    }

    func write(_ data: ArraySlice<UInt8>) throws {
        _ = try change { contents in
            try contents.write(data)
            contents.sent += UInt64(data.count)
        }
        progress.add(bytes: UInt64(data.count), sent: UInt64(data.count))
    }

    func hole(_ length: UInt64) throws { progress.add(bytes: try change { try $0.skip(length) }) }

    func keep(_ leaves: UInt64) throws { progress.add(bytes: try change { try $0.keep(leaves) }) }

    func copy(_ offset: UInt64, _ length: UInt64) throws {
        progress.add(bytes: try change { try $0.copy(offset, length) })
    }

    func small(_ root: [UInt8], _ data: ArraySlice<UInt8>) throws {
        var current = try begin(try nextWanted())
        try attempt("write", shown(current.file.name, in: current.file.folder)) { () throws(Errno) in
            try current.arriving.write(data)
        }
        current.arriving.sent = UInt64(data.count)
        progress.add(bytes: UInt64(data.count), sent: UInt64(data.count))
        try finish(current, root)
    }

    func finishFile(_ root: [UInt8]) throws {
        let current = try contents ?? begin(try nextWanted())
        contents = nil
        try finish(current, root)
    }

    func abandonFile() throws {
        let current = try contents ?? begin(try nextWanted())
        contents = nil
        try abandon(current)
    }

    /// Leaves nothing of a file.
    func abandon(_ current: ReceivedContents) throws {
        if let partial = current.partial {
            partial.discard()
        } else {
            // What cannot be removed here goes with the folder.
            try? current.file.folder.descriptor?.remove(current.file.name)
        }
        try finish(current.file, isThere: false)
        try release(current.file.folder)
    }

    /// The version here is the very file.
    func same() throws {
        let file = try nextWanted()
        guard file.plan.mayBeSame, let old = file.plan.old else { throw Self.outOfOrder }
        file.plan.partial?.discard()
        try attempt("change", shown(file.name, in: file.folder)) { () throws(Errno) in
            if let extended = file.extended { try ExtendedAttributes.write(extended, to: old) }
            guard options.preserve else { return }
            if keepsModes { try old.setMode(file.attributes.mode & 0o777) }
            try old.setModified(file.attributes.seconds, file.attributes.nanoseconds)
        }
        summary.unchanged += 1
        progress.add(bytes: file.size, files: 1)
        try finish(file, isThere: true)
        try release(file.folder)
    }

    /// Makes a file all that it was at the source, but for its name.
    private func complete(_ done: ReceivedContents) throws(Errno) {
        let (file, descriptor) = (done.file, done.arriving.descriptor)
        try done.arriving.end()
        if let extended = file.extended { try ExtendedAttributes.write(extended, to: descriptor) }
        if options.preserve {
            if keepsModes { try descriptor.setMode(file.attributes.mode & 0o777) }
            try descriptor.setModified(file.attributes.seconds, file.attributes.nanoseconds)
        }
        if options.sync { try descriptor.sync() }
    }

    /// Sees that no folder has the name of a file; false when one has and stays.
    private func isFree(_ file: ReceivedFile) throws -> Bool {
        guard file.plan.existing == .folder, let around = file.folder.descriptor else { return true }
        return try makeWay(for: file.name, in: file.folder, around)
    }

    func finish(_ done: ReceivedContents, _ root: [UInt8]) throws {
        let (file, folder) = (done.file, done.file.folder)
        let path = shown(file.name, in: folder)
        guard done.arriving.hash.root() == root else {
            throw KithError(
                .corrupt, "What arrived of \(path) is not what was sent (SHA-256). Nothing was put in place.")
        }
        try attempt("put in place", path) { () throws(Errno) in try complete(done) }
        guard try done.partial == nil || isFree(file) else {
            done.partial?.discard()
            try finish(file, isThere: false)
            return try release(folder)
        }
        do throws(Errno) {
            try done.partial?.commit(as: file.name, overwrite: options.overwrite || folder.isHidden)
        } catch .exists where !options.overwrite {
            leaveOut(path)
            try finish(file, isThere: true)
            return try release(folder)
        } catch {
            throw error.failure("put in place", path)
        }
        summary.files += 1
        summary.bytes = try summary.bytes.adding(announced: done.arriving.hash.size)
        summary.sent += done.arriving.sent
        progress.add(files: 1)
        note(folder, file.name, file.plan.existing == nil ? .new : .changed)
        try finish(file, isThere: true)
        try release(folder)
    }
}
