/// Decides which frames are sent and how large they may be, from the delay that sent frames meet.
///
/// A viewer says when the first and the last bytes of each frame arrived. How long the frame took between them says how
/// fast the way is; how long its first bytes took, less the shortest time that any took lately, is the time spent in
/// queues. Only differences of the viewer's clock count, so that the two ends' clocks need not agree. Queues that are long
/// and growing lower the rate below what the way carries, until they are gone.
///
/// What is on the way and unconfirmed is limited to a round trip and a frame's time, so that at most one frame waits
/// anywhere: at this end, and there the newest replaces it. Input does not pass through here and never waits; what is exact
/// does not wait for video, only video for all.
///
///     offer ─▶ send ─▶ sent(bytes) ─▶ … acknowledged(first, last)
///           ─▶ wait: offer it, or a newer one, again then or when something is acknowledged
///           ─▶ drop: a newer one was offered, or it is too old: capture again
package struct RateControl {
    /// The answer about one frame.
    @frozen package enum Answer: Hashable, Sendable {
        /// Send it, in not more than so many bytes if that can be chosen.
        case send(bytes: Int)
        /// Keep it until then; a newer frame replaces it.
        case wait(until: ContinuousClock.Instant)
        /// Forget it.
        case drop
    }

    /// The age at which a frame is not worth sending.
    package static let lateAfter = Duration.milliseconds(100)
    /// The queueing delay that is fought, and the one below which the rate may grow.
    package static let highDelay = Duration.milliseconds(40)
    package static let lowDelay = Duration.milliseconds(15)
    /// The fewest bytes of a frame that tell how fast the way is, and those of its first packet, which do not.
    package static let trainBytes = 3600
    package static let packetBytes = 1200
    /// The time over which what arrived is looked at, and the one that a frame takes at least for its speed to be believed
    /// by itself: what waited for a lost packet, or for a viewer that was busy, seems to come at once.
    package static let window = Duration.milliseconds(500)
    package static let longTrain = Duration.milliseconds(100)
    /// The bytes of a first frame, as many as a transport sends at once (RFC 9002 §7.2).
    package static let probeBytes = 12_000

    private struct Sent {
        var frame: UInt64
        var bytes: Int
        var at: ContinuousClock.Instant
        var isVideo: Bool
        /// It may be on its way yet; false once nothing was heard for long.
        var isInFlight = true
    }

    /// A frame that arrived, on the viewer's clock.
    private struct Arrival {
        var bytes: Int
        var first: Duration
        var last: Duration
    }

    /// Bytes per second that frames may have now.
    package var rate: Double { min(max((capacity ?? initial) * share, rates.lowerBound), rates.upperBound) }
    /// True once something arrived: ``rate`` is no mere guess then.
    package var isKnown: Bool { roundTrips.least != nil }
    /// The time frames wait on their way, as last estimated.
    package private(set) var queueDelay = Duration.zero
    /// The time from a frame's sending to the word of its arrival, at its shortest lately.
    package var roundTrip: Duration { roundTrips.least ?? .milliseconds(100) }

    private let initial: Double
    private let rates: ClosedRange<Double>
    private let frameTime: Duration
    private let epoch: ContinuousClock.Instant
    private var newest: UInt64?
    /// Those that were not confirmed.
    private var flight: [Sent] = []
    /// Those of the last window.
    private var arrivals: [Arrival] = []
    private var delays = SlidingMinimum()
    private var roundTrips = SlidingMinimum()
    private var lastQueue = Duration.zero
    /// Bytes per second that the way carries; `nil` until a frame was long enough to tell.
    private var capacity: Double?
    /// The share of the capacity that is used, 0.3…0.95.
    private var share = 0.95
    private var lastDecrease: ContinuousClock.Instant?

    /// Begins carefully: `rate` bytes per second, within `rates`, for `framesPerSecond` frames.
    package init(
        rate: Double = 125_000, rates: ClosedRange<Double> = 10_000...125_000_000, framesPerSecond: Int = 60,
        at now: ContinuousClock.Instant
    ) {
        epoch = now
        initial = rate
        self.rates = rates
        frameTime = .seconds(1) / max(1, framesPerSecond)
    }

    /// The bytes sent and not known to have arrived.
    package var bytesInFlight: Int { flight.reduce(0) { $0 + ($1.isInFlight ? $1.bytes : 0) } }

    /// Answers whether a frame is sent; `frame` grows with each capture.
    package mutating func offer(
        frame: UInt64, isVideo: Bool = false, capturedAt: ContinuousClock.Instant, at now: ContinuousClock.Instant
    ) -> Answer {
        if let newest, frame < newest { return .drop }
        newest = frame
        if now - capturedAt > Self.lateAfter { return .drop }
        // Nothing heard for long: what is on the way no longer counts, or one lost word would stop the picture.
        // It may be confirmed yet, and then tells how slow the way is.
        if let oldest = flight.first(where: \.isInFlight),
            now - oldest.at > min(max(.seconds(1), roundTrip * 8), .seconds(3))
        {
            for index in flight.indices { flight[index].isInFlight = false }
            share = max(0.3, share * 0.5)
        }
        let before = flight.reduce(0) { $0 + ($1.isInFlight && (isVideo || !$1.isVideo) ? $1.bytes : 0) }
        let (limit, inFlight) = (allowance, Double(before))
        guard before == 0 || inFlight < limit else {
            let clear = Duration.seconds((inFlight - limit) / rate) + .milliseconds(1)
            return .wait(until: now + min(clear, Self.lateAfter / 2))
        }
        let share = capacity == nil ? Double(Self.probeBytes) : rate * (frameTime / .seconds(1))
        return .send(bytes: max(Self.trainBytes, Int(min(limit - inFlight, share))))
    }

    /// Takes in that a frame was handed to the transport.
    package mutating func sent(frame: UInt64, isVideo: Bool = false, bytes: Int, at now: ContinuousClock.Instant) {
        flight.append(Sent(frame: frame, bytes: max(0, bytes), at: now, isVideo: isVideo))
        // More than there can be in a second were never confirmed: a peer that says nothing costs no memory.
        if flight.count > 256 { flight.removeFirst() }
    }

    /// Takes in that a frame arrived whole.
    ///
    /// `first` and `last` are the times of its first and last bytes on the viewer's clock, whose zero may be anywhere.
    /// Times that make no sense are not counted.
    package mutating func acknowledged(
        frame: UInt64, first: Duration, last: Duration, at now: ContinuousClock.Instant
    ) {
        guard let index = flight.firstIndex(where: { $0.frame == frame }) else { return }
        let sent = flight[index]
        // Parts of a long frame of video may still be on their way when what was sent later has come.
        flight.removeAll { $0.frame <= frame && $0.isVideo == sent.isVideo }
        roundTrips.insert(now - sent.at, at: now)
        let sensible = Duration.seconds(-1_000_000_000)...Duration.seconds(1_000_000_000)
        guard sensible.contains(first), sensible.contains(last), first <= last else { return }
        measureCapacity(Arrival(bytes: sent.bytes, first: first, last: last))
        let delay = first - (sent.at - epoch)
        delays.insert(delay, at: now)
        queueDelay = delay - (delays.least ?? delay)
        adapt(at: now)
    }

    private mutating func measureCapacity(_ arrival: Arrival) {
        arrivals.removeAll { $0.last + Self.window < arrival.last }
        if arrivals.count < 256 { arrivals.append(arrival) }
        // A frame of few packets says nothing about the way's speed.
        guard arrival.bytes >= Self.trainBytes else { return }
        let time = arrival.last - arrival.first
        var sample = Double(arrival.bytes - Self.packetBytes) / max(time / .seconds(1), 0.000_01)
        guard let known = capacity else {
            capacity = min(sample, rates.upperBound)
            return
        }
        if sample > known, time < Self.longTrain {
            sample = max(known, min(sample, arrivedLately(at: arrival.last) * 1.5))
        }
        // Slower is believed sooner than faster.
        let weight = sample < known ? 0.4 : 0.2
        capacity = min(max(known + (sample - known) * weight, rates.lowerBound), rates.upperBound)
    }

    /// Bytes per second that arrived in the last window.
    private func arrivedLately(at now: Duration) -> Double {
        let begin = now - Self.window
        let bytes = arrivals.reduce(0.0) { sum, arrival in
            guard arrival.first < begin else { return sum + Double(arrival.bytes) }
            return sum + Double(arrival.bytes) * ((arrival.last - begin) / (arrival.last - arrival.first))
        }
        return bytes / (Self.window / .seconds(1))
    }

    private mutating func adapt(at now: ContinuousClock.Instant) {
        let isGrowing = queueDelay >= lastQueue
        lastQueue = queueDelay
        if queueDelay > Self.highDelay, isGrowing || queueDelay > Self.highDelay * 2 {
            // Once a round trip: what was sent before the last change does not know of it.
            guard lastDecrease.map({ now - $0 >= roundTrip }) ?? true else { return }
            share = max(0.3, share * 0.85)
            lastDecrease = now
        } else if queueDelay < Self.lowDelay {
            share = min(0.95, share * 1.02)
        }
    }

    /// The bytes that may be on the way: what fits in a round trip and the time of one frame.
    private var allowance: Double { rate * ((roundTrip + max(frameTime, .milliseconds(20))) / .seconds(1)) }
}

/// The least of the values of the last five to ten seconds.
private struct SlidingMinimum {
    private var current: Duration?
    private var previous: Duration?
    private var began: ContinuousClock.Instant?

    var least: Duration? {
        guard let current, let previous else { return current ?? previous }
        return min(current, previous)
    }

    mutating func insert(_ value: Duration, at now: ContinuousClock.Instant) {
        if began.map({ now - $0 > .seconds(5) }) ?? true {
            (previous, current, began) = (current, nil, now)
        }
        current = current.map { min($0, value) } ?? value
    }
}
