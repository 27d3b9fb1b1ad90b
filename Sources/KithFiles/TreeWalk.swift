import KithAPI
import KithCatalog
import KithWire

/// Goes through the sources of a transfer in the order they are listed to the receiver, a step at a time.
///
/// It holds a descriptor for each folder on the way down and at most ``part`` names of each, however many there are.
final class TreeWalk {
    /// A folder of a source, open as long as something in it is not sent yet.
    final class Folder {
        let descriptor: Descriptor
        /// From the source named on, for messages.
        let path: [UInt8]
        /// From the source's inside on, for patterns: empty for a source itself.
        let relative: [UInt8]
        private let open: OpenFolders

        fileprivate init(_ descriptor: Descriptor, path: [UInt8], relative: [UInt8], _ open: OpenFolders) {
            self.descriptor = descriptor
            self.path = path
            self.relative = relative
            self.open = open
            open.count += 1
        }

        deinit { open.count -= 1 }

        func path(of name: [UInt8]) -> [UInt8] { path + [UInt8(ascii: "/")] + name }
    }

    /// The number of folders that are open.
    final class OpenFolders {
        fileprivate(set) var count = 0
    }

    /// A file that is listed.
    struct File {
        /// The folder it is in; `nil` for a source, which is open.
        let folder: Folder?
        let opened: Descriptor?
        let name: [UInt8]
        let info: Descriptor.Info
        let path: [UInt8]
    }

    enum Step {
        case folder(Folder, name: [UInt8], Descriptor.Info)
        case folderEnd(isComplete: Bool)
        case file(File)
        case link(name: [UInt8], Descriptor.Info, target: [UInt8])
        case skipped(Files.Skipped)
    }

    private struct Level {
        var folder: Folder
        var listing: Descriptor.Listing?
        var names: [[UInt8]] = []
        var index = 0
        var isComplete = true
    }

    /// The number of names of a folder that are held and sorted at once.
    static let part = 4_096

    let open = OpenFolders()
    private let sources: [TreeSource]
    private var source = 0
    private var levels: [Level] = []
    private let rules: IgnoreRules

    init(_ sources: [TreeSource], leavingOut rules: IgnoreRules) {
        self.sources = sources
        self.rules = rules
    }

    /// The number of names held, of all folders on the way down.
    var held: Int { levels.reduce(0) { $0 + $1.names.count } }

    /// The next step; `nil` after the last.
    ///
    /// What cannot be read beneath a source is a step that says so; a source itself that cannot be is an error.
    func next() throws -> Step? {
        while true {
            if levels.isEmpty {
                guard source < sources.count else { return nil }
                source += 1
                if let step = try begin(sources[source - 1]) { return step }
                continue
            }
            let top = levels.count - 1
            guard levels[top].index < levels[top].names.count || refill() else {
                return .folderEnd(isComplete: levels.removeLast().isComplete)
            }
            let name = levels[top].names[levels[top].index]
            levels[top].index += 1
            if let step = try child(name, of: levels[top].folder) { return step }
        }
    }

    private func begin(_ source: TreeSource) throws -> Step? {
        if let opened = source.opened {
            let info = try attempt("read", source.shown) { () throws(Errno) in try opened.info() }
            guard info.kind == .folder else {
                return .file(File(folder: nil, opened: opened, name: source.name, info: info, path: source.name))
            }
            return try begin(Folder(opened, path: source.name, relative: [], open), source.name, info)
        }
        guard let folder = source.folder else { return nil }
        return try attempt("read", source.shown) { () throws(Errno) in try link(source.name, in: folder) }
    }

    private func begin(_ folder: Folder, _ name: [UInt8], _ info: Descriptor.Info) throws(Errno) -> Step {
        levels.append(Level(folder: folder, listing: try Descriptor.Listing(of: folder.descriptor)))
        return .folder(folder, name: name, info)
    }

    /// Reads more names of the folder on top; false when there are none.
    private func refill() -> Bool {
        let top = levels.count - 1
        guard let listing = levels[top].listing else { return false }
        do throws(Errno) {
            let names = try listing.next(Self.part)
            // Most folders are listed at once, and in the same order every time.
            if names.count < Self.part { levels[top].listing = nil }
            levels[top].names = names.sorted { $0.lexicographicallyPrecedes($1) }
            levels[top].index = 0
        } catch {
            levels[top].isComplete = false
            levels[top].listing = nil
            return false
        }
        return !levels[top].names.isEmpty
    }

    private func child(_ name: [UInt8], of folder: Folder) throws -> Step? {
        // What a transfer into this folder is working on is not a part of it yet.
        if Partial.isPartial(name: name) { return nil }
        let path = folder.path(of: name)
        do {
            let listed = try folder.descriptor.info(name)
            let relative = folder.relative.isEmpty ? name : folder.relative + [UInt8(ascii: "/")] + name
            if rules.excludes(relative, isFolder: listed.kind == .folder) { return nil }
            guard Files.Path.isName(name) else {
                throw KithError(.unsupported, "Its name is not allowed.")
            }
            switch listed.kind {
            case .link: return try link(name, in: folder.descriptor)
            case .special:
                return skip(path, KithError(.unsupported, "It is a pipe, a socket or a device."), isHarmless: true)
            case .file: return .file(File(folder: folder, opened: nil, name: name, info: listed, path: path))
            case .folder:
                guard levels.count < TreeSource.maximumDepth else {
                    throw KithError(.exhausted, "Folders nest deeper than \(TreeSource.maximumDepth) levels.")
                }
                let opened = try folder.descriptor.open(name: name, [.folder, .noFollow])
                return try begin(
                    Folder(opened, path: path, relative: relative, open), name, try opened.info())
            }
        } catch let error as Errno {
            return skip(path, error.failure("read", Files.Path(bytes: path)), isHarmless: error == .protected)
        } catch let error as KithError where error.code == .unsupported || error.code == .exhausted {
            return skip(path, error)
        }
    }

    private func link(_ name: [UInt8], in folder: Descriptor) throws(Errno) -> Step {
        let info = try folder.info(name)
        return .link(name: name, info, target: try folder.target(ofLink: name))
    }

    private func skip(_ path: [UInt8], _ error: KithError, isHarmless: Bool = false) -> Step {
        .skipped(
            Files.Skipped(path: Files.Path(bytes: path), failure: Files.Failure(error), isHarmless: isHarmless))
    }
}
