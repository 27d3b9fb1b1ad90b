package import KithIdentity

/// The bounds of a ``FairSendQueue``.
package struct SendQueueLimits: Hashable, Sendable {
    /// The most bytes that wait.
    package var bytes = 256 << 10
    /// The longest that one waits.
    package var age = Duration.milliseconds(250)
    /// The size up to which one counts as small.
    package var small = 256
    /// The bytes a sender may send before the next one's turn.
    package var quantum = 4_096

    /// The usual bounds.
    package init() {}
}

/// What waits to be sent on one link, shared fairly among those who sent it.
///
/// Bounded by bytes and by age, so that a slow link delays nobody by more than a moment: the oldest is dropped, of the
/// sender with the most waiting. A sender's own datagrams stay in their order, since QUIC takes disorder for loss; but
/// a sender whose next one is small (an acknowledgement, a keystroke) comes before those with bulk, as long as it has
/// not used up its share. Shares are counted in bytes (deficit round robin).
package struct FairSendQueue<Item> {
    /// What keeping an item costs beside its bytes, so that many empty ones are bounded too.
    package static var overhead: Int { 64 }

    private struct Entry {
        let item: Item
        let size: Int
        let time: ContinuousClock.Instant
    }

    /// One sender's items, in order.
    private struct Lane {
        var entries: [Entry?] = []
        /// The index of the first.
        var start = 0
        var bytes = 0
        var credit: Int

        var first: Entry? { start < entries.count ? entries[start] : nil }

        mutating func removeFirst() {
            guard let entry = first else { return }
            bytes -= entry.size + FairSendQueue.overhead
            entries[start] = nil
            start += 1
            if start == entries.count {
                entries.removeAll(keepingCapacity: entries.capacity <= 256)
                start = 0
            } else if start >= 64, start * 2 >= entries.count {
                entries.removeFirst(start)
                start = 0
            }
        }
    }

    /// A line of senders.
    private struct Line {
        private var senders: [DeviceID] = []
        private var start = 0

        mutating func append(_ sender: DeviceID) { senders.append(sender) }

        mutating func next() -> DeviceID? {
            guard start < senders.count else { return nil }
            let sender = senders[start]
            start += 1
            if start == senders.count {
                senders.removeAll(keepingCapacity: senders.capacity <= 256)
                start = 0
            } else if start >= 64, start * 2 >= senders.count {
                senders.removeFirst(start)
                start = 0
            }
            return sender
        }
    }

    private let limits: SendQueueLimits
    private var lanes: [DeviceID: Lane] = [:]
    /// Those whose next one is small, and who have credit for it.
    private var urgent = Line()
    private var others = Line()
    /// The one of the others whose share is being sent.
    private var current: DeviceID?

    /// The number of bytes that wait, with what keeping them costs.
    package private(set) var bytes = 0
    /// The number of items that wait.
    package private(set) var count = 0
    /// The number of items that were dropped so far.
    package private(set) var dropped: UInt64 = 0

    /// True when nothing waits.
    package var isEmpty: Bool { count == 0 }

    /// Makes an empty queue.
    package init(limits: SendQueueLimits = SendQueueLimits()) { self.limits = limits }

    /// Adds an item of `size` bytes; drops the oldest when it is too much.
    package mutating func append(_ item: Item, size: Int, from sender: DeviceID, at now: ContinuousClock.Instant) {
        let cost = size + Self.overhead
        guard cost <= limits.bytes else {
            dropped += 1
            return
        }
        while bytes + cost > limits.bytes { dropOldest() }
        // Whoever has a lane stands in a line. Taken out and put back: a copy of the lane would copy all that waits.
        let isNew = lanes[sender] == nil
        var lane = lanes.removeValue(forKey: sender) ?? Lane(credit: limits.quantum)
        lane.entries.append(Entry(item: item, size: size, time: now))
        lane.bytes += cost
        lanes[sender] = lane
        bytes += cost
        count += 1
        if isNew { queue(sender) }
    }

    /// Takes the next item; drops what has waited too long.
    package mutating func next(at now: ContinuousClock.Instant) -> Item? {
        while true {
            let sparse = urgent.next()
            guard let sender = sparse ?? current ?? others.next() else { return nil }
            if sparse == nil { current = nil }
            while let entry = lanes[sender]?.first, now - entry.time > limits.age {
                removeFirst(of: sender)
                dropped += 1
            }
            guard let entry = lanes[sender]?.first, let credit = lanes[sender]?.credit else {
                lanes[sender] = nil
                continue
            }
            guard credit >= entry.size else {
                waitForTurn(sender)
                continue
            }
            lanes[sender]?.credit = credit - entry.size
            removeFirst(of: sender)
            if let following = lanes[sender]?.first {
                if following.size > credit - entry.size {
                    waitForTurn(sender)
                } else if sparse == nil {
                    current = sender
                } else {
                    queue(sender)
                }
            } else {
                lanes[sender] = nil
            }
            return entry.item
        }
    }

    /// Puts a sender that has used up its share behind the others, with its next one.
    private mutating func waitForTurn(_ sender: DeviceID) {
        lanes[sender]?.credit += limits.quantum
        others.append(sender)
    }

    /// Forgets everything.
    package mutating func removeAll() {
        (lanes, urgent, others, current) = ([:], Line(), Line(), nil)
        (bytes, count) = (0, 0)
    }

    private mutating func queue(_ sender: DeviceID) {
        guard let entry = lanes[sender]?.first, let credit = lanes[sender]?.credit else { return }
        if entry.size <= limits.small, credit >= entry.size { urgent.append(sender) } else { others.append(sender) }
    }

    private mutating func removeFirst(of sender: DeviceID) {
        guard let entry = lanes[sender]?.first else { return }
        lanes[sender]?.removeFirst()
        bytes -= entry.size + Self.overhead
        count -= 1
    }

    /// Drops the oldest of the sender with the most bytes.
    private mutating func dropOldest() {
        guard let fullest = lanes.max(by: { $0.value.bytes < $1.value.bytes })?.key else { return }
        removeFirst(of: fullest)
        dropped += 1
    }
}
