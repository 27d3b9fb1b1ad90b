import Synchronization

/// Calls back at given times; one sleeping task serves all of them.
///
/// For deadlines, nearly all of which are called off before they pass: scheduling one and calling it off again is a few
/// steps under a lock, no task and no timer of the system's.
package final class TimerQueue: Sendable {
    /// A call-back that has been scheduled.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    private struct State {
        /// The times, in a heap; of those called off, too, until they pass or are too many.
        var heap: [(time: ContinuousClock.Instant, number: UInt64)] = []
        var bodies: [UInt64: @Sendable () -> Void] = [:]
        var lastNumber: UInt64 = 0
        /// The task that sleeps, and until when.
        var sleeper: (task: Task<Void, Never>, until: ContinuousClock.Instant)?

        mutating func push(_ time: ContinuousClock.Instant, _ number: UInt64) {
            heap.append((time, number))
            var index = heap.count - 1
            while index > 0, heap[index].time < heap[(index - 1) / 2].time {
                heap.swapAt(index, (index - 1) / 2)
                index = (index - 1) / 2
            }
        }

        mutating func pop() {
            heap.swapAt(0, heap.count - 1)
            heap.removeLast()
            var index = 0
            while true {
                var least = index
                for child in [2 * index + 1, 2 * index + 2]
                where child < heap.count && heap[child].time < heap[least].time { least = child }
                if least == index { return }
                heap.swapAt(index, least)
                index = least
            }
        }

        /// Takes those called off out of the heap when they are more than half of it.
        mutating func dropCancelled() {
            guard heap.count >= 64, heap.count > 2 * bodies.count else { return }
            heap.removeAll { bodies[$0.number] == nil }
            // What is in order is a heap.
            heap.sort { $0.time < $1.time }
        }
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> ContinuousClock.Instant
    private let sleep: @Sendable (ContinuousClock.Instant) async throws -> Void

    /// Makes a queue with nothing scheduled, which goes by a clock.
    package init<C: Clock>(on clock: C = ContinuousClock()) where C.Instant == ContinuousClock.Instant {
        now = { clock.now }
        sleep = { try await clock.sleep(until: $0, tolerance: nil) }
    }

    deinit { state.withLock { $0.sleeper }?.task.cancel() }

    /// The number of times kept, of those called off as well.
    var heapCount: Int { state.withLock { $0.heap.count } }

    /// The number of call-backs to come.
    package var count: Int { state.withLock { $0.bodies.count } }

    /// Calls `body` once `time` has come, on a thread of the task pool; at once when it has passed.
    ///
    /// - Parameters:
    ///   - time: The earliest moment.
    ///   - body: Is quick and never blocks: the others wait for it.
    /// - Returns: what calls it off.
    package func schedule(at time: ContinuousClock.Instant, _ body: @escaping @Sendable () -> Void) -> Ticket {
        state.withLock { state in
            state.lastNumber += 1
            let number = state.lastNumber
            state.bodies[number] = body
            state.push(time, number)
            if state.sleeper.map({ time < $0.until }) ?? true {
                state.sleeper?.task.cancel()
                state.sleeper = (sleep(until: time), time)
            }
            return Ticket(number: number)
        }
    }

    /// Calls a call-back off; does nothing when it has been called, or is being.
    package func cancel(_ ticket: Ticket) {
        // Let go of outside the lock: what the body holds may end with it.
        let body = state.withLock { state in
            defer { state.dropCancelled() }
            return state.bodies.removeValue(forKey: ticket.number)
        }
        _ = body
    }

    /// Forgets everything that is scheduled, and lets the sleeping task end.
    package func removeAll() {
        let old = state.withLock { state in
            defer { state = State(lastNumber: state.lastNumber) }
            return state
        }
        old.sleeper?.task.cancel()
    }

    private func sleep(until time: ContinuousClock.Instant) -> Task<Void, Never> {
        Task(name: "kith timers") { [weak self, sleep] in
            var next: ContinuousClock.Instant? = time
            while let time = next {
                do { try await sleep(time) } catch { return }
                next = self?.run(sleptUntil: time)
            }
        }
    }

    /// Calls back what is due; returns when to be back, `nil` when there is nothing more to wait for.
    private func run(sleptUntil time: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        let now = now()
        let (due, next) = state.withLock { state -> ([@Sendable () -> Void], ContinuousClock.Instant?) in
            // Another sleeps by now, until an earlier time.
            guard state.sleeper?.until == time else { return ([], nil) }
            var due: [@Sendable () -> Void] = []
            while let first = state.heap.first {
                if state.bodies[first.number] != nil, first.time > now { break }
                state.pop()
                if let body = state.bodies.removeValue(forKey: first.number) { due.append(body) }
            }
            if let first = state.heap.first {
                state.sleeper?.until = first.time
            } else {
                state.sleeper = nil
            }
            return (due, state.heap.first?.time)
        }
        for body in due { body() }
        return next
    }
}
