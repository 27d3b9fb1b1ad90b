import CKithSystem
import KithAPI
import KithIO
import KithNode
import KithWire

/// An open file or folder of this device; closed when nobody holds it any more.
///
/// Every call blocks while the disk works: make them on a ``DiskExecutor``.
final class Descriptor: Sendable {
    /// The system's number for it.
    let number: Int32
    /// The files that nothing opened from here on may be; `nil` for this device's own person.
    private let protection: ProtectedFiles?

    /// Takes over a descriptor.
    init(taking number: Int32, protecting protection: ProtectedFiles? = nil) {
        self.number = number
        self.protection = protection
    }

    deinit { kith_file_close(number) }

    /// The ways to open a file.
    struct Flags: OptionSet, Sendable {
        let rawValue: Int32
        static let write = Flags(rawValue: Int32(KITH_FILE_WRITE))
        static let path = Flags(rawValue: Int32(KITH_FILE_PATH))
        static let folder = Flags(rawValue: Int32(KITH_FILE_DIRECTORY))
        static let noFollow = Flags(rawValue: Int32(KITH_FILE_NO_FOLLOW))
        static let create = Flags(rawValue: Int32(KITH_FILE_CREATE))
        static let readWrite = Flags(rawValue: Int32(KITH_FILE_READ_WRITE))
        static let noLinks = Flags(rawValue: Int32(KITH_FILE_NO_LINKS))
        static let atTop = Flags(rawValue: Int32(KITH_FILE_AT_TOP))
    }

    /// The attributes of a file.
    struct Info {
        var kind: Files.Kind
        /// Of what kind it is when it is special.
        var special: Files.Special?
        /// The device it stands for.
        var deviceNumbers: Files.DeviceNumbers?
        var size: UInt64
        /// The permission bits, and those for set-user-ID, set-group-ID and sticky.
        var mode: UInt32
        var seconds: Int64
        var nanoseconds: UInt32
        var user: UInt32
        var group: UInt32
        var device: UInt64
        var inode: UInt64
        var links: UInt64
        /// The bytes it takes on the disk.
        var allocated: UInt64

        /// Which file it is, by whatever name.
        struct Identity: Hashable {
            let device: UInt64
            let inode: UInt64
        }

        var identity: Identity { Identity(device: device, inode: inode) }
    }

    /// Opens a path by the system's own rules, following links.
    ///
    /// For paths the owner of this process chose. Protected is what is opened, and what is opened from there on.
    static func open(
        _ path: [UInt8], _ flags: Flags, protecting protection: ProtectedFiles? = nil
    ) throws(Errno) -> Descriptor {
        let opened = Descriptor(
            taking: try Errno.check(unsafe withCString(path) { unsafe kith_open(-1, $0, flags.rawValue, 0) }),
            protecting: protection)
        try opened.check()
        return opened
    }

    /// Refuses to be what is protected.
    private func check() throws(Errno) {
        guard let protection else { return }
        let covers = unsafe protection.with { unsafe kith_protection_covers($0, number) }
        guard try Errno.check(covers) == 0 else { throw .protected }
    }

    /// Refuses a name whose going would take the data directory with it.
    func check(mayGo name: [UInt8]) throws(Errno) {
        guard let protection else { return }
        let holds = unsafe withCString(name) { unsafe protection.holds($0, in: number) }
        guard try Errno.check(holds) == 0 else { throw .protected }
    }

    /// Opens one name in this folder.
    ///
    /// Pass ``Flags/noFollow`` unless a link may lead anywhere.
    func open(name: [UInt8], _ flags: Flags, mode: UInt32 = 0) throws(Errno) -> Descriptor {
        let opened = Descriptor(
            taking: try Errno.check(
                unsafe withCString(name) { unsafe kith_open(number, $0, flags.rawValue, mode) }),
            protecting: protection)
        // What is made only now is nothing that is protected.
        if !flags.contains(.create) { try opened.check() }
        return opened
    }

    /// Opens a relative path so that the kernel lets nothing outside this folder be reached.
    func open(beneath path: [UInt8], _ flags: Flags, walking: Bool = false) throws(Errno) -> Descriptor {
        let result = unsafe withCString(path.isEmpty ? [UInt8(ascii: ".")] : path) { path in
            guard let protection else {
                return unsafe kith_open_beneath(number, path, flags.rawValue, 0, walking ? 1 : 0, nil)
            }
            return unsafe protection.with {
                unsafe kith_open_beneath(number, path, flags.rawValue, 0, 1, $0)
            }
        }
        return Descriptor(taking: try Errno.check(result), protecting: protection)
    }

    /// Describes a name in this folder, a link itself; without a name, what this stands for.
    func info(_ name: [UInt8] = []) throws(Errno) -> Info {
        var info = kith_file_info()
        _ = try Errno.check(unsafe withCString(name) { unsafe kith_file_stat(number, $0, &info) })
        let kind: Files.Kind =
            switch info.mode & 0o170000 {
            case 0o100000: .file
            case 0o040000: .folder
            case 0o120000: .link
            default: .special
            }
        let special: Files.Special? =
            switch info.mode & 0o170000 {
            case 0o010000: .pipe
            case 0o140000: .socket
            case 0o020000: .characterDevice
            case 0o060000: .blockDevice
            default: nil
            }
        let isDevice = special == .characterDevice || special == .blockDevice
        return Info(
            kind: kind, special: special,
            deviceNumbers: isDevice
                ? Files.DeviceNumbers(major: info.special_major, minor: info.special_minor) : nil,
            size: info.size, mode: info.mode & 0o7777, seconds: info.seconds,
            nanoseconds: info.nanoseconds, user: info.user, group: info.group, device: info.device, inode: info.inode,
            links: info.links, allocated: info.allocated)
    }

    /// Reads the target of a link.
    func target(ofLink name: [UInt8]) throws(Errno) -> [UInt8] {
        var failure: Int32 = 0
        let target = unsafe withCString(name) { name in
            unsafe [UInt8](unsafeUninitializedCapacity: 4_097) { buffer, count in
                let result = unsafe kith_file_readlink(number, name, buffer.baseAddress, buffer.count)
                count = max(Int(result), 0)
                failure = min(result, 0)
            }
        }
        _ = try Errno.check(failure)
        return target
    }

    /// The names in this folder, in no order; at most `limit`.
    func names(limit: Int = 1 << 20) throws(Errno) -> [[UInt8]] {
        let listing = try Listing(of: self)
        let names = try listing.next(limit + 1)
        guard names.count <= limit else { throw .tooMany }
        return names
    }

    /// Some of the names in this folder.
    func firstNames(_ count: Int) throws(Errno) -> [[UInt8]] { try Listing(of: self).next(count) }

    /// Runs `body` for each name in this folder, in no order; holds few of them at once.
    func forEachName(_ body: ([UInt8]) throws(Errno) -> Void) throws(Errno) {
        let listing = try Listing(of: self)
        while true {
            let names = try listing.next(1_024)
            if names.isEmpty { return }
            for name in names { try body(name) }
        }
    }

    /// The names in a folder, a part at a time.
    @safe final class Listing {  // the pointer never leaves it
        private let listing: UnsafeMutableRawPointer

        /// Begins to list a folder.
        init(of folder: Descriptor) throws(Errno) {
            var failure: Int32 = 0
            guard let listing = unsafe kith_directory_open(folder.number, &failure) else { throw Errno(failure) }
            unsafe self.listing = listing
        }

        deinit { unsafe kith_directory_close(listing) }

        /// The kind of the last name returned: a letter of ``Files/PackedNames``, or `?` where it is not listed.
        private(set) var kind = UInt8(ascii: "?")

        /// The next name; `nil` at the end.
        func next() throws(Errno) -> [UInt8]? {
            var result: Int32 = 0
            let name = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1_024) { buffer in
                result = unsafe kith_directory_next(listing, buffer.baseAddress, buffer.count, &kind)
                return unsafe [UInt8](UnsafeMutableBufferPointer(rebasing: buffer[..<max(Int(result), 0)]))
            }
            return try Errno.check(result) > 0 ? name : nil
        }

        /// The next names, at most `count`; none at the end.
        func next(_ count: Int) throws(Errno) -> [[UInt8]] {
            var names: [[UInt8]] = []
            while names.count < count, let name = try next() { names.append(name) }
            return names
        }
    }

    func makeFolder(_ name: [UInt8], mode: UInt32) throws(Errno) {
        _ = try Errno.check(unsafe withCString(name) { unsafe kith_file_mkdir(number, $0, mode) })
    }

    func makeLink(_ name: [UInt8], to target: [UInt8]) throws(Errno) {
        _ = try Errno.check(
            unsafe withCString(name) { name in
                unsafe withCString(target) { unsafe kith_file_symlink($0, number, name) }
            })
    }

    /// Renames at once; without `overwrite`, a name that is taken is an error.
    func rename(_ name: [UInt8], to other: [UInt8], in folder: Descriptor, overwrite: Bool) throws(Errno) {
        try check(mayGo: name)
        if overwrite { try folder.check(mayGo: other) }
        _ = try Errno.check(
            unsafe withCString(name) { from in
                unsafe withCString(other) {
                    unsafe kith_file_rename(number, from, folder.number, $0, overwrite ? 1 : 0)
                }
            })
    }

    /// Exchanges two names at once.
    func exchange(_ name: [UInt8], with other: [UInt8], in folder: Descriptor) throws(Errno) {
        try check(mayGo: name)
        try folder.check(mayGo: other)
        _ = try Errno.check(
            unsafe withCString(name) { one in
                unsafe withCString(other) { unsafe kith_file_exchange(number, one, folder.number, $0) }
            })
    }

    func remove(_ name: [UInt8], isFolder: Bool = false) throws(Errno) {
        try check(mayGo: name)
        _ = try Errno.check(unsafe withCString(name) { unsafe kith_file_unlink(number, $0, isFolder ? 1 : 0) })
    }

    func setMode(_ mode: UInt32) throws(Errno) { _ = try Errno.check(kith_file_chmod(number, mode)) }

    /// Sets when this, or a link by its name, was last changed.
    func setModified(_ seconds: Int64, _ nanoseconds: UInt32, of name: [UInt8] = []) throws(Errno) {
        _ = try Errno.check(unsafe withCString(name) { unsafe kith_file_times(number, $0, seconds, nanoseconds) })
    }

    /// Reads what is there, at most as much as fits; 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64? = nil) throws(Errno) -> Int {
        let result = unsafe kith_file_read(
            number, buffer.baseAddress, buffer.count, offset.map { Int64(clamping: $0) } ?? -1)
        guard result >= 0 else { throw Errno(Int32(truncatingIfNeeded: -result)) }
        return result
    }

    /// The next bytes from `offset` on, at most `limit`; `nil` at the end of the file.
    func bytes(at offset: UInt64, limit: Int) throws(Errno) -> [UInt8]? {
        var failure: Errno?
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            do throws(Errno) {
                count = try unsafe read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes.isEmpty ? nil : bytes
    }

    /// Writes all of `bytes`.
    func write(_ bytes: ArraySlice<UInt8>, at offset: UInt64? = nil) throws(Errno) {
        var failure: Errno?
        unsafe bytes.withUnsafeBytes { buffer in
            var done = 0
            while done < buffer.count, failure == nil {
                let result = unsafe kith_file_write(
                    number, buffer.baseAddress?.advanced(by: done), buffer.count - done,
                    offset.map { Int64(clamping: $0 + UInt64(done)) } ?? -1)
                if result < 0 { failure = Errno(Int32(truncatingIfNeeded: -result)) } else { done += result }
            }
        }
        if let failure { throw failure }
    }

    /// Finds the first run of data at or behind `offset`; `nil` when none follows.
    func nextData(from offset: UInt64) throws(Errno) -> Range<UInt64>? {
        var (start, end) = (UInt64(0), UInt64(0))
        let found = try Errno.check(unsafe kith_file_next_data(number, offset, &start, &end))
        return found == 0 || end <= start ? nil : start..<end
    }

    /// Sets the length; what it grows by is a hole.
    func truncate(to size: UInt64) throws(Errno) { _ = try Errno.check(kith_file_truncate(number, size)) }

    /// Makes a hole, or where that cannot be writes zeros.
    func clear(_ range: Range<UInt64>) throws(Errno) {
        if kith_file_punch(number, range.lowerBound, range.upperBound - range.lowerBound) == 0 { return }
        let zeros = [UInt8](repeating: 0, count: 64 << 10)
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = min(UInt64(zeros.count), range.upperBound - offset)
            try write(zeros.prefix(Int(count)), at: offset)
            offset += count
        }
    }

    /// Gives a file of this folder a second name.
    func link(_ name: [UInt8], to other: [UInt8], in folder: Descriptor) throws(Errno) {
        _ = try Errno.check(
            unsafe withCString(name) { from in
                unsafe withCString(other) { unsafe kith_file_link(number, from, folder.number, $0) }
            })
    }

    /// Fills the buffer as far as the file goes.
    func readFully(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(Errno) -> Int {
        var done = 0
        while done < buffer.count {
            let count = try unsafe read(
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[done...]), at: offset + UInt64(done))
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Brings the contents to the disk.
    func sync() throws(Errno) { _ = try Errno.check(kith_file_sync(number)) }

    /// Takes the file's lock for this descriptor; without `waiting`, answers whether it could be had.
    func lock(waiting: Bool) throws(Errno) -> Bool {
        let result = kith_file_lock(number, waiting ? 1 : 0)
        if !waiting, Errno(-result) == .wouldBlock { return false }
        _ = try Errno.check(result)
        return true
    }
}

/// The home folder of this process's account.
func homeFolder() throws(Errno) -> [UInt8] {
    var failure: Int32 = 0
    let path = unsafe [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
        let result = unsafe kith_home(buffer.baseAddress, buffer.count)
        count = max(Int(result), 0)
        failure = min(result, 0)
    }
    _ = try Errno.check(failure)
    return path
}
