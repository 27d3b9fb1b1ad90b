/// The streams with something to send, by priority, in turn within one priority; every operation is O(1).
///
/// Queues are linked through ``Stream/nextScheduled``, so that a stream's turn costs no memory.
struct StreamScheduler: Sendable {
    private var heads = [Int32](repeating: -1, count: 256)
    private var tails = [Int32](repeating: -1, count: 256)
    /// One bit for each priority with a queue.
    private var occupied: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    /// Indicates whether no stream waits.
    var isEmpty: Bool { occupied.0 | occupied.1 | occupied.2 | occupied.3 == 0 }

    /// The most urgent priority with a stream waiting.
    private var first: Int? {
        if occupied.0 != 0 { return occupied.0.trailingZeroBitCount }
        if occupied.1 != 0 { return 64 + occupied.1.trailingZeroBitCount }
        if occupied.2 != 0 { return 128 + occupied.2.trailingZeroBitCount }
        if occupied.3 != 0 { return 192 + occupied.3.trailingZeroBitCount }
        return nil
    }

    private mutating func mark(_ priority: Int, _ isOccupied: Bool) {
        let bit: UInt64 = 1 << UInt64(priority & 63)
        switch priority >> 6 {
        case 0: occupied.0 = isOccupied ? occupied.0 | bit : occupied.0 & ~bit
        case 1: occupied.1 = isOccupied ? occupied.1 | bit : occupied.1 & ~bit
        case 2: occupied.2 = isOccupied ? occupied.2 | bit : occupied.2 & ~bit
        default: occupied.3 = isOccupied ? occupied.3 | bit : occupied.3 & ~bit
        }
    }

    /// Puts a stream at the end of its priority's queue, unless it waits already.
    mutating func append(_ slot: Int, in streams: inout ContiguousArray<Stream>) {
        guard !streams[slot].isScheduled else { return }
        let priority = Int(streams[slot].priority)
        streams[slot].isScheduled = true
        streams[slot].nextScheduled = -1
        if heads[priority] < 0 {
            heads[priority] = Int32(slot)
            mark(priority, true)
        } else {
            streams[Int(tails[priority])].nextScheduled = Int32(slot)
        }
        tails[priority] = Int32(slot)
    }

    /// The stream whose turn it is.
    var next: Int? { first.map { Int(heads[$0]) } }

    /// Takes the stream whose turn it is out.
    mutating func removeNext(in streams: inout ContiguousArray<Stream>) {
        guard let priority = first else { return }
        let slot = Int(heads[priority])
        heads[priority] = streams[slot].nextScheduled
        if heads[priority] < 0 {
            tails[priority] = -1
            mark(priority, false)
        }
        streams[slot].isScheduled = false
        streams[slot].nextScheduled = -1
    }

    /// Takes a stream out wherever it stands; O(streams of its priority), for streams that end or change priority.
    mutating func remove(_ slot: Int, in streams: inout ContiguousArray<Stream>) {
        guard streams[slot].isScheduled else { return }
        let priority = Int(streams[slot].priority)
        var previous: Int32 = -1
        var current = heads[priority]
        while current >= 0, current != Int32(slot) {
            previous = current
            current = streams[Int(current)].nextScheduled
        }
        guard current >= 0 else { preconditionFailure("a scheduled stream is in its queue") }
        let after = streams[slot].nextScheduled
        if previous < 0 { heads[priority] = after } else { streams[Int(previous)].nextScheduled = after }
        if tails[priority] == Int32(slot) { tails[priority] = previous }
        if heads[priority] < 0 { mark(priority, false) }
        streams[slot].isScheduled = false
        streams[slot].nextScheduled = -1
    }
}
