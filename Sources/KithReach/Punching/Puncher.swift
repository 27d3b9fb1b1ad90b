package import KithIdentity
package import KithWire

/// Opens a direct path to another device through the NATs of both.
///
/// A value: the driver feeds what the control stream, the network and the clock say, drains ``nextAction()`` after each
/// call, and calls ``timedOut(at:using:)`` at ``nextDeadline``. Both ends run one.
///
///     idle ──candidates, news──▶ waiting ──half a relay round trip──▶ round ──proven──▶ direct
///                                   ▲                                   │ 1 s            │ lost
///                                   └──────── at 2, 5, 15, 60 s ────────┴────────────────┘
///
/// A round probes each candidate of the other end at 0, 20, 50, 95 … ms, nine times, while the other end does the same,
/// so that each NAT sees its own side send first. The next ports of a NAT that counts are tried before all others. Where
/// one end's ports are random and the other's NAT is easy, an attempt by chance follows the first round: the hard side
/// sends from many sockets, the easy side to many ports, and they meet as birthdays do.
///
/// What a peer can make a device send is bounded by ``Limits`` and ``PunchBudget``: it names the addresses, so they may be
/// a victim's.
package struct Puncher: Sendable {
    /// How much is sent in a round or an attempt.
    package struct Limits: Hashable, Sendable {
        /// Addresses that the other end announced and are probed in a round.
        package var addresses = 32
        /// Probes to each.
        package var tries = 9
        /// Probes of a round, whatever it is made of: 32 × 9, of at most 64 bytes.
        package var probesPerRound = 288
        /// The first wait between two probes of an address; each next is 1.5 times as long.
        package var firstSpacing = Duration.milliseconds(20)
        /// When rounds begin again, after the news that began the series; then each minute.
        package var repetitions: [Duration] = [.seconds(2), .seconds(5), .seconds(15), .seconds(60)]
        /// The pause between two rounds while much goes through the relay.
        package var bulkPause = Duration.seconds(15)
        /// The next ports of a NAT that counts that are tried.
        package var predictedPorts = 32
        /// Ports of a block that are tried in a round.
        package var blockPorts = 128
        /// Sockets that the hard side opens in an attempt by chance; 0 for no attempts.
        package var sockets = 256
        /// Probes that either side sends in an attempt.
        package var attemptProbes = 1_024
        /// Probes a second in an attempt: a connection sends 500 at most, of which some are answers.
        package var attemptRate = 400
        /// How long the hard side keeps its sockets: for all probes of the other end, and a round trip.
        package var attemptLength = Duration.seconds(4)
        /// Addresses nobody announced that a round takes up because a probe came from them.
        package var peerReflexive = 16

        /// The documented values.
        package init() {}
    }

    /// What the driver does next.
    package enum Action: Hashable, Sendable {
        /// Send a message on the control stream.
        case send(ControlMessage)
        /// Send a probe to an address: a PATH_CHALLENGE in a packet of at most 64 bytes, from the socket of that
        /// number. 0 is the one that QUIC uses.
        case probe(NetworkAddress, socket: Int)
        /// Open so many sockets, numbered from 1, for the attempt; what they receive goes to the connection too.
        case openSockets(Int)
        /// Close them, except the one that carries the path, if one does.
        case closeSockets(except: Int?)
        /// Find out which outside port a new mapping gets, by a socket opened for it, and announce candidates anew.
        case observeMapping
    }

    private struct Target {
        let address: NetworkAddress
        let socket: Int
        var triesLeft: Int
        var wait: Duration
        var next: ContinuousClock.Instant
    }

    private struct Attempt {
        let plan: PunchRound.Plan
        let end: ContinuousClock.Instant
        /// What is probed, from the last to the first: sockets' numbers or ports; `nil` before ports are drawn.
        var left: [UInt16]?
        let target: NetworkAddress
        var next: ContinuousClock.Instant
    }

    private let limits: Limits
    private let isClient: Bool
    private let device: DeviceID
    private let budget: PunchBudget
    private var local = NATKind()
    private var remote = NATKind()
    private var preference = ReachPreference.auto
    private var peerPreference = ReachPreference.auto
    private var isMetered = false
    private var ownAddresses: [NetworkAddress] = []
    private var peer = PeerCandidates()
    private var relayRoundTrip = Duration.milliseconds(100)

    /// The number of the round, the same at both ends.
    private var number: UInt32 = 0
    /// Rounds begun since the last news.
    private var stage = 0
    private var seriesStart: ContinuousClock.Instant?
    private var nextRound: ContinuousClock.Instant?
    private var lastRound: ContinuousClock.Instant?
    private var pendingStart: ContinuousClock.Instant?
    private var targets: [Target] = []
    private var roundEnd: ContinuousClock.Instant?
    private var probesLeft = 0
    private var announcedLeft = 0
    private var reflexiveLeft = 0
    private var attempt: Attempt?
    /// Attempts since the last news, none of which has led to a path: each doubles the time to the next, up to 16 times,
    /// except for one that the other end announces.
    private var attemptsInVain = 0
    private var peerPlan = PunchRound.Plan.ordinary
    private var proven: (address: NetworkAddress, socket: Int)?
    private var actions: [Action] = []

    /// Starts for a connection to a device, at the end that dialed it or the other, within what the device may have.
    package init(isClient: Bool, device: DeviceID, budget: PunchBudget, limits: Limits = Limits()) {
        (self.isClient, self.device, self.budget, self.limits) = (isClient, device, budget, limits)
    }

    // MARK: - What is known

    /// The address of the direct path, once one is proven.
    package var direct: NetworkAddress? { proven?.address }

    /// Sets the NAT in front of this device, from its network report.
    package mutating func set(local kind: NATKind, at now: ContinuousClock.Instant) {
        guard kind != local else { return }
        local = kind
        news(at: now)
    }

    /// Sets the addresses of this device: none is probed, and they tell which networks are its own.
    package mutating func set(own addresses: [NetworkAddress]) { ownAddresses = addresses }

    /// Sets the preference for this peer; `relay` ends all rounds.
    package mutating func set(_ preference: ReachPreference, at now: ContinuousClock.Instant) {
        guard preference != self.preference else { return }
        self.preference = preference
        preferenceChanged(at: now)
    }

    /// Indicates whether one of the two ends wants to be reached through a relay alone.
    package var keepsToRelay: Bool { preference == .relay || peerPreference == .relay }

    /// Indicates whether one of the two ends wants to be reached on the local network alone.
    package var keepsToNetwork: Bool { preference == .local || peerPreference == .local }

    /// Sets whether the network is paid for by volume, or the battery low: no attempts by chance then.
    package mutating func set(isMetered: Bool) { self.isMetered = isMetered }

    /// Sets the round trip through the relay, half of which a round waits.
    package mutating func set(relayRoundTrip: Duration) {
        self.relayRoundTrip = min(max(relayRoundTrip, .zero), .seconds(2))
    }

    /// Notes that this device has told other candidates than before.
    package mutating func newsHere(at now: ContinuousClock.Instant) { news(at: now) }

    /// Notes that much goes through the relay: the next round of the series comes earlier.
    ///
    /// It is no news, so attempts by chance do not become more frequent.
    package mutating func carriesBulk(at now: ContinuousClock.Instant) {
        guard isEnabled, proven == nil, roundEnd == nil, pendingStart == nil, let next = nextRound else { return }
        let earliest = max(now + budget.wait(of: device, at: now), lastRound.map { $0 + limits.bulkPause } ?? now)
        nextRound = min(next, earliest)
    }

    /// Takes a control message in.
    package mutating func receive(_ message: ControlMessage, at now: ContinuousClock.Instant) {
        switch message {
        case .candidates(let list):
            let before = peer.list
            guard peer.receive(list) else { return }
            // The next port of a NAT that counts changes with every round: that begins no other.
            func lasting(_ list: CandidateList?) -> [Candidate] {
                list?.candidates.map(\.candidate).filter { $0.kind != .predicted } ?? []
            }
            guard before?.generation != list.generation || lasting(before) != lasting(peer.list) else { return }
            news(at: now)
        case .nat(let kind):
            guard kind != remote else { return }
            remote = kind
            news(at: now)
        case .preference(let preference):
            guard preference != peerPreference else { return }
            peerPreference = preference
            preferenceChanged(at: now)
        case .round(let round):
            guard isEnabled, proven == nil else { return }
            (peerPlan, number) = (round.plan, max(number, round.number))
            let start = now + .milliseconds(Int(min(round.startDelay, 2_000)))
            // One that began a moment ago, or is about to, is the same one.
            if let roundEnd, roundEnd - now > roundLength / 2 { return beginAttempt(at: now) }
            pendingStart = min(pendingStart ?? start, start)
            if let next = nextRound, next - now < .seconds(1) { scheduleNext(at: now) }
        case .relays: break
        }
    }

    /// Notes that a probe came from an address, at one of this device's sockets; the connection has answered it.
    package mutating func probed(from address: NetworkAddress, socket: Int = 0, at now: ContinuousClock.Instant) {
        guard isEnabled, proven == nil, CandidateTable.isReachable(address), isAllowed(address), reflexiveLeft > 0,
            roundEnd != nil || attempt != nil,
            !targets.contains(where: { $0.address == address && $0.socket == socket })
        else { return }
        reflexiveLeft -= 1
        // With the answer to the probe three datagrams for one: no more than an address that is not proven may be sent.
        add(address, socket: socket, tries: 2, at: now)
    }

    /// Notes that a probe was answered: the path works both ways.
    ///
    /// The round goes on to its end for the other announced candidates, among which may be a better path.
    package mutating func isProven(_ address: NetworkAddress, socket: Int = 0, at now: ContinuousClock.Instant) {
        guard proven == nil else { return }
        proven = (address, socket)
        (nextRound, pendingStart) = (nil, nil)
        targets.removeAll { $0.socket != 0 }
        endAttempt()
    }

    /// Notes that the direct path no longer works.
    package mutating func isLost(at now: ContinuousClock.Instant) {
        guard proven != nil else { return }
        proven = nil
        news(at: now)
    }

    /// Notes that this device or the other is on another network: everything begins anew.
    package mutating func networkChanged(at now: ContinuousClock.Instant) {
        proven = nil
        targets = []
        roundEnd = nil
        endAttempt()
        news(at: now)
    }

    // MARK: - Time

    /// The next thing to do; `nil` for nothing until something happens.
    package mutating func nextAction() -> Action? { actions.isEmpty ? nil : actions.removeFirst() }

    /// The time at which ``timedOut(at:using:)`` is to be called; `nil` for never.
    package var nextDeadline: ContinuousClock.Instant? {
        var times = [nextRound, pendingStart].compactMap(\.self) + targets.map(\.next)
        if let roundEnd, targets.isEmpty { times.append(roundEnd) }
        if let attempt { times.append(attempt.left == [] ? attempt.end : min(attempt.next, attempt.end)) }
        return times.min()
    }

    /// Does what is due.
    package mutating func timedOut(
        at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        if let nextRound, nextRound <= now { announce(at: now) }
        if let pendingStart, pendingStart <= now { begin(at: now) }
        probeTargets(at: now)
        advanceAttempt(at: now, using: &random)
        if let roundEnd, roundEnd <= now, targets.isEmpty {
            self.roundEnd = nil
            beginAttempt(at: now)
            // By address, the port towards the other end stays the one that was told.
            if proven == nil, local.mapping == .addressAndPortDependent, local.isPredictable {
                actions.append(.observeMapping)
            }
        }
    }

    // MARK: - Rounds

    private var isEnabled: Bool { preference != .relay && peerPreference != .relay }

    /// How long a round takes: until its last probes have been sent, and some.
    private var roundLength: Duration { .seconds(1) }

    private mutating func news(at now: ContinuousClock.Instant) {
        guard isEnabled, proven == nil, peer.list?.candidates.isEmpty == false else { return }
        (stage, seriesStart, attemptsInVain) = (0, now, 0)
        if roundEnd != nil {
            // The other end is probing too: what is new joins the round.
            addAnnounced(at: now)
            scheduleNext(at: now)
        } else if pendingStart == nil {
            nextRound = now + budget.wait(of: device, at: now)
        }
    }

    private mutating func preferenceChanged(at now: ContinuousClock.Instant) {
        if isEnabled { return news(at: now) }
        (nextRound, pendingStart, roundEnd, proven) = (nil, nil, nil, nil)
        targets = []
        endAttempt()
    }

    private mutating func announce(at now: ContinuousClock.Instant) {
        number = number.saturatingAdding(1)
        actions.append(.send(.round(PunchRound(number: number, plan: plan(at: now)))))
        pendingStart = pendingStart ?? now + relayRoundTrip / 2
        scheduleNext(at: now)
    }

    /// Sets when the next round of the series begins.
    private mutating func scheduleNext(at now: ContinuousClock.Instant) {
        let start = seriesStart ?? now
        seriesStart = start
        let minute = limits.repetitions.last ?? .seconds(60)
        let planned = stage < limits.repetitions.count ? start + limits.repetitions[stage] : now + minute
        stage = min(stage + 1, limits.repetitions.count)
        nextRound = max(planned, now + .seconds(1))
    }

    private mutating func begin(at now: ContinuousClock.Instant) {
        pendingStart = nil
        // A peer that asks for more rounds than there may be gets them later.
        guard budget.takeRound(of: device, at: now) else {
            nextRound = now + budget.wait(of: device, at: now)
            return
        }
        targets = []
        probesLeft = limits.probesPerRound
        reflexiveLeft = limits.peerReflexive
        roundEnd = now + roundLength
        lastRound = now
        addPredicted(at: now)
        // Predicted ports take a part of the round: half of it is left for addresses that are known.
        announcedLeft = targets.isEmpty ? limits.addresses : limits.addresses / 2
        addAnnounced(at: now)
        if nextRound == nil { scheduleNext(at: now) }
        beginAttempt(at: now)
    }

    private mutating func addAnnounced(at now: ContinuousClock.Instant) {
        var addresses = peer.list?.candidates.map(\.candidate).filter { $0.kind != .predicted }.map(\.address) ?? []
        if local.isHard, local.isPredictable {
            // The first probe takes the port that was told: it goes where the other end expects it from.
            addresses = addresses.filter { !$0.isPrivate } + addresses.filter(\.isPrivate)
        }
        for address in addresses where announcedLeft > 0 {
            guard isAllowed(address), !targets.contains(where: { $0.address == address }) else { continue }
            add(address, socket: 0, tries: limits.tries, at: now)
            announcedLeft -= 1
        }
    }

    private mutating func add(_ address: NetworkAddress, socket: Int, tries: Int, at now: ContinuousClock.Instant) {
        let tries = min(tries, probesLeft)
        guard tries > 0 else { return }
        probesLeft -= tries
        targets.append(
            Target(address: address, socket: socket, triesLeft: tries, wait: limits.firstSpacing, next: now))
    }

    private mutating func addPredicted(at now: ContinuousClock.Instant) {
        guard remote.isHard, let base = predicted else { return }
        let ports: [UInt16]
        switch remote.ports {
        case .sequential(let step):
            ports = sequentialPorts(from: base.port, step: Int(step))
        case .block(let size):
            ports = blockPorts(around: base.port, size: Int(size))
        case .unknown, .preserved, .random:
            return
        }
        let tries = max(1, min(limits.tries, limits.probesPerRound / 2 / max(1, ports.count)))
        for port in ports {
            var address = base
            address.port = port
            guard CandidateTable.isReachable(address), isAllowed(address) else { continue }
            add(address, socket: 0, tries: tries, at: now)
        }
    }

    /// The next port of the other end's NAT, as it says.
    private var predicted: NetworkAddress? {
        peer.list?.candidates.first { $0.candidate.kind == .predicted }?.candidate.address
    }

    /// The next ports in the order in which they are probed.
    ///
    /// Where both NATs count, each probe takes a port of this side's: probe and counter-probe meet when both ends go up
    /// and nobody else took a port between; when one end goes down they meet in the middle, whatever was taken, if only
    /// the sum has the right parity. So the ends go the same way in one round, and opposite ways in the next two.
    private func sequentialPorts(from base: UInt16, step: Int) -> [UInt16] {
        let isOpposite = number % 3 != 1
        let count = number % 3 == 2 ? limits.predictedPorts - 1 : limits.predictedPorts
        let ports = (0..<count).compactMap { place -> UInt16? in
            let port = Int(base) + place * step
            return (1_024...65_535).contains(port) ? UInt16(port) : nil
        }
        return isOpposite && local.isHard && !isClient ? ports.reversed() : ports
    }

    private func blockPorts(around base: UInt16, size: Int) -> [UInt16] {
        let first = Int(base) / size * size
        let count = min(size, limits.blockPorts)
        let offset = Int(number) * count
        return (0..<count).map { UInt16(clamping: first + (offset + $0) % size) }
    }

    private mutating func probeTargets(at now: ContinuousClock.Instant) {
        for index in targets.indices where targets[index].next <= now {
            probe(targets[index].address, socket: targets[index].socket, at: now)
            targets[index].triesLeft -= 1
            targets[index].next = now + targets[index].wait
            targets[index].wait = targets[index].wait * 1.5
        }
        targets.removeAll { $0.triesLeft == 0 }
    }

    /// Probes an address, unless others have had it probed as often as it may be.
    private mutating func probe(_ address: NetworkAddress, socket: Int, at now: ContinuousClock.Instant) {
        if budget.takeProbe(to: address, at: now) { actions.append(.probe(address, socket: socket)) }
    }

    /// Tells whether an address may be probed: not this device's own, and by `local` no other network's.
    private func isAllowed(_ address: NetworkAddress) -> Bool {
        guard !ownAddresses.contains(address) else { return false }
        guard preference == .local || peerPreference == .local else { return true }
        if address.isIPv6 {
            return ownAddresses.contains { $0.isIPv6 && $0.networkPrefix == address.networkPrefix }
        }
        return address.isPrivate || address.isLinkLocal
    }

    // MARK: - Attempts by chance

    /// What this end does in an attempt now; `ordinary` when none makes sense, or the last was a moment ago.
    private func plan(at now: ContinuousClock.Instant) -> PunchRound.Plan {
        let pauses = peerPlan == .ordinary ? 1 << min(max(attemptsInVain - 1, 0), 4) : 1
        if let last = budget.lastAttempt(of: device), now - last < budget.limits.attemptInterval * pauses {
            return .ordinary
        }
        guard isEnabled, limits.sockets > 0, proven == nil, !isMetered, preference != .local, peerPreference != .local,
            stage > 0 || peerPlan != .ordinary, attemptTarget != nil
        else { return .ordinary }
        if Self.isRandom(local), Self.hasOnePort(remote) { return .openSockets }
        if Self.isRandom(remote), Self.hasOnePort(local) { return .probePorts }
        return .ordinary
    }

    private static func isRandom(_ kind: NATKind) -> Bool { kind.isHard && !kind.isPredictable }

    /// Whether all of the other end's sockets and ports see one outside port, which can be told in advance.
    ///
    /// It is believed where it is not known: a relay at one address cannot tell, and has shown no hard NAT.
    private static func hasOnePort(_ kind: NATKind) -> Bool {
        if case .sequential = kind.ports, kind.mapping == .addressDependent { return true }
        return kind.mapping == .independent || kind.mapping == .none || kind.mapping == .unknown
    }

    /// The outside address of the other end.
    private var attemptTarget: NetworkAddress? {
        let candidates = peer.list?.candidates.map(\.candidate) ?? []
        if remote.isHard, !Self.isRandom(remote) { return predicted }
        return
            (candidates.first { $0.kind == .reflexive && !$0.address.isIPv6 }
            ?? candidates.first { $0.kind == .mapped && !$0.address.isIPv6 }
            ?? candidates.first { $0.kind == .host && !$0.address.isIPv6 && !$0.address.isPrivate })?.address
    }

    private mutating func beginAttempt(at now: ContinuousClock.Instant) {
        let plan = plan(at: now)
        guard attempt == nil, plan != .ordinary, let target = attemptTarget else { return }
        // The first round is without: most ends meet in it.
        guard roundEnd == nil || number > 1 else { return }
        budget.attempted(device, at: now)
        attemptsInVain += 1
        var left: [UInt16]?
        if plan == .openSockets {
            actions.append(.openSockets(limits.sockets))
            left = (1...max(1, limits.sockets)).reversed().map { UInt16(clamping: $0) }
        }
        reflexiveLeft = limits.peerReflexive
        attempt = Attempt(
            plan: plan, end: now + limits.attemptLength, left: left, target: target, next: now)
    }

    private mutating func advanceAttempt(
        at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        guard var attempt else { return }
        guard attempt.end > now else { return endAttempt() }
        guard attempt.next <= now else { return }
        var left = attempt.left ?? drawnPorts(using: &random)
        // Ten at a time, as often as the rate says.
        let batch = 10
        for item in left.suffix(batch) {
            var address = attempt.target
            if attempt.plan == .probePorts { address.port = item }
            probe(address, socket: attempt.plan == .openSockets ? Int(item) : 0, at: now)
        }
        left.removeLast(min(batch, left.count))
        attempt.left = left
        attempt.next = now + .seconds(1) * batch / max(1, limits.attemptRate)
        self.attempt = attempt
    }

    /// Ports of which none occurs twice.
    private func drawnPorts(using random: inout some RandomNumberGenerator) -> [UInt16] {
        let count = min(limits.attemptProbes, 32_000)
        var seen: Set<UInt16> = []
        var ports: [UInt16] = []
        while ports.count < count {
            let port = UInt16.random(in: 1_024 ... .max, using: &random)
            if seen.insert(port).inserted { ports.append(port) }
        }
        return ports
    }

    private mutating func endAttempt() {
        guard let attempt else { return }
        self.attempt = nil
        peerPlan = .ordinary
        if attempt.plan == .openSockets {
            actions.append(.closeSockets(except: proven.flatMap { $0.socket == 0 ? nil : $0.socket }))
        }
    }
}
