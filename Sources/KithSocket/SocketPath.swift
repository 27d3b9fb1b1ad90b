#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import KithWire

/// The process that serves the socket of a data directory.
@frozen
public enum SocketHolder: Hashable, Sendable, CaseIterable {
    /// A device that runs until it is stopped, at `kith.sock`.
    case daemon
    /// A command that has the device open for its own life, at `kith.command.sock`: others may use it meanwhile.
    case command

    /// The name of the socket in the data directory.
    var socketName: String {
        switch self {
        case .daemon: "kith.sock"
        case .command: "kith.command.sock"
        }
    }
}

/// The path of a data directory's socket.
///
/// It is in the directory itself. The system allows about a hundred bytes for a socket's path; when the
/// directory's is longer, the socket stands in a short folder of this user, and a file whose name ends in `.path`
/// in the directory says where.
struct SocketPath: Hashable, Sendable {
    /// The socket's path.
    var path: String
    /// The file that names it, when it is not in the directory.
    var pointer: String?

    /// This user's folder for the sockets of directories whose path is too long.
    static var sharedFolder: String { "/tmp/kith-\(geteuid())" }

    /// The number of this process.
    static var processNumber: Int32 { getpid() }

    /// Returns the path at which a server of `directory` listens.
    static func forListening(in directory: String, as holder: SocketHolder = .daemon) throws(KithError) -> SocketPath {
        let direct = directory + "/" + holder.socketName
        if direct.utf8.count <= SocketDescriptor.pathLimit { return SocketPath(path: direct, pointer: nil) }
        let folder = sharedFolder
        // Others can write to /tmp: the folder must be ours, and closed to them.
        guard unsafe mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            throw KithError(.denied, "Could not make the folder \(folder): \(SocketDescriptor.text(errno)).")
        }
        guard isPrivate(folder) else {
            throw KithError(.denied, "The folder \(folder) is not this user's alone. Remove it and try again.")
        }
        let hash = direct.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        return SocketPath(path: folder + "/\(String(hash, radix: 36)).sock", pointer: direct + ".path")
    }

    /// Returns the path at which a client of `directory` connects; `nil` when no server has announced one.
    static func forConnecting(in directory: String, to holder: SocketHolder = .daemon) -> String? {
        let direct = directory + "/" + holder.socketName
        if direct.utf8.count <= SocketDescriptor.pathLimit { return direct }
        guard let path = read(direct + ".path"), path.hasPrefix("/"), path.utf8.count <= SocketDescriptor.pathLimit
        else { return nil }
        return path
    }

    /// Writes the file that names the socket.
    func announce() throws(KithError) {
        guard let pointer else { return }
        let temporary = pointer + ".new"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw KithError(.denied, "Could not write \(temporary): \(SocketDescriptor.text(errno)).")
        }
        let text = Array(path.utf8)
        let written = unsafe write(descriptor, text, text.count)
        close(descriptor)
        guard written == text.count, unsafe rename(temporary, pointer) == 0 else {
            throw KithError(.denied, "Could not write \(pointer): \(SocketDescriptor.text(errno)).")
        }
    }

    /// Removes the socket and the file that names it.
    func remove() {
        unsafe unlink(path)
        if let pointer { unsafe unlink(pointer) }
    }

    private static func isPrivate(_ folder: String) -> Bool {
        var status = stat()
        return unsafe lstat(folder, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
            && status.st_mode & 0o077 == 0
    }

    private static func read(_ path: String) -> String? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 512) { buffer, count in
            count = unsafe max(systemRead(descriptor, buffer.baseAddress, 512), 0)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// The C function whose name the method above hides.
private func systemRead(_ descriptor: Int32, _ bytes: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Int {
    unsafe read(descriptor, bytes, count)
}
