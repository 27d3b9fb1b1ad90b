import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithIndex
import KithWire

/// The trash folders of this person; where they are, and what things are called in them, a ``TrashLayout`` says.
///
/// Nothing is copied into the trash.
struct TrashCan {
    /// Something in it.
    struct Item: Sendable {
        var folder: TrashFolder
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

    /// The ending of the names of notes.
    static let ending = Array(".trashinfo".utf8)
    /// The most names of one trash folder that are looked at.
    static let maximumItems = 1 << 20
    private static let maximumSizes = 4 << 20
    /// The most things in a folder whose sizes are added up.
    private static let maximumCounted = 100_000

    let files: OperationFiles
    /// The path of the home trash.
    let home: [UInt8]
    let user: UInt32
    let layout: any TrashLayout

    /// The home folder, by the environment of a process.
    ///
    /// Without one there is no home trash, and none is made at the top.
    static func homePath(_ environment: [String: String]) -> [UInt8] {
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? Array($0.utf8) : nil } ?? (try? homeFolder())
        return home ?? Array("/nonexistent".utf8)
    }

    init(
        files: OperationFiles, home: [UInt8], layout: any TrashLayout = systemLayout,
        user: UInt32 = kith_effective_user()
    ) {
        self.files = files
        self.user = user
        self.layout = layout
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
    func folder(for path: [UInt8]) throws(KithError) -> TrashFolder {
        if files.isOneFileSystem(path, home) { return layout.homeFolder(at: home) }
        guard let mount = files.mounts.mount(of: path)?.point else {
            throw KithError(.unsupported, "There is no trash for \(path.shown). Delete it for good instead.")
        }
        if let folder = try layout.folder(on: mount, for: user, files) { return folder }
        throw KithError(
            .unsupported,
            "There is no trash on \(mount.shown), and none can be made there. Delete \(path.shown) for good instead.")
    }

    /// Tells whether something is a folder of a user's own.
    static func isOwn(_ info: Descriptor.Info, _ user: UInt32) -> Bool { info.kind == .folder && info.user == user }

    /// Tells whether at a path is a folder, no link, whose sticky bit keeps users from each other's things.
    static func isSticky(_ path: [UInt8], _ files: OperationFiles) -> Bool {
        guard let info = try? files.info(path) else { return false }
        return info.kind == .folder && info.mode & 0o1000 != 0
    }

    /// The trash folders that are there.
    func folders() -> [TrashFolder] {
        var folders = [layout.homeFolder(at: home)]
        for mount in files.mounts.mounts where !mount.isPseudo {
            folders += layout.folders(on: mount.point, for: user, files)
        }
        return folders.filter { folder in
            // What is not there, or not ours, holds nothing of ours.
            guard let info = try? files.info(folder.path) else { return false }
            return Self.isOwn(info, user)
        }
    }

    /// Makes what of a trash folder is not there.
    func make(_ folder: TrashFolder) throws(Errno) {
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
        let mode = layout.mode(of: path)
        do throws(Errno) {
            let around = try files.folder(folder)
            try around.makeFolder(name, mode: 0o700)
            // What is for others, too, is so whatever this process leaves out.
            if mode != 0o700 { try around.open(name: name, [.folder, .noFollow]).setMode(mode) }
        } catch {
            guard error == .exists else { throw error }
        }
    }

    // MARK: - In and out

    /// A name that is free in a trash folder, for something of a name.
    func freeName(for name: [UInt8], in folder: TrashFolder, from number: Int = 1) throws(Errno) -> (
        name: [UInt8], number: Int
    ) {
        let (infos, contents) = (try files.folder(folder.info), try files.folder(folder.files))
        for number in number..<1_000_000 {
            let candidate = layout.name(for: name, number: number)
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
    func note(_ info: TrashInfo, of name: [UInt8], in folder: TrashFolder, temporary: [UInt8]) throws(Errno) {
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
    func noted(_ name: [UInt8], in folder: TrashFolder) -> TrashInfo? {
        guard let infos = try? files.folder(folder.info),
            let file = try? infos.open(name: name + Self.ending, .noFollow), let info = try? file.info(),
            info.kind == .file, info.size <= TrashInfo.maximumSize,
            let text = try? file.bytes(at: 0, limit: TrashInfo.maximumSize)
        else { return nil }
        return TrashInfo(parsing: text)
    }

    /// Takes away what is noted of a name; nothing when that is not there.
    func forget(_ name: [UInt8], in folder: TrashFolder) throws(Errno) {
        do throws(Errno) { try files.folder(folder.info).remove(name + Self.ending) } catch {
            guard error == .notFound else { throw error }
        }
        changeSizes(in: folder) { $0[name] = nil }
    }

    /// The note of something that goes into the trash, at a time in seconds since 1970.
    func info(of path: [UInt8], in folder: TrashFolder, deleted: Int64, _ identity: FileIdentity?) -> TrashInfo {
        TrashInfo(
            path: notedPath(of: path, in: folder), deleted: deleted,
            inode: layout.listsUnnoted ? identity?.inode : nil)
    }

    /// What is noted for the path of something: from the top of its trash's file system, or whole.
    func notedPath(of path: [UInt8], in folder: TrashFolder) -> [UInt8] {
        guard let top = folder.top else { return path }
        return Array(path.dropFirst(top == [UInt8(ascii: "/")] ? 1 : top.count + 1))
    }

    /// Where something was, by what is noted of it.
    private func original(of info: TrashInfo, in folder: TrashFolder) -> [UInt8]? {
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
            let sizes = sizes(in: folder)
            for name in names(in: folder) { items.append(item(name, in: folder, sizes)) }
        }
        return items.sorted { ($0.deleted ?? 0, $1.path.shown) > ($1.deleted ?? 0, $0.path.shown) }
    }

    /// The names of what is in a trash folder, and of what only a note is there of.
    private func names(in folder: TrashFolder) -> [[UInt8]] {
        func names(_ path: [UInt8]) -> [[UInt8]] {
            guard let folder = try? files.folder(path), let names = try? folder.names(limit: Self.maximumItems) else {
                return []
            }
            return names
        }
        // Where others take things away, a note of what is not there says nothing.
        guard !layout.listsUnnoted else { return names(folder.files).filter { layout.isItem($0) } }
        return names(folder.info).filter {
            $0.count > Self.ending.count && $0.suffix(Self.ending.count) == Self.ending[...]
        }.map { Array($0.dropLast(Self.ending.count)) }
    }

    private func item(_ name: [UInt8], in folder: TrashFolder, _ sizes: [[UInt8]: Size]) -> Item {
        var info = noted(name, in: folder)
        let there = try? files.info(folder.files.appendingName(name))
        // The note may be of something that had the name before.
        if let inode = info?.inode, inode != there?.inode { info = nil }
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

    /// The folder in which they are noted: not among the things.
    private func sizesFolder(_ folder: TrashFolder) -> [UInt8] {
        folder.files == folder.path ? folder.info : folder.path
    }

    private func sizes(in folder: TrashFolder) -> [[UInt8]: Size] {
        guard let parent = try? files.folder(sizesFolder(folder)),
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
    func noteSize(of name: [UInt8], in folder: TrashFolder) {
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
    private func changeSizes(in folder: TrashFolder, _ change: (inout [[UInt8]: Size]) -> Void) {
        var sizes = sizes(in: folder)
        let before = sizes.count
        change(&sizes)
        guard sizes.count > 0 || before > 0, let parent = try? files.folder(sizesFolder(folder)) else { return }
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
