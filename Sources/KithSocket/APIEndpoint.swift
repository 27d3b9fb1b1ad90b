#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import KithRPC
public import KithWire

/// The loopback TCP port at which a device answers JSON-RPC, and the token that a caller needs: the file `api.json` of
/// its data directory, readable by its user alone, there as long as the device listens.
///
/// | member | what |
/// | --- | --- |
/// | `addresses` | where it listens, such as `127.0.0.1:6969` and `[::1]:6969` |
/// | `port` | the port of both |
/// | `token` | the `token` of `rpc.hello`, which must be the first line of a connection |
/// | `proof` | the `proof` in the answer to it: who answers otherwise is not the device |
/// | `protocol` | the version of the protocol |
/// | `pid` | the process |
public struct APIEndpoint: Codable, Hashable, Sendable {
    /// Where it listens, each an address with the port.
    public var addresses: [String]
    /// The port.
    public var port: UInt16
    /// What a caller says to be let in: 64 hexadecimal digits.
    public var token: String
    /// What the device says to a caller whom it has let in: 64 hexadecimal digits.
    public var proof: String
    /// The version of the protocol.
    public var `protocol`: Int
    /// The number of its process.
    public var pid: Int32

    /// The name of the file in a data directory.
    public static let fileName = "api.json"
    private static let sizeLimit = 4096

    /// Reads where the device of a data directory listens; `nil` when it does not.
    ///
    /// - Throws: `KithError` `.denied` when somebody else could have written or read the file, `.corrupt` when it makes no
    ///   sense.
    public static func read(directory: String) throws(KithError) -> APIEndpoint? {
        let path = directory + "/" + fileName
        // Not blocking: what stands there may be a pipe.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw KithError(.denied, "Could not read \(path): \(SocketDescriptor.text(errno)).")
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            status.st_mode & 0o077 == 0
        else {
            throw KithError(.denied, "\(path) is not this user's alone. Remove it, and start the device again.")
        }
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: sizeLimit) { buffer, count in
            count = unsafe max(systemRead(descriptor, buffer.baseAddress, sizeLimit), 0)
        }
        do {
            return try JSONText(bytes).decode(APIEndpoint.self)
        } catch {
            throw KithError(.corrupt, "\(path) makes no sense. Start the device again.", cause: error)
        }
    }

    /// Writes the file in place of the one there.
    func write(directory: String) throws(KithError) {
        let path = directory + "/" + Self.fileName
        let temporary = path + ".new"
        let text: [UInt8]
        do {
            text = try JSONText.encode(self) + [0x0A]
        } catch {
            throw KithError(.internal, "Could not describe where this device listens.", cause: error)
        }
        unsafe unlink(temporary)
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw KithError(.denied, "Could not write \(temporary): \(SocketDescriptor.text(errno)).")
        }
        let written = systemWrite(descriptor, text, text.count)
        close(descriptor)
        guard written == text.count, unsafe rename(temporary, path) == 0 else {
            let failure = errno
            unsafe unlink(temporary)
            throw KithError(.denied, "Could not write \(path): \(SocketDescriptor.text(failure)).")
        }
    }

    /// Removes the file: nobody listens there any more.
    package static func remove(directory: String) { unsafe unlink(directory + "/" + fileName) }
}

/// The C functions whose names the methods above hide.
private func systemRead(_ descriptor: Int32, _ bytes: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Int {
    unsafe read(descriptor, bytes, count)
}
private func systemWrite(_ descriptor: Int32, _ bytes: [UInt8], _ count: Int) -> Int {
    unsafe write(descriptor, bytes, count)
}
