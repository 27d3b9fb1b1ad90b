import Crypto
import KithAPI
import KithIO
import KithIdentity
public import KithNode
package import KithWire
public import Logging

/// Files for the devices that hold a `files` grant, and copies for this device's own person.
///
/// Whatever a path, a link or a race says, the kernel keeps a caller beneath the folder it was granted.
public struct FilesService: Service {
    private let logger: Logger
    private let clock: any Ticker
    private let disk = DiskExecutor()
    private let active = ActivePartials()
    private let slots = SubstreamSlots()

    /// Makes the service.
    public init(logger: Logger) { self.init(logger: logger, clock: ContinuousClock()) }

    /// Makes the service; rates, retries and following go by `clock`.
    package init(logger: Logger, clock: any Ticker) {
        self.logger = logger
        self.clock = clock
    }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Files.List.self) { input, context in try await onDisk { try list(input, context) } }.limited(to: 32),
            .call(Files.Stat.self) { input, context in try await onDisk { try stat(input, context) } },
            .call(Files.Exists.self) { input, context in try await onDisk { try exists(input, context) } },
            .call(Files.MakeFolder.self) { input, context in try await onDisk { try makeFolder(input, context) } },
            .call(Files.Rename.self) { input, context in try await onDisk { try rename(input, context) } },
            .call(Files.Delete.self) { input, context in try await onDisk { try delete(input, context) } },
            .stream(Files.Read.self) { try await read($0, $1, $2) }.limited(to: 256),
            .stream(Files.Write.self) { try await write($0, $1, $2) }.limited(to: 128),
            .stream(Files.Pull.self) { try await pull($0, $1, $2) }.limited(to: 128),
            .stream(Files.Push.self) { try await push($0, $1, $2) }.limited(to: 128),
            .stream(Files.Substream.self) { try await slots.join($0, $1, $2) },
            .stream(Files.Find.self) { try await FolderSearch($0, $1, clock: clock).run($2, on: disk) }.limited(to: 16),
            .stream(Files.Usage.self) { try await FolderUsage($0, $1).run($2, on: disk) }.limited(to: 16),
            .stream(Files.Follow.self) { try await FileFollowing($0, $1, clock: clock).run($2, on: disk) }
                .limited(to: 64).endingAtShutdown(),
            .stream(Files.Duplicate.self) { input, context, pending in
                let job = try await onDisk { try DuplicateJob(input, for: context, clock: clock) }
                try await job.run(on: disk, active: active, reportingTo: try await pending.accept())
            }.limited(to: 8),
            .stream(Files.Copy.self) { input, context, pending in
                let job = try CopyJob(input, for: context, disk: disk, active: active, clock: clock)
                try await job.run(reportingTo: try await pending.accept())
            },
        ]
    }

    private func onDisk<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await disk.run { try work() }
    }

    // MARK: - Looking

    private func list(_ input: Files.List.Input, _ context: CallContext) throws -> Files.List.Output {
        let path = try ConfinedPath(input.path, .read, for: context)
        let opened = try attempt("list", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
            try path.open()
        }
        let own = try attempt("list", path.shown) { () throws(Errno) in try opened.info() }
        guard own.kind == .folder else {
            return Files.List.Output(entries: [Self.entry(input.path, own)], hasMore: false)
        }
        guard input.limit > 0 else {
            throw KithError(.invalid, "`limit` must be 1 or more; at most 2000 entries come.")
        }
        var page = NamePage(after: input.after?.bytes, limit: min(input.limit, 2_000))
        try attempt("list", path.shown) { () throws(Errno) in try opened.forEachName { page.add($0) } }
        let (names, hasMore) = page.finish()
        let entries = names.compactMap { name -> Files.Entry? in
            // One that vanished since is not listed.
            guard let info = try? opened.info(name) else { return nil }
            let target = info.kind == .link ? try? opened.target(ofLink: name) : nil
            return Self.entry(Files.Path(bytes: name), info, target)
        }
        return Files.List.Output(entries: entries, hasMore: hasMore)
    }

    private func stat(_ input: Files.Stat.Input, _ context: CallContext) throws -> Files.Entry {
        let path = try ConfinedPath(input.path, .read, for: context)
        return try attempt("access", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
            let (info, target) = try Self.info(path, followsLinks: input.followsLinks)
            var entry = Self.entry(input.path, info, target)
            AccountNames().describe(&entry, info)
            entry.allocated = info.allocated
            entry.inode = info.inode
            entry.absolute = path.absolute
            return entry
        }
    }

    private func exists(_ input: Files.Exists.Input, _ context: CallContext) throws -> Files.Exists.Output {
        let path = try ConfinedPath(input.path, .read, for: context)
        do throws(Errno) {
            return Files.Exists.Output(kind: try Self.info(path, followsLinks: false).info.kind)
        } catch {
            guard error == .notFound || error == .notAFolder else {
                throw error.failure("access", path.shown, confined: path.isBeneathGrant)
            }
            return Files.Exists.Output(kind: nil)
        }
    }

    private static func info(
        _ path: ConfinedPath, followsLinks: Bool
    ) throws(Errno) -> (info: Descriptor.Info, target: [UInt8]?) {
        guard !followsLinks, let (folder, name) = try path.around() else {
            return (try path.open(.path).info(), nil)
        }
        let info = try folder.info(name)
        return (info, info.kind == .link ? try folder.target(ofLink: name) : nil)
    }

    static func entry(
        _ name: Files.Path, _ info: Descriptor.Info, _ target: [UInt8]? = nil
    ) -> Files.Entry {
        Files.Entry(
            name: name, kind: info.kind, size: info.size, mode: info.mode, modified: info.seconds,
            modifiedNanoseconds: info.nanoseconds, user: info.user, group: info.group,
            target: target.map { Files.Path(bytes: $0) }, special: info.special, deviceNumbers: info.deviceNumbers)
    }

    // MARK: - Changing

    private func makeFolder(_ input: Files.MakeFolder.Input, _ context: CallContext) throws -> Nothing {
        let path = try ConfinedPath(input.path, .write, for: context)
        let mode = input.mode & 0o777
        guard input.parents else {
            let (folder, name) = try path.parent()
            try attempt("make the folder", path.shown) { () throws(Errno) in
                try folder.makeFolder(name, mode: mode)
                // Of those that were asked for the mask of this process takes nothing away, where the disk has modes.
                if mode != 0o777, let made = try? folder.open(name: name, .folder), let now = try? made.info().mode,
                    now & 0o777 != mode
                {
                    try? made.setMode(mode | now & 0o6000)
                }
            }
            return Nothing()
        }
        try attempt("make the folder", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
            for prefix in path.prefixes {
                guard let name = prefix.last else { continue }
                do throws(Errno) {
                    try path.open(Array(prefix.dropLast()), .folder).makeFolder(name, mode: mode)
                    context.noteChange()
                } catch .exists {
                    _ = try path.open(prefix, [.path, .folder])
                }
            }
        }
        return Nothing()
    }

    private func rename(_ input: Files.Rename.Input, _ context: CallContext) throws -> Nothing {
        try context.narrow("rename to \(input.to)") { [caller = context.caller] grants in
            input.to.access(.write).refusal(of: caller, holding: grants)
        }
        let (from, to) = (
            try ConfinedPath(input.from, .write, for: context), try ConfinedPath(input.to, .write, for: context)
        )
        let (source, target) = (try from.parent(), try to.parent())
        try attempt("rename \(from.shown) to", to.shown) { () throws(Errno) in
            try source.folder.rename(source.name, to: target.name, in: target.folder, overwrite: input.overwrite)
        }
        return Nothing()
    }

    private func delete(_ input: Files.Delete.Input, _ context: CallContext) throws -> Files.Delete.Output {
        let path = try ConfinedPath(input.path, .write, for: context)
        let (folder, name) = try path.parent()
        var count: UInt64 = 0
        do {
            if input.recursive {
                try Removal.removeTree(name, from: folder, counting: &count)
                return Files.Delete.Output(count: count)
            }
            let isFolder = try folder.info(name).kind == .folder
            try folder.remove(name, isFolder: isFolder)
            return Files.Delete.Output(count: 1)
        } catch {
            if count > 0 { context.noteChange() }
            guard let error = error as? Errno else { throw error }
            let failure = error.failure("delete", path.shown)
            guard error == .notEmpty, !input.recursive else { throw failure }
            throw KithError(.conflict, failure.message + " Pass -r to delete it with what is in it.", cause: error)
        }
    }

    // MARK: - Contents

    private func read(
        _ input: Files.Read.Input, _ context: CallContext, _ pending: PendingStream<Files.Read>
    ) async throws {
        let (file, entry) = try await onDisk { () throws -> (Descriptor, Files.Entry) in
            let path = try ConfinedPath(input.path, .read, for: context)
            return try attempt("read", path.shown, confined: path.isBeneathGrant) { () throws(Errno) in
                let file = try path.open()
                let info = try file.info()
                if info.kind == .folder { throw .isAFolder }
                guard info.kind == .file else { throw .notRegular }
                return (file, Self.entry(input.path, info))
            }
        }
        let stream = try await pending.accept(entry).bytes
        let channel = BoundedQueue<[UInt8]>(capacity: 4)
        try await withThrowingTaskGroup { group in
            group.addTask(executorPreference: disk) {
                var offset = input.offset
                var left = input.length ?? .max
                do {
                    while left > 0, let bytes = try file.bytes(at: offset, limit: Int(min(left, 512 << 10))) {
                        offset &+= UInt64(bytes.count)
                        left -= UInt64(bytes.count)
                        try await channel.send(bytes)
                    }
                    channel.finish()
                } catch {
                    channel.finish(throwing: error)
                }
            }
            do {
                while let bytes = try await channel.receive() { try await stream.write(bytes) }
                try await stream.finish()
            } catch let error as Errno {
                throw error.failure("read", input.path)
            }
            try await group.waitForAll()
        }
    }

    private func write(
        _ input: Files.Write.Input, _ context: CallContext, _ pending: PendingStream<Files.Write>
    ) async throws {
        let path = try ConfinedPath(input.path, .write, for: context)
        let stream = try await pending.accept()
        do {
            try await stream.send(try await disk.run { try await FileWriting(path, input).run(from: stream.bytes) })
        } catch let error where !(error is CancellationError) {
            try await stream.send(Files.Write.Written(size: 0, sha256: [], failure: Files.Failure(error)))
            try await stream.end()
        }
        // A caller that has read the answer may be gone already.
        try? await stream.finish()
    }

    private func pull(
        _ input: Files.Pull.Input, _ context: CallContext, _ pending: PendingStream<Files.Pull>
    ) async throws {
        let source = try await onDisk {
            try TreeSource(try ConfinedPath(input.path, .read, for: context), recursive: input.recursive)
        }
        try await slots.with(input.substreams, from: context.caller) { substreams in
            let stream = try await pending.accept().bytes
            try await logged("pull") {
                try await Transfer.send(
                    [source], selection: input.selection, over: stream, substreams: substreams, on: disk,
                    progress: TransferProgress())
            }
        }
    }

    private func push(
        _ input: Files.Push.Input, _ context: CallContext, _ pending: PendingStream<Files.Push>
    ) async throws {
        let path = try ConfinedPath(input.path, .write, for: context)
        try await slots.with(input.substreams, from: context.caller) { substreams in
            let stream = try await pending.accept().bytes
            try await logged("push") {
                try await Transfer.receive(
                    into: path, options: input.receiving, over: stream, substreams: substreams, on: disk,
                    active: active,
                    progress: TransferProgress())
            }
        }
    }

    /// Runs and logs a transfer, which reports its failure to the other end itself: the stream ends in order then.
    private func logged(_ name: String, _ transfer: () async throws -> Files.Summary) async throws {
        do {
            let summary = try await transfer()
            logger.debug("files.\(name) done", metadata: ["files": "\(summary.files)", "bytes": "\(summary.bytes)"])
        } catch let error as KithError where error.code != .closed && error.code != .cancelled {
            logger.debug("files.\(name) failed", metadata: ["code": "\(error.code.rawValue)"])
        }
    }
}
