/// Leaves slow start when the round trip grows, before packets are lost (HyStart++, RFC 9406).
///
/// ```
///  slow ──round trip grew by an eighth──▶ conservative ──5 rounds──▶ done
///    ▲                                        │
///    └────────round trip fell again───────────┘
/// ```
/// Rounds are counted by delivered bytes: one ends when something sent after it began is acknowledged.
struct HyStart: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
        case slow, conservative, done
    }

    static let smallestRise: Int64 = .milliseconds(4)
    static let largestRise: Int64 = .milliseconds(16)
    static let riseDivisor: Int64 = 8
    static let samplesPerRound = 8
    static let growthDivisor = 4
    static let conservativeRounds = 5

    private(set) var phase = Phase.slow
    private var roundEnd: UInt64 = 0
    private var lastRoundMinimum = Int64.max
    private var roundMinimum = Int64.max
    private var samples = 0
    private var baseline = Int64.max
    private var rounds = 0

    /// Takes an ACK frame in; answers by how many bytes the window grows.
    mutating func acknowledged(_ sample: AckSample) -> Int {
        if sample.priorDelivered >= roundEnd {
            roundEnd = sample.totalDelivered
            lastRoundMinimum = roundMinimum
            roundMinimum = .max
            samples = 0
            if phase == .conservative {
                rounds += 1
                if rounds >= Self.conservativeRounds { phase = .done }
            }
        }
        if let rtt = sample.rtt {
            roundMinimum = min(roundMinimum, rtt)
            samples += 1
        }
        if samples >= Self.samplesPerRound { judge() }
        // Paced, the growth of one ACK frame needs no bound (RFC 9406 §4.2, L = infinity).
        return phase == .slow ? sample.acknowledged : sample.acknowledged / Self.growthDivisor
    }

    private mutating func judge() {
        switch phase {
        case .slow:
            guard roundMinimum != .max, lastRoundMinimum != .max else { return }
            let rise = min(max(lastRoundMinimum / Self.riseDivisor, Self.smallestRise), Self.largestRise)
            guard roundMinimum >= lastRoundMinimum + rise else { return }
            baseline = roundMinimum
            phase = .conservative
            rounds = 0
        case .conservative:
            // It was not the queue.
            guard roundMinimum < baseline else { return }
            baseline = .max
            phase = .slow
        case .done: break
        }
    }
}
