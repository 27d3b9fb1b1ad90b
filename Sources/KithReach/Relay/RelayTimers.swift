/// Decides when an end of a relay connection pings, and when the other end is dead.
package struct RelayKeepAlive: Hashable, Sendable {
    /// The next step.
    package enum Action: Hashable, Sendable {
        /// Ask again at this time, or when something was heard.
        case wait(until: ContinuousClock.Instant)
        /// Send a ping of these bytes, then ask again.
        case ping([UInt8])
        /// The other end does not answer.
        case dead
    }

    /// The times an end keeps.
    package struct Times: Hashable, Sendable {
        /// The silence after which it pings.
        package var silence: Duration
        /// What is added to the silence, at random, so that pings do not come together.
        package var jitter: ClosedRange<Duration>
        /// The time it waits for the first answer.
        package var firstAnswer: Duration
        /// The time it waits for an answer, in round trips, and the bounds of that.
        package var roundTrips: Int
        /// The bounds of the time it waits for an answer.
        package var answer: ClosedRange<Duration>
        /// True when it pings at once, to know the round trip.
        package var pingsAtOnce: Bool

        /// A device's: pings at once and after 15 s of silence, waits 5 s, later 3 round trips within 0.5…5 s.
        package static let client = Times(
            silence: .seconds(15), jitter: .zero ... .zero, firstAnswer: .seconds(5), roundTrips: 3,
            answer: .milliseconds(500) ... .seconds(5), pingsAtOnce: true)
        /// A relay's: pings after 15 s and 1…5 s of silence, waits 10 s.
        package static let server = Times(
            silence: .seconds(15), jitter: .seconds(1) ... .seconds(5), firstAnswer: .seconds(10), roundTrips: 3,
            answer: .seconds(10) ... .seconds(10), pingsAtOnce: false)
    }

    private let times: Times
    private var lastHeard: ContinuousClock.Instant
    /// The silence after which it pings next.
    private var silence: Duration
    /// True when it pings without waiting for silence.
    private var pingsNow: Bool
    /// A ping that is not answered.
    private struct Waiting: Hashable {
        let bytes: [UInt8]
        let sent: ContinuousClock.Instant
    }
    private var waiting: Waiting?
    /// The last round trip measured.
    package private(set) var roundTrip: Duration?

    /// Starts when the connection does.
    package init(
        _ times: Times, at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        self.times = times
        lastHeard = now
        pingsNow = times.pingsAtOnce
        silence = Self.silence(times, &random)
    }

    private static func silence(_ times: Times, _ random: inout some RandomNumberGenerator) -> Duration {
        let (low, high) = (times.jitter.lowerBound / .seconds(1), times.jitter.upperBound / .seconds(1))
        return times.silence + .seconds(low < high ? Double.random(in: low...high, using: &random) : low)
    }

    /// Notes that something arrived.
    package mutating func heard(at now: ContinuousClock.Instant) { lastHeard = max(lastHeard, now) }

    /// Takes a pong; returns the round trip when it answers the ping that waits.
    package mutating func received(pong bytes: [UInt8], at now: ContinuousClock.Instant) -> Duration? {
        heard(at: now)
        guard let waiting, waiting.bytes == bytes else { return nil }
        self.waiting = nil
        roundTrip = now - waiting.sent
        return roundTrip
    }

    /// Pings now, whatever was heard: the network has changed, or the machine slept.
    package mutating func check() { if waiting == nil { pingsNow = true } }

    /// The time an answer may take.
    private var patience: Duration {
        guard let roundTrip else { return times.firstAnswer }
        return min(max(roundTrip * times.roundTrips, times.answer.lowerBound), times.answer.upperBound)
    }

    /// The next step at `now`.
    package mutating func next(
        at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) -> Action {
        if let waiting {
            let end = waiting.sent + patience
            if now < end { return .wait(until: end) }
            // Something else arrived since the ping: the other end lives, and the pong stands behind it.
            guard lastHeard > waiting.sent else { return .dead }
            self.waiting = nil
        }
        let due = lastHeard + silence
        guard pingsNow || now >= due else { return .wait(until: due) }
        let bytes = (0..<RelayFrame.pingLength).map { _ in UInt8.random(in: 0...255, using: &random) }
        waiting = Waiting(bytes: bytes, sent: now)
        pingsNow = false
        silence = Self.silence(times, &random)
        return .ping(bytes)
    }
}

/// The pauses between attempts to connect to a relay.
package struct RelayBackoff: Hashable, Sendable {
    /// The first pause at most.
    package static let first = Duration.milliseconds(10)
    /// The longest.
    package static let longest = Duration.seconds(16)

    private var pause = Self.first

    /// Starts with the shortest pause.
    package init() {}

    /// The next pause, half of it at random; twice as long each time.
    package mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        defer { pause = min(pause * 2, Self.longest) }
        return pause * Double.random(in: 0.5...1, using: &random)
    }

    /// Starts again: the relay has answered.
    package mutating func reset() { pause = Self.first }
}

/// When the clients of a relay that restarts are to come back: not all at once.
package struct RestartSchedule: Hashable, Sendable {
    /// The time it takes until the relay is there again, in milliseconds.
    package static let away: UInt32 = 100
    /// The time clients try for, in milliseconds.
    package static let tryFor: UInt32 = 30_000

    private let clients: Int

    /// Makes a schedule for so many clients.
    package init(clients: Int) { self.clients = max(0, clients) }

    /// The time over which they come back, in milliseconds: one each, 10 s at the most.
    package var spread: UInt32 { UInt32(min(clients, 10_000)) }

    /// The frame for one client.
    package func frame(using random: inout some RandomNumberGenerator) -> RelayFrame {
        .restarting(reconnectIn: Self.away + UInt32.random(in: 0...spread, using: &random), tryFor: Self.tryFor)
    }
}
