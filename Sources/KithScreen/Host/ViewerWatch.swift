/// Decides whether a viewer for whom a screen is kept dark is still there.
///
/// The connection does not tell: where `kith screen` stands still, the device's own process keeps it. A viewer that has
/// confirmed no picture for a while is asked to confirm one that changes nothing, and counts as gone when it does not.
///
///     confirmed ──a third of the patience──▶ asked ──the rest of it──▶ gone
///         ▲                                    │
///         └───────────── confirms ─────────────┘
struct ViewerWatch {
    /// What is to be done next.
    enum Action: Hashable {
        /// Nothing before this time.
        case wait(until: ContinuousClock.Instant)
        /// Have it confirm something.
        case ask
        /// It is dark for nobody.
        case isGone
    }

    /// The time without a sign of a viewer after which it counts as gone.
    private let patience: Duration
    private var confirmed: ContinuousClock.Instant
    private var isAsked = false

    /// Begins with a viewer that is there.
    init(patience: Duration, at now: ContinuousClock.Instant) {
        self.patience = patience
        confirmed = now
    }

    /// Takes in a sign of it.
    mutating func confirmed(at now: ContinuousClock.Instant) {
        confirmed = max(confirmed, now)
        isAsked = false
    }

    /// What is to be done at a time.
    mutating func next(at now: ContinuousClock.Instant) -> Action {
        if now >= confirmed + patience { return .isGone }
        let asking = confirmed + patience / 3
        guard !isAsked else { return .wait(until: confirmed + patience) }
        guard now >= asking else { return .wait(until: asking) }
        isAsked = true
        return .ask
    }
}
