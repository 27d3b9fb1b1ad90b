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
    private let outbox: RelayOutbox
    private let onEvent: @Sendable (RelayClient.Event) -> Void

    /// The WebSocket that is being opened, or is open.
    private struct Link {
        let channel: any Channel
        var version = RelayVersion.v2
        var handshake: RelayHandshake.Client
        var isOpen = false
    }

    /// Counts attempts by WebSocket: what an earlier one still says is not heard.
    private(set) var attempt = 0
    private var link: Link?
    /// Counts attempts by whatever carrier.
    private var round = 0
    /// The link by QUIC that is being opened, or is open.
    private var quic: RelayQUICLink?
    private var isQUICOpen = false
    private(set) var dialer: RelayQUICDialer?
    /// The time until the WebSocket is opened beside QUIC.
    private var headStart: Scheduled<Void>?
    /// The next attempt by QUIC while the WebSocket is in use.
    private var probing: Scheduled<Void>?
    /// How the WebSocket failed while QUIC is still being opened.
    private var failure: Failure?
    /// Indicates whether it is being found out whether a silent link by QUIC lives.
    private var isDoubtful = false
    /// Indicates whether another key than the relay's answered the last attempt by QUIC.
    private var showsAnotherKey = false
    private var keepAlive: RelayKeepAlive?
    /// The silence that links bear here.
    private var pace: RelayPace?
    private var backoff: RelayBackoff
    private var timer: Scheduled<Void>?
    private var deadline: Scheduled<Void>?
    /// When to come back to a relay that restarts, and how long to try often.
    private var restart: (at: ContinuousClock.Instant, until: ContinuousClock.Instant)?
    /// The time at which a link that was open ended, until another one is.
    private var lost: ContinuousClock.Instant?
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

    /// How an attempt by WebSocket failed.
    private struct Failure {
        var reason: String
        var pause: Duration?
        var portal: CaptivePortal?
    }

    /// The time between two looks at the round trip of a link by QUIC.
    private static let measuringInterval = TimeAmount.seconds(15)
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
        key: DeviceKey, options: RelayClient.Options, outbox: RelayOutbox,
        onEvent: @escaping @Sendable (RelayClient.Event) -> Void, on eventLoop: any EventLoop
    ) {
        (self.key, self.options, self.outbox, self.onEvent, self.eventLoop) = (key, options, outbox, onEvent, eventLoop)
        backoff = RelayBackoff(longest: options.longestPause)
    }

    private func become(_ state: RelayClient.State) {
        if outbox.changed(to: state) { onEvent(.state(state)) }
    }

    /// Becomes what it already may be: whoever waits for the end of an attempt hears of each.
    private func repeatedly(_ state: RelayClient.State) {
        _ = outbox.changed(to: state)
        onEvent(.state(state))
    }

    // MARK: - Asked for

    func connect() {
        switch outbox.state {
        case .idle, .denied: open()
        case .connecting, .connected, .restarting, .waiting, .captive, .closed: break
        }
    }

    func networkChanged(isElsewhere: Bool) {
        if isElsewhere { (pace, showsAnotherKey) = (nil, false) }
        if isElsewhere, deadline != nil, signInPause.map({ .now >= $0 }) ?? true {
            // It waits for answers to an address of before.
            backoff.reset()
            return open()
        }
        switch outbox.state {
        case .waiting, .captive, .restarting:
            if let signInPause, .now < signInPause { return repeatedly(outbox.state) }
            // A new attempt is under way already.
            guard timer != nil || deadline == nil else { return }
            backoff.reset()
            open()
        case .connected:
            if isQUICOpen {
                dialer?.networkChanged()
                return
            }
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
            probeQUIC()
        case .idle, .connecting, .denied, .closed: break
        }
    }

    func close() {
        isClosed = true
        end()
        if let dialer { Task(name: "kith relay by quic") { await dialer.close() } }
        dialer = nil
        become(.closed)
    }

    /// Ends the attempts and the link that are there.
    private func end() {
        round += 1
        deadline?.cancel()
        deadline = nil
        endWebSocket()
        endQUIC()
    }

    private func endWebSocket() {
        attempt += 1
        timer?.cancel()
        headStart?.cancel()
        probing?.cancel()
        keepAlive?.ended()
        pace = keepAlive?.pace ?? pace
        (timer, headStart, probing, keepAlive, pendingProxy) = (nil, nil, nil, nil, nil)
        link?.channel.close(promise: nil)
        link = nil
    }

    private func endQUIC() {
        quic?.cancel()
        (quic, isQUICOpen, isDoubtful) = (nil, false, false)
    }

    // MARK: - Opening

    private func open() {
        end()
        guard !isClosed else { return }
        if restart == nil, portal == nil { become(.connecting) }
        let mine = round
        failure = nil
        let isolated = eventLoop.assumeIsolated()
        deadline = isolated.scheduleTask(in: TimeAmount(options.openingTime)) { [weak self] in
            self?.failedByTime(round: mine)
        }
        guard options.quicKey != nil else { return openWebSocket() }
        openQUIC()
        guard !showsAnotherKey else { return }
        headStart = isolated.scheduleTask(in: TimeAmount(options.headStart)) { [weak self] in
            guard let self, mine == round else { return }
            openWebSocket()
        }
    }

    private func openWebSocket() {
        headStart?.cancel()
        headStart = nil
        let mine = attempt
        let place: (host: String, port: UInt16)
        switch options.route {
        case .direct: place = (options.address.host, options.address.port)
        case .through(let proxy):
            pendingProxy = proxy
            place = (proxy.host, proxy.port)
        // As long as this process runs, nothing changes that.
        case .impossible(let problem): return isImpossible(problem.description)
        @unknown default: return isImpossible("this device knows no way to it")
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
                    let reason = NetworkFailure.words(error)
                    self?.failed(
                        proxy.map { "the proxy \($0) cannot be reached: \(reason)" } ?? reason, attempt: mine)
                }
            }
    }

    private static func context(_ options: RelayClient.Options) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        if let file = options.trustedCertificates { configuration.trustRoots = .file(file) }
        if options.address.pinnedKey != nil {
            configuration.verifySignatureAlgorithms = [.ed25519]
            // The key is compared instead of any name.
            configuration.certificateVerification = .noHostnameVerification
        }
        return try NIOSSLContext(configuration: configuration)
    }

    private static func handler(_ context: NIOSSLContext, _ address: RelayAddress) throws -> NIOSSLClientHandler {
        let isIP = NetworkAddress(address.host.contains(":") ? "[\(address.host)]:1" : "\(address.host):1") != nil
        let name = isIP ? nil : address.host
        guard let key = address.pinnedKey else {
            return try NIOSSLClientHandler(context: context, serverHostname: name)
        }
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

    private func isImpossible(_ reason: String) {
        end()
        repeatedly(.waiting(reason: reason))
    }

    private func failedByTime(round mine: Int) {
        guard mine == round else { return }
        endQUIC()
        showsAnotherKey = false
        if let failure { return failed(failure) }
        failed(
            pendingProxy.map { "the proxy \($0) did not answer in time" } ?? "it did not answer in time",
            attempt: attempt)
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

    /// The WebSocket, or an attempt to open it, has failed.
    func failed(
        _ reason: String, attempt mine: Int, pause: Duration? = nil, portal: CaptivePortal? = nil
    ) {
        guard mine == attempt, !isClosed else { return }
        let failure = Failure(reason: reason, pause: pause, portal: portal)
        if quic != nil, link?.isOpen != true {
            // QUIC may yet be let in.
            self.failure = failure
            endWebSocket()
        } else {
            failed(failure)
        }
    }

    /// Every carrier has failed: another attempt follows, after a fixed pause or as the back-off says.
    private func failed(_ failure: Failure) {
        let (reason, fixed) = (failure.reason, failure.pause)
        if options.route != .direct {
            portal = failure.portal
        } else if link?.isOpen != true, !isQUICOpen {
            // What was reached before does not sit behind a portal that nobody has signed in to.
            lookForPortal(reason)
        }
        let now = ContinuousClock.now
        if link?.isOpen == true || isQUICOpen { lost = now }
        end()
        var pause = fixed ?? backoff.next(away: lost.map { now - $0 }, using: &random)
        if let restart, now < restart.until {
            pause = restart.at > now ? restart.at - now : min(pause, Self.restartPause)
        } else {
            restart = nil
            if portal != nil { pause = min(pause, Self.captivePause) }
            repeatedly(portal.map { .captive($0) } ?? .waiting(reason: reason))
        }
        let next = round
        timer = eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [weak self] in
            guard let self, next == round else { return }
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
        switch outbox.state {
        case .connecting, .waiting, .captive: portal = found
        case .idle, .connected, .restarting, .denied, .closed: return
        }
        if let found {
            become(.captive(found))
        } else if case .captive = outbox.state {
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
            opened()
            endQUIC()
            keepAlive = RelayKeepAlive(options.keepAlive, pace: pace, at: now, using: &random)
            outbox.use(.tcp, nil)
            become(.connected(roundTrip: nil))
            probeLater()
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
        case .restarting(let reconnectIn, let tryFor): restarts(in: reconnectIn, tryFor: tryFor)
        case .challenge, .proof, .confirmed, .denied, .send: throw RelayHandshake.Failure.unexpected
        }
    }

    private func restarts(in reconnectIn: UInt32, tryFor: UInt32) {
        let now = ContinuousClock.now
        let pause = min(Duration.milliseconds(reconnectIn), Self.longestRestart)
        restart = (now + pause, now + pause + min(Duration.milliseconds(tryFor), Self.longestRestart * 2))
        become(.restarting)
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
            var (frames, bytes) = ([ByteBuffer](), 0)
            while bytes < Self.batch, let run = outbox.next(at: now) {
                let datagrams = RelayedDatagrams(run.datagrams, segmentSize: run.segmentSize)
                frames.append(ByteBuffer(bytes: RelayFrame.send(to: run.device, datagrams).bytes))
                bytes += frames[frames.count - 1].readableBytes
            }
            guard !frames.isEmpty else { return }
            write(.binary, frames)
        }
        outbox.isFull()
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

    // MARK: - QUIC

    private func openQUIC() {
        guard let relay = options.quicKey, !isClosed else { return }
        let dialer = dialer ?? RelayQUICDialer(options, relay: relay, key: key)
        self.dialer = dialer
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        let link = RelayQUICLink(outbox, token: options.token, onEvent: onEvent) { [eventLoop] link, report in
            eventLoop.execute { bound.value.reported(report, of: link) }
        }
        quic = link
        link.start(dialer)
    }

    private func reported(_ report: RelayQUICLink.Report, of link: RelayQUICLink) {
        guard link === quic, !isClosed else { return }
        switch report {
        case .letIn(let connection): letIn(by: connection)
        case .denied(let reason): denied(reason)
        case .restarting(let reconnectIn, let tryFor):
            restarts(in: reconnectIn, tryFor: tryFor)
            failed(Failure(reason: "it restarts"))
        case .silent: doubt(link)
        case .failed(let reason):
            guard let other = dialer?.otherKey, !options.address.isCertified else { return quicFailed(reason) }
            provedAnotherKey(other)
        }
    }

    /// Another key than that of the URL answered by QUIC: TCP could not prove that the relay is the right one, either.
    ///
    /// Nothing is opened by TCP any more until QUIC has been tried once without such an answer.
    private func provedAnotherKey(_ other: DeviceID) {
        showsAnotherKey = true
        let key = options.quicKey.map { "\($0)" } ?? "the one in its URL"
        failed(Failure(reason: "it proved the key \(other), not the expected \(key)"))
    }

    /// The attempt is over: a carrier was let in.
    private func opened() {
        deadline?.cancel()
        (restart, portal, deadline, failure, lost) = (nil, nil, nil, nil, nil)
    }

    private func letIn(by connection: Connection) {
        opened()
        showsAnotherKey = false
        // What the other carrier still brings has come in order, or is brought again by whoever sent it.
        endWebSocket()
        isQUICOpen = true
        backoff.reset()
        outbox.use(.quic, connection)
        become(.connected(roundTrip: nil))
        measure(connection)
    }

    /// Notes the round trip now, and again after a while.
    private func measure(_ connection: Connection) {
        let mine = round
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        Task(name: "kith relay round trip") { [eventLoop] in
            let roundTrip = await connection.statistics().roundTrip
            eventLoop.execute { bound.value.measured(roundTrip, connection, round: mine) }
        }
    }

    private func measured(_ roundTrip: Duration, _ connection: Connection, round mine: Int) {
        guard mine == round, isQUICOpen else { return }
        become(.connected(roundTrip: roundTrip))
        timer = eventLoop.assumeIsolated().scheduleTask(in: Self.measuringInterval) { [weak self] in
            guard let self, mine == round, isQUICOpen else { return }
            measure(connection)
        }
    }

    /// A probe time-out has passed in silence: the link is given up unless the relay is heard within a while.
    private func doubt(_ link: RelayQUICLink) {
        guard isQUICOpen, !isDoubtful, let connection = link.connected else { return }
        isDoubtful = true
        let patience = options.keepAlive.answer.upperBound
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(patience)) { [eventLoop] in
            Task(name: "kith relay silence") {
                let quiet = await connection.statistics().quiet
                eventLoop.execute { bound.value.doubted(link, isGone: quiet >= patience) }
            }
        }
    }

    private func doubted(_ link: RelayQUICLink, isGone: Bool) {
        guard link === quic else { return }
        isDoubtful = false
        if isGone { quicFailed("it does not answer") }
    }

    private func quicFailed(_ reason: String) {
        if isQUICOpen { return failed(Failure(reason: reason)) }
        endQUIC()
        let waited = showsAnotherKey
        showsAnotherKey = false
        if link?.isOpen == true {
            probeLater()
        } else if headStart != nil || waited {
            openWebSocket()
        } else if let failure {
            failed(failure)
        }
    }

    /// Tries QUIC beside the WebSocket that is in use.
    private func probeQUIC() {
        if quic == nil, link?.isOpen == true { openQUIC() }
    }

    private func probeLater() {
        guard options.quicKey != nil else { return }
        probing?.cancel()
        let isolated = eventLoop.assumeIsolated()
        probing = isolated.scheduleTask(in: TimeAmount(options.probeInterval)) { [weak self] in self?.probeQUIC() }
    }
}
