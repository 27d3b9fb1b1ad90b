import Foundation

/// A folder of its own for a test, removed with everything in it when nobody holds it any more.
///
/// Only this user may look into it. Its path is short enough for those of sockets.
public final class TemporaryFolder: Sendable {
    /// The path of the folder, without a slash at its end.
    public let path: String

    /// Throws what the file system says when it cannot be made.
    public init() throws {
        path = "/tmp/kith-\(String(UInt64.random(in: 0...UInt64.max), radix: 36))"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }  // the next boot empties /tmp at the latest

    /// The names in it, in order.
    public func files() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }

    /// The content of a file in it.
    public func bytes(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: url(name))) }

    /// Writes a file that only this user may read.
    public func write(_ bytes: some Sequence<UInt8>, to name: String) throws {
        try Data(bytes).write(to: url(name))
        try setMode(0o600, of: name)
    }

    /// The permissions of what has a name in it; of itself when the name is empty.
    public func mode(of name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: url(name).path)
        guard let mode = attributes[.posixPermissions] as? Int else { throw CocoaError(.fileReadUnknown) }
        return mode
    }

    /// Gives what has a name in it other permissions; itself when the name is empty.
    public func setMode(_ mode: Int, of name: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url(name).path)
    }

    private func url(_ name: String) -> URL { URL(filePath: name.isEmpty ? path : "\(path)/\(name)") }
}
