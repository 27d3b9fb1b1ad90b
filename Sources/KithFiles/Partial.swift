import KithAPI
import KithWire

/// A file or folder on its way: it has a name of its own until it is whole, and then takes its real one at once.
///
/// While it is alive it holds a lock on itself, so that one left by a process that was killed can be told from it
/// and is removed by the next transfer into the same folder.
final class Partial {
    private static let prefix = Array(".kith-partial-".utf8)
    private static let randomCount = 20

    let folder: Descriptor
    let name: [UInt8]
    /// The file, or the folder.
    let descriptor: Descriptor
    private let isFolder: Bool
    private var isDone = false

    /// Makes one in `folder`.
    static func make(in folder: Descriptor, isFolder: Bool, mode: UInt32) throws(Errno) -> Partial {
        while true {
            let name = freshName()
            let descriptor: Descriptor
            if isFolder {
                try folder.makeFolder(name, mode: mode)
                descriptor = try folder.open(name: name, [.folder, .noFollow])
            } else {
                descriptor = try folder.open(name: name, [.write, .create, .noFollow], mode: mode)
            }
            // Between its making and its locking it looks abandoned, and may have been removed.
            _ = try descriptor.lock(waiting: true)
            let isThere: Bool
            do throws(Errno) {
                let (named, own) = (try folder.info(name), try descriptor.info())
                isThere = named.inode == own.inode && named.device == own.device
            } catch .notFound {
                isThere = false
            }
            if isThere { return Partial(folder: folder, name: name, descriptor: descriptor, isFolder: isFolder) }
        }
    }

    private init(folder: Descriptor, name: [UInt8], descriptor: Descriptor, isFolder: Bool) {
        self.folder = folder
        self.name = name
        self.descriptor = descriptor
        self.isFolder = isFolder
    }

    deinit {
        guard !isDone else { return }
        // What cannot be removed now is removed by the next transfer into this folder.
        try? Self.remove(name, isFolder: isFolder, from: folder)
    }

    /// Gives it its real name.
    func commit(as name: [UInt8], overwrite: Bool) throws(Errno) {
        try folder.rename(self.name, to: name, in: folder, overwrite: overwrite)
        isDone = true
    }

    /// A name nothing else has.
    static func freshName() -> [UInt8] {
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
        return prefix + (0..<randomCount).map { _ in letters[Int.random(in: 0..<32)] }
    }

    /// Removes from a folder what transfers have left there whose process is gone.
    ///
    /// What cannot be removed stays.
    static func removeStale(in folder: Descriptor) {
        for name in (try? folder.names()) ?? []
        where name.starts(with: prefix) && name.count == prefix.count + randomCount {
            guard let info = try? folder.info(name) else { continue }
            guard info.kind == .file || info.kind == .folder else { continue }
            let isFolder = info.kind == .folder
            guard let descriptor = try? folder.open(name: name, isFolder ? [.folder, .noFollow] : .noFollow),
                (try? descriptor.lock(waiting: false)) == true
            else { continue }
            try? remove(name, isFolder: isFolder, from: folder)
        }
    }

    private static func remove(_ name: [UInt8], isFolder: Bool, from folder: Descriptor) throws {
        if isFolder {
            _ = try Removal.removeTree(name, from: folder)
        } else {
            try folder.remove(name)
        }
    }
}

/// Deletion of whole folders.
enum Removal {
    /// Deletes a name in a folder with everything beneath; follows no link.
    ///
    /// Returns how many things it deleted.
    static func removeTree(_ name: [UInt8], from folder: Descriptor, depth: Int = 0) throws -> UInt64 {
        let info = try folder.info(name)
        guard info.kind == .folder else {
            try folder.remove(name)
            return 1
        }
        guard depth < TreeSource.maximumDepth else {
            throw KithError(.exhausted, "Folders nest deeper than \(TreeSource.maximumDepth) levels.")
        }
        let inner = try folder.open(name: name, [.folder, .noFollow])
        var count: UInt64 = 0
        for child in try inner.names() {
            // Inside a cancelled task a partial folder is still to go.
            count += try removeTree(child, from: inner, depth: depth + 1)
        }
        try folder.remove(name, isFolder: true)
        return count + 1
    }
}
