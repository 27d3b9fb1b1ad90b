public import KithAPI
public import KithNet
public import KithWire
package import KithIdentity

/// The state of a connection to another device.
public struct LinkStatus: Hashable, Sendable {
    /// The address of the other end; `nil` while packets come through a relay.
    public var address: NetworkAddress?
    /// The smoothed round-trip time.
    public var roundTrip: Duration
    /// The time since the other end was last heard.
    public var quiet: Duration
    /// The counters of the connection; `nil` for one that keeps none.
    public var statistics: ConnectionStatistics?
    /// The URL of the relay it goes through; `nil` for a direct one.
    public var relay: String?
    /// The ways that are held, the one in use first.
    public var paths: [Devices.HeldPath] = []
    /// The transport to that relay, `quic` or `tcp`.
    public var relayCarrier: String?

    /// Makes a status.
    public init(
        address: NetworkAddress?, roundTrip: Duration, quiet: Duration, statistics: ConnectionStatistics? = nil,
        relay: String? = nil, relayCarrier: String? = nil
    ) {
        self.relay = relay
        self.relayCarrier = relayCarrier
        self.statistics = statistics
        self.address = address
        self.roundTrip = roundTrip
        self.quiet = quiet
    }
}

/// One connection to another device, as the node sees it: QUIC, or pipes in a test.
package protocol PeerLink: AnyObject, Sendable {
    /// The key the other end has proven.
    var peer: DeviceID { get }
    /// The address of the other end when the link began; `nil` for one without addresses.
    var address: NetworkAddress? { get }
    /// True when this end dialed.
    var isDialed: Bool { get }
    /// Lifts the limits on what the other end may send ahead: it is paired now.
    func liftLimits()
    /// Checks whether the other end is still there, each second or now and then.
    func watch(closely: Bool)
    /// Tells `body`, which is quick, how long the other end has owed a sign of life; zero when it owes none.
    func silence(_ body: @escaping @Sendable (Duration) -> Void)
    /// True while it can open streams.
    var isOpen: Bool { get }
    /// Opens a stream.
    func openStream() async throws -> any ByteStream
    /// Opens a stream, unless that has to be waited for.
    func openStreamNow() -> (any ByteStream)?
    /// Tells whether a stream of this link failed before the other end saw any of it.
    func isUndelivered(_ stream: any ByteStream) -> Bool
    /// Notes that a stream of this link does not keep it open, where links that nobody uses are closed.
    func isInBackground(_ stream: any ByteStream)
    /// Waits until both ends have proven themselves anew; false when the link, or the task, ended before.
    ///
    /// At once, except on a link that resumes a session.
    func handshakeCompleted() async -> Bool
    /// Tells whether the other end opened a stream before the handshake was complete: it may be a replay by somebody
    /// else.
    func isEarly(_ stream: any ByteStream) -> Bool
    /// The executor on which a task that waits for streams resumes without waking another thread; `nil`: no particular one.
    var executor: (any TaskExecutor)? { get }
    /// Has the other end told by `explainer` why a stream that it opened fails, before that is broken off.
    func explainFailures(by explainer: @escaping @Sendable (_ stream: UInt64, _ error: KithError) async -> Void)
    /// Takes the reason the other end gives for breaking off a stream of this end's, before it does.
    func explain(_ stream: UInt64, _ error: KithError)
    /// Waits for a stream the other end opens; `nil` when the connection is over. One task asks.
    func nextStream() async -> (any ByteStream)?
    /// Yields when another address of the other end has been validated.
    var pathChanges: AsyncStream<Void> { get }
    /// Closes at once, sending the other end the code and the reason.
    func close(_ code: KithError.Code, reason: String)
    /// Waits up to `limit` for open streams to end, then closes.
    func drain(_ limit: Duration) async
    /// Returns its present state.
    func status() async -> LinkStatus?
    /// Waits for the link to end; returns the reason, where it is known.
    func closeReason() async -> CloseReason?
    /// Exports 32 bytes of keying material (RFC 8446 §7.5).
    func exportKeyingMaterial(label: String, context: [UInt8]) async throws -> [UInt8]
}

extension PeerLink {
    /// Nowhere.
    package var address: NetworkAddress? { nil }
    /// No.
    package var isDialed: Bool { false }
    /// Does nothing: there are no limits.
    package func liftLimits() {}
    /// None: most links have to be asked.
    package func openStreamNow() -> (any ByteStream)? { nil }
    /// Nothing: most links end with their other end.
    package func watch(closely: Bool) {}
    /// None: most links end with their other end.
    package func silence(_ body: @escaping @Sendable (Duration) -> Void) { body(.zero) }
    /// Nothing: most links stay open.
    package func isInBackground(_ stream: any ByteStream) {}
    /// Yes: most links exist only from then on.
    package func handshakeCompleted() async -> Bool { true }
    /// No.
    package func isEarly(_ stream: any ByteStream) -> Bool { false }
    /// Nothing: most links carry the whole error.
    package func explainFailures(by explainer: @escaping @Sendable (UInt64, KithError) async -> Void) {}
    /// Nothing.
    package func explain(_ stream: UInt64, _ error: KithError) {}
    /// Unknown: most links do not say.
    package func closeReason() async -> CloseReason? { nil }
    /// Nowhere in particular.
    package var executor: (any TaskExecutor)? { nil }
    /// None: most links stay where they are.
    package var pathChanges: AsyncStream<Void> { AsyncStream { $0.finish() } }
}

/// Makes connections to other devices.
package protocol PeerDialer: Sendable {
    /// The connection that is open now, if one is.
    func current(_ id: DeviceID) -> (any PeerLink)?
    /// The open connection, or a new one.
    ///
    /// `isEarly` allows one on which only queries may be sent yet, because it resumes a session; it does not become the
    /// current one before its handshake is complete.
    func dial(
        _ id: DeviceID, at addresses: [NetworkAddress], isEarly: Bool, timeout: Duration
    ) async throws -> any PeerLink
    /// Has an attempt to reach the device that is under way try more addresses.
    func found(_ id: DeviceID, at addresses: [NetworkAddress])
    /// The URLs of the relays at which this device is to be found.
    var relays: [String] { get }
    /// Returns whether a relay is known at which the device is to be found.
    func isRelayKnown(of id: DeviceID) -> Bool
    /// The tokens with which this device comes to ``relays``, by their URLs.
    var relayTokens: [String: String] { get }

    /// Notes the tokens that relays want, by their URLs, as an invitation says; those that are known stay.
    func learn(relayTokens: [String: String])

    /// Notes the relays at which a device is to be found, as its invitation says.
    func note(_ relays: [String], of id: DeviceID)
    /// Indicates whether anything may lead to a device of which neither an address nor a relay is known.
    var asksDirectories: Bool { get }
    /// Indicates whether a connection to the device has to be dialed for each call, because it is to go a certain way.
    func isParticular(about id: DeviceID) -> Bool
    /// The ways by which devices are reached; `nil` when nothing sees to that.
    var reach: DeviceReach? { get }
    /// Forgets where a device is to be found.
    func forget(_ id: DeviceID) async
    /// Has this device be found at those relays, unless it has some of its own.
    func adopt(_ relays: [String]) async
    /// How this device can be reached from elsewhere; `nil` when nothing sees to that.
    var reachStatus: DeviceReach.Status? { get }
}

extension PeerDialer {
    /// No.
    package var asksDirectories: Bool { false }
    /// No.
    package func isParticular(about id: DeviceID) -> Bool { false }
    /// None.
    package var reach: DeviceReach? { nil }
    /// Nothing: no attempt takes long.
    package func found(_ id: DeviceID, at addresses: [NetworkAddress]) {}
    /// None.
    package var relays: [String] { [] }
    /// No.
    package func isRelayKnown(of id: DeviceID) -> Bool { false }
    /// Nothing.
    package var relayTokens: [String: String] { [:] }

    package func learn(relayTokens: [String: String]) {}

    package func note(_ relays: [String], of id: DeviceID) {}
    /// Nothing.
    package func forget(_ id: DeviceID) async {}
    /// Nothing.
    package func adopt(_ relays: [String]) async {}
    /// Nothing is known.
    package var reachStatus: DeviceReach.Status? { nil }
}
