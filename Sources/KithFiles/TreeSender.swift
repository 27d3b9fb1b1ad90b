import Crypto
import KithAPI
import KithWire

/// Reads files and folders and turns them into the messages of a transfer, a buffer at a time.
///
/// It runs on a ``DiskExecutor``; the channel's other end writes to the network meanwhile.
@safe final class TreeSender {  // the one pointer it holds never leaves it
    /// How much of a file one buffer carries.
    private static let chunk = 512 << 10
    /// Files up to this size share buffers with their neighbours.
    private static let small = 64 << 10
    /// A shared buffer goes out when it holds this much.
    private static let batchLimit = 256 << 10

    private let output: BoundedChannel<[UInt8]>
    private let progress: TransferProgress
    private var batch: [UInt8] = []
    private var hasSentTotal = false
    private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: small, alignment: 16)

    init(output: BoundedChannel<[UInt8]>, progress: TransferProgress) {
        self.output = output
        self.progress = progress
    }

    deinit { unsafe scratch.deallocate() }

    /// Sends all of `sources` and the end of the transfer.
    ///
    /// What cannot be read beneath a source is left out, with the reason; a source itself that cannot be is an error.
    func send(_ sources: [TreeSource]) async throws {
        for source in sources {
            let path = [source.name]
            if let opened = source.opened {
                let info = try attempt("read", source.shown) { () throws(Errno) in try opened.info() }
                if info.kind == .folder {
                    try await sendFolder(opened, info, path)
                } else {
                    try await sendFile(opened, info, path)
                }
            } else if let folder = source.folder {
                try await sendLink(in: folder, path)
            }
        }
        progress.isAllSent = true
        try await put(.end)
        try await flush()
    }

    private func sendChild(of folder: Descriptor, _ path: [[UInt8]]) async throws {
        guard let name = path.last else { return }
        do {
            let listed = try folder.info(name)
            switch listed.kind {
            case .link: try await sendLink(in: folder, path)
            case .special: throw KithError(.unsupported, "It is a pipe, a socket or a device.")
            case .file, .folder:
                guard TransferFrame.isSafe(name: name) else {
                    throw KithError(.unsupported, "Its name is not allowed.")
                }
                let opened = try folder.open(name: name, listed.kind == .folder ? [.folder, .noFollow] : .noFollow)
                // It may have become something else since it was listed.
                let info = try opened.info()
                switch info.kind {
                case .folder where path.count >= TreeSource.maximumDepth:
                    throw KithError(.exhausted, "Folders nest deeper than \(TreeSource.maximumDepth) levels.")
                case .folder: try await sendFolder(opened, info, path)
                case .file: try await sendFile(opened, info, path)
                case .link, .special: throw KithError(.unsupported, "It is a pipe, a socket or a device.")
                }
            }
        } catch let error as Errno {
            try await skip(path, error.failure("read", Self.shown(path)))
        } catch let error as KithError where error.code == .unsupported || error.code == .exhausted {
            try await skip(path, error)
        }
    }

    private func sendFolder(_ folder: Descriptor, _ info: Descriptor.Info, _ path: [[UInt8]]) async throws {
        let names = try folder.names().sorted { $0.lexicographicallyPrecedes($1) }
        try await put(.folder(Self.attributes(path, info)))
        for name in names {
            try Task.checkCancellation()
            try await sendChild(of: folder, path + [name])
        }
        try await put(.folderEnd)
    }

    private func sendLink(in folder: Descriptor, _ path: [[UInt8]]) async throws {
        guard let name = path.last else { return }
        let info = try folder.info(name)
        let target = try folder.target(ofLink: name)
        try await put(.link(Self.attributes(path, info), target: target))
    }

    /// Sends what is in the file when it is read, whatever size it had before.
    private func sendFile(_ file: Descriptor, _ info: Descriptor.Info, _ path: [[UInt8]]) async throws {
        progress.begin(path)
        try await put(.file(Self.attributes(path, info), size: info.size))
        var hash = SHA256()
        do {
            if info.size <= UInt64(Self.small) {
                while try sendSmall(file, &hash) {
                    if batch.count >= Self.batchLimit { try await flush() }
                }
            } else {
                while let buffer = try readChunk(file, &hash) {
                    try await flush()
                    try await output.send(buffer)
                }
            }
        } catch let error as Errno {
            try await put(.fileAbandoned)
            throw error
        }
        try await put(.fileEnd(sha256: Array(hash.finalize())))
        progress.add(files: 1)
    }

    /// Reads the next part of a small file into the shared buffer; false at its end.
    private func sendSmall(_ file: Descriptor, _ hash: inout SHA256) throws(Errno) -> Bool {
        let count = try unsafe file.read(into: scratch)
        guard count > 0 else { return false }
        let data = unsafe UnsafeRawBufferPointer(rebasing: scratch[..<count])
        unsafe hash.update(bufferPointer: data)
        batch += TransferFrame.dataPrefix(count: count)
        unsafe batch.append(contentsOf: data)
        progress.add(bytes: count)
        return true
    }

    /// Reads the next part of a file as a whole data message; `nil` at its end.
    private func readChunk(_ file: Descriptor, _ hash: inout SHA256) throws(Errno) -> [UInt8]? {
        var failure: Errno?
        var read = 0
        let prefix = TransferFrame.dataPrefix
        let buffer = unsafe [UInt8](unsafeUninitializedCapacity: prefix + Self.chunk) { buffer, count in
            let data = unsafe UnsafeMutableRawBufferPointer(
                rebasing: unsafe UnsafeMutableRawBufferPointer(buffer)[prefix...])
            do throws(Errno) { read = try unsafe file.read(into: data) } catch { failure = error }
            guard read > 0 else { return }
            unsafe hash.update(bufferPointer: UnsafeRawBufferPointer(rebasing: data[..<read]))
            for (index, byte) in TransferFrame.dataPrefix(count: read).enumerated() { unsafe buffer[index] = byte }
            count = prefix + read
        }
        if let failure { throw failure }
        progress.add(bytes: read)
        return read == 0 ? nil : buffer
    }

    private func skip(_ path: [[UInt8]], _ error: KithError) async throws {
        let skipped = Files.Skipped(path: Self.shown(path), failure: Files.Failure(error))
        progress.skip(skipped)
        try await put(.skipped(skipped))
    }

    private func put(_ frame: TransferFrame) async throws {
        if !hasSentTotal, let bytes = progress.total {
            hasSentTotal = true
            try TransferFrame.total(bytes: bytes.bytes, files: bytes.files).append(to: &batch)
        }
        try frame.append(to: &batch)
        if batch.count >= Self.batchLimit { try await flush() }
    }

    private func flush() async throws {
        guard !batch.isEmpty else { return }
        let full = batch
        batch = []
        batch.reserveCapacity(Self.batchLimit + 2 * Self.small)
        try await output.send(full)
    }

    private static func attributes(_ path: [[UInt8]], _ info: Descriptor.Info) -> TransferFrame.Attributes {
        TransferFrame.Attributes(
            name: path.last ?? [], mode: info.mode, seconds: info.seconds, nanoseconds: info.nanoseconds)
    }

    private static func shown(_ path: [[UInt8]]) -> Files.Path {
        Files.Path(bytes: [UInt8](path.joined(separator: [UInt8(ascii: "/")])))
    }
}
