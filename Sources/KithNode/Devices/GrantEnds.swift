import KithAPI
import KithIO
import KithIdentity
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
        var next: Int64?
        do {
            let ended = try store.endGrants(now: now)
            for (device, _) in ended { node.grantsChanged(for: device.id) }
            for (device, lost) in ended { note(lost, of: device, at: now, node) }
            guard let time = try store.nextGrantEnd() else { return }
            next = time
        } catch {
            node.logger.error("Grants whose time is over cannot be taken away.", metadata: ["error": "\(error)"])
            // What is over is left out where it is read: by whoever is connected, too, once it is read again.
            for device in node.onlineDevices { node.grantsChanged(for: device) }
        }
        let wait = next.map { min(max(Duration.seconds($0 - now), .zero), Self.longestWait) } ?? Self.longestWait
        schedule(at: node.clock.now + wait, on: node)
    }

    private func note(_ lost: [Grant], of device: PairedDevice, at now: Int64, _ node: Node) {
        do {
            try store.record(
                AuditEntry(
                    time: now, device: Audit.thisDevice, method: Devices.ChangeGrants.name, decision: .allowed,
                    detail: "\(device.name) (\(device.id.short)): over: "
                        + lost.map(\.description).joined(separator: " ")))
        } catch {
            node.logger.warning("It cannot be noted that grants are over.", metadata: ["error": "\(error)"])
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
