import KithIdentity
import KithWire
import Synchronization

/// The running calls of each device, over all its connections, so that none takes the capacity meant for all.
final class DeviceCalls: Sendable {
    private struct Load {
        var total = 0
        var methods: [String: Int] = [:]
    }

    private let loads = Mutex<[DeviceID: Load]>([:])

    /// Counts a call; ``leave(_:_:)`` follows.
    ///
    /// - Throws: `.exhausted` when the device has `total` calls running, or `perMethod` of this method.
    func enter(_ device: DeviceID, _ method: String, perMethod: Int?, total: Int) throws(KithError) {
        let isFull = loads.withLock { loads in
            var load = loads[device] ?? Load()
            guard load.total < total, load.methods[method, default: 0] < perMethod ?? .max else { return true }
            load.total += 1
            load.methods[method, default: 0] += 1
            loads[device] = load
            return false
        }
        if isFull {
            throw KithError(
                .exhausted, "This device has too many calls of \(method) running there. Try again when some are done.")
        }
    }

    /// A call is over.
    func leave(_ device: DeviceID, _ method: String) {
        loads.withLock { loads in
            guard var load = loads[device], let count = load.methods[method] else { return }
            load.total -= 1
            load.methods[method] = count > 1 ? count - 1 : nil
            loads[device] = load.total > 0 ? load : nil
        }
    }
}
