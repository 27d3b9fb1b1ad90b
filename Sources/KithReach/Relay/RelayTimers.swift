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
        /// The longest silence, to which it grows while the link survives; `nil` when it always is the same.
        package var longestSilence: Duration?

        /// A device's: pings at once and after 40 s of silence, waits 5 s, later 3 round trips within 0.5…5 s.
        ///
        /// Routers and proxies forget a quiet TCP connection after a minute at the earliest.
        package static let client = Times(
            silence: .seconds(40), jitter: .zero ... .zero, firstAnswer: .seconds(5), roundTrips: 3,
            answer: .milliseconds(500) ... .seconds(5), pingsAtOnce: true)
        /// A relay's: pings after 60 s and 5…10 s of silence, so that devices are first, waits 10 s.
        package static let server = Times(
            silence: .seconds(60), jitter: .seconds(5) ... .seconds(10), firstAnswer: .seconds(10), roundTrips: 3,
            answer: .seconds(10) ... .seconds(10), pingsAtOnce: false)
        /// A device's that saves its battery: pings after 60 to 240 s of silence, and gives a radio time to wake.
        package static let savingClient = Times(
            silence: .seconds(60), jitter: .zero ... .zero, firstAnswer: .seconds(10), roundTrips: 3,
            answer: .seconds(5) ... .seconds(10), pingsAtOnce: true, longestSilence: .seconds(240))
        /// A relay's towards such a device: the same and 5…10 s, so that the device is first and nobody pings twice.
        package static let savingServer = Times(
            silence: .seconds(60), jitter: .seconds(5) ... .seconds(10), firstAnswer: .seconds(20), roundTrips: 3,
            answer: .seconds(20) ... .seconds(20), pingsAtOnce: false, longestSilence: .seconds(240))

        /// The name of the header by which a device asks a relay for silence when it opens the WebSocket.
        ///
        /// Its value is the longest silence in seconds. Relays of other kinds do not know it, and ping as they always do.
        package static let header = "Kith-Relay-Silence"

        /// The value of the header; `nil` when the relay need not be asked.
        package var headerValue: String? { longestSilence.map { String($0.components.seconds) } }

        /// A relay's times for a client that sent the header with these values: the usual ones unless they ask for more.
        package static func asked(_ values: [String], usual: Times, saving: Times) -> Times {
            guard values.count == 1, let value = values.first, value.utf8.count <= 5, let seconds = UInt16(value),
                seconds >= 60
            else { return usual }
            var times = saving
            times.longestSilence = saving.longestSilence.map { min(.seconds(Int(seconds)), $0) }
            return times
        }
    }

    private let times: Times
    /// The silence to wait for, where it grows.
    package private(set) var pace: RelayPace?
    /// The silence before the ping that waits, where it was as long as was to be tried.
    private var tried: Duration?
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
    ///
    /// `pace` is what an earlier connection found out, where the silence grows.
    package init(
        _ times: Times, pace: RelayPace? = nil, at now: ContinuousClock.Instant,
        using random: inout some RandomNumberGenerator
    ) {
        self.times = times
        if let longest = times.longestSilence {
            self.pace = pace ?? RelayPace(times.silence...max(times.silence, longest))
        }
        lastHeard = now
        pingsNow = times.pingsAtOnce
        silence = Self.silence(self.pace?.silence ?? times.silence, times, &random)
    }

    private static func silence(
        _ least: Duration, _ times: Times, _ random: inout some RandomNumberGenerator
    ) -> Duration {
        let (low, high) = (times.jitter.lowerBound / .seconds(1), times.jitter.upperBound / .seconds(1))
        return least + .seconds(low < high ? Double.random(in: low...high, using: &random) : low)
    }

    /// Notes that something arrived.
    package mutating func heard(at now: ContinuousClock.Instant) {
        // Something always comes in the end: only after a silence is the link known to bear one.
        if let before = pace?.silence {
            pace?.survived(now - lastHeard)
            if let after = pace?.silence { silence += after - before }
        }
        (lastHeard, tried) = (max(lastHeard, now), nil)
    }

    /// The device is on another network: what links bore elsewhere says nothing.
    package mutating func networkChanged() { (pace, tried) = (pace.map { RelayPace($0.bounds) }, nil) }

    /// Notes that the link has ended, or that the other end did not answer; the pace is for the next one.
    package mutating func ended() {
        if let tried { pace?.died(after: tried) }
        tried = nil
    }

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
        // A machine that slept does not know what became of the link, nor of what else.
        let isOnTime = now >= due && now - due < times.answer.upperBound
        tried = pace != nil && isOnTime ? now - lastHeard : nil
        pingsNow = false
        silence = Self.silence(pace?.silence ?? times.silence, times, &random)
        return .ping(bytes)
    }
}

/// The pauses between attempts to connect to a relay.
package struct RelayBackoff: Hashable, Sendable {
    /// The first pause at most.
    package static let first = Duration.milliseconds(10)
    /// The longest, as a rule.
    package static let longest = Duration.seconds(16)
    /// The first pauses that are long enough after a link has ended, as the relay may be restarting.
    static let sufficient = Duration.milliseconds(250)

    private let longest: Duration
    private var pause = Self.first

    /// Starts with the shortest pause.
    package init(longest: Duration = Self.longest) { self.longest = longest }

    /// The next pause, half of it at random; twice as long each time.
    ///
    /// `away` is the time since a link to the relay has ended that was open; `nil` when none was. A relay that restarts is
    /// missed for a quarter of that time at most, or for a quarter of a second.
    package mutating func next(
        away: Duration? = nil, using random: inout some RandomNumberGenerator
    ) -> Duration {
        defer { pause = min(pause * 2, longest) }
        let bound = away.map { max($0 / 4, Self.sufficient) } ?? pause
        return min(pause, bound) * Double.random(in: 0.5...1, using: &random)
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
