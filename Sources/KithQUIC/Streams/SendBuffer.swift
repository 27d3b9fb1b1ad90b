/// A run of bytes to put into a frame.
package struct PendingRange: Hashable, Sendable {
    /// The stream offset at which the run starts.
    package var offset: UInt64
    /// Its length; 0 for a bare FIN.
    package var length: Int
    /// Indicates whether the frame ends the stream.
    package var isFinished: Bool
}

/// The bytes one stream still has to get across, from the first unacknowledged one to the last written.
///
/// ```
///  released │ acknowledged · in flight · lost · …  │ unsent        │ room
///           base                                   next            end
/// ```
/// Lost runs go out before new ones. An acknowledged prefix is released and makes room for writes.
package struct SendBuffer: Sendable {
    /// The most bytes held at once.
    package var capacity: Int
    private var ring = ByteRing()
    /// Everything before is acknowledged.
    package private(set) var base: UInt64 = 0
    /// Everything from here on has never been sent.
    package private(set) var next: UInt64 = 0
    /// Everything before has been written.
    package private(set) var end: UInt64 = 0
    private var acknowledgedAhead = OffsetRanges()
    private var lostRanges = OffsetRanges()
    private var finState = FINState.open

    private enum FINState {
        case open, pending, inFlight, acknowledged
    }

    package init(capacity: Int = .max) {
        self.capacity = capacity
    }

    /// The number of bytes held: written and not yet released.
    package var held: Int { Int(end - base) }

    /// The number of bytes that can be written now.
    package var room: Int { max(0, capacity - held) }

    /// The number of written bytes that have never been sent.
    package var unsent: UInt64 { end - next }

    /// Indicates whether the writer has said that no more comes.
    package var isFinished: Bool { finState != .open }

    /// Indicates whether all bytes and the FIN have been acknowledged.
    package var isComplete: Bool { finState == .acknowledged && base == end }

    /// Indicates whether there is something to send, flow control aside.
    package var hasPending: Bool { !lostRanges.isEmpty || next < end || finState == .pending }

    /// Returns whether there is something to send when new bytes must stay below `limit`.
    package func hasPending(below limit: UInt64) -> Bool {
        !lostRanges.isEmpty || (next < end ? next < limit : finState == .pending)
    }

    /// The stream offset at which the next run to send starts.
    package var pendingOffset: UInt64 { lostRanges.first?.lowerBound ?? next }

    /// Indicates whether something was lost and waits to be sent again; that needs no flow control.
    package var hasLost: Bool { !lostRanges.isEmpty }

    /// Takes bytes to send, as many as there is room for.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) -> Int {
        precondition(finState == .open, "nothing is written after the end")
        let count = min(bytes.count, room)
        guard count > 0 else { return 0 }
        ring.reserve(base..<end + UInt64(count), keeping: base..<end)
        unsafe ring.write(UnsafeRawBufferPointer(rebasing: bytes[0..<count]), at: end)
        end += UInt64(count)
        return count
    }

    /// Says that no more comes; a FIN will go with the last byte.
    package mutating func finish() {
        if finState == .open { finState = .pending }
    }

    /// Takes the next run to send, at most `limit` bytes, new ones only below the stream offset `maximum`.
    ///
    /// The run counts as in flight from here on.
    package mutating func take(upTo limit: Int, below maximum: UInt64 = .max) -> PendingRange? {
        if let range = lostRanges.takeFirst(upTo: UInt64(max(0, limit))) {
            return pending(range)
        }
        if next < end {
            guard limit > 0, next < maximum else { return nil }
            let count = min(UInt64(limit), end - next, maximum - next)
            let range = next..<next + count
            next += count
            return pending(range)
        }
        guard finState == .pending, lostRanges.isEmpty else { return nil }
        finState = .inFlight
        return PendingRange(offset: end, length: 0, isFinished: true)
    }

    private mutating func pending(_ range: Range<UInt64>) -> PendingRange {
        // The end travels with whatever run reaches it; saying it twice costs one bit.
        let isLast = range.upperBound == end && finState != .open
        if isLast, finState == .pending { finState = .inFlight }
        return PendingRange(
            offset: range.lowerBound, length: Int(range.upperBound - range.lowerBound), isFinished: isLast)
    }

    /// Copies the bytes of a taken run; they must not have been acknowledged.
    package func copy(offset: UInt64, into target: UnsafeMutableRawBufferPointer) {
        precondition(offset >= base && offset + UInt64(target.count) <= end, "only held bytes are sent")
        unsafe ring.read(into: target, at: offset)
    }

    /// Notes that the peer has a run, however often it was sent.
    package mutating func acknowledged(offset: UInt64, length: Int, isFinished: Bool) {
        if isFinished, finState != .open { finState = .acknowledged }
        defer { if base == end { releaseMemory() } }
        let upper = min(offset + UInt64(length), next)
        let lower = max(offset, base)
        guard lower < upper else { return }
        if !lostRanges.isEmpty { lostRanges.remove(lower..<upper) }
        guard lower == base else {
            acknowledgedAhead.insert(lower..<upper)
            return
        }
        base = upper
        while let first = acknowledgedAhead.first, first.lowerBound <= base {
            base = max(base, first.upperBound)
            acknowledgedAhead.removeFirst()
        }
    }

    private mutating func releaseMemory() {
        if isComplete { ring.release() } else { ring.emptied() }
    }

    /// Gives memory back that a burst needed, if nothing is held.
    package mutating func trim() {
        if base == end { ring.trim() }
    }

    /// The number of bytes of memory held.
    package var memory: Int { ring.capacity }

    /// Notes that a run has to be sent again, unless it was acknowledged meanwhile.
    package mutating func lost(offset: UInt64, length: Int, isFinished: Bool) {
        if isFinished, finState == .inFlight { finState = .pending }
        let upper = min(offset + UInt64(length), next)
        var lower = max(offset, base)
        guard lower < upper else { return }
        if acknowledgedAhead.isEmpty {
            lostRanges.insert(lower..<upper)
            return
        }
        for position in 0..<acknowledgedAhead.count {
            let range = acknowledgedAhead[position]
            if range.upperBound <= lower { continue }
            if range.lowerBound >= upper { break }
            if lower < range.lowerBound { lostRanges.insert(lower..<range.lowerBound) }
            lower = range.upperBound
        }
        if lower < upper { lostRanges.insert(lower..<upper) }
    }

    /// Everything that was sent and not acknowledged goes again (a Retry, or a probe).
    package mutating func rewind() {
        if finState == .inFlight { finState = .pending }
        if base < next { lost(offset: base, length: Int(next - base), isFinished: false) }
    }

    /// Makes as if nothing had been sent; nothing of it may have been acknowledged (rejected 0-RTT).
    package mutating func withdraw() {
        precondition(base == 0 && acknowledgedAhead.isEmpty, "what was acknowledged is not taken back")
        next = 0
        lostRanges.removeAll()
        if finState == .inFlight { finState = .pending }
    }

    /// Drops all bytes: the stream was reset.
    package mutating func discard() {
        ring.release()
        lostRanges.removeAll()
        acknowledgedAhead.removeAll()
        base = end
        next = end
        finState = .acknowledged
    }

    /// The number of separate runs remembered, for tests of bounds.
    package var bookkeeping: Int { acknowledgedAhead.count + lostRanges.count }
}
