/// Spreads packets over time (RFC 9002 §7.7) in bursts fit for segmentation offload.
///
/// A bucket of bytes fills at the pacing rate. It holds what the rate brings in about a millisecond and a half, so that a
/// timer that fires late costs no throughput, and never less than a few packets. A burst starts once the bucket holds
/// a quantum: a packet or two on a slow path, a full offload batch on a fast one.
struct Pacer: Sendable {
    /// The depth of the bucket, in time.
    static let depth: Int64 = .microseconds(1_500)
    /// The packets of the largest burst waited for.
    static let batch = 44
    private static let smallestDepth = 6

    private var tokens: Double
    private var filled = Timestamp.zero
    private var hasStarted = false
    /// The rest of the ten packets a path begins with, which wait for no burst to gather (RFC 9002 §7.7).
    private var initial: Double

    init(datagramSize: Int) {
        tokens = Double(10 * datagramSize)
        initial = tokens
    }

    private func limit(rate: Int64, datagramSize: Int) -> Double {
        max(Double(Self.smallestDepth * datagramSize), Double(rate) * Double(Self.depth) / 1e9)
    }

    /// Returns the number of bytes that may go now, or the time when enough will have gathered.
    mutating func permission(rate: Int64, datagramSize: Int, at now: Timestamp) -> SendPermission {
        let limit = limit(rate: rate, datagramSize: datagramSize)
        if hasStarted {
            let passed = now - filled
            if passed > 0 {
                // What the initial burst had over the limit is kept until used, but nothing is added to it.
                let gained = tokens + Double(passed) * Double(rate) / 1e9
                tokens = tokens > limit ? tokens : min(gained, limit)
                filled = now
            }
        } else {
            hasStarted = true
            filled = now
        }
        let quantum = max(Double(datagramSize), min(limit / 2, Double(Self.batch * datagramSize)))
        if tokens >= quantum || initial >= Double(datagramSize) { return .bytes(Int(tokens)) }
        let wait = (quantum - tokens) * 1e9 / Double(max(rate, 1))
        return .paced(until: now.advanced(nanoseconds: Int64(min(wait, 1e9)) + 1))
    }

    /// Takes the bytes of a packet out; probes and acknowledgements may overdraw a little.
    mutating func sent(size: Int, datagramSize: Int) {
        tokens = max(tokens - Double(size), -Double(2 * datagramSize))
        if initial > 0 { initial -= Double(size) }
    }
}
