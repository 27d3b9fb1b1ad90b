import Crypto
import KithAPI
import KithWire

/// One `files.write`: the bytes of a stream into one file.
struct FileWriting: Sendable {
    private let place: Place
    private let input: Files.Write.Input

    init(_ place: Place, _ input: Files.Write.Input) {
        self.place = place
        self.input = input
    }

    /// Writes what comes until the caller finishes.
    ///
    /// Runs on a ``DiskExecutor``.
    func run(from stream: any ByteStream) async throws -> Files.Write.Written {
        if let offset = input.offset { return try await patch(from: stream, at: offset) }
        let (folder, name) = try place.parent()
        let shown = place.shown
        guard !place.isFolder else { throw KithError(.conflict, "Cannot write \(shown): it is a folder.") }
        let existing = try? folder.info(name)  // what cannot be looked at cannot be replaced either: the end tells
        if existing?.kind == .folder { throw KithError(.conflict, "Cannot write \(shown): it is a folder.") }
        if existing != nil, !input.overwrite { throw Errno.exists.failure("write", shown) }
        Partial.removeStale(in: folder)
        let partial = try attempt("write", shown) { () throws(Errno) in
            try Partial.make(in: folder, isFolder: false, mode: 0o644)
        }
        let written = try await copy(stream, to: partial.descriptor, at: nil)
        try attempt("write", shown) { () throws(Errno) in
            if let mode = input.mode ?? existing?.mode { try partial.descriptor.setMode(mode & 0o777) }
            try partial.commit(as: name, overwrite: input.overwrite)
        }
        return written
    }

    private func patch(from stream: any ByteStream, at offset: UInt64) async throws -> Files.Write.Written {
        guard offset <= UInt64(Int64.max) else { throw KithError(.invalid, "The offset is beyond any file.") }
        let file = try attempt("write", place.shown, confined: place.isConfined) { () throws(Errno) in
            let file = try place.open(.write)
            guard try file.info().kind == .file else { throw .notRegular }
            return file
        }
        return try await copy(stream, to: file, at: offset)
    }

    private func copy(
        _ stream: any ByteStream, to file: Descriptor, at offset: UInt64?
    ) async throws -> Files.Write.Written {
        var hash = SHA256()
        var size: UInt64 = 0
        while let bytes = try await stream.read(upTo: 256 << 10) {
            try attempt("write", place.shown) { () throws(Errno) in
                try file.write(bytes[...], at: offset.map { $0 &+ size })
            }
            unsafe bytes.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
            size += UInt64(bytes.count)
        }
        return Files.Write.Written(size: size, sha256: ByteString(Array(hash.finalize())))
    }
}
