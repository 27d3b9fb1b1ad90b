import KithIO
import Synchronization

/// A delivery service within one program, for tests and demonstrations.
public final class MemoryDelivery: StateDelivery {
    private struct Content {
        var state = DeliveryState()
        var isDown = false
        /// Happens when there is more, and then another takes its place.
        var news = AsyncEvent()
    }

    private let content = Mutex(Content())

    /// Starts with nothing.
    public init() {}

    /// True while it answers; otherwise every call fails.
    public var isReachable: Bool {
        get { content.withLock { !$0.isDown } }
        set { content.withLock { $0.isDown = !newValue } }
    }

    func ask<Value: Sendable>(
        _ body: (borrowing DeliveryState) throws(DeliveryError) -> (Value, [DeliveryState.Record])
    ) async throws(DeliveryError) -> Value {
        let result: Result<(Value, AsyncEvent?), DeliveryError> = content.withLock {
            content in
            guard !content.isDown else { return .failure(DeliveryError("The delivery service cannot be reached.")) }
            do throws(DeliveryError) {
                let (value, records) = try body(content.state)
                for record in records { try DeliveryState.check(record) }
                for record in records { try content.state.apply(record) }
                guard !records.isEmpty else { return .success((value, nil)) }
                defer { content.news = AsyncEvent() }
                return .success((value, content.news))
            } catch { return .failure(error) }
        }
        let (value, news) = try result.get()
        news?.happen()
        return value
    }

    /// Waits until there is something new.
    ///
    /// - Throws: when the task is cancelled.
    public func news(after count: UInt64) async throws(DeliveryError) -> UInt64 {
        while true {
            let (known, news) = content.withLock { ($0.state.count, $0.news) }
            if known > count { return known }
            guard await news.wait() else { throw DeliveryError("The wait was called off.") }
        }
    }
}
