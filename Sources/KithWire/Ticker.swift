/// A clock that is passed in: the real one, or in tests one that stands still until it is moved.
///
/// `any Clock<Duration>` would not do: it forgets what an instant is, and deadlines travel as instants of the continuous
/// clock. Engines are told the time by whoever drives them; a driver has a ticker to read it from and to sleep on.
package protocol Ticker: Clock<Duration> where Instant == ContinuousClock.Instant {}

extension ContinuousClock: Ticker {}
