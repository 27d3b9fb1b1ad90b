/// Tells what is lost to a full queue from what a path loses anyway, by the delay around each loss.
///
/// ```
///  round trip
///   top ─ ─ ─ ─ ─ ─ ─ ×─×─ ─   lost beside packets that waited: the queue is full (evidence)
///                 ╭───╯
///   middle ─ ─ ─ ─│─ ─ ─ ─ ─
///          ×   ╭──╯       ×    lost beside packets that did not wait: the path loses that much (quiet)
///   minimum ───╯
/// ```
/// A radio link loses as much with an empty queue as with a full one, so its losses are no evidence of congestion. A
/// policer has no queue either, but loses more of what is sent faster: what is lost while probing is kept apart.
struct LossCause: Hashable, Sendable {
    /// A share of packets lost, averaged over the newest.
    struct Share: Hashable, Sendable {
        /// The packets it looks back on, about.
        let memory: Double
        private(set) var value = 0.0
        /// The packets counted, up to ``memory``.
        private(set) var count = 0.0

        init(memory: Double) { self.memory = memory }

        /// Counts packets of which that share (0 or 1) was lost.
        mutating func note(_ packets: Double, lost: Double) {
            count = min(memory, count + packets)
            value += (lost - value) * min(1, packets / max(count, 20))
        }

        mutating func lossWasSpurious() { value = max(0, value - 1 / max(count, 20)) }
    }

    /// The share lost beyond twice the quiet one that says nothing yet.
    static let tolerance = 0.005
    /// The excess, in packets, from which on the queue is held to be full.
    static let limit = 2.0
    /// The same where nothing is lost but by queues that hold no more than two round trips: who fills a deeper one has
    /// most of it already, and gives way seldom.
    static let shortLimit = 1.0
    /// The packets after which that is known.
    private static let knownAfter = 400.0
    /// The packets looked back on to tell what a path loses.
    private static let longMemory = 2_000.0
    /// The packets looked back on to notice soon that it loses much.
    private static let shortMemory = 200.0
    /// The least that counts as waiting.
    static let noise: Int64 = .milliseconds(1)

    /// The share lost without a queue.
    private(set) var quiet = Share(memory: Self.longMemory)
    /// The same of what was sent without a probe for more.
    private(set) var background = Share(memory: Self.shortMemory)
    /// The share lost without a queue while probing for more.
    private(set) var probing = Share(memory: Self.shortMemory)
    /// The packets lost with a queue beyond what the quiet share explains.
    private(set) var evidence = 0.0
    /// The largest round trip of a round, smoothed.
    private var top = 0.0
    private var roundTop: Int64 = 0
    private var lastTop: Int64 = 0

    /// Indicates whether a full queue is losing packets.
    func isQueueFull(minimum: Int64) -> Bool {
        let isShort = top <= 3 * Double(minimum) && quiet.count >= Self.knownAfter && quiet.value < 0.001
        let limit = isShort ? Self.shortLimit : Self.limit
        return evidence >= limit + 400 * quiet.value
    }

    /// The share of what waits that may be lost without being evidence.
    private var allowance: Double { 2 * (quiet.value + 1 / max(quiet.count, 20)) + Self.tolerance }

    /// The smallest round trip of the last whole round, or of the one before there was any.
    private(set) var roundMinimum = Int64.max
    private var bottom = Int64.max

    /// The share of packets that is lost however little is sent (0…0.5), as far as rates need to make up for it.
    var unavoidable: Double {
        guard background.count >= 40, background.value > 0.05, probing.value < background.value + 0.1 else { return 0 }
        return min(background.value, 0.5)
    }

    /// Indicates whether a packet of the last round waited.
    func isQueued(minimum: Int64) -> Bool { isWaiting(max(roundTop, lastTop), minimum: minimum) }

    /// Returns whether a packet with that round trip has waited.
    func isWaiting(_ rtt: Int64, minimum: Int64) -> Bool {
        guard minimum != .max else { return false }
        return Double(rtt - minimum) > max(Double(Self.noise), (top - Double(minimum)) / 2)
    }

    /// Forgets what was held to have met no queue.
    mutating func startOver() {
        quiet = Share(memory: Self.longMemory)
        background = Share(memory: Self.shortMemory)
        probing = Share(memory: Self.shortMemory)
    }

    /// Says that a round trip has passed.
    mutating func roundEnded() {
        guard roundTop > 0 else { return }
        top += (Double(roundTop) - top) * (top == 0 ? 1 : 0.125)
        lastTop = roundTop
        roundTop = 0
        roundMinimum = bottom
        bottom = .max
    }

    /// Counts packets that arrived.
    mutating func acknowledged(_ packets: Double, rtt: Int64, minimum: Int64, isProbing: Bool) {
        roundTop = max(roundTop, rtt)
        bottom = min(bottom, rtt)
        if isWaiting(rtt, minimum: minimum) {
            evidence = max(0, evidence - packets * allowance)
        } else {
            quiet.note(packets, lost: 0)
            if isProbing { probing.note(packets, lost: 0) } else { background.note(packets, lost: 0) }
        }
    }

    /// Counts a packet lost.
    mutating func lost(rtt: Int64, minimum: Int64, isProbing: Bool, isNew: Bool) {
        if isWaiting(rtt, minimum: minimum) {
            if isNew { evidence += 1 }
        } else {
            quiet.note(1, lost: 1)
            if isProbing { probing.note(1, lost: 1) } else { background.note(1, lost: 1) }
        }
    }

    /// Takes a loss back.
    mutating func lossWasSpurious() {
        evidence = max(0, evidence - 1)
        quiet.lossWasSpurious()
        background.lossWasSpurious()
        probing.lossWasSpurious()
    }

    /// Says that the evidence has been answered.
    mutating func answered() { evidence = 0 }
}
