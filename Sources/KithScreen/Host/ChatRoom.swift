import KithAPI
import KithIO
import Synchronization

/// The lines that people write to each other while a screen is seen.
///
/// Kept in memory alone, and only as long as their sessions are shown.
final class ChatRoom: Sendable {
    /// The most lines that are kept, and those of one session.
    static let limit = 200
    static let sessionLimit = 50
    /// The most lines that are shown there at a time, and those of one session.
    static let shownLimit = 4
    static let sessionShownLimit = 2

    private struct State {
        var lines: [(line: ScreenSessions.Talk.Line, at: ContinuousClock.Instant?)] = []
        /// Those who read at the viewers' ends, and for this device's person.
        var viewers: [UInt64: (session: String, queue: BoundedQueue<Screen.ChatLine>)] = [:]
        var owners: [UInt64: BoundedQueue<ScreenSessions.Talk.Line>] = [:]
        var next: UInt64 = 0

        mutating func keep(_ line: ScreenSessions.Talk.Line, at now: ContinuousClock.Instant?) {
            lines.append((line, now))
            // Nobody pushes out what others wrote.
            let own = lines.indices.filter { lines[$0].line.session == line.session }
            if own.count > ChatRoom.sessionLimit { lines.remove(at: own[0]) }
            if lines.count > ChatRoom.limit { lines.removeFirst() }
        }

        mutating func number() -> UInt64 {
            next += 1
            return next
        }
    }

    private let state = Mutex(State())

    /// Takes in what a viewer's person wrote.
    func said(_ line: ScreenSessions.Talk.Line, at now: ContinuousClock.Instant) {
        state.withLock { state in
            state.keep(line, at: now)
            // Whoever reads so slowly that it is full misses something.
            for owner in state.owners.values { _ = owner.offered(line) }
        }
    }

    /// Takes in what this device's person wrote to a session; false when nobody reads it there.
    func say(_ line: ScreenSessions.Talk.Line) -> Bool {
        state.withLock { state in
            let readers = state.viewers.values.filter { $0.session == line.session }
            guard !readers.isEmpty else { return false }
            state.keep(line, at: nil)
            for reader in readers { _ = reader.queue.offered(line.line) }
            for owner in state.owners.values { _ = owner.offered(line) }
            return true
        }
    }

    /// The lines of viewers' people that are to be seen on the screen now, the oldest first.
    func latest(at now: ContinuousClock.Instant) -> [ScreenSessions.Talk.Line] {
        state.withLock { state in
            var counts: [String: Int] = [:]
            var latest: [ScreenSessions.Talk.Line] = []
            for entry in state.lines.reversed() where latest.count < Self.shownLimit {
                guard let at = entry.at, now - at < Screen.ChatLine.shownFor else { continue }
                counts[entry.line.session, default: 0] += 1
                if counts[entry.line.session, default: 0] <= Self.sessionShownLimit { latest.append(entry.line) }
            }
            return latest.reversed()
        }
    }

    /// Forgets what was said in a session.
    func forget(_ session: String) { state.withLock { $0.lines.removeAll { $0.line.session == session } } }

    /// Begins to read what this device's person writes to a session; gives it to `body`.
    func read(
        in session: String, _ body: (BoundedQueue<Screen.ChatLine>) async throws -> Void
    ) async throws {
        let queue = BoundedQueue<Screen.ChatLine>(capacity: Self.limit)
        let number = state.withLock { state in
            let number = state.number()
            state.viewers[number] = (session, queue)
            return number
        }
        defer { state.withLock { _ = $0.viewers.removeValue(forKey: number) } }
        try await body(queue)
    }

    /// Begins to read all that is written, what is kept first; gives it to `body`.
    func readAll(_ body: (BoundedQueue<ScreenSessions.Talk.Line>) async throws -> Void) async throws {
        let queue = BoundedQueue<ScreenSessions.Talk.Line>(capacity: 2 * Self.limit)
        let number = state.withLock { state in
            for entry in state.lines { _ = queue.offered(entry.line) }
            let number = state.number()
            state.owners[number] = queue
            return number
        }
        defer { state.withLock { _ = $0.owners.removeValue(forKey: number) } }
        try await body(queue)
    }
}
