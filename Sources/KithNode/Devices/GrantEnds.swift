import KithAPI
import KithIO
import KithStore
import Logging
import Synchronization

/// Takes grants away when their time is over, and cuts off what runs by them.
final class GrantEnds: Sendable {
    /// How long it waits at most, so that a clock that is set shows itself.
    private static let longestWait = Duration.seconds(60)

    private weak let node: Node?
    private let store: Store
    private let now: @Sendable () -> Int64
    private let ticket = Mutex<TimerQueue.Ticket?>(nil)

    init(node: Node, store: Store, now: @escaping @Sendable () -> Int64) {
        self.node = node
        self.store = store
        self.now = now
    }

    /// Takes away those whose time is over, and is called again when the next one's is.
    func look() {
        guard let node else { return }
        let now = now()
        do {
            for (device, lost) in try store.endGrants(now: now) {
                node.grantsChanged(for: device.id)
                try store.record(
                    AuditEntry(
                        time: now, device: Audit.thisDevice, method: Devices.ChangeGrants.name, decision: .allowed,
                        detail: "\(device.name) (\(device.id.short)): over: "
                            + lost.map(\.description).joined(separator: " ")))
            }
            guard let next = try store.nextGrantEnd() else { return }
            let wait = min(max(Duration.seconds(next - now), .zero), Self.longestWait)
            schedule(at: node.clock.now + wait, on: node)
        } catch {
            // What is over allows nothing, whether it is taken away or not; what runs goes on until the next try.
            node.logger.error("Grants whose time is over cannot be taken away.", metadata: ["error": "\(error)"])
            schedule(at: node.clock.now + Self.longestWait, on: node)
        }
    }

    private func schedule(at time: ContinuousClock.Instant, on node: Node) {
        let next = node.timers.schedule(at: time) { [weak self] in self?.look() }
        let last = ticket.withLock { ticket in
            defer { ticket = next }
            return ticket
        }
        if let last { node.timers.cancel(last) }
    }
}
