/// Decides which viewers are let in: so many at once, and after wrong passwords none for a while.
///
/// A password of the protocol has eight characters. The pause makes trying them hopeless; it is the same for all, as every
/// viewer comes from this machine.
struct RFBAdmission: Sendable {
    /// The most viewers at once, and as many that have not proved themselves yet.
    static let limit = 8
    /// So many wrong passwords in a row begin a pause.
    static let patience = 5
    /// The first pause; each that follows is twice as long, up to ``longestPause``.
    static let firstPause = Duration.seconds(10)
    static let longestPause = Duration.seconds(300)

    private var waiting = 0
    private var viewers = 0
    private var failures = 0
    private var pause = Self.firstPause
    private var closedUntil: ContinuousClock.Instant?

    /// A viewer came; returns why it is turned away, `nil` when it may prove itself.
    mutating func arrived(at now: ContinuousClock.Instant) -> String? {
        if let closedUntil, now < closedUntil {
            let seconds = Int(((closedUntil - now) / .seconds(1)).rounded(.up))
            return "Too many wrong passwords. Try again in \(seconds) s."
        }
        guard waiting < Self.limit, viewers < Self.limit else { return "Too many viewers are connected." }
        waiting += 1
        return nil
    }

    /// One of those that came is in.
    mutating func admitted() {
        waiting -= 1
        viewers += 1
        failures = 0
        pause = Self.firstPause
    }

    /// One of those that came has a wrong password, and goes.
    mutating func failed(at now: ContinuousClock.Instant) {
        waiting -= 1
        failures += 1
        guard failures >= Self.patience else { return }
        failures = 0
        closedUntil = now + pause
        pause = min(pause * 2, Self.longestPause)
    }

    /// One is gone.
    mutating func left(wasAdmitted: Bool) {
        if wasAdmitted { viewers -= 1 } else { waiting -= 1 }
    }
}
