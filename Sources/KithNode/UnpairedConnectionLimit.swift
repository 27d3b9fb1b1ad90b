import KithIdentity
import KithWire

/// Shares the connections that unpaired devices may have among the networks they come from.
///
/// A pure function of the connections there are. Keys cost nothing, and addresses within a /64 little: a peer with many
/// of either displaces its own connections first.
struct UnpairedConnectionLimit {
    /// One connection of an unpaired device.
    struct Connection: Hashable {
        var device: DeviceID
        /// ``NetworkAddress/networkPrefix``; empty for none.
        var network: [UInt8]
        /// True when it has no running call.
        var isIdle: Bool
    }

    /// The decision about one more connection.
    enum Verdict: Hashable {
        case admit
        /// It gets the slot of the connection with this index.
        case displace(Int)
        case refuse
    }

    let total: Int
    let perNetwork: Int
    let perDevice: Int

    /// Decides about one more connection; `connections` are those there are, oldest first.
    func verdict(on newcomer: Connection, among connections: [Connection]) -> Verdict {
        let same = connections.indices.filter { connections[$0].device == newcomer.device }
        // A device that dials again has lost its old connection, or has no use for it.
        if same.count >= max(1, perDevice) { return .displace(same.first { connections[$0].isIdle } ?? same[0]) }
        let own = connections.indices.filter { connections[$0].network == newcomer.network }
        if own.count >= max(1, perNetwork) {
            return own.first { connections[$0].isIdle }.map { .displace($0) } ?? .refuse
        }
        guard connections.count >= max(1, total) else { return .admit }
        let byNetwork = Dictionary(grouping: connections.indices) { connections[$0].network }
        let most = byNetwork.values.map(\.count).max() ?? 0
        let largest = connections.indices.filter { byNetwork[connections[$0].network]?.count == most }
        if most > own.count, let idle = largest.first(where: { connections[$0].isIdle }) { return .displace(idle) }
        // A pairing that two people are at is interrupted only for the sake of fairness.
        return most > own.count + 1 ? .displace(largest[0]) : .refuse
    }
}

extension UnpairedConnectionLimit.Connection {
    /// Describes a connection as it is now.
    init(_ session: Session) {
        self.init(
            device: session.link.peer, network: session.link.address?.networkPrefix ?? [], isIdle: session.running == 0)
    }
}
