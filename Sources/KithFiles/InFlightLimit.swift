import KithIO
import KithWire
import Synchronization

/// The number of bytes a sender may have on their way that the receiver has not taken in yet.
///
/// Whatever is on its way when an end dies has to be sent again, and until then it takes memory. What a path needs to
/// be full is what passes in one of its round trips; twice that, and a little more, keeps a short one full when the
/// receiver's disk is slow for a moment, and five times that a long one, where a lost packet holds up all behind it for as
/// long again. The buffers of the transport below may hold far more.
///
/// A pure state machine: it reads no clock.
struct InFlightLimit: Sendable {
    /// The least it is on a short path and on a long one; until a path is known it is taken for long.
    static let (minimum, longMinimum): (UInt64, UInt64) = (5 << 18, 4 << 20)
    /// From which delay on a path is long.
    static let long = Duration.milliseconds(20)
    /// The receiver confirms what it has taken in at least this often, in bytes.
    static let step: UInt64 = 256 << 10

    /// The time for which the shortest delay is believed: the first ones are those of a path still being probed, and
    /// later it may have become another.
    private static let firstMemory = Duration.seconds(1)
    private static let memory = Duration.seconds(30)
    /// The bytes that may be on their way while the delay is measured anew.
    private static let little = 2 * step
    private static let shortestPeriod = Duration.milliseconds(50)
    private static let periods = 8

    private(set) var written: UInt64 = 0
    private(set) var taken: UInt64 = 0
    /// The bytes that may be written and not taken in.
    private(set) var limit = longMinimum

    private var marks = Ring<(end: UInt64, time: ContinuousClock.Instant)>()
    /// The shortest time from a byte's writing to the word that it was taken in, and until when it is believed.
    private var delay: (shortest: Duration, until: ContinuousClock.Instant)?
    /// Set while what is on its way is let arrive, so that the delay of what follows is the path's alone: from which
    /// byte on it counts, and the shortest there.
    private var measuring: (from: UInt64, shortest: Duration?)?
    private var period: (start: ContinuousClock.Instant, taken: UInt64)?
    /// The rates of the last periods, in bytes a second.
    private var rates: [Double] = []

    /// True while more may be written.
    var hasRoom: Bool { written - taken < (measuring == nil ? limit : Self.little) }

    /// Notes that `count` bytes were written.
    mutating func sent(_ count: Int, at now: ContinuousClock.Instant) {
        written += UInt64(count)
        marks.append((written, now))
    }

    /// Notes how much the receiver has taken in altogether.
    ///
    /// - Throws: `.invalid` for more than was written, or less than before.
    mutating func acknowledged(_ total: UInt64, at now: ContinuousClock.Instant) throws(KithError) {
        guard total >= taken, total <= written else {
            throw KithError(.invalid, "The other end confirmed more than was sent.")
        }
        taken = total
        var newest: (end: UInt64, time: ContinuousClock.Instant)?
        while let mark = marks.first, mark.end <= total {
            newest = mark
            _ = marks.popFirst()
        }
        if let newest { measure(now - newest.time, of: newest.end, at: now) }
        guard let begun = period else {
            period = (now, total)
            return
        }
        let time = now - begun.start
        guard let delay, time >= max(Self.shortestPeriod, delay.shortest) else { return }
        rates.append(Double(total - begun.taken) / (time / .seconds(1)))
        if rates.count > Self.periods { rates.removeFirst() }
        period = (now, total)
        let path = (rates.max() ?? 0) * (delay.shortest / .seconds(1))
        limit =
            delay.shortest < Self.long
            ? max(Self.minimum, UInt64(min(2 * path, 1e12)) + (3 << 18))
            : max(Self.longMinimum, UInt64(min(5 * path, 1e12)) + (1 << 20))
    }

    /// Notes how long the answer to our hello took: the delay of the path alone.
    ///
    /// With it nothing needs to be let arrive to know the delay, which costs a transfer of seconds a tenth of its rate.
    mutating func answered(after time: Duration, at now: ContinuousClock.Instant) {
        guard delay.map({ time < $0.shortest }) ?? true else { return }
        delay = (time, now + Self.memory)
    }

    /// The shortest delay that is known.
    var shortestDelay: Duration? { delay?.shortest }

    private mutating func measure(_ time: Duration, of end: UInt64, at now: ContinuousClock.Instant) {
        if let (from, shortest) = measuring {
            guard end > from else { return }
            let least = min(shortest ?? time, time)
            // After as much as may be on its way, nothing of before is in between.
            if end > from + Self.little {
                delay = (least, now + Self.memory)
                measuring = nil
            } else {
                measuring = (from, least)
            }
        } else if let known = delay {
            if now > known.until { measuring = (written, nil) }
            if time < known.shortest { delay = (time, known.until) }
        } else {
            delay = (time, now + Self.firstMemory)
        }
    }
}

/// Lets a writer go on as far as its ``InFlightLimit`` allows.
final class InFlightGate: Sendable {
    private struct State {
        var limit = InFlightLimit()
        var isOn = false
        var isOver = false
        /// When our hello was written, until it is answered.
        var asked: ContinuousClock.Instant?
        var hasWritten = false
        var writer: Waiter<Void>?
    }

    private let state = Mutex(State())
    /// Another stream over the same path, whose delay is known earlier.
    private let sibling: InFlightGate?

    init(beside sibling: InFlightGate? = nil) { self.sibling = sibling }

    /// Begins to limit: the receiver confirms what it takes in.
    func begin() { state.withLock { $0.isOn = true } }

    /// Notes what was written.
    func sent(_ count: Int) {
        let known = sibling.flatMap { $0.state.withLock { $0.limit.shortestDelay } }
        state.withLock { state in
            let now = ContinuousClock.now
            if !state.hasWritten {
                state.hasWritten = true
                if sibling == nil {
                    state.asked = now
                } else if let known {
                    state.limit.answered(after: known, at: now)
                }
            }
            state.limit.sent(count, at: now)
        }
    }

    /// Notes how much the receiver has confirmed altogether.
    func acknowledged(_ total: UInt64) throws {
        let writer = try state.withLock { state throws -> Waiter<Void>? in
            let now = ContinuousClock.now
            // The first word is the answer to our hello.
            if let asked = state.asked { state.limit.answered(after: now - asked, at: now) }
            state.asked = nil
            try state.limit.acknowledged(total, at: now)
            guard state.limit.hasRoom else { return nil }
            return state.writer.take()
        }
        writer?.resume()
    }

    /// Waits until more may be written; not when the task is cancelled, or nothing comes from the receiver any more.
    func waitForRoom() async {
        await state.wait(in: { $1(&$0.writer) }) { !$0.isOn || $0.isOver || $0.limit.hasRoom }
    }

    /// Notes that the receiver confirms no more: nobody waits from now on.
    func end() {
        state.withLock { $0.isOver = true }
        wake()
    }

    private func wake() {
        let writer = state.withLock { state in
            state.writer.take()
        }
        writer?.resume()
    }
}
