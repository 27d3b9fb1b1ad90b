import KithWire

/// What a platform says to an app that holds a device.
@nonexhaustive
public enum LifecycleEvent: Hashable, Sendable {
    /// The app is no longer on the screen: within 30 seconds nothing of it may run.
    case background
    /// The app is about to be on the screen again.
    case foreground
    /// The app is about to end.
    case terminate
    /// Memory is short.
    case memoryWarning
    /// The app stays visible, and is not the one being used.
    case resignActive
    /// The app is the one being used.
    case becomeActive
    /// No network leads to other machines.
    case networkLost
    /// A network leads to other machines again.
    case networkFound
}

/// Decides when a device starts and stops as its app comes and goes: a value without clock, task or device.
///
///                   foreground                    started
///     stopped ───────────────────▶ starting ──────────────────▶ running
///        ▲  ▲                       │    │ failed                  │ background, terminate
///        │  │          background   │    ▼                         ▼
///        │  └───────────────────────┤  waiting ──▶ starting     stopping ── half a budget ──▶ ending
///        │                          ▼    (back-off)                │                            │
///        └──────────────────────────┴──────────────────────────────┴──── stopped ◀─────────────┘
///
/// Only what is wanted last counts: whatever comes while the device starts or stops is acted on when it has.
public struct LifecycleMachine: Sendable {
    /// What the driver does next, in this order.
    @nonexhaustive
    public enum Action: Hashable, Sendable {
        /// Start the device; report ``started(at:)``, or ``ended(at:jitter:)`` when it did not.
        case start
        /// Ask it to stop once running calls have ended; report ``ended(at:jitter:)`` when it has.
        case drain
        /// Stop it now, whatever runs.
        case cancel
        /// Let go of memory that can be had again.
        case shrinkCaches
        /// Do less where nobody looks: announce rarely.
        case reduce
        /// Do as much as ever.
        case resume
        /// Refuse requests to other devices: they cannot be reached.
        case suspendNetwork
        /// Allow them again, reach the devices that were connected, and announce this one.
        case resumeNetwork
        /// Everything is over.
        case finish
    }

    /// The state of the device.
    @nonexhaustive
    public enum State: Hashable, Sendable {
        /// It does not run.
        case stopped
        /// It is being opened.
        case starting
        /// It runs.
        case running
        /// It lets running calls end.
        case stopping
        /// It has been told to stop now.
        case ending
        /// It could not start, and tries again.
        case waiting
        /// The app ends, and the device has stopped.
        case finished
    }

    /// The times a machine goes by.
    public struct Limits: Hashable, Sendable {
        /// The time from the background to the moment at which nothing runs any more: the platform's.
        public var budget = Duration.seconds(30)
        /// The part of it that running calls have, of one thousand; the rest is for the hard stop.
        public var drainShare = 600
        /// The time running calls have when the app is wanted again meanwhile, or ends.
        public var hastyDrain = Duration.seconds(1)
        /// The pause before the first new attempt to start; it doubles each time.
        public var firstRetry = Duration.milliseconds(250)
        /// The longest pause.
        public var lastRetry = Duration.seconds(30)

        /// The defaults.
        public init() {}
    }

    /// The state now.
    public private(set) var state = State.stopped
    private let limits: Limits
    private var isWanted = false
    private var isTerminating = false
    private var isReduced = false
    private var hasNetwork = true
    private var failures = 0
    private var deadline: ContinuousClock.Instant?

    /// Begins with a device that does not run and is not wanted.
    public init(limits: Limits = Limits()) { self.limits = limits }

    /// The time at which ``timedOut(at:)`` is to be called; `nil` for none.
    public var nextDeadline: ContinuousClock.Instant? { deadline }

    /// Takes in what the platform says.
    public mutating func received(_ event: LifecycleEvent, at now: ContinuousClock.Instant) -> [Action] {
        guard state != .finished else { return [] }
        switch event {
        case .foreground:
            guard !isTerminating else { return [] }
            isWanted = true
            return want(at: now)
        case .background:
            isWanted = false
            return unwant(at: now, within: limits.budget * Double(limits.drainShare) / 1_000)
        case .terminate:
            isTerminating = true
            isWanted = false
            return unwant(at: now, within: limits.hastyDrain)
        case .memoryWarning:
            return state == .running ? [.shrinkCaches] : []
        case .resignActive, .becomeActive:
            let wasReduced = isReduced
            isReduced = event == .resignActive
            guard state == .running, isReduced != wasReduced else { return [] }
            return [isReduced ? .reduce : .resume]
        case .networkLost, .networkFound:
            let had = hasNetwork
            hasNetwork = event == .networkFound
            if hasNetwork, state == .waiting { return start() }
            guard state == .running, had != hasNetwork else { return [] }
            return [hasNetwork ? .resumeNetwork : .suspendNetwork]
        }
    }

    /// The device runs.
    public mutating func started(at now: ContinuousClock.Instant) -> [Action] {
        // It was told to stop before it could hear that.
        if state == .stopping { return [.drain] }
        guard state == .starting else { return [] }
        state = .running
        failures = 0
        return (isReduced ? [.reduce] : []) + (hasNetwork ? [] : [.suspendNetwork])
    }

    /// The device has stopped, as it was told to or not, or could not start; `jitter` is from 0 to 1.
    public mutating func ended(at now: ContinuousClock.Instant, jitter: Double) -> [Action] {
        switch state {
        case .stopped, .waiting, .finished: return []
        case .stopping, .ending:
            deadline = nil
            state = .stopped
            if isTerminating {
                state = .finished
                return [.finish]
            }
            return isWanted ? start() : []
        case .starting, .running:
            // Nobody told it to.
            guard isWanted else {
                state = isTerminating ? .finished : .stopped
                return isTerminating ? [.finish] : []
            }
            state = .waiting
            deadline = now + pause(jitter)
            failures += 1
            return []
        }
    }

    /// A time has come.
    public mutating func timedOut(at now: ContinuousClock.Instant) -> [Action] {
        guard let time = deadline, time <= now else { return [] }
        deadline = nil
        switch state {
        case .waiting: return start()
        case .stopping:
            state = .ending
            return [.cancel]
        case .stopped, .starting, .running, .ending, .finished: return []
        }
    }

    // MARK: - Parts

    private mutating func start() -> [Action] {
        state = .starting
        deadline = nil
        return [.start]
    }

    private mutating func want(at now: ContinuousClock.Instant) -> [Action] {
        switch state {
        case .stopped: return start()
        case .waiting:
            failures = 0
            return start()
        case .stopping:
            hasten(to: now + limits.hastyDrain)
            return []
        case .starting, .running, .ending, .finished: return []
        }
    }

    private mutating func unwant(at now: ContinuousClock.Instant, within time: Duration) -> [Action] {
        switch state {
        case .starting, .running:
            state = .stopping
            deadline = now + time
            return [.drain]
        case .stopping:
            hasten(to: now + time)
            return []
        case .stopped, .waiting:
            deadline = nil
            state = isTerminating ? .finished : .stopped
            return isTerminating ? [.finish] : []
        case .ending, .finished: return []
        }
    }

    private mutating func hasten(to time: ContinuousClock.Instant) { deadline = min(deadline ?? time, time) }

    /// The pause before the next attempt: the half of a doubling time at least, the rest by chance.
    private func pause(_ jitter: Double) -> Duration {
        let doubled = limits.firstRetry * Double(UInt64(1) << min(UInt64(failures), 20))
        return min(doubled, limits.lastRetry) * (0.5 + 0.5 * min(max(jitter, 0), 1))
    }
}
