import Crypto
package import KithIdentity

/// Who may use a relay.
package struct RelayAccess: Hashable, Sendable {
    /// What a client may do.
    package enum Role: Hashable, Sendable {
        /// Everything.
        case member
        /// Exchange datagrams with members, slowly: enough to pair with one.
        case guest
    }

    /// The answer to a client.
    package enum Decision: Hashable, Sendable {
        /// It may come in.
        case admit(Role)
        /// It may not, for a reason it is told.
        case deny(String)
    }

    /// True when everybody is a member.
    package var isOpen: Bool
    /// The keys of members.
    package var keys: Set<DeviceID>
    /// True when others are let in as guests.
    package var admitsGuests: Bool
    /// The hashes of the tokens that make whoever shows one a member: comparing them takes as long for every token.
    private var tokens: Set<[UInt8]>

    /// The most bytes of a token.
    package static let maxToken = 512

    /// Lets everybody in.
    package static let everyone = RelayAccess(isOpen: true)

    /// Makes the rules; with neither `isOpen` nor a key nor a token, nobody is a member.
    package init(
        isOpen: Bool = false, keys: Set<DeviceID> = [], tokens: [String] = [], admitsGuests: Bool = false
    ) {
        (self.isOpen, self.keys, self.admitsGuests) = (isOpen, keys, admitsGuests)
        self.tokens = Set(tokens.map(Self.hash))
    }

    private static func hash(_ token: String) -> [UInt8] { Array(SHA256.hash(data: Array(token.utf8))) }

    /// Decides about a client that has proven `key`.
    package func decide(_ key: DeviceID, token: String?) -> Decision {
        if isOpen || keys.contains(key) { return .admit(.member) }
        if let token, token.utf8.count <= Self.maxToken, tokens.contains(Self.hash(token)) { return .admit(.member) }
        if admitsGuests { return .admit(.guest) }
        if token != nil, !tokens.isEmpty { return .deny("this relay does not know the token") }
        return .deny(tokens.isEmpty ? "this relay does not know the key" : "this relay wants a token")
    }

    /// True when a datagram may pass from one client to another: one of them is a member.
    package static func passes(from sender: Role, to receiver: Role) -> Bool {
        sender == .member || receiver == .member
    }
}
