import KithIdentity
import KithQUIC

/// The connections to each peer, and the choice of the one that is *the* connection.
///
/// Two ends that dial each other at the same moment get two connections; both ends must then keep the same one
/// without another message. Of two that were established within five seconds, the one dialed by the smaller
/// ``DeviceID`` wins; if one end dialed both, or they lie further apart, the newer one wins, because an end
/// dials only when it has no connection: it was restarted, or has lost the old one.
struct PeerTable<Item: AnyObject> {
    private struct Entry {
        let item: Item
        let dialer: DeviceID
        let established: Timestamp
    }

    /// The most nanoseconds between two dials that can still have crossed on the way.
    static var crossing: Int64 { 5_000_000_000 }

    private var entries: [DeviceID: [Entry]] = [:]

    /// The number of connections, superseded ones included.
    private(set) var count = 0

    /// Adds a connection to `peer` that was dialed by `dialer`.
    mutating func add(_ item: Item, to peer: DeviceID, dialedBy dialer: DeviceID, at now: Timestamp) {
        entries[peer, default: []].append(Entry(item: item, dialer: dialer, established: now))
        count += 1
    }

    /// Removes a connection; unknown ones are ignored.
    mutating func remove(_ item: Item, to peer: DeviceID) {
        guard var list = entries[peer], let index = list.firstIndex(where: { $0.item === item }) else { return }
        list.remove(at: index)
        entries[peer] = list.isEmpty ? nil : list
        count -= 1
    }

    /// The connection to `peer` that new streams use.
    func current(_ peer: DeviceID) -> Item? {
        guard let list = entries[peer], var best = list.first else { return nil }
        for next in list.dropFirst() where Self.supersedes(next, best) { best = next }
        return best.item
    }

    /// All connections to `peer`, oldest first.
    func all(_ peer: DeviceID) -> [Item] { entries[peer, default: []].map(\.item) }

    /// All connections there are.
    var all: [Item] { entries.values.flatMap { $0.map(\.item) } }

    /// The one connection of each peer.
    var current: [Item] { entries.keys.compactMap { current($0) } }

    private static func supersedes(_ next: Entry, _ best: Entry) -> Bool {
        if next.dialer == best.dialer || next.established - best.established > crossing { return true }
        return next.dialer < best.dialer
    }
}
