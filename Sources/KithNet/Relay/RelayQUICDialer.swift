import KithIO
import KithIdentity
import KithQUIC
import KithReach
import KithWire
import Logging
import Synchronization

/// Dials one relay by QUIC, from a socket that serves nothing else.
///
/// Its endpoint is none of the device's: no peer is dialed or let in by it, and it knows no relays, so that a way to a
/// relay never goes by a relay. It lasts as long as the client, and with it the tickets by which a session is resumed.
final class RelayQUICDialer: Sendable {
    private struct State {
        var endpoint: Endpoint?
        var isClosed = false
        /// The key that was shown instead of the relay's since the last dial began.
        var otherKey: DeviceID?
    }

    private let key: DeviceKey
    private let relay: DeviceID
    private let options: RelayClient.Options
    private let state = Mutex(State())

    /// The silence after which a link proves that it is alive: NATs forget a mapping after 30 s.
    private static let keepAlive = Duration.seconds(15)
    /// The time for which a silent link is kept.
    private static let idleTimeout = Duration.seconds(45)
    /// The largest datagram of a link: as far as the common paths of 1500 bytes go.
    static let udpPayloadSize = 1_452

    /// Dials the relay of `options`, which is `relay`.
    init(_ options: RelayClient.Options, relay: DeviceID, key: DeviceKey) {
        (self.options, self.relay, self.key) = (options, relay, key)
    }

    /// A connection to the relay, which may still wait for the handshake where a session is resumed.
    ///
    /// One at a time: the one before is over.
    func dial() async throws(KithError) -> Connection {
        let endpoint = try await open()
        state.withLock { $0.otherKey = nil }
        if let old = endpoint.connection(to: relay) {
            old.close()
            _ = await old.closed()
        }
        let addresses = await addresses()
        guard !addresses.isEmpty else { throw KithError(.unreachable, "its name has no address") }
        return try await endpoint.connectEarly(to: relay, at: addresses, timeout: options.openingTime)
    }

    /// The socket, once there is one.
    var endpoint: Endpoint? { state.withLock { $0.endpoint } }

    /// The key of whoever answered in the relay's place since the last dial began; `nil` when nobody did.
    var otherKey: DeviceID? { state.withLock { $0.otherKey } }

    private func open() async throws(KithError) -> Endpoint {
        if let endpoint { return endpoint }
        var settings = Self.endpointOptions
        settings.onOtherKey = { [weak self] key in self?.state.withLock { $0.otherKey = key } }
        let endpoint = try await Endpoint.bind(
            key: key, options: settings, logger: Logger(label: "kith", factory: SwiftLogNoOpLogHandler.init))
        let used = state.withLock { state -> Endpoint? in
            guard !state.isClosed else { return nil }
            state.endpoint = state.endpoint ?? endpoint
            return state.endpoint
        }
        if used !== endpoint { await endpoint.shutdown() }
        guard let used else { throw KithError(.closed, "the device is going") }
        return used
    }

    private static var endpointOptions: Endpoint.Options {
        var options = Endpoint.Options()
        options.alpn = [RelayQUIC.alpn]
        options.idleTimeout = idleTimeout
        options.keepAlive = keepAlive
        // Nobody is let in.
        options.admit = { _, _ in .refused }
        options.maxIncomingStreams = 0
        options.maxHalfOpen = 1
        options.maxHandshakesPerSecond = 1
        options.maxRetriesPerSecond = 0
        options.rememberedPeers = 1
        options.udpPayloadSize = udpPayloadSize
        // The client is told of changes of the network anyway.
        options.watchesNetwork = false
        options.onConnection = { _ in }
        options.adjust = { $0.maxQueuedDatagrams = 4_096 }
        return options
    }

    /// The places at which the relay may be: every address of its name, at each of its ports.
    private func addresses() async -> [NetworkAddress] {
        let ports = RelayQUIC.ports(of: options.address)
        if let address = options.connectsTo {
            return [address] + ports.dropFirst().map { address.withPort($0) }
        }
        var found = await HostAddresses.of(options.address.host, port: options.address.port)
        if options.refusesThisMachine {
            let own = LocalAddresses.interfaceAddresses()
            found.removeAll { address in
                !address.mayBeNamedByPeers || own.contains { $0.hasSameIP(as: address) }
            }
        }
        return ports.flatMap { port in found.map { $0.withPort(port) } }
    }

    /// Has the link look for its way anew.
    func networkChanged() { endpoint?.networkChanged() }

    /// Closes the socket, and what still goes by it.
    func close() async {
        let endpoint = state.withLock { state in
            state.isClosed = true
            return state.endpoint.take()
        }
        await endpoint?.shutdown()
    }
}
