import Crypto
import KithAPI
import KithWire

/// Puts what arrives in place, beneath one folder, through descriptors alone.
///
/// Every name is one component in a folder held open; no link is followed. A file gets its name when all of it has
/// arrived and its SHA-256 agrees; so does a whole new folder, which until then lies beside under a name of its own.
/// It runs on a ``DiskExecutor``.
final class TreeLanding {
    /// A folder being filled.
    private struct Level {
        var folder: Descriptor
        /// What is set when it is full; `nil` for one that was there before.
        var attributes: TransferFrame.Attributes?
        /// What gives it its name, when it is the topmost new one.
        var partial: Partial?
        /// Whether it is new, and so unseen until the topmost new one gets its name.
        var isNew: Bool
        var name: [UInt8]
    }

    /// A file being filled.
    private struct OpenFile {
        var descriptor: Descriptor
        /// `nil` inside a new folder, where nobody looks yet.
        var partial: Partial?
        var attributes: TransferFrame.Attributes
        var hash = SHA256()
        var size = 0
    }

    private let options: Files.Landing
    private let progress: TransferProgress
    private let destination: Files.Path
    private var levels: [Level]
    private var file: OpenFile?
    /// Whether the data that comes belongs to a file that is left out.
    private var isDiscarding = false
    /// The new name of the one thing sent, when the destination is not a folder.
    private let newName: [UInt8]?
    private var topCount = 0
    private(set) var summary = Files.Summary()

    /// Opens the destination: a folder that is there, or the folder around a name that is not.
    init(_ place: Place, options: Files.Landing, progress: TransferProgress) throws(KithError) {
        self.options = options
        self.progress = progress
        destination = place.shown
        let confined = place.isConfined
        do throws(Errno) {
            let folder = try place.open(.folder)
            levels = [Level(folder: folder, isNew: false, name: [])]
            newName = nil
        } catch {
            guard error == .notFound || error == .notAFolder, !options.intoFolder, !place.isFolder else {
                throw error.failure("copy into", place.shown, confined: confined)
            }
            let (folder, name) = try place.parent()
            levels = [Level(folder: folder, isNew: false, name: [])]
            newName = name
        }
        Partial.removeStale(in: levels[0].folder)
    }

    /// Takes the next message; `true` after the last.
    func take(_ frame: TransferFrame) throws -> Bool {
        switch frame {
        case .data(let data):
            try write(data)
            return false
        case .fileEnd(let sha256): try finishFile(sha256)
        case .fileAbandoned:
            guard file != nil || isDiscarding else { throw Self.outOfOrder }
            file = nil
            isDiscarding = false
        case .skipped(let skipped):
            guard file == nil, !isDiscarding else { throw Self.outOfOrder }
            summary.skipped += 1
            progress.skip(skipped)
        case .total(let bytes, let files): progress.addTotal(bytes: bytes, files: files)
        case .folder(let attributes):
            try beginEntry()
            try beginFolder(attributes)
        case .folderEnd: try endFolder()
        case .file(let attributes, _):
            try beginEntry()
            try beginFile(attributes)
        case .link(let attributes, let target):
            try beginEntry()
            try makeLink(attributes, target)
        case .end:
            guard file == nil, !isDiscarding, levels.count == 1 else { throw Self.outOfOrder }
            if options.sync { try attempt("sync", destination) { () throws(Errno) in try levels[0].folder.sync() } }
            return true
        case .failure(let failure): throw RemoteFailure(error: failure.error)
        case .acknowledgement: throw Self.outOfOrder
        }
        return false
    }

    private func beginEntry() throws {
        guard file == nil, !isDiscarding else { throw Self.outOfOrder }
        if levels.count == 1 {
            topCount += 1
            guard newName == nil || topCount == 1 else {
                throw KithError(.conflict, "Cannot copy several things to \(destination): it is not a folder.")
            }
        }
    }

    /// The name something gets in the folder being filled.
    private func landedName(_ name: [UInt8]) -> [UInt8] { levels.count == 1 ? newName ?? name : name }

    private var level: Level { levels[levels.count - 1] }

    // MARK: - Folders

    private func beginFolder(_ attributes: TransferFrame.Attributes) throws {
        guard levels.count <= TreeSource.maximumDepth else {
            throw KithError(.exhausted, "Folders nest deeper than \(TreeSource.maximumDepth) levels.")
        }
        let name = landedName(attributes.name)
        let path = shown(name)
        summary.folders += 1
        let parent = level
        if parent.isNew {
            let folder = try attempt("make the folder", path) { () throws(Errno) in
                try parent.folder.makeFolder(name, mode: 0o700)
                return try parent.folder.open(name: name, [.folder, .noFollow])
            }
            levels.append(Level(folder: folder, attributes: attributes, isNew: true, name: name))
            return
        }
        let existing = try present(name, in: parent.folder)
        if existing == .folder {
            let folder = try attempt("open the folder", path) { () throws(Errno) in
                try parent.folder.open(name: name, [.folder, .noFollow])
            }
            Partial.removeStale(in: folder)
            levels.append(Level(folder: folder, isNew: false, name: name))
        } else if existing != nil {
            throw KithError(.conflict, "Cannot make the folder \(path): a file of that name is there.")
        } else {
            let partial = try attempt("make the folder", path) { () throws(Errno) in
                try Partial.make(in: parent.folder, isFolder: true, mode: 0o700)
            }
            levels.append(
                Level(folder: partial.descriptor, attributes: attributes, partial: partial, isNew: true, name: name))
        }
    }

    private func endFolder() throws {
        guard file == nil, !isDiscarding, levels.count > 1 else { throw Self.outOfOrder }
        let level = levels.removeLast()
        let path = shown(level.name)
        try attempt("put in place", path) { () throws(Errno) in
            if let attributes = level.attributes {
                try level.folder.setMode((options.preserve ? attributes.mode & 0o777 : 0o755))
                if options.preserve { try level.folder.setModified(attributes.seconds, attributes.nanoseconds) }
            }
            if options.sync { try level.folder.sync() }
            try level.partial?.commit(as: level.name, overwrite: false)
        }
    }

    // MARK: - Files

    private func beginFile(_ attributes: TransferFrame.Attributes) throws {
        var attributes = attributes
        attributes.name = landedName(attributes.name)
        let (name, folder, isNew) = (attributes.name, level.folder, level.isNew)
        let path = shown(name)
        progress.begin(levels.dropFirst().map(\.name) + [name])
        // Without preservation the new file's bits are the source's less the umask, as with cp.
        let mode = options.preserve ? 0o600 : attributes.mode & 0o777
        if isNew {
            let descriptor = try attempt("make", path) { () throws(Errno) in
                try folder.open(name: name, [.write, .create, .noFollow], mode: mode)
            }
            file = OpenFile(descriptor: descriptor, attributes: attributes)
            return
        }
        let existing = try present(name, in: folder)
        if existing == .folder {
            throw KithError(.conflict, "Cannot copy the file to \(path): a folder of that name is there.")
        }
        if existing != nil, !options.overwrite {
            isDiscarding = true
            leaveOut(path)
            return
        }
        let partial = try attempt("make", path) { () throws(Errno) in
            try Partial.make(in: folder, isFolder: false, mode: mode)
        }
        file = OpenFile(descriptor: partial.descriptor, partial: partial, attributes: attributes)
    }

    private func write(_ data: ArraySlice<UInt8>) throws {
        if isDiscarding { return }
        guard let descriptor = file?.descriptor, let name = file?.attributes.name else { throw Self.outOfOrder }
        do throws(Errno) {
            try descriptor.write(data)
        } catch {
            throw error.failure("write", shown(name))
        }
        unsafe data.withUnsafeBytes { unsafe file?.hash.update(bufferPointer: $0) }
        file?.size += data.count
        progress.add(bytes: data.count)
    }

    private func finishFile(_ sha256: [UInt8]) throws {
        if isDiscarding {
            isDiscarding = false
            return
        }
        guard let done = file else { throw Self.outOfOrder }
        file = nil
        let name = done.attributes.name
        let path = shown(name)
        guard Array(done.hash.finalize()) == sha256 else {
            throw KithError(
                .corrupt, "What arrived of \(path) is not what was sent (SHA-256). Nothing was put in place.")
        }
        do throws(Errno) {
            if options.preserve {
                try done.descriptor.setMode(done.attributes.mode & 0o777)
                try done.descriptor.setModified(done.attributes.seconds, done.attributes.nanoseconds)
            }
            if options.sync { try done.descriptor.sync() }
            try done.partial?.commit(as: name, overwrite: options.overwrite)
        } catch .exists where !options.overwrite {
            leaveOut(path)
            return
        } catch {
            throw error.failure("put in place", path)
        }
        summary.files += 1
        summary.bytes += UInt64(done.size)
        progress.add(files: 1)
    }

    private func makeLink(_ attributes: TransferFrame.Attributes, _ target: [UInt8]) throws {
        let name = landedName(attributes.name)
        let (folder, isNew) = (level.folder, level.isNew)
        let path = shown(name)
        let existing = isNew ? nil : try present(name, in: folder)
        if existing == .folder {
            throw KithError(.conflict, "Cannot make the link \(path): a folder of that name is there.")
        }
        if existing != nil, !options.overwrite {
            leaveOut(path)
            return
        }
        try attempt("make the link", path) { () throws(Errno) in
            let made = existing == nil ? name : Partial.freshName()
            try folder.makeLink(made, to: target)
            if options.preserve { try folder.setModified(attributes.seconds, attributes.nanoseconds, of: made) }
            if existing != nil { try folder.rename(made, to: name, in: folder, overwrite: true) }
        }
        summary.links += 1
    }

    // MARK: - Words

    private func present(_ name: [UInt8], in folder: Descriptor) throws(KithError) -> Files.Kind? {
        do throws(Errno) {
            return try folder.info(name).kind
        } catch .notFound {
            return nil
        } catch {
            throw error.failure("look at", shown(name))
        }
    }

    private func leaveOut(_ path: Files.Path) {
        summary.skipped += 1
        progress.skip(
            Files.Skipped(path: path, failure: Files.Failure(code: .conflict, message: "It is there already.")))
    }

    /// The path of a name in the folder being filled, from the destination on.
    private func shown(_ name: [UInt8]) -> Files.Path {
        var names = levels.dropFirst().map(\.name) + [name]
        var base = destination.bytes
        if newName != nil {
            names.removeFirst()
        } else if base.last == UInt8(ascii: "/") {
            base.removeLast()
        }
        return Files.Path(bytes: [UInt8](([base] + names).joined(separator: [UInt8(ascii: "/")])))
    }

    private static var outOfOrder: KithError {
        KithError(.invalid, "The other end sent the messages of a transfer out of order.")
    }
}

/// An error the other end has told of, and so need not be told.
struct RemoteFailure: Error {
    let error: KithError
}
