import KithAPI
import KithIO
import KithWire
import Synchronization

/// The two ends of a tree transfer over a stream.
///
/// The sender has succeeded when the receiver has acknowledged that everything is in place, not before.
/// Either end that fails says why before it ends its direction, and lets the other read that.
///
/// Each end reads and writes in tasks of their own, and the receiver's answers are small and bounded by what the sender
/// has listed: neither can wait for the other while the other waits for it.
enum Transfer {
    /// Buffers between the disk and the network.
    static let depth = 4
    static let readLimit = 256 << 10

    enum Part: Sendable {
        case read, written
        case unwritable(any Error)
        case failedToRead(any Error)
        case acknowledged(Files.Summary)
    }

    // MARK: - Sending

    /// Sends `sources` and waits for the acknowledgement.
    static func send(
        _ sources: [TreeSource], selection: Files.Selection, compress: Files.Compression = .auto,
        over stream: any ByteStream, substreams source: SubstreamSource? = nil, on disk: DiskExecutor,
        progress: TransferProgress
    ) async throws -> Files.Summary {
        let substreams = source.map { SendingSubstreams(count: $0.count) }
        let channel = BoundedQueue<FileSender.Outgoing>(capacity: depth)
        let answers = BoundedQueue<TreeSender.Answer>(capacity: TransferFrame.maximumListed)
        let held = TreeSender.Held()
        let peer = PeerFeatures()
        let inFlight = InFlightGate()
        progress.isAllSent = false
        return try await withThrowingTaskGroup(of: Part?.self) { group in
            defer { group.cancelAll() }
            group.addTask(executorPreference: disk) {
                // A count that fails is a transfer without an estimate.
                if let total = try? await TreeSource.total(of: sources, selection: selection) {
                    progress.addTotal(bytes: total.bytes, files: total.files)
                }
                return nil
            }
            group.addTask(executorPreference: disk) {
                do {
                    let sender = try TreeSender(
                        sources, selection: selection, output: channel, answers: answers, held: held,
                        substreams: substreams,
                        progress: progress)
                    try await sender.send()
                    channel.finish()
                    return .read
                } catch {
                    channel.finish(throwing: error)
                    return .failedToRead(error)
                }
            }
            group.addTask(executorPreference: disk) {
                await write(
                    channel, to: stream, with: BlockPacker(compress, peer: peer), inFlight: inFlight, progress: progress
                )
            }
            group.addTask {
                defer { inFlight.end() }
                do {
                    let summary = try await readAnswers(
                        from: stream, into: answers, held: held, peer: peer, inFlight: inFlight, substreams: substreams,
                        progress: progress)
                    answers.finish()
                    return .acknowledged(summary)
                } catch {
                    answers.finish(throwing: error)
                    throw error
                }
            }

            if let substreams, let source {
                group.addTask {
                    do {
                        try await withSubstreams(substreams.count, until: BoundedQueue(capacity: 1)) { substream in
                            try await send(
                                substream: substream, of: substreams, over: source, compress: compress, peer: peer,
                                beside: inFlight,
                                on: disk, progress: progress)
                        }
                        return nil
                    } catch {
                        substreams.fail(error)
                        answers.finish(throwing: error)
                        return .failedToRead(error)
                    }
                }
            }

            var failure: (any Error)?
            do {
                while let part = try await group.next() {
                    switch part {
                    case .failedToRead(let error):
                        if failure == nil || !(error is CancellationError) { failure = error }
                    case .unwritable(let error): if failure == nil { failure = error }
                    case .acknowledged(let summary): return summary
                    case .read, .written, nil: break
                    }
                }
            } catch let error as RemoteFailure {
                // The other end's word is the reason why it took no more.
                if let own = failure as? KithError, own.code != .closed, own.code != .cancelled { throw own }
                throw error.error
            } catch {
                throw failure ?? error
            }
            throw failure
                ?? KithError(.closed, "The transfer was cut off before all was in place. Run it again to go on.")
        }
    }

    /// Moves buffers to the network; a failure to read is told to the other end.
    static func write(
        _ channel: BoundedQueue<FileSender.Outgoing>, to stream: any ByteStream, with packer: BlockPacker,
        inFlight: InFlightGate, progress: TransferProgress
    ) async -> Part {
        while true {
            let buffer: FileSender.Outgoing?
            do {
                buffer = try await channel.receive()
            } catch is CancellationError {
                return .written
            } catch {
                // What the other end has said itself it need not be told.
                if !(error is RemoteFailure) { await sendFailure(error, to: stream) }
                return .written
            }
            do {
                guard let buffer else {
                    try await stream.finish()
                    return .written
                }
                let packed = packer.packed(buffer.bytes)
                let start = ContinuousClock.now
                await inFlight.waitForRoom()
                // The word that it was taken in may come before this task runs again.
                inFlight.sent(packed.count)
                try await stream.write(packed)
                let now = ContinuousClock.now
                packer.wrote(buffer.bytes.count, as: packed.count, waiting: now - start, at: now)
                progress.add(sent: buffer.contents, wire: UInt64(packed.count))
            } catch {
                channel.finish(throwing: error)
                return .unwritable(error)
            }
        }
    }

    /// Passes on what the receiver wants, until its last word.
    private static func readAnswers(
        from stream: any ByteStream, into answers: BoundedQueue<TreeSender.Answer>, held: TreeSender.Held,
        peer: PeerFeatures, inFlight: InFlightGate, substreams: SendingSubstreams?, progress: TransferProgress
    ) async throws -> Files.Summary {
        var parser = TransferParser()
        var basis = TreeSender.Basis()
        func offer(_ answer: TreeSender.Answer) throws {
            guard try answers.offer(answer) else {
                throw KithError(.invalid, "The other end answered for more files than were listed.")
            }
        }
        while let bytes = try await stream.read(upTo: readLimit) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                switch frame {
                case .hello(let version, let features):
                    try check(version: version)
                    progress.connected()
                    peer.current = features
                    if features.contains(.confirmation) { inFlight.begin() }
                    substreams?.agreed(features.contains(.substreams))
                case .taken(let bytes): try inFlight.acknowledged(bytes)
                case .send(let files): try offer(.send(files: min(files, UInt64(TransferFrame.maximumListed + 1))))
                case .notNeeded(let files):
                    try offer(.notNeeded(files: min(files, UInt64(TransferFrame.maximumListed + 1))))
                case .leaves(let hashes): basis.leaves += hashes
                case .chunks(let exponent, let entries): try basis.chunks.append(entries, exponent: Int(exponent))
                case .root(let root): basis.root = root
                case .sendDifference:
                    held.add(basis.cost)
                    try offer(.difference(basis))
                    basis = TreeSender.Basis()
                case .skipped(let skipped): progress.skip(skipped)
                case .change(let change): progress.note(change)
                case .acknowledgement(let summary):
                    guard progress.isAllSent else {
                        throw KithError(.invalid, "The other end acknowledged what was not sent yet.")
                    }
                    return summary
                case .failure(let failure): throw RemoteFailure(error: failure.error)
                default: throw KithError(.invalid, "The other end sent what only a sender sends.")
                }
                guard !held.isTooMuch, basis.cost <= TreeSender.Held.maximum else {
                    throw KithError(.exhausted, "The other end describes more of a file than there can be.")
                }
            }
        }
        throw KithError(.closed, "The other end stopped before all was in place. Run it again to go on.")
    }

    static func check(version: UInt16) throws(KithError) {
        guard version == TransferFrame.version else {
            throw KithError(
                .unsupported, "The other device's kith copies files in another way. Bring both to one version.")
        }
    }

    // MARK: - Receiving

    /// The kind of transfer by which somebody else's files arrive.
    enum Origin: Sendable {
        /// As copies that this end asked for, or lets be made.
        case copy
        /// As something sent here: no mode of the sender's is taken over.
        case download
    }

    /// Receives a transfer into `path` and acknowledges it.
    ///
    /// `requested`: what the sender was asked for, and nothing else is taken of; `nil` where the sender asks.
    static func receive(
        into path: ConfinedPath, options: Files.ReceiveOptions, origin: Origin = .copy, requested: RequestedTree? = nil,
        compress: Files.Compression = .auto, over stream: any ByteStream, substreams source: SubstreamSource? = nil,
        on disk: DiskExecutor, active: ActivePartials, progress: TransferProgress
    ) async throws -> Files.Summary {
        let substreams = source.map { ReceivingSubstreams(count: $0.count) }
        let isOver = BoundedQueue<Bool>(capacity: 1)
        let features = TransferFrame.Features(compress).union(substreams == nil ? [] : .substreams)
        let channel = BoundedQueue<[UInt8]>(capacity: 2 * depth)
        let answers = AnswerQueue()
        return try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                await read(stream, into: channel, progress: progress)
                return nil
            }
            group.addTask(executorPreference: disk) {
                do {
                    let summary = try await receiveTree(
                        channel, into: path, options: options, origin: origin, requested: requested,
                        features: features, answers: answers, active: active, substreams: substreams, progress: progress
                    ) {
                        stream.abort(.conflict)
                    }
                    isOver.finish()
                    answers.finish(last: .acknowledgement(summary))
                    channel.finish(throwing: KithError(.closed, "The transfer has ended."))
                    return nil
                } catch {
                    isOver.finish()
                    // Its sender waits for our end, and knows the reason if it is its own.
                    answers.finish(
                        last: error is RemoteFailure ? nil : .failure(Files.Failure(StreamFailure.reason(error))))
                    channel.finish(throwing: error)
                    throw error
                }
            }
            group.addTask {
                var last: Files.Summary?
                while let (bytes, summary) = await answers.next() {
                    try await stream.write(bytes)
                    last = summary
                }
                // A sender that has read the acknowledgement may be gone already.
                try? await stream.finish()
                return last
            }
            if let substreams, let source {
                group.addTask {
                    do {
                        try await withSubstreams(substreams.count, until: isOver) { substream in
                            try await receive(
                                substream: substream, of: substreams, over: source, features: features,
                                progress: progress)
                        }
                    } catch {
                        substreams.fail(error)
                        channel.finish(throwing: error)
                    }
                    return nil
                }
            }
            do {
                while let part = try await group.next() {
                    if let summary = part { return summary }
                }
            } catch let error as RemoteFailure {
                try await group.waitForAll()
                throw error.error
            } catch let error where !(error is CancellationError) {
                // The sender may still be writing: what it has sent is read away until it has met the reason.
                answers.finish(last: .failure(Files.Failure(StreamFailure.reason(error))))
                while (try? await group.next()) != nil {}
                throw StreamFailure.reason(error)
            }
            throw CancellationError()
        }
    }

    /// Moves what arrives to the disk's side; when that wants no more, reads it away.
    private static func read(
        _ stream: any ByteStream, into channel: BoundedQueue<[UInt8]>, progress: TransferProgress
    ) async {
        var isWanted = true
        do {
            while let bytes = try await stream.read(upTo: readLimit) {
                guard isWanted else { continue }
                progress.add(wire: UInt64(bytes.count))
                do {
                    try await channel.send(bytes)
                } catch is CancellationError {
                    return
                } catch {
                    isWanted = false
                }
            }
            channel.finish()
        } catch {
            channel.finish(throwing: StreamFailure(error: error))
        }
    }

    private static func receiveTree(
        _ channel: BoundedQueue<[UInt8]>, into path: ConfinedPath, options: Files.ReceiveOptions, origin: Origin,
        requested: RequestedTree?, features: TransferFrame.Features, answers: AnswerQueue, active: ActivePartials,
        substreams: ReceivingSubstreams?, progress: TransferProgress, takenOver: @escaping @Sendable () -> Void
    ) async throws -> Files.Summary {
        try answers.put(.hello(version: TransferFrame.version, features: features))
        let receiver = SharedReceiver(
            try TreeReceiver(
                path, options: options, origin: origin, requested: requested, answers: answers, active: active,
                progress: progress, substreams: substreams, takenOver: takenOver))
        do {
            var parser = TransferParser(takesCompressed: features.contains(.compression))
            var start = ContinuousClock.now
            var (taken, confirmed, confirms) = (UInt64(0), UInt64(0), false)
            while let bytes = try await channel.receive() {
                let isInContents = receiver.with { $0.contents != nil }
                parser.feed(bytes)
                while let frame = try parser.next() {
                    if case .hello(_, let theirs) = frame {
                        confirms = theirs.contains(.confirmation)
                        // Before anything is looked for on the disk: the sender learns how long its path is.
                        if confirms { try answers.put(.taken(0)) }
                        substreams?.agreed(theirs.contains(.substreams), for: receiver)
                    }
                    if case .end = frame { try await substreams?.allDone(in: receiver) }
                    if let summary = try receiver.with({ try $0.take(frame) ? $0.summary : nil }) { return summary }
                }
                let now = ContinuousClock.now
                let time = now - start
                if isInContents { receiver.with { $0.speed.add(bytes.count, in: time) } }
                start = now
                taken += UInt64(bytes.count)
                if confirms, taken - confirmed >= InFlightLimit.step {
                    confirmed = taken
                    try answers.put(.taken(taken))
                }
                try receiver.with { try $0.answer() }
            }
            throw StreamFailure(
                error: KithError(.closed, "The other end stopped in the middle of a transfer. Run it again to go on."))
        } catch {
            let isInterrupted =
                error is StreamFailure || error is CancellationError || isPassing(error) || canBePutRight(error)
            receiver.with { $0.isInterrupted = isInterrupted }
            let shown = (error as? Errno)?.failure("copy to", path.shown) ?? error
            guard let full = shown as? KithError, (full.cause as? Errno)?.isFullDisk == true,
                // What is sent here goes with the folder it came into.
                let left = receiver.with({ $0.leaveRoom() }), origin == .copy
            else { throw shown }
            throw KithError(full.code, "\(full.message) \(left)", cause: full.cause)
        }
    }

    /// Tells whether the disk here refused for want of room or permission, so that what has come is worth keeping.
    private static func canBePutRight(_ error: any Error) -> Bool {
        guard let error = error as? Errno ?? (error as? KithError)?.cause as? Errno else { return false }
        return error.isFullDisk || error.isDenial
    }

    /// Tells whether the sender has ended for a reason that may pass, so that what has come is worth keeping.
    private static func isPassing(_ error: any Error) -> Bool {
        guard let code = (error as? RemoteFailure)?.error.code else { return false }
        return [.closed, .unreachable, .timedOut, .cancelled].contains(code)
    }

    /// Sends why this end fails, and ends its direction.
    ///
    /// When even that cannot be sent, the stream is gone anyway.
    static func sendFailure(_ error: any Error, to stream: any ByteStream) async {
        var bytes: [UInt8] = []
        try? TransferFrame.failure(Files.Failure(error)).append(to: &bytes)
        try? await stream.write(bytes)
        try? await stream.finish()
    }
}

/// An error the other end has told of, and so need not be told.
struct RemoteFailure: Error {
    let error: KithError
}

/// An error of the stream itself: the transfer was interrupted.
struct StreamFailure: Error {
    let error: any Error

    /// The error itself, of the stream or not.
    static func reason(_ error: any Error) -> any Error { (error as? StreamFailure)?.error ?? error }
}

/// The receiver's answers, until they are written.
///
/// Who fills it never waits: an honest sender reads all the time.
final class AnswerQueue: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var summary: Files.Summary?
        var isFinished = false
        var waiter: Waiter<Void>?
    }

    private static let maximum = 64 << 20
    private let state = Mutex(State())

    /// Queues a message.
    ///
    /// - Throws: `.exhausted` when far more has been said than an honest sender would leave unread.
    func put(_ frame: TransferFrame) throws {
        let waiter = try state.withLock { state throws -> Waiter<Void>? in
            guard !state.isFinished else { return nil }
            var bytes: [UInt8] = []
            try frame.append(to: &bytes)
            // Before it is kept: there are those who go on without it.
            guard state.bytes.count + bytes.count <= Self.maximum else {
                throw KithError(.exhausted, "The other end does not read this end's answers.")
            }
            state.bytes += bytes
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Ends the queue with a last message; only the first end counts.
    func finish(last frame: TransferFrame?) {
        let waiter = state.withLock { state -> Waiter<Void>? in
            guard !state.isFinished else { return nil }
            state.isFinished = true
            // A summary and a failure always have a form.
            try? frame?.append(to: &state.bytes)
            if case .acknowledgement(let summary)? = frame { state.summary = summary }
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Waits for bytes to write, with the summary when they hold it; `nil` at the end, or when the task is cancelled.
    func next() async -> ([UInt8], Files.Summary?)? {
        while true {
            let (part, isEnd) = state.withLock { state -> (([UInt8], Files.Summary?)?, Bool) in
                guard !state.bytes.isEmpty else { return (nil, state.isFinished) }
                defer { state.bytes = [] }
                return ((state.bytes, state.summary), false)
            }
            if let part { return part }
            if isEnd || Task.isCancelled { return nil }
            await state.wait(in: { $1(&$0.waiter) }) { !$0.bytes.isEmpty || $0.isFinished }
        }
    }
}
