import Synchronization

/// Wakes whoever follows the services of a node when one of them changes, or what somebody may do with them.
final class ServiceChanges: Sendable {
    private struct Content {
        var version: UInt64 = 0
        var next: UInt64 = 0
        var waiting: [UInt64: AsyncStream<Void>.Continuation] = [:]
    }

    private let content = Mutex(Content())

    /// The number of changes so far.
    var version: UInt64 { content.withLock { $0.version } }

    /// Something has changed.
    func happen() {
        let waiting = content.withLock { content in
            content.version += 1
            return Array(content.waiting.values)
        }
        for continuation in waiting { continuation.yield() }
    }

    /// Yields at once, and after each change; several in a row may be one.
    func signals() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = content.withLock { content in
            content.next += 1
            content.waiting[content.next] = continuation
            return content.next
        }
        continuation.onTermination = { [weak self] _ in
            self?.content.withLock { _ = $0.waiting.removeValue(forKey: number) }
        }
        continuation.yield()
        return stream
    }

    /// The number of those that wait.
    var count: Int { content.withLock { $0.waiting.count } }
}
