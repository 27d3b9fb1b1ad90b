/// Decides for each block of a transfer whether it is compressed, and how hard.
///
/// Compressing pays where the link is slower than the compressor, and contents shrink. A pure state machine: tell it how
/// long the link and the compressor took; it never looks itself.
///
///                       link faster than the compressor
///     ┌── compressing ──────────────────────────────────▶ plain ──┐
///     │        ▲                                            │      │
///     │        └──────── link slower than the compressor ───┘      │
///     └─ sample, then skip blocks that do not shrink               └─ measure only
///
/// It begins by compressing: the first blocks go into the stream's buffer, where nothing can be measured.
struct CompressionPolicy {
    /// The treatment of a block.
    enum Decision: Hashable {
        /// Send it as it is.
        case plain
        /// Compress a part of it first; all of it only if ``sampled(_:)`` liked that.
        case sample(level: Int32)
        /// Compress it, and send the smaller of the two.
        case compress(level: Int32)
    }

    /// One way to compress: zstd's level, and the bytes a second it takes in until that has been measured.
    private struct Effort {
        var level: Int32
        var speed: Double
    }

    /// A block is sent compressed when it shrinks to at most this part of itself.
    static let worth = 0.9
    /// The part of a block that is tried first where the one before did not shrink.
    static let sample = 16 << 10

    /// The link must be slower than the compressor by this factor: the transport wants the processor, too.
    private static let margin = 1.5
    /// Harder levels are for links slower by this factor.
    private static let ample = 8.0
    /// The bytes that a stream's buffers and an ``InFlightLimit`` take before the link's speed shows.
    private static let slack = 8 << 20
    private static let shortestWindow = Duration.milliseconds(50)
    private static let longestWindow = Duration.seconds(2)
    /// The most blocks that are skipped without a look, after as many that did not shrink.
    private static let maximumSkip = 64
    /// The most windows until compressing is tried again after it was slower than the link.
    private static let maximumPause = 128

    private let isForced: Bool
    private var efforts = [
        Effort(level: 1, speed: 400e6), Effort(level: 3, speed: 200e6), Effort(level: 9, speed: 30e6),
    ]
    private var effort = 1
    /// True while blocks are compressed at all.
    private(set) var isOn = true
    private var misses = 0
    private var skip = 0
    /// Contents a second when nothing was compressed, the last time the link was what was waited for.
    private var plainRate: Double?
    private var pause = 4
    private var pausing = 0

    /// The measurements since the last conclusion.
    private struct Window {
        var contents = 0
        var wire = 0
        var waited = Duration.zero
        var compressing = Duration.zero
        var start: ContinuousClock.Instant?
    }
    private var window = Window()

    /// Begins; `isForced`: the person wants it whatever it costs.
    init(isForced: Bool = false) { self.isForced = isForced }

    /// Decides the treatment of the next block.
    mutating func next() -> Decision {
        let level = efforts[effort].level
        if isForced { return .compress(level: level) }
        guard isOn else { return .plain }
        guard skip == 0 else {
            skip -= 1
            return .plain
        }
        return misses > 0 ? .sample(level: level) : .compress(level: level)
    }

    /// Takes in whether a sample shrank.
    mutating func sampled(_ shrank: Bool) {
        if !shrank { missed() }
    }

    /// Takes in that a block of `count` bytes was compressed, whether it shrank, and how long that took.
    mutating func compressed(_ count: Int, shrank: Bool, in time: Duration) {
        window.compressing += time
        let speed = Double(count) / max(time / .seconds(1), 1e-6)
        // About the last eight blocks: contents differ.
        efforts[effort].speed += (speed - efforts[effort].speed) / 8
        guard shrank else { return missed() }
        misses = 0
    }

    private mutating func missed() {
        misses += 1
        skip = misses >= 7 ? Self.maximumSkip : (1 << misses) - 1
    }

    /// Takes in that `contents` bytes went onto the stream as `wire` bytes, how long that was waited for, and the time.
    mutating func wrote(_ contents: Int, as wire: Int, waiting: Duration, at now: ContinuousClock.Instant) {
        guard !isForced else { return }
        guard let start = window.start else {
            // The time before the first write of a window is nobody's.
            window.start = now
            return
        }
        window.contents += contents
        window.wire += wire
        window.waited += waiting
        let time = now - start
        guard time >= Self.shortestWindow, window.wire >= Self.slack || time >= Self.longestWindow else { return }
        conclude(time)
        window = Window(start: now)
    }

    private mutating func conclude(_ time: Duration) {
        let seconds = time / .seconds(1)
        let isLinkBound = window.waited / time > 0.3
        if isOn {
            if isLinkBound {
                // The link is still what is waited for: there is time to compress harder.
                choose(for: Double(window.wire) / seconds)
            } else if window.compressing / time > 0.3,
                Double(window.contents) / seconds < 1.2 * (plainRate ?? .infinity)
            {
                isOn = false
                // The first time only to see how fast the link is.
                guard plainRate != nil else { return }
                pausing = pause
                pause = min(pause * 2, Self.maximumPause)
            }
            return
        }
        guard isLinkBound else { return }
        let rate = Double(window.contents) / seconds
        plainRate = rate
        pausing = max(pausing - 1, 0)
        if pausing == 0 { choose(for: rate) }
    }

    /// Chooses how hard to compress for a link of so many bytes a second; not at all when it is too fast.
    private mutating func choose(for rate: Double) {
        let best = efforts.lastIndex { $0.speed >= Self.ample * rate }
        effort = best ?? 0
        isOn = best != nil || efforts[0].speed >= Self.margin * rate
        if isOn { skip = min(skip, 1) }
    }
}
