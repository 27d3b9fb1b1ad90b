import KithAPI
import KithCatalog
import KithIO
import KithWire
import Synchronization

/// Lists files and folders to the receiver, and sends the contents it asks for, a buffer at a time.
///
/// It runs on a ``DiskExecutor``; the channel's other end writes to the network meanwhile.
final class TreeSender {
    /// The receiver's answer about some files, in the order they were listed.
    enum Answer: Sendable {
        case send(files: UInt64)
        case notNeeded(files: UInt64)
        case difference(Basis)
    }

    /// The data the receiver already has for one file.
    struct Basis: Sendable {
        /// The hashes of the leaves of a transfer that was interrupted.
        var leaves: [UInt8] = []
        /// The chunks of the version it has.
        var chunks = ChunkTable()
        /// The hash of the version it has, when that may be the same.
        var root: [UInt8]?

        /// About how many bytes it takes.
        var cost: Int { leaves.count + chunks.count * ChunkTable.entryCount }
    }

    /// The bytes of bases that wait to be used.
    final class Held: Sendable {
        /// The most there may be; an honest receiver stays far below.
        static let maximum = 64 << 20
        private let bytes = Atomic(0)

        var isTooMuch: Bool { bytes.load(ordering: .relaxed) > Self.maximum }
        func add(_ count: Int) { bytes.add(count, ordering: .relaxed) }
    }

    /// The folders it holds open: one less deep than the protocol's bound for each that is begun while it waits.
    private static let maximumFolders = TransferFrame.maximumFolders - 8
    /// So many second names are remembered; further ones are sent as files of their own.
    private static let maximumHardLinks = 1 << 20

    /// A file that is listed and not answered for.
    private struct Pending {
        let file: TreeWalk.File
        /// About how many bytes of extended attributes the receiver holds for it.
        let cost: Int
    }

    private let sender: FileSender
    private let progress: TransferProgress
    private let answers: BoundedQueue<Answer>
    private let held: Held
    private let walk: TreeWalk
    private let selection: Files.Selection
    private let substreams: SendingSubstreams?

    private var isListed = false
    private var isComplete = true
    private var pending = Ring<Pending>()
    private var listed: UInt64 = 0
    private var linked: [Descriptor.Info.Identity: UInt64] = [:]
    /// The bytes the receiver holds for pending files: extended attributes, and further names.
    private var pendingCost = 0
    private var pendingLinks = 0
    private var linksOfPending: [UInt64: Int] = [:]

    init(
        _ sources: [TreeSource], selection: Files.Selection, output: BoundedQueue<FileSender.Outgoing>,
        answers: BoundedQueue<Answer>, held: Held, substreams: SendingSubstreams? = nil, progress: TransferProgress
    ) throws(KithError) {
        sender = FileSender(output: output, progress: progress, reportsTotal: true)
        self.held = held
        self.answers = answers
        self.substreams = substreams
        self.progress = progress
        self.selection = selection
        walk = TreeWalk(sources, leavingOut: try IgnoreRules(selection.exclude))
    }

    /// Sends all of the sources and the end of the transfer.
    ///
    /// What cannot be read beneath a source is left out, with the reason; a source itself that cannot be is an error.
    func send() async throws {
        try sender.greet(substreams == nil ? .confirmation : [.confirmation, .substreams])
        while true {
            try Task.checkCancellation()
            let count = try listAhead(64)
            if let answer = try answers.poll() {
                try await follow(answer)
            } else if count > 0 {
                // The receiver is to have something to answer soon.
                if sender.waiting >= 8 << 10 { try await sender.flush() }
            } else if isListed, pending.isEmpty {
                break
            } else {
                try await sender.flush()
                guard let answer = try await answers.receive() else {
                    throw KithError(.closed, "The other end stopped before all was sent. Run it again to go on.")
                }
                try await follow(answer)
            }
        }
        try await sender.flush()
        if let substreams, try await !substreams.finish() { isComplete = false }
        progress.isAllSent = true
        try put(.end(isComplete: isComplete))
        try await sender.flush()
    }

    // MARK: - Listing

    /// Lists what comes next, as far as the receiver may be ahead of us; returns how much.
    private func listAhead(_ limit: Int) throws -> Int {
        var count = 0
        while count < limit, !isListed, pending.count < TransferFrame.maximumListed,
            pending.isEmpty || mayListMore
        {
            guard let step = try walk.next() else {
                isListed = true
                break
            }
            count += 1
            try list(step)
        }
        return count
    }

    /// True while the files listed and not answered for leave room for more; the receiver bears twice as much.
    private var mayListMore: Bool {
        walk.open.count < Self.maximumFolders && pendingCost < TransferFrame.maximumWaitingExtended / 2
            && pendingLinks < TransferFrame.maximumWaitingLinks / 2
    }

    private func list(_ step: TreeWalk.Step) throws {
        switch step {
        case .folder(let folder, let name, let info):
            _ = try putExtended(of: folder.descriptor)
            try put(.folder(Self.attributes(name, info)))
        case .folderEnd(let isComplete):
            if !isComplete {
                self.isComplete = false
                try skip([], KithError(.internal, "A folder could not be listed to its end."))
            }
            try put(.folderEnd(isComplete: isComplete))
        case .file(let file): try list(file)
        case .link(let name, let info, let target): try put(.link(Self.attributes(name, info), target: target))
        case .skipped(let skipped): try skip(skipped)
        }
    }

    private func list(_ file: TreeWalk.File) throws {
        var flags: TransferFrame.FileFlags = []
        let info = file.info
        if info.allocated < info.size, info.size > UInt64(TransferFrame.maximumSmall) { flags.insert(.sparse) }
        if selection.hardLinks, info.links > 1 {
            if let first = linked[info.identity] {
                try put(.hardLink(name: file.name, to: first))
                noteLink(to: first)
                progress.add(bytes: info.size, files: 1)
                return
            }
            if linked.count < Self.maximumHardLinks {
                linked[info.identity] = listed
                flags.insert(.linked)
            }
        }
        var cost = 0
        if selection.attributes {
            do {
                let opened = try file.opened ?? file.folder?.descriptor.open(name: file.name, .noFollow)
                if let opened { cost = try putExtended(of: opened) }
            } catch let error as Errno {
                try skip(file.path, error.failure("read", Files.Path(bytes: file.path)))
                return
            }
        }
        try put(.file(Self.attributes(file.name, info), size: info.size, flags))
        listed += 1
        pendingCost += cost
        pending.append(Pending(file: file, cost: cost))
    }

    /// Notes a further name of a file, which waits at the receiver until that file is there.
    private func noteLink(to first: UInt64) {
        guard first >= listed - UInt64(pending.count) else { return }
        linksOfPending[first, default: 0] += 1
        pendingLinks += 1
    }

    /// Sends the extended attributes of what is listed next; returns about how many bytes they take there.
    private func putExtended(of file: Descriptor) throws -> Int {
        guard selection.attributes else { return 0 }
        let attributes = try ExtendedAttributes.read(file)
        try put(.extended(attributes))
        return ExtendedAttributes.cost(of: attributes)
    }

    // MARK: - Sending

    private func follow(_ answer: Answer) async throws {
        switch answer {
        case .send(let files):
            for _ in 0..<files {
                try Task.checkCancellation()
                try await send(try nextPending(), Basis())
                _ = try listAhead(2)
            }
        case .notNeeded(let files):
            for _ in 0..<files {
                progress.add(bytes: try nextPending().info.size, files: 1)
                _ = try listAhead(2)
                if sender.batchIsFull { try await sender.flush() }
            }
        case .difference(let basis):
            try await send(try nextPending(), basis)
            held.add(-basis.cost)
        }
    }

    private func nextPending() throws(KithError) -> TreeWalk.File {
        let index = listed - UInt64(pending.count)
        guard let next = pending.popFirst() else {
            throw KithError(.invalid, "The other end answered for more files than were listed.")
        }
        pendingCost -= next.cost
        pendingLinks -= linksOfPending.removeValue(forKey: index) ?? 0
        return next.file
    }

    /// Sends what is in the file when it is read, whatever size it had before.
    private func send(_ file: TreeWalk.File, _ basis: Basis) async throws {
        progress.begin(file.path)
        do {
            guard let opened = try file.opened ?? file.folder?.descriptor.open(name: file.name, .noFollow) else {
                return
            }
            // It may have become something else since it was listed.
            let info = try opened.info()
            guard info.kind == .file else {
                try put(.fileAbandoned)
                return try skip(
                    file.path, Errno.notRegular.failure("read", Files.Path(bytes: file.path)), isHarmless: true)
            }
            if try await deal(file, opened, info, basis) { return }
            try await sender.sendContents(of: opened, info, announced: file.info.size, basis)
        } catch let error as Errno {
            try put(.fileAbandoned)
            try skip(file.path, error.failure("read", Files.Path(bytes: file.path)))
            return
        }
        progress.add(files: 1)
    }

    /// Gives a file to a substream, when there are any and it is large enough; whether it did.
    private func deal(
        _ file: TreeWalk.File, _ opened: Descriptor, _ info: Descriptor.Info, _ basis: Basis
    ) async throws -> Bool {
        // Whether it is the very file the receiver has is said where it is asked.
        guard let substreams, info.size > UInt64(TransferFrame.maximumSmall), basis.root == nil else { return false }
        // The receiver is to know of the files before, which other substreams may be sending already.
        try await sender.flush()
        guard let substream = try await substreams.free() else { return false }
        try put(.elsewhere(substream: UInt8(substream)))
        try await sender.flush()
        try substreams.deal(
            SendingSubstreams.Job(
                file: opened, info: info, path: file.path, announced: file.info.size, basis: basis), to: substream)
        return true
    }

    // MARK: - Words

    private func skip(_ path: [UInt8], _ error: KithError, isHarmless: Bool = false) throws {
        try skip(Files.Skipped(path: Files.Path(bytes: path), failure: Files.Failure(error), isHarmless: isHarmless))
    }

    private func skip(_ skipped: Files.Skipped) throws {
        if !skipped.isHarmless { isComplete = false }
        progress.skip(skipped)
        try put(.skipped(skipped))
    }

    private func put(_ frame: TransferFrame) throws { try sender.put(frame) }

    private static func attributes(_ name: [UInt8], _ info: Descriptor.Info) -> TransferFrame.Attributes {
        TransferFrame.Attributes(
            name: name, mode: info.mode, seconds: info.seconds, nanoseconds: info.nanoseconds,
            identity: identity(of: info))
    }

    /// The number a file has on this device.
    static func identity(of info: Descriptor.Info) -> UInt64 {
        // A file system's numbers are small: mixed like this, no two files of a device are likely to share one.
        info.device &* 0x9E37_79B9_7F4A_7C15 ^ info.inode
    }
}
