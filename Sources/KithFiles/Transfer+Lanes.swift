import KithAPI
import KithIO
import KithWire

/// Transfers whose larger files go over streams of their own, several at once.
///
/// The stream that lists says with a message of type 20, where a file's contents would be, over which lane they come; on
/// the lane's stream nothing but contents come, and back only how much was taken in. A lost packet so holds up one file
/// and not all, and files are read, hashed and written by as many tasks as there are lanes. What is decided of a file,
/// what becomes of it, and the last word stay with the first stream.
extension Transfer {
    /// Runs the lanes until `isOver` ends, or all of them have.
    static func withLanes(
        _ count: Int, until isOver: BoundedQueue<Bool>, _ lane: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            defer { group.cancelAll() }
            for index in 0..<count {
                group.addTask {
                    try await lane(index)
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

    /// Sends the files one lane is dealt.
    static func send(
        lane: Int, of lanes: SendingSubstreams, over streams: LaneStreams, compress: Files.Compression,
        peer: PeerFeatures,
        beside first: AheadGate, on disk: DiskExecutor, progress: TransferProgress
    ) async throws {
        guard try await lanes.begins(lane) else { return }
        let stream = try await streams.stream(lane)
        let channel = BoundedQueue<FileSender.Outgoing>(capacity: depth)
        let ahead = AheadGate(beside: first)
        ahead.begin()
        do {
            try await withThrowingTaskGroup(of: Part?.self) { group in
                defer { group.cancelAll() }
                group.addTask(executorPreference: disk) {
                    do {
                        let sender = FileSender(output: channel, progress: progress, tellsTotal: false)
                        try await lanes.run(lane, through: sender, progress: progress)
                        channel.finish()
                        return .read
                    } catch {
                        channel.finish(throwing: error)
                        return .failedToRead(error)
                    }
                }
                group.addTask(executorPreference: disk) {
                    await write(
                        channel, to: stream, with: BlockPacker(compress, peer: peer), ahead: ahead, progress: progress)
                }
                group.addTask {
                    defer { ahead.end() }
                    try await readTaken(from: stream, ahead: ahead)
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

    /// Takes in how much of a lane was taken in.
    private static func readTaken(from stream: any ByteStream, ahead: AheadGate) async throws {
        var parser = TransferParser()
        while let bytes = try await stream.read(upTo: readLimit) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                guard case .taken(let count) = frame else {
                    throw KithError(.invalid, "The other end sent what does not belong on a lane.")
                }
                try ahead.took(count)
            }
        }
    }

    // MARK: - Receiving

    /// Takes the files in that come over one lane.
    static func receive(
        lane: Int, of lanes: ReceivingSubstreams, over streams: LaneStreams, features: TransferFrame.Features,
        progress: TransferProgress
    ) async throws {
        guard let receiver = try await lanes.begins(lane) else { return }
        let stream = try await streams.stream(lane)
        do {
            var parser = TransferParser(takesCompressed: features.contains(.compression))
            var current: (contents: ArrivingContents, path: Files.Path)?
            var (taken, told) = (UInt64(0), UInt64(0))
            while let bytes = try await readLane(stream) {
                progress.add(wire: UInt64(bytes.count))
                parser.feed(bytes)
                while let frame = try parser.next() {
                    if current == nil {
                        try await lanes.next(on: lane)
                        current = try receiver.with { try $0.beginNext(on: lane) }
                    }
                    try take(frame, &current, on: lane, of: receiver, progress: progress)
                    if current == nil { lanes.fileDone() }
                }
                taken += UInt64(bytes.count)
                if taken - told >= InFlightLimit.step {
                    told = taken
                    var answer: [UInt8] = []
                    try TransferFrame.taken(taken).append(to: &answer)
                    do { try await stream.write(answer) } catch { throw StreamFailure(error: error) }
                }
            }
            guard current == nil else {
                throw StreamFailure(error: KithError(.closed, "The other end stopped in the middle of a transfer."))
            }
            // A sender that has all it waits for may be gone already.
            try? await stream.finish()
        } catch {
            stream.abort(.closed)
            throw error
        }
    }

    private static func readLane(_ stream: any ByteStream) async throws -> [UInt8]? {
        do { return try await stream.read(upTo: readLimit) } catch { throw StreamFailure(error: error) }
    }

    private static func take(
        _ frame: TransferFrame, _ current: inout (contents: ArrivingContents, path: Files.Path)?, on lane: Int,
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
            case .fileEnd(let root): return try receiver.with { try $0.finish(contents, on: lane, root: root) }
            case .skipped(let skipped): return try receiver.with { try $0.giveUp(on: lane, skipped) }
            default: throw TreeReceiver.outOfOrder
            }
        } catch let error as Errno {
            throw ArrivingContents.failure(error, path)
        }
        progress.add(bytes: contents.position - before)
        current = (contents, path)
    }
}
