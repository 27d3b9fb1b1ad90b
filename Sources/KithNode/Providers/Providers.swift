import KithAPI
import KithIdentity
import KithWire
import Synchronization

/// The providers a node knows: what other devices have announced, what became of requests to them, and the policies.
final class Providers: Sendable {
    private struct Content {
        var table = ProviderTable()
        var peers = PeerServices()
        var policies: [(pattern: TopicPath, policy: RequestPolicy)] = []
    }

    private let content = Mutex(Content())
    private let isPolicySet = Atomic(false)

    /// What other devices have announced.
    var announced: [Registry.Service] { content.withLock { $0.peers.all } }

    /// Everything known of providers.
    var records: [(path: String, device: DeviceID?, record: ProviderTable.Record)] {
        content.withLock { $0.table.all }
    }

    /// The version of what a device has announced; `nil` when it has announced nothing.
    func version(of device: DeviceID) -> UInt64? { content.withLock { $0.peers.version(of: device) } }

    /// Takes a device's announcement on a connection.
    func receive(_ change: Services.Change, from device: DeviceID, over connection: UInt64) {
        content.withLock { $0.peers.receive(change, from: device, over: connection) }
    }

    /// Forgets what a device has announced on a connection; false when that did not count.
    func remove(_ device: DeviceID, over connection: UInt64) -> Bool {
        content.withLock { content in
            let isNews = content.peers.remove(device, over: connection)
            if content.peers.version(of: device) == nil { content.table.forget(device) }
            return isNews
        }
    }

    /// The devices that have announced a path.
    func providers(of path: TopicPath) -> [PeerServices.Provider] { content.withLock { $0.peers.providers(of: path) } }

    // MARK: - Policies

    /// True when a policy was set for any path.
    var hasPolicies: Bool { isPolicySet.load(ordering: .acquiring) }

    /// Sets the policy of the paths that a pattern stands for; `nil` takes it back.
    func setPolicy(_ policy: RequestPolicy?, for pattern: TopicPath) {
        content.withLock { content in
            content.policies.removeAll { $0.pattern == pattern }
            if let policy { content.policies.append((pattern, policy)) }
            isPolicySet.store(!content.policies.isEmpty, ordering: .releasing)
        }
    }

    /// The policy of a path: that of the narrowest pattern, or the usual one.
    func policy(for path: TopicPath) -> RequestPolicy {
        let found = content.withLock { $0.policies.filter { $0.pattern.covers(path) } }
        // A pattern that another covers is narrower than that.
        return found.max { left, right in left.pattern.covers(right.pattern) }?.policy ?? RequestPolicy()
    }

    // MARK: - Choosing

    /// Chooses a provider; ``ended(_:_:_:by:at:)`` follows if there is one.
    func choose(
        _ path: String, among candidates: [DeviceID?], except tried: Set<DeviceID?>, by policy: RequestPolicy,
        at now: ContinuousClock.Instant
    ) -> ProviderTable.Choice {
        var random = SystemRandomNumberGenerator()
        return content.withLock {
            $0.table.choose(path, among: candidates, except: tried, by: policy, at: now, using: &random)
        }
    }

    /// Takes the outcome of a request; returns the state of the breaker after it when that has changed.
    func ended(
        _ path: String, _ device: DeviceID?, _ outcome: ProviderTable.Outcome, by policy: RequestPolicy,
        at now: ContinuousClock.Instant
    ) -> ProviderTable.Breaker? {
        content.withLock { content in
            let before = content.table.record(path, device).breaker
            content.table.ended(path, device, outcome, by: policy, at: now)
            let after = content.table.record(path, device).breaker
            return before == after ? nil : after
        }
    }
}
