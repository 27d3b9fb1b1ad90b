import Foundation
import KithAPI
import KithCatalog
import KithIO
import KithNode
import KithWire

/// One `files.copy`: moves trees between this device's disk and other devices, and tells how it goes.
struct CopyJob: Sendable {
    /// One transfer of the copy.
    enum Step {
        case push([TreeSource])
        case pull(Files.Location)
        case relay(Files.Location)
        case duplicate(Files.Location)
    }

    /// The most files that are copied side by side.
    static let maximumParallel = 16

    private let input: Files.Copy.Input
    private let client: Client
    private let protection: ProtectedFiles?
    private let disk: DiskExecutor
    private let active: ActivePartials
    private let clock: any Ticker
    private let board: ProgressBoard
    private let receiving: Files.ReceiveOptions
    /// The rates that all transfers of the copy share, from devices and to one.
    private let limits: (incoming: RateLimit, outgoing: RateLimit)?

    init(
        _ input: Files.Copy.Input, for context: CallContext, disk: DiskExecutor, active: ActivePartials,
        clock: any Ticker
    ) throws(KithError) {
        guard !input.sources.isEmpty else { throw KithError(.invalid, "Name at least one file or folder to copy.") }
        self.input = input
        client = context.client
        protection = context.protection
        self.disk = disk
        self.active = active
        self.clock = clock
        board = ProgressBoard(clock)
        guard input.compress != .always || BlockCompression.isAvailable else {
            throw KithError(
                .unsupported, "This kith was built without zstd and cannot compress: leave out --compress always.")
        }
        guard input.limit != 0 else {
            throw KithError(.invalid, "A copy cannot be limited to 0 bytes a second: leave the limit out for none.")
        }
        guard input.receiving.exclude.isEmpty else {
            throw KithError(
                .invalid,
                "What a copy leaves out is said with its sources: put the patterns into `selection`, not into `landing`."
            )
        }
        guard input.parallel.map({ (1...UInt32(Self.maximumParallel)).contains($0) }) ?? true else {
            throw KithError(
                .invalid,
                "1 to \(Self.maximumParallel) files can be copied at the same time, not \(input.parallel ?? 0).")
        }
        limits = input.limit.map { (RateLimit($0, on: clock), RateLimit($0, on: clock)) }
        // A pattern that cannot be read is refused before anything is asked for.
        _ = try IgnoreRules(input.selection.exclude)
        var receiving = input.receiving
        receiving.exclude = input.selection.exclude
        if input.sources.count > 1 { receiving.intoFolder = true }
        self.receiving = receiving
    }

    /// Copies, and reports ten times a second.
    func run(reportingTo stream: ProgressBoard.Reports) async throws {
        try await board.report(to: stream) { try await copy() }
    }

    private func copy() async throws -> Files.Summary {
        let batches = try await batches()
        let progress = board.begin(batches.count)
        // What is not used up by the sources is for the files in them.
        let streams = input.recursive ? input.parallel.map { Int($0) / max(batches.count, 1) } ?? 1 : 1
        var summary = try await withThrowingTaskGroup(of: Files.Summary.self) { group in
            for (steps, progress) in zip(batches, progress) {
                group.addTask {
                    var summary = Files.Summary()
                    for step in steps { summary = summary + (try await run(step, progress, over: streams)) }
                    progress.isDone = true
                    return summary
                }
            }
            // The first that fails ends the others: what has arrived of them stays for the next time.
            return try await group.reduce(Files.Summary(), +)
        }
        // What attempts that were cut have sent was sent, too.
        let moved = board.moved
        summary.sent = moved.sent
        summary.wire = moved.wire
        return summary
    }

    private func run(_ step: Step, _ progress: TransferProgress, over streams: Int) async throws -> Files.Summary {
        switch step {
        case .push(let sources): try await push(sources, progress, over: streams)
        case .pull(let source): try await pull(source, progress, over: streams)
        case .relay(let source): try await relay(source, progress)
        case .duplicate(let source): try await duplicate(source, progress)
        }
    }

    /// The transfers side by side, each with its steps one after the other.
    private func batches() async throws -> [[Step]] {
        try await disk.run {
            let steps = try input.sources.map { source -> (name: [UInt8], step: Step) in
                let name = source.path.bytes.split(separator: UInt8(ascii: "/")).last.map { [UInt8]($0) } ?? []
                guard source.device != input.destination.device else { return (name, .duplicate(source)) }
                guard source.device == nil else {
                    return (name, input.destination.device == nil ? .pull(source) : .relay(source))
                }
                let tree = try TreeSource(try ConfinedPath(ownPath: source.path), recursive: input.recursive)
                return (tree.name, .push([tree]))
            }
            // Names of one file are looked for inside of one transfer.
            let automatic = input.selection.hardLinks ? 1 : min(ProcessInfo.processInfo.activeProcessorCount, 4)
            return Self.batches(of: steps, count: input.parallel.map { Int($0) } ?? automatic)
        }
    }

    /// Deals steps out to at most `count` batches.
    ///
    /// Those of one name stay in one batch, in their order: each takes the place of the one before. Local files that
    /// follow each other in a batch go together in one transfer.
    static func batches(of steps: [(name: [UInt8], step: Step)], count: Int) -> [[Step]] {
        var batches: [[Step]] = []
        var batchOfName: [[UInt8]: Int] = [:]
        var dealt = 0
        for (name, step) in steps {
            let batch: Int
            if let known = batchOfName[name] {
                batch = known
            } else {
                batch = dealt % max(count, 1)
                dealt += 1
                batchOfName[name] = batch
            }
            if batch == batches.count { batches.append([]) }
            if case .push(let trees) = step, case .push(let before)? = batches[batch].last {
                batches[batch][batches[batch].count - 1] = .push(before + trees)
            } else {
                batches[batch].append(step)
            }
        }
        return batches
    }

    private func push(
        _ sources: [TreeSource], _ progress: TransferProgress, over streams: Int
    ) async throws -> Files.Summary {
        try await lasting(progress, with: Self.name(input.destination.device)) {
            let (substreams, device) = (Self.substreams(streams), input.destination.device)
            // What there is to send is listed while the other device still thinks about the call.
            let opening = try await client.begin(
                Files.Push.self,
                Files.Push.Input(path: input.destination.path, receiving: receiving, substreams: substreams),
                on: device)
            let stream = limited(opening, limits?.outgoing)
            return try await abandoning([stream]) {
                do {
                    return try await Transfer.send(
                        sources, selection: input.selection, compress: input.compress, over: stream,
                        substreams: open(substreams, on: device, limits?.outgoing), on: disk, progress: progress)
                } catch {
                    guard let refusal = opening.refusal else { throw error }
                    return try await on(device) { throw refusal }
                }
            }
        }
    }

    private func pull(
        _ source: Files.Location, _ progress: TransferProgress, over streams: Int
    ) async throws -> Files.Summary {
        try await lasting(progress, with: Self.name(source.device)) {
            let requested = try RequestedTree(
                source, recursive: input.recursive, exact: self.receiving.exact, selection: input.selection)
            let (path, receiving) = try await destination(of: source, requested)
            let target = try ConfinedPath(ownPath: path, protecting: protection)
            let substreams = Self.substreams(streams)
            let stream = try await openPull(source, substreams)
            progress.connected()
            return try await abandoning([stream]) {
                try await Transfer.receive(
                    into: target, options: receiving, requested: requested, compress: input.compress, over: stream,
                    substreams: open(substreams, on: source.device, limits?.incoming), on: disk, active: active,
                    progress: progress)
            }
        }
    }

    /// Copies between two other devices: the messages pass through this one, its disk sees nothing.
    private func relay(_ source: Files.Location, _ progress: TransferProgress) async throws -> Files.Summary {
        try await lasting(progress, with: "\(Self.name(source.device)) and \(Self.name(input.destination.device))") {
            let requested = try RequestedTree(
                source, recursive: input.recursive, exact: self.receiving.exact, selection: input.selection)
            let (path, receiving) = try await destination(of: source, requested)
            let from = try await openPull(source)
            let to = try await openPush(to: path, receiving)
            progress.connected()
            return try await abandoning([from, to]) {
                try await TransferRelay(
                    from: from, to: to, requested: requested, compress: input.compress, progress: progress
                ).run()
            }
        }
    }

    /// Decides where a source goes, and how.
    ///
    /// One whose path has no name, as `laptop:`, gets the device's in a folder: what a name is, its own device does not say.
    private func destination(
        of source: Files.Location, _ requested: RequestedTree
    ) async throws -> (path: Files.Path, receiving: Files.ReceiveOptions) {
        var (path, receiving) = (input.destination.path, self.receiving)
        guard input.recursive || requested.isUnnamed, try await isFolder(input.destination), requested.isUnnamed,
            !receiving.exact
        else { return (path, receiving) }
        let name = Array((source.device ?? "").utf8)
        guard Files.Path.isName(name), name.first != UInt8(ascii: ".") else {
            throw KithError(.invalid, "\(source.path) has no name to copy it by: name the destination in full.")
        }
        if path.bytes.last != UInt8(ascii: "/") { path.bytes.append(UInt8(ascii: "/")) }
        path.bytes += name
        receiving.exact = true
        receiving.intoFolder = false
        return (path, receiving)
    }

    /// Tells whether there is a folder.
    ///
    /// - Throws: `.conflict` for a link to one without a slash behind it: an earlier copy, or an attempt of this one
    ///   that was cut, may have put it there, and its sender would choose where the rest goes.
    private func isFolder(_ location: Files.Location) async throws -> Bool {
        guard let device = location.device else {
            return try await disk.run {
                let path = try ConfinedPath(ownPath: location.path)
                try path.refuseLinkToFolder()
                return (try? path.open([.path, .folder])) != nil
            }
        }
        func kind(followingLinks: Bool) async throws -> Files.Kind {
            try await client.call(
                Files.Stat.self, Files.Stat.Input(path: location.path, followsLinks: followingLinks), on: device
            ).kind
        }
        do {
            guard try await kind(followingLinks: true) == .folder else { return false }
            if try location.path.parsed().isFolder { return true }
            guard try await kind(followingLinks: false) != .link else { throw ConfinedPath.isLink(location.path) }
            return true
        } catch let error as KithError where error.code == .notFound {
            return false
        }
    }

    /// The substreams of one attempt of a transfer; none for a single stream.
    private static func substreams(_ count: Int) -> Files.Substreams? {
        guard count > 1 else { return nil }
        return Files.Substreams(
            token: (0..<Files.Substreams.tokenCount).map { _ in UInt8.random(in: 0...255) }, count: UInt8(count))
    }

    private func open(_ substreams: Files.Substreams?, on device: String?, _ limit: RateLimit?) -> SubstreamSource? {
        guard let substreams else { return nil }
        return SubstreamSource(count: Int(substreams.count)) { [self] index in
            do {
                return limited(
                    try await client.open(
                        Files.Substream.self, Files.Substream.Input(token: substreams.token, index: UInt8(index)),
                        on: device
                    ).stream.bytes, limit)
            } catch let error as KithError where error.code == .notFound {
                // It waited there until the transfer's own stream ended: the copy goes on as after any other cut.
                throw KithError(.closed, "The copy was interrupted. Run it again to go on.", cause: error)
            }
        }
    }

    /// Has a device copy from one of its places to another: no byte passes through this one.
    private func duplicate(_ source: Files.Location, _ progress: TransferProgress) async throws -> Files.Summary {
        do {
            return try await lasting(progress, with: Self.name(source.device)) {
                let stream = try await on(source.device) {
                    try await client.open(
                        Files.Duplicate.self,
                        Files.Duplicate.Input(
                            sources: [source.path], destination: input.destination.path, recursive: input.recursive,
                            selection: input.selection, receiving: receiving),
                        on: source.device
                    ).stream
                }
                progress.connected()
                return try await abandoning([stream.bytes]) { try await follow(stream, progress) }
            }
        } catch let error as KithError where error.code == .unsupported && !progress.isConnected {
            // One with an older kith.
            return try await relay(source, progress)
        }
    }

    /// Takes over what another device tells of a copy.
    private func follow(_ stream: MethodStream<Files.Progress, Nothing>, _ progress: TransferProgress) async throws
        -> Files.Summary
    {
        var before = Files.Progress()
        for try await report in stream.messages {
            progress.take(report, after: before)
            before = report
            // With both, what was left out is the failure, and is told of at the end.
            if let summary = report.summary { return summary }
            if let failure = report.failure { throw failure.error }
        }
        throw KithError(.closed, "The copy was interrupted. Run it again to go on.")
    }

    private func openPull(_ source: Files.Location, _ substreams: Files.Substreams? = nil) async throws
        -> any ByteStream
    {
        try await on(source.device) {
            limited(
                try await client.open(
                    Files.Pull.self,
                    Files.Pull.Input(
                        path: source.path, recursive: input.recursive, selection: input.selection,
                        substreams: substreams),
                    on: source.device
                ).stream.bytes, limits?.incoming)
        }
    }

    private func openPush(to path: Files.Path, _ receiving: Files.ReceiveOptions) async throws -> any ByteStream {
        try await on(input.destination.device) {
            limited(
                try await client.open(
                    Files.Push.self, Files.Push.Input(path: path, receiving: receiving),
                    on: input.destination.device
                ).stream.bytes, limits?.outgoing)
        }
    }

    private func limited(_ stream: any ByteStream, _ limit: RateLimit?) -> any ByteStream {
        limit.map { LimitedStream(stream, limit: $0) } ?? stream
    }

    private static func name(_ device: String?) -> String { device ?? "this device" }

    /// Runs a transfer, and begins it again when its connection is lost: what has arrived is not sent again.
    ///
    /// A device that cannot be reached in the first place is an error at once.
    private func lasting(
        _ progress: TransferProgress, with devices: String, _ body: () async throws -> Files.Summary
    ) async throws -> Files.Summary {
        let mark = progress.mark
        let patience = Duration.seconds(Int64(input.retrySeconds))
        var done = progress.moved
        progress.isConnected = false
        var lastMove = clock.now
        var pause = Duration.milliseconds(250)
        var isFirst = true
        while true {
            do {
                return try await body()
            } catch let error as KithError where [.closed, .unreachable, .timedOut].contains(error.code) {
                guard progress.isConnected else {
                    // The connection may be one from before, found dead only now.
                    guard isFirst, error.code == .closed else { throw error }
                    isFirst = false
                    progress.restart(from: mark)
                    continue
                }
                let now = clock.now
                if progress.moved != done {
                    (done, lastMove, pause) = (progress.moved, now, .milliseconds(250))
                }
                guard now - lastMove < patience else { throw error }
                progress.wait("waiting for \(devices)…")
                try await clock.sleep(for: pause)
                pause = min(pause * 2, .seconds(10))
                progress.restart(from: mark)
            }
        }
    }

    /// Runs `body`; when it fails, no stream is left open.
    private func abandoning(
        _ streams: [any ByteStream], _ body: () async throws -> Files.Summary
    ) async throws -> Files.Summary {
        do {
            return try await body()
        } catch {
            for stream in streams { stream.abort(Files.Failure(error).code) }
            throw error
        }
    }

    /// Says in an error which device refused.
    private func on<Result>(_ device: String?, _ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as KithError where error.code == .denied && !error.message.contains("ermitted") {
            throw KithError(.denied, "Not permitted on \(device ?? "this device"): \(error.message)", cause: error)
        }
    }
}
