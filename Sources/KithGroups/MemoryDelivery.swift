import Synchronization

/// A delivery service within one program, for tests and demonstrations.
public final class MemoryDelivery: StateDelivery {
    private struct Content {
        var state = DeliveryState()
        var isDown = false
        var waiting: [(after: UInt64, CheckedContinuation<UInt64, Never>)] = []
    }

    private let content = Mutex(Content())

    /// Starts with nothing.
    public init() {}

    /// Whether it answers; every call fails while it does not.
    public var isReachable: Bool {
        get { content.withLock { !$0.isDown } }
        set { content.withLock { $0.isDown = !newValue } }
    }

    func ask<Value: Sendable>(
        _ body: (borrowing DeliveryState) throws(DeliveryError) -> (Value, [DeliveryState.Record])
    ) async throws(DeliveryError) -> Value {
        let result: Result<(Value, [(CheckedContinuation<UInt64, Never>, UInt64)]), DeliveryError> = content.withLock {
            content in
            guard !content.isDown else { return .failure(DeliveryError("The delivery service cannot be reached.")) }
            do throws(DeliveryError) {
                let (value, records) = try body(content.state)
                for record in records { try content.state.apply(record) }
                let count = content.state.count
                let woken = content.waiting.filter { $0.after < count }.map { ($0.1, count) }
                content.waiting.removeAll { $0.after < count }
                return .success((value, woken))
            } catch { return .failure(error) }
        }
        let (value, woken) = try result.get()
        for (waiting, count) in woken { waiting.resume(returning: count) }
        return value
    }

    /// Waits until there is something new.
    ///
    /// A task that is cancelled goes on waiting; whoever needs to stop waits for something else besides.
    public func news(after count: UInt64) async throws(DeliveryError) -> UInt64 {
        await withCheckedContinuation { continuation in
            let known: UInt64? = content.withLock { content in
                if content.state.count > count { return content.state.count }
                content.waiting.append((count, continuation))
                return nil
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}
