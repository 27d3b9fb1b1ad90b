import KithAPI
import KithIO
import KithWire

/// Transfers whose larger files go over streams of their own, several at once.
///
/// The stream that lists says with a message of type 20, where a file's contents would be, over which substream they come; on
/// the substream's stream nothing but contents come, and back only how much was taken in. A lost packet so holds up one file
/// and not all, and files are read, hashed and written by as many tasks as there are substreams. What is decided of a file,
/// what becomes of it, and the last word stay with the first stream.
extension Transfer {
    /// Runs the substreams until `isOver` ends, or all of them have.
    static func withSubstreams(
        _ count: Int, until isOver: BoundedQueue<Bool>, _ substream: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            defer { group.cancelAll() }
            for index in 0..<count {
                group.addTask {
                    try await substream(index)
                    return false
                }
            }
            group.addTask {
                // It fails when this task is cancelled, which ends all.
                _ = try? await isOver.receive()
                return true
            }
            var left = count
            while left > 0, let isOver = try await group.next() {
                if isOver { return }
                left -= 1
            }
        }
    }

    // MARK: - Sending

    /// Sends the files one substream is dealt.
    static func send(
        substream: Int, of substreams: SendingSubstreams, over source: SubstreamSource, compress: Files.Compression,
        peer: PeerFeatures,
        beside first: InFlightGate, on disk: DiskExecutor, progress: TransferProgress
    ) async throws {
        guard try await substreams.begins(substream) else { return }
        let stream = try await source.open(substream)
        let channel = BoundedQueue<FileSender.Outgoing>(capacity: depth)
        let inFlight = InFlightGate(beside: first)
        inFlight.begin()
        do {
            try await withThrowingTaskGroup(of: Part?.self) { group in
                defer { group.cancelAll() }
                group.addTask(executorPreference: disk) {
                    do {
                        let sender = FileSender(output: channel, progress: progress, reportsTotal: false)
                        try await substreams.run(substream, through: sender, progress: progress)
                        channel.finish()
                        return .read
                    } catch {
                        channel.finish(throwing: error)
                        return .failedToRead(error)
                    }
                }
                group.addTask(executorPreference: disk) {
                    await write(
                        channel, to: stream, with: BlockPacker(compress, peer: peer), inFlight: inFlight,
                        progress: progress)
                }
                group.addTask {
                    defer { inFlight.end() }
                    try await readTaken(from: stream, inFlight: inFlight)
                    return nil
                }
                while let part = try await group.next() {
                    switch part {
                    case .failedToRead(let error), .unwritable(let error): throw error
                    default: break
                    }
                }
            }
        } catch {
            // The reason is told on the first stream.
            stream.abort(.closed)
            throw error
        }
    }

    /// Takes in how much of a substream was taken in.
    private static func readTaken(from stream: any ByteStream, inFlight: InFlightGate) async throws {
        var parser = TransferParser()
        while let bytes = try await stream.read(upTo: readLimit) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                guard case .taken(let count) = frame else {
                    throw KithError(.invalid, "The other end sent what does not belong on a substream.")
                }
                try inFlight.acknowledged(count)
            }
        }
    }

    // MARK: - Receiving

    /// Takes the files in that come over one substream.
    static func receive(
        substream: Int, of substreams: ReceivingSubstreams, over source: SubstreamSource,
        features: TransferFrame.Features,
        progress: TransferProgress
    ) async throws {
        guard let receiver = try await substreams.begins(substream) else { return }
        let stream = try await source.open(substream)
        do {
            var parser = TransferParser(takesCompressed: features.contains(.compression))
            var current: (contents: ArrivingContents, path: Files.Path)?
            var (taken, confirmed) = (UInt64(0), UInt64(0))
            while let bytes = try await readSubstream(stream) {
                progress.add(wire: UInt64(bytes.count))
                parser.feed(bytes)
                while let frame = try parser.next() {
                    if current == nil {
                        try await substreams.next(on: substream)
                        current = try receiver.with { try $0.beginNext(on: substream) }
                    }
                    try take(frame, &current, on: substream, of: receiver, progress: progress)
                    if current == nil { substreams.fileDone() }
                }
                taken += UInt64(bytes.count)
                if taken - confirmed >= InFlightLimit.step {
                    confirmed = taken
                    var answer: [UInt8] = []
                    try TransferFrame.taken(taken).append(to: &answer)
                    do { try await stream.write(answer) } catch { throw StreamFailure(error: error) }
                }
            }
            guard current == nil else {
                throw StreamFailure(
                    error: KithError(
                        .closed, "The other end stopped in the middle of a transfer. Run it again to go on."))
            }
            // A sender that has all it waits for may be gone already.
            try? await stream.finish()
        } catch {
            stream.abort(.closed)
            throw error
        }
    }

    private static func readSubstream(_ stream: any ByteStream) async throws -> [UInt8]? {
        do { return try await stream.read(upTo: readLimit) } catch { throw StreamFailure(error: error) }
    }

    private static func take(
        _ frame: TransferFrame, _ current: inout (contents: ArrivingContents, path: Files.Path)?, on substream: Int,
        of receiver: SharedReceiver, progress: TransferProgress
    ) throws {
        guard case (var contents, let path)? = current else { throw TreeReceiver.outOfOrder }
        // One owner only, so that the bytes of the hash are not copied.
        current = nil
        let before = contents.position
        do {
            switch frame {
            case .data(let data):
                try contents.write(data)
                contents.sent += UInt64(data.count)
                progress.add(sent: UInt64(data.count))
            case .hole(let length): try contents.skip(length)
            case .kept(let leaves): try contents.keep(leaves)
            case .copied(let offset, let length): try contents.copy(offset, length)
            case .fileEnd(let root): return try receiver.with { try $0.finish(contents, on: substream, root: root) }
            case .skipped(let skipped): return try receiver.with { try $0.abandon(on: substream, skipped) }
            default: throw TreeReceiver.outOfOrder
            }
        } catch let error as Errno {
            throw ArrivingContents.failure(error, path)
        }
        progress.add(bytes: contents.position - before)
        current = (contents, path)
    }
}
