/// CUBIC (RFC 9438), with HyStart++ (RFC 9406) in its first slow start, paced.
///
/// ```
///  window                      ╭─── probes for more
///    W_max ─ ─ ─ ─ ─ ─ ╭───────╯
///                  ╭───╯  levels off where the last loss came
///                ╭─╯
///  0.7 W_max ────╯
///                        K        time since the loss
/// ```
/// Windows are counted in datagrams, as the RFC's formulas have them, times in seconds.
package struct Cubic: CongestionController {
    static let c = 0.4
    static let beta = 0.7
    /// The slope of Reno that takes as much as this does with its beta (§4.3).
    static let alpha = slope(beta: beta)

    /// The state a loss changes, kept to be put back if the loss was spurious (§4.9).
    private struct Course: Hashable, Sendable {
        var window: Double
        var threshold = Double.infinity
        var maximum = 0.0
        var origin = 0.0
        var reno = 0.0
        var previous = 0.0
        var epoch: Timestamp?
    }

    /// The share of the window that a loss leaves.
    private let beta: Double
    private let alpha: Double

    private var datagramSize: Int
    private var smoothedRTT: Int64
    private var course: Course
    private var before: Course?
    private var recoveryStart: Timestamp?
    private var lastGrowth = Timestamp.zero
    private var isWindowLimited = false
    private var hystart = HyStart()

    package init(datagramSize: Int, initialRTT: Int64) {
        self.datagramSize = datagramSize
        smoothedRTT = initialRTT
        (beta, alpha) = (Self.beta, Self.alpha)
        course = Course(window: Double(NewReno.initialWindow(datagramSize)) / Double(datagramSize))
    }

    /// Starts in congestion avoidance with a window of so many bytes, of which a loss leaves the share `beta`.
    init(datagramSize: Int, smoothedRTT: Int64, window: Int, beta: Double) {
        self.datagramSize = datagramSize
        self.smoothedRTT = smoothedRTT
        self.beta = beta
        alpha = Self.slope(beta: beta)
        course = Course(window: max(Double(window) / Double(datagramSize), Self.minimum))
        course.threshold = course.window
    }

    private static func slope(beta: Double) -> Double { 3 * (1 - beta) / (1 + beta) }

    /// The time from a loss until the window is back at its maximum, in nanoseconds (K in §4.2).
    var timeToMaximum: Int64 { Int64(course.origin * 1e9) }

    /// Takes back what the window grew beyond so many bytes.
    mutating func limit(to window: Int) {
        course.window = min(course.window, max(Double(window) / Double(datagramSize), Self.minimum))
    }

    package var congestionWindow: Int { Int(course.window * Double(datagramSize)) }

    private var isSlowStart: Bool { course.window < course.threshold }

    package var pacingRate: Int64 {
        let gain = isSlowStart ? 2.0 : 1.25
        return Int64(gain * Double(congestionWindow) * 1e9 / Double(max(smoothedRTT, 1)))
    }

    package var isHoldingBack: Bool { false }

    private static let minimum = 2.0

    package mutating func sent(size: Int, inFlight: Int, isApplicationLimited: Bool, at now: Timestamp) {
        isWindowLimited = inFlight + 3 * datagramSize > congestionWindow || !isApplicationLimited
    }

    package mutating func acknowledged(_ sample: AckSample) {
        smoothedRTT = sample.smoothedRTT
        defer { lastGrowth = sample.now }
        if let recoveryStart, sample.sentTime <= recoveryStart { return }
        guard isWindowLimited else {
            // Time in which the window could not be used is not time in which it would have grown (§4.2).
            if let epoch = course.epoch { course.epoch = epoch + max(0, sample.now - lastGrowth) }
            return
        }
        let acknowledged = Double(sample.acknowledged) / Double(datagramSize)
        if isSlowStart {
            if course.threshold == .infinity {
                course.window += Double(hystart.acknowledged(sample)) / Double(datagramSize)
                if hystart.phase == .done { course.threshold = course.window }
            } else {
                course.window += acknowledged
            }
        } else {
            grow(by: acknowledged, sample)
        }
    }

    private mutating func grow(by acknowledged: Double, _ sample: AckSample) {
        if course.epoch == nil { beginEpoch(at: sample.now) }
        guard let epoch = course.epoch else { return }
        let elapsed = Double(max(0, sample.now - epoch)) / 1e9
        let reno = course.reno >= course.previous ? 1 : alpha
        course.reno += reno * acknowledged / course.window
        if curve(elapsed) < course.reno {
            course.window = max(course.window, course.reno)
            return
        }
        let wanted = curve(elapsed + Double(smoothedRTT) / 1e9)
        let target = min(max(wanted, course.window), 1.5 * course.window)
        course.window += (target - course.window) / course.window * acknowledged
    }

    /// Starts congestion avoidance: without a loss before it, at the curve's level part (§4.8, §4.10).
    private mutating func beginEpoch(at now: Timestamp) {
        course.epoch = now
        course.reno = course.window
        if course.maximum <= course.window {
            course.maximum = course.window
            course.previous = course.window
            course.origin = 0
        } else {
            course.origin = Self.cubeRoot((course.maximum - course.window) / Self.c)
        }
    }

    private func curve(_ time: Double) -> Double {
        let offset = time - course.origin
        return Self.c * offset * offset * offset + course.maximum
    }

    package mutating func lost(_ sample: LossSample) {
        reduce(sentTime: sample.sentTime, at: sample.now, isUndoable: true)
    }

    package mutating func congestionExperienced(sentTime: Timestamp, at now: Timestamp) {
        reduce(sentTime: sentTime, at: now, isUndoable: false)
    }

    private mutating func reduce(sentTime: Timestamp, at now: Timestamp, isUndoable: Bool) {
        if let recoveryStart, sentTime <= recoveryStart {
            if !isUndoable { before = nil }
            return
        }
        recoveryStart = now
        before = isUndoable ? course : nil
        // Fast convergence: a flow that lost below its last maximum makes room for another (§4.7).
        course.maximum =
            course.window < course.maximum ? course.window * (1 + beta) / 2 : course.window
        course.previous = course.window
        course.window = max(course.window * beta, Self.minimum)
        course.threshold = course.window
        course.epoch = nil
    }

    package mutating func lossWasSpurious(size: Int, isWholePeriod: Bool, at now: Timestamp) {
        guard isWholePeriod, let before else { return }
        if before.window > course.window { course = before }
        self.before = nil
        recoveryStart = nil
    }

    package mutating func persistentCongestion(inFlight: Int) {
        course.window = Self.minimum
        course.maximum = 0
        course.epoch = nil
        recoveryStart = nil
        before = nil
    }

    package mutating func datagramSizeChanged(_ size: Int) {
        // The window stays the same number of bytes.
        let scale = Double(datagramSize) / Double(size)
        datagramSize = size
        course.window = max(course.window * scale, Self.minimum)
        course.threshold *= scale
        course.maximum *= scale
        course.reno *= scale
        course.previous *= scale
        before = nil
    }

    /// The cube root by Newton's method from the exponent, to a double's precision.
    static func cubeRoot(_ value: Double) -> Double {
        guard value > 0, value.isFinite else { return 0 }
        var root = Double(sign: .plus, exponent: value.exponent / 3, significand: 1)
        for _ in 0..<8 { root = (2 * root + value / (root * root)) / 3 }
        return root
    }
}
