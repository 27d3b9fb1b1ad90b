import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire
import Synchronization

/// Runs what other devices ask for a few at a time, each within a time, so that this device's own person is never kept
/// waiting by them.
final class Visitors: Sendable {
    private struct State {
        var queue: VisitorQueue<DeviceID>
        var waiters: [VisitorQueue<DeviceID>.Ticket: Promise<Void>] = [:]
    }

    /// The time that a call may take once it runs.
    private let time: Duration
    private let clock: any Ticker
    private let state: Mutex<State>

    /// Makes a queue of calls.
    init(_ limits: VisitorQueue<DeviceID>.Limits, within time: Duration, on clock: any Ticker = ContinuousClock()) {
        (self.time, self.clock) = (time, clock)
        state = Mutex(State(queue: VisitorQueue(limits)))
    }

    /// The calls that run, and those that wait.
    var counts: (running: Int, waiting: Int) { state.withLock { $0.queue.counts } }

    /// Runs the work of a call; that of this device's own person at once, and as long as it takes.
    ///
    /// - Parameters:
    ///   - caller: Who calls.
    ///   - isPatient: Tries again, a second later, when too many wait already.
    ///   - work: What it asks for; cancelled when its time is up.
    /// - Returns: what the work does.
    /// - Throws: `KithError` `.exhausted` when too many wait already, or when it takes longer than it may; what the work
    ///   throws.
    func run<Result: Sendable>(
        _ caller: Caller, isPatient: Bool = false, _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard let visitor = caller.device else { return try await work() }
        while true {
            do {
                try await enter(visitor)
                break
            } catch let error as KithError where isPatient && error.code == .exhausted {
                try await clock.sleep(until: clock.now + .seconds(1), tolerance: nil)
            }
        }
        defer { leave(visitor) }
        do {
            return try await withDeadline(clock.now + time, on: clock, work)
        } catch let error as KithError where error.code == .timedOut {
            throw KithError(
                .exhausted, "That takes longer than the \(time.components.seconds) s that it may. Ask for less.",
                cause: error)
        }
    }

    private func enter(_ visitor: DeviceID) async throws {
        try Task.checkCancellation()
        let turn = Promise<Void>()
        let admission = state.withLock { state in
            let admission = state.queue.enter(visitor)
            if case .wait(let ticket) = admission { state.waiters[ticket] = turn }
            return admission
        }
        switch admission {
        case .run: return
        case .refuseDevice:
            throw KithError(
                .exhausted, "This device has too many calls waiting there. Try again when some are answered.")
        case .refuseAll:
            throw KithError(
                .exhausted, "Too many calls of other devices wait there. Try again in a moment.")
        case .wait(let ticket):
            do {
                try await turn.valueUnlessCancelled()
            } catch {
                let hasLeft = state.withLock { state in
                    state.waiters[ticket] = nil
                    return state.queue.abandon(ticket)
                }
                // Its turn had come at the same moment: another's now.
                if !hasLeft { leave(visitor) }
                throw error
            }
        }
    }

    private func leave(_ visitor: DeviceID) {
        state.withLock { state in
            state.queue.leave(visitor).flatMap { state.waiters.removeValue(forKey: $0) }
        }?.fulfil(())
    }
}
