import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithIndex
import KithNode
import KithWire

/// This device's files, reached by paths without links: a folder that has become a link since is not followed.
///
/// What is kith's own (the data directory, keys) is not there. It holds the folder it used last open; used by one task.
final class OperationFiles {
    private let protection: ProtectedFiles?
    private let top: Descriptor
    private var last: [(path: [UInt8], folder: Descriptor)] = []
    private(set) var mounts: MountTable
    private let user = kith_effective_user()

    init(protecting protection: ProtectedFiles?, mounts: MountTable) throws(KithError) {
        self.protection = protection
        self.mounts = mounts
        top = try attempt("open", "/") { () throws(Errno) in
            try Descriptor.open([UInt8(ascii: "/")], [.path, .folder], protecting: protection)
        }
    }

    /// Lets go of folders, which may have been moved since.
    func forget() { last = [] }

    /// Opens a folder by its path, for names in it.
    func folder(_ path: [UInt8]) throws(Errno) -> Descriptor {
        if let known = last.first(where: { $0.path == path }) { return known.folder }
        let beneath = Array(path.drop { $0 == UInt8(ascii: "/") })
        let folder = try top.open(beneath: beneath, [.path, .folder, .noLinks])
        last.append((path, folder))
        if last.count > 4 { last.removeFirst() }
        return folder
    }

    /// Describes what is at a path, a link itself; `nil` when nothing is.
    func info(_ path: [UInt8]) throws(Errno) -> Descriptor.Info? {
        let (folder, name) = path.splitAtName
        do throws(Errno) {
            return try self.folder(folder).info(name.isEmpty ? [] : name)
        } catch {
            if error == .notFound || error == .notAFolder { return nil }
            throw error
        }
    }

    /// Which file is at a path; `nil` when nothing is.
    func identity(_ path: [UInt8]) throws(Errno) -> FileIdentity? { try info(path).map { FileIdentity($0) } }

    /// Brings the names in a folder to the disk.
    func sync(folder path: [UInt8]) throws(Errno) {
        do throws(Errno) {
            try folder(path).open(name: [UInt8(ascii: ".")], .folder).sync()
        } catch {
            // Not every file system can, and one that may not be listed cannot be opened.
            guard error.number == EINVAL || error.isDenial || error == .notSupported else { throw error }
        }
    }

    /// Whether this process may change the names in a folder.
    func mayChange(folder path: [UInt8]) -> Bool {
        guard let folder = try? folder(path) else { return false }
        return unsafe withCString([UInt8(ascii: ".")]) {
            unsafe faccessat(folder.number, $0, W_OK | X_OK, AT_EACCESS) == 0
        }
    }

    /// Whether this process may read a file, or list a folder.
    func mayRead(_ path: [UInt8]) -> Bool {
        let (parent, name) = path.splitAtName
        guard let folder = try? folder(parent) else { return false }
        return unsafe withCString(name) { unsafe faccessat(folder.number, $0, R_OK, AT_EACCESS) == 0 }
    }

    /// The path without links in all but its last name.
    func resolved(_ path: Files.Path) throws(KithError) -> [UInt8] {
        let parsed = try path.parsed()
        var names = parsed.components
        switch parsed.anchor {
        case .top: break
        case .home:
            let home = try attempt("find", "the home folder", homeFolder)
            names = home.split(separator: UInt8(ascii: "/")).map { [UInt8]($0) } + names
        case .grant: throw KithError(.invalid, "The path \(path) must begin with / or ~.")
        }
        guard let name = names.popLast() else { return [UInt8(ascii: "/")] }
        let parent = [UInt8(ascii: "/")] + Array(names.joined(separator: [UInt8(ascii: "/")]))
        return try real(parent, for: path).appendingName(name)
    }

    /// The path of a folder without links.
    func real(_ path: [UInt8], for shown: Files.Path) throws(KithError) -> [UInt8] {
        let result: [UInt8]? = unsafe withCString(path) { path in
            guard let real = unsafe realpath(path, nil) else { return nil }
            defer { unsafe free(real) }
            return unsafe Array(
                UnsafeBufferPointer(start: real, count: strlen(real)).lazy.map { UInt8(bitPattern: $0) })
        }
        guard let result else { throw Errno(errno).failure("access", shown) }
        return result
    }

    /// Whether two places are in one file system, so that a file goes from one to the other by its name alone.
    func isOneFileSystem(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        // Where the system has no table of mounts, each file says what it lies on.
        guard !mounts.mounts.isEmpty else { return (try? info(one))?.device == (try? info(other))?.device }
        // A file system that is mounted twice is two of them for a rename.
        return mounts.mount(of: one)?.id == mounts.mount(of: other)?.id
    }

    /// Whether something is mounted at a path.
    func isMountPoint(_ path: [UInt8]) -> Bool { mounts.mounts.contains { $0.point == path } }

    /// The room in the file system of a folder.
    func room(_ path: [UInt8]) throws(Errno) -> (free: UInt64, isReadOnly: Bool) {
        var room = kith_volume_room()
        _ = try Errno.check(unsafe kith_volume_measure(try folder(path).number, &room))
        return (room.free, room.is_read_only != 0)
    }

    /// Refuses what nobody means to delete or move: the top, a home folder, a mounted file system, kith's own.
    func refusal(toRemove path: [UInt8]) -> String? {
        if path == [UInt8(ascii: "/")] { return "it is the top of the file system" }
        if let home = try? homeFolder(), path == Array(home) { return "it is the home folder" }
        if isMountPoint(path) { return "a file system is mounted there" }
        let (parent, name) = path.splitAtName
        do throws(Errno) { try folder(parent).check(mayGo: name) } catch {
            return error == .protected ? "kith keeps its own keys there" : "it cannot be looked at"
        }
        return nil
    }
}
