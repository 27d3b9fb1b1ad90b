import Synchronization

/// A value behind a lock that several closures can hold; a `Mutex` by itself cannot be captured.
package final class Locked<Value: Sendable>: Sendable {
    private let mutex: Mutex<Value>

    /// Makes a box holding `value`.
    package init(_ value: Value) { mutex = Mutex(value) }

    /// The value now.
    package var value: Value { mutex.withLock { $0 } }

    /// Changes the value.
    package func set(_ value: Value) { mutex.withLock { $0 = value } }

    /// Changes the value in one step.
    package func change<Result: Sendable>(_ body: (inout Value) -> Result) -> Result { mutex.withLock { body(&$0) } }
}

/// A permission that can be taken once.
package final class Once: Sendable {
    private let isTaken = Atomic(false)

    /// Makes one that is not taken.
    package init() {}

    /// Takes it; false when it was taken before.
    package func take() -> Bool { !isTaken.exchange(true, ordering: .relaxed) }
}
