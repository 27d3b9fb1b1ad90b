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

    private func puncher(_ addresses: [NetworkAddress]? = nil) -> Puncher {
        var puncher = Puncher(isClient: true, at: start)
        puncher.set(relayRoundTrip: .milliseconds(80))
        puncher.receive(list(addresses ?? [peer]), at: start)
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
        var puncher = Puncher(isClient: false, at: start)
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
        let easy = NATKind(mapping: .independent, filtering: .addressAndPortDependent)
        for isHard in [true, false] {
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
}
