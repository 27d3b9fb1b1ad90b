/// Packet numbers on the wire: one to four bytes of them (RFC 9000 §17.1 and Appendix A).
enum PacketNumber {
    /// Returns the number of bytes a packet number needs so that the peer can restore it.
    ///
    /// Enough to tell apart twice as many packets as may be in flight. Never less than two: a batch of
    /// packets then has one header size while acknowledgements come in.
    @inline(__always)
    static func encodedLength(_ number: UInt64, largestAcknowledged: UInt64?) -> Int {
        let distance = largestAcknowledged.map { number - $0 } ?? (number + 1)
        if distance < 1 << 15 { return 2 }
        if distance < 1 << 23 { return 3 }
        return 4
    }

    /// Restores the full number from the `length` bytes received.
    ///
    /// The nearest one to the next expected (RFC 9000 Appendix A.3).
    @inline(__always)
    static func decode(_ truncated: UInt64, length: Int, largestReceived: UInt64?) -> UInt64 {
        let expected = largestReceived.map { $0 + 1 } ?? 0
        let window: UInt64 = 1 << (8 * UInt64(length))
        let half = window / 2
        let candidate = (expected & ~(window - 1)) | truncated
        if candidate + half <= expected, candidate < (1 << 62) - window { return candidate + window }
        if candidate > expected + half, candidate >= window { return candidate - window }
        return candidate
    }
}
