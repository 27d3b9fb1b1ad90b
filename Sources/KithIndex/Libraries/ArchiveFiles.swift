import Crypto
import Foundation
import KithWire

/// A file that is read from its beginning to its end.
struct ArchiveReading: ~Copyable {
    private static let chunk = 1 << 20

    private let descriptor: Int32
    let count: UInt64

    /// - Throws: `EINVAL` for what is not a regular file.
    init(_ path: String) throws(SystemFailure) {
        descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw SystemFailure() }
        var info = stat()
        guard unsafe fstat(descriptor, &info) == 0, info.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw SystemFailure(EINVAL)
        }
        count = UInt64(max(0, info.st_size))
    }

    deinit { close(descriptor) }

    /// Up to so many bytes at a place; fewer only at the end.
    borrowing func bytes(at offset: UInt64, _ wanted: Int) throws(SystemFailure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: wanted)
        var done = 0
        while done < wanted {
            let got = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe pread(
                    descriptor, buffer.baseAddress?.advanced(by: done), wanted - done,
                    off_t(clamping: offset) + off_t(done))
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw SystemFailure() }
            if got == 0 { break }
            done += got
        }
        return Array(bytes.prefix(done))
    }

    /// Calls `body` with all that was there when it was opened, in parts.
    ///
    /// - Throws: `EINVAL` when there is less by now; what `body` throws; `CancellationError`.
    borrowing func forEach(
        from start: UInt64 = 0, count: UInt64? = nil, _ body: ([UInt8]) throws -> Void
    ) throws {
        var (offset, left) = (start, count ?? self.count)
        while left > 0 {
            try Task.checkCancellation()
            let wanted = Int(min(left, UInt64(Self.chunk)))
            let part = try bytes(at: offset, wanted)
            guard part.count == wanted else { throw SystemFailure(EINVAL) }
            try body(part)
            offset += UInt64(wanted)
            left -= UInt64(wanted)
        }
    }

    /// The SHA-256 of all of it.
    borrowing func hash() throws -> String {
        var hash = SHA256()
        try forEach { bytes in
            hash.update(data: Data(bytes))
        }
        return LibraryArchive.hex(hash.finalize())
    }
}

/// The file that is written, beside its place.
struct ArchiveTarget: ~Copyable {
    private let folder: Int32
    private let descriptor: Int32
    private let name: String
    private let temporary: String

    private init(name: String, temporary: String, folder: Int32, descriptor: Int32) {
        (self.name, self.temporary, self.folder, self.descriptor) = (name, temporary, folder, descriptor)
    }

    /// Makes the file, or takes the one that an export has left which was killed.
    ///
    /// - Throws: `.conflict` when another export writes it now, or something else is in the way.
    static func make(in path: String, name: String) throws -> ArchiveTarget {
        let temporary = ".\(name).kith-export"
        let folder = unsafe open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard folder >= 0 else { throw SystemFailure() }
        let descriptor = unsafe openat(
            folder, temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        do {
            guard descriptor >= 0 else { throw SystemFailure() }
            var info = stat()
            guard unsafe fstat(descriptor, &info) == 0, info.st_mode & S_IFMT == S_IFREG, info.st_uid == geteuid(),
                info.st_nlink == 1
            else { throw KithError(.conflict, "\(path)/\(temporary) is in the way. Remove it.") }
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                throw KithError(.conflict, "Another export writes \(path)/\(name) now. Wait for it.")
            }
            guard ftruncate(descriptor, 0) == 0, fchmod(descriptor, 0o600) == 0 else { throw SystemFailure() }
        } catch {
            if descriptor >= 0 { close(descriptor) }
            close(folder)
            throw error
        }
        return ArchiveTarget(name: name, temporary: temporary, folder: folder, descriptor: descriptor)
    }

    deinit {
        // What was not finished is nothing; what was has another name by now.
        if let held = Self.identity(descriptor), let there = Self.identity(folder, temporary), held == there {
            _ = unsafe unlinkat(folder, temporary, 0)
        }
        close(descriptor)
        close(folder)
    }

    private static func identity(_ descriptor: Int32, _ name: String? = nil) -> [UInt64]? {
        var info = stat()
        let status =
            if let name { unsafe fstatat(descriptor, name, &info, AT_SYMLINK_NOFOLLOW) } else {
                unsafe fstat(descriptor, &info)
            }
        return status == 0 ? [UInt64(truncatingIfNeeded: info.st_dev), UInt64(info.st_ino)] : nil
    }

    /// Refuses to replace what is at its place: a file unless it `overwrites`, anything else in any case.
    borrowing func checkPlace(overwrites: Bool) throws(KithError) {
        var info = stat()
        guard unsafe fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        guard info.st_mode & S_IFMT == S_IFREG else {
            throw KithError(.conflict, "\(name) is there already, and not a file. Choose another name.")
        }
        guard overwrites else {
            throw KithError(.conflict, "\(name) is there already. Choose another name, or have it overwritten.")
        }
    }

    borrowing func append(_ bytes: [UInt8]) throws(SystemFailure) {
        try DurableFile.append(bytes, to: descriptor)
    }

    /// Brings it to the disk, and to its place.
    borrowing func finish(overwrites: Bool, _ step: () -> Void) throws {
        guard fsync(descriptor) == 0 else { throw SystemFailure() }
        step()
        let status = FolderCalls.rename(temporary, to: name, in: folder, overwrites: overwrites)
        guard status == 0 else { throw SystemFailure(status) }
        // Some file systems of removable disks cannot, and keep names by themselves.
        guard fsync(folder) == 0 || errno == EINVAL else { throw SystemFailure() }
    }
}
