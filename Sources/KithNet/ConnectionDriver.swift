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
    private enum StreamIntake {
        case open
        /// None may; these wait until there are none.
        case draining([Promise<Void>])
    }

    let endpoint: EndpointDriver
    let loop: EndpointLoop
    private var phase: Phase
    /// The local end of its path, which it sends through.
    private var localPath: LocalPath
    /// The peer it was dialed to reach; nil when the peer dialed.
    let target: Dial.Target?
    var isDialed: Bool { target != nil }
    /// Indicates whether there was no way to the peer when it was last looked for.
    private var isCutOff = false
    /// Indicates whether its path goes by a relay, and not through its socket.
    private var isRelayed: Bool
    /// Finds its paths; nil where the endpoint, or the other end, does not.
    private(set) var pathFinder: PathFinder?
    /// The stream on which the other end tells where it is, until it is known for sure who that is.
    private var unreadControl: StreamID?
    /// Is told what happens on its paths.
    var onPathEvent: (@Sendable (PathEvent) -> Void)?
    /// The datagrams that any thread wants to send.
    let outgoingDatagrams = Mutex(OutgoingDatagrams())
    /// Indicates whether datagrams of the peer are kept for a reader.
    private var takesDatagrams = true
    /// What takes everything that comes, where streams are not handed to tasks.
    var handling: Handling?
    /// The peer's addresses, as they were known when it was dialed; the next to try first.
    private var peerAddresses: [NetworkAddress] = []
    /// The address it was first heard from, or dialed at.
    let dialed: NetworkAddress
    var engine: QUICConnection
    /// The verdict on a peer that dialed.
    let admission: AdmissionVerdict?
    private var streams: [StreamID: Entry] = [:]
    private var pendingOpens: [Promise<Result<QUICStream, KithError>>] = []
    private var timer: NIOScheduledCallback?
    private var timerDeadline = Timestamp.distantFuture
    /// The streams whose answer has come: their end goes out with whatever is sent next, or at the deadline.
    private var ending: [StreamCore] = []
    private var endingDeadline = Timestamp.distantFuture
    /// The time for which an end waits, in nanoseconds.
    private static let endingDelay: Int64 = 5_000_000
    private(set) var routes: [ConnectionID] = []
    /// The tokens at a datagram's end which say that the peer has forgotten the connection.
    private(set) var resetTokens: [ResetToken] = []
    /// Indicates whether it is in the endpoint's list of connections to serve once the batch is read.
    var isTouched = false
    /// Indicates whether it waits for the socket to take more.
    var isBlocked = false
    private(set) var isRetired = false
    private var intake = StreamIntake.open
    private var portWatch = PortWatch()
    /// The address at which the other end says that it sees this one's usual socket.
    private var observed: NetworkAddress?

    private let scheduled = Mutex(Scheduling())
    /// The room `service` takes scheduled streams into.
    private var taken: [StreamCore] = []

    private struct Scheduling {
        var streams: [StreamCore] = []
        var isScheduled = false
    }

    /// A stream, and which of its directions the engine still moves.
    private struct Entry {
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
    private var idleClosing: IdleClosing?
    private var idleTimer: Scheduled<Void>?

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

    private var closeReason: CloseReason? {
        switch phase {
        case .handshaking, .established: nil
        case .closed(let reason), .drained(let reason): reason
        }
    }

    var isClosed: Bool { closeReason != nil }
    private var isDrained: Bool { if case .drained = phase { true } else { false } }
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
        let next = min(engine.nextDeadline ?? .distantFuture, endingDeadline)
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

    private func closed(_ reason: CloseReason, isForgotten: Bool = false) {
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

    // MARK: - Paths

    private func pathEvent(_ event: PathEvent) {
        onPathEvent?(event)
        pathFinder?.handle(event)
    }

    /// Begins to look for paths to a device, where both ends do; not yet to one that is held to little.
    private func findPaths(of connection: Connection) {
        guard pathFinder == nil, takesDatagrams, engine.eitherEndMoves, let state = endpoint.reach,
            let peer = connection.peerID
        else { return }
        let finder = PathFinder(driver: self, peer: peer, state: state)
        pathFinder = finder
        if let stream = unreadControl { finder.opened(stream) }
        unreadControl = nil
        reportObserved()
    }

    /// Passes on where a device sees this one, once that device is known.
    private func reportObserved() {
        guard pathFinder != nil, let observed, let peer = connection?.peerID else { return }
        endpoint.reach?.onObservedAddress?(peer, observed)
    }

    /// The other end has opened a stream to say where it is.
    private func controlOpened(_ id: StreamID) {
        if let pathFinder { return pathFinder.opened(id) }
        // Until it is known who it is, its bytes wait within the limits of the stream.
        unreadControl = unreadControl ?? id
    }

    // MARK: - Streams

    private func streamOpened(_ id: StreamID) {
        guard let connection else { return }
        if handling != nil { return openedHandled(id) }
        guard id.direction == .bidirectional else { return controlOpened(id) }
        let core = StreamCore(id: id, driver: self)
        let stream = QUICStream(core, connection: connection, isEarly: !engine.isConnected)
        streams[id] = Entry(core: core)
        idleClosing?.began()
        // Letting go of a stream nobody can take aborts it.
        if isDraining || !connection.offer(stream) { stream.abort(.closed) }
    }

    func open(_ promise: Promise<Result<QUICStream, KithError>>) {
        if let closeReason {
            promise.fulfil(.failure(closeReason.error))
        } else if isDraining {
            promise.fulfil(.failure(KithError(.closed, "The connection is being closed.")))
        } else {
            pendingOpens.removeAll { $0.isFulfilled }
            pendingOpens.append(promise)
            openPending()
            service()
        }
    }

    private func openPending() {
        guard let connection else { return }
        while let next = pendingOpens.first {
            if next.isFulfilled {
                pendingOpens.removeFirst()
                continue
            }
            guard let stream = makeStream(of: connection) else { return }
            pendingOpens.removeFirst()
            // When the caller was cancelled meanwhile, the stream is let go here and so aborted.
            next.fulfil(.success(stream))
        }
    }

    /// A stream that this end opens; nil while the peer allows no more.
    private func makeStream(of connection: Connection) -> QUICStream? {
        guard let id = engine.openStream(.bidirectional) else { return nil }
        let core = StreamCore(id: id, driver: self)
        streams[id] = Entry(
            core: core, packetsBefore: engine.statistics.packetsReceived, isEarly: !engine.isConnected)
        idleClosing?.began()
        return QUICStream(core, connection: connection)
    }

    /// Takes the reason the other end gives for breaking off a stream of ours, before it does.
    func explain(_ id: StreamID, _ error: KithError) {
        guard id.isClientInitiated == isDialed, let entry = streams[id] else { return }
        entry.core.explain(error)
    }

    /// Follows the orders for one stream and moves its bytes.
    private func serve(_ core: StreamCore) {
        let orders = core.takeOrders()
        guard let entry = streams[core.id], entry.core === core else { return }
        // The engine refuses only what has become pointless meanwhile: a stream that ended on its own.
        if let urgency = orders.priority { engine.setPriority(core.id, urgency) }
        if let code = orders.stopReading {
            if entry.hasInput { try? engine.stopSending(core.id, code: code) }
            end(core.id, input: true)
        }
        if let code = orders.reset {
            if entry.hasOutput { try? engine.reset(core.id, code: code) }
            end(core.id, output: true)
            return
        }
        drain(core)
        fill(core)
    }

    /// Moves bytes from the outbox to the engine, until it takes no more.
    private func drain(_ core: StreamCore) {
        guard let entry = streams[core.id], entry.hasOutput, !entry.isFinishSent else { return }
        while true {
            switch core.nextOutput() {
            case .none: return
            case .finish:
                streams[core.id]?.isFinishSent = true
                do {
                    try engine.finish(core.id)
                } catch {
                    outputEnded(core, error)
                }
                return
            case .bytes(let chunk, let offset):
                do throws(StreamError) {
                    let taken = try write(chunk, from: offset, to: core.id)
                    if taken > 0 { core.outputTaken(taken) }
                    if taken < chunk.count - offset { return }
                } catch {
                    return outputEnded(core, error)
                }
            }
        }
    }

    func write(_ chunk: [UInt8], from offset: Int, to id: StreamID) throws(StreamError) -> Int {
        let result = unsafe chunk.withUnsafeBytes { bytes -> Result<Int, StreamError> in
            do throws(StreamError) {
                return .success(unsafe try engine.write(UnsafeRawBufferPointer(rebasing: bytes[offset...]), to: id))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func outputEnded(_ core: StreamCore, _ error: StreamError) {
        if case .stopped(let code) = error { return sendStopped(core.id, code: code) }
        core.outputFailed(KithError(.closed, "The other device takes no more of it."))
        end(core.id, output: true)
    }

    /// Moves bytes from the engine to the inbox, until there are none or it is full.
    private func fill(_ core: StreamCore) {
        guard let entry = streams[core.id], entry.hasInput else { return }
        let scratch = unsafe endpoint.readBuffer
        if core.awaitsInputEnd {
            let result = unsafe try? engine.read(core.id, into: UnsafeMutableRawBufferPointer(rebasing: scratch[..<1]))
            if let result, result.count == 0, !result.isFinished { return }
            if result?.isFinished == false {
                // The engine refuses only what has become pointless meanwhile.
                try? engine.stopSending(core.id, code: KithError.Code.cancelled.wireCode)
            }
            return end(core.id, input: true)
        }
        while true {
            let room = core.roomForInput()
            guard room > 0 else { return }
            do {
                let target = unsafe UnsafeMutableRawBufferPointer(rebasing: scratch[..<min(room, scratch.count)])
                let result = unsafe try engine.read(core.id, into: target)
                if result.count > 0 || result.isFinished {
                    let finishes = unsafe core.received(
                        UnsafeRawBufferPointer(rebasing: target[..<result.count]), isFinished: result.isFinished)
                    if finishes {
                        ending.append(core)
                        if endingDeadline == .distantFuture {
                            endingDeadline = .now().advanced(nanoseconds: Self.endingDelay)
                        }
                    }
                }
                if result.isFinished { return end(core.id, input: true) }
                if result.count == 0 { return }
            } catch {
                switch error {
                case .reset(let code): streamReset(core.id, code: code)
                case .unknown, .wrongDirection, .finished, .stopped:
                    core.inputFailed(KithError(.closed, "No more can be read from the other device."))
                    end(core.id, input: true)
                }
                return
            }
        }
    }

    private func streamReset(_ id: StreamID, code: UInt64) {
        guard let entry = streams[id], entry.hasInput else { return }
        // Early data was rejected, and there is no place for the stream any more: the peer has not seen it.
        if entry.isEarly, code == 0, engine.earlyDataState == .rejected { entry.core.neverDelivered() }
        entry.core.inputFailed(KithError(KithError.Code(wireCode: code), "The other device broke it off."))
        end(id, input: true)
    }

    private func sendStopped(_ id: StreamID, code: UInt64) {
        guard let entry = streams[id], entry.hasOutput else { return }
        entry.core.outputFailed(
            KithError(
                KithError.Code(wireCode: code), "The other device stopped reading.", cause: ReadingStopped()))
        end(id, output: true)
    }

    /// Notes that directions of a stream are over, and forgets it when both are.
    private func end(_ id: StreamID, input: Bool = false, output: Bool = false) {
        guard var entry = streams[id] else { return }
        if input { entry.hasInput = false }
        if output { entry.hasOutput = false }
        guard !entry.hasInput, !entry.hasOutput else {
            streams[id] = entry
            return
        }
        streams[id] = nil
        if !entry.isInBackground { idleClosing?.ended(at: .now()) }
        guard streams.isEmpty else { return }
        releaseDrainWaiters()
        if isRetired { endpoint.retirementIsDue(self) }
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

    /// Ends the connection, because the machine at the other end says that nothing listens there.
    func portIsClosed(_ closed: PortClosed) {
        guard !isClosed else { return }
        // Nobody is there to be told, and the machine answers only a few datagrams a second.
        engine.abandon(code: KithError.Code.unreachable.wireCode, at: .now())
        endpoint.noteClosed(closed.address)
        self.closed(CloseReason(closed), isForgotten: true)
        service()
    }

    /// Asks the machine at the other end of a path, while the peer is surely there: see ``PortWatch``.
    private func watchPort(on path: PathAddress) {
        guard path.local.kind == .socket, endpoint.options.asksMachines else { return portWatch.stop() }
        // Other programs may take offence at the byte.
        guard connection?.peerID != nil else { return }
        portWatch.begin(on: path, loop: loop) { [weak self] count in self?.portRefused(count, on: path) }
    }

    /// Nothing has come from the peer for a probe time-out, or more.
    ///
    /// A peer that is there answers the probes before the machine has refused two bytes, one after the other.
    private func askPort(on path: PathAddress) {
        guard !isClosed, !isCutOff, path.local.kind == .socket, endpoint.options.asksMachines else { return }
        portWatch.ask(on: path, packets: engine.statistics.packetsReceived, loop: loop, at: .now()) {
            [weak self] count in self?.portRefused(count, on: path)
        }
    }

    private func portRefused(_ count: Int, on path: PathAddress) {
        let isGone = portWatch.refused(count, packets: engine.statistics.packetsReceived)
        if isGone, !isCutOff, engine.paths.first?.address == path { portIsClosed(PortClosed(address: path.remote)) }
    }

    // MARK: - Use

    /// Begins to watch whether anybody uses it; streams may be open already.
    private func watchUse() {
        guard let limit = endpoint.options.idleClosing else { return }
        var closing = IdleClosing(after: limit, at: .now())
        for entry in streams.values where !entry.isInBackground { closing.began() }
        idleClosing = closing
        checkUse()
    }

    private func checkUse() {
        let now = Timestamp.now()
        switch idleClosing?.next(at: now) {
        case .wait(let until):
            idleTimer = loop.scheduleTask(in: .nanoseconds(max(0, until - now))) { [weak self] in self?.checkUse() }
        // Whoever wants something of the other end connects anew.
        case .close: close(code: .closed, reason: "Nobody used the connection.")
        case nil: break
        }
    }

    /// Notes that a datagram goes out.
    func wasUsed() { idleClosing?.used(at: .now()) }

    /// Notes that a stream does not keep the connection open.
    func isInBackground(_ id: StreamID) {
        guard let entry = streams[id], !entry.isInBackground else { return }
        streams[id]?.isInBackground = true
        idleClosing?.ended(at: .now())
    }

    /// Takes no more streams and calls back once there are none.
    func drain(_ done: Promise<Void>) {
        for pending in pendingOpens {
            pending.fulfil(.failure(KithError(.closed, "The connection is being closed.")))
        }
        pendingOpens = []
        var waiters = if case .draining(let waiters) = intake { waiters } else { [Promise<Void>]() }
        waiters.append(done)
        intake = .draining(waiters)
        if streams.isEmpty || isClosed { releaseDrainWaiters() }
    }

    private var isDraining: Bool { if case .draining = intake { true } else { false } }

    private func releaseDrainWaiters() {
        guard case .draining(let waiters) = intake else { return }
        intake = .draining([])
        for waiter in waiters { waiter.fulfil(()) }
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

    /// Retires the connection in favour of another one to the same peer.
    func retire(_ isRetired: Bool) { self.isRetired = isRetired }

    // MARK: - The local network

    /// The link as which the engine knows a socket: another one whenever another address stands behind it.
    func link(of socket: UInt32) -> LocalLink { localPath.link(of: socket) }

    /// The link as which the engine knows what a datagram came by.
    @inline(__always)
    func link(of link: LocalLink) -> LocalLink { link.kind == .relay ? link : localPath.link(of: link.number) }

    /// Returns whether what the engine sends by `link` leaves by the connection's own socket.
    func isOwn(_ link: LocalLink) -> Bool { localPath.isOwn(link) }

    /// Looks whether the way to the peer has changed, and goes the new one.
    ///
    /// `isNews` says that something of the network surely has.
    func networkChanged(isNews: Bool, interfaces: [NetworkAddress]) {
        guard !isClosed, !isDrained else { return }
        // The way by a relay is the relay's to look after.
        guard !isRelayed, isDialed || engine.mayMove else {
            if isNews { resume() }
            return
        }
        guard let found = LocalAddresses.source(to: engine.remote) else {
            isCutOff = true
            tryOtherAddress()
            return service()
        }
        let wasCutOff = isCutOff
        isCutOff = false
        if socket.address.isUnspecified {
            if localPath.sourceChanged(to: found) { return resume(on: localPath) }
        } else if !socket.address.isLoopback, !interfaces.contains(where: { $0.hasSameIP(as: socket.address) }) {
            // What the socket is bound to is gone for now.
            localPath.source = found
            return endpoint.openSocket(like: socket, at: found) { [weak self] in
                if let socket = $0 { self?.move(to: socket, isForced: true) }
            }
        }
        if isNews || wasCutOff { resume() }
    }

    /// Asks at the next of the peer's other addresses that there is a way to, and goes on there once it has answered.
    ///
    /// So a connection outlives the address family it began with.
    private func tryOtherAddress() {
        for _ in peerAddresses.indices {
            let other = peerAddresses.removeFirst()
            peerAddresses.append(other)
            guard other != engine.remote, LocalAddresses.source(to: other) != nil,
                let socket = endpoint.route(to: other)
            else { continue }
            if engine.migrate(to: PathAddress(remote: other, local: link(of: socket.number)), at: .now()) { return }
        }
    }

    /// The engine is on another path: where that is one of the other address family, so is the connection's own socket.
    ///
    /// Where it goes by a relay the connection has none, but keeps the last for the next direct path.
    private func pathChanged(to address: PathAddress) {
        let wasRelayed = isRelayed
        isRelayed = address.local.kind == .relay
        guard !isRelayed else {
            isCutOff = false
            // What others are told is the address of the usual one.
            if let usual = endpoint.sockets.first(where: { $0.address.isIPv6 == socket.address.isIPv6 }),
                usual !== socket, usual.address.hasSameIP(as: socket.address)
            {
                localPath = LocalPath(socket: usual)
            }
            return
        }
        if wasRelayed, address.local.number == socket.number {
            localPath.source = address.remote.isLoopback ? nil : LocalAddresses.source(to: address.remote)
        }
        let isOther = wasRelayed && address.local.number != socket.number
        guard isOther || address.remote.isIPv6 != socket.address.isIPv6,
            let other = endpoint.socket(address.local.number),
            other.address.isIPv6 == address.remote.isIPv6
        else { return }
        localPath = LocalPath(socket: other, source: LocalAddresses.source(to: address.remote))
        isCutOff = false
    }

    /// Goes on through another socket.
    ///
    /// Before the engine may move it stays where it is, and moves when it may (RFC 9000 §9): while the handshake is not
    /// confirmed, or the peer has given no id to spare. One that `isForced`, its socket being of no use any more, goes
    /// at once.
    func move(to other: UDPSocket, isForced: Bool = false) {
        guard !isClosed, !isDrained, other.number != socket.number else { return }
        if isRelayed {
            localPath = LocalPath(socket: other)
            return
        }
        guard other.address.isIPv6 == engine.remote.isIPv6 else { return }
        guard
            isForced || engine.migrate(to: PathAddress(remote: engine.remote, local: .socket(other.number)), at: .now())
        else {
            // The first of several does.
            if localPath.awaitedSocket.flatMap(endpoint.socket) == nil { localPath.awaitedSocket = other.number }
            return
        }
        resume(on: LocalPath(socket: other, source: localPath.source))
    }

    /// Goes on along another path from here, whatever path the engine is on.
    private func resume(on path: LocalPath) {
        localPath = path
        localPath.pendingPath = nil
        if !engine.migrate(to: PathAddress(remote: engine.remote, local: localPath.link), at: .now()) {
            localPath.pendingPath = engine.paths[0].address.local
            engine.networkChanged(at: .now())
        }
        service()
    }

    /// Makes a move that was not possible before.
    private func moveWhenPossible() {
        guard !isRelayed, engine.mayMove, !isClosed else { return }
        if let number = localPath.awaitedSocket {
            localPath.awaitedSocket = nil
            if let other = endpoint.socket(number) { move(to: other) }
        } else if engine.migrate(to: PathAddress(remote: engine.remote, local: localPath.link), at: .now()) {
            localPath.pendingPath = nil
        }
    }

    /// A socket that was opened for a while has been closed: no path goes by it any more.
    func spareIsGone(_ number: UInt32) {
        guard !isClosed, !isDrained else { return }
        engine.linkIsGone(link(of: number), at: .now())
        guard socket.number == number else { return }
        if let usual = endpoint.sockets.first(where: { $0.address.isIPv6 == socket.address.isIPv6 }) {
            localPath = LocalPath(socket: usual)
        }
        service()
    }

    /// A socket has been closed: what still went by it, as where the peer led the connection back, goes by its own.
    func socketIsGone(_ number: UInt32) {
        guard !isRelayed, !isClosed, !isDrained, number != socket.number, localPath.pendingPath == nil,
            engine.paths[0].address.local.number == number
        else { return }
        resume(on: localPath)
    }

    private func resume() {
        engine.networkChanged(at: .now())
        service()
    }

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
