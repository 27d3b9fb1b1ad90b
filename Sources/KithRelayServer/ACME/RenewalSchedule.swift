/// The times at which a certificate is renewed: at two thirds of its life, and after a failure with growing pauses.
///
/// A value: it is told the time, in seconds since 1970.
package struct RenewalSchedule: Hashable, Sendable {
    /// The pause after the first failure, in seconds; it doubles with each further one.
    static let firstPause: Int64 = 600
    /// The longest of these pauses, in seconds.
    static let longestPause: Int64 = 21_600
    /// The longest pause that an authority may ask for, in seconds.
    static let longestWish: Int64 = 604_800

    /// The time at which two thirds of the certificate's life are over.
    package let due: Int64
    private let notAfter: Int64
    private var failures = 0
    private var failedAt: Int64 = 0
    private var pause: Int64 = 0

    /// Makes the schedule of a certificate that holds between these times.
    package init(notBefore: Int64, notAfter: Int64) {
        let life = max(notAfter.subtractingReportingOverflow(notBefore).partialValue, 0)
        due = notBefore + life / 3 * 2
        self.notAfter = notAfter
    }

    /// Notes a failure; `wish` is the pause that the authority asked for, in seconds.
    package mutating func failed(at now: Int64, wish: Int?, using random: inout some RandomNumberGenerator) {
        let usual = min(Self.firstPause << min(Int64(failures), 10), Self.longestPause)
        failures += 1
        failedAt = now
        // Not all relays at once, and never earlier than asked.
        // An authority that asks for more than is left would end the relay's TLS.
        let left = notAfter > now ? max((notAfter - max(now, 0)) / 3, Self.firstPause) : Self.longestWish
        pause = max(usual, min(Int64(wish ?? 0), Self.longestWish, left))
        pause += Int64.random(in: 0...pause / 4, using: &random)
    }

    /// The time of the next attempt.
    package var next: Int64 { max(due, failedAt + pause) }

    /// Returns whether it is time now.
    ///
    /// A failure in the future says nothing: the clock was put back.
    package func isDue(at now: Int64) -> Bool { now >= due && (now >= failedAt + pause || now < failedAt) }
}
