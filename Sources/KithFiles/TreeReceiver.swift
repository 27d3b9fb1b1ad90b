import CKithSystem
import KithAPI
import KithCatalog
import KithIO
import KithWire

/// Puts what arrives in place, beneath one folder, through descriptors alone.
///
/// Every name is one component in a folder held open; no link is followed. A file gets its name when all of it has
/// arrived and its hash agrees; so does a whole new folder, which until then lies beside under a name of its own.
/// For each file that is listed it says what of it is wanted. It runs on a ``DiskExecutor``.
final class TreeReceiver {
    let options: Files.ReceiveOptions
    /// The kind of transfer it receives.
    let origin: Transfer.Origin
    let progress: TransferProgress
    let answers: AnswerQueue
    let active: ActivePartials
    let takenOver: @Sendable () -> Void
    let keeping = Partial.Keeping()
    let rules: IgnoreRules
    let destination: Files.Path
    /// The tree the sender was asked for; `nil` where the sender is the one that asks.
    private var requested: RequestedTree?
    /// The destination, when it is a folder that becomes the folder sent.
    private let exactFolder: Descriptor?
    /// The new name of the one thing sent, when the destination is not a folder.
    private let newName: [UInt8]?
    private var levels: [ReceivedFolder]
    private var folderCount = 0
    private var topCount = 0
    private var extended: [TransferFrame.ExtendedAttribute]?
    /// About how many bytes those of the files and folders take that are not done.
    private var extendedCost = 0
    private var hasGreeted = false
    /// True when the next thing left out is the file just given up.
    private var hasAbandoned = false

    /// The files listed and not yet answered for, and those wanted whose contents have not come yet.
    var pending = Ring<ReceivedFile>()
    var wanted = Ring<ReceivedFile>()
    var listed: UInt64 = 0
    /// Answers of one kind in a row that are not sent yet.
    var toSend: UInt64 = 0
    var notNeeded: UInt64 = 0
    /// The bytes the sender holds for the files wanted.
    var cost = 0
    var planned = 0
    var contents: ReceivedContents?
    let substreams: ReceivingSubstreams?
    /// The files whose contents come over each substream, and the one of each that is arriving; how many they are.
    var waitingOnSubstreams: [Int: Ring<ReceivedFile>] = [:]
    var arrivingOnSubstreams: [Int: ReceivedContents] = [:]
    var substreamFiles = 0
    /// The folder of the file begun last.
    var lastBegun: ReceivedFolder?
    /// The speed at which contents have come.
    var speed = ArrivalSpeed()

    /// The files hard links may be made to, by their number in the listing.
    private var targets: [UInt64: LinkTarget] = [:]
    private var waitingLinks = 0
    /// The things here that the source does not have.
    var toDelete: [(folder: ReceivedFolder, name: [UInt8])] = []
    private var isSourceComplete = true
    var summary = Files.Summary()

    /// True when what is not whole stays for a transfer that goes on with it; set before the receiver goes.
    var isInterrupted: Bool {
        get { keeping.isOn }
        set { keeping.isOn = newValue }
    }

    private final class LinkTarget {
        let folder: ReceivedFolder
        let name: [UInt8]
        var isDone = false
        var waiting: [(folder: ReceivedFolder, name: [UInt8])] = []

        init(_ folder: ReceivedFolder, _ name: [UInt8]) {
            self.folder = folder
            self.name = name
        }
    }

    private static let maximumTargets = 1 << 20

    /// Opens the destination: a folder that is there, or the parent folder of a name that is not.
    init(
        _ path: ConfinedPath, options: Files.ReceiveOptions, origin: Transfer.Origin = .copy,
        requested: RequestedTree? = nil,
        answers: AnswerQueue, active: ActivePartials, progress: TransferProgress,
        substreams: ReceivingSubstreams? = nil,
        takenOver: @escaping @Sendable () -> Void
    ) throws {
        self.options = options
        self.origin = origin
        self.requested = requested
        self.substreams = substreams
        self.progress = progress
        self.answers = answers
        self.active = active
        self.takenOver = takenOver
        rules = try IgnoreRules(options.exclude)
        destination = path.shown
        let confined = path.isBeneathGrant
        var base = path.shown.bytes
        while base.last == UInt8(ascii: "/") { base.removeLast() }
        let folder: Descriptor
        // An earlier copy, or an attempt of this one that was cut, may have put the link there.
        let followsLink = !options.exact && requested?.isRecursive != true
        if !followsLink { try path.refuseLinkToFolder() }
        do throws(Errno) {
            folder = try followsLink ? path.open(.folder) : path.openFolderItself()
            exactFolder = options.exact ? folder : nil
            newName = nil
        } catch {
            guard error == .notFound || error == .notAFolder, !options.intoFolder, !path.isFolder || options.exact
            else {
                throw error.failure("copy into", path.shown, confined: confined)
            }
            (folder, newName) = try path.parent()
            exactFolder = nil
        }
        levels = [ReceivedFolder(folder, in: nil, name: [], path: base, relative: nil, isNew: false, isHidden: false)]
        guard requested?.isUnnamed != true || newName != nil || exactFolder != nil else {
            throw KithError(
                .conflict, "Cannot copy into \(path.shown): a folder has come there meanwhile. Try it again.")
        }
        if !options.dryRun { Partial.removeStale(in: folder) }
    }

    /// Takes the next message; `true` after the last.
    func take(_ frame: TransferFrame) throws -> Bool {
        if !hasGreeted {
            switch frame {
            case .hello(let version, _): try Transfer.check(version: version)
            case .failure(let failure): throw RemoteFailure(error: failure.error)
            default: throw Self.outOfOrder
            }
            hasGreeted = true
            return false
        }
        try requested?.take(frame)
        switch frame {
        case .data(let data): try write(data)
        case .small(let root, let data): try small(root, data)
        case .hole(let length): try hole(length)
        case .kept(let leaves): try keep(leaves)
        case .copied(let offset, let length): try copy(offset, length)
        case .fileEnd(let root): try finishFile(root)
        case .same: try same()
        case .elsewhere(let substream): try announce(on: Int(substream))
        case .fileAbandoned:
            try abandonFile()
            hasAbandoned = true
        case .skipped(let skipped): try skip(skipped)
        case .total(let bytes, let files): progress.addTotal(bytes: bytes, files: files)
        case .extended(let attributes): extended = attributes
        case .folder(let attributes):
            try beginEntry(attributes.name)
            try beginFolder(attributes)
        case .folderEnd(let isComplete): try endFolder(isComplete)
        case .file(let attributes, let size, let flags):
            try beginEntry(attributes.name)
            try list(attributes, size, flags)
        case .link(let attributes, let target):
            try beginEntry(attributes.name)
            try makeLink(attributes, target)
        case .hardLink(let name, let target):
            try beginEntry(name)
            try makeHardLink(name, to: target)
        case .end(let isComplete):
            guard contents == nil, levels.count == 1, pending.isEmpty, wanted.isEmpty, substreamFiles == 0,
                waitingLinks == 0
            else { throw Self.outOfOrder }
            try deleteExtraneous(isComplete && isSourceComplete)
            if options.sync, !options.dryRun, let folder = levels[0].descriptor {
                try attempt("sync", destination) { () throws(Errno) in try folder.sync() }
            }
            return true
        case .failure(let failure): throw RemoteFailure(error: failure.error)
        default: throw Self.outOfOrder
        }
        return false
    }

    private func beginEntry(_ name: [UInt8]) throws {
        if levels.count == 1 {
            topCount += 1
            guard newName == nil && exactFolder == nil || topCount == 1 else {
                throw KithError(.conflict, "Cannot copy several things to \(destination): it is not a folder.")
            }
        }
        try noteListed(name)
    }

    /// The name something gets in the folder being filled.
    private func receivedName(_ name: [UInt8]) -> [UInt8] { levels.count == 1 ? newName ?? name : name }

    /// The folder being filled.
    var level: ReceivedFolder { levels[levels.count - 1] }

    /// Notes that the source has a name, in the folder being filled.
    private func noteListed(_ name: [UInt8]) throws {
        guard level.listed != nil, let descriptor = level.descriptor else { return }
        try attempt("access", shown(name, in: level)) { () throws(Errno) in
            try level.listed?.insert(name, in: descriptor)
        }
    }

    /// The extended attributes of what is listed now, counted until ``returnBudget(_:)``.
    private func takeExtended() throws -> [TransferFrame.ExtendedAttribute]? {
        defer { extended = nil }
        // Access lists are modes by another name.
        guard origin == .copy else { return nil }
        extendedCost += ExtendedAttributes.cost(of: extended ?? [])
        guard extendedCost <= TransferFrame.maximumWaitingExtended else {
            throw KithError(.exhausted, "The other end lists too many extended attributes at once.")
        }
        return extended
    }

    private func returnBudget(_ extended: [TransferFrame.ExtendedAttribute]?) {
        extendedCost -= ExtendedAttributes.cost(of: extended ?? [])
    }

    // MARK: - Folders

    private func beginFolder(_ attributes: TransferFrame.Attributes) throws {
        guard levels.count <= TreeSource.maximumDepth else {
            throw KithError(
                .exhausted,
                "Cannot copy into \(destination): folders nest deeper than \(TreeSource.maximumDepth) levels.")
        }
        folderCount += 1
        guard folderCount <= TransferFrame.maximumFolders else { throw Self.outOfOrder }
        let parent = level
        let name = receivedName(attributes.name)
        let extended = try takeExtended()
        parent.open += 1
        let isExact = levels.count == 1 && exactFolder != nil
        let shownPath = isExact ? Files.Path(bytes: parent.path) : shown(name, in: parent)
        @discardableResult func begin(
            _ descriptor: Descriptor?, isNew: Bool, isHidden: Bool, partial: Partial? = nil
        ) throws -> ReceivedFolder {
            let folder = ReceivedFolder(
                descriptor, in: parent, name: name, path: shownPath.bytes,
                relative: parent.relative(of: name) ?? [], isNew: isNew, isHidden: isHidden)
            folder.partial = partial
            folder.extended = extended
            if isHidden || (options.exact && options.preserve) { folder.attributes = attributes }
            if let descriptor, !isNew, isHidden || options.delete {
                folder.listed = try attempt("list", shownPath) { () throws(Errno) in try ListedNames(in: descriptor) }
            }
            levels.append(folder)
            return folder
        }
        if isExact {
            try begin(exactFolder, isNew: false, isHidden: false).isItsParent = true
            return
        }
        guard let around = parent.descriptor else {
            try begin(nil, isNew: true, isHidden: true)
            summary.folders += 1
            note(parent, name, .new)
            return
        }
        var existing = parent.isNew ? nil : try present(name, in: parent)
        if existing == .folder {
            let descriptor = try attempt("open the folder", shownPath) { () throws(Errno) in
                try around.open(name: name, [.folder, .noFollow])
            }
            if parent.isHidden {
                // It may have been left with a mode that lets nobody write.
                try attempt("open the folder", shownPath) { () throws(Errno) in try descriptor.setMode(0o700) }
            } else if !options.dryRun {
                Partial.removeStale(in: descriptor)
            }
            try begin(descriptor, isNew: false, isHidden: parent.isHidden)
            return
        }
        if existing != nil, parent.isHidden {
            _ = try Removal.removeTree(name, from: around)
            existing = nil
        }
        guard existing == nil || options.delete else {
            throw KithError(.conflict, "Cannot make the folder \(shownPath): a file of that name is there.")
        }
        summary.folders += 1
        note(parent, name, existing == nil ? .new : .changed)
        if options.dryRun {
            try begin(nil, isNew: true, isHidden: true)
        } else if parent.isHidden {
            let descriptor = try attempt("make the folder", shownPath) { () throws(Errno) in
                try around.makeFolder(name, mode: 0o700)
                return try around.open(name: name, [.folder, .noFollow])
            }
            try begin(descriptor, isNew: true, isHidden: true)
        } else {
            let key = Partial.Key(name: name, identity: attributes.identity)
            let partial = try attempt("make the folder", shownPath) { () throws(Errno) in
                try Partial.resume(
                    key, in: around, isFolder: true, mode: 0o700, keeping: keeping, active: active,
                    takenOver: takenOver)
            }
            let folder = try begin(partial.descriptor, isNew: !partial.isResumed, isHidden: true, partial: partial)
            folder.replaces = existing != nil
        }
    }

    private func endFolder(_ isComplete: Bool) throws {
        guard levels.count > 1 else { throw Self.outOfOrder }
        let folder = levels.removeLast()
        if !isComplete {
            folder.isListedWhole = false
            isSourceComplete = false
        }
        try release(folder)
    }

    /// Notes that something of a folder is done; when all is, puts it in place.
    func release(_ folder: ReceivedFolder) throws {
        folder.open -= 1
        guard folder.open == 0 else { return }
        folderCount -= 1
        if let descriptor = folder.descriptor { try complete(folder, descriptor) }
        returnBudget(folder.extended)
        folder.close()
        if let parent = folder.parent { try release(parent) }
    }

    private func complete(_ folder: ReceivedFolder, _ descriptor: Descriptor) throws {
        if let listed = folder.listed, folder.isListedWhole {
            if folder.isHidden {
                try removeOthers(than: listed, from: descriptor)
            } else if folder.relative != nil {
                try markExtraneous(beyond: listed, in: folder, descriptor)
            }
        }
        guard !options.dryRun else { return }
        try attempt("put in place", Files.Path(bytes: folder.path)) { () throws(Errno) in
            if let attributes = folder.attributes {
                if let extended = folder.extended { try ExtendedAttributes.write(extended, to: descriptor) }
                try descriptor.setMode(mode(of: attributes))
                if options.preserve { try descriptor.setModified(attributes.seconds, attributes.nanoseconds) }
            }
            if options.sync { try descriptor.sync() }
            if folder.replaces { try folder.parent?.descriptor?.remove(folder.name) }
            try folder.partial?.commit(as: folder.name, overwrite: false)
        }
    }

    /// True when files get the permission bits they have at the source.
    var keepsModes: Bool { options.preserve && origin == .copy }

    /// The mode a folder that is whole gets.
    private func mode(of folder: TransferFrame.Attributes) -> UInt32 {
        switch origin {
        case .download: 0o777 & ~kith_umask()
        case .copy: keepsModes ? folder.mode & 0o777 : 0o755
        }
    }

    // MARK: - Links

    private func makeLink(_ attributes: TransferFrame.Attributes, _ target: [UInt8]) throws {
        extended = nil
        let parent = level
        let name = receivedName(attributes.name)
        let path = shown(name, in: parent)
        guard let folder = parent.descriptor else { return noteLink(parent, name, .new) }
        let existing = parent.isNew ? nil : try present(name, in: parent)
        if existing == .link, (try? folder.target(ofLink: name)) == target {
            guard options.preserve, !options.dryRun, options.overwrite || parent.isHidden else { return }
            return try attempt("change", path) { () throws(Errno) in
                try folder.setModified(attributes.seconds, attributes.nanoseconds, of: name)
            }
        }
        guard existing != .folder || parent.isHidden || options.delete else {
            throw KithError(.conflict, "Cannot make the link \(path): a folder of that name is there.")
        }
        if existing != nil, !options.overwrite, !parent.isHidden { return leaveOut(path) }
        if options.dryRun {
            guard try existing != .folder || makeWay(for: name, in: parent, folder) else { return }
            return noteLink(parent, name, existing == nil ? .new : .changed)
        }
        let made = existing == nil ? name : Partial.freshName()
        var isInPlace = false
        // What cannot be removed is a link under a name nobody asks for.
        defer { if !isInPlace, existing != nil { try? folder.remove(made) } }
        try attempt("make the link", path) { () throws(Errno) in
            try folder.makeLink(made, to: target)
            if options.preserve { try folder.setModified(attributes.seconds, attributes.nanoseconds, of: made) }
        }
        if existing != nil {
            guard try existing != .folder || makeWay(for: name, in: parent, folder) else { return }
            try attempt("make the link", path) { () throws(Errno) in
                try folder.rename(made, to: name, in: folder, overwrite: true)
            }
        }
        isInPlace = true
        noteLink(parent, name, existing == nil ? .new : .changed)
    }

    private func noteLink(_ folder: ReceivedFolder, _ name: [UInt8], _ kind: Files.Change.Kind) {
        summary.links += 1
        note(folder, name, kind)
    }

    private func makeHardLink(_ name: [UInt8], to target: UInt64) throws {
        extended = nil
        guard let target = targets[target] else {
            throw KithError(.invalid, "The other end sent a second name of a file that was not listed.")
        }
        let (folder, name) = (level, receivedName(name))
        if target.isDone { return try link(target, to: name, in: folder) }
        guard waitingLinks < TransferFrame.maximumWaitingLinks else {
            throw KithError(.exhausted, "The other end lists too many further names of files it has not sent.")
        }
        folder.open += 1
        waitingLinks += 1
        target.waiting.append((folder, name))
    }

    /// Notes that a file is done: in place, or never to be; makes the further names that wait for it.
    func finish(_ file: ReceivedFile, isThere: Bool) throws {
        returnBudget(file.extended)
        guard let target = targets[file.index] else { return }
        target.isDone = true
        if !isThere { targets[file.index] = nil }
        for (folder, name) in target.waiting {
            waitingLinks -= 1
            if isThere { try link(target, to: name, in: folder) } else { summary.skipped += 1 }
            try release(folder)
        }
        target.waiting = []
    }

    private func link(_ target: LinkTarget, to name: [UInt8], in folder: ReceivedFolder) throws {
        let path = shown(name, in: folder)
        guard let descriptor = folder.descriptor, !options.dryRun else { return note(folder, name, .new) }
        do throws(Errno) {
            let from = try target.folder.reopened()
            let info = try from.info(target.name)
            var existing: Descriptor.Info?
            do throws(Errno) { existing = try descriptor.info(name) } catch .notFound {}
            if let there = existing, there.inode == info.inode, there.device == info.device {
                summary.unchanged += 1
                return
            }
            if existing?.kind == .folder { throw .isAFolder }
            if existing != nil, !options.overwrite, !folder.isHidden { return leaveOut(path) }
            let made = existing == nil ? name : Partial.freshName()
            try from.link(target.name, to: made, in: descriptor)
            if existing != nil { try descriptor.rename(made, to: name, in: descriptor, overwrite: true) }
            summary.files += 1
            note(folder, name, existing == nil ? .new : .changed)
        } catch {
            throw error.failure("make the second name", path)
        }
    }

    // MARK: - Listing

    private func list(
        _ attributes: TransferFrame.Attributes, _ size: UInt64, _ flags: TransferFrame.FileFlags
    ) throws {
        guard pending.count + wanted.count < TransferFrame.maximumListed else { throw Self.outOfOrder }
        var attributes = attributes
        attributes.name = receivedName(attributes.name)
        let file = ReceivedFile(
            folder: level, attributes: attributes, size: size, flags: flags, extended: try takeExtended(),
            index: listed)
        if flags.contains(.linked) {
            guard targets.count < Self.maximumTargets else { throw Self.outOfOrder }
            targets[listed] = LinkTarget(level, attributes.name)
        }
        level.open += 1
        listed += 1
        pending.append(file)
    }

    // MARK: - Words

    func present(_ name: [UInt8], in folder: ReceivedFolder) throws(KithError) -> Files.Kind? {
        guard let descriptor = folder.descriptor else { return nil }
        do throws(Errno) {
            return try descriptor.info(name).kind
        } catch .notFound {
            return nil
        } catch {
            throw error.failure("access", shown(name, in: folder))
        }
    }

    func skip(_ skipped: Files.Skipped) throws {
        summary.skipped += 1
        progress.skip(skipped)
        if hasAbandoned {
            hasAbandoned = false
        } else if let name = skipped.path.bytes.split(separator: UInt8(ascii: "/")).last {
            // What the source has and cannot send is not what it does not have.
            try noteListed(Array(name))
        }
    }

    /// Says to both ends that something stays as it is, because it is there.
    func leaveOut(_ path: Files.Path) {
        leaveOut(
            Files.Skipped(
                path: path, failure: Files.Failure(code: .conflict, message: "It is there already."),
                isHarmless: true))
    }

    /// Says to both ends that something is left out.
    func leaveOut(_ skipped: Files.Skipped) {
        summary.skipped += 1
        progress.skip(skipped)
        // What cannot be queued any more has its count in the summary.
        try? answers.put(.skipped(skipped))
    }

    func note(_ folder: ReceivedFolder, _ name: [UInt8], _ kind: Files.Change.Kind) {
        guard options.report else { return }
        let change = Files.Change(path: shown(name, in: folder), kind: kind)
        progress.note(change)
        // A report only: the summary has the numbers.
        try? answers.put(.change(change))
    }

    private func path(of name: [UInt8], in folder: ReceivedFolder) -> [UInt8] {
        if folder.parent == nil, newName != nil { return folder.path }
        return folder.path + [UInt8(ascii: "/")] + name
    }

    /// Makes the path of something that has no name of its own yet.
    func path(ofPartial partial: Partial, in folder: ReceivedFolder) -> Files.Path {
        guard folder.parent == nil, newName != nil else { return shown(partial.name, in: folder) }
        let around = folder.path.lastIndex(of: UInt8(ascii: "/")).map { Array(folder.path[...$0]) } ?? []
        return Files.Path(bytes: around + partial.name)
    }

    /// The path of a name in a folder, from the destination on.
    func shown(_ name: [UInt8], in folder: ReceivedFolder) -> Files.Path {
        Files.Path(bytes: path(of: name, in: folder))
    }

    static var outOfOrder: KithError {
        KithError(.invalid, "The other end sent the messages of a transfer out of order.")
    }
}
