import Foundation
import KithQUIC
import Synchronization

/// Counts what our own ends of a conversation say in their logs (qlog).
final class Events: Sendable {
    private let records = Mutex<[String]>([])

    /// Lets `configuration`'s connections write here; their packets one by one are left out.
    func watch(_ configuration: inout QUICConfiguration) {
        configuration.qlog = { record in
            let text = String(decoding: record, as: UTF8.self)
            guard !text.contains("quic:packet_"), !text.contains("metrics_updated") else { return }
            self.records.withLock { $0.append(text) }
        }
    }

    /// How many records contain `text`.
    func count(_ text: String) -> Int { records.withLock { $0.count { $0.contains(text) } } }
}
