package import KithNet
import Synchronization

/// Publishes what becomes known of this device's network: `$registry/network/udp`, `relay`, `nat`, `address`, `port` and
/// `portal`, each when it is another than before.
final class NetworkNotes: Sendable {
    private let hub: EventHub
    /// What was said last; that nothing is known yet need not be said.
    private let last = Mutex(["udp": "unknown", "relay": "none", "port": "none", "portal": "none"])

    init(_ hub: EventHub) { self.hub = hub }

    func note(_ status: DeviceReach.Status) {
        let notes = status.notes
        let changed = last.withLock { last in
            defer { last = notes }
            return notes.filter { last[$0.key] != $0.value }
        }
        for (word, value) in changed.sorted(by: { $0.key < $1.key }) {
            hub.note(value, of: "$registry/network/\(word)")
        }
    }
}

extension Node {
    /// Publishes every change of what is known of this device's network.
    package func noteNetwork(of reach: DeviceReach) {
        let notes = NetworkNotes(hub)
        reach.onStatusChange { notes.note($0) }
    }
}
