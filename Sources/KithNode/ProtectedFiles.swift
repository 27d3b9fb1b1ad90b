package import CKithSystem
import KithStore
public import KithWire
import Synchronization

/// The files that no other device reaches here, whatever it was granted: the data directory, kith's own sockets, and
/// what `/proc` shows of kith.
///
/// Whoever reads one of them has a shell and the right to grant. They are recognised by device and inode once they are
/// open, so that no other name, link or mount of them helps. A data directory that is moved stays protected where it
/// goes. So is every other folder of this user that holds a device's sealed key. The folders around the data directory
/// must not be moved either; they are known only of this device's own directory.
public final class ProtectedFiles: Sendable {
    private let directory: Int32
    private let path: String
    private let program: kith_identity
    private let kept: Mutex<[kith_identity]>

    /// Protects a data directory; `nil`: none but those that are met.
    ///
    /// - Throws: `.internal` when the directory cannot be opened.
    public init(directory path: String?) throws(KithError) {
        self.path = path ?? ""
        program = kith_protection_program()
        guard let path else {
            directory = -1
            kept = Mutex([])
            return
        }
        var identity = kith_identity()
        directory = unsafe kith_protection_open(path, &identity)
        guard directory >= 0 else {
            throw KithError(.internal, "Could not open the data directory \(path) to protect it.")
        }
        kept = Mutex([identity])
    }

    deinit { if directory >= 0 { kith_file_close(directory) } }

    /// Something protected besides the data directory.
    public struct Entry: Sendable {
        fileprivate let identity: kith_identity
    }

    /// Protects a folder or a socket, which is there, until it is released.
    ///
    /// - Throws: `.notFound` when it is not there.
    @discardableResult public func protect(_ path: String) throws(KithError) -> Entry {
        let identity = try Self.identity(of: path)
        kept.withLock { $0.append(identity) }
        return Entry(identity: identity)
    }

    /// Ends the protection of what is gone.
    public func release(_ entry: Entry) {
        kept.withLock { kept in
            let index = kept.firstIndex { $0.device == entry.identity.device && $0.inode == entry.identity.inode }
            if let index { kept.remove(at: index) }
        }
    }

    private static func identity(of path: String) throws(KithError) -> kith_identity {
        var identity = kith_identity()
        guard unsafe kith_protection_identify(path, &identity) == 0 else {
            throw KithError(.notFound, "Could not find \(path) to protect it.")
        }
        return identity
    }

    /// Calls `body` with what the system's calls need.
    package func with<Result>(_ body: (UnsafePointer<kith_protection>) -> Result) -> Result {
        let kept = kept.withLock { $0 }
        return unsafe kept.withUnsafeBufferPointer { kept in
            var protection = unsafe kith_protection(
                kept: kept.baseAddress, count: kept.count, directory: directory, program: program)
            return unsafe body(&protection)
        }
    }

    /// Tells whether a name in a folder is the data directory, around it, or a link on the path to it; returns the
    /// negated errno when that cannot be told.
    package func holds(_ name: UnsafePointer<CChar>, in folder: Int32) -> Int32 {
        unsafe with { protection in unsafe kith_protection_holds(protection, path, folder, name) }
    }
}
