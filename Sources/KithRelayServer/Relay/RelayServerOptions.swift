package import KithIdentity
package import KithReach
public import KithWire

/// The settings of a relay.
public struct RelayServerOptions: Sendable {
    /// The address it listens on.
    public var address: NetworkAddress
    /// The UDP address at which it tells clients from where it sees them (STUN); `nil` does without.
    public var stunAddress: NetworkAddress?
    /// The UDP address at which it tells them the same over QUIC (QAD); `nil` does without.
    public var discoveryAddress: NetworkAddress?
    /// The files of its certificate chain and private key, PEM; without them it speaks plain TCP.
    public var certificate: (chain: String, key: String)?
    /// True when it speaks TLS with certificates it is given while it runs, none at first: it closes connections until
    /// then.
    package var awaitsCertificate = false
    /// The address, of port 80 as a rule, at which it shows an authority the answers to its challenges, and devices that
    /// they are on the internet; `nil` does without.
    package var httpAddress: NetworkAddress?
    /// The answers to an authority's challenges.
    package var challenges = ChallengeTable()
    /// The key of a relay without a certificate of an authority: devices know it by the `#KEY` of its URL.
    package var identity: DeviceKey?
    /// The UDP address at which it serves QUIC; `nil` does without.
    ///
    /// Port 0 stands for the number of the TCP port.
    public var quicAddress: NetworkAddress?
    /// The key by which it proves itself in QUIC, which the `#KEY` of its URL names.
    package var quicKey: DeviceKey?
    /// Indicates whether it does not start when it cannot serve QUIC; else it says so in the log, and does without.
    package var requiresQUIC = false
    /// Who may use it.
    package var access = RelayAccess.everyone
    /// Decides in place of ``access``, and again from time to time about those who are connected; it must not wait.
    package var decide: (@Sendable (DeviceID) -> RelayAccess.Decision)?
    /// The most bytes a client may send, and be sent, in a second; `nil` for no limit.
    public var rate: UInt64?
    /// The same for guests.
    public var guestRate: UInt64 = 16 << 10
    /// The small frames, of fewer than 1,024 bytes, that a client may send in a second; a frame that carries nothing for
    /// another client counts as 50.
    ///
    /// A client by TCP that sends more waits, one by QUIC loses them, and one far beyond it is closed.
    public var frameRate: UInt64 = 10_000
    /// The most bytes of memory that messages hold which clients by TCP have begun and not finished: beyond it the client
    /// goes that has not finished for the longest time.
    public var unfinishedBytes = 128 << 20
    /// The time a client has to finish a message that it has begun, in seconds.
    package var unfinishedTime = 30
    /// The bounds of one address.
    package var limits = AddressLimiter.Limits()
    /// The bounds of what waits for a client.
    package var queue = SendQueueLimits()
    /// The time a client has to finish opening, in seconds.
    package var openingTime = 30
    /// The time a client that reads nothing is kept, in seconds.
    package var stallTime = 20
    /// The times of its pings.
    package var keepAlive = RelayKeepAlive.Times.server
    /// The same towards devices that ask for silence, to save their batteries.
    package var savingKeepAlive = RelayKeepAlive.Times.savingServer
    /// The number of event loops; 0 for one per core.
    package var loops = 0
    /// Is told of a device that has come or gone, on any thread; it must not wait.
    package var onPresence: (@Sendable (DeviceID) -> Void)?
    /// True when `/metrics` is shown to everybody, not to this machine only.
    public var showsMetrics = false

    /// Settings for an address, with the usual bounds.
    public init(address: NetworkAddress) { self.address = address }
}
