import KithIO
import KithIdentity
import KithQUIC
import KithReach
import KithWire
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// The event loop's side of an ``Endpoint``: routes datagrams to connections, answers what is unroutable, runs the races.
///
/// `@unchecked Sendable`: touched with the lock of `loop` only, apart from what is immutable or a `Mutex`.
/// `@safe`: its two buffers live exactly as long as it does.
@safe final class EndpointDriver: @unchecked Sendable {
    /// The state any thread may read.
    struct Shared {
        var peers = PeerTable<Connection>()
        var foreign: [Connection] = []
        var isClosed = false
    }

    let id: DeviceID
    let options: Endpoint.Options
    let loop: EndpointLoop
    let logger: Logger
    let shared = Mutex(Shared())
    let established: BoundedQueue<Connection>
    let localChanges = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let stagger: TimeAmount
    private var configuration: QUICConfiguration
    /// The tickets and tokens that peers gave for the next time.
    var sessionCache: SessionCache
    /// Validates the addresses of returning peers, and under load those of all peers.
    private let tokens = AddressTokens()

    /// The buffer into which engines put what is to be sent; one send at a time.
    let sendBuffer: UnsafeMutableRawBufferPointer
    /// The buffer into which engines put a stream's received bytes, on their way to its inbox.
    let readBuffer: UnsafeMutableRawBufferPointer

    var sockets: [UDPSocket] = []
    /// Those opened for a while beside them.
    var spares = SpareSockets()
    /// The ways to devices beside the sockets, by number.
    var links: [UInt32: any DatagramLink] = [:]
    /// The addresses that stand for devices behind them.
    var relayed = RelayedAddresses()
    /// What its connections share about reaching devices; nil where they look for no paths.
    let reach: ReachState?
    /// Takes what comes to a socket and is STUN, not QUIC.
    var onOtherDatagram: (@Sendable (_ bytes: [UInt8], _ from: NetworkAddress, _ socket: UInt32) -> Void)?
    /// The NAT64 by which addresses of IPv4 are reached; nil where they are directly.
    var nat64: NAT64Prefix?
    /// The questions to servers that see its address, by the ids of their connections.
    var observers: [ConnectionID: AddressObserver] = [:]
    /// The number of those.
    var observerCount = 0
    private var routes: [ConnectionID: ConnectionDriver] = [:]
    /// The connections by their stateless reset tokens, for datagrams that no connection ID routes.
    private var resets = StatelessResetTable<ConnectionDriver>(key: (0..<32).map { _ in .random(in: .min ... .max) })
    private var lastRoute: (id: ConnectionID, driver: ConnectionDriver)?
    var drivers: [ObjectIdentifier: ConnectionDriver] = [:]
    private var touched: [ConnectionDriver] = []
    /// Takes turns with `touched`, so that neither has to be made anew.
    private var batch: [ConnectionDriver] = []
    /// Indicates whether the touched connections are being served: one that is touched meanwhile is served, too.
    private(set) var isServing = false
    private var dials: [Dial] = []
    private(set) var limiter: AcceptLimiter
    private var answers: AnswerLimiter
    private var retries: AnswerLimiter
    /// The number of Retries sent.
    private(set) var retriesSent = 0
    private var unsent: [Unsent] = []
    private var isAwaitingRoom = false
    /// Waits for sockets to have room; made when one first has none.
    private var reactor: Reactor?
    private(set) var isClosing = false
    /// The addresses where machines have just said that nobody listens, and the time they said so.
    private var closedPorts: [NetworkAddress: Timestamp] = [:]
    /// The known state of the local network.
    var network = NetworkState()
    /// What links have delivered, and nobody has read yet.
    let linkBacklog = LinkBacklog()

    /// Bytes the kernel did not take, and who waits for that.
    private struct Unsent {
        let driver: ConnectionDriver
        let bytes: [UInt8]
        let transmit: Transmit
    }

    /// The largest payload of one IPv4 datagram, and so of one run of segments.
    private static let maxRun = 65_507

    init(
        id: DeviceID, credentials: [Credential], statelessResetKey: [UInt8], options: Endpoint.Options, logger: Logger
    ) {
        self.id = id
        self.options = options
        loop = options.loop ?? EndpointLoop()
        self.logger = logger
        reach = options.findsPaths ? ReachState() : nil
        established = BoundedQueue(capacity: 256)
        stagger = .nanoseconds(max(0, options.raceStagger.clampedNanoseconds))
        limiter = AcceptLimiter(
            maxHalfOpen: options.maxHalfOpen, retryAbove: options.retryAbove, maxPerHost: options.maxHalfOpenPerHost,
            perSecond: options.maxHandshakesPerSecond, at: .now())
        retries = AnswerLimiter(perSecond: max(0, options.maxRetriesPerSecond), at: .now())
        answers = AnswerLimiter(perSecond: 100, at: .now())
        unsafe sendBuffer = .allocate(byteCount: Self.maxRun, alignment: 64)
        unsafe readBuffer = .allocate(byteCount: 256 << 10, alignment: 64)

        var configuration = QUICConfiguration(credentials: credentials, alpn: options.alpn)
        // The same after a restart, so that peers whose connections died with the process learn it at once
        // (RFC 9000 §10.3.2).
        configuration.statelessResetKey = statelessResetKey
        configuration.maxIdleTimeout = options.idleTimeout
        configuration.keepAlive = options.keepAlive
        configuration.handshakeTimeout = options.handshakeTimeout
        configuration.maxIncomingBidirectionalStreams = max(0, options.maxIncomingStreams)
        // What devices tell each other of their paths.
        configuration.maxIncomingUnidirectionalStreams = options.findsPaths ? 1 : 0
        configuration.congestionController = options.congestionController
        configuration.openQLog = options.qlog
        configuration.keyLog = options.keyLog
        configuration.cipherPreference = options.cipherPreference
        configuration.offersPostQuantumKeyShare = options.offersPostQuantumKeyShare
        configuration.udpPayloadSize = options.udpPayloadSize
        // It is chance which of two devices dialed, and either may be the one that is carried away.
        configuration.eitherEndMoves = true
        configuration.addressDiscovery = options.findsPaths ? .both : nil
        configuration.requirePeerCredential = options.foreign == .refuse
        // Keys of this process: what it sealed dies with it, and with it the memory of what was repeated.
        configuration.sessionTickets = SessionTickets(acceptsEarlyData: options.earlyData)
        configuration.addressTokens = tokens
        sessionCache = SessionCache(limit: options.rememberedPeers)
        sessionCache.restore(options.sessionCache, at: SessionCache.now)
        options.adjust?(&configuration)
        self.configuration = configuration
    }

    deinit {
        unsafe sendBuffer.deallocate()
        unsafe readBuffer.deallocate()
    }

    func start(_ sockets: [UDPSocket]) {
        self.sockets = sockets
        network.nextSocket = UInt32(sockets.count)
        if options.watchesNetwork { watchNetwork() }
    }

    /// Shows other credentials from now on.
    func use(_ credentials: [Credential]) { configuration.credentials = credentials }

    // MARK: - Datagrams in

    /// Takes a run of datagrams that arrived together; all but the last are `segmentSize` long.
    func received(
        _ bytes: UnsafeMutableRawBufferPointer, segmentSize: Int?, from remote: NetworkAddress, ecn: UInt8,
        link: LocalLink
    ) {
        // Addresses that stand for devices behind links come from nobody but a link.
        guard link.kind == .relay || RelayedAddresses.link(of: remote) == nil else { return }
        let now = Timestamp.now()
        let size = max(1, segmentSize ?? bytes.count)
        var offset = 0
        while offset < bytes.count {
            let end = min(offset + size, bytes.count)
            let datagram = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[offset..<end])
            unsafe receive(datagram, from: remote, ecn: ecn, link: link, at: now)
            offset = end
        }
    }

    /// The batch is over: look after every connection that got something, and those that got something by that.
    func readCompleted() {
        guard !isServing else { return }
        isServing = true
        while !touched.isEmpty {
            swap(&touched, &batch)
            for driver in batch { driver.service() }
            batch.removeAll(keepingCapacity: true)
        }
        isServing = false
    }

    private func receive(
        _ datagram: UnsafeMutableRawBufferPointer, from remote: NetworkAddress, ecn: UInt8, link: LocalLink,
        at now: Timestamp
    ) {
        guard let header = unsafe DatagramHeader(UnsafeRawBufferPointer(datagram)) else { return }
        let driver: ConnectionDriver
        if let lastRoute, lastRoute.id == header.destination {
            driver = lastRoute.driver
        } else if let known = routes[header.destination] {
            lastRoute = (header.destination, known)
            driver = known
        } else {
            return unsafe unroutable(datagram, header, from: remote, ecn: ecn, link: link, at: now)
        }
        // A relay may say anything of who has sent it: a connection does not follow it to another device.
        if link.kind == .relay, let peer = driver.connection?.peerID, relayed.device(at: remote) != peer { return }
        unsafe driver.engine.receive(datagram, from: remote, to: driver.link(of: link), ecn: ecn, at: now)
        touch(driver)
    }

    func touch(_ driver: ConnectionDriver) {
        guard !driver.isTouched else { return }
        driver.isTouched = true
        touched.append(driver)
    }

    /// A datagram of no known connection: perhaps a new one, perhaps one of a connection that is gone.
    private func unroutable(
        _ datagram: UnsafeMutableRawBufferPointer, _ header: DatagramHeader, from remote: NetworkAddress, ecn: UInt8,
        link: LocalLink, at now: Timestamp
    ) {
        if !observers.isEmpty, link.kind == .socket, let observer = observers[header.destination] {
            return unsafe observer.receive(datagram, from: remote, ecn: ecn)
        }
        // Behind a link, any socket stands for the one a direct path will have.
        guard !isClosing, let socket = link.kind == .socket ? socket(link.number) : sockets.first else { return }
        // By connection id first: the QUIC bit tells nothing, and no id has the cookie where STUN has it.
        if link.kind == .socket, unsafe STUNMessage.isSTUN(UnsafeRawBufferPointer(datagram)) {
            onOtherDatagram?(unsafe Array(datagram), remote, link.number)
            return
        }
        var written = 0
        switch header.form {
        case .initial:
            // RFC 9000 §14.1: a smaller one is not answered.
            guard datagram.count >= 1200, header.destination.count >= 8 else { return }
            // Nor may a client choose an id by which answers of STUN servers would be taken for its packets.
            guard !hasCookie(header.destination) else { return }
            let proof = unsafe tokens.proof(in: UnsafeRawBufferPointer(datagram), header, from: remote, at: now)
            guard proof != .invalid else {
                guard answers.allows(at: now) else { return }
                written = unsafe StatelessPackets.refuse(header, code: 0xB, into: sendBuffer)
                break
            }
            switch limiter.begin(with: host(at: remote), isProven: proof != .none, at: now) {
            case .drop: return
            case .accept:
                return unsafe accept(
                    datagram, header, proof: proof, from: remote, ecn: ecn, link: link, socket: socket, at: now)
            case .retry:
                guard retries.allows(at: now) else { return }
                retriesSent += 1
                written = unsafe StatelessPackets.retry(
                    for: header, from: remote, tokens: tokens, into: sendBuffer, at: now,
                    random: UInt64.random(in: .min ... .max))
            }
        case .unknownVersion:
            guard datagram.count >= 1200, answers.allows(at: now) else { return }
            written = unsafe StatelessPackets.versionNegotiation(
                for: header, into: sendBuffer, random: UInt64.random(in: .min ... .max))
        case .short:
            // Perhaps the reset of a connection the peer has lost: only the connection itself can tell.
            // It comes along any path that the connection has sent by, and the one in use may be dead (RFC 9000 §10.3.1).
            if let driver = unsafe resets.owner(ofResetIn: UnsafeRawBufferPointer(datagram)), !driver.isClosed,
                driver.engine.paths.contains(where: { $0.address.remote == remote })
            {
                unsafe driver.engine.receive(datagram, from: remote, to: driver.link(of: link), ecn: ecn, at: now)
                return touch(driver)
            }
            // Else it belongs to a connection that this end has lost.
            guard answers.allows(at: now) else { return }
            written = unsafe StatelessPackets.statelessReset(
                for: header, datagramSize: datagram.count, key: configuration.statelessResetKey, into: sendBuffer,
                random: { UInt64.random(in: .min ... .max) })
        case .zeroRTT, .handshake, .retry, .versionNegotiation:
            return
        }
        guard written > 0 else { return }
        let answer = unsafe UnsafeRawBufferPointer(rebasing: sendBuffer[..<written])
        // If the answer is lost the peer asks again.
        if link.kind == .relay {
            unsafe send(answer, segmentSize: written, to: remote, by: link)
        } else {
            _ = unsafe socket.send(answer, segmentSize: written, to: remote, ecn: 0)
        }
    }

    /// The magic cookie of STUN, which stands at byte 4 of its messages (RFC 8489 §5).
    private static let stunCookie: [UInt8] = [0x21, 0x12, 0xA4, 0x42]

    /// Returns whether a short packet to `id` could be taken for STUN.
    private func hasCookie(_ id: ConnectionID) -> Bool {
        id.count == ConnectionID.localLength && id.bytes[3..<7].elementsEqual(Self.stunCookie)
    }

    /// Whom handshakes are counted for: a household, or the one device behind a link.
    private func host(at remote: NetworkAddress) -> [UInt8] {
        RelayedAddresses.link(of: remote) == nil ? remote.networkPrefix : remote.ip
    }

    /// Sends a datagram of no connection.
    func send(_ datagram: [UInt8], to address: NetworkAddress, from number: UInt32?) {
        let named = number.flatMap { socket($0) }
        guard !isClosing, let socket = named ?? route(to: address), socket.address.isIPv6 == address.isIPv6 else {
            return
        }
        // Whoever asks with it asks again.
        _ = unsafe datagram.withUnsafeBytes { bytes in
            unsafe socket.send(bytes, segmentSize: bytes.count, to: address, ecn: 0)
        }
    }

    /// The largest datagram worth looking for.
    ///
    /// The loopback would carry any, but its runs of 64 KiB are sent as one anyway, and small segments lose less when a
    /// socket's buffer is full: 626 MB/s instead of 393.
    private func datagramLimit(to remote: NetworkAddress) -> Int {
        remote.isLoopback || RelayedAddresses.link(of: remote) != nil
            ? min(options.udpPayloadSize, 1452) : options.udpPayloadSize
    }

    private func accept(
        _ datagram: UnsafeMutableRawBufferPointer, _ header: DatagramHeader, proof: AddressTokens.Proof,
        from remote: NetworkAddress, ecn: UInt8, link: LocalLink, socket: UDPSocket, at now: Timestamp
    ) {
        let slot = AcceptLimiter.slot(of: host(at: remote), isProven: proof != .none)
        do {
            var configuration = configuration
            configuration.udpPayloadSize = datagramLimit(to: remote)
            configuration.restraint = QUICConfiguration.Restraint(
                connectionWindow: options.limitedWindow, maxIncomingBidirectionalStreams: options.limitedStreams)
            let verdict = AdmissionVerdict()
            configuration.verify = { [id, options] credential in
                let admission: Endpoint.Admission
                switch credential {
                case .rawPublicKey(let key):
                    // What is no device's key is refused.
                    let peer = try? DeviceID(publicKey: key)
                    admission =
                        peer.map { $0 == id ? .refused : options.admit($0, RelayedAddresses.outside(remote)) }
                        ?? .refused
                case .x509, .none:
                    admission = options.foreign == .acceptCertificates ? .full : .refused
                }
                verdict.value.withLock { $0 = admission }
                return admission != .refused
            }
            let engine = try QUICConnection.server(
                configuration, remote: remote, local: link, initial: header, proof: proof, at: now)
            let driver = ConnectionDriver(
                engine: engine, socket: socket, remote: remote, endpoint: self, purpose: .accepting(slot),
                admission: verdict)
            unsafe driver.engine.receive(datagram, from: remote, to: driver.link(of: link), ecn: ecn, at: now)
            // Noise that looks like a first packet must not hold a place until the handshake times out.
            guard driver.engine.statistics.packetsReceived > 0 else { return limiter.end(slot) }
            drivers[ObjectIdentifier(driver)] = driver
            // At once, so that the rest of the peer's first flight, perhaps in this very batch, finds its way.
            driver.service()
        } catch {
            limiter.end(slot)
            logger.debug("a handshake could not begin", metadata: ["error": "\(error.message)"])
        }
    }

    // MARK: - Routes

    func addRoute(_ id: ConnectionID, to driver: ConnectionDriver) { routes[id] = driver }

    func removeRoute(_ id: ConnectionID, of driver: ConnectionDriver) {
        if routes[id] === driver { routes[id] = nil }
        if lastRoute?.driver === driver { lastRoute = nil }
    }

    func addResetToken(_ token: ResetToken, of driver: ConnectionDriver) { resets.add(token, of: driver) }

    func removeResetToken(_ token: ResetToken, of driver: ConnectionDriver) { resets.remove(token, of: driver) }

    func forget(_ driver: ConnectionDriver) {
        for token in driver.resetTokens { resets.remove(token, of: driver) }
        for id in driver.routes { removeRoute(id, of: driver) }
        if lastRoute?.driver === driver { lastRoute = nil }
        drivers[ObjectIdentifier(driver)] = nil
        unsent.removeAll { $0.driver === driver }
    }

    // MARK: - Datagrams out

    /// The socket of that number, while it is open.
    func socket(_ number: UInt32) -> UDPSocket? { sockets.first { $0.number == number } ?? spares.open[number] }

    /// The socket a path goes by: the one it names, else one that reaches its other end.
    func socket(for transmit: Transmit, of driver: ConnectionDriver) -> UDPSocket {
        if driver.isOwn(transmit.local), driver.socket.address.isIPv6 == transmit.remote.isIPv6 {
            return driver.socket
        }
        if let named = socket(transmit.local.number), named.address.isIPv6 == transmit.remote.isIPv6 { return named }
        return route(to: transmit.remote) ?? driver.socket
    }

    func route(to remote: NetworkAddress) -> UDPSocket? {
        let family = sockets.filter { $0.address.isIPv6 == remote.isIPv6 }
        return family.first { $0.address.isUnspecified || $0.address.isLoopback == remote.isLoopback } ?? family.first
    }

    /// Sends what an engine made, by the socket or link its path names.
    @inline(__always)
    func send(
        _ bytes: UnsafeRawBufferPointer, _ transmit: Transmit, of driver: ConnectionDriver
    ) -> UDPSocket.Outcome {
        if transmit.local.kind == .relay {
            unsafe send(bytes, segmentSize: transmit.segmentSize, to: transmit.remote, by: transmit.local)
            return .sent
        }
        return unsafe socket(for: transmit, of: driver).send(
            bytes, segmentSize: transmit.segmentSize, to: transmit.remote, ecn: transmit.ecn)
    }

    /// The kernel does not take everything: keeps the rest until it does.
    func blocked(_ driver: ConnectionDriver, rest: [UInt8], transmit: Transmit, _ outcome: UDPSocket.Outcome) {
        driver.isBlocked = true
        unsent.append(Unsent(driver: driver, bytes: rest, transmit: transmit))
        awaitRoom(in: socket(for: transmit, of: driver), outcome)
    }

    /// Goes on sending as soon as the socket can be written to; where that cannot be known, half a millisecond later.
    private func awaitRoom(in socket: UDPSocket, _ outcome: UDPSocket.Outcome) {
        guard !isAwaitingRoom else { return }
        isAwaitingRoom = true
        if case .blocked = outcome, let watch = watch(socket) {
            Task(name: "kith udp") { [weak self, loop] in
                await watch.wait(for: .writing)
                loop.execute { [weak self] in self?.sendRest() }
            }
        } else {
            loop.scheduleTask(in: .microseconds(500)) { [weak self] in self?.sendRest() }
        }
    }

    /// Returns the watch that tells when `socket` can be written to; nil where the system watches no more.
    private func watch(_ socket: UDPSocket) -> Watch? {
        do throws(SystemError) {
            let reactor = if let reactor { reactor } else { try Reactor(name: "kith udp") }
            self.reactor = reactor
            return try socket.room(reactor)
        } catch {
            return nil
        }
    }

    private func sendRest() {
        isAwaitingRoom = false
        while let first = unsent.first {
            let socket = socket(for: first.transmit, of: first.driver)
            let outcome = unsafe first.bytes.withUnsafeBytes { bytes in
                unsafe socket.send(
                    bytes, segmentSize: first.transmit.segmentSize, to: first.transmit.remote, ecn: first.transmit.ecn)
            }
            switch outcome {
            case .blocked(let taken), .congested(let taken):
                unsent[0] = Unsent(
                    driver: first.driver, bytes: Array(first.bytes[taken...]), transmit: first.transmit)
                return awaitRoom(in: socket, outcome)
            case .sent, .unreachable, .tooLarge:
                unsent.removeFirst()
                first.driver.isBlocked = false
                first.driver.service()
            }
        }
    }

    // MARK: - Dialing

    func connect(
        to target: Dial.Target, at addresses: [NetworkAddress], through links: [UInt32], isEarly: Bool,
        timeout: Duration, _ waiter: Promise<Result<Connection, KithError>>
    ) {
        guard !waiter.isFulfilled else { return }
        guard !isClosing else {
            waiter.fulfil(.failure(KithError(.closed, "This device's endpoint has been shut down.")))
            return
        }
        if case .device(let peer) = target, let open = shared.withLock({ $0.peers.current(peer) }) {
            waiter.fulfil(.success(open))
            return
        }
        // Addresses that stand for devices behind links are this endpoint's own to make.
        var addresses = ways(to: addresses).filter { RelayedAddresses.link(of: $0) == nil }
        if case .device(let peer) = target {
            addresses.insert(
                contentsOf: links.filter { self.links[$0] != nil }.map { relayedAddress(of: peer, by: $0) }, at: 0)
        }
        guard !addresses.isEmpty else {
            waiter.fulfil(.failure(KithError(.invalid, "No address of the device is known, so it cannot be dialed.")))
            return
        }
        let dial: Dial
        if case .device = target, let running = dials.first(where: { $0.target == target }) {
            dial = running
        } else {
            dial = Dial(to: target, endpoint: self)
            dials.append(dial)
        }
        dial.join(waiter, addresses: addresses, isEarly: isEarly, timeout: timeout)
    }

    /// The time for which a machine's refusal is remembered: a device may be started at any moment.
    private static let closedPortMemory: Int64 = .seconds(1)

    /// Notes that a machine has said that nothing listens there.
    func noteClosed(_ address: NetworkAddress) {
        let now = Timestamp.now()
        closedPorts = closedPorts.filter { now - $0.value < Self.closedPortMemory }
        closedPorts[address] = now
    }

    /// Returns whether a machine has just said that nobody listens there.
    func wasJustClosed(_ address: NetworkAddress) -> Bool {
        closedPorts[address].map { .now() - $0 < Self.closedPortMemory } ?? false
    }

    func pruneDials() {
        for dial in dials { dial.prune() }
    }

    func dialEnded(_ dial: Dial) { dials.removeAll { $0 === dial } }

    /// Starts a handshake with whoever is at `address`.
    func dial(_ address: NetworkAddress, for dial: Dial) throws(KithError) -> ConnectionDriver {
        let relay = RelayedAddresses.link(of: address)
        if let relay, links[relay] == nil {
            throw KithError(.unreachable, "The relay to dial the device through is not connected any more.")
        }
        guard let socket = relay == nil ? route(to: address) : sockets.first else {
            throw KithError(
                .unreachable, "There is no \(address.isIPv6 ? "IPv6" : "IPv4") socket to dial \(address) from.")
        }
        var configuration = self.configuration
        switch dial.target {
        case .device(let peer):
            configuration.requirePeerCredential = true
            configuration.verify = { [options] credential in
                guard case .rawPublicKey(let key) = credential else { return false }
                if key == peer.bytes { return true }
                // What is no device's key is nobody's.
                if let other = try? DeviceID(publicKey: key) { options.onOtherKey?(other) }
                return false
            }
        case .foreign(let serverName):
            configuration.serverName = serverName
            configuration.requirePeerCredential = false
            configuration.verify = { credential in
                if case .rawPublicKey = credential { false } else { true }
            }
        }
        let given = sessionCache.take(for: dial.target, at: address)
        configuration.sessionTicket = given.ticket
        // A token proves an address of the network; who comes through a relay has none.
        configuration.addressToken = relay == nil ? given.token ?? [] : []
        configuration.offersEarlyData = dial.isEarly
        configuration.udpPayloadSize = datagramLimit(to: address)
        let engine = try QUICConnection.client(
            configuration, remote: address, local: relay.map { .relay($0) } ?? .socket(socket.number), at: .now())
        let driver = ConnectionDriver(
            engine: engine, socket: socket, remote: address, endpoint: self, purpose: .dialing(dial))
        drivers[ObjectIdentifier(driver)] = driver
        return driver
    }

    /// Has an attempt to reach `target` that is under way try more addresses.
    func found(_ target: Dial.Target, at addresses: [NetworkAddress]) {
        let addresses = ways(to: addresses).filter { RelayedAddresses.link(of: $0) == nil }
        for dial in dials where dial.target == target { dial.add(addresses) }
    }

    /// Ends the attempt to reach a device by a link: it is not there.
    func dialIsInVain(to peer: DeviceID, by link: UInt32) {
        let address = RelayedAddresses.address(of: peer, by: link)
        for dial in dials where dial.target == .device(peer) { dial.isInVain(at: address) }
    }

    /// Has an attempt to reach a device that is under way try a link that was opened meanwhile.
    func found(_ peer: DeviceID, by link: UInt32) {
        guard links[link] != nil, dials.contains(where: { $0.target == .device(peer) }) else { return }
        let address = relayedAddress(of: peer, by: link)
        for dial in dials where dial.target == .device(peer) { dial.add([address]) }
    }

    // MARK: - Connections

    func peer(of credential: PeerCredential) -> Connection.Peer? {
        switch credential {
        case .rawPublicKey(let key):
            // Keys that are no device's were refused during the handshake.
            guard let id = try? DeviceID(publicKey: key) else { return nil }
            return .device(id)
        case .x509(let chain): return .certificates(chain)
        case .none: return .certificates([])
        }
    }

    func handshakeEnded(_ purpose: ConnectionDriver.Purpose?) {
        if case .accepting(let slot) = purpose { limiter.end(slot) }
    }

    /// A handshake is complete.
    func established(_ connection: Connection, by driver: ConnectionDriver, after handshake: ConnectionDriver.Handshake)
    {
        handshakeEnded(handshake.purpose)
        let count = shared.withLock { $0.peers.count + $0.foreign.count }
        guard !isClosing, count < options.maxConnections else {
            driver.close(code: .exhausted, reason: "too many connections")
            // The connection's end tells its dial nothing any more: its handshake was complete.
            if case .dialing(let dial) = handshake.purpose { dial.abort(tooManyConnections) }
            return
        }
        shared.withLock { shared in
            if case .device(let peer) = connection.peer {
                shared.peers.add(connection, to: peer, dialedBy: connection.isDialed ? id : peer, at: .now())
            } else {
                shared.foreign.append(connection)
            }
        }
        if let peer = connection.peerID {
            choose(peer)
            makeRoom(for: connection, of: peer)
        }
        // After it is in the table, and before anybody gets it.
        connection.completed()
        if !handshake.isOffered, !offer(connection), !connection.isDialed {
            return driver.close(code: .exhausted, reason: "nobody takes new connections")
        }
        if case .dialing(let dial) = handshake.purpose {
            dial.succeeded(
                driver, connection.peerID.flatMap { peer in shared.withLock { $0.peers.current(peer) } } ?? connection)
        } else if let peer = connection.peerID, peer < id {
            // What the smaller id dialed is what both ends keep: no need to wait for our own attempt.
            dials.first { $0.target == .device(peer) }?.overtaken(by: connection)
        }
    }

    private var tooManyConnections: KithError {
        KithError(
            .exhausted,
            """
            The device was reached, but this one has \(options.maxConnections) connections, as many as it may have: \
            try again when one of them has ended.
            """)
    }

    /// A peer that resumes a session may be asking already; false when nobody can listen now.
    ///
    /// It is in no table before its handshake is complete: a repetition must not stand in for the peer.
    func offerEarly(_ connection: Connection) -> Bool {
        guard !isClosing, shared.withLock({ $0.peers.count + $0.foreign.count }) < options.maxConnections else {
            return false
        }
        return offer(connection)
    }

    private func offer(_ connection: Connection) -> Bool {
        guard let take = options.onConnection else { return established.offered(connection) }
        take(connection)
        return true
    }

    func ended(_ connection: Connection) {
        shared.withLock { shared in
            if let peer = connection.peerID {
                shared.peers.remove(connection, to: peer)
            } else {
                shared.foreign.removeAll { $0 === connection }
            }
        }
        if let peer = connection.peerID { choose(peer) }
    }

    /// Retires all connections to `peer` but the one that is to be used.
    private func choose(_ peer: DeviceID) {
        let (current, all) = shared.withLock { ($0.peers.current(peer), $0.peers.all(peer)) }
        for connection in all {
            let driver = connection.driver
            let isRetired = connection !== current
            guard driver.isRetired != isRetired else { continue }
            driver.retire(isRetired)
            if isRetired { retirementIsDue(driver) }
        }
    }

    /// Closes the oldest connections of a peer that has too many, never the one just made or in use.
    private func makeRoom(for connection: Connection, of peer: DeviceID) {
        let (current, all) = shared.withLock { ($0.peers.current(peer), $0.peers.all(peer)) }
        let spare = all.filter { $0 !== connection && $0 !== current }
        for old in spare.prefix(max(0, all.count - max(2, options.maxConnectionsPerPeer))) {
            old.driver.close(code: .exhausted, reason: "newer connections took its place")
        }
    }

    /// Closes a superseded connection that carries nothing, once the other end has certainly superseded it, too.
    func retirementIsDue(_ driver: ConnectionDriver) {
        loop.scheduleTask(in: .seconds(30)) {
            if driver.isRetired, !driver.hasStreams, !driver.isClosed {
                driver.close(code: .closed, reason: "a newer connection took its place")
            }
        }
    }

    // MARK: - The end

    /// No new connections from now on.
    func stopAccepting() {
        isClosing = true
        shared.withLock { $0.isClosed = true }
        for dial in dials { dial.abort(KithError(.closed, "This device's endpoint has been shut down.")) }
        established.finish()
        localChanges.continuation.finish()
    }

    /// Closes every connection, telling the peers, and then the sockets.
    func terminate() {
        stopAccepting()
        let reason = CloseReason(origin: .local, code: .closed, message: "the device is going offline")
        for driver in Array(drivers.values) { driver.close(code: reason.code, reason: reason.message) }
        for driver in Array(drivers.values) { driver.abandon(reason) }
        for observer in Array(observers.values) { observer.end() }
        drivers = [:]
        routes = [:]
        resets.removeAll()
        lastRoute = nil
        touched = []
        unsent = []
        links = [:]
        onOtherDatagram = nil
        for connection in established.removeAll() { connection.close() }
        unwatchNetwork()
        let sockets = self.sockets
        self.sockets = []
        for socket in sockets + spares.open.values { socket.close() }
        spares.open = [:]
    }

    func socketClosed(_ channel: any Channel) {
        // One that was closed here is in no list any more.
        guard !isClosing, let closed = sockets.first(where: { $0.channel === channel }) else { return }
        logger.error(
            "a UDP socket was closed by the system",
            metadata: ["address": "\(String(describing: channel.localAddress))"])
        replace(closed)
    }
}

/// The verdict of a handshake on a device that connects; touched with the lock of the loop only.
final class AdmissionVerdict: Sendable {
    let value = Mutex(Endpoint.Admission.refused)

    /// Indicates whether the device is held to little.
    var isLimited: Bool { value.withLock { $0 != .full } }
}
