import KithAPI
import KithWire

/// Visits what lies beneath a folder, in the file system's order, however much that is.
///
/// It holds one listing per level and no names but those of the path it is at. Links are not followed, and a folder
/// that is replaced by one meanwhile is told as a problem: every step is one name in a folder held open.
/// It runs on a ``DiskExecutor``, in one task.
final class FolderWalk {
    /// A step of the walk.
    enum Step {
        /// A file or folder; a folder is gone into next, unless ``skip()`` is called.
        case entry(Descriptor.Info, target: [UInt8]?)
        /// The same where only names are wanted: a letter of ``Files/PackedNames`` says what it is.
        case name(kind: UInt8)
        /// All that is in the folder at ``path`` has been told: comes once for each that was to be gone into.
        case left
        /// The thing at ``path`` could not be examined or opened.
        case problem(KithError)
    }

    private struct Level {
        let folder: Descriptor
        let listing: Descriptor.Listing
        /// The length of the path of what is in it, without its name.
        let prefix: Int
    }

    /// The path of what was told last, from the folder it began with on.
    private(set) var path: [UInt8] = []
    /// The number of levels between ``path`` and the folder where the walk began.
    private(set) var depth = 0
    private let maximumDepth: Int
    private let device: UInt64?
    private let readsLinks: Bool
    private let looks: Bool
    private var levels: [Level] = []
    /// The folder told last, to be gone into.
    private var next: (parent: Descriptor, name: [UInt8])?
    /// Steps to tell before going on.
    private var waiting: [Step] = []

    /// Begins with a folder, held open.
    ///
    /// `device`: the file system to stay on. Without `looks` only names and kinds are told, and nothing is looked at
    /// that the listing says the kind of.
    init(
        _ folder: Descriptor, maximumDepth: Int? = nil, device: UInt64? = nil, readsLinks: Bool = false,
        looks: Bool = true
    ) throws(Errno) {
        self.maximumDepth = maximumDepth ?? .max
        self.device = device
        self.readsLinks = readsLinks
        self.looks = looks
        guard self.maximumDepth > 0 else { return }
        levels = [Level(folder: folder, listing: try Descriptor.Listing(of: folder), prefix: 0)]
    }

    /// Does not go into the folder told last.
    func skip() { next = nil }

    /// The next step; `nil` after the last.
    func step() -> Step? {
        if let step = waiting.popLast() { return step }
        if let step = descend() { return step }
        while let level = levels.last {
            let name: [UInt8]?
            do throws(Errno) {
                name = try level.listing.next()
            } catch {
                let problem = Step.problem(error.failure("list", Files.Path(bytes: leave())))
                if !levels.isEmpty { waiting = [.left] }
                return problem
            }
            guard let name else {
                _ = leave()
                return levels.isEmpty ? nil : .left
            }
            path.removeSubrange(level.prefix...)
            path += name
            depth = levels.count
            do throws(Errno) {
                if !looks, device == nil {
                    let reported = level.listing.kind
                    let kind = reported == UInt8(ascii: "?") ? try level.folder.info(name).letter : reported
                    if kind == UInt8(ascii: "d"), depth < maximumDepth { next = (level.folder, name) }
                    return .name(kind: kind)
                }
                let info = try level.folder.info(name)
                if info.kind == .folder, depth < maximumDepth, device == nil || info.device == device {
                    next = (level.folder, name)
                }
                let target = readsLinks && info.kind == .link ? try? level.folder.target(ofLink: name) : nil
                return .entry(info, target: target)
            } catch {
                // What has gone since is none of its business.
                if error == .notFound { continue }
                return .problem(error.failure("access", Files.Path(bytes: path)))
            }
        }
        return nil
    }

    /// Goes into the folder told last, if that is to be.
    private func descend() -> Step? {
        guard let (parent, name) = next else { return nil }
        next = nil
        let problem: KithError
        if levels.count >= TreeSource.maximumDepth {
            problem = KithError(
                .exhausted,
                "Cannot list \(Files.Path(bytes: path)): folders nest deeper than \(TreeSource.maximumDepth) levels."
            )
        } else {
            do throws(Errno) {
                let folder = try parent.open(name: name, [.path, .folder, .noFollow])
                let listing = try Descriptor.Listing(of: folder)
                path.append(UInt8(ascii: "/"))
                levels.append(Level(folder: folder, listing: listing, prefix: path.count))
                return nil
            } catch {
                if error == .notFound { return .left }
                problem = error.failure("look into", Files.Path(bytes: path))
            }
        }
        waiting = [.left]
        return .problem(problem)
    }

    /// Ends the innermost level; its path is the current one then.
    private func leave() -> [UInt8] {
        let level = levels.removeLast()
        path.removeSubrange(max(level.prefix - 1, 0)...)
        depth = levels.count
        return path
    }
}

extension Descriptor.Info {
    /// The letter of its kind in ``Files/PackedNames``.
    var letter: UInt8 { Files.PackedNames.letter(kind, special) }
}
