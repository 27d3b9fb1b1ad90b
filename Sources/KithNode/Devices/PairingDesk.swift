import KithAPI
import KithIO
import KithIdentity
import KithWire
import Synchronization

/// The pairings that wait at the inviting end, and those who watch them.
final class PairingDesk: Sendable {
    private struct State {
        var waiting: [String: (request: PairingMethods.Request, answer: Promise<Bool>)] = [:]
        var watchers: [UInt64: AsyncStream<PairingMethods.Event>.Continuation] = [:]
        var nextWatcher: UInt64 = 0
    }

    private let state = Mutex(State())

    /// The requests that wait, by their numbers.
    var waiting: [PairingMethods.Request] {
        state.withLock { $0.waiting.values.map(\.request) }.sorted { $0.id < $1.id }
    }

    /// Events from now on, beginning with the requests that wait; the newest 64 are kept for a slow watcher.
    func watch() -> AsyncStream<PairingMethods.Event> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: PairingMethods.Event.self, bufferingPolicy: .bufferingNewest(64))
        let number = state.withLock { state in
            state.nextWatcher += 1
            state.watchers[state.nextWatcher] = continuation
            for entry in state.waiting.values { continuation.yield(.requested(entry.request)) }
            return state.nextWatcher
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.watchers.removeValue(forKey: number) }
        }
        return stream
    }

    /// Ends every watch.
    func close() {
        let watchers = state.withLock { Array($0.watchers.values) }
        for watcher in watchers { watcher.finish() }
    }

    /// Tells the watchers.
    func report(_ event: PairingMethods.Event) {
        let watchers = state.withLock { Array($0.watchers.values) }
        for watcher in watchers { watcher.yield(event) }
    }

    /// Waits for this end's person; `false` when the task is cancelled.
    func decision(on request: PairingMethods.Request) async -> Bool {
        if request.isAutomatic {
            report(.requested(request))
            return true
        }
        let answer = Promise<Bool>()
        state.withLock { $0.waiting[request.id] = (request, answer) }
        report(.requested(request))
        do {
            return try await answer.valueUnlessCancelled()
        } catch {
            _ = state.withLock { $0.waiting.removeValue(forKey: request.id) }
            return false
        }
    }

    /// Answers a request that waits.
    func decide(_ id: String, accept: Bool) throws(KithError) {
        guard let entry = state.withLock({ $0.waiting.removeValue(forKey: id) }) else {
            throw KithError(.notFound, "No pairing \(id) waits: it was answered, or the other device gave up.")
        }
        entry.answer.fulfil(accept)
    }
}
