import KithIdentity
import KithReach
import NIOCore
import Synchronization

/// A frame of datagrams, in the memory in which it came.
enum RelayedFrame: Sendable {
    /// From a WebSocket.
    case buffer(ByteBuffer)
    /// From a QUIC datagram.
    case bytes([UInt8])

    /// Its length.
    var count: Int {
        switch self {
        case .buffer(let buffer): buffer.readableBytes
        case .bytes(let bytes): bytes.count
        }
    }
}

/// Finds the clients that one client's datagrams are for, and hands them over in batches; on that client's loop.
final class RelayForwarding {
    /// What becomes of a datagram.
    enum Route {
        /// It goes to this client.
        case to(RelayLink)
        /// Its device is not here, and the sender is to be told.
        case absent
        /// It is dropped.
        case nowhere
    }

    private let hub: RelayHub
    private let loop: RelayLoop
    /// What the client has for the clients of each loop.
    private var parcels: [[RelayParcel]]
    private var recent = RecentPeers()
    private var absences = AbsenceReports()
    private var cached: (key: DeviceID, link: RelayLink, generation: UInt64)?

    init(_ hub: RelayHub, _ loop: RelayLoop) {
        (self.hub, self.loop) = (hub, loop)
        parcels = Array(repeating: [], count: hub.loops.count)
    }

    /// The devices the client has sent to lately.
    var peers: [DeviceID] { recent.all }

    /// Returns what becomes of a client's datagram for a device.
    func route(to key: DeviceID, from sender: RelayLink) -> Route {
        guard let receiver = receiver(key) else {
            hub.counters.droppedAbsent.count()
            return absences.isDue(key, at: .now) ? .absent : .nowhere
        }
        guard RelayAccess.passes(from: sender.role, to: receiver.role) else {
            hub.counters.droppedGuests.count()
            return .nowhere
        }
        return .to(receiver)
    }

    private func receiver(_ key: DeviceID) -> RelayLink? {
        let generation = hub.generation.load(ordering: .acquiring)
        if let cached, cached.key == key, cached.generation == generation { return cached.link }
        guard let link = hub.active(key) else { return nil }
        recent.sent(to: key)
        cached = (key, link, generation)
        return link
    }

    /// Keeps a frame for a client until ``flush()``.
    func add(_ frame: RelayedFrame, from sender: RelayLink, to receiver: RelayLink) {
        parcels[receiver.loop.index].append(RelayParcel(link: receiver, sender: sender.key, frame: frame))
    }

    /// Hands over what was kept.
    func flush() {
        for index in parcels.indices where !parcels[index].isEmpty {
            let batch = parcels[index]
            parcels[index].removeAll(keepingCapacity: batch.count <= 64)
            if index == loop.index {
                loop.deliver(batch)
            } else {
                let dropped = hub.loops[index].post(batch)
                if dropped > 0 { hub.counters.droppedFull.count(UInt64(dropped)) }
            }
        }
    }

    /// Lets go of the client that was sent to last.
    func end() { cached = nil }
}
