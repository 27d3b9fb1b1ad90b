import KithIO
import Synchronization

/// A limit on the bytes that wait to be taken: one task waits for room, any number give it back.
final class ByteRoom: Sendable {
    private struct State {
        var used = 0
        var waiter: Waiter<Void>?
    }

    private let limit: Int
    private let state = Mutex(State())

    init(_ limit: Int) { self.limit = limit }

    /// Takes room at once; false when there is none.
    ///
    /// A count beyond the whole limit is accepted only while nothing else is held.
    func offer(_ count: Int) -> Bool {
        state.withLock { state in
            guard state.used == 0 || state.used + count <= limit else { return false }
            state.used += count
            return true
        }
    }

    /// Takes room, whether there is any or not: the bytes are there.
    func add(_ count: Int) { state.withLock { $0.used += count } }

    /// Waits for room.
    func take(_ count: Int) async throws {
        while !offer(count) {
            try Task.checkCancellation()
            await state.wait(in: { $1(&$0.waiter) }) { $0.used == 0 || $0.used + count <= limit }
        }
    }

    /// Gives room back.
    func giveBack(_ count: Int) {
        let waiter = state.withLock { state in
            state.used -= count
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
