import Synchronization

/// A value that is given once, from anywhere, to one task that waits for it.
final class OneShot<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case waiting(CheckedContinuation<Value, Never>)
        case full(Value)
        case spent
    }

    private let state = Mutex(State.empty)

    /// Whether a value has been given, taken or not.
    var isFulfilled: Bool {
        state.withLock { state in
            switch state {
            case .empty, .waiting: false
            case .full, .spent: true
            }
        }
    }

    /// Gives the value; false when another one was given before, and then this one is dropped.
    @discardableResult
    func fulfil(_ value: Value) -> Bool {
        let (accepted, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Value, Never>?) in
            switch state {
            case .empty:
                state = .full(value)
                return (true, nil)
            case .waiting(let waiter):
                state = .spent
                return (true, waiter)
            case .full, .spent:
                return (false, nil)
            }
        }
        waiter?.resume(returning: value)
        return accepted
    }

    /// Waits for the value; one task may, once.
    func value() async -> Value {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state -> Value? in
                switch state {
                case .full(let value):
                    state = .spent
                    return value
                case .empty:
                    state = .waiting(continuation)
                    return nil
                case .waiting, .spent:
                    preconditionFailure("a one-shot value has one waiter")
                }
            }
            if let ready { continuation.resume(returning: ready) }
        }
    }
}
