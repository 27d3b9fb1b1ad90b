import KithIdentity
import KithNet
import KithQUIC
import KithReach
import KithWire
import Logging

/// The socket at which a relay serves QUIC, and the endpoint behind it.
final class RelayQUICListener: Sendable {
    /// The address of the socket.
    let address: NetworkAddress
    /// The key that proves the relay.
    let key: DeviceID
    private let endpoint: Endpoint
    /// The thread, which the hub's loop is a part of.
    private let loop: EndpointLoop

    /// The time for which a silent client is kept; clients show that they live more often.
    private static let idleTimeout = Duration.seconds(45)
    /// The bytes of the stream that a client may send ahead.
    private static let streamWindow = 16 << 10
    /// The largest DATAGRAM frame that is taken.
    private static let maxDatagramFrame = 2_048

    private init(_ endpoint: Endpoint, _ address: NetworkAddress, _ loop: EndpointLoop) {
        (self.endpoint, self.address, self.loop, key) = (endpoint, address, loop, endpoint.id)
    }

    /// Opens the socket; `nil` for a relay that does without QUIC.
    ///
    /// Where UDP port 443 is taken it is 7842, at which clients look, too.
    static func open(
        _ hub: RelayHub, on loop: EndpointLoop?, beside tcp: NetworkAddress, _ logger: Logger
    ) async throws(KithError) -> RelayQUICListener? {
        guard let loop, var address = hub.options.quicAddress, let key = hub.options.quicKey,
            let relayLoop = hub.loop(of: loop.eventLoop)
        else { return nil }
        if address.port == 0 { address.port = tcp.port }
        var options = options(hub)
        options.loop = loop
        options.admit = { device, _ in device == key.id ? .refused : .full }
        options.onConnection = { connection in
            guard let device = connection.peerID else { return connection.close() }
            let ip = connection.firstAddress?.ip ?? []
            connection.handle(by: RelayQUICHandler(hub, relayLoop, key: device, ip: ip))
        }
        var failure: KithError?
        for addresses in bindAddresses(for: address) {
            options.bindAddresses = addresses
            do {
                let endpoint = try await Endpoint.bind(key: key, options: options, logger: logger)
                address.port = endpoint.port
                return RelayQUICListener(endpoint, address, loop)
            } catch {
                failure = failure ?? error
            }
        }
        let reason = failure?.message ?? ""
        let error = KithError(
            failure?.code ?? .conflict,
            "The relay cannot serve QUIC: \(reason) Choose another address with --listen-quic, or none.",
            cause: failure)
        if hub.options.requiresQUIC { throw error }
        logger.warning("clients are served by TCP alone", metadata: ["error": "\(reason)"])
        return nil
    }

    /// The addresses to listen at, those to try first before the others.
    private static func bindAddresses(for address: NetworkAddress) -> [[NetworkAddress]] {
        let ports = address.port == 443 ? [443, RelayQUIC.secondPort] : [address.port]
        return ports.flatMap { port in
            guard address.isUnspecified else { return [[address.withPort(port)]] }
            // A socket for each family, so that both have their addresses as they are; some machines have but one.
            let v4 = NetworkAddress(ipv4: 0, port: port)
            return address.isIPv6 ? [[v4, NetworkAddress(ipv6: 0, 0, port: port)], [v4]] : [[v4]]
        }
    }

    private static func options(_ hub: RelayHub) -> Endpoint.Options {
        let limits = hub.options.limits
        var options = Endpoint.Options()
        options.alpn = [RelayQUIC.alpn]
        options.idleTimeout = idleTimeout
        options.keepAlive = nil
        options.maxConnections = limits.allSockets
        options.maxHalfOpen = limits.halfOpen
        options.maxHalfOpenPerHost = Int(clamping: limits.burst)
        options.maxHandshakesPerSecond = 5_000
        options.maxConnectionsPerPeer = RelayClients<RelayLink>.maxLinksPerKey + 1
        options.maxIncomingStreams = 1
        options.rememberedPeers = 0
        // Clients stand behind NATs as a rule, and are many.
        options.asksMachines = false
        options.udpPayloadSize = 1_452
        options.adjust = { configuration in
            configuration.maxIncomingUnidirectionalStreams = 0
            configuration.streamWindow = streamWindow
            configuration.maxStreamWindow = streamWindow
            configuration.connectionWindow = 2 * streamWindow
            configuration.maxConnectionWindow = 2 * streamWindow
            configuration.unreadAllowance = 0
            configuration.sendCapacity = 64 << 10
            configuration.maxDatagramFrameSize = maxDatagramFrame
            configuration.maxQueuedDatagrams = 4_096
            configuration.maxPaths = 4
            configuration.eitherEndMoves = false
        }
        return options
    }

    /// Closes every connection and the socket.
    func close() async { await endpoint.shutdown() }
}
