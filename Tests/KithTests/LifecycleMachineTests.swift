import Kith
import KithTesting
import Testing

/// When a device is started and stopped; nothing runs here.
@Suite struct LifecycleMachineTests {
    private typealias Action = LifecycleMachine.Action
    private let start = ContinuousClock.now

    private func running() -> LifecycleMachine {
        var machine = LifecycleMachine()
        #expect(machine.received(.foreground, at: start) == [.start])
        #expect(machine.started(at: start) == [])
        #expect(machine.state == .running)
        return machine
    }

    @Test func `background stops softly, then hard, well before the platform's limit; foreground starts again`() throws
    {
        var machine = running()
        #expect(machine.received(.background, at: start) == [.drain])
        let deadline = try #require(machine.nextDeadline)
        #expect(deadline - start <= .seconds(20))
        #expect(machine.timedOut(at: deadline - .milliseconds(1)) == [])
        #expect(machine.timedOut(at: deadline) == [.cancel])
        #expect(machine.nextDeadline == nil && machine.state == .ending)
        #expect(machine.ended(at: deadline, jitter: 0) == [])
        #expect(machine.state == .stopped)
        #expect(machine.received(.background, at: deadline) == [])
        #expect(machine.received(.foreground, at: deadline) == [.start])
        #expect(machine.received(.foreground, at: deadline) == [])
    }

    @Test func `of a burst only the last counts, whatever the device is doing`() {
        for last in [LifecycleEvent.background, .foreground] {
            var machine = running()
            let burst = [LifecycleEvent.background, .foreground, .background] + (last == .foreground ? [last] : [])
            var actions: [Action] = []
            for (index, event) in burst.enumerated() {
                actions += machine.received(event, at: start + .milliseconds(3 * index))
            }
            #expect(actions == [.drain])
            #expect(machine.ended(at: start + .seconds(1), jitter: 0) == (last == .foreground ? [.start] : []))
        }
    }

    @Test func `a foreground while the stop still runs hastens it, and starts when it has stopped`() throws {
        var machine = running()
        _ = machine.received(.background, at: start)
        #expect(machine.received(.foreground, at: start + .seconds(2)) == [])
        let hasty = try #require(machine.nextDeadline)
        #expect(hasty == start + .seconds(3))
        #expect(machine.timedOut(at: hasty) == [.cancel])
        #expect(machine.received(.foreground, at: hasty) == [])
        #expect(machine.ended(at: hasty, jitter: 0) == [.start])
    }

    @Test func `a background while the device starts stops it as soon as it can hear that`() {
        var machine = LifecycleMachine()
        _ = machine.received(.foreground, at: start)
        #expect(machine.received(.background, at: start) == [.drain])
        // It started all the same: it was told too early.
        #expect(machine.started(at: start) == [.drain])
        #expect(machine.ended(at: start, jitter: 0) == [])
        #expect(machine.state == .stopped)
    }

    @Test func `a start that fails is tried again, later each time, at once when asked, and not in the background`()
        throws
    {
        var machine = LifecycleMachine()
        _ = machine.received(.foreground, at: start)
        var pauses: [Duration] = []
        for _ in 0..<12 {
            #expect(machine.ended(at: start, jitter: 1) == [])
            #expect(machine.state == .waiting)
            let deadline = try #require(machine.nextDeadline)
            pauses.append(deadline - start)
            #expect(machine.timedOut(at: deadline) == [.start])
        }
        #expect(pauses.prefix(4) == [.milliseconds(250), .milliseconds(500), .seconds(1), .seconds(2)])
        #expect(pauses.last == .seconds(30))
        _ = machine.ended(at: start, jitter: 0)
        #expect(machine.nextDeadline == start + .seconds(15))
        #expect(machine.received(.networkFound, at: start) == [.start])
        _ = machine.ended(at: start, jitter: 0)
        #expect(machine.received(.foreground, at: start) == [.start])
        _ = machine.ended(at: start, jitter: 0)
        #expect(machine.received(.background, at: start) == [])
        #expect(machine.nextDeadline == nil && machine.state == .stopped)
    }

    @Test func `a device that ends by itself is started again, and one that ran counts no earlier failures`() throws {
        var machine = running()
        for _ in 0..<3 {
            #expect(machine.ended(at: start, jitter: 1) == [])
            #expect(machine.nextDeadline == start + .milliseconds(250))
            #expect(machine.timedOut(at: start + .seconds(1)) == [.start])
            _ = machine.started(at: start)
        }
    }

    @Test func `terminate ends everything, from every state, once`() throws {
        var machine = running()
        #expect(machine.received(.terminate, at: start) == [.drain])
        #expect(machine.nextDeadline == start + .seconds(1))
        #expect(machine.received(.foreground, at: start) == [])
        #expect(machine.ended(at: start, jitter: 0) == [.finish])
        #expect(machine.received(.foreground, at: start) == [] && machine.state == .finished)

        var stopped = LifecycleMachine()
        #expect(stopped.received(.terminate, at: start) == [.finish])
        var waiting = LifecycleMachine()
        _ = waiting.received(.foreground, at: start)
        _ = waiting.ended(at: start, jitter: 0)
        #expect(waiting.received(.terminate, at: start) == [.finish])
        var stopping = running()
        _ = stopping.received(.background, at: start)
        #expect(stopping.received(.terminate, at: start) == [])
        #expect(stopping.nextDeadline == start + .seconds(1))
        #expect(stopping.ended(at: start, jitter: 0) == [.finish])
    }

    @Test
    func `memory, attention and the network concern a device that runs, and are remembered for one that does not`() {
        var machine = running()
        #expect(machine.received(.memoryWarning, at: start) == [.shrinkCaches])
        #expect(machine.received(.resignActive, at: start) == [.reduce])
        #expect(machine.received(.resignActive, at: start) == [])
        #expect(machine.received(.becomeActive, at: start) == [.resume])
        #expect(machine.received(.networkLost, at: start) == [.suspendNetwork])
        #expect(machine.received(.networkLost, at: start) == [])
        #expect(machine.received(.networkFound, at: start) == [.resumeNetwork])
        _ = machine.received(.background, at: start)
        _ = machine.ended(at: start, jitter: 0)
        #expect(machine.received(.memoryWarning, at: start) == [])
        #expect(machine.received(.resignActive, at: start) == [])
        #expect(machine.received(.networkLost, at: start) == [])
        #expect(machine.received(.foreground, at: start) == [.start])
        #expect(machine.started(at: start) == [.reduce, .suspendNetwork])
    }

    @Test func `whatever comes in whatever order, what is wanted last comes to be, and nothing is done twice`() {
        var random = SeededRandom.fromEnvironment()
        let events: [LifecycleEvent] = [
            .background, .foreground, .memoryWarning, .resignActive, .becomeActive, .networkLost, .networkFound,
        ]
        for _ in 0..<300 {
            var machine = LifecycleMachine()
            var now = start
            // What the device does: nothing, begins, runs, is told to stop.
            var (isOpen, isUp) = (false, false)
            func perform(_ actions: [Action]) {
                for action in actions {
                    switch action {
                    case .start:
                        #expect(!isOpen, "it is started once")
                        isOpen = true
                    case .drain, .cancel, .shrinkCaches, .reduce, .resume, .suspendNetwork, .resumeNetwork:
                        #expect(isOpen, "only a device that is open is told anything: \(action)")
                    case .finish: Issue.record("nobody ended the app")
                    }
                }
            }
            func device(_ machine: inout LifecycleMachine) {
                guard isOpen else { return }
                if !isUp, Bool.random(using: &random) {
                    isUp = true
                    perform(machine.started(at: now))
                } else {
                    (isOpen, isUp) = (false, false)
                    perform(machine.ended(at: now, jitter: 0.5))
                }
            }
            var wanted = false
            for _ in 0..<60 {
                now += .milliseconds(Int.random(in: 0...2_000, using: &random))
                switch Int.random(in: 0..<4, using: &random) {
                case 0: device(&machine)
                case 1: perform(machine.timedOut(at: now))
                default:
                    let event = events[Int.random(in: 0..<events.count, using: &random)]
                    if event == .foreground { wanted = true }
                    if event == .background { wanted = false }
                    perform(machine.received(event, at: now))
                }
            }
            // Then nothing more comes from outside.
            for _ in 0..<8 where machine.state != (wanted ? .running : .stopped) {
                if isOpen, !isUp, machine.state == .starting {
                    isUp = true
                    perform(machine.started(at: now))
                } else if isOpen {
                    (isOpen, isUp) = (false, false)
                    perform(machine.ended(at: now, jitter: 0.5))
                } else {
                    now += .seconds(60)
                    perform(machine.timedOut(at: now))
                }
            }
            #expect(machine.state == (wanted ? .running : .stopped))
        }
    }
}
