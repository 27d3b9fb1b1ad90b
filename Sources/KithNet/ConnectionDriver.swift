import KithAPI
import KithIO
import KithQUIC
import KithWire
import NIOCore
import Synchronization

/// Moves one engine: datagrams in, datagrams out, bytes between it and the streams' buffers, and its one timer.
///
/// `@unchecked Sendable`: everything is touched with the lock of `loop` only, except what is immutable and `scheduled`,
/// which has its own lock.
final class ConnectionDriver: NIOScheduledCallbackHandler, @unchecked Sendable {
    /// The purpose the connection was made for, until its handshake is over.
    enum Purpose {
        case accepting(AcceptLimiter.Slot)
        case dialing(Dial)
    }

    /// The phase of the connection, and what it has in it.
    ///
    /// ```
    ///  handshaking ──complete──▶ established ──▶ closed ──▶ drained
    ///       └────────── refused, failed, given up ──┘
    /// ```
    private enum Phase {
        case handshaking(Handshake)
        case established(Connection)
        /// It has ended for its users; the engine still notifies the peer.
        case closed(CloseReason)
        /// Nothing is sent or waited for any more.
        case drained(CloseReason)
    }

    /// The state that exists until the handshake is over.
    struct Handshake {
        /// Nil when the dial it was made for does not need it any more.
        var purpose: Purpose?
        /// The connection as its users see it, when a session is resumed.
        var early: Connection?
        /// Indicates whether it was already given to the endpoint's owner.
        var isOffered = false
    }

    /// Indicates whether streams may begin.
    enum StreamIntake {
        case open
        /// None may; these wait until there are none.
        case draining([Promise<Void>])
    }

    let endpoint: EndpointDriver
    let loop: EndpointLoop
    private var phase: Phase
    /// The local end of its path, which it sends through.
    var localPath: LocalPath
    /// The peer it was dialed to reach; nil when the peer dialed.
    let target: Dial.Target?
    var isDialed: Bool { target != nil }
    /// Indicates whether there was no way to the peer when it was last looked for.
    var isCutOff = false
    /// Indicates whether its path goes by a relay, and not through its socket.
    var isRelayed: Bool
    /// Finds its paths; nil where the endpoint, or the other end, does not.
    var pathFinder: PathFinder?
    /// The stream on which the other end tells where it is, until it is known for sure who that is.
    var unreadControl: StreamID?
    /// Is told what happens on its paths.
    var onPathEvent: (@Sendable (PathEvent) -> Void)?
    /// The datagrams that any thread wants to send.
    let outgoingDatagrams = Mutex(OutgoingDatagrams())
    /// Indicates whether datagrams of the peer are kept for a reader.
    var takesDatagrams = true
    /// What takes everything that comes, where streams are not handed to tasks.
    var handling: Handling?
    /// The peer's addresses, as they were known when it was dialed; the next to try first.
    var peerAddresses: [NetworkAddress] = []
    /// The address it was first heard from, or dialed at.
    let dialed: NetworkAddress
    var engine: QUICConnection
    /// The verdict on a peer that dialed.
    let admission: AdmissionVerdict?
    var streams: [StreamID: Entry] = [:]
    var pendingOpens: [Promise<Result<QUICStream, KithError>>] = []
    private var timer: NIOScheduledCallback?
    private var timerDeadline = Timestamp.distantFuture
    /// The streams whose answer has come: their end goes out with whatever is sent next, or at the deadline.
    var ending: [StreamCore] = []
    var endingDeadline = Timestamp.distantFuture
    /// The time for which an end waits, in nanoseconds.
    static let endingDelay: Int64 = 5_000_000
    private(set) var routes: [ConnectionID] = []
    /// The tokens at a datagram's end which say that the peer has forgotten the connection.
    private(set) var resetTokens: [ResetToken] = []
    /// Indicates whether it is in the endpoint's list of connections to serve once the batch is read.
    var isTouched = false
    /// Indicates whether it waits for the socket to take more.
    var isBlocked = false
    private(set) var isRetired = false
    var intake = StreamIntake.open
    var portWatch = PortWatch()
    /// The address at which the other end says that it sees this one's usual socket.
    var observed: NetworkAddress?

    private let scheduled = Mutex(Scheduling())
    /// The room `service` takes scheduled streams into.
    private var taken: [StreamCore] = []

    private struct Scheduling {
        var streams: [StreamCore] = []
        var isScheduled = false
    }

    /// A stream, and which of its directions the engine still moves.
    struct Entry {
        let core: StreamCore
        /// The number of packets that had come when a stream of ours was opened.
        var packetsBefore: UInt64?
        var hasInput = true
        var hasOutput = true
        var isFinishSent = false
        /// Indicates whether a stream of ours was opened before the end of the handshake.
        var isEarly = false
        /// Indicates whether it does not keep an unused connection open.
        var isInBackground = false
    }

    /// Closes it when nobody uses it, where the endpoint wants that.
    var idleClosing: IdleClosing?
    var idleTimer: Scheduled<Void>?

    init(
        engine: consuming QUICConnection, socket: UDPSocket, remote: NetworkAddress, endpoint: EndpointDriver,
        purpose: Purpose, admission: AdmissionVerdict? = nil
    ) {
        self.admission = admission
        self.engine = engine
        localPath = LocalPath(socket: socket)
        isRelayed = RelayedAddresses.link(of: remote) != nil
        dialed = remote
        self.endpoint = endpoint
        self.loop = endpoint.loop
        phase = .handshaking(Handshake(purpose: purpose))
        target = if case .dialing(let dial) = purpose { dial.target } else { nil }
    }

    /// The socket it sends through, whose number its path has.
    var socket: UDPSocket { localPath.socket }

    /// The connection as its users see it; exists from the end of the handshake, or from a resumption, until the end.
    var connection: Connection? {
        switch phase {
        case .handshaking(let handshake): handshake.early
        case .established(let connection): connection
        case .closed, .drained: nil
        }
    }

    private var purpose: Purpose? { if case .handshaking(let handshake) = phase { handshake.purpose } else { nil } }

    var closeReason: CloseReason? {
        switch phase {
        case .handshaking, .established: nil
        case .closed(let reason), .drained(let reason): reason
        }
    }

    var isClosed: Bool { closeReason != nil }
    var isDrained: Bool { if case .drained = phase { true } else { false } }
    var hasStreams: Bool { !streams.isEmpty || handling != nil }

    // MARK: - From any thread

    /// The bytes in flight beyond which further ones are better sent many datagrams at a time: more than a few keys.
    private static let fewBytes = 4 << 10

    /// Tells the loop that `stream` has something for it.
    ///
    /// With `isUrgent` it is done here and now, if nobody else is at it and little is on the way.
    func schedule(_ stream: StreamCore, isUrgent: Bool = false) {
        let isFirst = scheduled.withLock { scheduled in
            scheduled.streams.append(stream)
            if scheduled.isScheduled { return false }
            scheduled.isScheduled = true
            return true
        }
        guard isFirst else { return }
        let isDone =
            isUrgent
            && loop.tryLock {
                guard !isDrained, engine.bytesInFlight < Self.fewBytes else { return false }
                service()
                return true
            }
        if !isDone { loop.execute { self.service() } }
    }

    /// Opens a stream here and now; nil when somebody else has the lock, or it is not possible at once.
    func openNow() -> QUICStream? {
        var stream: QUICStream?
        _ = loop.tryLock {
            guard case .open = intake, pendingOpens.isEmpty, let connection else { return false }
            stream = makeStream(of: connection)
            return true
        }
        return stream
    }

    // MARK: - With the lock

    /// Does everything that can be done now: call it after anything happened to the engine.
    func service() {
        isTouched = false
        var cores: [StreamCore] = []
        swap(&cores, &taken)
        takeScheduled(into: &cores)
        for core in cores {
            if isDrained { _ = core.takeOrders() } else { serve(core) }
        }
        if !ending.isEmpty, !cores.isEmpty || endingDeadline <= .now() { finishEnding() }
        cores.removeAll(keepingCapacity: true)
        swap(&cores, &taken)
        guard !isDrained else { return }
        if localPath.awaitsMove { moveWhenPossible() }
        // Sending and reading cause events, and events cause sending; a bound keeps one peer from occupying the loop.
        for _ in 0..<8 {
            let hadEvents = handleEvents()
            let more = transmit()
            if more {
                loop.execute { self.service() }
                break
            }
            if !hadEvents { break }
        }
        pathFinder?.carried(engine.bytesCarried)
        arm()
    }

    /// Moves the streams that wait into `cores`, which is empty; its room serves for the next ones.
    private func takeScheduled(into cores: inout [StreamCore]) {
        scheduled.withLock { scheduled in
            scheduled.isScheduled = false
            swap(&cores, &scheduled.streams)
        }
    }

    /// Has the engine finish the streams whose end waits for company.
    private func finishEnding() {
        for core in ending { drain(core) }
        ending.removeAll(keepingCapacity: true)
        endingDeadline = .distantFuture
    }

    private func arm() {
        var next = min(engine.nextDeadline ?? .distantFuture, endingDeadline)
        // What is due can be sent only when the socket takes something again, which is told.
        if isBlocked { next = max(next, Timestamp.now().advanced(nanoseconds: 5_000_000)) }
        guard !isDrained, next != .distantFuture else {
            timer?.cancel()
            timer = nil
            timerDeadline = .distantFuture
            return
        }
        // A timer that fires early finds out and sets itself anew; only an earlier deadline needs a new one.
        guard timer == nil || next < timerDeadline else { return }
        timer?.cancel()
        timerDeadline = next
        // Cheaper than a task, which has a promise; the only failure is a loop that is shutting down.
        timer = try? loop.eventLoop.scheduleCallback(at: NIODeadline(next), handler: self)
    }

    func handleScheduledCallback(eventLoop: some EventLoop) { loop.withLock { timerFired() } }

    private func timerFired() {
        timer = nil
        timerDeadline = .distantFuture
        guard !isDrained else { return }
        let now = Timestamp.now()
        if let deadline = engine.nextDeadline, deadline <= now {
            engine.timedOut(at: now)
            service()
        } else if endingDeadline <= now {
            service()
        } else {
            arm()
        }
    }

    /// Sends what the engine wants to send; true when there may be more and others should have a turn first.
    private func transmit() -> Bool {
        guard !isBlocked else { return false }
        let buffer = unsafe endpoint.sendBuffer
        for _ in 0..<16 {
            if handling != nil { fillDatagrams() }
            guard let transmit = unsafe engine.nextTransmit(into: buffer, at: .now()) else { return false }
            let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<transmit.length])
            if let copy = transmit.copy { unsafe sendCopy(bytes, transmit, along: copy) }
            let outcome = unsafe endpoint.send(bytes, transmit, of: self)
            switch outcome {
            case .sent: break
            case .blocked(let taken), .congested(let taken):
                let rest = unsafe Array(bytes[taken...])
                endpoint.blocked(self, rest: rest, transmit: transmit, outcome)
                return false
            case .unreachable(let number):
                if case .dialing(let dial) = purpose {
                    dial.unreachable(self, errno: number)
                    return false
                }
                // Lost, as far as the engine goes; but the network may have become another one.
                endpoint.sendFailed()
            case .tooLarge:
                engine.datagramRefused(size: transmit.segmentSize, at: .now())
            }
        }
        return true
    }

    /// Sends the same bytes along another path; what is not taken is lost as on any network.
    private func sendCopy(_ bytes: UnsafeRawBufferPointer, _ transmit: Transmit, along path: PathAddress) {
        var copy = transmit
        (copy.remote, copy.local, copy.ecn, copy.copy) = (path.remote, path.local, 0, nil)
        _ = unsafe endpoint.send(bytes, copy, of: self)
    }

    // MARK: - Events

    private func handleEvents() -> Bool {
        var hadEvents = false
        while let event = engine.nextEvent() {
            hadEvents = true
            switch event {
            case .connectionIDAdded(let id):
                routes.append(id)
                endpoint.addRoute(id, to: self)
            case .connectionIDRetired(let id):
                routes.removeAll { $0 == id }
                endpoint.removeRoute(id, of: self)
            case .resetTokenAdded(let token):
                resetTokens.append(token)
                endpoint.addResetToken(token, of: self)
            case .resetTokenRetired(let token):
                resetTokens.removeAll { $0 == token }
                endpoint.removeResetToken(token, of: self)
            case .connected: connected()
            case .handshakeConfirmed: pathFinder?.begin()
            case .earlyDataRejected: break
            case .datagram(let bytes):
                if handling != nil {
                    handle(bytes)
                } else if takesDatagrams {
                    idleClosing?.used(at: .now())
                    connection?.received(bytes)
                }
            case .pathValidated(let path):
                connection?.pathsChanged()
                pathEvent(.validated(path))
            case .pathChanged(let path):
                pathChanged(to: path)
                watchPort(on: path)
                updateDatagramLimit()
                connection?.pathsChanged()
                pathEvent(.changed(path))
            case .peerReflexiveAddress(let path): pathEvent(.peerReflexive(path))
            case .observedAddress(let address, let path):
                observed = endpoint.sockets.contains { $0.number == path.local.number } ? address : observed
                reportObserved()
            case .pathFailed(let path):
                if isCutOff { tryOtherAddress() }
                pathEvent(.failed(path))
            case .peerSilent(let path):
                askPort(on: path)
                handling?.handler.fellSilent()
                pathEvent(.silent(path))
            case .earlyDataPossible: earlyDataPossible()
            case .newToken, .sessionTicket: remember(event)
            case .streamOpened(let id): streamOpened(id)
            case .readable(let id):
                if let entry = streams[id] { fill(entry.core) } else { readHandled(id) }
            case .writable(let id):
                if let entry = streams[id] { drain(entry.core) } else { writeHandled(id) }
            case .streamReset(let id, let code):
                streamReset(id, code: code)
                handledStreamEnded(id)
            case .sendStopped(let id, let code):
                sendStopped(id, code: code)
                handledStreamEnded(id)
            case .streamFinished(let id):
                streams[id]?.core.outputFlushed()
                end(id, output: true)
            case .streamsAvailable:
                openPending()
                openHandled()
                pathFinder?.begin()
            case .closed(let reason): closed(CloseReason(reason), isForgotten: reason == .statelessReset)
            case .drained: drained()
            }
            if isDrained { break }
        }
        receivedAll()
        return hadEvents
    }

    private func connected() {
        // What was given up meanwhile stays so.
        guard case .handshaking(let handshake) = phase else { return }
        guard let peer = endpoint.peer(of: engine.peerCredential) else {
            // The engine called `verify` during the handshake: no other peer gets here.
            return close(code: .denied, reason: "unknown kind of key")
        }
        let connection = handshake.early ?? makeConnection(to: peer)
        guard connection.peer == peer else {
            // Rejected early data was meant for another key; `verify` refuses it before.
            return close(code: .denied, reason: "another key than the resumed session's")
        }
        phase = .established(connection)
        if admission?.isLimited == false { engine.liftRestraint() }
        takesDatagrams = admission?.isLimited != true
        updateDatagramLimit()
        if case .dialing(let dial) = handshake.purpose {
            peerAddresses = dial.addresses.filter { RelayedAddresses.link(of: $0) == nil }
        }
        // The loopback never changes.
        if !isRelayed, !engine.remote.isLoopback { localPath.source = LocalAddresses.source(to: engine.remote) }
        if let path = engine.paths.first { watchPort(on: path.address) }
        findPaths(of: connection)
        watchUse()
        // One that is set from now on knows without being told.
        let early = handling
        endpoint.established(connection, by: self, after: handshake)
        early?.handler.handshakeCompleted()
    }

    /// Changes what there is before the handshake is over; nothing happens after.
    private func changeHandshake(_ body: (inout Handshake) -> Void) {
        guard case .handshaking(var handshake) = phase else { return }
        body(&handshake)
        phase = .handshaking(handshake)
    }

    /// A session is being resumed: queries may go out, or may be answered, at once.
    private func earlyDataPossible() {
        guard case .handshaking(let handshake) = phase, handshake.early == nil,
            let peer = endpoint.peer(of: engine.peerCredential)
        else { return }
        let connection = makeConnection(to: peer)
        changeHandshake { $0.early = connection }
        switch handshake.purpose {
        case .dialing(let dial): dial.earlyDataPossible(connection)
        case .accepting:
            // The streams of whoever is no device, or an unpaired one, wait until its handshake is complete: until then
            // even its address may be somebody else's.
            guard case .device = peer, admission?.isLimited == false else { break }
            engine.liftRestraint()
            let isOffered = endpoint.offerEarly(connection)
            changeHandshake { $0.isOffered = isOffered }
        case nil: break
        }
    }

    private func makeConnection(to peer: Connection.Peer) -> Connection {
        Connection(
            driver: self, peer: peer, isDialed: isDialed, alpn: engine.negotiatedALPN ?? "",
            streamLimit: endpoint.options.maxIncomingStreams)
    }

    func closed(_ reason: CloseReason, isForgotten: Bool = false) {
        guard !isClosed else { return }
        let (connection, purpose) = (connection, purpose)
        phase = .closed(reason)
        portWatch.stop()
        idleTimer?.cancel()
        (idleClosing, idleTimer) = (nil, nil)
        onPathEvent = nil
        pathFinder?.end()
        pathFinder = nil
        if let purpose {
            endpoint.handshakeEnded(purpose)
            if case .dialing(let dial) = purpose { dial.failed(self, reason: reason) }
        }
        // First out of the table: whoever hears of the end may dial again at once.
        if let connection {
            connection.ending(reason)
            endpoint.ended(connection)
        }
        let open = streams
        streams = [:]
        (ending, endingDeadline) = ([], .distantFuture)
        let error = reason.error
        let packets = engine.statistics.packetsReceived
        for entry in open.values {
            if isForgotten, entry.packetsBefore == packets { entry.core.neverDelivered() }
            if entry.hasInput { entry.core.inputFailed(error) }
            entry.core.outputFailed(error)
        }
        for pending in pendingOpens { pending.fulfil(.failure(error)) }
        pendingOpens = []
        releaseDrainWaiters()
        connection?.ended(reason)
        let handler = handling?.handler
        handling = nil
        handler?.closed(reason)
        if let peer = connection?.peerID { endpoint.reach?.onPathChange?(peer) }
    }

    private func drained() {
        guard let closeReason else { preconditionFailure("an engine says why it ended before it is drained") }
        phase = .drained(closeReason)
        timer?.cancel()
        timer = nil
        endpoint.forget(self)
        (routes, resetTokens) = ([], [])
    }

    // MARK: - Orders from the connection

    func close(code: KithError.Code, reason: String) {
        guard !isClosed else { return }
        engine.close(code: code.wireCode, reason: reason, at: .now())
        // The engine tells the peer; whoever waits here is told in this device's words.
        closed(
            CloseReason(
                origin: .local, code: code,
                message: reason.isEmpty ? "This device closed the connection." : reason))
        service()
    }

    /// Lifts the limits on what the peer may send ahead.
    func liftLimits() {
        guard !isClosed, !isDrained else { return }
        engine.liftRestraint()
        takesDatagrams = true
        if let connection { findPaths(of: connection) }
        pathFinder?.begin()
        service()
    }

    /// Sends keep-alives each second, or as the endpoint's options say.
    func watch(closely: Bool) {
        guard !isClosed, !isDrained else { return }
        let usual = endpoint.options.keepAlive
        engine.keepAlive = closely ? min(usual ?? .seconds(1), .seconds(1)) : usual
        service()
    }

    /// The time for which the peer has owed a sign of life; zero when it owes none.
    var silence: Duration {
        engine.unheardSince.map { .nanoseconds(max(0, Timestamp.now() - $0)) } ?? .zero
    }

    /// Retires the connection in favour of another one to the same peer.
    func retire(_ isRetired: Bool) { self.isRetired = isRetired }

    func statistics(since established: Timestamp) -> ConnectionStatistics {
        let statistics = engine.statistics
        let now = Timestamp.now()
        return ConnectionStatistics(
            remoteAddress: RelayedAddresses.outside(engine.remote),
            roundTrip: .nanoseconds(statistics.smoothedRTT), minimumRoundTrip: .nanoseconds(statistics.minimumRTT),
            congestionWindow: statistics.congestionWindow, udpPayloadSize: statistics.udpPayloadSize,
            bytesSent: statistics.bytesSent, bytesReceived: statistics.bytesReceived,
            packetsSent: statistics.packetsSent, packetsReceived: statistics.packetsReceived,
            packetsLost: statistics.packetsLost, openStreams: streams.count,
            paths: engine.paths.map { ConnectionStatistics.Path($0) },
            isResumed: engine.isResumed, isEarlyDataAccepted: engine.earlyDataState == .accepted,
            cipherSuite: engine.cipherSuite?.name,
            quiet: .nanoseconds(now - (statistics.lastReceived ?? established)),
            age: .nanoseconds(now - established))
    }

    /// Notes that the dial it was made for does not need it any more.
    func leaveDial() { changeHandshake { $0.purpose = nil } }

    /// Abandons it at once, without notifying the peer.
    func abandon(_ reason: CloseReason) {
        closed(reason)
        timer?.cancel()
        timer = nil
        phase = .drained(closeReason ?? reason)
        var cores: [StreamCore] = []
        takeScheduled(into: &cores)
        for core in cores { _ = core.takeOrders() }
    }
}

extension Timestamp {
    /// The time on the clock the event loops use.
    static func now() -> Timestamp {
        Timestamp(nanoseconds: Int64(clamping: NIODeadline.now().uptimeNanoseconds))
    }
}

extension NIODeadline {
    init(_ timestamp: Timestamp) {
        self = .uptimeNanoseconds(UInt64(clamping: timestamp.nanoseconds))
    }
}
