/// Finds the longest silence that a link to a relay bears: what stands between forgets connections nobody uses.
///
/// A value that outlives the link. It begins with the shortest silence, takes half as much again each time one was
/// survived, and goes back where a link did not survive; from there it tries again much later.
///
///     60 s ──survived──▶ 90 s ──▶ 135 s ──▶ 202 s ──▶ 240 s
///      ▲                           ▲                  │ not survived
///      │ another network           └──────────────────┘ a third less, for a while
package struct RelayPace: Hashable, Sendable {
    /// The silences in a row that must be survived before a longer one is tried again.
    static let patience = 30

    /// The bounds of the silence.
    package let bounds: ClosedRange<Duration>
    /// The silence that is tried next.
    package private(set) var silence: Duration
    /// The longest that may be tried for now.
    private var ceiling: Duration
    /// How often the ceiling was survived in a row.
    private var proofs = 0

    /// Begins with the shortest silence.
    package init(_ bounds: ClosedRange<Duration>) {
        self.bounds = bounds
        (silence, ceiling) = (bounds.lowerBound, bounds.upperBound)
    }

    /// Notes that a link still worked after so much silence.
    package mutating func survived(_ duration: Duration) {
        guard duration >= silence else { return }
        if silence == ceiling, ceiling < bounds.upperBound {
            proofs += 1
            guard proofs >= Self.patience else { return }
            (ceiling, proofs) = (min(ceiling * 3 / 2, bounds.upperBound), 0)
        }
        silence = min(silence * 3 / 2, ceiling)
    }

    /// Notes that a link was dead after so much silence; one that died sooner died of something else.
    package mutating func died(after duration: Duration) {
        guard duration >= silence else { return }
        ceiling = max(silence * 2 / 3, bounds.lowerBound)
        (silence, proofs) = (ceiling, 0)
    }

    /// Begins anew: the device is on another network.
    package mutating func networkChanged() { self = RelayPace(bounds) }
}
