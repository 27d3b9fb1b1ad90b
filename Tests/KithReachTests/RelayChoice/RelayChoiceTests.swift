import KithReach
import KithTesting
import Testing

@Suite("Relay choice") struct RelayChoiceTests {
    let start = ContinuousClock.now
    let a: RelayAddress
    let b: RelayAddress
    let c: RelayAddress

    init() throws {
        a = try #require(RelayAddress("https://a.example.org"))
        b = try #require(RelayAddress("https://b.example.org"))
        c = try #require(RelayAddress("https://c.example.org"))
    }

    private func at(_ seconds: Int) -> ContinuousClock.Instant { start + .seconds(seconds) }

    private func actions(_ choice: inout RelayChoice) -> [RelayChoice.Action] {
        var actions: [RelayChoice.Action] = []
        while let action = choice.nextAction() { actions.append(action) }
        return actions
    }

    /// A choice whose home is `a`, 60 ms away, and whose standby is `b`, 70 ms away; `c` is 80.
    private func settled(_ limits: RelayChoice.Limits = .init()) -> RelayChoice {
        var choice = RelayChoice([a, b, c], limits: limits, at: start)
        for (relay, latency) in [(a, 60), (b, 70), (c, 80)] {
            choice.measured(relay, roundTrip: .milliseconds(latency), at: start)
        }
        choice.letIn(by: a, at: start)
        choice.letIn(by: b, at: start)
        _ = actions(&choice)
        return choice
    }

    @Test func `a home and a standby are attached and announced`() {
        var choice = RelayChoice([a, b, c], at: start)
        let first = actions(&choice)
        #expect(first == [.attach(a), .attach(b)])
        choice.letIn(by: b, at: start)
        choice.letIn(by: a, at: start)
        let second = actions(&choice)
        #expect(second == [.announce(home: b, standby: nil), .announce(home: b, standby: a)])
        #expect(choice.nextDeadline(after: start) == nil)
    }

    @Test func `the standby takes over at once, and another is attached`() {
        var choice = settled()
        choice.lost(a, at: at(10))
        let done = actions(&choice)
        #expect(done == [.announce(home: b, standby: nil), .attach(c)])
        choice.letIn(by: c, at: at(11))
        #expect(choice.home == b && choice.standby == c)
    }

    @Test(arguments: [(45, false), (41, false), (40, false), (39, true), (10, true)])
    func `a home is left for less than two thirds of its latency`(latency: Int, isLeft: Bool) {
        var choice = settled()
        choice.measured(b, roundTrip: .milliseconds(latency), at: at(1))
        #expect(choice.home == (isLeft ? b : a))
        #expect(choice.standby == (isLeft ? a : b))
    }

    @Test func `a home is not left for less than ten milliseconds`() {
        var choice = RelayChoice([a, b], at: start)
        choice.measured(a, roundTrip: .milliseconds(12), at: start)
        choice.letIn(by: a, at: start)
        choice.letIn(by: b, at: start)
        choice.measured(b, roundTrip: .milliseconds(3), at: start)
        #expect(choice.home == a)
        choice.measured(b, roundTrip: .milliseconds(2), at: start)
        #expect(choice.home == b)
    }

    @Test func `a relay becomes home only once it has let the device in`() {
        var choice = settled()
        choice.measured(c, roundTrip: .milliseconds(5), at: at(1))
        let done = actions(&choice)
        #expect(done == [.attach(c)] && choice.home == a)
        var refused = choice
        refused.refused(by: c, at: at(2))
        #expect(refused.home == a && refused.standby == b)
        refused.measured(c, roundTrip: .milliseconds(5), at: at(3))
        let quiet = actions(&refused)
        #expect(quiet.isEmpty, "it answers pings and lets nobody in")
        #expect(refused.nextDeadline(after: at(3)) == at(62))
        choice.letIn(by: c, at: at(2))
        #expect(choice.home == c && choice.standby == a)
        let moved = actions(&choice)
        #expect(moved == [.announce(home: c, standby: a), .detach(b)])
    }

    @Test func `the lowest latency of five minutes counts`() {
        var choice = settled()
        choice.measured(a, roundTrip: .milliseconds(200), at: at(100))
        choice.measured(b, roundTrip: .milliseconds(70), at: at(100))
        #expect(choice.home == a, "one slow ping")
        choice.measured(b, roundTrip: .milliseconds(70), at: at(301))
        #expect(choice.home == b, "the fast one is too old")
    }

    @Test func `a relay that refuses is asked again after a minute, later after an hour`() {
        var choice = RelayChoice([a], at: start)
        var now = start
        var waits: [Int] = []
        for _ in 0..<9 {
            choice.refused(by: a, at: now)
            _ = actions(&choice)
            guard let next = choice.nextDeadline(after: now) else { break }
            waits.append(Int(((next - now) / .seconds(1)).rounded()))
            now = next
            choice.timedOut(at: now)
            let done = actions(&choice)
            #expect(done == [.attach(a)])
        }
        #expect(waits == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600])
    }

    @Test func `a relay that hangs does not keep another from being tried`() {
        var choice = RelayChoice([a, b, c], at: start)
        _ = actions(&choice)
        #expect(choice.nextDeadline(after: start) == at(3))
        choice.timedOut(at: at(3))
        let done = actions(&choice)
        #expect(done == [.attach(c)])
    }

    @Test func `on a battery one link is kept, and another made when it is lost`() {
        var limits = RelayChoice.Limits()
        limits.keepsStandby = false
        var choice = RelayChoice([a, b], limits: limits, at: start)
        choice.letIn(by: a, at: start)
        let first = actions(&choice)
        #expect(first == [.attach(a), .announce(home: a, standby: nil)])
        choice.lost(a, at: at(1))
        let second = actions(&choice)
        #expect(second == [.announce(home: nil, standby: nil), .attach(b)])
    }

    @Test func `another network tries all relays at once`() {
        var choice = RelayChoice([a, b], at: start)
        choice.refused(by: a, at: start)
        choice.lost(b, at: start)
        _ = actions(&choice)
        choice.networkChanged(at: at(0))
        let done = actions(&choice)
        #expect(done == [.attach(a), .attach(b)])
    }

    @Test func `no schedule leaves the device without a relay that lets it in, or makes relays take turns`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<100 {
            var choice = RelayChoice([a, b, c], at: start)
            var up = [a: true, b: true, c: true]
            let delays = [a, b, c].reduce(into: [:]) { $0[$1] = Int.random(in: 5...150, using: &random) }
            var linked: Set<RelayAddress> = []
            var switches = 0
            var failures = 0
            /// For how many seconds each has been up while there was no home.
            var ignored = [a: 0, b: 0, c: 0]
            var longest = 0
            for second in 0..<400 {
                if second < 300, let relay = [a, b, c].randomElement(using: &random), random.chance(0.03) {
                    up[relay]?.toggle()
                    failures += 1
                }
                if second == 300 { up = [a: true, b: true, c: true] }
                for relay in [a, b, c] {
                    if up[relay] == false, linked.remove(relay) != nil { choice.lost(relay, at: at(second)) }
                    if up[relay] == true, second % 20 == 0 {
                        let jitter = Int.random(in: 0...20, using: &random)
                        choice.measured(
                            relay, roundTrip: .milliseconds((delays[relay] ?? 0) + jitter), at: at(second))
                    }
                }
                choice.timedOut(at: at(second))
                while let action = choice.nextAction() {
                    switch action {
                    case .attach(let relay):
                        if up[relay] == true {
                            linked.insert(relay)
                            choice.letIn(by: relay, at: at(second))
                        } else {
                            choice.lost(relay, at: at(second))
                        }
                    case .detach(let relay): linked.remove(relay)
                    case .announce: switches += 1
                    }
                }
                for relay in [a, b, c] {
                    ignored[relay] = up[relay] == true && choice.home == nil ? (ignored[relay] ?? 0) + 1 : 0
                    longest = max(longest, ignored[relay] ?? 0)
                }
            }
            #expect(longest <= 17, "a lost relay is tried again within 16 seconds, \(random)")
            #expect(choice.home != nil && choice.standby != nil, "\(random)")
            #expect(switches <= 6 * failures + 12, "\(random)")
        }
    }
}
