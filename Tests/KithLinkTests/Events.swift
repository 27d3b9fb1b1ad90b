import Foundation
import KithNet
import KithQUIC
import Synchronization

/// Counts what our own ends of a conversation have seen, and what they say in their logs (qlog).
final class Events: Sendable {
    private let records = Mutex<[String]>([])
    private let sessions = Mutex((resumed: 0, early: 0, ciphers: Set<String>()))

    /// Lets `configuration`'s connections write here; their packets one by one are left out.
    func watch(_ configuration: inout QUICConfiguration) {
        configuration.qlog = { record in
            let text = String(decoding: record, as: UTF8.self)
            guard !text.contains("quic:packet_"), !text.contains("metrics_updated") else { return }
            self.records.withLock { $0.append(text) }
        }
    }

    /// Notes how `connection` came about; once for each of its ends that are ours.
    func note(_ connection: Connection) async {
        guard await connection.handshakeCompleted() else { return }
        let statistics = await connection.statistics()
        sessions.withLock { sessions in
            if statistics.isResumed { sessions.resumed += 1 }
            if statistics.isEarlyDataAccepted { sessions.early += 1 }
            if let cipher = statistics.cipherSuite { sessions.ciphers.insert(cipher) }
        }
    }

    /// How many noted connections resumed a session.
    var resumed: Int { sessions.withLock { $0.resumed } }

    /// What protected their packets, by its name in TLS.
    var ciphers: Set<String> { sessions.withLock { $0.ciphers } }

    /// In how many of them early data was accepted.
    var early: Int { sessions.withLock { $0.early } }

    /// How many records contain `text`.
    func count(_ text: String) -> Int { records.withLock { $0.count { $0.contains(text) } } }
}
