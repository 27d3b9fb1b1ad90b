import CKithSystem
import KithIO

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A folder of this machine, held open; closed when nobody holds it any more.
///
/// Every call blocks while the disk works.
final class OpenFolder: Sendable {
    /// The system's number for it.
    let number: Int32

    /// Opens a path that a person chose; a link in its last place is not followed, as it may come to lead elsewhere.
    init(path: [UInt8]) throws(SystemError) {
        number = try Self.check(
            unsafe withCString(path) { path in
                unsafe kith_open(-1, path, Int32(KITH_FILE_DIRECTORY) | Int32(KITH_FILE_NO_FOLLOW), 0)
            })
    }

    /// Opens a folder in `parent`; a link that has taken its place is not followed.
    init(_ name: [UInt8], in parent: OpenFolder) throws(SystemError) {
        let flags = Int32(KITH_FILE_DIRECTORY) | Int32(KITH_FILE_NO_FOLLOW)
        number = try Self.check(unsafe withCString(name) { name in unsafe kith_open(parent.number, name, flags, 0) })
    }

    deinit { kith_file_close(number) }

    /// Describes a name in this folder, a link itself; without a name, the folder.
    func attributes(of name: [UInt8] = []) throws(SystemError) -> FileAttributes {
        var info = kith_file_info()
        _ = try Self.check(unsafe withCString(name) { name in unsafe kith_file_stat(number, name, &info) })
        return FileAttributes(info)
    }

    /// Opens a file in this folder to be read; a link is not followed.
    func openFile(_ name: [UInt8]) throws(SystemError) -> OpenFile {
        let flags = Int32(KITH_FILE_NO_FOLLOW)
        return OpenFile(
            taking: try Self.check(
                unsafe withCString(name) { name in unsafe kith_open(number, name, flags, 0) }))
    }

    /// The names in it, in the file system's order, with their attributes; a name that has gone meanwhile is left out.
    ///
    /// `pulse` is told of each.
    func list(_ pulse: DiskPulse? = nil) throws(SystemError) -> [ListedEntry] {
        var failure: Int32 = 0
        guard let listing = unsafe kith_directory_open(number, &failure) else { throw SystemError(-failure) }
        defer { unsafe kith_directory_close(listing) }
        var entries: [ListedEntry] = []
        var refusal: Int32 = 0
        // A NUL goes behind the name, for the calls that take it.
        return try unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1_024) {
            buffer throws(SystemError) -> [ListedEntry] in
            guard let base = buffer.baseAddress else { return [] }
            while true {
                var kind: UInt8 = 0
                let length = try Self.check(unsafe kith_directory_next(listing, base, buffer.count - 1, &kind))
                guard length > 0 else {
                    // Where nothing can be looked at, nothing is gone. One name alone, as of a mount that is dead, is
                    // left out.
                    if entries.isEmpty { _ = try Self.check(refusal) }
                    return entries
                }
                unsafe buffer[Int(length)] = 0
                var info = kith_file_info()
                let status = unsafe base.withMemoryRebound(to: CChar.self, capacity: Int(length) + 1) { name in
                    unsafe kith_file_stat(number, name, &info)
                }
                pulse?.beat()
                guard status >= 0 else {
                    // Removed meanwhile, or not to be looked at.
                    if status != -ENOENT { refusal = status }
                    continue
                }
                let name = unsafe [UInt8](UnsafeBufferPointer(rebasing: buffer[..<Int(length)]))
                entries.append(ListedEntry(name: name, attributes: FileAttributes(info)))
            }
        }
    }

    private static func check(_ result: Int32) throws(SystemError) -> Int32 {
        guard result >= 0 else { throw SystemError(-result) }
        return result
    }
}

/// A file of this machine that is read; closed when nobody holds it any more.
final class OpenFile: Sendable {
    /// The system's number for it.
    let number: Int32

    init(taking number: Int32) { self.number = number }

    deinit { kith_file_close(number) }

    /// Describes what is open.
    func attributes() throws(SystemError) -> FileAttributes {
        var info = kith_file_info()
        let status = unsafe withCString([]) { name in unsafe kith_file_stat(number, name, &info) }
        guard status >= 0 else { throw SystemError(-status) }
        return FileAttributes(info)
    }

    /// Reads at a place; returns the number of bytes, 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(SystemError) -> Int {
        let count = unsafe kith_file_read(number, buffer.baseAddress, buffer.count, Int64(clamping: offset))
        guard count >= 0 else { throw SystemError(Int32(-count)) }
        return count
    }
}

/// One name of a folder as the file system has it.
struct ListedEntry: Sendable {
    /// The bytes of the name.
    var name: [UInt8]
    var attributes: FileAttributes
}

/// The attributes of a file that an index keeps, or compares by.
struct FileAttributes: Hashable, Sendable {
    var kind: StoredKind
    /// Bytes.
    var size: Int64
    /// The time of the last change of its content, in nanoseconds since 1970.
    var modified: Int64
    /// The time of the last change of anything about it, in nanoseconds since 1970.
    var changed: Int64
    /// The time at which it was made, in nanoseconds since 1970; `nil` where the file system does not say.
    var created: Int64?
    var inode: Int64
    var device: Int64

    /// Of what could not be looked at.
    static let none = FileAttributes(kith_file_info())

    init(_ info: kith_file_info) {
        kind =
            switch info.mode & 0o170000 {
            case 0o100000: .file
            case 0o040000: .folder
            case 0o120000: .link
            default: .special
            }
        size = Int64(clamping: info.size)
        modified = Self.nanoseconds(info.seconds, info.nanoseconds)
        changed = Self.nanoseconds(info.changed_seconds, info.changed_nanoseconds)
        created = info.has_created != 0 ? Self.nanoseconds(info.created_seconds, info.created_nanoseconds) : nil
        inode = Int64(bitPattern: info.inode)
        device = Int64(bitPattern: info.device)
    }

    /// A time in nanoseconds, at the ends of what an index can say for one beyond them (the years 1677 and 2262).
    private static func nanoseconds(_ seconds: Int64, _ nanoseconds: UInt32) -> Int64 {
        let (whole, isTooLarge) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !isTooLarge else { return seconds < 0 ? .min : .max }
        let (sum, overflows) = whole.addingReportingOverflow(Int64(nanoseconds))
        return overflows ? .max : sum
    }
}

/// The kinds of thing that a name stands for, by their numbers in the database.
enum StoredKind: Int, Hashable, Sendable, CaseIterable {
    /// A regular file.
    case file = 0
    /// A folder.
    case folder = 1
    /// A symbolic link.
    case link = 2
    /// A pipe, a socket or a device.
    case special = 3
}
