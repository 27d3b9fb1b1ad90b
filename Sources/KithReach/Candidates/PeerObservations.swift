package import KithIdentity
package import KithWire

/// The addresses at which other devices see this one, as they say.
///
/// A device may lie, so that the word of one is bounded: one address of each family, and only one of the internet. What
/// servers say holds: where one has answered in a family, devices add no other IP address there.
package struct PeerObservations: Sendable {
    /// The most devices whose word is kept.
    package static let maxPeers = 64
    /// The most addresses of a family that come of it.
    package static let maxAddresses = 2

    private struct Word: Hashable {
        var peer: DeviceID
        var address: NetworkAddress
    }

    /// In the order in which they came.
    private var words: [Word] = []

    /// Starts with nobody's word.
    package init() {}

    /// Takes the word of a device in; returns whether it is one that counts.
    package mutating func observed(_ address: NetworkAddress, by peer: DeviceID) -> Bool {
        guard Self.isPublic(address) else { return false }
        words.removeAll { $0.peer == peer && $0.address.isIPv6 == address.isIPv6 }
        words.append(Word(peer: peer, address: address))
        if words.count > 2 * Self.maxPeers { words.removeFirst() }
        return true
    }

    /// Forgets all of it: the device is on another network.
    package mutating func removeAll() { words = [] }

    /// Forgets what a device said.
    package mutating func remove(_ peer: DeviceID) { words.removeAll { $0.peer == peer } }

    /// The addresses to tell others, beside those that servers say: those that most devices name first.
    package func addresses(besides servers: [NetworkAddress]) -> [NetworkAddress] {
        [false, true].flatMap { isIPv6 in
            let known = servers.filter { $0.isIPv6 == isIPv6 }
            let candidates = words.map(\.address).filter { address in
                address.isIPv6 == isIPv6 && !known.contains(address)
                    && (known.isEmpty || known.contains { $0.hasSameIP(as: address) })
            }
            let counts = Dictionary(candidates.map { ($0, 1) }, uniquingKeysWith: +)
            let newest = Dictionary(zip(candidates, candidates.indices)) { max($0, $1) }
            return counts.keys.sorted {
                (counts[$0] ?? 0, newest[$0] ?? 0) > (counts[$1] ?? 0, newest[$1] ?? 0)
            }.prefix(Self.maxAddresses)
        }
    }

    /// Returns whether an address is one of the internet's.
    package static func isPublic(_ address: NetworkAddress) -> Bool {
        guard CandidateTable.isReachable(address), !address.isPrivate, !address.isLinkLocal else { return false }
        // 2000::/3 is all that is given out of IPv6.
        return !address.isIPv6 || address.halves.high >> 61 == 1
    }
}
