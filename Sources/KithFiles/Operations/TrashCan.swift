import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithIndex
import KithWire

/// The trash folders of this person, as the freedesktop.org specification 1.0 has them.
///
/// What lies in the file system of the home folder goes into the home trash. Elsewhere it is `.Trash/UID` at the top of the
/// file system, where an administrator made `.Trash` with the sticky bit, or `.Trash-UID`. Nothing is copied into the trash.
struct TrashCan {
    /// One trash folder.
    struct Folder: Hashable, Sendable {
        /// Its path, with `files` and `info` in it.
        var path: [UInt8]
        /// The top of the file system that its paths begin at; `nil` for the home trash, whose paths are whole.
        var top: [UInt8]?

        var files: [UInt8] { path.appendingName("files".utf8) }
        var info: [UInt8] { path.appendingName("info".utf8) }
    }

    /// Something in it.
    struct Item: Sendable {
        var folder: Folder
        var name: [UInt8]
        /// Where it was; `nil` when that cannot be read, or leads out of its file system.
        var original: [UInt8]?
        var deleted: Int64?
        /// What it is; `nil` when only what was noted of it is there.
        var identity: FileIdentity?
        /// Bytes; of a folder those noted in `directorysizes`.
        var size: UInt64

        var path: [UInt8] { folder.files.appendingName(name) }
    }

    private static let ending = Array(".trashinfo".utf8)
    /// The most names of one trash folder that are looked at.
    static let maximumItems = 1 << 20
    private static let maximumSizes = 4 << 20
    /// The most things in a folder whose sizes are added up.
    private static let maximumCounted = 100_000

    let files: OperationFiles
    /// The path of the home trash.
    let home: [UInt8]
    let user: UInt32

    /// The path of the home trash: `$XDG_DATA_HOME/Trash`, or `~/.local/share/Trash`.
    static func homePath(_ environment: [String: String] = ProcessInfo.processInfo.environment) -> [UInt8] {
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return Array(data.utf8) + "/Trash".utf8 }
        // Without a home there is no home trash, and none is made at the top.
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? Array($0.utf8) : nil } ?? (try? homeFolder())
        return (home ?? Array("/nonexistent".utf8)) + "/.local/share/Trash".utf8
    }

    init(files: OperationFiles, home: [UInt8], user: UInt32 = kith_effective_user()) {
        self.files = files
        self.user = user
        // Where it will be, of what is not there yet.
        var (there, rest) = (home, [[UInt8]]())
        while there.count > 1 {
            if let real = try? files.real(there, for: Files.Path(bytes: there)) {
                self.home = rest.reversed().reduce(real) { $0.appendingName($1) }
                return
            }
            let (folder, name) = there.splitAtName
            rest.append(name)
            there = folder
        }
        self.home = home
    }

    // MARK: - Where

    /// The trash folder for something; nothing is made yet.
    ///
    /// - Throws: `.unsupported` when there can be none.
    func folder(for path: [UInt8]) throws(KithError) -> Folder {
        if files.isOneFileSystem(path, home) { return Folder(path: home, top: nil) }
        guard let mount = files.mounts.mount(of: path)?.point else {
            throw KithError(.unsupported, "There is no trash for \(path.shown). Delete it for good instead.")
        }
        if let shared = shared(at: mount) { return shared }
        let own = mount.appendingName(".Trash-\(user)".utf8)
        let there: Descriptor.Info?
        do throws(Errno) { there = try files.info(own) } catch {
            throw error.failure("look at the trash", Files.Path(bytes: own))
        }
        let canBe = there.map { isOwn($0) } ?? files.mayChange(folder: mount)
        guard canBe else {
            throw KithError(
                .unsupported,
                "There is no trash on \(mount.shown), and none can be made there. Delete \(path.shown) for good instead."
            )
        }
        return Folder(path: own, top: mount)
    }

    /// `.Trash/UID` where `.Trash` is as it has to be: a folder, no link, with the sticky bit.
    private func shared(at mount: [UInt8]) -> Folder? {
        let shared = mount.appendingName(".Trash".utf8)
        guard let info = try? files.info(shared), info.kind == .folder, info.mode & 0o1000 != 0 else { return nil }
        let own = shared.appendingName("\(user)".utf8)
        if let there = try? files.info(own) {
            guard isOwn(there) else { return nil }
        } else {
            guard files.mayChange(folder: shared) else { return nil }
        }
        return Folder(path: own, top: mount)
    }

    private func isOwn(_ info: Descriptor.Info) -> Bool { info.kind == .folder && info.user == user }

    /// The trash folders that are there.
    func folders() -> [Folder] {
        var folders = [Folder(path: home, top: nil)]
        for mount in files.mounts.mounts where !mount.isPseudo {
            let point = mount.point
            let shared = point.appendingName(".Trash".utf8)
            if let info = try? files.info(shared), info.kind == .folder, info.mode & 0o1000 != 0 {
                folders.append(Folder(path: shared.appendingName("\(user)".utf8), top: point))
            }
            folders.append(Folder(path: point.appendingName(".Trash-\(user)".utf8), top: point))
        }
        return folders.filter { folder in
            // What is not there, or not ours, holds nothing of ours.
            guard let info = try? files.info(folder.path) else { return false }
            return isOwn(info)
        }
    }

    /// Makes what of a trash folder is not there.
    func make(_ folder: Folder) throws(Errno) {
        var missing: [[UInt8]] = []
        var path = folder.path
        while path.count > 1, try files.info(path) == nil {
            missing.append(path)
            path = path.splitAtName.folder
        }
        for path in missing.reversed() { try makeFolder(path) }
        for path in [folder.files, folder.info] { try makeFolder(path) }
    }

    private func makeFolder(_ path: [UInt8]) throws(Errno) {
        let (folder, name) = path.splitAtName
        do throws(Errno) {
            try files.folder(folder).makeFolder(name, mode: 0o700)
        } catch {
            guard error == .exists else { throw error }
        }
    }

    // MARK: - In and out

    /// A name that is free in a trash folder, for something of a name.
    func freeName(for name: [UInt8], in folder: Folder, from number: Int = 1) throws(Errno) -> (
        name: [UInt8], number: Int
    ) {
        let (infos, contents) = (try files.folder(folder.info), try files.folder(folder.files))
        let stem = Array(name.prefix(255 - Self.ending.count - 8))
        for number in number..<1_000_000 {
            let candidate = number == 1 ? stem : stem + Array(".\(number)".utf8)
            if try !isThere(candidate + Self.ending, in: infos), try !isThere(candidate, in: contents) {
                return (candidate, number)
            }
        }
        throw .exists
    }

    private func isThere(_ name: [UInt8], in folder: Descriptor) throws(Errno) -> Bool {
        do throws(Errno) {
            _ = try folder.info(name)
            return true
        } catch {
            if error == .notFound { return false }
            throw error
        }
    }

    /// Notes where something was that goes into the trash by a name; the note is there as a whole or not at all.
    ///
    /// - Throws: ``Errno/exists`` when the name is taken.
    func note(_ info: TrashInfo, of name: [UInt8], in folder: Folder, temporary: [UInt8]) throws(Errno) {
        let infos = try files.folder(folder.info)
        do throws(Errno) { try infos.remove(temporary) } catch { guard error == .notFound else { throw error } }
        let file = try infos.open(name: temporary, [.write, .create, .noFollow], mode: 0o600)
        do throws(Errno) {
            try file.write(info.text[...])
            try file.sync()
            try infos.rename(temporary, to: name + Self.ending, in: infos, overwrite: false)
        } catch {
            // What is left of it has a name of its own, and is taken away when it is met again.
            try? infos.remove(temporary)
            throw error
        }
    }

    /// What is noted of a name; `nil` when nothing is, or it cannot be read.
    func noted(_ name: [UInt8], in folder: Folder) -> TrashInfo? {
        guard let infos = try? files.folder(folder.info),
            let file = try? infos.open(name: name + Self.ending, .noFollow), let info = try? file.info(),
            info.kind == .file, info.size <= TrashInfo.maximumSize,
            let text = try? file.bytes(at: 0, limit: TrashInfo.maximumSize)
        else { return nil }
        return TrashInfo(parsing: text)
    }

    /// Takes away what is noted of a name; nothing when that is not there.
    func forget(_ name: [UInt8], in folder: Folder) throws(Errno) {
        do throws(Errno) { try files.folder(folder.info).remove(name + Self.ending) } catch {
            guard error == .notFound else { throw error }
        }
        changeSizes(in: folder) { $0[name] = nil }
    }

    /// What is noted for the path of something: from the top of its trash's file system, or whole.
    func notedPath(of path: [UInt8], in folder: Folder) -> [UInt8] {
        guard let top = folder.top else { return path }
        return Array(path.dropFirst(top == [UInt8(ascii: "/")] ? 1 : top.count + 1))
    }

    /// Where something was, by what is noted of it.
    private func original(of info: TrashInfo, in folder: Folder) -> [UInt8]? {
        let isWhole = info.path.first == UInt8(ascii: "/")
        guard let top = folder.top else { return isWhole ? info.path : nil }
        // What a disk from elsewhere says must not lead out of it.
        if isWhole { return info.path.lies(in: top) ? info.path : nil }
        return top.appendingName(info.path)
    }

    // MARK: - What is there

    /// All that is in the trash, the latest first.
    func items() -> [Item] {
        var items: [Item] = []
        for folder in folders() {
            guard let infos = try? files.folder(folder.info), let names = try? infos.names(limit: Self.maximumItems)
            else { continue }
            let sizes = sizes(in: folder)
            for name in names where name.count > Self.ending.count && name.suffix(Self.ending.count) == Self.ending[...]
            {
                items.append(item(Array(name.dropLast(Self.ending.count)), in: folder, sizes))
            }
        }
        return items.sorted { ($0.deleted ?? 0, $1.path.shown) > ($1.deleted ?? 0, $0.path.shown) }
    }

    private func item(_ name: [UInt8], in folder: Folder, _ sizes: [[UInt8]: Size]) -> Item {
        let info = noted(name, in: folder)
        let there = try? files.info(folder.files.appendingName(name))
        let size = there.map { $0.kind == .folder ? sizes[name]?.size ?? 0 : $0.size } ?? 0
        return Item(
            folder: folder, name: name, original: info.flatMap { original(of: $0, in: folder) },
            deleted: info?.deleted, identity: there.map { FileIdentity($0) }, size: size)
    }

    /// The thing that lies at a path in one of the trash folders; `nil` when that is no such place.
    func item(at path: [UInt8]) -> Item? {
        let (parent, name) = path.splitAtName
        guard let folder = folders().first(where: { $0.files == parent }) else { return nil }
        let item = item(name, in: folder, sizes(in: folder))
        return item.identity == nil ? nil : item
    }

    // MARK: - Sizes of folders

    private struct Size {
        var size: UInt64
        /// When the note was written, in seconds since 1970.
        var noted: Int64
    }

    private func sizes(in folder: Folder) -> [[UInt8]: Size] {
        guard let parent = try? files.folder(folder.path),
            let file = try? parent.open(name: Array("directorysizes".utf8), .noFollow), let info = try? file.info(),
            info.kind == .file, info.size <= Self.maximumSizes
        else { return [:] }
        var text: [UInt8] = []
        while text.count < Self.maximumSizes, let part = try? file.bytes(at: UInt64(text.count), limit: 1 << 20) {
            text += part
        }
        var sizes: [[UInt8]: Size] = [:]
        for line in text.split(separator: UInt8(ascii: "\n")) {
            let words = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
            guard words.count == 3, let size = UInt64(String(decoding: words[0], as: UTF8.self)),
                let noted = Int64(String(decoding: words[1], as: UTF8.self))
            else { continue }
            sizes[TrashInfo.decoded(words[2])] = Size(size: size, noted: noted)
        }
        return sizes
    }

    /// Notes how much of the disk a folder takes that went into the trash; nothing for one with very much in it.
    func noteSize(of name: [UInt8], in folder: Folder) {
        guard let contents = try? files.folder(folder.files), let infos = try? files.folder(folder.info),
            let noted = try? infos.info(name + Self.ending)
        else { return }
        var left = Self.maximumCounted
        guard let size = Self.size(name, in: contents, left: &left, depth: 0) else { return }
        changeSizes(in: folder) { $0[name] = Size(size: size, noted: noted.seconds) }
    }

    private static func size(_ name: [UInt8], in folder: Descriptor, left: inout Int, depth: Int) -> UInt64? {
        left -= 1
        guard left > 0, depth < TreeSource.maximumDepth, let info = try? folder.info(name) else { return nil }
        guard info.kind == .folder else { return info.allocated }
        guard let inner = try? folder.open(name: name, [.folder, .noFollow]), let names = try? inner.names(limit: left)
        else { return nil }
        var total = info.allocated
        for name in names {
            guard let size = size(name, in: inner, left: &left, depth: depth + 1) else { return nil }
            total = total.addingReportingOverflow(size).partialValue
        }
        return total
    }

    /// Changes the list of sizes, which is a cache: where it cannot be written it stays as it is.
    private func changeSizes(in folder: Folder, _ change: (inout [[UInt8]: Size]) -> Void) {
        var sizes = sizes(in: folder)
        let before = sizes.count
        change(&sizes)
        guard sizes.count > 0 || before > 0, let parent = try? files.folder(folder.path) else { return }
        var text: [UInt8] = []
        for (name, size) in sizes.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            text += Array("\(size.size) \(size.noted) ".utf8) + TrashInfo.encoded(name) + [UInt8(ascii: "\n")]
        }
        let temporary = Array("directorysizes.kith".utf8)
        do throws(Errno) {
            do throws(Errno) { try parent.remove(temporary) } catch { guard error == .notFound else { throw error } }
            let file = try parent.open(name: temporary, [.write, .create, .noFollow], mode: 0o600)
            try file.write(text[...])
            try parent.rename(temporary, to: Array("directorysizes".utf8), in: parent, overwrite: true)
        } catch {
            // As said: a cache.
        }
    }
}
