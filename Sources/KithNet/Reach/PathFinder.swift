import KithIdentity
import KithQUIC
import KithReach
import KithWire
import NIOCore

/// Finds the paths of one connection to another device of Kith's.
///
/// Sends the other end the ways to reach this device, and receives the same, on a unidirectional stream each way; probes
/// when its ``Puncher`` says; and holds a path ready by each relay at which the other end is to be found. Which of the
/// paths is used, the engine decides. The streams of the application know nothing of it.
///
/// `@unchecked Sendable`: touched with the lock of the endpoint's loop only.
final class PathFinder: @unchecked Sendable {
    private unowned let driver: ConnectionDriver
    private let state: ReachState
    private let peer: DeviceID
    private var puncher: Puncher
    private var random = SystemRandomNumberGenerator()

    private var reader = ControlReader()
    private var incoming: StreamID?
    private var outgoing: StreamID?
    private var unsent: [UInt8] = []
    /// The message that was sent last of each kind.
    private var sent: [Int: ControlMessage] = [:]
    /// When more than this waits for a peer that does not read, the rest is sent when it has.
    private static let maxUnsent = 16 << 10
    /// The most bytes read at a time.
    private static let pieceLength = 4_096

    private var timer: Scheduled<Void>?
    private var timerDeadline = ContinuousClock.Instant.now
    /// The times at which paths by relays are asked for again, and how long is waited after that.
    private var attempts: [UInt32: (next: ContinuousClock.Instant, wait: Duration)] = [:]
    private static let firstAttemptWait = Duration.seconds(1)
    private static let longestAttemptWait = Duration.seconds(60)
    private static let heldPathWait = Duration.seconds(15)
    /// The shortest time to the next call by the timer, in nanoseconds.
    private static let shortestWait: Int64 = 5_000_000
    /// The sockets of an attempt to meet by chance: the endpoint's numbers by the puncher's.
    private var spares: [Int: UInt32] = [:]
    /// The number of the attempt.
    private var chance = 0
    /// Probe time-outs in a row along the path in use, after which the next path carries everything as well.
    private var silences = 0
    private static let patience = 2
    /// True from a change of this device's network until the path in use is known to work, or is another.
    private var isDoubted = false
    private(set) var bulk = BulkMeter()

    init(driver: ConnectionDriver, peer: DeviceID, state: ReachState) {
        self.driver = driver
        self.peer = peer
        self.state = state
        var limits = Puncher.Limits()
        limits.sockets = SpareSockets.count
        puncher = Puncher(isClient: driver.isDialed, device: peer, budget: state.punching, limits: limits)
        setOwn(at: .now)
    }

    deinit { timer?.cancel() }

    // MARK: - What happens

    /// The handshake is confirmed, or the other end allows a stream: it gets everything.
    func begin() {
        guard outgoing == nil, driver.engine.eitherEndMoves, driver.engine.mayMove else { return }
        // One of an earlier version allows none.
        guard let stream = driver.engine.openStream(.unidirectional) else { return }
        outgoing = stream
        // It is little, and what waits for it is a faster path.
        driver.engine.setPriority(stream, 64)
        var writer = ByteWriter(capacity: 1)
        writer.varint(ControlMessage.version)
        unsent = writer.bytes
        if let path = driver.engine.paths.first?.address, path.local.kind == .socket {
            puncher.isProven(path.remote, at: .now)
        }
        sendNews()
        advance()
    }

    /// A unidirectional stream of the other end has begun; only the first is read.
    func opened(_ stream: StreamID) {
        guard incoming == nil else {
            // The engine refuses only what has become pointless meanwhile.
            try? driver.engine.stopSending(stream, code: KithError.Code.invalid.wireCode)
            return
        }
        incoming = stream
        readable(stream)
    }

    /// More has come on a stream.
    func readable(_ stream: StreamID) {
        guard stream == incoming else { return }
        let scratch = unsafe UnsafeMutableRawBufferPointer(
            rebasing: driver.endpoint.readBuffer[..<Self.pieceLength])
        do {
            while true {
                let result = unsafe try driver.engine.read(stream, into: scratch)
                if result.count > 0 {
                    let piece = unsafe [UInt8](UnsafeRawBufferPointer(rebasing: scratch[..<result.count]))
                    for message in try reader.receive(piece) { handle(message) }
                }
                if result.isFinished || result.count == 0 { break }
            }
        } catch {
            // What breaks the rules is not read any further; the connection has other uses.
            try? driver.engine.stopSending(stream, code: KithError.Code.invalid.wireCode)
        }
        advance()
    }

    /// A stream of this end takes more.
    func writable(_ stream: StreamID) {
        guard stream == outgoing else { return }
        flush()
        if unsent.isEmpty { sendNews() }
    }

    private func handle(_ message: ControlMessage) {
        let now = ContinuousClock.now
        if case .relays(let home, let standby) = message {
            state.onPeerRelays?(peer, [home, standby].compactMap(\.self))
        }
        if case .candidates(var list) = message, driver.endpoint.nat64 != nil {
            for index in list.candidates.indices {
                let address = list.candidates[index].candidate.address
                list.candidates[index].candidate.address = driver.endpoint.ways(to: [address])[0]
            }
            return puncher.receive(.candidates(list), at: now)
        }
        puncher.receive(message, at: now)
    }

    /// Something has happened on the paths.
    func handle(_ event: PathEvent) {
        let now = ContinuousClock.now
        switch event {
        case .validated(let path), .changed(let path):
            silences = 0
            if case .changed = event { isDoubted = false }
            relieve(by: path)
            if path.local.kind == .socket {
                puncher.isProven(path.remote, socket: spare(path.local.number), at: now)
            } else if attempts[path.local.number] != nil {
                attempts[path.local.number] = (now + Self.heldPathWait, Self.firstAttemptWait)
            }
            if case .changed = event {
                checkDirect(at: now)
                state.onPathChange?(peer)
            }
        case .failed(let path):
            if path.local.kind == .relay, let attempt = attempts[path.local.number] {
                // Each failure waits longer than the one before; a path that had been proven begins anew.
                attempts[path.local.number] = (now + attempt.wait, attempt.wait)
            }
            checkDirect(at: now)
        case .silent(let path): isSilent(path)
        case .peerReflexive(let path):
            puncher.probed(from: path.remote, socket: spare(path.local.number), at: now)
        }
        advance()
    }

    /// Punches again when no direct path is left.
    private func checkDirect(at now: ContinuousClock.Instant) {
        if directPath == nil { puncher.isLost(at: now) }
    }

    /// A probe time-out has passed in silence: after two of them the next best path carries everything as well, and the
    /// first acknowledgement decides.
    private func isSilent(_ path: PathAddress) {
        silences.saturatingAdd(1)
        guard silences >= Self.patience else { return }
        guard let best = standby(to: path) else { return }
        driver.engine.sendOnBoth(best, at: .now())
        silences = 0
    }

    /// The best of the other paths that are proven.
    private func standby(to path: PathAddress?) -> PathAddress? {
        let others = driver.engine.paths.filter { !$0.isActive && $0.isValidated && $0.address != path }
        return others.min { ($0.rank, $0.roundTrip ?? .max) < ($1.rank, $1.roundTrip ?? .max) }?.address
    }

    /// Has a path that was just proven carry everything as well, where the one in use may lead nowhere any more.
    ///
    /// Nothing was measured there yet, so its time-outs come late; the first acknowledgement decides.
    private func relieve(by path: PathAddress) {
        guard let active = driver.engine.paths.first(where: \.isActive) else { return }
        if active.address == path {
            isDoubted = false
        } else if isDoubted || !active.isValidated {
            driver.engine.sendOnBoth(path, at: .now())
        }
    }

    /// The ways to reach this device have changed, perhaps because it is on another network.
    func infoChanged(isElsewhere: Bool) {
        let now = ContinuousClock.now
        setOwn(at: now)
        if isElsewhere {
            puncher.networkChanged(at: now)
            // The engine looks by itself whether it still works, and says when it does not.
            if let direct = directPath { puncher.isProven(direct.remote, at: now) }
            isDoubted = true
            if let best = standby(to: nil) { driver.engine.sendOnBoth(best, at: .now()) }
        }
        if sendNews() { puncher.newsHere(at: now) }
        finish()
    }

    /// The connection has carried so many bytes by now: many by a relay are a reason to look for another path.
    func carried(_ total: UInt64) {
        guard bulk.isDue(total) else { return }
        let now = ContinuousClock.now
        guard bulk.carried(total, at: now), directPath == nil,
            driver.engine.paths.contains(where: { $0.isActive && $0.address.local.kind == .relay })
        else { return }
        puncher.carriesBulk(at: now)
        arm(at: now)
    }

    /// Has the puncher know this end.
    private func setOwn(at now: ContinuousClock.Instant) {
        puncher.set(own: state.info.candidates.localAddresses)
        puncher.set(state.info.preference(for: peer), at: now)
        puncher.set(isMetered: state.info.isMetered)
        puncher.set(local: state.info.nat, at: now)
    }

    /// The direct path that works, if one does.
    private var directPath: PathAddress? {
        driver.engine.paths.first { $0.address.local.kind == .socket && $0.isValidated }?.address
    }

    /// The other end is to be found by other links.
    func linksChanged() {
        let links = state.links[peer] ?? []
        attempts = attempts.filter { links.contains($0.key) }
        finish()
    }

    /// A link has been opened, perhaps again.
    func linkOpened(_ link: UInt32) {
        guard state.links[peer]?.contains(link) == true else { return }
        attempts[link] = nil
        // What went by it meanwhile is lost, and the next probe time-out may be seconds away.
        if driver.engine.paths.first?.address.local == .relay(link) { driver.engine.networkChanged(at: .now()) }
        finish()
    }

    // MARK: - Sending

    /// Sends the other end what it does not know yet; true when candidates are among it.
    @discardableResult
    private func sendNews() -> Bool {
        guard outgoing != nil, unsent.count <= Self.maxUnsent else { return false }
        var isNew = false
        for (kind, message) in state.info.messages(for: peer).enumerated() where sent[kind] != message {
            // The next port of a NAT that counts is another after every round: that begins no other.
            if case .candidates(let list) = message, list.lasting != sent[kind]?.candidates?.lasting { isNew = true }
            sent[kind] = message
            unsent += message.encoded
        }
        flush()
        return isNew
    }

    private func flush() {
        guard let outgoing, !unsent.isEmpty else { return }
        do {
            let taken = try driver.write(unsent, from: 0, to: outgoing)
            unsent.removeFirst(taken)
        } catch {
            // The other end wants to hear no more.
            unsent = []
        }
    }

    // MARK: - Time

    /// Does what is due, from outside of the driver's own service.
    private func finish() {
        advance()
        driver.service()
    }

    /// Does what is due, and sets the timer.
    private func advance() {
        guard !driver.isClosed else { return }
        let now = ContinuousClock.now
        holdRelayPaths(at: now)
        keepToPreference()
        if let relay = driver.engine.paths.first(where: { $0.address.local.kind == .relay })?.roundTrip {
            puncher.set(relayRoundTrip: .nanoseconds(relay))
        }
        if let deadline = puncher.nextDeadline, deadline <= now { puncher.timedOut(at: now, using: &random) }
        let isNearOnly = puncher.keepsToNetwork
        let networks = isNearOnly ? OnLinkNetworks.now : OnLinkNetworks([])
        while let action = puncher.nextAction() {
            // A private address may be one of another network than this device's.
            if isNearOnly, case .probe(let address, _) = action, !networks.contains(address) { continue }
            switch action {
            case .send(let message): if unsent.count <= Self.maxUnsent { unsent += message.encoded }
            case .probe(let address, socket: 0): driver.addProbe(to: address)
            case .probe(let address, let socket): probe(address, from: socket)
            // Each is opened when it is to send: all at once would hold up everybody.
            case .openSockets: closeSpares(except: nil)
            case .closeSockets(let kept): closeSpares(except: kept)
            case .observeMapping: state.onMappingWanted?()
            }
        }
        flush()
        arm(at: now)
    }

    // MARK: - By chance

    /// The puncher's number of a socket: 0 for those that are not opened for an attempt.
    private func spare(_ number: UInt32) -> Int { spares.first { $0.value == number }?.key ?? 0 }

    /// Probes from a socket of an attempt, which is opened the first time.
    private func probe(_ address: NetworkAddress, from socket: Int) {
        if let number = spares[socket] { return driver.addProbe(to: address, from: number) }
        guard let usual = driver.endpoint.route(to: address) else { return }
        driver.endpoint.openSpare(like: usual) { [weak self, chance, endpoint = driver.endpoint] opened in
            guard let opened else { return }
            guard let self, chance == self.chance, !self.driver.isClosed else {
                return endpoint.closeSpares([opened.number])
            }
            self.spares[socket] = opened.number
            self.driver.addProbe(to: address, from: opened.number)
            self.driver.service()
        }
    }

    /// Ends an attempt; the socket that carries the path stays.
    private func closeSpares(except kept: Int?) {
        chance += 1
        if let kept, let number = spares.removeValue(forKey: kept) { driver.endpoint.keepSpare(number) }
        driver.endpoint.closeSpares(spares.values)
        spares = [:]
    }

    /// Asks for the paths by relays that are not held.
    private func holdRelayPaths(at now: ContinuousClock.Instant) {
        guard let links = state.links[peer], driver.engine.mayMove else { return }
        guard state.info.preference(for: peer) != .local else {
            attempts = [:]
            return
        }
        let paths = driver.engine.paths
        for link in links where attempts[link].map({ $0.next <= now }) ?? true {
            if paths.contains(where: { $0.address.local == .relay(link) }) {
                attempts[link] = (now + Self.heldPathWait, Self.firstAttemptWait)
                continue
            }
            let wait = attempts[link]?.wait ?? Self.firstAttemptWait
            attempts[link] = (now + wait, min(wait * 2, Self.longestAttemptWait))
            driver.addRelayPath(to: peer, by: link)
        }
    }

    /// Leaves the direct paths for one by a relay, where either end wants that, and relays where one wants none.
    private func keepToPreference() {
        guard driver.engine.mayMove else { return }
        let paths = driver.engine.paths
        if puncher.keepsToNetwork {
            guard let local = paths.first(where: { $0.isValidated && $0.address.isOfLocalNetwork }) else { return }
            if paths.contains(where: { $0.isActive && $0.address != local.address && !$0.address.isOfLocalNetwork }) {
                guard driver.engine.migrate(to: local.address, at: .now()) else { return }
            }
            for path in driver.engine.paths where !path.isActive && !path.address.isOfLocalNetwork {
                driver.engine.forgetPath(path.address)
            }
            return
        }
        guard puncher.keepsToRelay else { return }
        guard let relayed = paths.first(where: { $0.address.local.kind == .relay && $0.isValidated }) else { return }
        if paths.contains(where: { $0.isActive && $0.address.local.kind == .socket }) {
            guard driver.engine.migrate(to: relayed.address, at: .now()) else { return }
        }
        for path in driver.engine.paths where path.address.local.kind == .socket && !path.isActive {
            driver.engine.forgetPath(path.address)
        }
    }

    private func arm(at now: ContinuousClock.Instant) {
        var deadlines = attempts.values.map(\.next)
        if let deadline = puncher.nextDeadline { deadlines.append(deadline) }
        guard let next = deadlines.min() else {
            timer?.cancel()
            timer = nil
            return
        }
        guard timer == nil || next < timerDeadline else { return }
        timer?.cancel()
        timerDeadline = next
        // Whatever is overdue must not keep the loop from everything else.
        let delay = TimeAmount.nanoseconds(max(Self.shortestWait, (next - now).clampedNanoseconds))
        timer = driver.loop.scheduleTask(in: delay) { [weak self] in
            self?.timer = nil
            self?.finish()
        }
    }

    /// The connection is over.
    func end() {
        timer?.cancel()
        timer = nil
        closeSpares(except: nil)
    }
}

extension CandidateList {
    /// What holds for longer than a round.
    fileprivate var lasting: [RankedCandidate] { candidates.filter { $0.candidate.kind != .predicted } }
}

extension ControlMessage {
    fileprivate var candidates: CandidateList? { if case .candidates(let list) = self { list } else { nil } }
}

extension PathAddress {
    /// Indicates whether it leads to an address of the local network.
    fileprivate var isOfLocalNetwork: Bool { local.kind == .socket && remote.isOfLocalNetwork }
}
