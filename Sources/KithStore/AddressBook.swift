public import KithWire

/// The addresses of a device: those proven by a connection and those the device announced itself, newest first.
///
/// A value: it reads no clock and touches no disk.
public struct AddressBook: Hashable, Sendable {
    /// One address, and what speaks for it.
    public struct Entry: Hashable, Sendable {
        /// The address at which the device listens.
        public var address: NetworkAddress
        /// The last time a connection went there, in seconds since 1970; `nil` when none ever did.
        public var lastGood: Int64?
        /// The last time the device announced this address, in seconds since 1970; `nil` when it no longer does.
        public var announcedAt: Int64?

        /// Makes an entry.
        public init(address: NetworkAddress, lastGood: Int64? = nil, announcedAt: Int64? = nil) {
            self.address = address
            self.lastGood = lastGood
            self.announcedAt = announcedAt
        }
    }

    /// The number of addresses of a device that are remembered; the oldest give way.
    public static let limit = 16
    /// The number a device that has moved can announce at once: not enough to push out all that was proven.
    static let announcementLimit = 10

    /// The addresses, best first.
    public private(set) var entries: [Entry]

    /// Makes a book of entries, best first.
    public init(_ entries: some Sequence<Entry> = []) { self.entries = Array(entries.prefix(Self.limit)) }

    /// Makes a book of the addresses a device announces when it is paired.
    public init(announced addresses: [NetworkAddress], at time: Int64) {
        var known: Set<NetworkAddress> = []
        self.init(
            addresses.filter { known.insert($0).inserted }.map { Entry(address: $0, lastGood: nil, announcedAt: time) })
    }

    /// The addresses alone, best first.
    public var addresses: [NetworkAddress] { entries.map(\.address) }

    /// A connection goes to these addresses, and to the first of them now.
    ///
    /// Another port at the same host, which the device does not claim, was that of a connection before: it goes.
    public mutating func reached(_ addresses: [NetworkAddress], at time: Int64) {
        for address in addresses.reversed() {
            var entry = take(address)
            entry.lastGood = time
            entries.removeAll { $0.announcedAt == nil && $0.address.ip == address.ip }
            entries.insert(entry, at: 0)
        }
        entries = Array(entries.prefix(Self.limit))
    }

    /// Notes the addresses the device announces now; earlier announcements no longer hold.
    public mutating func announced(_ addresses: [NetworkAddress], at time: Int64) {
        for index in entries.indices { entries[index].announcedAt = nil }
        for address in addresses.prefix(Self.announcementLimit).reversed() {
            var entry = take(address)
            entry.announcedAt = time
            entries.insert(entry, at: 0)
        }
        entries.removeAll { $0.announcedAt == nil && $0.lastGood == nil }
        entries = Array(entries.prefix(Self.limit))
    }

    private mutating func take(_ address: NetworkAddress) -> Entry {
        guard let index = entries.firstIndex(where: { $0.address == address }) else { return Entry(address: address) }
        return entries.remove(at: index)
    }
}
