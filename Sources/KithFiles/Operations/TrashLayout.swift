import Foundation
import KithIndex
import KithWire

/// One trash folder: where things lie in it, and where it is noted from where they came.
struct TrashFolder: Hashable, Sendable {
    /// Its path.
    var path: [UInt8]
    /// The top of the file system that the paths of its notes begin at; `nil` for the home trash, whose paths are whole.
    var top: [UInt8]?
    /// The path of the folder in which things lie.
    var files: [UInt8]
    /// The path of the folder in which the notes lie.
    var info: [UInt8]
}

/// The places of trash folders on a system, and the names of what is in them.
///
/// A value without state; it looks at the disk and changes nothing there.
protocol TrashLayout: Sendable {
    /// The path of the home trash, by the environment of a process.
    func homePath(_ environment: [String: String]) -> [UInt8]

    /// The home trash at a path.
    func homeFolder(at path: [UInt8]) -> TrashFolder

    /// The trash folder of a file system, as it is, or as it would be made; `nil` when there is none and none can be.
    func folder(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) throws(KithError) -> TrashFolder?

    /// The trash folders that may be on a file system; those that are not there are left out by whoever asks.
    func folders(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) -> [TrashFolder]

    /// The name that something of a name gets in the trash when so many are taken; 1 is the first.
    func name(for name: [UInt8], number: Int) -> [UInt8]

    /// The permission bits of a folder that has to be made on the way to a trash folder.
    func mode(of path: [UInt8]) -> UInt32

    /// Tells whether a name in the folder of the things is one of them.
    func isItem(_ name: [UInt8]) -> Bool

    /// True where others put things into the trash without a note: all that lies there is listed then.
    var listsUnnoted: Bool { get }
}

/// The trash of the freedesktop.org specification 1.0, of Linux and other systems.
///
/// What lies in the file system of the home folder goes into the home trash. Elsewhere it is `.Trash/UID` at the top of the
/// file system, where an administrator made `.Trash` with the sticky bit, or `.Trash-UID`.
struct FreedesktopTrash: TrashLayout {
    /// `$XDG_DATA_HOME/Trash`, or `~/.local/share/Trash`.
    func homePath(_ environment: [String: String]) -> [UInt8] {
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return Array(data.utf8) + "/Trash".utf8 }
        return TrashCan.homePath(environment) + "/.local/share/Trash".utf8
    }

    func homeFolder(at path: [UInt8]) -> TrashFolder { folder(path, top: nil) }

    private func folder(_ path: [UInt8], top: [UInt8]?) -> TrashFolder {
        TrashFolder(
            path: path, top: top, files: path.appendingName("files".utf8), info: path.appendingName("info".utf8))
    }

    func folder(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) throws(KithError) -> TrashFolder? {
        if let shared = shared(on: mount, for: user, files) { return shared }
        let own = mount.appendingName(".Trash-\(user)".utf8)
        let there: Descriptor.Info?
        do throws(Errno) { there = try files.info(own) } catch {
            throw error.failure("look at the trash", own.shown)
        }
        let canBe = there.map { TrashCan.isOwn($0, user) } ?? files.mayChange(folder: mount)
        return canBe ? folder(own, top: mount) : nil
    }

    /// `.Trash/UID` where `.Trash` is as it has to be: a folder, no link, with the sticky bit.
    private func shared(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) -> TrashFolder? {
        let shared = mount.appendingName(".Trash".utf8)
        guard TrashCan.isSticky(shared, files) else { return nil }
        let own = shared.appendingName("\(user)".utf8)
        if let there = try? files.info(own) {
            guard TrashCan.isOwn(there, user) else { return nil }
        } else {
            guard files.mayChange(folder: shared) else { return nil }
        }
        return folder(own, top: mount)
    }

    func folders(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) -> [TrashFolder] {
        var folders: [TrashFolder] = []
        let shared = mount.appendingName(".Trash".utf8)
        if TrashCan.isSticky(shared, files) {
            folders.append(folder(shared.appendingName("\(user)".utf8), top: mount))
        }
        folders.append(folder(mount.appendingName(".Trash-\(user)".utf8), top: mount))
        return folders
    }

    func name(for name: [UInt8], number: Int) -> [UInt8] {
        let stem = Array(name.prefix(255 - TrashCan.ending.count - 8))
        return number == 1 ? stem : stem + Array(".\(number)".utf8)
    }

    func mode(of path: [UInt8]) -> UInt32 { 0o700 }
    func isItem(_ name: [UInt8]) -> Bool { true }
    var listsUnnoted: Bool { false }
}

/// The trash of macOS: `~/.Trash`, and on each other volume `.Trashes/UID`.
///
/// Things lie there by their names, `report 2.txt` where one is taken. The Finder notes where they were in a file of its own
/// that nobody else can read; ours are in the folder `.kith` of each trash, and go when the Finder empties it. What the
/// Finder has put there is listed, and cannot be put back by us.
struct AppleTrash: TrashLayout {
    private static let notes = Array(".kith".utf8)

    func homePath(_ environment: [String: String]) -> [UInt8] { TrashCan.homePath(environment) + "/.Trash".utf8 }

    func homeFolder(at path: [UInt8]) -> TrashFolder { folder(path, top: nil) }

    private func folder(_ path: [UInt8], top: [UInt8]?) -> TrashFolder {
        TrashFolder(path: path, top: top, files: path, info: path.appendingName(Self.notes))
    }

    func folder(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) throws(KithError) -> TrashFolder? {
        let all = mount.appendingName(".Trashes".utf8)
        let own = all.appendingName("\(user)".utf8)
        do throws(Errno) {
            // The folder of all users keeps them apart by the sticky bit, or is no trash.
            guard try files.info(all) != nil else {
                return files.mayChange(folder: mount) ? folder(own, top: mount) : nil
            }
            guard TrashCan.isSticky(all, files) else { return nil }
            let there = try files.info(own)
            let canBe = there.map { TrashCan.isOwn($0, user) } ?? files.mayChange(folder: all)
            return canBe ? folder(own, top: mount) : nil
        } catch {
            throw error.failure("look at the trash", all.shown)
        }
    }

    func folders(on mount: [UInt8], for user: UInt32, _ files: OperationFiles) -> [TrashFolder] {
        [folder(mount.appendingName(".Trashes".utf8).appendingName("\(user)".utf8), top: mount)]
    }

    func name(for name: [UInt8], number: Int) -> [UInt8] {
        // Its note has a name, too, which has to be short enough.
        name.numbered(number == 1 ? nil : " \(number)", limit: 255 - TrashCan.ending.count)
    }

    /// Every user makes a folder in `.Trashes`, and none sees the others'.
    func mode(of path: [UInt8]) -> UInt32 { path.splitAtName.name.elementsEqual(".Trashes".utf8) ? 0o1333 : 0o700 }

    func isItem(_ name: [UInt8]) -> Bool { name != Self.notes && !name.elementsEqual(".DS_Store".utf8) }
    var listsUnnoted: Bool { true }
}
