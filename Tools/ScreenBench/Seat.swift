import Synchronization

/// What has come to a viewer so far.
struct Arrival {
    /// When it was decoded.
    var time: ContinuousClock.Instant
    /// All bytes of pictures, with it.
    var bytes: UInt64
    /// True when the picture is the host's, bit for bit.
    var isExact: Bool
    /// The pixels that were drawn.
    var area: Int
    /// The uppermost row of them.
    var top: Int

    /// What comes now: rectangles by their sizes and upper edges.
    init(_ rectangles: [(width: Int, height: Int, y: Int)], bytes: UInt64, isExact: Bool) {
        (time, self.bytes, self.isExact) = (.now, bytes, isExact)
        area = rectangles.reduce(0) { $0 + $1.width * $1.height }
        top = rectangles.map(\.y).min() ?? 0
    }
}

/// A viewer of another screen, as a person sits before it.
protocol Seat: AnyObject {
    /// Its name in the table.
    static var name: String { get }
    /// The server.
    var host: Program { get }
    /// The X server that is seen.
    var desktop: Desktop { get }
    /// The picture as it is now, row by row.
    var pixels: [UInt32] { get }

    /// Begins a session; what arrives in it is told.
    func connect(_ arrived: @escaping @Sendable (Arrival) -> Void) async throws
    /// Leaves.
    func disconnect() async
    /// Presses a key and lets it go.
    func type(_ symbol: UInt32) async throws
}

/// The arrivals at a seat, for who waits for them.
final class Arrivals: Sendable {
    private let state = Mutex<(all: [Arrival], waiting: CheckedContinuation<Void, Never>?)>(([], nil))

    var last: Arrival? { state.withLock { $0.all.last } }

    /// The longest time without a picture, between two times.
    func longestPause(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Duration {
        let times = state.withLock { $0.all.map(\.time) }.filter { (start...end).contains($0) }
        return zip([start] + times, times + [end]).map { $1 - $0 }.max() ?? .zero
    }

    /// The pixels that were drawn in a time.
    func area(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Int {
        state.withLock { state in
            state.all.reduce(0) { (start...end).contains($1.time) ? $0 + $1.area : $0 }
        }
    }

    func add(_ arrival: Arrival) {
        let waiting = state.withLock { state in
            state.all.append(arrival)
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    /// The first that came at a time or later and is as wanted; `nil` when none does in time.
    func first(
        since start: ContinuousClock.Instant, within limit: Duration = .seconds(5), where isWanted: (Arrival) -> Bool
    ) async -> Arrival? {
        var index = 0
        let alarm = Task {
            try await Task.sleep(for: limit)
            self.wake()
        }
        defer { alarm.cancel() }
        while true {
            let all = state.withLock { $0.all }
            while index < all.count {
                if all[index].time >= start, isWanted(all[index]) { return all[index] }
                index += 1
            }
            guard ContinuousClock.now < start + limit else { return nil }
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    if state.all.count > index { return true }
                    state.waiting = continuation
                    return false
                }
                if isThere { continuation.resume() }
            }
        }
    }

    private func wake() {
        let waiting = state.withLock { state in
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    /// Waits until nothing has come for a while.
    func settle(for quiet: Duration = .milliseconds(300)) async throws {
        var count = -1
        while true {
            let now = state.withLock { $0.all.count }
            if now == count { return }
            count = now
            try await Task.sleep(for: quiet)
        }
    }
}
