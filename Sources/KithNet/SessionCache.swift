import KithQUIC
import KithWire

/// The session tickets peers gave this endpoint for the next time, and tokens that prove its address to them.
///
/// Bounded, and in memory until the shutdown: a ticket is as secret as the connection it came from, and worth a round
/// trip at most.
/// A resumed session grants nothing by itself. Its peer is the one whose key the session was made with, and is checked
/// by `admit` and the node's permissions as after a full handshake.
struct SessionCache {
    /// The number of tickets kept of one peer; each is used once.
    static let ticketsPerPeer = 4
    /// The number of tokens kept of one peer; each is used once.
    static let tokensPerPeer = 2

    struct Entry {
        var tickets: [SessionTicket] = []
        var tokens: [[UInt8]] = []
        /// The address of the peer when it gave them.
        var address: NetworkAddress
        var used: UInt64
    }

    let limit: Int
    var entries: [Dial.Target: Entry] = [:]
    private var uses: UInt64 = 0

    init(limit: Int) {
        self.limit = max(0, limit)
    }

    /// The number of peers remembered.
    var count: Int { entries.count }

    /// Remembers a ticket `peer` gave at `address`.
    mutating func remember(ticket: SessionTicket, of peer: Dial.Target, at address: NetworkAddress) {
        change(peer, address) { entry in
            entry.tickets.append(ticket)
            if entry.tickets.count > Self.ticketsPerPeer { entry.tickets.removeFirst() }
        }
    }

    /// Remembers a token `peer` gave at `address`.
    mutating func remember(token: [UInt8], of peer: Dial.Target, at address: NetworkAddress) {
        change(peer, address) { entry in
            entry.tokens.append(token)
            if entry.tokens.count > Self.tokensPerPeer { entry.tokens.removeFirst() }
        }
    }

    private mutating func change(_ peer: Dial.Target, _ address: NetworkAddress, _ body: (inout Entry) -> Void) {
        guard limit > 0 else { return }
        uses += 1
        var entry = entries[peer] ?? Entry(address: address, used: uses)
        // What another place gave is for that place.
        if entry.address != address { entry = Entry(address: address, used: uses) }
        entry.used = uses
        body(&entry)
        entries[peer] = entry
        if entries.count > limit, let oldest = entries.min(by: { $0.value.used < $1.value.used })?.key {
            entries[oldest] = nil
        }
    }

    /// Returns the address at which a session with `peer` can be resumed; nil when nothing is remembered.
    func address(of peer: Dial.Target) -> NetworkAddress? {
        entries[peer].flatMap { $0.tickets.isEmpty ? nil : $0.address }
    }

    /// Returns whether there is a token of `peer`.
    func hasToken(of peer: Dial.Target) -> Bool { entries[peer]?.tokens.isEmpty == false }

    /// Takes the newest ticket and token for an attempt to reach `peer` at `address`.
    mutating func take(for peer: Dial.Target, at address: NetworkAddress) -> (ticket: SessionTicket?, token: [UInt8]?) {
        guard entries[peer]?.address == address else { return (nil, nil) }
        return (entries[peer]?.tickets.popLast(), entries[peer]?.tokens.popLast())
    }

    /// Forgets what `peer` gave.
    mutating func forget(_ peer: Dial.Target) { entries[peer] = nil }
}
