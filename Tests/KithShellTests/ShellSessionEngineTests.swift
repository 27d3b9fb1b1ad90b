import KithAPI
import KithWire
import Testing

@testable import KithShell

@Suite struct ShellSessionEngineTests {
    private let start = ContinuousClock.now
    private let lost = KithError(.closed, "The connection ended.")

    private func engine(
        isTerminal: Bool = true, patience: Duration? = .seconds(60), position: UInt64 = 0
    ) -> ShellSessionEngine {
        ShellSessionEngine(
            isTerminal: isTerminal, patience: patience, position: position, size: Shell.Size(columns: 80, rows: 24))
    }

    @Test func `output is acknowledged once it is dealt with, and not byte by byte`() throws {
        var engine = engine()
        let half = [UInt8](repeating: 1, count: 4 << 10)
        for _ in 0..<2 {
            guard case .give(.output(half), nil) = try engine.received(.output(half), at: start) else {
                Issue.record("output is given")
                return
            }
        }
        // Asking for more says that what came is dealt with.
        let (first, second) = (engine.acknowledgement(), engine.acknowledgement())
        #expect(first == .received(8 << 10) && second == nil)
        _ = try engine.received(.errorOutput(half), at: start)
        _ = try engine.received(.output(half), at: start)
        guard case .give(.output, .received(16384)) = try engine.received(.output([1]), at: start) else {
            Issue.record("the next output acknowledges the last")
            return
        }
    }

    @Test func `input the device has not got is sent again, the end of it as well`() throws {
        var engine = engine(isTerminal: false)
        let isSent = engine.typed([1, 2, 3, 4], at: start)
        #expect(isSent)
        guard case .grant(1) = try engine.received(.taken(1), at: start) else {
            Issue.record("what was taken makes room")
            return
        }
        guard case .interrupt = engine.lost(lost, at: start) else {
            Issue.record("a kept session is looked for")
            return
        }
        // Nothing is sent meanwhile, and nothing is lost.
        let (isTyped, isEnded) = (engine.typed([5], at: start), engine.endInput())
        #expect(!isTyped && !isEnded && !engine.canSend)
        let again = engine.attached(position: 7, inputPosition: 3)
        #expect(again?.input == [4, 5] && again?.hasEnded == true)
        #expect(engine.isInterrupted, "what is sent again comes before anything else")
        engine.resumed()
        #expect(engine.canSend && engine.inputPosition == 5)
        guard case .found = engine.search(at: start) else {
            Issue.record("it is found")
            return
        }
    }

    @Test func `the end of a terminal's input is a key, which is not typed twice`() {
        var engine = engine()
        let isSent = engine.endInput()
        _ = engine.lost(lost, at: start)
        let again = engine.attached(position: 0, inputPosition: 0)
        #expect(isSent && again?.hasEnded == false)
    }

    @Test func `a device is looked for at ever longer intervals, and no longer than it keeps the shell`() {
        var engine = engine(patience: .seconds(60), position: 9)
        _ = engine.resize(Shell.Size(columns: 100, rows: 30))
        _ = engine.lost(lost, at: start)
        var pauses: [Duration] = []
        for _ in 0..<8 {
            guard case .attach(let pause, 9, Shell.Size(columns: 100, rows: 30)) = engine.search(at: start) else {
                break
            }
            pauses.append(pause)
            engine.searchFailed()
        }
        #expect(
            pauses == [0, 200, 400, 800, 1_600, 3_000, 3_000, 3_000].map { .milliseconds($0) })
        guard case .giveUp(let error) = engine.search(at: start + .seconds(57)) else {
            Issue.record("it is over by the time of the next attempt")
            return
        }
        #expect(error.code == .closed)
    }

    @Test func `what nothing mends ends the session`() throws {
        var kept = engine()
        guard case .fail = kept.lost(KithError(.denied, "No."), at: start) else {
            Issue.record("a refusal is not an interruption")
            return
        }
        var unkept = engine(patience: nil)
        guard case .fail = unkept.lost(lost, at: start) else {
            Issue.record("a session that is not kept is gone with its connection")
            return
        }
        // The device's last word to an end it lets go of, as when another took its place.
        guard case .fail(let error) = try kept.received(.ended(.cancelled, message: "Taken over."), at: start) else {
            Issue.record("an end that is let go of hears why")
            return
        }
        #expect(error.code == .cancelled && error.message == "Taken over.")
    }

    @Test func `a session that was left looks for nothing, and one that has exited has nothing to leave`() throws {
        var left = engine()
        let (first, second) = (left.leave(), left.leave())
        #expect(first && !second)
        guard case .end = left.lost(lost, at: start), case .end = left.search(at: start) else {
            Issue.record("whoever left is not led back")
            return
        }
        let again = left.attached(position: 0, inputPosition: 0)
        #expect(again?.input == nil)
        var exited = engine()
        guard case .exit = try exited.received(.exited(.status(0)), at: start) else {
            Issue.record("the exit is given")
            return
        }
        let (leaves, ends) = (exited.leave(), exited.endInput())
        #expect(exited.hasExited && !leaves && !exited.canSend && !ends)
    }

    @Test func `an echo tells the round trip of exactly what was typed`() throws {
        var engine = engine()
        #expect(engine.unansweredSince == nil)
        _ = engine.typed([1], at: start)
        _ = engine.typed([2, 3], at: start + .milliseconds(10))
        #expect(engine.unansweredSince == start)
        guard
            case .give(.echoed(3, let roundTrip), nil) = try engine.received(
                .echoed(input: 3, held: .milliseconds(5)), at: start + .milliseconds(35))
        else {
            Issue.record("an echo is given")
            return
        }
        #expect(roundTrip == .milliseconds(20) && engine.unansweredSince == nil)
    }

    @Test func `a position no shell reaches, and a caller's own frame, are refused`() {
        var engine = engine()
        #expect(throws: KithError(.invalid, "")) { _ = try engine.received(.jump(.max), at: start) }
        #expect(throws: KithError(.invalid, "")) { _ = try engine.received(.input([1]), at: start) }
        #expect(throws: KithError(.invalid, "")) { try ShellSessionEngine.check(ShellFrame.lastPosition + 1) }
    }
}
