/// The bytes of one stream in the order they were written, put together from frames in any order (RFC 9000 §2.2).
///
/// The caller's flow control bounds how far ahead of the reader a peer may write; this bounds only the number of holes.
package struct ReceiveBuffer: Sendable {
    /// More separate runs than this are a peer's trick: a full 16 MiB window in 1,200-byte packets with every
    /// other one lost has fewer.
    package static let maximumRuns = 8192

    private var ring = ByteRing()
    /// Everything before has been read.
    package private(set) var readOffset: UInt64 = 0
    /// Everything before has arrived.
    package private(set) var contiguousEnd: UInt64 = 0
    /// The end of the farthest byte that has arrived; what flow control counts.
    package private(set) var highestOffset: UInt64 = 0
    /// The size of the whole stream once the peer has said it.
    package private(set) var finalSize: UInt64?
    private var ahead = OffsetRanges()

    package init() {}

    /// The number of bytes that can be read now.
    package var readableCount: Int { Int(contiguousEnd - readOffset) }

    /// Indicates whether every byte up to the end has been read.
    package var isFinished: Bool { finalSize == readOffset }

    /// Indicates whether every byte up to the end has arrived.
    package var isComplete: Bool { finalSize == contiguousEnd }

    /// Indicates whether there are bytes, or an end, the reader has not seen.
    package var isReadable: Bool { contiguousEnd > readOffset || isComplete }

    /// The number of separate runs held, for tests of bounds.
    package var bookkeeping: Int { ahead.count }

    /// The number of bytes of memory held.
    package var memory: Int { ring.capacity }

    /// Takes a frame's bytes in.
    ///
    /// - Returns: whether any of it had not come before.
    /// - Throws: ``StreamViolation/finalSize`` when sizes contradict each other (RFC 9000 §4.5),
    ///   ``StreamViolation/tooFragmented``.
    @discardableResult
    package mutating func receive(
        offset: UInt64, bytes: UnsafeRawBufferPointer, isFinished: Bool
    ) throws(StreamViolation) -> Bool {
        let end = offset + UInt64(bytes.count)
        let isEndNew = isFinished && finalSize == nil
        if isFinished {
            try setFinalSize(end)
        } else if let finalSize, end > finalSize {
            throw .finalSize
        }
        highestOffset = max(highestOffset, end)
        guard end > contiguousEnd, unsafe !bytes.isEmpty else { return isEndNew }
        let start = max(offset, contiguousEnd)
        let fresh = unsafe UnsafeRawBufferPointer(rebasing: bytes[Int(start - offset)...])
        if start == contiguousEnd {
            unsafe store(fresh, at: start)
            contiguousEnd = end
            while let first = ahead.first, first.lowerBound <= contiguousEnd {
                contiguousEnd = max(contiguousEnd, first.upperBound)
                ahead.removeFirst()
            }
        } else if !ahead.contains(start..<end) {
            guard ahead.count < Self.maximumRuns else { throw .tooFragmented }
            unsafe store(fresh, at: start)
            ahead.insert(start..<end)
        } else {
            return isEndNew
        }
        return true
    }

    private mutating func store(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) {
        let held = max(contiguousEnd, ahead.last?.upperBound ?? 0)
        ring.reserve(readOffset..<max(held, offset + UInt64(bytes.count)), keeping: readOffset..<held)
        unsafe ring.write(bytes, at: offset)
    }

    /// Notes the size a FIN or a reset gave.
    package mutating func setFinalSize(_ size: UInt64) throws(StreamViolation) {
        guard size >= highestOffset, finalSize == nil || finalSize == size else { throw .finalSize }
        finalSize = size
        highestOffset = size
        if isFinished { ring.release() }
    }

    /// Moves bytes to the reader, in order; 0 when none are there.
    package mutating func read(into target: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(target.count, readableCount)
        guard count > 0 else { return 0 }
        unsafe ring.read(into: UnsafeMutableRawBufferPointer(rebasing: target[0..<count]), at: readOffset)
        readOffset += UInt64(count)
        if isFinished {
            ring.release()
        } else if readOffset == contiguousEnd, ahead.isEmpty {
            ring.emptied()
        }
        return count
    }

    /// Gives memory back that a burst needed, if nothing is held.
    package mutating func trim() {
        if readOffset == contiguousEnd, ahead.isEmpty { ring.trim() }
    }

    /// Drops what is held; further frames only count for flow control.
    package mutating func discard() {
        ring.release()
        ahead.removeAll()
        readOffset = highestOffset
        contiguousEnd = highestOffset
    }
}
