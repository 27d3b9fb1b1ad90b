import KithIdentity
import KithReach
import KithTesting
import KithWire
import Testing

@Suite("Punching") struct PuncherTests {
    let start = ContinuousClock.now
    let peer = NetworkAddress(ipv4: (203, 0, 113, 7), port: 40_000)

    /// What a puncher did, by the time since the start.
    private struct Done {
        var probes: [(at: Duration, address: NetworkAddress, socket: Int)] = []
        var rounds: [(at: Duration, round: PunchRound)] = []
        var opened: [Int] = []
        var closed: [Int?] = []
    }

    private func run(_ puncher: inout Puncher, for limit: Duration) -> Done {
        var random = SeededRandom(seed: 5)
        var done = Done()
        var now = start
        while true {
            while let action = puncher.nextAction() {
                switch action {
                case .probe(let address, let socket): done.probes.append((now - start, address, socket))
                case .send(.round(let round)): done.rounds.append((now - start, round))
                case .openSockets(let count): done.opened.append(count)
                case .closeSockets(let kept): done.closed.append(kept)
                case .send, .observeMapping: break
                }
            }
            guard let deadline = puncher.nextDeadline, deadline <= start + limit else { return done }
            now = max(now, deadline)
            puncher.timedOut(at: now, using: &random)
        }
    }

    private func list(_ addresses: [NetworkAddress], kind: Candidate.Kind = .reflexive) -> ControlMessage {
        .candidates(
            CandidateList(
                generation: 1, candidates: addresses.map { RankedCandidate(Candidate($0, kind), priority: 9) }))
    }

    private func puncher(
        _ addresses: [NetworkAddress]? = nil, for device: DeviceID = DeviceKey().id,
        within budget: PunchBudget = PunchBudget(), after time: Duration = .zero
    ) -> Puncher {
        var puncher = Puncher(isClient: true, device: device, budget: budget)
        puncher.set(relayRoundTrip: .milliseconds(80))
        puncher.receive(list(addresses ?? [peer]), at: start + time)
        return puncher
    }

    @Test func `a round begins half a relay round trip after it was announced`() {
        var puncher = puncher()
        let done = run(&puncher, for: .milliseconds(1_500))
        #expect(done.rounds.map(\.at) == [.zero] && done.rounds.first?.round.startDelay == 0)
        let times = done.probes.map { (($0.at - .milliseconds(40)) / .milliseconds(1)).rounded() }
        #expect(times == [0, 20, 50, 95, 163, 264, 416, 643, 985])
    }

    @Test func `rounds come again at 2, 5, 15 and 60 seconds, then each minute`() {
        var puncher = puncher()
        let done = run(&puncher, for: .seconds(190))
        #expect(done.rounds.map { $0.at / .seconds(1) } == [0, 2, 5, 15, 60, 120, 180])
        #expect(done.rounds.map(\.round.number) == Array(1...7))
    }

    @Test func `a peer's round begins at once, and is the same where both announce one`() {
        var puncher = Puncher(isClient: false, device: DeviceKey().id, budget: PunchBudget())
        puncher.receive(list([peer]), at: start)
        puncher.set(relayRoundTrip: .milliseconds(200))
        puncher.receive(.round(PunchRound(number: 1, startDelay: 10)), at: start)
        let done = run(&puncher, for: .milliseconds(1_500))
        #expect(done.probes.first?.at == .milliseconds(10) && done.probes.count == 9)
    }

    @Test func `a proven path ends the series, a lost one begins it anew`() {
        var puncher = puncher()
        _ = run(&puncher, for: .milliseconds(50))
        puncher.isProven(peer, at: start + .milliseconds(60))
        #expect(puncher.direct == peer)
        let quiet = run(&puncher, for: .seconds(300))
        #expect(quiet.rounds.isEmpty && quiet.probes.count <= 8)
        puncher.isLost(at: start + .seconds(300))
        #expect(puncher.direct == nil && puncher.nextDeadline == start + .seconds(300))
    }

    @Test func `a probe from an address nobody announced is answered with probes`() {
        var puncher = puncher()
        _ = run(&puncher, for: .milliseconds(50))
        let other = peer.with(port: 41_000)
        puncher.probed(from: other, at: start + .milliseconds(50))
        puncher.probed(from: NetworkAddress(ipv4: (127, 0, 0, 1), port: 9), at: start + .milliseconds(50))
        let done = run(&puncher, for: .seconds(1))
        #expect(done.probes.count(where: { $0.address == other }) == 2)
        #expect(!done.probes.contains { $0.address.isLoopback })
    }

    @Test func `a peer that names a victim's addresses gets no more than the bound a round`() {
        let victims = (0..<300).map { NetworkAddress(ipv4: 0xC633_6400 + UInt32($0), port: 53) }
        let never = ["224.0.0.1:9", "255.255.255.255:9", "127.0.0.1:9", "[ff02::1]:9", "[::1]:9"]
            .compactMap { NetworkAddress($0) }
        var puncher = puncher(never + victims)
        puncher.receive(
            .nat(NATKind(mapping: .addressAndPortDependent, ports: .sequential(step: 1))), at: start)
        let done = run(&puncher, for: .milliseconds(1_900))
        #expect(done.probes.count <= 32 * 9 && Set(done.probes.map(\.address)).count <= 32)
        #expect(!done.probes.contains { never.contains($0.address) })
    }

    @Test func `a peer that asks for round after round gets four, and one each five seconds`() {
        var puncher = puncher()
        var probes = 0
        for second in 0..<60 {
            puncher.receive(.round(PunchRound(number: UInt32(second))), at: start + .seconds(second))
            puncher.receive(
                .nat(NATKind(mapping: .independent, ports: .block(size: second % 2 == 0 ? 16 : 32))),
                at: start + .seconds(second))
            probes += run(&puncher, for: .seconds(second + 1)).probes.count
        }
        #expect(probes <= (4 + 12) * 9)
    }

    @Test func `much that goes through the relay brings the next round forward, each 15 seconds at most`() {
        var puncher = puncher()
        func rounds(until second: Int) -> [Int] {
            run(&puncher, for: .seconds(second)).rounds.map { Int($0.at / .seconds(1)) }
        }
        #expect(rounds(until: 70) == [0, 2, 5, 15, 60])
        puncher.carriesBulk(at: start + .seconds(70))
        #expect(rounds(until: 71) == [])
        #expect(rounds(until: 100) == [75])
        for second in 100..<130 {
            puncher.carriesBulk(at: start + .seconds(second))
            let rounds = rounds(until: second + 1)
            #expect(rounds == (second == 100 || second == 115 ? [second] : []), "\(second)")
        }
        // Where a path is direct nothing is looked for.
        puncher.isProven(peer, at: start + .seconds(131))
        puncher.carriesBulk(at: start + .seconds(150))
        #expect(rounds(until: 300) == [])
    }

    @Test func `it is much when a quarter of a megabyte is carried in five seconds`() {
        var meter = BulkMeter()
        let totals: [(UInt64, second: Int, isMuch: Bool)] = [
            // Since when is not known; in time; just not much; too slowly; in time.
            (BulkMeter.amount, 0, false), (BulkMeter.amount * 2, 5, true), (BulkMeter.amount * 3 - 1, 5, false),
            (BulkMeter.amount * 3, 11, false), (BulkMeter.amount * 9, 12, true),
        ]
        for (total, second, isMuch) in totals {
            let result = meter.carried(total, at: start + .seconds(second))
            #expect(result == isMuch, "\(total)")
            #expect((meter.last == start + .seconds(second)) == (isMuch || total == BulkMeter.amount * 3 - 1))
        }
    }

    @Test func `by the preference for a relay no probe leaves, and by local none leaves the network`() {
        for side in 0..<2 {
            var puncher = puncher()
            if side == 0 { puncher.set(.relay, at: start) } else { puncher.receive(.preference(.relay), at: start) }
            puncher.receive(.round(PunchRound(number: 1)), at: start)
            let done = run(&puncher, for: .seconds(100))
            #expect(done.probes.isEmpty && done.rounds.isEmpty)
        }
        let near = NetworkAddress(ipv4: (192, 168, 1, 9), port: 4_433)
        var puncher = puncher([peer, near])
        puncher.set(.local, at: start)
        let done = run(&puncher, for: .seconds(1))
        #expect(Set(done.probes.map(\.address)) == [near])
    }

    @Test func `an attempt by chance is within its caps, and is not made where volume is paid for`() {
        let random = NATKind(mapping: .addressAndPortDependent, ports: .random)
        // With one relay it is not known that the other end's NAT is easy.
        let kinds = [NATKind(mapping: .independent, filtering: .addressAndPortDependent), NATKind()]
        for (isHard, easy) in [(true, kinds[0]), (true, kinds[1]), (false, kinds[0]), (false, kinds[1])] {
            for isMetered in [true, false] {
                var puncher = puncher()
                puncher.set(isMetered: isMetered)
                puncher.set(local: isHard ? random : easy, at: start)
                puncher.receive(.nat(isHard ? easy : random), at: start)
                let done = run(&puncher, for: .seconds(59))
                let chance = done.probes.filter { isHard ? $0.socket != 0 : $0.address != peer }
                #expect(chance.count == (isMetered ? 0 : isHard ? 256 : 1_024))
                #expect(done.opened == (isHard && !isMetered ? [256] : []))
                #expect(done.closed == (isHard && !isMetered ? [nil] : []))
                for second in 0..<59 {
                    let count = chance.count { $0.at >= .seconds(second) && $0.at < .seconds(second + 1) }
                    #expect(count <= 510, "500 a second, in tens")
                }
                #expect(chance.allSatisfy { $0.address.ip == peer.ip })
            }
        }
    }

    @Test func `attempts in vain become rare, and one that the other end announces is joined`() {
        func opened(for time: Duration, _ messages: [ControlMessage]) -> Int {
            var puncher = puncher()
            puncher.set(local: NATKind(mapping: .addressAndPortDependent, ports: .random), at: start)
            puncher.receive(.nat(NATKind(mapping: .independent)), at: start)
            var count = run(&puncher, for: time).opened.count
            for message in messages {
                puncher.receive(message, at: start + time)
                count += run(&puncher, for: time + .seconds(50)).opened.count
            }
            return count
        }
        // After 1, 2, 4, 8 and 16 minutes, then each 16.
        #expect(opened(for: .seconds(3_600), []) <= 7)
        #expect(opened(for: .seconds(3_600), []) >= 5)
        let announced = ControlMessage.round(PunchRound(number: 9_999, plan: .probePorts))
        #expect(opened(for: .seconds(360), [announced]) == opened(for: .seconds(360), []) + 1)
        #expect(
            opened(for: .seconds(360), [.round(PunchRound(number: 9_999, plan: .ordinary))])
                == opened(for: .seconds(360), []))
    }

    @Test func `the socket that met the other end is kept`() {
        var puncher = puncher()
        puncher.set(local: NATKind(mapping: .addressAndPortDependent, ports: .random), at: start)
        puncher.receive(.nat(NATKind(mapping: .independent)), at: start)
        _ = run(&puncher, for: .milliseconds(1_300))
        puncher.isProven(peer, socket: 17, at: start + .milliseconds(1_300))
        let done = run(&puncher, for: .seconds(100))
        #expect(done.closed == [17])
    }

    @Test func `a device that connects anew again and again gets four rounds, and one each five seconds`() {
        let victims = (0..<32).map { NetworkAddress(ipv4: 0xC633_6400 + UInt32($0), port: 53) }
        let (device, budget) = (DeviceKey().id, PunchBudget())
        var probes: [(at: Duration, address: NetworkAddress, socket: Int)] = []
        for tick in 0..<60 {
            let time = Duration.milliseconds(500) * tick
            var puncher = puncher(victims, for: device, within: budget, after: time)
            puncher.receive(.round(PunchRound(number: 1)), at: start + time)
            probes += run(&puncher, for: time + .milliseconds(499)).probes
        }
        #expect(probes.count { $0.at < .seconds(5) } <= 4 * 288)
        #expect(probes.count <= (4 + 6) * 288)
        // It is this device's credit alone.
        var other = puncher(victims, within: budget, after: .seconds(30))
        #expect(run(&other, for: .seconds(32)).probes.count == 288)
    }

    @Test func `a device that connects anew gets no attempt by chance before a minute is over`() {
        let (device, budget) = (DeviceKey().id, PunchBudget())
        var times: [Duration] = []
        for second in stride(from: 0, to: 100, by: 5) {
            let time = Duration.seconds(second)
            var puncher = puncher(for: device, within: budget, after: time)
            puncher.set(local: NATKind(mapping: .independent), at: start + time)
            puncher.receive(
                .nat(NATKind(mapping: .addressAndPortDependent, ports: .random)), at: start + time)
            puncher.receive(.round(PunchRound(number: 2, plan: .openSockets)), at: start + time)
            times += run(&puncher, for: time + .seconds(4)).probes.filter { $0.address != peer }.map(\.at)
        }
        #expect(times.count { $0 < .seconds(58) } == 1_024)
        #expect(times.count == 2_048)
    }

    @Test func `many devices that name one address have it probed no more than one device may`() {
        let budget = PunchBudget()
        var times: [Duration] = []
        for number in 0..<50 {
            let victims = (0..<32).map { peer.with(port: UInt16(1_024 + number * 32 + $0)) }
            let time = Duration.milliseconds(100) * number
            var puncher = puncher(victims, within: budget, after: time)
            times += run(&puncher, for: time + .milliseconds(1_500)).probes.map(\.at)
        }
        #expect(times.count >= 2_176 && times.count <= 2_176 + 75 * 7)
    }

    @Test func `what has its full credit again is forgotten, and too many get none`() {
        var limits = PunchBudget.Limits()
        (limits.devices, limits.addresses) = (2, 3)
        let budget = PunchBudget(limits: limits)
        let devices = (0..<3).map { _ in DeviceKey().id }
        #expect(devices.map { budget.takeRound(of: $0, at: start) } == [true, true, false])
        #expect(budget.wait(of: devices[2], at: start) > .zero)
        #expect(budget.takeRound(of: devices[2], at: start + .seconds(6)))
        let addresses = (0..<4).map { NetworkAddress(ipv4: 0xC633_6400 + UInt32($0), port: 53) }
        #expect(addresses.map { budget.takeProbe(to: $0, at: start) } == [true, true, true, false])
        #expect(budget.takeProbe(to: addresses[3], at: start + .seconds(1)))
        #expect(budget.counts == (1, 1))
        budget.attempted(devices[2], at: start + .seconds(6))
        #expect(budget.takeRound(of: devices[0], at: start + .seconds(60)))
        #expect(!budget.takeRound(of: devices[1], at: start + .seconds(60)))
    }
}
