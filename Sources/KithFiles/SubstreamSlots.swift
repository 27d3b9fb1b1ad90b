import KithAPI
import KithIO
import KithNode
import KithWire
import Synchronization

/// The source of a transfer's substreams.
struct SubstreamSource: Sendable {
    /// The number of substreams.
    let count: Int
    /// Opens one, or waits for the other end to open it.
    let open: @Sendable (_ substream: Int) async throws -> any ByteStream
}

/// The transfers that other devices have begun here with substreams, and wait for those.
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

        var streams: SubstreamSource {
            SubstreamSource(count: arrivals.count) { substream in
                guard let stream = try await self.arrivals[substream].receive() else {
                    throw KithError(.closed, "The transfer has ended.")
                }
                return stream
            }
        }
    }

    private let slots = Mutex<[Key: Slot]>([:])

    /// Runs a transfer that takes substreams as its caller asks, if it does.
    func with<Result>(
        _ substreams: Files.Substreams?, from caller: Caller, _ body: (SubstreamSource?) async throws -> Result
    ) async throws -> Result {
        guard let substreams else { return try await body(nil) }
        guard (1...CopyJob.maximumParallel).contains(Int(substreams.count)),
            substreams.token.count == Files.Substreams.tokenCount
        else {
            throw KithError(.invalid, "A transfer has 1 to \(CopyJob.maximumParallel) substreams.")
        }
        let key = Key(caller: caller, token: substreams.token)
        let slot = Slot(count: Int(substreams.count))
        let isNew = slots.withLock { slots in
            guard slots[key] == nil else { return false }
            slots[key] = slot
            return true
        }
        guard isNew else { throw KithError(.conflict, "Another transfer has these substreams.") }
        defer {
            slots.withLock { $0[key] = nil }
            for arrival in slot.arrivals { arrival.finish() }
            for end in slot.ends { end.finish() }
        }
        return try await body(slot.streams)
    }

    /// Serves the stream of a substream: it is the transfer's until that ends.
    func join(_ input: Files.Substream.Input, _ context: CallContext, _ pending: PendingStream<Files.Substream>)
        async throws
    {
        let key = Key(caller: context.caller, token: input.token)
        guard let slot = slots.withLock({ $0[key] }), slot.arrivals.indices.contains(Int(input.index)) else {
            throw KithError(.notFound, "No transfer waits for this substream.")
        }
        let stream = try await pending.accept().bytes
        guard try slot.arrivals[Int(input.index)].offer(stream) else {
            throw KithError(.conflict, "The transfer has this substream.")
        }
        _ = try await slot.ends[Int(input.index)].receive()
    }
}
