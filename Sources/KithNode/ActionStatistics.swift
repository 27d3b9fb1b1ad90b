import KithAPI
import KithWire
import Synchronization

/// The counts of one action's calls.
final class ActionStatistics: Sendable {
    /// Parts of the counts; `nil` before the first call.
    private let parts = AtomicLazyReference<Striped<Registry.ActionStatistics>>()

    /// The counts now.
    var value: Registry.ActionStatistics {
        var sum = Registry.ActionStatistics()
        parts.load()?.withEach { sum.add($0) }
        return sum
    }

    /// A call begins.
    func begin() {
        let parts = parts.load() ?? self.parts.storeIfNil(Striped(Registry.ActionStatistics()))
        parts.withNearest { $0.running += 1 }
    }

    /// A call has taken `time`, and failed with `error` if it did; `now` is the time in milliseconds since 1970.
    func end(_ time: Duration, _ error: KithError?, now: @autoclosure () -> Int64) {
        let (seconds, attoseconds) = time.components
        let microseconds =
            seconds > 1 << 40
            ? UInt64.max : UInt64(max(0, seconds)) * 1_000_000 + UInt64(max(0, attoseconds) / 1_000_000_000_000)
        let failure = error.map {
            Registry.Failure(code: $0.code, message: $0.message.prefix(bytes: 256), time: now())
        }
        parts.load()?.withNearest { part in
            part.running -= 1
            part.calls += 1
            part.latency.add(microseconds)
            if let failure {
                part.errors += 1
                part.lastError = failure
            }
        }
    }
}

extension Registry.ActionStatistics {
    /// Adds the counts of other calls of the same action.
    fileprivate mutating func add(_ other: Self) {
        calls += other.calls
        errors += other.errors
        running += other.running
        latency.add(other.latency)
        if let failure = other.lastError, failure.time >= lastError?.time ?? .min { lastError = failure }
    }
}
