import KithWire

/// Decides in which order, and when, the addresses of a host are tried (RFC 8305).
///
/// A pure state machine: it opens nothing and reads no clock. Ask it what to do now; tell it what failed.
///
///     waiting ──nothing tried, the delay passed, or one failed──▶ attempt the next ──▶ waiting
///        │ none left and all failed
///        ▼
///     failed
struct HappyEyeballs {
    /// The next step for the caller.
    enum Action: Hashable {
        /// Try this address now.
        case attempt(NetworkAddress)
        /// Wait for an outcome, at most until then; `nil`: there is nothing else to try.
        case wait(until: ContinuousClock.Instant?)
        /// Every address has failed.
        case failed
    }

    /// The time an attempt may take before the next joins it (§5: 250 ms).
    static let attemptDelay = Duration.milliseconds(250)

    private var left: ArraySlice<NetworkAddress>
    private var pending = 0
    private var next: ContinuousClock.Instant?

    /// Takes the addresses as the system orders them (RFC 6724); families take turns from the first one's on (§4).
    init(_ addresses: [NetworkAddress]) { left = Self.interleaved(addresses)[...] }

    /// Decides the step to take at `now`.
    mutating func action(at now: ContinuousClock.Instant) -> Action {
        if let address = left.first, next.map({ $0 <= now }) ?? true {
            left.removeFirst()
            pending += 1
            next = now + Self.attemptDelay
            return .attempt(address)
        }
        if left.isEmpty { return pending == 0 ? .failed : .wait(until: nil) }
        return .wait(until: next)
    }

    /// One attempt has failed: the next begins at once.
    mutating func attemptFailed() {
        pending -= 1
        next = nil
    }

    static func interleaved(_ addresses: [NetworkAddress]) -> [NetworkAddress] {
        guard let first = addresses.first else { return [] }
        let same = addresses.filter { $0.isIPv6 == first.isIPv6 }
        let other = addresses.filter { $0.isIPv6 != first.isIPv6 }
        var result: [NetworkAddress] = []
        for index in 0..<max(same.count, other.count) {
            if index < same.count { result.append(same[index]) }
            if index < other.count { result.append(other[index]) }
        }
        return result
    }
}
