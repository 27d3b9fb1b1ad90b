package import KithWire

/// The configuration of a TLS session.
package struct TLSConfiguration: Sendable {
    /// The ends of a handshake.
    package enum Role: Hashable, Sendable {
        /// Speaks first.
        case client

        /// Answers.
        case server
    }

    /// The key exchange a client bets on with its first message.
    package enum KeyExchange: Hashable, Sendable {
        /// X25519. The hybrid group is still accepted, after a round trip more.
        case classical

        /// X25519MLKEM768, with X25519 beside it: a ClientHello of two datagrams.
        case postQuantum

        /// X25519; the hybrid group is unknown.
        case classicalOnly
    }

    /// The end of the handshake that this is.
    package var role: Role

    /// The credentials this end can prove its identity with, best first; the peer's extensions decide which is used.
    package var credentials: [Credential]

    /// The application protocols, best first, each 1…255 bytes.
    ///
    /// A server takes the first of its own that the client offers.
    package var alpn: [String]

    /// The encoded transport parameters to send (RFC 9000 §18).
    package var transportParameters: [UInt8]

    /// Decides whether the peer is welcome.
    ///
    /// It is asked exactly once before the handshake completes, and once more before early data is sent or read.
    /// It is asked about ``PeerCredential/none`` too, when a server does not require a credential.
    package var verify: @Sendable (PeerCredential) -> Bool

    /// Client: the name to send in SNI; nil sends none.
    package var serverName: String?

    /// Server: whether a client without a credential is refused (alert 116).
    ///
    /// A server always shows one.
    package var requirePeerCredential = true

    /// The kinds of credential accepted from the peer, best first; not empty.
    package var acceptedPeerKinds: [CredentialKind] = [.rawPublicKey, .x509]

    /// The key exchange to open with.
    package var keyExchange: KeyExchange = .classical

    /// The cipher suites, and their order.
    package var ciphers: CipherPreference = .automatic

    /// Indicates whether key log lines are kept.
    ///
    /// ``TLSSession/nextKeyLogLine()`` hands them out. Whoever reads them can read the whole connection.
    package var wantsKeyLog = false

    /// Server: 48 bytes that seal session tickets, the same in every session that shall resume another's; nil: none.
    package var ticketKey: SecretBytes?

    /// Client: a ticket of an earlier session with the same server.
    package var ticket: [UInt8]?

    /// Indicates whether early data is offered or accepted in a resumed session (0-RTT).
    ///
    /// `verify` is asked before it flows, about the peer of the resumed session. An attacker can repeat it.
    package var earlyData = false

    /// Server: must be equal where a ticket is minted and where its early data is accepted.
    package var earlyDataContext: [UInt8] = []

    /// Server: whether ``TLSSession/advance()`` stops at the ClientHello until ``TLSSession/answer(parameters:scope:context:)``.
    package var asksForParameters = false

    /// Creates a configuration from what every session needs.
    package init(
        role: Role, credentials: [Credential], alpn: [String], transportParameters: [UInt8],
        verify: @escaping @Sendable (PeerCredential) -> Bool
    ) {
        self.role = role
        self.credentials = credentials
        self.alpn = alpn
        self.transportParameters = transportParameters
        self.verify = verify
    }
}
