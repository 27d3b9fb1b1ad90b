/// The defence against optimistic ACKs: it leaves out packet numbers, which only a cheat acknowledges (RFC 9000 §21.4).
///
/// A peer that acknowledges what it has not received makes us send faster than the path carries. It cannot know which
/// numbers do not exist. Each skip costs the receiver one more acknowledgement range for a while, so they come ever
/// more rarely: one among the first 64 numbers, one among the next 128, and so on.
struct OptimisticAckDefence {
    private var next: UInt64
    private var span: UInt64 = 64

    init(random: UInt64) { next = random % span }

    /// Returns whether the number after `number` is to be left out.
    @inline(__always)
    mutating func isDue(after number: UInt64, random: () -> UInt64) -> Bool {
        guard number >= next else { return false }
        span &*= 2
        // Never soon again, and never so far that the sum overflows.
        next = number + 1 + span / 2 + random() % (span / 2)
        if span >= 1 << 40 { span = 1 << 39 }
        return true
    }
}
