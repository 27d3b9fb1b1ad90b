import KithReach
import Testing

@Suite("Path policy") struct PathPolicyTests {
    let start = ContinuousClock.now

    private func at(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }

    /// A relay of 80 ms as path 0, and direct paths of 30 ms over IPv4 as 1 and over IPv6 as 2.
    private func policy(_ preference: ReachPreference = .auto, relayOnly: Bool = false) -> PathPolicy<Int> {
        var policy = PathPolicy<Int>(preference: preference)
        policy.opened(0, .relay, at: start)
        policy.measured(0, roundTrip: .milliseconds(80), at: start)
        guard !relayOnly else { return policy }
        policy.opened(1, .ipv4, at: start)
        policy.measured(1, roundTrip: .milliseconds(30), at: start)
        return policy
    }

    @Test func `the relay carries first, a direct path once it is proven`() {
        var policy = policy(relayOnly: true)
        #expect(policy.use == [0])
        policy.opened(1, .ipv4, at: at(300))
        #expect(policy.use == [1])
        policy.measured(1, roundTrip: .milliseconds(120), at: at(310))
        #expect(policy.use == [1], "longer, and direct")
        let actions = [policy.nextAction(), policy.nextAction()]
        #expect(actions == [.use([1]), nil])
    }

    @Test func `after two probe time-outs both carry, until one is acknowledged`() {
        var policy = policy()
        policy.timedOut(1, at: at(100))
        #expect(policy.use == [1])
        policy.timedOut(1, at: at(200))
        #expect(policy.use == [1, 0])
        var late = policy
        late.acknowledged(1, at: at(250))
        #expect(late.use == [1])
        policy.acknowledged(0, at: at(280))
        #expect(policy.use == [0])
    }

    @Test func `a path that failed is challenged and comes back when it has held`() {
        var policy = policy()
        for time in [100, 200] { policy.timedOut(1, at: at(time)) }
        policy.acknowledged(0, at: at(280))
        var challenges: [Int] = []
        var now = at(280)
        while challenges.count < 6, let deadline = policy.nextDeadline {
            now = max(now, deadline)
            policy.timedOut(at: now)
            while let action = policy.nextAction() {
                if action == .challenge(1) { challenges.append(Int(((now - start) / .milliseconds(1)).rounded())) }
            }
        }
        #expect(challenges == [530, 1_030, 2_030, 4_030, 8_030, 13_030])
        policy.acknowledged(1, at: at(13_060))
        #expect(policy.use == [0], "once is not enough")
        policy.acknowledged(1, at: at(13_320))
        #expect(policy.use == [0])
        policy.acknowledged(1, at: at(13_560))
        #expect(policy.use == [1])
    }

    @Test func `a path that fails again and again is left alone for longer each time`() {
        var policy = policy()
        var held: [Int] = []
        var time = 0
        for _ in 0..<9 {
            for _ in 0..<2 { policy.timedOut(1, at: at(time)) }
            policy.acknowledged(0, at: at(time))
            let failed = time
            while policy.use == [0] {
                time += 100
                policy.acknowledged(1, at: at(time))
            }
            held.append(time - failed - 100)
        }
        #expect(held == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
        // What held for long is forgiven.
        policy.acknowledged(1, at: at(time + 30_000))
        for _ in 0..<2 { policy.timedOut(1, at: at(time + 30_000)) }
        policy.acknowledged(0, at: at(time + 30_000))
        policy.acknowledged(1, at: at(time + 30_100))
        policy.acknowledged(1, at: at(time + 30_600))
        #expect(policy.use == [1])
    }

    @Test func `an equal is left for a path shorter by five milliseconds, and IPv6 counts three less`() {
        var policy = policy()
        policy.opened(2, .ipv6, at: start)
        for (roundTrip, expected) in [(29, 1), (28, 2), (34, 2), (37, 2), (38, 1), (31, 1), (28, 2)] {
            policy.measured(2, roundTrip: .milliseconds(roundTrip), at: start)
            #expect(policy.use == [expected], "\(roundTrip) ms")
        }
    }

    @Test func `two like paths do not take turns`() {
        var policy = policy()
        policy.opened(2, .ipv4, at: start)
        var switches = 0
        var last = policy.use
        for step in 0..<1_000 {
            policy.measured(1, roundTrip: .milliseconds(30 + step % 5), at: at(step))
            policy.measured(2, roundTrip: .milliseconds(30 + (step + 2) % 5), at: at(step))
            if policy.use != last { (switches, last) = (switches + 1, policy.use) }
        }
        #expect(switches <= 1)
    }

    @Test func `a direct path that loses or waits far more than the relay is left`() {
        var slow = policy()
        slow.measured(1, roundTrip: .milliseconds(290), at: at(10))
        #expect(slow.use == [1])
        slow.measured(1, roundTrip: .milliseconds(291), at: at(20))
        #expect(slow.use == [0])
        var lossy = policy()
        lossy.counted(1, sent: 40, lost: 20, at: at(10))
        #expect(lossy.use == [1], "too few to tell")
        lossy.counted(1, sent: 40, lost: 10, at: at(10))
        #expect(lossy.use == [0])
        var both = policy()
        both.counted(0, sent: 80, lost: 40, at: at(10))
        both.counted(1, sent: 80, lost: 40, at: at(10))
        #expect(both.use == [1], "the relay loses as much")
    }

    @Test func `preferences rule paths out`() {
        #expect(policy(.relay).use == [0])
        #expect(policy(.direct).use == [1])
        #expect(policy(.direct, relayOnly: true).use == [], "user data waits")
        #expect(policy(.local, relayOnly: true).use == [])
        var policy = policy()
        policy.set(.relay, at: start)
        #expect(policy.use == [0])
        policy.set(.direct, at: start)
        for _ in 0..<3 { policy.timedOut(1, at: start) }
        #expect(policy.use == [1], "no relay, even when direct does not answer")
        policy.closed(1, at: start)
        #expect(policy.use == [])
    }

    @Test func `a third path that answers ends the silence of two`() {
        var policy = policy()
        policy.opened(2, .ipv4, at: start)
        policy.measured(2, roundTrip: .milliseconds(90), at: start)
        for time in [100, 200] { policy.timedOut(1, at: at(time)) }
        #expect(policy.use == [1, 2])
        policy.timedOut(at: at(200))
        var actions: [PathPolicy<Int>.Action] = []
        while let action = policy.nextAction() { actions.append(action) }
        #expect(actions.contains(.challenge(0)))
        policy.acknowledged(0, at: at(290))
        #expect(policy.use == [0])
    }

    @Test func `an idle connection challenges nothing, one in use its standby each 15 seconds`() {
        var policy = policy()
        #expect(policy.nextDeadline == start + .seconds(15))
        policy.set(isInUse: false, at: start)
        #expect(policy.nextDeadline == nil)
        policy.set(isInUse: true, at: at(1_000))
        #expect(policy.nextDeadline == at(16_000))
    }
}
