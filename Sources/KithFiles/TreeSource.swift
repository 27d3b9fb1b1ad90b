import KithAPI
import KithCatalog
import KithWire

/// A file or folder at the top of a transfer.
struct TreeSource: Sendable {
    /// The name it gets at the other end.
    let name: [UInt8]
    /// The path to name in messages.
    let shown: Files.Path
    /// The file or folder, opened; `nil` for a link that is sent as one.
    let opened: Descriptor?
    /// The folder it is in; only a link needs it.
    let folder: Descriptor?

    /// Finds what is to be sent.
    ///
    /// A link that is named is followed, except in a recursive transfer, where it is sent as the link it is.
    init(_ path: ConfinedPath, recursive: Bool) throws(KithError) {
        shown = path.shown
        guard let name = path.name else {
            throw KithError(.invalid, "Cannot copy the whole file system: name a folder in it.")
        }
        self.name = name
        if recursive, !path.isRoot, !path.isFolder {
            let (folder, last) = try path.parent()
            let info = try attempt("read", shown) { () throws(Errno) in try folder.info(last) }
            if info.kind == .link {
                opened = nil
                self.folder = folder
                return
            }
        }
        let opened = try attempt("read", shown, confined: path.isBeneathGrant) { () throws(Errno) in try path.open() }
        let info = try attempt("read", shown) { () throws(Errno) in try opened.info() }
        switch info.kind {
        case .folder where !recursive:
            throw KithError(.invalid, "\(shown) is a folder: pass -r to copy it with what is in it.")
        case .special, .link: throw KithError(.unsupported, "Cannot copy \(shown): it is not a regular file.")
        case .file where path.isFolder:
            throw KithError(.conflict, "\(shown) is a file, not a folder: leave out the slash behind its name.")
        default: break
        }
        self.opened = opened
        folder = nil
    }

    /// The deepest that folders may nest: each level holds one descriptor open.
    static let maximumDepth = 200

    /// Counts the bytes and files of some sources.
    ///
    /// What cannot be read counts nothing.
    static func total(
        of sources: [TreeSource], selection: Files.Selection
    ) async throws -> (bytes: UInt64, files: UInt64) {
        let walk = TreeWalk(sources, leavingOut: try IgnoreRules(selection.exclude))
        var total = (bytes: UInt64(0), files: UInt64(0))
        while let step = try walk.next() {
            try Task.checkCancellation()
            guard case .file(let file) = step else { continue }
            total.bytes = total.bytes.saturatingAdding(file.info.size)
            total.files &+= 1
        }
        return total
    }
}
