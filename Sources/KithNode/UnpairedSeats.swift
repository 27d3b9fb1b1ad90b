import KithIdentity
import KithWire

/// Shares the connections that unpaired devices may have among the places they come from.
///
/// A pure function of the connections there are. Keys cost nothing, and addresses within a /64 little: a peer with many
/// of either displaces its own connections first.
struct UnpairedSeats {
    /// One connection of an unpaired device.
    struct Guest: Hashable {
        var device: DeviceID
        /// ``NetworkAddress/place``; empty for none.
        var place: [UInt8]
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
    let perPlace: Int
    let perDevice: Int

    /// Decides about one more connection; `guests` are those there are, oldest first.
    func verdict(on newcomer: Guest, among guests: [Guest]) -> Verdict {
        let same = guests.indices.filter { guests[$0].device == newcomer.device }
        // A device that dials again has lost its old connection, or has no use for it.
        if same.count >= max(1, perDevice) { return .displace(same.first { guests[$0].isIdle } ?? same[0]) }
        let own = guests.indices.filter { guests[$0].place == newcomer.place }
        if own.count >= max(1, perPlace) {
            return own.first { guests[$0].isIdle }.map { .displace($0) } ?? .refuse
        }
        guard guests.count >= max(1, total) else { return .admit }
        let byPlace = Dictionary(grouping: guests.indices) { guests[$0].place }
        let most = byPlace.values.map(\.count).max() ?? 0
        let crowd = guests.indices.filter { byPlace[guests[$0].place]?.count == most }
        if most > own.count, let idle = crowd.first(where: { guests[$0].isIdle }) { return .displace(idle) }
        // A pairing that two people are at is interrupted only for the sake of fairness.
        return most > own.count + 1 ? .displace(crowd[0]) : .refuse
    }
}

extension UnpairedSeats.Guest {
    /// Describes a connection as it is now.
    init(_ session: Session) {
        self.init(
            device: session.link.peer, place: session.link.address?.place ?? [], isIdle: session.running == 0)
    }
}
