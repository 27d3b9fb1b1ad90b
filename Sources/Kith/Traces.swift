import KithQUIC
import KithWire
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Files that say what connections do, readable by their owner only.
enum Traces {
    /// A file that is closed when nobody writes to it any more.
    private final class File: Sendable {
        private let descriptor: Mutex<CInt>

        /// Opens `path` for writing at its end.
        init(_ path: String, isNew: Bool) throws(KithError) {
            let flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (isNew ? O_EXCL : 0)
            let opened = unsafe open(path, flags, 0o600)
            guard opened >= 0 else {
                let why = unsafe String(cString: strerror(errno))
                throw KithError(.denied, "Could not write \(path): \(why).")
            }
            descriptor = Mutex(opened)
        }

        deinit { _ = close(descriptor.withLock { $0 }) }

        /// Writes all of `bytes`; a full disk costs the log, not the connection.
        func append(_ bytes: [UInt8]) {
            descriptor.withLock { descriptor in
                unsafe bytes.withUnsafeBytes { buffer in
                    var offset = 0
                    while offset < buffer.count, let base = buffer.baseAddress {
                        let count = unsafe write(descriptor, base + offset, buffer.count - offset)
                        if count < 0, errno == EINTR { continue }
                        guard count > 0 else { return }
                        offset += count
                    }
                }
            }
        }
    }

    /// Opens a qlog file in `directory` for each connection, making the folder if need be.
    ///
    /// - Throws: `KithError` `.denied` when nothing can be written there.
    static func qlog(
        in directory: String
    ) throws(KithError) -> @Sendable (ConnectionID, Bool) -> (@Sendable ([UInt8]) -> Void)? {
        guard unsafe mkdir(directory, 0o700) == 0 || errno == EEXIST, unsafe access(directory, W_OK | X_OK) == 0 else {
            let why = unsafe String(cString: strerror(errno))
            throw KithError(.denied, "Could not write qlog files into \(directory): \(why).")
        }
        return { original, isDialed in
            // One that cannot be written is left out: a connection does not end for its log.
            let path = "\(directory)/\(original)_\(isDialed ? "client" : "server").sqlog"
            return (try? File(path, isNew: true)).map { file in { file.append($0) } }
        }
    }

    /// Appends the lines of the key log to the file at `path`.
    ///
    /// - Throws: `KithError` `.denied` when it cannot be written.
    static func keyLog(at path: String) throws(KithError) -> @Sendable (String) -> Void {
        let file = try File(path, isNew: false)
        return { file.append(Array("\($0)\n".utf8)) }
    }
}
