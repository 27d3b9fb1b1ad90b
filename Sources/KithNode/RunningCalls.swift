import KithWire
import Synchronization

/// The calls that run, and whether others may begin.
final class RunningCalls: Sendable {
    /// What is said to a call that would begin.
    enum Gate: Sendable {
        case open
        /// It may, but waits before it does anything.
        case waiting
        /// It may not, and why.
        case closed(KithError)
    }

    private struct Content {
        var gate: Gate
        var scopes: [ObjectIdentifier: CallScope] = [:]
    }

    private let content: Striped<Content>

    /// Begins with no calls.
    init(_ gate: Gate) { content = Striped(Content(gate: gate)) }

    /// Adds a call; ``leave(_:)`` follows.
    ///
    /// - Returns: false when it has to wait.
    /// - Throws: the error of a gate that is closed.
    func enter(_ scope: CallScope) throws(KithError) -> Bool {
        try content.with(copyOf: scope) { content throws(KithError) in
            let isOpen: Bool
            switch content.gate {
            case .open: isOpen = true
            case .waiting: isOpen = false
            case .closed(let reason): throw reason
            }
            content.scopes[ObjectIdentifier(scope)] = scope
            return isOpen
        }
    }

    /// Removes a call.
    func leave(_ scope: CallScope) {
        content.with(copyOf: scope) { _ = $0.scopes.removeValue(forKey: ObjectIdentifier(scope)) }
    }

    /// Changes the gate for every call after this one.
    func set(_ gate: Gate) { content.withEach { $0.gate = gate } }

    /// False while calls are refused.
    var mayBegin: Bool {
        content.withNearest { if case .closed = $0.gate { false } else { true } }
    }

    /// True when none runs.
    var isEmpty: Bool { all.isEmpty }

    /// Those that run.
    var all: [CallScope] {
        var all: [CallScope] = []
        content.withEach { all += $0.scopes.values }
        return all
    }
}
