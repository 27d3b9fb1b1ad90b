import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Notes what a walk could not look at: the first hundred in full.
struct WalkProblems {
    private(set) var count: UInt64 = 0
    private var untold: [Files.Skipped] = []

    /// Notes one.
    mutating func note(_ path: [UInt8], _ error: KithError) {
        count += 1
        if count <= 100 { untold.append(Files.Skipped(path: Files.Path(bytes: path), failure: Files.Failure(error))) }
    }

    /// Those noted since the last time.
    mutating func take() -> [Files.Skipped] {
        defer { untold = [] }
        return untold
    }
}

/// The beginning of a walk: the folder, held open, or what the path is instead of one.
struct WalkStart {
    let info: Descriptor.Info
    /// `nil` when the path is not a folder.
    let folder: Descriptor?
    let target: [UInt8]?

    /// Looks at a path without following a link in its last place, unless it ends in a slash.
    init(_ path: ConfinedPath) throws(KithError) {
        self = try attempt("access", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
            if !path.isFolder, let (folder, name) = try path.around() {
                let info = try folder.info(name)
                guard info.kind == .folder else {
                    let target = info.kind == .link ? try? folder.target(ofLink: name) : nil
                    return WalkStart(info: info, folder: nil, target: target)
                }
                return WalkStart(
                    info: info, folder: try folder.open(name: name, [.path, .folder, .noFollow]), target: nil)
            }
            let opened = try path.open([.path, .folder])
            return WalkStart(info: try opened.info(), folder: opened, target: nil)
        }
    }

    private init(info: Descriptor.Info, folder: Descriptor?, target: [UInt8]?) {
        self.info = info
        self.folder = folder
        self.target = target
    }
}

/// One `files.find`.
struct FolderSearch: Sendable {
    private let input: Files.Find.Input
    private let filter: FileCondition
    private let path: ConfinedPath
    private let clock: any Ticker
    private let now = Int64(time(nil))

    init(_ input: Files.Find.Input, _ context: CallContext, clock: any Ticker) throws(KithError) {
        self.input = input
        self.clock = clock
        filter = try FileCondition(input.filter)
        path = try ConfinedPath(input.path, .read, for: context)
    }

    /// Searches and tells.
    func run(_ pending: PendingStream<Files.Find>, on disk: DiskExecutor) async throws {
        let start = try await disk.run { try WalkStart(path) }
        let messages = try await pending.accept()
        var report = Files.Found()
        do {
            report = try await disk.run { try await search(start, messages) }
        } catch let error where !(error is CancellationError) {
            report.failure = Files.Failure(error)
        }
        report.isLast = true
        try await messages.send(report)
    }

    /// Sends all but the last message, and returns that; one is on its way while the next is put together.
    private func search(_ start: WalkStart, _ messages: MethodStream<Nothing, Files.Found>) async throws -> Files.Found
    {
        try await withThrowingTaskGroup(of: Void.self) { sending in
            let last = try await search(start) { report in
                try await sending.next()
                sending.addTask { try await messages.send(report) }
            }
            try await sending.waitForAll()
            return last
        }
    }

    /// Passes on all but the last message, and returns that.
    private func search(
        _ start: WalkStart, send: (Files.Found) async throws -> Void
    ) async throws -> Files.Found {
        var report = Files.Found()
        var size = 0
        var problems = WalkProblems()
        var deadline = clock.now + Self.patience
        let name = path.name ?? [UInt8(ascii: "/")]
        let names = input.details == true ? AccountNames() : nil
        func entry(_ path: [UInt8], _ info: Descriptor.Info, _ target: [UInt8]?) -> Files.Entry {
            var entry = FilesService.entry(Files.Path(bytes: path), info, target)
            names?.describe(&entry, info)
            return entry
        }
        if input.minimumDepth == 0, matches(start.info, name: name, path: []) {
            report.entries.append(entry([], start.info, start.target))
        }
        guard let folder = start.folder else { return report }
        if input.namesOnly == true, filter.isAlwaysMet, input.details != true, !input.oneFileSystem {
            return try await listNames(in: folder, after: report, send: send)
        }
        let walk = try attempt("search", path.shown) { () throws(Errno) in
            try FolderWalk(
                folder, maximumDepth: input.maximumDepth.map { Int($0) },
                device: input.oneFileSystem ? start.info.device : nil, readsLinks: true)
        }
        var visited = 0
        while let step = walk.step() {
            switch step {
            case .entry(let info, let target):
                if walk.depth >= input.minimumDepth,
                    matches(info, name: Self.lastName(of: walk.path), path: walk.path)
                {
                    report.entries.append(entry(walk.path, info, target))
                    size += walk.path.count + (target?.count ?? 0)
                }
            case .problem(let error): problems.note(walk.path, error)
            case .left, .name: break  // this walk looks at everything
            }
            visited += 1
            guard visited % 64 == 0 || size > Self.messageSize else { continue }
            try Task.checkCancellation()
            guard report.entries.count >= 512 || size > Self.messageSize || clock.now >= deadline else {
                continue
            }
            if !report.entries.isEmpty {
                report.skipped = problems.take()
                report.skippedCount = problems.count
                try await send(report)
                report = Files.Found()
                size = 0
            }
            deadline = clock.now + Self.patience
        }
        report.skipped = problems.take()
        report.skippedCount = problems.count
        return report
    }

    /// The same where only names are wanted and nothing is asked about them: what the listings say is enough.
    private func listNames(
        in folder: Descriptor, after begun: Files.Found, send: (Files.Found) async throws -> Void
    ) async throws -> Files.Found {
        let walk = try attempt("search", path.shown) { () throws(Errno) in
            try FolderWalk(folder, maximumDepth: input.maximumDepth.map { Int($0) }, looks: false)
        }
        var report = begun
        var packed: [UInt8] = []
        var problems = WalkProblems()
        var deadline = clock.now + Self.patience
        var visited = 0
        while let step = walk.step() {
            switch step {
            case .name(let kind):
                if walk.depth >= input.minimumDepth { Files.PackedNames.append(walk.path, kind: kind, to: &packed) }
            case .problem(let error): problems.note(walk.path, error)
            case .left, .entry: break  // this walk looks at nothing
            }
            visited += 1
            guard visited % 256 == 0 || packed.count > Self.messageSize else { continue }
            try Task.checkCancellation()
            guard packed.count > Self.messageSize || clock.now >= deadline else { continue }
            if !packed.isEmpty {
                report.names = ByteString(packed)
                report.skipped = problems.take()
                report.skippedCount = problems.count
                try await send(report)
                report = Files.Found()
                packed.removeAll(keepingCapacity: true)
            }
            deadline = clock.now + Self.patience
        }
        if !packed.isEmpty { report.names = ByteString(packed) }
        report.skipped = problems.take()
        report.skippedCount = problems.count
        return report
    }

    /// The longest that something found waits for more.
    private static let patience = Duration.milliseconds(50)
    /// So many bytes of paths go into one message, and one path more.
    private static let messageSize = 64 << 10

    private func matches(_ info: Descriptor.Info, name: @autoclosure () -> [UInt8], path: [UInt8]) -> Bool {
        if filter.isAlwaysMet { return true }
        let age = UInt64(clamping: now.saturatingSubtracting(info.seconds))
        let subject = FileCondition.Subject(
            kind: info.kind, special: info.special, size: info.size, age: age, name: name())
        return filter.isMet(by: subject) { input.path.appending(path).bytes } == .yes
    }

    static func lastName(of path: [UInt8]) -> [UInt8] {
        path.lastIndex(of: UInt8(ascii: "/")).map { Array(path[($0 + 1)...]) } ?? path
    }
}

/// One `files.usage`.
struct FolderUsage: Sendable {
    private let input: Files.Usage.Input
    private let path: ConfinedPath

    init(_ input: Files.Usage.Input, _ context: CallContext) throws(KithError) {
        self.input = input
        path = try ConfinedPath(input.path, .read, for: context)
    }

    /// A file that has several names.
    private struct Identity: Hashable {
        var device: UInt64
        var inode: UInt64
    }

    /// So many files with several names are remembered; beyond, each name counts.
    private static let maximumLinks = 1 << 20

    /// Adds up and tells.
    func run(_ pending: PendingStream<Files.Usage>, on disk: DiskExecutor) async throws {
        let start = try await disk.run { try WalkStart(path) }
        let messages = try await pending.accept()
        var report = Files.Used()
        do {
            report = try await disk.run { try await add(start, messages) }
        } catch let error where !(error is CancellationError) {
            report.failure = Files.Failure(error)
        }
        report.isLast = true
        try await messages.send(report)
    }

    /// Sends all but the last message, and returns that.
    private func add(_ start: WalkStart, _ messages: MethodStream<Nothing, Files.Used>) async throws -> Files.Used {
        var report = Files.Used()
        var size = 0
        var problems = WalkProblems()
        var counted: Set<Identity> = []
        // The folder it began with, and each one it is in.
        var sums = [Self.own(start.info)]
        func item(_ path: [UInt8], _ sum: (allocated: UInt64, apparent: UInt64)) -> Files.Used.Item {
            Files.Used.Item(path: Files.Path(bytes: path), allocated: sum.allocated, apparent: sum.apparent)
        }
        if let folder = start.folder {
            let walk = try attempt("add up", path.shown) { () throws(Errno) in
                try FolderWalk(folder, device: input.oneFileSystem ? start.info.device : nil)
            }
            var visited = 0
            while let step = walk.step() {
                switch step {
                case .entry(let info, _):
                    if input.oneFileSystem, info.device != start.info.device { break }
                    if info.kind == .folder {
                        sums.append(Self.own(info))
                        break
                    }
                    if info.links > 1 {
                        let identity = Identity(device: info.device, inode: info.inode)
                        if counted.contains(identity) { break }
                        if counted.count < Self.maximumLinks { counted.insert(identity) }
                    }
                    let own = Self.own(info)
                    sums[sums.count - 1].allocated.saturatingAdd(own.allocated)
                    sums[sums.count - 1].apparent.saturatingAdd(own.apparent)
                    if input.files, walk.depth <= Int(input.maximumDepth ?? .max) {
                        report.items.append(item(walk.path, own))
                        size += walk.path.count
                    }
                case .left:
                    let sum = sums.removeLast()
                    sums[sums.count - 1].allocated.saturatingAdd(sum.allocated)
                    sums[sums.count - 1].apparent.saturatingAdd(sum.apparent)
                    if walk.depth <= Int(input.maximumDepth ?? .max) {
                        report.items.append(item(walk.path, sum))
                        size += walk.path.count
                    }
                case .problem(let error): problems.note(walk.path, error)
                case .name: break  // this walk looks at everything
                }
                visited += 1
                if visited % 64 == 0 { try Task.checkCancellation() }
                if report.items.count >= 1_024 || size > 64 << 10 {
                    report.skipped = problems.take()
                    report.skippedCount = problems.count
                    try await messages.send(report)
                    report = Files.Used()
                    size = 0
                }
            }
        }
        report.items.append(item([], sums[0]))
        report.skipped = problems.take()
        report.skippedCount = problems.count
        return report
    }

    /// Returns what one file takes; a folder's own size does not count as contents.
    private static func own(_ info: Descriptor.Info) -> (allocated: UInt64, apparent: UInt64) {
        (info.allocated, info.kind == .file || info.kind == .link ? info.size : 0)
    }
}
