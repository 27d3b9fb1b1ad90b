import KithAPI
import KithIdentity
import KithNode
import KithWire

/// A path a caller may reach, held by the descriptor of the folder it is confined to.
struct ConfinedPath: Sendable {
    /// The folder beneath which everything happens.
    private let root: Descriptor
    /// The names from there.
    private let components: [[UInt8]]
    /// True when the kernel keeps it beneath a granted folder; false when the root is the whole file system.
    let isBeneathGrant: Bool
    /// True when the path says that it is a folder.
    let isFolder: Bool
    /// The path as the caller gave it, for messages.
    let shown: Files.Path
    /// The path from the top of the file system.
    let absolute: Files.Path

    /// A path of this device's own person: anywhere, following links as the system does.
    ///
    /// `shown`: what messages say instead of the path, when they go to somebody who need not know it. `protection`: of
    /// a folder where somebody else's things arrive.
    init(
        ownPath path: Files.Path, shown: Files.Path? = nil, protecting protection: ProtectedFiles? = nil
    ) throws(KithError) {
        let parsed = try path.parsed()
        let home = parsed.anchor == .home ? try Self.home() : []
        guard parsed.anchor != .grant else {
            throw KithError(.invalid, "The path \(path) on this device must begin with / here.")
        }
        let top = try attempt("open", "/") { () throws(Errno) in
            try Descriptor.open([UInt8(ascii: "/")], [.path, .folder], protecting: protection)
        }
        self.init(
            top, granted: [], home + parsed.components, .systems, isFolder: parsed.isFolder, shown: shown ?? path)
    }

    /// A path as the caller of a method may reach it.
    ///
    /// - Throws: `.denied` when no grant of the caller covers it, `.invalid` when the path is none.
    init(_ path: Files.Path, _ access: Grant.FileAccess, for context: CallContext) throws(KithError) {
        guard case .device = context.caller else {
            try self.init(ownPath: path)
            return
        }
        var roots: [[[UInt8]]] = []
        for case .files(let held, let root) in context.grants where held == .write || access == .read {
            let names = Array(root.utf8).split(separator: UInt8(ascii: "/")).map { [UInt8]($0) }
            if !roots.contains(names) { roots.append(names) }
        }
        let names = roots.map { "/" + Self.text($0) }.joined(separator: ", ")
        let parsed = try path.parsed()
        let components: [[UInt8]]
        switch parsed.anchor {
        case .top: components = parsed.components
        case .home:
            let home = try Self.home()
            let isElsewhere = roots.count == 1 && !home.starts(with: roots[0])
            // `laptop:` alone is to be looked at where the home folder is not granted, and one other folder is.
            components =
                isElsewhere && access == .read && parsed.components.isEmpty ? roots[0] : home + parsed.components
        case .grant:
            guard roots.count <= 1 else {
                throw KithError(
                    .invalid, "The path \(path) could be in several granted folders; begin it with one of: \(names).")
            }
            components = (roots.first ?? []) + parsed.components
        }
        // The widest folder: a link from one granted folder into another beneath it works then.
        guard let root = roots.filter({ components.starts(with: $0) }).min(by: { $0.count < $1.count }) else {
            let granted = names.isEmpty ? "no folder" : names
            throw KithError(
                .denied,
                "Not permitted to \(access.rawValue) \(path): granted for that is \(granted). On the other device: "
                    + "kith grant \(Self.name(of: context.caller)) --add files:\(access.rawValue)=\(Self.advised(path))"
            )
        }
        self.init(
            try Self.open(granted: "/" + Self.text(root), for: context), granted: root,
            Array(components.dropFirst(root.count)), root.isEmpty ? .fromTop : .beneath, isFolder: parsed.isFolder,
            shown: path)
    }

    private static func name(of caller: Caller) -> String {
        if case .device(_, let name, _) = caller { name } else { "DEVICE" }
    }

    /// The path as it is typed where it is to be granted: what begins with a tilde, by the variable for that folder.
    private static func advised(_ path: Files.Path) -> String {
        let text = path.description
        return text.hasPrefix("~") ? "$HOME" + text.dropFirst() : text
    }

    private init(
        _ root: Descriptor, granted: [[UInt8]], _ components: [[UInt8]], _ way: Way, isFolder: Bool, shown: Files.Path
    ) {
        self.root = root
        self.components = components
        self.way = way
        absolute = Files.Path(
            bytes: [UInt8(ascii: "/")] + (granted + components).joined(separator: [UInt8(ascii: "/")]))
        self.isFolder = isFolder
        self.shown = shown
        isBeneathGrant = way == .beneath
        rootName = granted.last
    }

    /// Opens the root of a grant where it lay when it was granted: what another device has made a link since is not
    /// followed.
    private static func open(granted root: String, for context: CallContext) throws(KithError) -> Descriptor {
        let resolved: String
        do {
            resolved = try context.grantedRoot(root)
        } catch {
            throw error as? KithError ?? KithError(.internal, "Could not look up the grant of \(root).", cause: error)
        }
        return try attempt("open the granted folder", root, confined: true) { () throws(Errno) in
            let top = try Descriptor.open([UInt8(ascii: "/")], [.path, .folder], protecting: context.protection)
            return try top.open(beneath: Array(resolved.utf8.drop { $0 == 47 }), [.path, .folder, .noLinks])
        }
    }

    /// The ways to follow a path from the root.
    private enum Way {
        /// As the system does: for this device's own person.
        case systems
        /// Never out of the root.
        case beneath
        /// From the top of the file system, by the text of links alone.
        case fromTop
    }

    private let way: Way
    private let rootName: [UInt8]?

    /// The last name of the path; that of the granted folder when the path is the folder itself.
    var name: [UInt8]? { components.last ?? rootName }

    /// Opens the file or folder.
    func open(_ flags: Descriptor.Flags = []) throws(Errno) -> Descriptor { try open(components, flags) }

    /// Opens the folder; one that the last name only links to when the path says that it is a folder.
    ///
    /// - Throws: ``Errno/notAFolder`` for such a link otherwise.
    func openFolderItself() throws(Errno) -> Descriptor {
        guard !isFolder, let (folder, name) = try around() else { return try open(.folder) }
        do throws(Errno) {
            return try folder.open(name: name, [.folder, .noFollow])
        } catch {
            // Systems differ in what they call it.
            throw (try folder.info(name)).kind == .link ? .notAFolder : error
        }
    }

    /// Refuses a link to a folder, unless the path says that it is one.
    func refuseLinkToFolder() throws(KithError) {
        guard !isFolder, let (folder, name) = try? around(), (try? folder.info(name))?.kind == .link,
            (try? open([.path, .folder])) != nil
        else { return }
        throw Self.isLink(shown)
    }

    /// Makes the error for a link to a folder where the folder itself is wanted.
    static func isLink(_ path: Files.Path) -> KithError {
        KithError(
            .conflict, "\(path) is a link. Use \(path)/ to copy into the folder it leads to, or remove it.")
    }

    /// The folder around the last name, opened, and the name; `nil` when the path is the granted folder itself.
    func around() throws(Errno) -> (folder: Descriptor, name: [UInt8])? {
        guard let name = components.last else { return nil }
        return (try open(Array(components.dropLast()), [.path, .folder]), name)
    }

    /// Opens the parent folder of the last name.
    ///
    /// - Throws: `.invalid` when the path is the granted folder itself.
    func parent() throws(KithError) -> (folder: Descriptor, name: [UInt8]) {
        guard let name = components.last else {
            throw KithError(.invalid, "\(shown) is the granted folder itself: name something in it.")
        }
        let folder = try attempt("open the parent folder of", shown, confined: isBeneathGrant) { () throws(Errno) in
            try open(Array(components.dropLast()), [.folder])
        }
        return (folder, name)
    }

    /// True for the granted folder itself, or the top of the file system.
    var isRoot: Bool { components.isEmpty }

    /// The ways down to the path: each name with the ones before it.
    var prefixes: [[[UInt8]]] { components.indices.map { Array(components[...$0]) } }

    /// Opens what lies at some names beneath the root.
    func open(_ components: [[UInt8]], _ flags: Descriptor.Flags) throws(Errno) -> Descriptor {
        let path = [UInt8](components.joined(separator: [UInt8(ascii: "/")]))
        return switch way {
        case .beneath: try root.open(beneath: path, flags)
        case .fromTop: try root.open(beneath: path, flags.union(.atTop))
        case .systems: try root.open(name: path.isEmpty ? [UInt8(ascii: ".")] : path, flags)
        }
    }

    private static func home() throws(KithError) -> [[UInt8]] {
        try attempt("find", "the home folder", homeFolder).split(separator: UInt8(ascii: "/")).map { [UInt8]($0) }
    }

    private static func text(_ components: [[UInt8]]) -> String {
        components.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
    }
}
