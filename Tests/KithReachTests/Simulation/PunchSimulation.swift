import KithIdentity
import KithReach
import KithTesting
import KithWire

/// Two devices behind NATs, with a relay and two STUN servers, in simulated time.
struct PunchSimulation {
    /// What travels.
    enum Packet {
        case challenge(UInt64)
        case response(UInt64)
    }

    private enum Event {
        case arrival(Packet, from: NetworkAddress, to: NetworkAddress)
        case relayed(ControlMessage, to: Int)
        case observe(Int)
    }

    struct End {
        var nat: SimulatedNAT
        var puncher: Puncher
        var table = CandidateTable()
        var reporter: NetworkReporter
        let inside: NetworkAddress
        var tokens: [UInt64: (address: NetworkAddress, socket: Int)] = [:]
        var openSockets = 0
        var provenAt: ContinuousClock.Instant?
        var probes = 0
        var responses = 0
        var challengesReceived = 0
        var mostSockets = 0
        var probeTimes: [ContinuousClock.Instant] = []
        var lastControl = ContinuousClock.now

        func address(of socket: Int) -> NetworkAddress { inside.with(port: inside.port + UInt16(socket)) }
    }

    let start = ContinuousClock.now
    var now: ContinuousClock.Instant
    var ends: [End]
    var random: SeededRandom
    var lossRate = 0.0
    var otherTraffic = 0
    /// Both are behind one NAT, that of the first.
    private let sharesNAT: Bool
    /// Devices of that network reach each other there, which many wireless networks prevent.
    var isLocalNetworkOpen = false
    /// The servers that are asked.
    var servers = Self.servers
    private var events: [(at: ContinuousClock.Instant, order: Int, event: Event)] = []
    private var order = 0
    private var nextToken: UInt64 = 0

    static let servers = [
        NetworkAddress(ipv4: (192, 0, 2, 1), port: 3_478), NetworkAddress(ipv4: (192, 0, 2, 1), port: 3_479),
        NetworkAddress(ipv4: (198, 51, 100, 1), port: 3_478),
    ]

    /// Two devices behind a NAT each, or, with one kind, behind the same.
    init(_ kinds: [NATKind], random: SeededRandom) {
        self.random = random
        sharesNAT = kinds.count == 1
        let kinds = kinds.count == 1 ? [kinds[0], kinds[0]] : kinds
        now = start
        ends = []
        for (number, kind) in kinds.enumerated() {
            let outside = NetworkAddress(ipv4: (203, 0, 113, UInt8(10 + number)), port: 0)
            let inside =
                kind.mapping == .none
                ? outside.with(port: 4_433) : NetworkAddress(ipv4: (10, 0, UInt8(number), 2), port: 4_433)
            ends.append(
                End(
                    nat: SimulatedNAT(kind, outside: outside, random: self.random.fork()),
                    puncher: Puncher(
                        isClient: number == 0, device: DeviceKey().id, budget: PunchBudget()),
                    reporter: NetworkReporter(localAddresses: [inside]), inside: inside))
        }
    }

    // MARK: - The world

    /// Uses the NAT of an end, which may be that of both.
    private mutating func withNAT<Result>(
        of end: Int, _ body: (inout SimulatedNAT, ContinuousClock.Instant) -> Result
    ) -> Result {
        let (end, now) = (sharesNAT ? 0 : end, now)
        return body(&ends[end].nat, now)
    }

    /// The NAT of an end, and of the other one where they share it.
    private func outside(of end: Int) -> NetworkAddress { ends[sharesNAT ? 0 : end].nat.outside }

    private mutating func schedule(_ event: Event, after delay: Duration) {
        order += 1
        let item = (at: now + delay, order: order, event: event)
        // The queue is short, and nearly sorted.
        let place = events.lastIndex { $0.at <= item.at }.map { $0 + 1 } ?? 0
        events.insert(item, at: place)
    }

    private mutating func jittered(_ milliseconds: Int) -> Duration {
        .microseconds(milliseconds * 1_000 + Int.random(in: 0...5_000, using: &random))
    }

    private mutating func send(_ packet: Packet, from end: Int, socket: Int, to remote: NetworkAddress) {
        let inside = ends[end].address(of: socket)
        if sharesNAT, isLocalNetworkOpen, remote.ip == ends[1 - end].inside.ip, !random.chance(lossRate) {
            return schedule(.arrival(packet, from: inside, to: remote), after: jittered(1))
        }
        let source = withNAT(of: end) { $0.send(from: inside, to: remote, at: $1) }
        // An address inside another network is not reached from this one.
        guard !remote.isPrivate, !random.chance(lossRate) else { return }
        // To its own outside and back.
        guard !sharesNAT || remote.ip != outside(of: end).ip || ends[0].nat.hairpins else { return }
        schedule(.arrival(packet, from: source, to: remote), after: jittered(20))
    }

    private mutating func observe(_ end: Int) {
        for server in servers {
            ends[end].reporter.asked(server, at: now)
            let inside = ends[end].inside
            let mapped = withNAT(of: end) { $0.send(from: inside, to: server, at: $1) }
            ends[end].reporter.answered(server, mapped: mapped)
        }
        while ends[end].reporter.wantsNewMapping { lookAtNewMapping(end) }
        publish(end)
        // The mapping is kept while a peer is in session.
        schedule(.observe(end), after: .seconds(20))
    }

    /// Opens a socket to see which port is next, as an action asks.
    private mutating func lookAtNewMapping(_ end: Int) {
        let socket = 2_000 + Int.random(in: 0..<10_000, using: &random)
        let inside = ends[end].address(of: socket)
        let mapped = withNAT(of: end) { $0.send(from: inside, to: Self.servers[0], at: $1) }
        ends[end].reporter.observedNewMapping(mapped)
    }

    /// Tells the other end what has become of the report, as a driver does.
    private mutating func publish(_ end: Int) {
        let report = ends[end].reporter.report(at: now)
        ends[end].table.set([LocalAddress(ends[end].inside)])
        ends[end].puncher.set(own: [ends[end].inside])
        if let seen = report.publicIPv4 { ends[end].table.set([seen], of: .reflexive) }
        if report.nat.isHard, let seen = report.publicIPv4, let last = report.lastPort {
            switch report.nat.ports {
            case .sequential(let step):
                ends[end].table.set([seen.with(port: UInt16(clamping: Int(last) + Int(step)))], of: .predicted)
            case .block: ends[end].table.set([seen.with(port: last)], of: .predicted)
            default: ends[end].table.set([], of: .predicted)
            }
        }
        ends[end].puncher.set(local: report.nat, at: now)
        ends[end].puncher.set(relayRoundTrip: .milliseconds(60))
        tell(.nat(report.nat), from: end)
        tell(.candidates(ends[end].table.list(for: .auto)), from: end)
        // Others behind the NAT take ports meanwhile.
        for _ in 0..<otherTraffic {
            let other = NetworkAddress(ipv4: (10, 0, 9, 9), port: UInt16.random(in: 1_024...65_000, using: &random))
            _ = withNAT(of: end) { $0.send(from: other, to: Self.servers[0], at: $1) }
        }
    }

    private mutating func tell(_ message: ControlMessage, from end: Int) {
        // The control stream is in order.
        let at = max(now + jittered(30), ends[1 - end].lastControl)
        ends[1 - end].lastControl = at
        schedule(.relayed(message, to: 1 - end), after: at - now)
    }

    private mutating func handle(_ event: Event) {
        switch event {
        case .arrival(let packet, let source, let target):
            var inside: NetworkAddress? = target
            if let end = ends.indices.first(where: { outside(of: $0).ip == target.ip }),
                ends[end].nat.kind.mapping != .none
            {
                inside = withNAT(of: end) { $0.receive(at: target.port, from: source, at: $1) }
            }
            guard let inside, let end = ends.firstIndex(where: { $0.inside.ip == inside.ip }),
                inside.port >= ends[end].inside.port
            else { return }
            let socket = Int(inside.port - ends[end].inside.port)
            guard socket == 0 || socket <= ends[end].openSockets else { return }
            switch packet {
            case .challenge(let token):
                ends[end].challengesReceived += 1
                ends[end].responses += 1
                send(.response(token), from: end, socket: socket, to: source)
                ends[end].puncher.probed(from: source, socket: socket, at: now)
            case .response(let token):
                guard let probe = ends[end].tokens[token], probe.address == source, probe.socket == socket else {
                    return
                }
                if ends[end].provenAt == nil { ends[end].provenAt = now }
                ends[end].puncher.isProven(source, socket: socket, at: now)
            }
        case .relayed(let message, let end): ends[end].puncher.receive(message, at: now)
        case .observe(let end): observe(end)
        }
    }

    private mutating func drain(_ end: Int) {
        while let action = ends[end].puncher.nextAction() {
            switch action {
            case .send(let message): tell(message, from: end)
            case .probe(let address, let socket):
                nextToken += 1
                ends[end].tokens[nextToken] = (address, socket)
                ends[end].probes += 1
                ends[end].probeTimes.append(now)
                send(.challenge(nextToken), from: end, socket: socket, to: address)
            case .openSockets(let count):
                ends[end].openSockets = count
                ends[end].mostSockets = max(ends[end].mostSockets, count)
            case .closeSockets(let kept): ends[end].openSockets = kept ?? 0
            case .observeMapping:
                lookAtNewMapping(end)
                publish(end)
            }
        }
    }

    /// Runs until both ends have a direct path, or the time is over; returns when the later had it.
    mutating func run(for limit: Duration) -> Duration? {
        for end in ends.indices { schedule(.observe(end), after: jittered(10)) }
        let end = start + limit
        while ends.contains(where: { $0.provenAt == nil }) {
            let timers = ends.compactMap(\.puncher.nextDeadline)
            guard let next = (timers + events.prefix(1).map(\.at)).min(), next <= end else { break }
            now = max(now, next)
            while let first = events.first, first.at <= now {
                events.removeFirst()
                handle(first.event)
                for end in ends.indices { drain(end) }
            }
            for end in ends.indices {
                if let deadline = ends[end].puncher.nextDeadline, deadline <= now {
                    ends[end].puncher.timedOut(at: now, using: &random)
                }
                drain(end)
            }
        }
        let times = ends.compactMap(\.provenAt)
        return times.count == ends.count ? times.max().map { $0 - start } : nil
    }
}
