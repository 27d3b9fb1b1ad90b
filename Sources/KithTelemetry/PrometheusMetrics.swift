public import CoreMetrics
import Synchronization

/// A back end of swift-metrics that writes the text a Prometheus server reads (exposition format 0.0.4).
///
/// Counters become counters, meters and gauges gauges, timers and recorders histograms; timers in seconds, whatever unit
/// they prefer. A name or a label that Prometheus does not allow is changed until it does; what is made under a name that stands
/// for another kind already is counted and not shown.
///
/// Counters never go down: `Counter.reset()` does nothing to them.
public final class PrometheusMetrics: MetricsFactory {
    /// The media type of ``text``.
    public static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    fileprivate enum Kind: String {
        case counter, gauge, histogram
    }

    private struct Family {
        var kind: Kind
        var help: String?
        var series: [String: Series] = [:]
    }

    private let help: [String: String]
    private let families = Mutex<[String: Family]>([:])

    /// Makes an empty one; `help` describes metrics, by name.
    public init(help: [String: String] = CallMetrics.help) { self.help = help }

    /// All there is now, as text.
    public var text: String {
        var text = ""
        for (name, family) in families.withLock({ $0 }).sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
            if let help = family.help { text += "# HELP \(name) \(Self.escaped(help, quotes: false))\n" }
            text += "# TYPE \(name) \(family.kind.rawValue)\n"
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.write(name, labels, into: &text)
            }
        }
        return text
    }

    // MARK: - Making and forgetting

    /// A counter.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions, .counter)
    }

    /// A counter.
    public func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler { series(label, dimensions, .counter) }

    /// A gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions, .gauge)
    }

    /// A histogram, or a gauge where it does not aggregate.
    public func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        series(label, dimensions, aggregate ? .histogram : .gauge)
    }

    /// A histogram of seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions, .histogram)
    }

    /// Forgets it.
    public func destroyCounter(_ handler: any CounterHandler) { forget(handler) }
    /// Forgets it.
    public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { forget(handler) }
    /// Forgets it.
    public func destroyMeter(_ handler: any MeterHandler) { forget(handler) }
    /// Forgets it.
    public func destroyRecorder(_ handler: any RecorderHandler) { forget(handler) }
    /// Forgets it.
    public func destroyTimer(_ handler: any TimerHandler) { forget(handler) }

    private func series(_ label: String, _ dimensions: [(String, String)], _ kind: Kind) -> Series {
        let name = Self.name(label, allowsColon: true)
        let labels = dimensions.map { "\(Self.name($0, allowsColon: false))=\"\(Self.escaped($1, quotes: true))\"" }
            .sorted().joined(separator: ",")
        return families.withLock { families in
            var family = families[name] ?? Family(kind: kind, help: help[name])
            guard family.kind == kind else { return Series(kind) }
            if let series = family.series[labels] { return series }
            let series = Series(kind)
            family.series[labels] = series
            families[name] = family
            return series
        }
    }

    private func forget(_ handler: AnyObject) {
        families.withLock { families in
            families = families.mapValues { family in
                var family = family
                family.series = family.series.filter { $1 !== handler }
                return family
            }
        }
    }

    // MARK: - Text

    private static func name(_ text: String, allowsColon: Bool) -> String {
        var name = ""
        for character in text.unicodeScalars {
            switch character {
            case "a"..."z", "A"..."Z", "_": name.unicodeScalars.append(character)
            case "0"..."9":
                if name.isEmpty { name = "_" }
                name.unicodeScalars.append(character)
            case ":" where allowsColon: name.unicodeScalars.append(character)
            default: name += "_"
            }
        }
        return name.isEmpty ? "_" : name
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}

/// One line of a metric, or the lines of one histogram.
private final class Series: CounterHandler, FloatingPointCounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    /// The upper bounds of a histogram's buckets.
    private static let bounds = [0.0001, 0.000_25, 0.001, 0.0025, 0.01, 0.1, 1, 10, 60]

    private struct State {
        var value = 0.0
        var count: UInt64 = 0
        var buckets: [UInt64] = []
    }

    private let kind: PrometheusMetrics.Kind
    private let state: Mutex<State>

    init(_ kind: PrometheusMetrics.Kind) {
        self.kind = kind
        state = Mutex(State(buckets: kind == .histogram ? Array(repeating: 0, count: Self.bounds.count) : []))
    }

    func increment(by amount: Int64) { increment(by: Double(amount)) }

    func increment(by amount: Double) {
        guard kind == .gauge || amount >= 0 else { return }
        state.withLock { $0.value += amount }
    }

    func decrement(by amount: Double) { state.withLock { $0.value -= amount } }

    /// Does nothing: Prometheus takes a counter that goes down for a restarted process.
    func reset() {}

    func set(_ value: Int64) { set(Double(value)) }

    func set(_ value: Double) { state.withLock { $0.value = value } }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard kind == .histogram else { return set(value) }
        state.withLock { state in
            state.value += value
            state.count += 1
            if let bucket = Self.bounds.firstIndex(where: { value <= $0 }) { state.buckets[bucket] += 1 }
        }
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func write(_ name: String, _ labels: String, into text: inout String) {
        let state = state.withLock { $0 }
        func line(_ suffix: String, _ more: String, _ value: String) {
            let all = [labels, more].filter { !$0.isEmpty }.joined(separator: ",")
            text += "\(name)\(suffix)\(all.isEmpty ? "" : "{\(all)}") \(value)\n"
        }
        guard kind == .histogram else { return line("", "", Self.text(state.value)) }
        var count: UInt64 = 0
        for (bound, bucket) in zip(Self.bounds, state.buckets) {
            count += bucket
            line("_bucket", "le=\"\(bound)\"", String(count))
        }
        line("_bucket", "le=\"+Inf\"", String(state.count))
        line("_sum", "", Self.text(state.value))
        line("_count", "", String(state.count))
    }

    /// Numbers as Prometheus writes them: whole ones without a point.
    private static func text(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return Int64(exactly: value).map { String($0) } ?? String(value)
    }
}

extension CallMetrics {
    /// A sentence about each metric, for ``PrometheusMetrics``.
    public static let help = [
        "kith_calls_served_total": "Calls that came to a service of this device.",
        "kith_call_served_seconds": "How long served calls took; streams, until they were over.",
        "kith_calls_running": "Calls that run now.",
        "kith_calls_refused_total": "Calls of other devices that were refused before they came to a service.",
        "kith_calls_made_total": "Calls to other devices.",
        "kith_call_made_seconds": "How long calls to other devices took; streams, until they were accepted.",
        "kith_connections_total": "Connections with other devices that began.",
        "kith_connections": "Connections with other devices now.",
        "kith_connection_bytes_total": "Bytes of UDP payload of all connections.",
    ]
}
