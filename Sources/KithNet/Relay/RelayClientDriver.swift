import KithIdentity
import KithReach
import KithWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket

/// What ``RelayClient`` does, on its event loop.
final class RelayClientDriver {
    private let key: DeviceKey
    private let options: RelayClient.Options
    private let eventLoop: any EventLoop
    private unowned let client: RelayClient
    private let onEvent: @Sendable (RelayClient.Event) -> Void

    /// The link that is being opened, or is open.
    private struct Link {
        let channel: any Channel
        var version = RelayVersion.v2
        var handshake: RelayHandshake.Client
        var isOpen = false
    }

    /// Counts attempts: what an earlier one still says is not heard.
    private(set) var attempt = 0
    private var link: Link?
    private var keepAlive: RelayKeepAlive?
    /// The silence that links bear here.
    private var pace: RelayPace?
    private var backoff: RelayBackoff
    private var timer: Scheduled<Void>?
    private var deadline: Scheduled<Void>?
    /// When to come back to a relay that restarts, and how long to try often.
    private var restart: (at: ContinuousClock.Instant, until: ContinuousClock.Instant)?
    private var isClosed = false
    /// The proxy that has been asked for a connection to the relay, until it is there.
    private var pendingProxy: ProxyServer?
    /// The time before which a proxy that has refused the password is not asked again.
    private var signInPause: ContinuousClock.Instant?
    /// The portal that was found, until the relay is reached or is known to be unreachable for another reason.
    private var portal: CaptivePortal?
    /// The time of the last look for one.
    private var lastPortalCheck: ContinuousClock.Instant?
    private var random = SystemRandomNumberGenerator()

    /// The longest pause while a relay that said it restarts is not there yet.
    private static let restartPause = Duration.milliseconds(250)
    /// The longest pause while a captive portal answers: somebody is about to sign in there.
    private static let captivePause = Duration.seconds(10)
    /// The pause after a proxy has refused the password: many lock an account for a few wrong ones.
    private static let signInRetry = Duration.seconds(600)
    /// The same when the network has changed meanwhile, or somebody waits.
    private static let earlySignInRetry = Duration.seconds(60)
    /// The longest time for which a relay that restarts is believed to be away.
    private static let longestRestart = Duration.seconds(60)
    /// The bytes written at once: a full record of TLS.
    private static let batch = 16 << 10

    init(
        key: DeviceKey, options: RelayClient.Options, client: RelayClient,
        onEvent: @escaping @Sendable (RelayClient.Event) -> Void, on eventLoop: any EventLoop
    ) {
        (self.key, self.options, self.client, self.onEvent, self.eventLoop) = (key, options, client, onEvent, eventLoop)
        backoff = RelayBackoff(longest: options.longestPause)
    }

    private func become(_ state: RelayClient.State) {
        if client.changed(to: state) { onEvent(.state(state)) }
    }

    /// Becomes what it already may be: whoever waits for the end of an attempt hears of each.
    private func repeatedly(_ state: RelayClient.State) {
        _ = client.changed(to: state)
        onEvent(.state(state))
    }

    // MARK: - Asked for

    func connect() {
        switch client.state {
        case .idle, .denied: open()
        case .connecting, .connected, .restarting, .waiting, .captive, .closed: break
        }
    }

    func networkChanged(isElsewhere: Bool) {
        if isElsewhere { pace = nil }
        switch client.state {
        case .waiting, .captive, .restarting:
            if let signInPause, .now < signInPause { return repeatedly(client.state) }
            // A new attempt is under way already.
            guard timer != nil || deadline == nil else { return }
            backoff.reset()
            open()
        case .connected:
            // Nothing comes back to an address that this device does not have any more.
            if let local = link?.channel.localAddress.flatMap({ NetworkAddress($0) }), !local.isLoopback,
                !LocalAddresses.interfaceAddresses().contains(where: { $0.hasSameIP(as: local) })
            {
                backoff.reset()
                return failed("this device has another address now", attempt: attempt)
            }
            if isElsewhere { keepAlive?.networkChanged() }
            keepAlive?.check()
            tick()
        case .idle, .connecting, .denied, .closed: break
        }
    }

    func close() {
        isClosed = true
        end()
        become(.closed)
    }

    /// Ends the attempt or the link that is there.
    private func end() {
        attempt += 1
        timer?.cancel()
        deadline?.cancel()
        keepAlive?.ended()
        pace = keepAlive?.pace ?? pace
        (timer, deadline, keepAlive, pendingProxy) = (nil, nil, nil, nil)
        link?.channel.close(promise: nil)
        link = nil
    }

    // MARK: - Opening

    private func open() {
        end()
        guard !isClosed else { return }
        if restart == nil, portal == nil { become(.connecting) }
        let mine = attempt
        let place: (host: String, port: UInt16)
        switch options.route {
        case .direct: place = (options.address.host, options.address.port)
        case .through(let proxy):
            pendingProxy = proxy
            place = (proxy.host, proxy.port)
        // As long as this process runs, nothing changes that.
        case .impossible(let problem): return repeatedly(.waiting(reason: problem.description))
        @unknown default: return repeatedly(.waiting(reason: "this device knows no way to it"))
        }
        let isolated = eventLoop.assumeIsolated()
        deadline = isolated.scheduleTask(in: TimeAmount(options.openingTime)) { [weak self] in
            self?.failedByTime(attempt: mine)
        }
        let tls: NIOSSLContext?
        do {
            tls = options.address.isSecure ? try Self.context(options) : nil
        } catch {
            return failed("its certificates cannot be checked: \(error)", attempt: mine)
        }
        let (options, address, proxy) = (options, options.address, pendingProxy)
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        // The addresses of a name are raced 250 ms apart, IPv6 first (RFC 8305).
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(options.openingTime))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(
                .writeBufferWaterMark, value: ChannelOptions.Types.WriteBufferWaterMark(low: 16 << 10, high: 64 << 10)
            )
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let proxy {
                        try pipeline.addHandler(
                            ProxyTunnelHandler(proxy, to: address, bound.value, attempt: mine))
                    }
                    if let tls { try pipeline.addHandler(try Self.handler(tls, address)) }
                    let upgrader = RelayClientUpgrader(bound.value, attempt: mine)
                    try pipeline.addHTTPClientHandlers(
                        leftOverBytesStrategy: .forwardBytes,
                        withClientUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
                    try pipeline.addHandler(RelayRequestHandler(options, bound.value, attempt: mine))
                }
            }
        // An address of IPv4 in the URL, in a network of IPv6 alone; a name's are the resolver's to make up.
        let written = NetworkAddress(place.host.contains(":") ? "[\(place.host)]:1" : "\(place.host):1")
        let other = written.map { options.way($0.withPort(place.port)) }.flatMap { $0.isIPv6 ? $0 : nil }
        let socket = (options.connectsTo ?? (written?.isIPv6 == false ? other : nil)).flatMap {
            // An address of the network is one of a socket, too.
            try? SocketAddress(packedIPAddress: ByteBuffer(bytes: $0.ip), port: Int($0.port))
        }
        let connection =
            socket.map { bootstrap.connect(to: $0) } ?? bootstrap.connect(host: place.host, port: Int(place.port))
        connection.assumeIsolated()
            .whenComplete { [weak self] result in
                switch result {
                case .success(let channel): self?.connected(channel, attempt: mine)
                case .failure(let error):
                    let reason = Self.reason(error)
                    self?.failed(
                        proxy.map { "the proxy \($0) cannot be reached: \(reason)" } ?? reason, attempt: mine)
                }
            }
    }

    private static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError where error.dnsAError != nil && error.connectionErrors.isEmpty:
            "its name has no address"
        case let error as NIOConnectionError: error.connectionErrors.first.map { "\($0.error)" } ?? "no address answers"
        default: "\(error)"
        }
    }

    private static func context(_ options: RelayClient.Options) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        if let file = options.trustedCertificates { configuration.trustRoots = .file(file) }
        if options.address.key != nil {
            configuration.verifySignatureAlgorithms = [.ed25519]
            // The key is compared instead of any name.
            configuration.certificateVerification = .noHostnameVerification
        }
        return try NIOSSLContext(configuration: configuration)
    }

    private static func handler(_ context: NIOSSLContext, _ address: RelayAddress) throws -> NIOSSLClientHandler {
        let isIP = NetworkAddress(address.host.contains(":") ? "[\(address.host)]:1" : "\(address.host):1") != nil
        let name = isIP ? nil : address.host
        guard let key = address.key else { return try NIOSSLClientHandler(context: context, serverHostname: name) }
        // The key in the URL says who the relay is: no authority, and no name, has a say.
        let expected = Self.ed25519Prefix + key.bytes
        return try NIOSSLClientHandler(
            context: context, serverHostname: name,
            customVerificationCallback: { certificates, result in
                let shown = try? certificates.first?.extractPublicKey().toSPKIBytes()
                result.succeed(shown == expected ? .certificateVerified : .failed)
            })
    }

    /// What stands before the 32 bytes of an Ed25519 key in a certificate (RFC 8410 §4).
    private static let ed25519Prefix: [UInt8] = [
        0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00,
    ]

    private func connected(_ channel: any Channel, attempt mine: Int) {
        guard mine == attempt else {
            channel.close(promise: nil)
            return
        }
        if link == nil { link = Link(channel: channel, handshake: RelayHandshake.Client(key: key)) }
        channel.closeFuture.assumeIsolated().whenComplete { [weak self] _ in
            self?.failed("the connection ended", attempt: mine)
        }
    }

    /// The proxy has connected to the relay.
    func tunnelled(attempt mine: Int) {
        guard mine == attempt else { return }
        (pendingProxy, signInPause) = (nil, nil)
    }

    /// The WebSocket is open.
    func upgraded(_ channel: any Channel, _ version: RelayVersion, attempt mine: Int) {
        guard mine == attempt else { return }
        if link == nil { link = Link(channel: channel, handshake: RelayHandshake.Client(key: key)) }
        link?.version = version
    }

    /// The relay, or what stands in its place, has answered the request with an HTTP status.
    func refused(status: Int, attempt mine: Int) {
        guard mine == attempt else { return }
        switch status {
        case 401, 403: denied("it answers \(status): this device, or its token, is not allowed")
        default: failed("it answers with HTTP status \(status): no relay is there", attempt: mine)
        }
    }

    private func denied(_ reason: String) {
        end()
        (restart, portal) = (nil, nil)
        become(.denied(reason: reason))
    }

    private func failedByTime(attempt mine: Int) {
        failed(
            pendingProxy.map { "the proxy \($0) did not answer in time" } ?? "it did not answer in time", attempt: mine)
    }

    /// A proxy refuses the name and the password, or wants some.
    func signInRefused(_ reason: String, attempt mine: Int) {
        guard mine == attempt else { return }
        signInPause = .now + Self.earlySignInRetry
        failed(reason, attempt: mine, pause: Self.signInRetry)
    }

    /// A captive portal answers in the proxy's place.
    func isCaptive(of portal: CaptivePortal, attempt mine: Int) {
        failed("a captive portal answers", attempt: mine, portal: portal)
    }

    /// An attempt or a link has failed: another follows, after `pause` or as the back-off says.
    func failed(
        _ reason: String, attempt mine: Int, pause fixed: Duration? = nil, portal found: CaptivePortal? = nil
    ) {
        guard mine == attempt, !isClosed else { return }
        if options.route != .direct {
            portal = found
        } else if link?.isOpen != true {
            // What was reached before does not sit behind a portal that nobody has signed in to.
            lookForPortal(reason)
        }
        end()
        let now = ContinuousClock.now
        var pause = fixed ?? backoff.next(using: &random)
        if let restart, now < restart.until {
            pause = restart.at > now ? restart.at - now : min(pause, Self.restartPause)
        } else {
            restart = nil
            if portal != nil { pause = min(pause, Self.captivePause) }
            repeatedly(portal.map { .captive($0) } ?? .waiting(reason: reason))
        }
        let next = attempt
        timer = eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [weak self] in
            guard let self, next == attempt else { return }
            open()
        }
    }

    /// Asks the relay's host whether a captive portal answers in its place; a relay that is reached directly only.
    private func lookForPortal(_ reason: String) {
        let now = ContinuousClock.now
        guard restart == nil, options.route == .direct, options.connectsTo == nil else { return }
        if let last = lastPortalCheck, now - last < options.portalCheckInterval { return }
        lastPortalCheck = now
        CaptivePortalCheck.ask(
            options.address.host, port: options.portalPort, refusesThisMachine: options.refusesThisMachine,
            on: eventLoop
        )
        .assumeIsolated()
        .whenSuccess { [weak self] found in self?.checked(found, after: reason) }
    }

    private func checked(_ found: CaptivePortal?, after reason: String) {
        // An attempt that hangs keeps this object beyond the client's end.
        guard !isClosed else { return }
        switch client.state {
        case .connecting, .waiting, .captive: portal = found
        case .idle, .connected, .restarting, .denied, .closed: return
        }
        if let found {
            become(.captive(found))
        } else if case .captive = client.state {
            become(.waiting(reason: reason))
        }
    }

    // MARK: - Frames

    func received(_ message: ByteBuffer, attempt mine: Int) {
        guard mine == attempt, let link else { return }
        let now = ContinuousClock.now
        keepAlive?.heard(at: now)
        do {
            let frame = try RelayFrame(Array(message.readableBytesView), version: link.version, from: .relay)
            if link.isOpen { try handle(frame, at: now) } else { try prove(frame, at: now) }
        } catch {
            failed("it breaks the protocol: \(error)", attempt: mine)
        }
    }

    private func prove(_ frame: RelayFrame, at now: ContinuousClock.Instant) throws {
        guard var link else { return }
        let action = try link.handshake.received(frame)
        self.link = link
        switch action {
        case .send(let proof): write(proof)
        case .begin:
            self.link?.isOpen = true
            deadline?.cancel()
            (restart, portal, deadline) = (nil, nil, nil)
            keepAlive = RelayKeepAlive(options.keepAlive, pace: pace, at: now, using: &random)
            become(.connected(roundTrip: nil))
            tick()
        case .refused(let reason): denied(reason)
        }
    }

    private func handle(_ frame: RelayFrame, at now: ContinuousClock.Instant) throws {
        switch frame {
        case .received(let device, let datagrams): onEvent(.received(datagrams, from: device))
        case .gone(let device): onEvent(.gone(device))
        case .status(let status): onEvent(.status(status))
        case .health(let text): onEvent(.status(text.isEmpty ? .healthy : .other(.max)))
        // A relay that reads nothing gets no answers either.
        case .ping(let bytes): if self.link?.channel.isWritable == true { write(.pong(bytes)) }
        case .pong(let bytes):
            guard let roundTrip = keepAlive?.received(pong: bytes, at: now) else { break }
            backoff.reset()
            become(.connected(roundTrip: roundTrip))
            tick()
        case .restarting(let reconnectIn, let tryFor):
            let pause = min(Duration.milliseconds(reconnectIn), Self.longestRestart)
            restart = (now + pause, now + pause + min(Duration.milliseconds(tryFor), Self.longestRestart * 2))
            become(.restarting)
        case .challenge, .proof, .confirmed, .denied, .send: throw RelayHandshake.Failure.unexpected
        }
    }

    /// Answers a WebSocket ping.
    func answer(ping bytes: ByteBuffer, attempt mine: Int) {
        guard mine == attempt, link?.channel.isWritable == true else { return }
        write(.pong, [bytes])
    }

    private func write(_ frame: RelayFrame) { write(.binary, [ByteBuffer(bytes: frame.bytes)]) }

    private func write(_ opcode: WebSocketOpcode, _ contents: [ByteBuffer]) {
        guard let channel = link?.channel else { return }
        var buffer = channel.allocator.buffer(capacity: contents.reduce(0) { $0 + $1.readableBytes + 14 })
        for frame in contents { buffer.writeWebSocketFrame(opcode, frame, mask: random.next()) }
        channel.writeAndFlush(buffer, promise: nil)
    }

    /// Sends what waits, as far as the socket takes it.
    func pump() {
        guard let link, link.isOpen else { return }
        let now = ContinuousClock.now
        while link.channel.isWritable {
            let frames = client.next(Self.batch, at: now)
            guard !frames.isEmpty else { return }
            write(.binary, frames)
        }
        client.isFull()
    }

    func writable(attempt mine: Int) { if mine == attempt { pump() } }

    /// Does what the time asks for, and comes again.
    private func tick() {
        timer?.cancel()
        let now = ContinuousClock.now
        switch keepAlive?.next(at: now, using: &random) {
        case .wait(let until):
            timer = eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(until - now)) { [weak self] in self?.tick() }
        case .ping(let bytes):
            write(.ping(bytes))
            tick()
        case .dead: failed("it does not answer", attempt: attempt)
        case nil: break
        }
    }
}
