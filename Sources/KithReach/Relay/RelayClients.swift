package import KithIdentity

/// The clients of a relay, by key.
///
/// The same key may be connected several times (two programs with one key, or a connection that is dead and not known
/// to be): the newest is active and receives. The one it replaces learns that, and again when it is back.
package struct RelayClients<Link: Hashable & Sendable>: Sendable {
    /// The most connections of one key.
    package static var maxLinksPerKey: Int { 4 }

    /// What is to be done because a client came or went.
    package enum Effect: Hashable, Sendable {
        /// Tell the client.
        case status(Link, RelayStatus)
        /// Close the connection: the key has too many.
        case close(Link)
        /// The key is not connected any more: tell those it sent to.
        case left(DeviceID)
    }

    /// The newest is last.
    private var links: [DeviceID: [Link]] = [:]

    /// The number of connections.
    package private(set) var count = 0
    /// The number of keys.
    package var keyCount: Int { links.count }

    /// Makes an empty table.
    package init() {}

    /// The connection that receives what is sent to `key`.
    package func active(_ key: DeviceID) -> Link? { links[key]?.last }

    /// All connections.
    package var all: [Link] { links.values.flatMap(\.self) }

    /// Adds a connection that has proven `key`.
    package mutating func add(_ link: Link, of key: DeviceID) -> [Effect] {
        var (mine, effects) = (links[key] ?? [], [Effect]())
        if let older = mine.last { effects.append(.status(older, .elsewhere)) }
        if mine.count >= Self.maxLinksPerKey {
            effects.append(.close(mine.removeFirst()))
            count -= 1
        }
        mine.append(link)
        links[key] = mine
        count += 1
        return effects
    }

    /// Removes a connection; one that is not there changes nothing.
    package mutating func remove(_ link: Link, of key: DeviceID) -> [Effect] {
        guard var mine = links[key], let index = mine.firstIndex(of: link) else { return [] }
        let wasActive = index == mine.count - 1
        mine.remove(at: index)
        count -= 1
        guard let active = mine.last else {
            links[key] = nil
            return [.left(key)]
        }
        links[key] = mine
        return wasActive ? [.status(active, .healthy)] : []
    }
}

/// The devices that a client has sent to lately: they are told when it leaves.
///
/// Bounded: the one that was sent to the longest ago is forgotten.
package struct RecentPeers: Hashable, Sendable {
    /// The most devices.
    package static let limit = 128

    private var times: [DeviceID: UInt64] = [:]
    private var clock: UInt64 = 0

    /// Makes an empty list.
    package init() {}

    /// The devices, in no order.
    package var all: [DeviceID] { Array(times.keys) }

    /// Notes that the client has sent to `peer`.
    package mutating func sent(to peer: DeviceID) {
        clock += 1
        if times[peer] == nil, times.count >= Self.limit, let oldest = times.min(by: { $0.value < $1.value })?.key {
            times[oldest] = nil
        }
        times[peer] = clock
    }
}

/// Decides when a client is told that a device is not there: at its first datagram for it, and once a second.
package struct AbsenceReports: Hashable, Sendable {
    /// The most devices that are remembered.
    package static let limit = 64
    /// The time between two reports of one device.
    package static let interval = Duration.seconds(1)

    private var times: [DeviceID: ContinuousClock.Instant] = [:]

    /// Makes an empty list.
    package init() {}

    /// True when the client is to be told now.
    package mutating func isDue(_ device: DeviceID, at now: ContinuousClock.Instant) -> Bool {
        if let last = times[device], now - last < Self.interval { return false }
        if times.count >= Self.limit {
            times = times.filter { now - $0.value < Self.interval }
            // Somebody tries one device after the other: it learns of each a second's worth at a time.
            guard times.count < Self.limit else { return false }
        }
        times[device] = now
        return true
    }
}
