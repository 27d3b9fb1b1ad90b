import KithIO
import KithWire
import Synchronization

/// A service that was added, so that it can be removed.
public struct ServiceID: Hashable, Sendable {
    private static let last = Atomic<UInt64>(0)
    private let number: UInt64

    /// Makes an id that nothing else in this process has.
    package init() { number = Self.last.wrappingAdd(1, ordering: .relaxed).newValue }
}

/// A service of a node, and what runs of it.
struct AddedService: Sendable {
    let id: ServiceID
    let service: any Service
    let calls = ServiceCalls()
}

/// The calls of one service that run, so that its removal ends them.
final class ServiceCalls: Sendable {
    private struct State {
        var scopes: [ObjectIdentifier: CallScope] = [:]
        var ended: KithError?
        let idle = AsyncEvent()
    }

    private let state = Mutex(State())

    /// Puts a call among those that a removal ends; ``leave(_:)`` follows.
    ///
    /// - Throws: why there are no more.
    func enter(_ scope: CallScope) throws(KithError) {
        let ended = state.withLock { state in
            if state.ended == nil { state.scopes[ObjectIdentifier(scope)] = scope }
            return state.ended
        }
        if let ended { throw ended }
    }

    /// A call is over.
    func leave(_ scope: CallScope) {
        state.withLock { state -> AsyncEvent? in
            state.scopes[ObjectIdentifier(scope)] = nil
            return state.ended != nil && state.scopes.isEmpty ? state.idle : nil
        }?.happen()
    }

    /// Calls off everything, and whatever would begin later.
    func end(_ reason: KithError) {
        let (scopes, idle) = state.withLock { state in
            state.ended = reason
            return (Array(state.scopes.values), state.scopes.isEmpty ? state.idle : nil)
        }
        idle?.happen()
        for scope in scopes { scope.cancel(reason) }
    }

    /// Waits until, after ``end(_:)``, no call runs.
    func waitUntilIdle() async { await state.withLock { $0.idle }.wait() }
}
