/// The newest run of lost packets with nothing acknowledged between them: what persistent congestion is found by
/// (RFC 9002 §7.6.2).
///
/// Losses are declared in the order of packet numbers, possibly over several ACK frames and time-outs; the run lives on
/// between them. One per packet-number space.
struct LossRun: Sendable {
    private var first = Timestamp.zero
    private var last = Timestamp.zero
    /// The newest lost number of the run; nil without a run.
    private var newest: UInt64?
    /// The smallest acknowledged number above ``newest``: a loss beyond it begins another run.
    private var end = UInt64.max

    /// The time the run's first packet was sent; nil without a run.
    var start: Timestamp? { newest == nil ? nil : first }

    /// The time between the sending of its first and its last ack-eliciting packet.
    var duration: Int64 { newest == nil ? 0 : last - first }

    /// Notes that a number was acknowledged.
    @inline(__always)
    mutating func acknowledged(_ number: UInt64) {
        if let newest, number > newest, number < end { end = number }
    }

    /// Notes a loss; `counts` when the packet elicits an acknowledgement and was sent after the first round-trip sample.
    mutating func lost(_ number: UInt64, sentAt time: Timestamp, counts: Bool) {
        if newest != nil, number < end {
            newest = number
            if counts { last = time }
            return
        }
        reset()
        guard counts else { return }
        (first, last, newest) = (time, time, number)
    }

    /// Notes that a packet declared lost arrived after all.
    mutating func lossWasSpurious(_ number: UInt64) {
        if let newest, number <= newest { reset() }
    }

    mutating func reset() {
        self = LossRun()
    }
}
