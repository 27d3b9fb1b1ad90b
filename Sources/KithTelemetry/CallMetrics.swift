public import CoreMetrics
public import KithIdentity
public import KithAPI
import KithNet
public import KithNode
public import KithWire
import Synchronization

/// Counts and times the calls of a node, and counts its connections and their bytes, with swift-metrics.
///
/// | label | what | dimensions |
/// | --- | --- | --- |
/// | `kith_calls_served_total` | calls that came to a service | `method`, `outcome` |
/// | `kith_call_served_seconds` | their durations; of streams, until their end | `method` |
/// | `kith_calls_running` | calls running now | |
/// | `kith_calls_refused_total` | calls of other devices refused before that | `method`, `outcome` |
/// | `kith_calls_made_total` | calls to other devices | `method`, `outcome` |
/// | `kith_call_made_seconds` | their durations; of streams, until they were accepted | `method` |
/// | `kith_connections_total` | connections with other devices that began | |
/// | `kith_connections` | connections open now | |
/// | `kith_connection_bytes_total` | bytes of UDP payload | `direction` |
///
/// `outcome` is `done` or the code of an error. `method` is a name of the table, or `other`: behind ``methodLimit`` names, and
/// for those that nothing here serves. No other device chooses a value, and none is named.
public final class CallMetrics: CallInterceptor {
    /// The most methods that are counted by name.
    public static let methodLimit = 512

    private struct Series: Hashable {
        var label: String
        var method: String
        var outcome: String
    }

    private struct State {
        var methods: Set<String> = []
        var counters: [Series: Counter] = [:]
        var timers: [Series: Timer] = [:]
        /// The bytes counted so far of the open connections.
        var connections: [UInt64: (connection: ObservedConnection, sent: UInt64, received: UInt64)] = [:]
    }

    private let factory: any MetricsFactory
    private let running: CoreMetrics.Meter
    private let connectionCount: CoreMetrics.Meter
    private let connectionTotal: Counter
    private let sent: Counter
    private let received: Counter
    private let state = Mutex(State())

    /// Counts with `factory`; by default the process's own.
    public init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        running = CoreMetrics.Meter(label: "kith_calls_running", factory: factory)
        connectionCount = CoreMetrics.Meter(label: "kith_connections", factory: factory)
        connectionTotal = Counter(label: "kith_connections_total", factory: factory)
        sent = Counter(
            label: "kith_connection_bytes_total", dimensions: [("direction", "sent")], factory: factory)
        received = Counter(
            label: "kith_connection_bytes_total", dimensions: [("direction", "received")], factory: factory)
    }

    /// Counts it, and how long it takes.
    public func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws {
        running.increment()
        defer { running.decrement() }
        try await measure(call.method, "kith_calls_served_total", "kith_call_served_seconds") { try await next(call) }
    }

    /// Counts it, and how long it takes.
    public func make(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
        try await measure(call.method, "kith_calls_made_total", "kith_call_made_seconds") { try await next(call) }
    }

    /// Counts it.
    public func refused(_ method: String?, from device: DeviceID, _ error: KithError) {
        count("kith_calls_refused_total", method ?? Self.other, error.code.rawValue)
    }

    /// Counts it.
    public func connected(_ connection: ObservedConnection) {
        state.withLock { $0.connections[connection.id] = (connection, 0, 0) }
        connectionTotal.increment()
        connectionCount.increment()
    }

    /// Counts its last bytes.
    public func disconnected(_ connection: ObservedConnection) async {
        await countBytes(of: connection)
        state.withLock { _ = $0.connections.removeValue(forKey: connection.id) }
        connectionCount.decrement()
    }

    /// Counts the bytes up to now of the connections that stand; those of one that ends are counted by themselves.
    public func refresh() async {
        for connection in state.withLock({ $0.connections.values.map(\.connection) }) {
            await countBytes(of: connection)
        }
    }

    // MARK: - Parts

    private static let other = "other"

    private func measure(
        _ method: String, _ counter: String, _ timer: String, _ body: () async throws -> Void
    ) async throws {
        let start = ContinuousClock.now
        func note(_ outcome: String) {
            count(counter, method, outcome)
            let (seconds, attoseconds) = (ContinuousClock.now - start).components
            time(timer, method).recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
        }
        do {
            try await body()
            note("done")
        } catch {
            switch error {
            case let error as KithError: note(error.code.rawValue)
            case is CancellationError: note(KithError.Code.cancelled.rawValue)
            default: note(KithError.Code.internal.rawValue)
            }
            throw error
        }
    }

    private func count(_ label: String, _ method: String, _ outcome: String) {
        state.withLock { state -> Counter in
            let series = Series(label: label, method: Self.bounded(method, &state), outcome: outcome)
            if let counter = state.counters[series] { return counter }
            let counter = Counter(
                label: label, dimensions: [("method", series.method), ("outcome", outcome)], factory: factory)
            state.counters[series] = counter
            return counter
        }.increment()
    }

    private func time(_ label: String, _ method: String) -> Timer {
        state.withLock { state in
            let series = Series(label: label, method: Self.bounded(method, &state), outcome: "")
            if let timer = state.timers[series] { return timer }
            let timer = Timer(label: label, dimensions: [("method", series.method)], factory: factory)
            state.timers[series] = timer
            return timer
        }
    }

    private static func bounded(_ method: String, _ state: inout State) -> String {
        if state.methods.contains(method) { return method }
        guard state.methods.count < methodLimit else { return other }
        state.methods.insert(method)
        return method
    }

    private func countBytes(of connection: ObservedConnection) async {
        guard let statistics = await connection.status()?.statistics else { return }
        let (moreSent, moreReceived) = state.withLock { state -> (UInt64, UInt64) in
            guard let known = state.connections[connection.id] else { return (0, 0) }
            let sent = max(known.sent, statistics.bytesSent)
            let received = max(known.received, statistics.bytesReceived)
            state.connections[connection.id] = (known.connection, sent, received)
            return (sent - known.sent, received - known.received)
        }
        if moreSent > 0 { sent.increment(by: moreSent) }
        if moreReceived > 0 { received.increment(by: moreReceived) }
    }
}
