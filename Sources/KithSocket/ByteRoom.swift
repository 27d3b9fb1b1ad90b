import Synchronization

/// Room for so many bytes that wait to be taken; one task waits for more, any number give back.
final class ByteRoom: Sendable {
    private struct State {
        var used = 0
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let limit: Int
    private let state = Mutex(State())

    init(_ limit: Int) { self.limit = limit }

    /// Takes room at once; false when there is none.
    ///
    /// What is longer than all the room has it alone.
    func offer(_ count: Int) -> Bool {
        state.withLock { state in
            guard state.used == 0 || state.used + count <= limit else { return false }
            state.used += count
            return true
        }
    }

    /// Waits for room.
    func take(_ count: Int) async throws {
        while !offer(count) {
            try Task.checkCancellation()
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let goesOn = state.withLock { state in
                        if Task.isCancelled || state.used == 0 || state.used + count <= limit { return true }
                        state.waiter = continuation
                        return false
                    }
                    if goesOn { continuation.resume() }
                }
            } onCancel: {
                wake()
            }
        }
    }

    /// Gives room back.
    func giveBack(_ count: Int) {
        state.withLock { $0.used -= count }
        wake()
    }

    private func wake() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
