public import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Small files that only their owner may read, written whole or not at all.
public enum SecretFile {
    /// Tells whether there is a file, as far as this process may know.
    package static func exists(_ path: String) -> Bool {
        unsafe access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)
    }

    /// The names of what is in a folder, but for itself and the one above.
    ///
    /// - Throws: `KithError` `.denied` when we may not look, `.notFound` when it is not there.
    package static func names(in folder: String) throws(KithError) -> [String] {
        guard let listing = unsafe opendir(folder) else { throw failure("look into", folder, errno) }
        defer { unsafe closedir(listing) }
        var names: [String] = []
        while let entry = unsafe readdir(listing) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Tells whether an open descriptor is a file that others than its owner may read or change.
    package static func isOpenToOthers(_ descriptor: Int32) -> Bool {
        var info = stat()
        guard unsafe fstat(descriptor, &info) == 0 else { return true }
        return info.st_mode & S_IFMT == S_IFREG && info.st_mode & 0o077 != 0
    }

    /// The bytes of a file, or `nil` when there is none.
    ///
    /// - Throws: `KithError` `.denied` when others than its owner may read or change it, or when we may not;
    ///   `.corrupt` when it is not a plain file or has more than `limit` bytes.
    public static func read(_ path: String, limit: Int) throws(KithError) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw failure("read", path, errno)
        }
        defer { close(descriptor) }
        var info = stat()
        guard unsafe fstat(descriptor, &info) == 0 else { throw failure("read", path, errno) }
        guard info.st_mode & S_IFMT == S_IFREG, info.st_size <= limit else {
            throw KithError(.corrupt, "\(path) is not what it should be: a plain file of at most \(limit) bytes.")
        }
        guard info.st_mode & 0o077 == 0 else {
            throw KithError(.denied, "\(path) holds a secret and others may read it. Run: chmod 600 \(path)")
        }
        var bytes = [UInt8](repeating: 0, count: limit)
        var count = 0
        while count < limit {
            let got = unsafe bytes.withUnsafeMutableBytes { buffer in
                Self.system { unsafe systemRead(descriptor, buffer.baseAddress?.advanced(by: count), limit - count) }
            }
            guard got >= 0 else { throw failure("read", path, errno) }
            guard got > 0 else { break }
            count += got
        }
        bytes.removeLast(limit - count)
        return bytes
    }

    /// Writes a file beside its place, flushes it to the disk, and moves it there: readers see the old or the new one.
    public static func write(_ bytes: [UInt8], to path: String, mode: UInt32 = 0o600) throws(KithError) {
        let temporary = "\(path).\(getpid()).\(UInt32.random(in: 0 ... .max)).new"
        try create(bytes, at: temporary, mode: mode)
        try move(temporary, to: path)
        let slash = path.lastIndex(of: "/")
        flush(folder: slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? ".")
    }

    /// Removes from a folder what processes that were killed had not finished writing.
    public static func removeRemains(in folder: String) throws(KithError) {
        for name in try names(in: folder) where name.hasSuffix(".new") {
            // FILE.PROCESS.NUMBER.new
            let parts = name.split(separator: ".")
            guard parts.count >= 4, let process = pid_t(parts[parts.count - 3]) else { continue }
            if process == getpid() || (kill(process, 0) != 0 && errno == ESRCH) { try remove("\(folder)/\(name)") }
        }
    }

    /// Makes a file where none is, flushed to the disk; nothing is left of one that could not be written.
    static func create(_ bytes: [UInt8], at path: String, mode: UInt32 = 0o600) throws(KithError) {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode_t(mode))
        guard descriptor >= 0 else { throw failure("write", path, errno) }
        defer { close(descriptor) }
        var done = 0
        while done < bytes.count {
            let put = unsafe bytes.withUnsafeBytes { buffer in
                Self.system {
                    unsafe systemWrite(descriptor, buffer.baseAddress?.advanced(by: done), bytes.count - done)
                }
            }
            guard put >= 0 else {
                let reason = errno
                unsafe unlink(path)
                throw failure("write", path, reason)
            }
            done += put
        }
        guard fsync(descriptor) == 0 else {
            let reason = errno
            unsafe unlink(path)
            throw failure("write", path, reason)
        }
    }

    /// Moves a file to the place of another; where that fails it is removed.
    static func move(_ file: String, to path: String) throws(KithError) {
        guard unsafe rename(file, path) == 0 else {
            let reason = errno
            unsafe unlink(file)
            throw failure("write", path, reason)
        }
    }

    /// Flushes the names in a folder to the disk: a name is only safe then.
    static func flush(folder: String) {
        let directory = unsafe open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard directory >= 0 else { return }
        fsync(directory)
        close(directory)
    }

    /// Removes a file; nothing happens when there is none.
    public static func remove(_ path: String) throws(KithError) {
        guard unsafe unlink(path) == 0 || errno == ENOENT else { throw failure("remove", path, errno) }
    }

    /// Repeats a call that a signal interrupted.
    private static func system(_ call: () -> Int) -> Int {
        while true {
            let result = call()
            if result >= 0 || errno != EINTR { return result }
        }
    }

    private static func systemRead(_ descriptor: Int32, _ base: UnsafeMutableRawPointer?, _ count: Int) -> Int {
        guard let base = unsafe base else { return 0 }
        #if canImport(Glibc)
        return unsafe Glibc.read(descriptor, base, count)
        #elseif canImport(Musl)
        return unsafe Musl.read(descriptor, base, count)
        #else
        return unsafe Darwin.read(descriptor, base, count)
        #endif
    }

    private static func systemWrite(_ descriptor: Int32, _ base: UnsafeRawPointer?, _ count: Int) -> Int {
        guard let base = unsafe base else { return 0 }
        #if canImport(Glibc)
        return unsafe Glibc.write(descriptor, base, count)
        #elseif canImport(Musl)
        return unsafe Musl.write(descriptor, base, count)
        #else
        return unsafe Darwin.write(descriptor, base, count)
        #endif
    }

    /// The error of what a system call refused to do with a file, for `errno`.
    package static func failure(_ verb: String, _ path: String, _ reason: Int32) -> KithError {
        let code: KithError.Code =
            switch reason {
            case EACCES, EPERM, EROFS, ELOOP: .denied
            case ENOSPC, EDQUOT: .exhausted
            case ENOENT: .notFound
            default: .internal
            }
        return KithError(code, "Could not \(verb) \(path): \(unsafe String(cString: strerror(reason))).")
    }
}
