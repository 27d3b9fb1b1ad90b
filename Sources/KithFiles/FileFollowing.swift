import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire

/// One `files.follow`: the end of a file, and what is added to it.
///
/// It looks twenty times a second, fifty times while something is happening: on every file system there is, and cheaply.
struct FileFollowing: Sendable {
    private typealias Stream = MethodStream<Nothing, Files.Followed>

    private let input: Files.Follow.Input
    private let path: ConfinedPath
    private let clock: any Ticker

    init(_ input: Files.Follow.Input, _ context: CallContext, clock: any Ticker) throws(KithError) {
        self.clock = clock
        guard !input.waits || input.follows else {
            throw KithError(.invalid, "Cannot wait for \(input.path) without following it: `waits` needs `follows`.")
        }
        self.input = input
        path = try ConfinedPath(input.path, .read, for: context)
    }

    private static let idle = Duration.milliseconds(50)
    private static let busy = Duration.milliseconds(20)
    private static let blockSize = 64 << 10

    /// Sends until the caller ends it, or without following until the end.
    func run(_ pending: PendingStream<Files.Follow>, on disk: DiskExecutor) async throws {
        let file: Descriptor?
        do {
            file = try await disk.run { try open() }
        } catch let error as KithError where error.code == .notFound && input.waits {
            file = nil
        }
        let stream = try await pending.accept()
        do {
            try await withThrowingTaskGroup { group in
                group.addTask {
                    try await disk.run { try await send(file, to: stream) }
                }
                if input.follows {
                    // The caller's end of the stream ends the following.
                    group.addTask { try await stream.end() }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        } catch let error where !(error is CancellationError) {
            try await stream.send(Files.Followed(failure: Files.Failure(error)))
        }
    }

    private func open() throws(KithError) -> Descriptor {
        try attempt("read", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
            let file = try path.open()
            let info = try file.info()
            if info.kind == .folder { throw .isAFolder }
            guard info.kind == .file else { throw .notRegular }
            return file
        }
    }

    private func send(_ first: Descriptor?, to messages: Stream) async throws {
        var file = first
        var offset: UInt64 = 0
        if let first {
            let (start, end) = try attempt("read", path.shown) { () throws(Errno) in
                // A file that grows has an end here all the same; one that says it is empty may be the kernel's.
                let size = try first.info().size
                let end = size > 0 ? size : try Self.length(of: first)
                return (try self.start(in: first, end), end)
            }
            offset = try await copy(first, from: start, to: end, messages)
        }
        guard input.follows else { return }
        try await messages.send(Files.Followed(event: .reachedEnd))
        var isMissing = false
        if file == nil {
            try await messages.send(Files.Followed(event: .missing))
            isMissing = true
        }
        var lastChange = clock.now
        while true {
            try await clock.sleep(for: clock.now - lastChange < .seconds(1) ? Self.busy : Self.idle)
            if let current = file {
                let before = offset
                if try current.size(path.shown) < offset {
                    offset = 0
                    try await messages.send(Files.Followed(event: .truncated))
                }
                offset = try await copy(current, from: offset, to: .max, messages)
                if offset != before { lastChange = clock.now }
            }
            let named: Descriptor.Info
            do throws(Errno) {
                named = try path.open(.path).info()
            } catch {
                if !isMissing { try await messages.send(Files.Followed(event: .missing)) }
                isMissing = true
                continue
            }
            let own = try attempt("read", path.shown) { () throws(Errno) in try file?.info() }
            if let own, own.inode == named.inode, own.device == named.device {
                isMissing = false
                continue
            }
            do {
                let replacement = try open()
                // Whoever wrote to the old one may have done so until it got its successor.
                if let current = file { _ = try await copy(current, from: offset, to: .max, messages) }
                file = replacement
                isMissing = false
                try await messages.send(Files.Followed(event: .replaced))
                offset = try await copy(replacement, from: 0, to: .max, messages)
                lastChange = clock.now
            } catch let error as KithError where error.code == .notFound || error.code == .denied {
                if !isMissing { try await messages.send(Files.Followed(event: .missing)) }
                isMissing = true
            }
        }
    }

    /// Sends what lies between two places, as far as the file goes; returns where that is.
    private func copy(
        _ file: Descriptor, from start: UInt64, to end: UInt64, _ messages: Stream
    ) async throws -> UInt64 {
        var offset = start
        while offset < end {
            let limit = Int(min(UInt64(Self.blockSize), end - offset))
            let bytes = try attempt("read", path.shown) { () throws(Errno) in
                try file.bytes(at: offset, limit: limit)
            }
            guard let bytes else { break }
            try await messages.send(Files.Followed(bytes: ByteString(bytes)))
            offset += UInt64(bytes.count)
        }
        return offset
    }

    /// Finds the beginning of the part asked for.
    private func start(in file: Descriptor, _ size: UInt64) throws(Errno) -> UInt64 {
        let start = input.start
        switch (start.isBytes, start.isFromBeginning) {
        case (true, false): return size - min(size, start.count)
        case (true, true): return max(start.count, 1) - 1
        case (false, false): return try lastLines(start.count, of: file, size)
        case (false, true): return try line(start.count, of: file)
        }
    }

    /// Finds the beginning of the last `count` lines; the very last need not end.
    private func lastLines(_ count: UInt64, of file: Descriptor, _ size: UInt64) throws(Errno) -> UInt64 {
        guard count > 0 else { return size }
        var found: UInt64 = 0
        var end = size
        while end > 0 {
            let length = min(UInt64(Self.blockSize), end)
            let block = try file.bytes(at: end - length, limit: Int(length)) ?? []
            for index in block.indices.reversed() where block[index] == UInt8(ascii: "\n") {
                let position = end - length + UInt64(index)
                if position == size - 1 { continue }
                found += 1
                if found == count { return position + 1 }
            }
            end -= length
            if end % (16 << 20) < length { try Self.checkCancellation() }
        }
        return 0
    }

    /// Finds the beginning of the line with this number, from 1; the end of a file that has fewer.
    private func line(_ number: UInt64, of file: Descriptor) throws(Errno) -> UInt64 {
        var left = max(number, 1) - 1
        var offset: UInt64 = 0
        while left > 0, let block = try file.bytes(at: offset, limit: Self.blockSize) {
            for (index, byte) in block.enumerated() where byte == UInt8(ascii: "\n") {
                left -= 1
                if left == 0 { return offset + UInt64(index) + 1 }
            }
            offset += UInt64(block.count)
            if offset % (16 << 20) < UInt64(block.count) { try Self.checkCancellation() }
        }
        return offset
    }

    /// Counts the bytes of a file that does not tell its size.
    private static func length(of file: Descriptor) throws(Errno) -> UInt64 {
        var length: UInt64 = 0
        while let block = try file.bytes(at: length, limit: blockSize) {
            length += UInt64(block.count)
            if length % (16 << 20) < UInt64(block.count) { try checkCancellation() }
        }
        return length
    }

    /// Ends a long search for a line when nobody waits for it any more.
    private static func checkCancellation() throws(Errno) {
        if Task.isCancelled { throw .interrupted }
    }
}

extension Descriptor {
    fileprivate func size(_ shown: Files.Path) throws(KithError) -> UInt64 {
        try attempt("read", shown) { () throws(Errno) in try info().size }
    }
}
