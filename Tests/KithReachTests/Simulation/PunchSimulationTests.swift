import KithReach
import KithTesting
import KithWire
import Testing

@Suite("NAT pairs, simulated") struct PunchSimulationTests {
    private struct Row {
        var direct = 0
        var times: [Duration] = []

        var text: String {
            guard !times.isEmpty else { return "relay" }
            func shown(_ time: Duration) -> String { "\((time / .milliseconds(1)).rounded()) ms" }
            let sorted = times.sorted()
            return "\(direct) direct, \(shown(sorted[sorted.count / 2])), p95 \(shown(sorted[sorted.count * 95 / 100]))"
        }
    }

    private func row(
        _ left: NATKind, _ right: NATKind, count: Int, otherTraffic: Int = 0, limit: Duration = .seconds(190),
        servers: [NetworkAddress] = PunchSimulation.servers, using random: inout SeededRandom
    ) -> Row {
        var row = Row()
        for _ in 0..<count {
            var simulation = PunchSimulation([left, right], random: random.fork())
            simulation.otherTraffic = otherTraffic
            simulation.servers = servers
            guard let time = simulation.run(for: limit) else { continue }
            row.direct += 1
            row.times.append(time)
        }
        return row
    }

    @Test func `15 of the 16 pairs of NATs end direct`() {
        var random = SeededRandom.fromEnvironment()
        var pairs = 0
        print("NAT pairs, 20 conversations each, a relay 60 ms away:")
        for left in SimulatedNAT.Classic.allCases {
            for right in SimulatedNAT.Classic.allCases {
                // Three attempts by chance of 98 % each.
                let row = row(left.kind, right.kind, count: 20, limit: .seconds(190), using: &random)
                print("  \(left.rawValue) × \(right.rawValue): \(row.text)")
                if row.direct == 20 { pairs += 1 }
            }
        }
        print("  \(pairs) of 16 direct")
        #expect(pairs == 15, "\(random)")
    }

    @Test func `two ports of one relay are enough for all pairs but one, and one port is not`() {
        var random = SeededRandom.fromEnvironment()
        let servers = Array(PunchSimulation.servers.prefix(2))
        #expect(Set(servers.map(\.ip)).count == 1)
        var pairs = 0
        for left in SimulatedNAT.Classic.allCases {
            for right in SimulatedNAT.Classic.allCases
            where row(left.kind, right.kind, count: 10, servers: servers, using: &random).direct == 10 {
                pairs += 1
            }
        }
        #expect(pairs == 15, "\(random)")
        let (port, hard) = (SimulatedNAT.Classic.portRestricted.kind, SimulatedNAT.Classic.symmetric.kind)
        #expect(row(port, hard, count: 10, servers: [servers[0]], using: &random).direct == 0, "\(random)")
        #expect(row(Self.sequential, port, count: 10, servers: servers, using: &random).direct == 10, "\(random)")
    }

    static let sequential = NATKind(
        mapping: .addressAndPortDependent, filtering: .addressAndPortDependent, ports: .sequential(step: 1))
    static let block = NATKind(
        mapping: .addressAndPortDependent, filtering: .addressAndPortDependent, ports: .block(size: 64))
    static let countingByAddress = NATKind(
        mapping: .addressDependent, filtering: .addressAndPortDependent, ports: .sequential(step: 2))

    @Test func `hard NATs whose ports can be predicted go direct`() {
        var random = SeededRandom.fromEnvironment()
        let port = SimulatedNAT.Classic.portRestricted.kind
        let symmetric = SimulatedNAT.Classic.symmetric.kind
        let pairs: [(String, NATKind, NATKind, Int)] = [
            ("sequential × port restricted", Self.sequential, port, 20),
            ("port restricted × sequential", port, Self.sequential, 20),
            ("sequential × sequential", Self.sequential, Self.sequential, 20),
            ("block of 64 × port restricted", Self.block, port, 20),
            ("sequential by address × symmetric", Self.countingByAddress, symmetric, 18),
            ("sequential × symmetric", Self.sequential, symmetric, 0),
        ]
        print("NATs with predictable ports:")
        for (name, left, right, least) in pairs {
            let row = row(left, right, count: 20, using: &random)
            print("  \(name): \(row.text)")
            #expect(row.direct >= least, "\(name), \(random)")
        }
    }

    @Test(arguments: SimulatedNAT.Classic.allCases)
    func `behind one NAT the local network leads there, or the router's outside if it takes hairpins`(
        nat: SimulatedNAT.Classic
    ) {
        var random = SeededRandom.fromEnvironment()
        for (isOpen, hairpins) in [(true, false), (false, true), (false, false)] {
            var simulation = PunchSimulation([nat.kind], random: random.fork())
            simulation.isLocalNetworkOpen = isOpen
            simulation.ends[0].nat.hairpins = hairpins
            let time = simulation.run(for: .seconds(10))
            let words = time.map { "direct after \(($0 / .milliseconds(1)).rounded()) ms" } ?? "relay"
            print("one \(nat.rawValue) NAT, local network open \(isOpen), hairpins \(hairpins): \(words)")
            if isOpen {
                #expect(time.map { $0 < .seconds(1) } == true, "\(random)")
            } else if hairpins, nat != .symmetric {
                #expect(time != nil, "\(random)")
            } else if !hairpins {
                #expect(time == nil, "\(random)")
            }
        }
    }

    @Test func `no schedule makes a device send more than the bounds`() {
        var random = SeededRandom.fromEnvironment()
        let (limits, budget) = (Puncher.Limits(), PunchBudget.Limits())
        let count = environment("KITH_PUNCHES").flatMap { Int($0) } ?? 200
        var direct = 0
        for _ in 0..<count {
            func kind() -> NATKind {
                let ports: [NATKind.Ports] = [
                    .random, .sequential(step: 1), .sequential(step: -3), .block(size: 64), .block(size: 512),
                ]
                return NATKind(
                    mapping: [.none, .independent, .addressDependent, .addressAndPortDependent]
                        .randomElement(using: &random) ?? .none,
                    filtering: [.independent, .addressDependent, .addressAndPortDependent]
                        .randomElement(using: &random) ?? .independent,
                    ports: ports.randomElement(using: &random) ?? .random)
            }
            let seed = random.fork()
            var simulation = PunchSimulation([kind(), kind()], random: seed)
            simulation.lossRate = Double.random(in: 0...0.3, using: &random)
            simulation.otherTraffic = Int.random(in: 0...3, using: &random)
            for end in simulation.ends.indices {
                simulation.ends[end].nat.timeout = .seconds(Int.random(in: 5...120, using: &random))
                simulation.ends[end].nat.punishes = random.chance(0.1)
            }
            let limit = 70
            if simulation.run(for: .seconds(limit)) != nil { direct += 1 }
            for end in simulation.ends {
                let rounds = Double(budget.roundBurst) + (simulation.now - simulation.start) / budget.roundInterval
                let attempts = 1 + Int((simulation.now - simulation.start) / budget.attemptInterval)
                let most = Int(rounds.rounded(.up)) * limits.probesPerRound + attempts * limits.attemptProbes
                #expect(end.probes <= most, "\(seed)")
                #expect(end.mostSockets <= limits.sockets, "\(seed)")
                #expect(end.responses <= end.challengesReceived, "one answer to a probe, \(seed)")
                // Every probe is of at most 64 bytes; a second has at most a round and the rate of an attempt.
                for (index, time) in end.probeTimes.enumerated() {
                    let later = index + 2 * limits.probesPerRound + limits.attemptRate
                    guard later < end.probeTimes.count else { break }
                    guard end.probeTimes[later] - time <= .milliseconds(900) else { continue }
                    Issue.record("too many probes in a second, \(seed)")
                    break
                }
            }
        }
        print("of \(count) random pairs of NATs with loss, time-outs and other traffic \(direct) went direct in 70 s")
        #expect(direct * 2 > count, "\(random)")
    }
}
