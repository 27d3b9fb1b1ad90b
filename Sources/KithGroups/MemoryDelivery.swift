import Synchronization

/// A delivery service within one program, for tests and demonstrations.
public final class MemoryDelivery: StateDelivery {
    private struct Content {
        var state = DeliveryState()
        var isDown = false
        var waiting: [UInt64: (after: UInt64, continuation: CheckedContinuation<UInt64?, Never>)] = [:]
        var waitCount: UInt64 = 0
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
        let result: Result<(Value, [(CheckedContinuation<UInt64?, Never>, UInt64)]), DeliveryError> = content.withLock {
            content in
            guard !content.isDown else { return .failure(DeliveryError("The delivery service cannot be reached.")) }
            do throws(DeliveryError) {
                let (value, records) = try body(content.state)
                for record in records { try DeliveryState.check(record) }
                for record in records { try content.state.apply(record) }
                let count = content.state.count
                let woken = content.waiting.filter { $0.value.after < count }
                for number in woken.keys { content.waiting[number] = nil }
                return .success((value, woken.values.map { ($0.continuation, count) }))
            } catch { return .failure(error) }
        }
        let (value, woken) = try result.get()
        for (waiting, count) in woken { waiting.resume(returning: count) }
        return value
    }

    /// Waits until there is something new.
    ///
    /// - Throws: when the task is cancelled.
    public func news(after count: UInt64) async throws(DeliveryError) -> UInt64 {
        let number = content.withLock { content in
            content.waitCount += 1
            return content.waitCount
        }
        let known = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<UInt64?, Never>) in
                let (isOver, known): (Bool, UInt64?) = content.withLock { content in
                    if content.state.count > count { return (true, content.state.count) }
                    if Task.isCancelled { return (true, nil) }
                    content.waiting[number] = (count, continuation)
                    return (false, nil)
                }
                if isOver { continuation.resume(returning: known) }
            }
        } onCancel: {
            content.withLock { $0.waiting.removeValue(forKey: number) }?.continuation.resume(returning: nil)
        }
        guard let known else { throw DeliveryError("The wait was called off.") }
        return known
    }
}
