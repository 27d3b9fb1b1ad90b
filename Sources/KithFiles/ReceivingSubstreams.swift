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

/// The lanes of a transfer at the end that receives.
final class ReceivingSubstreams: Sendable {
    let count: Int
    private let starts: [BoundedQueue<SharedReceiver>]
    /// For each lane, one entry per file whose contents come over it.
    private let announced: [BoundedQueue<Bool>]
    /// Has an entry when a file of a lane is done.
    private let done = BoundedQueue<Bool>(capacity: 1)

    init(count: Int) {
        self.count = count
        starts = (0..<count).map { _ in BoundedQueue(capacity: 1) }
        announced = (0..<count).map { _ in BoundedQueue(capacity: TransferFrame.maximumListed) }
    }

    /// Takes in whether the sender's hello says that it has lanes.
    func agreed(_ isAgreed: Bool, for receiver: SharedReceiver) {
        for start in starts {
            // Again it changes nothing.
            if isAgreed { _ = try? start.offer(receiver) }
            start.finish()
        }
    }

    /// Waits until a lane may begin; `nil` when there are to be none.
    func begins(_ lane: Int) async throws -> SharedReceiver? { try await starts[lane].receive() }

    /// Notes that the contents of a file come over a lane.
    func announce(on lane: Int) throws {
        guard try announced[lane].offer(true) else { throw TreeReceiver.outOfOrder }
    }

    /// Waits for the announcement of the next file of a lane.
    func next(on lane: Int) async throws {
        guard try await announced[lane].receive() != nil else {
            throw KithError(.closed, "The transfer has ended.")
        }
    }

    /// Notes that a file of a lane is in place, or given up.
    func fileDone() {
        // One entry says it of all.
        _ = try? done.offer(true)
    }

    /// Waits until all files that were announced are done.
    func allDone(in receiver: SharedReceiver) async throws {
        while receiver.with({ $0.laned > 0 }) { _ = try await done.receive() }
    }

    /// Lets nobody wait any more.
    func fail(_ error: any Error) {
        done.finish(throwing: error)
        for lane in announced { lane.finish(throwing: error) }
        for start in starts { start.finish() }
    }
}

/// Contents that arrive over lanes.
extension TreeReceiver {
    /// The next file's contents come over a lane.
    func announce(on lane: Int) throws {
        guard let lanes, lane < lanes.count, contents == nil, laned < TransferFrame.maximumListed else {
            throw Self.outOfOrder
        }
        let file = try nextWanted()
        laned += 1
        waitingOnLanes[lane, default: Ring()].append(file)
        try lanes.announce(on: lane)
    }

    /// Begins the next file of a lane; returns what takes its contents in, and its path for messages.
    func beginNext(on lane: Int) throws -> (contents: ArrivingContents, path: Files.Path) {
        guard let file = waitingOnLanes[lane]?.popFirst() else { throw Self.outOfOrder }
        let begun = try begin(file)
        onLanes[lane] = begun
        return (begun.arriving, shown(file.name, in: file.folder))
    }

    /// Puts a file of a lane in place.
    func finish(_ arriving: ArrivingContents, on lane: Int, root: [UInt8]) throws {
        guard var begun = onLanes.removeValue(forKey: lane) else { throw Self.outOfOrder }
        begun.arriving = arriving
        laned -= 1
        try finish(begun, root)
    }

    /// Gives a file of a lane up: it could not be read.
    func giveUp(on lane: Int, _ skipped: Files.Skipped) throws {
        guard let begun = onLanes.removeValue(forKey: lane) else { throw Self.outOfOrder }
        laned -= 1
        summary.skipped += 1
        progress.skip(skipped)
        try abandon(begun)
    }
}
