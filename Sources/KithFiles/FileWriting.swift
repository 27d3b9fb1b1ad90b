import Crypto
import KithAPI
import KithWire

/// One `files.write`: the bytes of a stream into one file.
struct FileWriting: Sendable {
    private let path: ConfinedPath
    private let input: Files.Write.Input

    init(_ path: ConfinedPath, _ input: Files.Write.Input) {
        self.path = path
        self.input = input
    }

    /// Writes what comes until the caller finishes.
    ///
    /// Runs on a ``DiskExecutor``.
    func run(from stream: any ByteStream) async throws -> Files.Write.Written {
        if let offset = input.offset { return try await patch(from: stream, at: offset) }
        let (folder, name) = try path.parent()
        let shown = path.shown
        guard !path.isFolder else { throw KithError(.conflict, "Cannot write \(shown): it is a folder.") }
        if input.replacing != nil, !input.overwrite {
            throw KithError(
                .invalid,
                "Cannot write \(shown): `replacing` names a version to replace, and without `overwrite` nothing is.")
        }
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
        }
        if let expected = input.replacing { try check(folder, name, holds: expected.bytes) }
        try attempt("write", shown) { () throws(Errno) in
            try partial.commit(as: name, overwrite: input.overwrite)
        }
        return written
    }

    /// Refuses when the file is not what the caller has seen.
    ///
    /// The moment between this and the renaming is the only one in which another's change could still be lost.
    private func check(_ folder: Descriptor, _ name: [UInt8], holds expected: [UInt8]) throws {
        let changed = KithError(
            .conflict, "Cannot write \(path.shown): somebody else has changed it meanwhile. Nothing was written.")
        let file: Descriptor
        do throws(Errno) {
            file = try folder.open(name: name, .noFollow)
            guard try file.info().kind == .file else { throw .notRegular }
        } catch {
            guard error == .notFound else { throw error.failure("compare", path.shown) }
            throw changed
        }
        var hash = SHA256()
        var offset: UInt64 = 0
        while let bytes = try attempt(
            "compare", path.shown,
            { () throws(Errno) in
                try file.bytes(at: offset, limit: 256 << 10)
            })
        {
            unsafe bytes.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
            offset += UInt64(bytes.count)
            try Task.checkCancellation()
        }
        guard Array(hash.finalize()) == expected else { throw changed }
    }

    private func patch(from stream: any ByteStream, at offset: UInt64) async throws -> Files.Write.Written {
        guard offset <= UInt64(Int64.max) else {
            throw KithError(.invalid, "Cannot write \(path.shown) at \(offset): no file is that long.")
        }
        let file = try attempt("write", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
            let file = try path.open(.write)
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
            try attempt("write", path.shown) { () throws(Errno) in
                try file.write(bytes[...], at: offset.map { $0 &+ size })
            }
            unsafe bytes.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
            size += UInt64(bytes.count)
        }
        return Files.Write.Written(size: size, sha256: ByteString(Array(hash.finalize())))
    }
}
