/// Finds the largest datagram the path carries (DPLPMTUD, RFC 8899 §5; RFC 9000 §14.3).
///
/// ```
///  idle ──start──▶ searching ──nothing left to try──▶ complete
///                   ▲    │ probe sent                    │ 600 s
///        arrived,   │    ▼                               │
///        lost       └─ outstanding        searching ◀────┘
/// ```
/// The largest size allowed is tried first: most paths carry it, and one probe settles the matter. Then what common
/// links leave of a packet for UDP over IPv6, from the largest down, then the middle of what is left. A size has failed
/// after three lost probes (MAX_PROBES), or when the system refuses to send it.
struct PathMTUDiscovery {
    private enum State {
        case idle, searching, outstanding, complete
    }

    /// The size every path carries (BASE_PLPMTU).
    static let smallest = 1200
    /// The number of times a size is tried.
    static let attempts = 3
    /// The time for which the answer is believed to be the largest (PMTU_RAISE_TIMER).
    static let raiseInterval: Int64 = .seconds(600)
    /// Differences below this are not worth a probe.
    static let granularity = 8
    /// UDP payloads over IPv6 of links of 65,536, 16,384, 9,000, 1,500 (IPv4, IPv6), 1,492, 1,420, 1,400 and 1,280 bytes.
    static let common = [65_488, 16_336, 8_952, 1_472, 1_452, 1_444, 1_372, 1_352, 1_232]

    private var state = State.idle
    private var limit = PathMTUDiscovery.smallest
    private var candidate = PathMTUDiscovery.smallest
    private var failures = 0
    private var raise = Timestamp.distantFuture
    /// The largest size known to arrive.
    private(set) var known = PathMTUDiscovery.smallest
    /// The smallest size known to fail, one more than the limit without any.
    private var ceiling = PathMTUDiscovery.smallest + 1

    /// Indicates whether a larger size may still be found.
    var isComplete: Bool { state == .complete }

    /// The size to send a probe of; nil when none is wanted now.
    mutating func wanted(at now: Timestamp) -> Int? {
        if state == .complete, now >= raise { start(limit: limit, from: known) }
        return state == .searching ? candidate : nil
    }

    /// Begins to search between `known`, which is believed, and `limit`.
    mutating func start(limit: Int, from known: Int = PathMTUDiscovery.smallest) {
        self.limit = limit
        self.known = known
        ceiling = limit + 1
        raise = .distantFuture
        state = .searching
        choose()
    }

    /// Chooses the next size; there is no next one when the search is complete.
    private mutating func choose() {
        failures = 0
        if ceiling > limit, known < limit {
            candidate = limit
        } else if let next = Self.common.first(where: { $0 < ceiling && $0 > known }) {
            candidate = next
        } else if ceiling - known > Self.granularity {
            candidate = (known + ceiling) / 2
        } else {
            state = .complete
            return
        }
        state = .searching
    }

    private mutating func chooseNext(at now: Timestamp) {
        choose()
        if state == .complete, known < limit { raise = now + Self.raiseInterval }
    }

    /// Notes that the probe is on its way.
    mutating func sent() { state = .outstanding }

    /// Notes that a probe arrived; answers the size that is now usable.
    mutating func acknowledged(_ size: Int, at now: Timestamp) -> Int? {
        guard state == .outstanding, size == candidate else { return nil }
        known = size
        chooseNext(at: now)
        return size
    }

    /// Notes that a probe was lost, which says nothing about congestion (RFC 9000 §14.4).
    mutating func lost(_ size: Int, at now: Timestamp) {
        guard state == .outstanding, size == candidate else { return }
        failures += 1
        state = .searching
        if failures >= Self.attempts { failed(at: now) }
    }

    /// Notes that the system will not send datagrams of that size.
    mutating func refused(_ size: Int, at now: Timestamp) {
        guard state == .searching || state == .outstanding, size == candidate else { return }
        failed(at: now)
    }

    private mutating func failed(at now: Timestamp) {
        ceiling = candidate
        chooseNext(at: now)
    }
}
