import KithIdentity
import KithReach
import KithWire
import Synchronization

/// What all connections of a directory share: the records, the limits, the counts.
final class DirectoryService: Sendable {
    /// What is limited for each address.
    enum Use {
        case read, write, datagram
    }

    private struct Buckets {
        var reads: TokenBuckets<[UInt8]>
        var writes: TokenBuckets<[UInt8]>
        var datagrams: TokenBuckets<[UInt8]>
        var keys: TokenBuckets<DeviceID>
        var newKeys: TokenBuckets<RecordNetwork>
    }

    let limits: DirectoryLimits
    let store: any RecordStorage
    let counters = DirectoryCounters()
    private let buckets: Mutex<Buckets>
    private let connections = Mutex<(all: Int, streams: Int, hosts: [[UInt8]: Int])>((0, 0, [:]))

    init(_ store: any RecordStorage, limits: DirectoryLimits) {
        self.store = store
        self.limits = limits
        buckets = Mutex(
            Buckets(
                reads: TokenBuckets(limits.readsPerAddress), writes: TokenBuckets(limits.writesPerAddress),
                datagrams: TokenBuckets(limits.datagramsPerAddress), keys: TokenBuckets(limits.writesPerKey),
                newKeys: TokenBuckets(limits.newKeysPerNetwork)))
    }

    /// The metrics, as text.
    var metrics: String {
        counters.text(records: store.count, connections: connections.withLock { $0.all }) + store.metrics
    }

    /// Tells whether an address may do one thing more.
    func admits(_ use: Use, from peer: NetworkAddress) -> Bool {
        let (host, now) = (peer.networkPrefix, ContinuousClock.now)
        return buckets.withLock { buckets in
            switch use {
            case .read: buckets.reads.take(host, at: now)
            case .write: buckets.writes.take(host, at: now)
            case .datagram: buckets.datagrams.take(host, at: now)
            }
        }
    }

    /// Tells whether one record more of a device is taken, which it has signed.
    func admitsWrite(of device: DeviceID) -> Bool {
        let now = ContinuousClock.now
        return buckets.withLock { $0.keys.take(device, at: now) }
    }

    /// Tells whether one record more is taken from a network, of a device that has none yet.
    func admitsNewKey(from network: RecordNetwork) -> Bool {
        guard network != .unknown else { return true }
        let now = ContinuousClock.now
        return buckets.withLock { $0.newKeys.take(network, at: now) }
    }

    /// Counts a connection, of HTTP or of DNS; false when there are too many, and nothing is counted.
    ///
    /// DNS has a quarter of them at most, so that HTTP goes on whatever comes there.
    func connected(_ peer: NetworkAddress, byDNS: Bool) -> Bool {
        let isAdmitted = connections.withLock { connections in
            let host = peer.networkPrefix
            guard connections.all < limits.connections, !byDNS || connections.streams < limits.connections / 4,
                connections.hosts[host, default: 0] < limits.connectionsPerAddress
            else { return false }
            connections.all += 1
            if byDNS { connections.streams += 1 }
            connections.hosts[host, default: 0] += 1
            return true
        }
        if !isAdmitted { counters.count(.connectionRefused) }
        return isAdmitted
    }

    /// Notes that a connection that was counted has ended.
    func disconnected(_ peer: NetworkAddress, byDNS: Bool) {
        connections.withLock { connections in
            let host = peer.networkPrefix
            connections.all -= 1
            if byDNS { connections.streams -= 1 }
            guard let count = connections.hosts[host] else { return }
            connections.hosts[host] = count > 1 ? count - 1 : nil
        }
    }
}
