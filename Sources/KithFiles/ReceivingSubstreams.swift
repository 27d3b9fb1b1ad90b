import KithAPI
import KithIO
import KithWire
import Synchronization

/// A receiver that several tasks take part in.
final class SharedReceiver: Sendable {
    private let receiver: Mutex<TreeReceiver>

    init(_ receiver: sending TreeReceiver) { self.receiver = Mutex(receiver) }

    /// Runs `body` with the receiver to itself; it may block on the disk.
    func with<Result: Sendable>(_ body: (TreeReceiver) throws -> Result) rethrows -> Result {
        try receiver.withLock { try body($0) }
    }
}

/// The substreams of a transfer at the end that receives.
final class ReceivingSubstreams: Sendable {
    let count: Int
    private let starts: [BoundedQueue<SharedReceiver>]
    /// For each substream, one entry per file whose contents come over it.
    private let announced: [BoundedQueue<Bool>]
    /// Has an entry when a file of a substream is done.
    private let done = BoundedQueue<Bool>(capacity: 1)

    init(count: Int) {
        self.count = count
        starts = (0..<count).map { _ in BoundedQueue(capacity: 1) }
        announced = (0..<count).map { _ in BoundedQueue(capacity: TransferFrame.maximumListed) }
    }

    /// Starts the substreams, or none, as the sender's hello says.
    func agreed(_ isAgreed: Bool, for receiver: SharedReceiver) {
        for start in starts {
            // Again it changes nothing.
            if isAgreed { _ = try? start.offer(receiver) }
            start.finish()
        }
    }

    /// Waits until a substream may begin; `nil` when there are to be none.
    func begins(_ substream: Int) async throws -> SharedReceiver? { try await starts[substream].receive() }

    /// Notes that the contents of a file come over a substream.
    func announce(on substream: Int) throws {
        guard try announced[substream].offer(true) else { throw TreeReceiver.outOfOrder }
    }

    /// Waits for the announcement of the next file of a substream.
    func next(on substream: Int) async throws {
        guard try await announced[substream].receive() != nil else {
            throw KithError(.closed, "The transfer has ended.")
        }
    }

    /// Notes that a file of a substream is in place, or abandoned.
    func fileDone() {
        // One entry says it of all.
        _ = try? done.offer(true)
    }

    /// Waits until all files that were announced are done.
    func allDone(in receiver: SharedReceiver) async throws {
        while receiver.with({ $0.substreamFiles > 0 }) { _ = try await done.receive() }
    }

    /// Lets nobody wait any more.
    func fail(_ error: any Error) {
        done.finish(throwing: error)
        for files in announced { files.finish(throwing: error) }
        for start in starts { start.finish() }
    }
}

/// Contents that arrive over substreams.
extension TreeReceiver {
    /// The next file's contents come over a substream.
    func announce(on substream: Int) throws {
        guard let substreams, substream < substreams.count, contents == nil,
            substreamFiles < TransferFrame.maximumListed
        else {
            throw Self.outOfOrder
        }
        let file = try nextWanted()
        substreamFiles += 1
        waitingOnSubstreams[substream, default: Ring()].append(file)
        try substreams.announce(on: substream)
    }

    /// Begins the next file of a substream; returns what takes its contents in, and its path for messages.
    func beginNext(on substream: Int) throws -> (contents: ArrivingContents, path: Files.Path) {
        guard let file = waitingOnSubstreams[substream]?.popFirst() else { throw Self.outOfOrder }
        let begun = try begin(file)
        arrivingOnSubstreams[substream] = begun
        return (begun.arriving, shown(file.name, in: file.folder))
    }

    /// Puts a file of a substream in place.
    func finish(_ arriving: ArrivingContents, on substream: Int, root: [UInt8]) throws {
        guard var begun = arrivingOnSubstreams.removeValue(forKey: substream) else { throw Self.outOfOrder }
        begun.arriving = arriving
        substreamFiles -= 1
        try finish(begun, root)
    }

    /// Abandons a file of a substream: it could not be read.
    func abandon(on substream: Int, _ skipped: Files.Skipped) throws {
        guard let begun = arrivingOnSubstreams.removeValue(forKey: substream) else { throw Self.outOfOrder }
        substreamFiles -= 1
        summary.skipped += 1
        progress.skip(skipped)
        try abandon(begun)
    }
}
