import KithAPI
import KithWire
import Synchronization

/// The counts of one action's calls.
final class ActionStatistics: Sendable {
    private let content = Mutex(Registry.ActionStatistics())

    /// The counts now.
    var value: Registry.ActionStatistics { content.withLock { $0 } }

    /// A call begins.
    func begin() { content.withLock { $0.running += 1 } }

    /// A call has taken `time`, and failed with `error` if it did; `now` is the time in milliseconds since 1970.
    func end(_ time: Duration, _ error: KithError?, now: @autoclosure () -> Int64) {
        let (seconds, attoseconds) = time.components
        let microseconds =
            seconds > 1 << 40
            ? UInt64.max : UInt64(max(0, seconds)) * 1_000_000 + UInt64(max(0, attoseconds) / 1_000_000_000_000)
        let failure = error.map { ($0, now()) }
        content.withLock { content in
            content.running -= 1
            content.calls += 1
            content.latency.add(microseconds)
            if let (error, now) = failure {
                content.errors += 1
                content.lastError = Registry.Failure(
                    code: error.code, message: error.message.prefix(bytes: 256), time: now)
            }
        }
    }
}
