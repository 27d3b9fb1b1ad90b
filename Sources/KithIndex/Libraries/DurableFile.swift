import Foundation
import KithWire

/// The number of a system call's failure, with what a person is told of it.
struct SystemFailure: Error, Hashable, CustomStringConvertible {
    let number: Int32

    init(_ number: Int32 = errno) { self.number = number }

    var description: String { unsafe String(cString: strerror(number)) }
    var isAbsence: Bool { number == ENOENT || number == ENOTDIR }

    /// The code of an error that is caused by it.
    var code: KithError.Code {
        switch number {
        case ENOENT, ENOTDIR: .notFound
        case EEXIST, ENOTEMPTY, EBUSY: .conflict
        case ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE: .exhausted
        case EACCES, EPERM, EROFS, ELOOP: .denied
        case EINVAL: .corrupt
        default: .internal
        }
    }
}

/// Files and folders of our own that are there whole or not at all, whenever the process or the power ends.
enum DurableFile {
    /// The bytes of a regular file; one that is a link, a pipe, a device, or larger is refused (`EINVAL`, `ELOOP`).
    static func contents(of path: String, limit: Int) throws(SystemFailure) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw SystemFailure() }
        defer { close(descriptor) }
        var info = stat()
        guard unsafe fstat(descriptor, &info) == 0 else { throw SystemFailure() }
        guard info.st_mode & S_IFMT == S_IFREG, info.st_size <= limit else { throw SystemFailure(EINVAL) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: min(limit, 16 << 10) + 1)
        while bytes.count <= limit {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw SystemFailure() }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
        throw SystemFailure(EINVAL)
    }

    /// Writes a file beside its place, brings it to the disk, and moves it there.
    static func replace(_ path: String, with bytes: [UInt8]) throws(SystemFailure) {
        let temporary = "\(path).\(UInt64.random(in: 0 ... .max)).new"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw SystemFailure() }
        var failure: SystemFailure?
        do throws(SystemFailure) {
            try append(bytes, to: descriptor)
            guard fsync(descriptor) == 0 else { throw SystemFailure() }
        } catch {
            failure = error
        }
        close(descriptor)
        if failure == nil, unsafe rename(temporary, path) != 0 { failure = SystemFailure() }
        if let failure {
            _ = unsafe unlink(temporary)
            throw failure
        }
        try sync(folder: parent(of: path))
    }

    /// Writes all of it at the descriptor's own place.
    static func append(_ bytes: some Collection<UInt8>, to descriptor: Int32) throws(SystemFailure) {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw SystemFailure() }
            rest = rest.dropFirst(count)
        }
    }

    /// Makes a folder for its owner alone, in one that is there.
    static func makeFolder(_ path: String) throws(SystemFailure) {
        guard unsafe mkdir(path, 0o700) == 0 else { throw SystemFailure() }
        try sync(folder: parent(of: path))
    }

    /// Gives a file or folder another name on its file system, which nothing has yet, and brings that to the disk.
    static func move(_ path: String, to other: String) throws(SystemFailure) {
        // The system would replace an empty folder, and a file.
        var info = stat()
        guard unsafe lstat(other, &info) != 0 else { throw SystemFailure(EEXIST) }
        guard unsafe rename(path, other) == 0 else { throw SystemFailure() }
        try sync(folder: parent(of: other))
        if parent(of: path) != parent(of: other) { try sync(folder: parent(of: path)) }
    }

    /// Brings the names in a folder to the disk.
    static func sync(folder: String) throws(SystemFailure) {
        let descriptor = unsafe open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard descriptor >= 0 else { throw SystemFailure() }
        defer { close(descriptor) }
        // Some file systems of removable disks cannot, and keep names by themselves.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemFailure() }
    }

    /// The names in a folder, without itself and the one above.
    static func names(in folder: String) throws(SystemFailure) -> [String] {
        guard let listing = unsafe opendir(folder) else { throw SystemFailure() }
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

    /// Deletes a folder with all that is in it, or a link to one; links are never followed.
    ///
    /// What is not there is no failure. Names are those of our own folders: what somebody else put there beneath a name
    /// that is not UTF-8 makes it fail (`ENOTEMPTY`).
    static func removeTree(_ path: String) throws(SystemFailure) {
        guard unsafe unlink(path) != 0 else { return }
        if errno == ENOENT { return }
        guard errno == EISDIR || errno == EPERM else { throw SystemFailure() }
        // Not through a link that takes its place meanwhile.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW)
        guard descriptor >= 0 else { throw SystemFailure() }
        defer { close(descriptor) }
        try removeContents(descriptor, depth: 0)
        guard unsafe rmdir(path) == 0 || errno == ENOENT else { throw SystemFailure() }
    }

    private static func removeContents(_ folder: Int32, depth: Int) throws(SystemFailure) {
        guard depth < 64 else { throw SystemFailure(ELOOP) }
        let own = dup(folder)
        guard own >= 0 else { throw SystemFailure() }
        guard let listing = unsafe fdopendir(own) else {
            close(own)
            throw SystemFailure()
        }
        defer { unsafe closedir(listing) }
        while let entry = unsafe readdir(listing) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe Array(bytes.prefix { $0 != 0 }) + [0]
            }
            guard name != [UInt8(ascii: "."), 0], name != [UInt8(ascii: "."), UInt8(ascii: "."), 0] else { continue }
            let text = name.map { CChar(bitPattern: $0) }
            if unsafe unlinkat(folder, text, 0) == 0 { continue }
            guard errno == EISDIR || errno == EPERM else {
                if errno == ENOENT { continue }
                throw SystemFailure()
            }
            let inner = unsafe openat(folder, text, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW)
            guard inner >= 0 else { throw SystemFailure() }
            defer { close(inner) }
            try removeContents(inner, depth: depth + 1)
            guard unsafe unlinkat(folder, text, AT_REMOVEDIR) == 0 else { throw SystemFailure() }
        }
    }

    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}
