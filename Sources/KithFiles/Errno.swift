import CKithSystem
import KithAPI
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Why the operating system refused, before it is known what for.
struct Errno: Error, Hashable {
    /// The number.
    let number: Int32

    init(_ number: Int32) { self.number = number }

    static let notFound = Errno(ENOENT)
    static let exists = Errno(EEXIST)
    static let notAFolder = Errno(ENOTDIR)
    static let isAFolder = Errno(EISDIR)
    static let notEmpty = Errno(ENOTEMPTY)
    static let wouldBlock = Errno(EWOULDBLOCK)
    static let tooMany = Errno(EFBIG)
    static let crossDevice = Errno(EXDEV)
    static let manyLinks = Errno(ELOOP)
    static let notRegular = Errno(ENXIO)
    static let interrupted = Errno(EINTR)
    /// A file has become shorter.
    static let truncated = Errno(ESTALE)
    static let notSupported = Errno(EOPNOTSUPP)
    /// It is kept from other devices, see ``ProtectedFiles``.
    static let protected = Errno(Int32(KITH_ERROR_PROTECTED))
    #if canImport(Darwin)
    static let noAttribute = Errno(ENOATTR)
    #else
    static let noAttribute = Errno(ENODATA)
    #endif

    /// True when the caller may not do that here.
    var isDenial: Bool { [EACCES, EPERM, EROFS].contains(number) }

    /// True when the disk, or the caller's share of it, is full.
    var isFullDisk: Bool { [ENOSPC, EDQUOT].contains(number) }

    /// The result of a call that answers with the negated number.
    static func check(_ result: Int32) throws(Errno) -> Int32 {
        guard result >= 0 else { throw Errno(-result) }
        return result
    }

    /// The same as an error for the caller: what was tried, on what, and why not.
    ///
    /// `confined` says that the path had to stay beneath a folder.
    func failure(_ attempt: String, _ path: some CustomStringConvertible, confined: Bool = false) -> KithError {
        let (code, reason): (KithError.Code, String) =
            switch number {
            case ENOENT: (.notFound, "no such file or folder")
            case Self.protected.number: (.denied, "kith keeps its own keys there, out of reach of every grant")
            case EACCES, EPERM: (.denied, "permission denied")
            case EROFS: (.denied, "the file system is read-only")
            case EEXIST: (.conflict, "something of that name is there already")
            case ENOTDIR: (.conflict, "a part of it is not a folder")
            case EISDIR: (.conflict, "it is a folder")
            case ENOTEMPTY: (.conflict, "the folder is not empty")
            case EBUSY, ETXTBSY: (.conflict, "it is in use")
            case ENOSPC: (.exhausted, "no space left on the disk")
            case EDQUOT: (.exhausted, "the disk quota is used up")
            case EFBIG: (.exhausted, "it is too large")
            case EMFILE, ENFILE, ENOMEM: (.exhausted, "too many files are open")
            case EXDEV where confined: (.denied, "a link leads out of the granted folder")
            case EXDEV: (.unsupported, "it lies on another disk")
            case ELOOP where confined: (.denied, "a link is not followed here")
            case ELOOP: (.invalid, "links lead in a circle")
            case ENAMETOOLONG: (.invalid, "the name is too long")
            case ENXIO, ENODEV, EOPNOTSUPP: (.unsupported, "it is not a regular file")
            default: (.internal, unsafe String(cString: strerror(number)))
            }
        return KithError(code, "Cannot \(attempt) \(path): \(reason).", cause: self)
    }
}

/// Runs a system call and words its refusal.
func attempt<Result>(
    _ what: String, _ path: some CustomStringConvertible, confined: Bool = false, _ body: () throws(Errno) -> Result
) throws(KithError) -> Result {
    do {
        return try body()
    } catch {
        throw error.failure(what, path, confined: confined)
    }
}
