import Synchronization

/// What a directory counts: numbers, of nobody in particular.
final class DirectoryCounters: Sendable {
    /// The outcomes counted, each by the line it is shown in.
    enum Event: String, CaseIterable {
        case lookupFound = "kith_directory_lookups_total{result=\"found\"}"
        case lookupMissing = "kith_directory_lookups_total{result=\"missing\"}"
        case lookupLimited = "kith_directory_lookups_total{result=\"limited\"}"
        case writeStored = "kith_directory_writes_total{result=\"stored\"}"
        case writeQueued = "kith_directory_writes_total{result=\"queued\"}"
        case writeSame = "kith_directory_writes_total{result=\"same\"}"
        case writeOlder = "kith_directory_writes_total{result=\"older\"}"
        case writeBad = "kith_directory_writes_total{result=\"bad\"}"
        case writeLimited = "kith_directory_writes_total{result=\"limited\"}"
        case writeFailed = "kith_directory_writes_total{result=\"failed\"}"
        case dnsAnswered = "kith_directory_dns_total{result=\"answered\"}"
        case dnsMissing = "kith_directory_dns_total{result=\"missing\"}"
        case dnsTruncated = "kith_directory_dns_total{result=\"truncated\"}"
        case dnsRefused = "kith_directory_dns_total{result=\"refused\"}"
        case connectionRefused = "kith_directory_connections_refused_total"
    }

    private let counts = Mutex([Int](repeating: 0, count: Event.allCases.count))

    /// The place of each in ``counts``.
    private static let places = Dictionary(
        uniqueKeysWithValues: Event.allCases.enumerated().map { ($1, $0) })

    func count(_ event: Event) {
        guard let place = Self.places[event] else { return }
        counts.withLock { $0[place] &+= 1 }
    }

    /// How often it happened.
    func number(of event: Event) -> Int { Self.places[event].map { place in counts.withLock { $0[place] } } ?? 0 }

    /// All of it, as a Prometheus server reads it (exposition format 0.0.4).
    func text(records: Int, connections: Int) -> String {
        var text = """
            # HELP kith_directory_records Records kept.
            # TYPE kith_directory_records gauge
            kith_directory_records \(records)
            # HELP kith_directory_connections Connections now.
            # TYPE kith_directory_connections gauge
            kith_directory_connections \(connections)

            """
        var family = ""
        for event in Event.allCases {
            let name = String(event.rawValue.prefix { $0 != "{" })
            if name != family { text += "# TYPE \(name) counter\n" }
            family = name
            text += "\(event.rawValue) \(number(of: event))\n"
        }
        return text
    }
}
