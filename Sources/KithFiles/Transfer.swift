import KithAPI
import KithWire

/// The two ends of a tree transfer over a stream.
///
/// The sender has succeeded when the receiver has acknowledged that everything is in place, not before.
/// Either end that fails says why before it ends its direction, and lets the other read that.
enum Transfer {
    /// Buffers between the disk and the network.
    private static let depth = 4
    private static let readLimit = 256 << 10

    private enum Part: Sendable {
        case read, written
        case unwritable(any Error)
        case failedToRead(any Error)
        case acknowledged(Files.Summary)
    }

    /// Sends `sources` and waits for the acknowledgement.
    static func send(
        _ sources: [TreeSource], over stream: any ByteStream, on disk: DiskExecutor, progress: TransferProgress
    ) async throws -> Files.Summary {
        let channel = BoundedChannel<[UInt8]>(capacity: depth)
        progress.isAllSent = false
        return try await withThrowingTaskGroup(of: Part?.self) { group in
            defer { group.cancelAll() }
            group.addTask(executorPreference: disk) {
                // A count that fails is a transfer without an estimate.
                if let total = try? await TreeSource.total(of: sources) {
                    progress.addTotal(bytes: total.bytes, files: total.files)
                }
                return nil
            }
            group.addTask(executorPreference: disk) {
                do {
                    try await TreeSender(output: channel, progress: progress).send(sources)
                    channel.finish()
                    return .read
                } catch {
                    channel.finish(error)
                    return .failedToRead(error)
                }
            }
            group.addTask { await write(channel, to: stream) }
            group.addTask { .acknowledged(try await acknowledgement(from: stream)) }

            var failure: (any Error)?
            do {
                while let part = try await group.next() {
                    switch part {
                    case .failedToRead(let error):
                        if failure == nil || !(error is CancellationError) { failure = error }
                    case .unwritable(let error): if failure == nil { failure = error }
                    case .acknowledged(let summary):
                        guard progress.isAllSent else {
                            throw KithError(.invalid, "The other end acknowledged what was not sent yet.")
                        }
                        return summary
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
            throw failure ?? KithError(.closed, "The transfer ended without an acknowledgement.")
        }
    }

    /// Moves buffers to the network; a failure to read is told to the other end.
    private static func write(_ channel: BoundedChannel<[UInt8]>, to stream: any ByteStream) async -> Part {
        while true {
            let buffer: [UInt8]?
            do {
                buffer = try await channel.receive()
            } catch is CancellationError {
                return .written
            } catch {
                await tell(error, to: stream)
                return .written
            }
            do {
                guard let buffer else {
                    try await stream.finish()
                    return .written
                }
                try await stream.write(buffer)
            } catch {
                channel.finish(error)
                return .unwritable(error)
            }
        }
    }

    /// Waits for the receiver's word.
    private static func acknowledgement(from stream: any ByteStream) async throws -> Files.Summary {
        var parser = TransferParser()
        while let bytes = try await stream.read(upTo: readLimit) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                switch frame {
                case .acknowledgement(let summary): return summary
                case .failure(let failure): throw RemoteFailure(error: failure.error)
                default: throw KithError(.invalid, "The other end sent what only a sender sends.")
                }
            }
        }
        throw KithError(.closed, "The other end ended the transfer without an acknowledgement.")
    }

    /// Receives a transfer into `place` and acknowledges it.
    static func receive(
        into place: Place, options: Files.Landing, over stream: any ByteStream, on disk: DiskExecutor,
        progress: TransferProgress
    ) async throws -> Files.Summary {
        let channel = BoundedChannel<[UInt8]>(capacity: 2 * depth)
        return try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                await read(stream, into: channel)
                return nil
            }
            group.addTask(executorPreference: disk) {
                do {
                    let summary = try await land(channel, into: place, options: options, progress: progress)
                    channel.finish(KithError(.closed, "The transfer has ended."))
                    return summary
                } catch {
                    channel.finish(error)
                    throw error
                }
            }
            do {
                while let part = try await group.next() {
                    guard let summary = part else { continue }
                    var bytes: [UInt8] = []
                    try TransferFrame.acknowledgement(summary).append(to: &bytes)
                    try await stream.write(bytes)
                    // A sender that has read the acknowledgement may be gone already.
                    try? await stream.finish()
                    return summary
                }
            } catch let error as RemoteFailure {
                // Its sender waits for our end.
                try? await stream.finish()
                throw error.error
            } catch let error where !(error is CancellationError) {
                await tell(error, to: stream)
                // The sender may still be writing: what it has sent is read away until it has met the reason.
                try await group.waitForAll()
                throw error
            }
            throw CancellationError()
        }
    }

    /// Moves what arrives to the disk's side; when that wants no more, reads it away.
    private static func read(_ stream: any ByteStream, into channel: BoundedChannel<[UInt8]>) async {
        var isWanted = true
        do {
            while let bytes = try await stream.read(upTo: readLimit) {
                guard isWanted else { continue }
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
            channel.finish(error)
        }
    }

    private static func land(
        _ channel: BoundedChannel<[UInt8]>, into place: Place, options: Files.Landing, progress: TransferProgress
    ) async throws -> Files.Summary {
        let landing = try TreeLanding(place, options: options, progress: progress)
        var parser = TransferParser()
        while let bytes = try await channel.receive() {
            parser.feed(bytes)
            while let frame = try parser.next() {
                if try landing.take(frame) { return landing.summary }
            }
        }
        throw KithError(.closed, "The other end stopped in the middle of a transfer.")
    }

    /// Says why this end fails, and ends its direction.
    ///
    /// When even that cannot be said, the stream is gone anyway.
    static func tell(_ error: any Error, to stream: any ByteStream) async {
        var bytes: [UInt8] = []
        try? TransferFrame.failure(Files.Failure(error)).append(to: &bytes)
        try? await stream.write(bytes)
        try? await stream.finish()
    }
}
