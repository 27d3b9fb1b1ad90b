import KithAPI
import KithIO
import KithNode
import KithWire
import Synchronization

/// The source of a transfer's substreams.
struct LaneStreams: Sendable {
    /// The number of substreams.
    let count: Int
    /// Opens one, or waits for the other end to open it.
    let stream: @Sendable (_ lane: Int) async throws -> any ByteStream
}

/// The transfers that other devices have begun here with lanes, and wait for those.
final class SubstreamSlots: Sendable {
    private struct Key: Hashable {
        var caller: Caller
        var token: [UInt8]
    }

    /// One such transfer.
    final class Slot: Sendable {
        fileprivate let arrivals: [BoundedQueue<any ByteStream>]
        fileprivate let ends: [BoundedQueue<Bool>]

        fileprivate init(count: Int) {
            arrivals = (0..<count).map { _ in BoundedQueue(capacity: 1) }
            ends = (0..<count).map { _ in BoundedQueue(capacity: 1) }
        }

        var streams: LaneStreams {
            LaneStreams(count: arrivals.count) { lane in
                guard let stream = try await self.arrivals[lane].receive() else {
                    throw KithError(.closed, "The transfer has ended.")
                }
                return stream
            }
        }
    }

    private let slots = Mutex<[Key: Slot]>([:])

    /// Runs a transfer that takes lanes as its caller asks, if it does.
    func with<Result>(
        _ lanes: Files.Lanes?, from caller: Caller, _ body: (LaneStreams?) async throws -> Result
    ) async throws -> Result {
        guard let lanes else { return try await body(nil) }
        guard (1...CopyJob.maximumLanes).contains(Int(lanes.count)), lanes.token.count == Files.Lanes.tokenCount else {
            throw KithError(.invalid, "A transfer has 1 to \(CopyJob.maximumLanes) lanes.")
        }
        let key = Key(caller: caller, token: lanes.token)
        let slot = Slot(count: Int(lanes.count))
        let isNew = slots.withLock { slots in
            guard slots[key] == nil else { return false }
            slots[key] = slot
            return true
        }
        guard isNew else { throw KithError(.conflict, "Another transfer has these lanes.") }
        defer {
            slots.withLock { $0[key] = nil }
            for arrival in slot.arrivals { arrival.finish() }
            for end in slot.ends { end.finish() }
        }
        return try await body(slot.streams)
    }

    /// Serves the stream of a lane: it is the transfer's until that ends.
    func join(_ input: Files.Lane.Input, _ context: CallContext, _ pending: PendingStream<Files.Lane>) async throws {
        let key = Key(caller: context.caller, token: input.token)
        guard let slot = slots.withLock({ $0[key] }), slot.arrivals.indices.contains(Int(input.lane)) else {
            throw KithError(.notFound, "No transfer waits for this lane.")
        }
        let stream = try await pending.accept().bytes
        guard try slot.arrivals[Int(input.lane)].offer(stream) else {
            throw KithError(.conflict, "The transfer has this lane.")
        }
        _ = try await slot.ends[Int(input.lane)].receive()
    }
}
