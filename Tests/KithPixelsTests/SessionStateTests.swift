import KithPixels
import KithTesting
import Testing

@Suite struct SessionStateTests {
    private let start = ContinuousClock.now

    private func actions(_ session: inout SessionState) -> [SessionState.Action] {
        var result: [SessionState.Action] = []
        while let action = session.nextAction() { result.append(action) }
        return result
    }

    @Test func `a first connection has thirty seconds, its failures included`() throws {
        var session = SessionState()
        session.connect(at: start)
        #expect(actions(&session) == [.connect] && session.phase == .connecting)
        var now = start
        var attempts = 1
        while session.phase == .connecting {
            session.attemptFailed(at: now)
            now = max(now, try #require(session.nextDeadline))
            session.timedOut(at: now)
            attempts += actions(&session).filter { $0 == .connect }.count
        }
        #expect(session.phase == .ended(.timedOut) && now == start + .seconds(30))
        #expect(attempts > 5 && attempts < 15)
        #expect(session.nextDeadline == nil)
    }

    @Test func `a lost connection is sought at once, then ever less often, and again at once on another network`()
        throws
    {
        var session = SessionState(life: .seconds(4000))
        session.connect(at: start)
        session.connected(at: start + .seconds(1))
        _ = actions(&session)
        var now = start + .seconds(10)
        session.lost(at: now)
        #expect(actions(&session) == [.releaseInput, .connect] && session.phase == .reconnecting)
        var pauses: [Duration] = []
        while session.phase == .reconnecting, now < start + .seconds(1500) {
            session.attemptFailed(at: now)
            let next = try #require(session.nextDeadline)
            pauses.append(next - now)
            now = next
            session.timedOut(at: now)
            _ = actions(&session)
        }
        #expect(
            pauses.prefix(6) == [
                .milliseconds(250), .milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(5),
            ])
        #expect(pauses.contains(.seconds(40)) && pauses.max() == .seconds(300))
        #expect(zip(pauses.dropFirst(), pauses).allSatisfy { $0 >= $1 })
        session.attemptFailed(at: now)
        session.networkChanged(at: now)
        #expect(actions(&session) == [.connect])
        session.connected(at: now)
        #expect(session.phase == .active)
    }

    @Test func `a session ends with its life, wherever it is`() throws {
        var session = SessionState(life: .seconds(100))
        session.connect(at: start)
        session.connected(at: start)
        session.lost(at: start + .seconds(50))
        session.timedOut(at: start + .seconds(100))
        #expect(session.phase == .ended(.expired))
        #expect(actions(&session).last == .disconnect)
    }

    /// Correctness property 5: in the background the session asks for time at once and is over within the system's 30 s.
    @Test func `from any state and at any time, going to the background begins a task that ends within thirty seconds`()
    {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<500 {
            var session = SessionState()
            var now = start
            var isTaskRunning = false
            var began: ContinuousClock.Instant?
            var isConnected = false
            func drain() {
                while let action = session.nextAction() {
                    switch action {
                    case .beginBackgroundTask:
                        #expect(!isTaskRunning, "\(random)")
                        (isTaskRunning, began) = (true, now)
                    case .endBackgroundTask:
                        #expect(isTaskRunning, "\(random)")
                        isTaskRunning = false
                        if let began { #expect(now - began <= .seconds(30), "\(random)") }
                    case .connect: isConnected = true
                    case .disconnect: isConnected = false
                    case .releaseInput: break
                    }
                }
            }
            session.connect(at: now)
            for _ in 0..<25 {
                let next = now + .milliseconds(Int.random(in: 0...9000, using: &random))
                while let deadline = session.nextDeadline, deadline <= next {
                    now = max(now, deadline)
                    session.timedOut(at: now)
                    drain()
                }
                now = next
                switch Int.random(in: 0..<7, using: &random) {
                case 0: session.connected(at: now)
                case 1: session.lost(at: now)
                case 2: session.attemptFailed(at: now)
                case 3: session.networkChanged(at: now)
                case 4: session.enteredForeground(at: now)
                default:
                    let wasOver = if case .ended = session.phase { true } else { false }
                    session.enteredBackground(at: now)
                    drain()
                    #expect(wasOver || isTaskRunning, "\(random)")
                }
                drain()
                if isTaskRunning, let began { #expect(now - began <= .seconds(30), "\(random)") }
            }
            session.enteredBackground(at: now)
            drain()
            // Nobody does anything more.
            while let deadline = session.nextDeadline {
                now = max(now, deadline)
                session.timedOut(at: now)
                drain()
                if case .ended = session.phase { break }
            }
            guard case .ended = session.phase else {
                Issue.record("it is over: \(random)")
                continue
            }
            #expect(!isTaskRunning && !isConnected, "\(random)")
        }
    }

    @Test func `held keys are released whenever input no longer reaches the host`() {
        let ways: [(inout SessionState, ContinuousClock.Instant) -> Void] = [
            { $0.lost(at: $1) }, { $0.leave(at: $1) }, { $0.refused(at: $1) }, { $0.enteredBackground(at: $1) },
        ]
        for way in ways {
            var session = SessionState()
            session.connect(at: start)
            session.connected(at: start)
            _ = actions(&session)
            way(&session, start + .seconds(1))
            #expect(actions(&session).contains(.releaseInput))
        }
    }
}
