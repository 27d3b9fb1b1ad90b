package import KithIdentity
import KithNet
import KithReach
public import KithWire
public import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// A relay: passes datagrams between devices that cannot reach each other, in iroh's relay protocol.
///
/// It sees who talks to whom and how much, and nothing of what they say: QUIC's encryption is theirs. It keeps no log of
/// that, and nothing at all when it ends.
public final class RelayServer: Sendable {
    /// The address it listens on.
    public let address: NetworkAddress
    /// The UDP address at which it answers STUN; `nil` when it does not.
    public let stunAddress: NetworkAddress?
    /// The UDP address at which it answers the same over QUIC (QAD); `nil` when it does not.
    public var discoveryAddress: NetworkAddress? { discovery?.address }
    private let discovery: AddressDiscoveryServer?
    /// The address of its plain pages, for authorities and portals; `nil` when it has none.
    package let httpAddress: NetworkAddress?
    /// The UDP address at which it serves QUIC; `nil` when it does not.
    public let quicAddress: NetworkAddress?
    private let quic: RelayQUICListener?
    private let hub: RelayHub
    private let tls: ServerTLS
    private let files: CertificateFiles?
    private let channels: [any Channel]
    private let group: MultiThreadedEventLoopGroup
    private let logger: Logger
    /// True from the first call that ends it: the loops answer nobody after that.
    private let isEnding = Atomic(false)

    /// The option of TCP that bounds what waits unsent in the kernel: there it could not be dropped for its age.
    private static let unsentLimit = 128 << 10

    /// The key by which QUIC proves it.
    package var quicKey: DeviceID? { quic?.key }

    /// The key that its URL names, where it has one of its own.
    package var key: DeviceID? { hub.options.identity?.id ?? quicKey }

    /// The number of clients connected now.
    public var clientCount: Int { hub.counters.clients.load(ordering: .relaxed) }

    /// The devices connected now.
    package var devices: Set<DeviceID> { Set(hub.all.map(\.key)) }

    /// Tells whether a device is connected now.
    package func isConnected(_ device: DeviceID) -> Bool { hub.active(device) != nil }

    /// The bytes of memory that messages hold which clients by TCP have not finished.
    package var unfinishedBytes: Int { hub.unfinished.bytes }

    /// The answers to an authority's challenges, which its plain pages show.
    package var challenges: ChallengeTable { hub.options.challenges }

    /// The counters, for Prometheus.
    package var metrics: String { hub.counters.text }

    /// Starts a relay.
    ///
    /// - Throws: `KithError` `.invalid` when the certificate cannot be used, `.conflict` when it cannot listen there.
    public static func open(_ options: RelayServerOptions, logger: Logger) async throws(KithError) -> RelayServer {
        if options.address.port == 0, options.quicAddress?.port == 0 {
            // QUIC takes the number of TCP's port, which the system picked without a look at UDP.
            var options = options
            options.requiresQUIC = true
            for _ in 0..<8 {
                do { return try await start(options, logger) } catch  where error.code == .conflict {}
            }
        }
        return try await start(options, logger)
    }

    private static func start(_ options: RelayServerOptions, _ logger: Logger) async throws(KithError) -> RelayServer {
        let context: NIOSSLContext?
        let files = options.certificate.map { CertificateFiles($0) }
        if let files {
            let content = try files.read()
            context = try content.context()
            files.use(content)
        } else {
            context = try options.identity.map { key throws(KithError) in try Self.context(key) }
        }
        let tls = ServerTLS(isPlain: context == nil && !options.awaitsCertificate, context: context)
        let count = options.loops > 0 ? options.loops : System.coreCount
        let group = MultiThreadedEventLoopGroup(numberOfThreads: count)
        // The clients by QUIC share a thread: that of their socket.
        let quicLoop = options.quicAddress != nil && options.quicKey != nil ? EndpointLoop() : nil
        let hub = RelayHub(options, Array(group.makeIterator()) + [quicLoop?.eventLoop].compactMap(\.self))
        do {
            let channel = try await bootstrap(group)
                .childChannelInitializer { channel in
                    guard let loop = hub.loop(of: channel.eventLoop), let socket = RelaySocket.accept(channel, hub)
                    else {
                        return channel.close()
                    }
                    return channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        if let handler = try tls.handler() { try pipeline.addHandler(handler) }
                        let upgrader = RelayUpgrader(hub, loop, socket)
                        try pipeline.configureHTTPServerPipeline(
                            withPipeliningAssistance: false,
                            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
                        try pipeline.addHandler(RelayPages(hub))
                    }
                }
                .bind(to: try options.address.socketAddress).get()
            var bound = options.address
            bound.port = channel.localAddress?.port.flatMap { UInt16(exactly: $0) } ?? bound.port
            var channels: [any Channel] = [channel]
            var httpAddress: NetworkAddress?
            if let address = options.httpAddress {
                let channel = try await listen(forPlainPages: address, hub, on: group)
                httpAddress = NetworkAddress(channel.localAddress)
                channels.append(channel)
            }
            let quic = try await RelayQUICListener.open(hub, on: quicLoop, beside: bound, logger)
            var stunChannels: [any Channel] = []
            if let stun = options.stunAddress {
                stunChannels = await listen(forSTUN: stun, hub.counters, on: group, logger)
            }
            let discovery = await Self.discovery(options, hub.counters, logger)
            return RelayServer(
                bound, stunAddress: NetworkAddress(stunChannels.first?.localAddress), httpAddress: httpAddress,
                discovery, quic, hub, (tls, files), channels + stunChannels, group, logger)
        } catch {
            try? await group.shutdownGracefully()  // nothing runs on it
            if let error = error as? KithError { throw error }
            throw KithError(
                .conflict, "The relay cannot listen on \(options.address): \(reason(error)).", cause: error)
        }
    }

    /// The bounds of a listening socket, and of those that it accepts.
    private static func bootstrap(_ group: MultiThreadedEventLoopGroup) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1_024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            // A client keeps the last buffer it read into, and most of them read little; it grows at once with what comes.
            .childChannelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 512, maximum: 65_536)
            )
            // One buffer's frames of a client, then the next client's.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(
                .writeBufferWaterMark,
                value: ChannelOptions.Types.WriteBufferWaterMark(low: 16 << 10, high: 64 << 10)
            )
            .childChannelOption(
                ChannelOptions.Types.SocketOption(level: .tcp, name: Self.notSentLowWater),
                value: SocketOptionValue(Self.unsentLimit)
            )
    }

    /// Listens to authorities that look for the answers to their challenges, and to devices behind portals.
    private static func listen(
        forPlainPages address: NetworkAddress, _ hub: RelayHub, on group: MultiThreadedEventLoopGroup
    ) async throws(KithError) -> any Channel {
        do {
            return try await bootstrap(group)
                .childChannelInitializer { channel in
                    guard RelaySocket.accept(channel, hub) != nil else { return channel.close() }
                    return channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: false)
                        let challenges = hub.options.challenges
                        try pipeline.addHandler(RelayPages { head, _ in RelayPages.plainPage(for: head, challenges) })
                    }
                }
                .bind(to: try address.socketAddress).get()
        } catch {
            throw KithError(
                .conflict,
                "The relay cannot listen on \(address), where the certificate authority looks for it: "
                    + "\(reason(error, option: "--http-listen")).", cause: error)
        }
    }

    /// Takes a certificate for those who connect from now on; clients that are connected stay as they are.
    ///
    /// - Throws: `KithError` `.corrupt` when it cannot be used.
    package func use(_ certificate: RelayCertificate) throws(KithError) {
        tls.use(try certificate.context())
        discovery?.use(certificate)
    }

    /// Reads the files of its certificate, and takes what is in them for those who connect from now on if it has changed;
    /// clients that are connected stay as they are.
    ///
    /// - Returns: true when it has changed.
    /// - Throws: `KithError` `.invalid` when it cannot be used: the one before stays in use.
    package func readCertificate() throws(KithError) -> Bool {
        guard let files else { return false }
        let content = try files.read()
        guard !files.isUsed(content) else { return false }
        let (context, credential) = (try content.context(), try content.credential())
        tls.use(context)
        discovery?.use([credential])
        files.use(content)
        return true
    }

    /// Tells clients over QUIC from where they are seen; a relay that cannot does without.
    private static func discovery(
        _ options: RelayServerOptions, _ counters: RelayCounters, _ logger: Logger
    ) async -> AddressDiscoveryServer? {
        guard let address = options.discoveryAddress else { return nil }
        do throws(KithError) {
            return try await AddressDiscoveryServer.open(
                at: address, credentials: try options.credentials, logger: logger
            ) { counters.discoveryClients.count() }
        } catch {
            logger.warning(
                "clients are not told over QUIC from where the relay sees them",
                metadata: ["address": "\(address)", "error": "\(error.message)"])
            return nil
        }
    }

    /// Listens to questions of STUN; a relay that cannot does without.
    private static func listen(
        forSTUN address: NetworkAddress, _ counters: RelayCounters, on group: MultiThreadedEventLoopGroup,
        _ logger: Logger
    ) async -> [any Channel] {
        // Not both families on one socket: an IPv4 address would be told in the form of IPv6.
        let everywhere = [NetworkAddress(ipv4: 0, port: address.port), NetworkAddress(ipv6: 0, 0, port: address.port)]
        var channels: [any Channel] = []
        for place in address.isUnspecified ? everywhere : [address] {
            do {
                var bootstrap = DatagramBootstrap(group: group)
                if place.isIPv6 {
                    bootstrap = bootstrap.channelOption(
                        ChannelOptions.Types.SocketOption(level: .ipv6, name: .ipv6_v6only), value: 1)
                }
                let channel = try await bootstrap.channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(STUNHandler(at: place, counters))
                    }
                }.bind(to: try place.socketAddress).get()
                channels.append(channel)
            } catch {
                logger.warning(
                    "clients are not told from where the relay sees them",
                    metadata: ["address": "\(place)", "error": "\(reason(error))"])
            }
        }
        return channels
    }

    private static var notSentLowWater: NIOBSDSocket.Option {
        #if canImport(Darwin)
        NIOBSDSocket.Option(rawValue: 0x201)
        #else
        NIOBSDSocket.Option(rawValue: 25)
        #endif
    }

    static func reason(_ error: any Error, option: String = "--listen") -> String {
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE: "another program has that port; stop it, or choose another with \(option)"
        case EACCES:
            "ports below 1024 are for root; choose another with \(option), or give the program cap_net_bind_service"
        case EADDRNOTAVAIL: "this machine does not have that address"
        default: NetworkFailure.words(error)
        }
    }

    /// The bytes before the 32 of an Ed25519 key in PKCS #8 (RFC 8410 §7).
    private static let ed25519PKCS8: [UInt8] = [
        0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    ]

    /// TLS with a certificate that a key signs for itself.
    private static func context(_ key: DeviceKey) throws(KithError) -> NIOSSLContext {
        let der = try SelfSignedCertificate.make(for: key, days: 3_650)
        var pkcs8 = ed25519PKCS8 + key.seed
        defer { pkcs8.clear() }
        do {
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: [.certificate(try NIOSSLCertificate(bytes: der, format: .der))],
                privateKey: .privateKey(try NIOSSLPrivateKey(bytes: pkcs8, format: .der)))
            configuration.minimumTLSVersion = .tlsv13
            configuration.applicationProtocols = ["http/1.1"]
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw KithError(.internal, "The relay's own key cannot be used for TLS.", cause: error)
        }
    }

    private init(
        _ address: NetworkAddress, stunAddress: NetworkAddress?, httpAddress: NetworkAddress?,
        _ discovery: AddressDiscoveryServer?, _ quic: RelayQUICListener?, _ hub: RelayHub,
        _ certificate: (tls: ServerTLS, files: CertificateFiles?), _ channels: [any Channel],
        _ group: MultiThreadedEventLoopGroup, _ logger: Logger
    ) {
        (self.address, self.stunAddress, self.httpAddress) = (address, stunAddress, httpAddress)
        (self.discovery, self.quic, quicAddress) = (discovery, quic, quic?.address)
        (self.hub, self.channels, self.group, self.logger) = (hub, channels, group, logger)
        (tls, files) = certificate
    }

    /// Stops: tells every client when to come back, each at a time of its own, and closes.
    public func restart() async {
        guard !isEnding.exchange(true, ordering: .relaxed) else { return }
        for channel in channels { try? await channel.close() }  // closed already: as wanted
        let links = hub.all
        let schedule = RestartSchedule(clients: links.count)
        logger.info("The relay goes; \(links.count) clients are told to come back.")
        var random = SystemRandomNumberGenerator()
        var closed: [EventLoopFuture<Void>] = []
        for link in links {
            let frame = schedule.frame(using: &random)
            closed.append(
                link.loop.eventLoop.flatSubmit {
                    link.handler.value?.restart(frame) ?? link.loop.eventLoop.makeSucceededVoidFuture()
                })
        }
        // Each is closed within two seconds.
        for future in closed { try? await future.get() }  // closed, either way
        await end()
    }

    /// Stops at once, without a word to the clients.
    public func close() async {
        guard !isEnding.exchange(true, ordering: .relaxed) else { return }
        for channel in channels { try? await channel.close() }  // closed already: as wanted
        await end()
    }

    private func end() async {
        await discovery?.close()
        await quic?.close()
        do {
            try await group.shutdownGracefully()
        } catch {
            logger.debug("The relay's threads did not end: \(error)")
        }
    }
}

/// A server's TLS: the certificate that new connections are shown, if it speaks TLS at all.
private final class ServerTLS: Sendable {
    /// There is no certificate yet.
    struct Missing: Error {}

    private let isPlain: Bool
    private let context: Mutex<NIOSSLContext?>

    init(isPlain: Bool, context: NIOSSLContext?) {
        self.isPlain = isPlain
        self.context = Mutex(context)
    }

    func use(_ context: NIOSSLContext) { self.context.withLock { $0 = context } }

    /// What begins the pipeline of a new connection; `nil` for plain TCP.
    ///
    /// - Throws: ``Missing``, and the connection is closed.
    func handler() throws -> NIOSSLServerHandler? {
        guard !isPlain else { return nil }
        guard let context = context.withLock({ $0 }) else { throw Missing() }
        return NIOSSLServerHandler(context: context)
    }
}
