import KithIO
import Synchronization

/// One exit test at a time.
///
/// Until its process has ended, an exit test keeps a thread of the few that all tasks share: Swift Testing reads from a
/// pipe there. On two cores a second one would leave no thread to any other test.
///
///     let turn = await ExitTestTurn.take()
///     defer { turn.end() }
///     await #expect(processExitsWith: .success) { … }
public struct ExitTestTurn: Sendable {
    private struct State {
        var isTaken = false
        var waiting: [Promise<Void>] = []
    }

    private static let state = Mutex(State())

    /// Waits until no other exit test runs.
    public static func take() async -> Self {
        let next = state.withLock { state -> Promise<Void>? in
            defer { state.isTaken = true }
            guard state.isTaken else { return nil }
            let promise = Promise<Void>()
            state.waiting.append(promise)
            return promise
        }
        await next?.value()
        return Self()
    }

    /// Lets the next one begin.
    public func end() {
        Self.state.withLock { state -> Promise<Void>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.isTaken = false
            return nil
        }?.fulfil(())
    }
}
