import KithAPI
import KithIO
import KithIdentity
import KithWire
import Synchronization

/// The paired devices that are connected, with one change for each that comes or goes, however many connections it has.
///
/// A device that is gone for less than a moment has not gone.
final class PeerStates: Sendable {
    private struct Content {
        var connected: Set<DeviceID> = []
        /// Those without a connection, until the moment is over.
        var leaving: [DeviceID: TimerQueue.Ticket] = [:]
        var next: UInt64 = 0
        var followers: [UInt64: AsyncStream<Registry.Peer>.Continuation] = [:]
        var isOver = false
    }

    private let grace: Duration
    private let clock: any Ticker
    private let timers: TimerQueue
    /// Called with each change, in their order.
    private let changed: @Sendable (Registry.Peer) -> Void
    private let content = Mutex(Content())
    /// The most changes that wait for one follower; older ones are dropped.
    private static let bufferLimit = 256

    init(
        grace: Duration, clock: any Ticker, timers: TimerQueue,
        changed: @escaping @Sendable (Registry.Peer) -> Void = { _ in }
    ) {
        self.changed = changed
        self.grace = grace
        self.clock = clock
        self.timers = timers
    }

    /// The devices that are connected.
    var connected: Set<DeviceID> { content.withLock { $0.connected } }

    /// Those that are connected, and each change from now on, until ``end()``; of more than 256 that nobody has taken, the
    /// newest.
    func changes() -> AsyncStream<Registry.Peer> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Registry.Peer.self, bufferingPolicy: .bufferingNewest(Self.bufferLimit))
        let number = content.withLock { content -> UInt64? in
            guard !content.isOver else { return nil }
            content.next += 1
            content.followers[content.next] = continuation
            for device in content.connected.sorted(by: { $0.description < $1.description }) {
                continuation.yield(Registry.Peer(device: device, isConnected: true))
            }
            return content.next
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.content.withLock { _ = $0.followers.removeValue(forKey: number) }
        }
        return stream
    }

    /// Ends the changes of whoever follows them, and of whoever will: the node has stopped.
    func end() {
        let followers = content.withLock { content in
            content.isOver = true
            defer { content.followers = [:] }
            return content.followers.values
        }
        for follower in followers { follower.finish() }
    }

    /// Notes whether a paired device has a connection now.
    func note(_ device: DeviceID, isConnected: Bool) {
        let time = clock.now + grace
        let cancelled = content.withLock { content -> TimerQueue.Ticket? in
            if isConnected {
                let ticket = content.leaving.removeValue(forKey: device)
                if content.connected.insert(device).inserted { tell(device, true, in: content) }
                return ticket
            }
            guard content.connected.contains(device), content.leaving[device] == nil else { return nil }
            content.leaving[device] = timers.schedule(at: time) { [weak self] in self?.leave(device) }
            return nil
        }
        if let cancelled { timers.cancel(cancelled) }
    }

    private func leave(_ device: DeviceID) {
        content.withLock { content in
            guard content.leaving.removeValue(forKey: device) != nil else { return }
            content.connected.remove(device)
            tell(device, false, in: content)
        }
    }

    private func tell(_ device: DeviceID, _ isConnected: Bool, in content: Content) {
        changed(Registry.Peer(device: device, isConnected: isConnected))
        for follower in content.followers.values {
            follower.yield(Registry.Peer(device: device, isConnected: isConnected))
        }
    }
}
