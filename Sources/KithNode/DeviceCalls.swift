import KithIdentity
import KithWire
import Synchronization

/// The running calls of each device, over all its connections, so that none takes the capacity meant for all.
final class DeviceCalls: Sendable {
    private struct Load {
        var total = 0
        var methods: [String: Int] = [:]

        /// Counts a call, unless it is one too many.
        mutating func enter(_ method: String, perMethod: Int?, total limit: Int) -> Bool {
            guard total < limit, methods[method, default: 0] < perMethod ?? .max else { return false }
            total += 1
            methods[method, default: 0] += 1
            return true
        }

        /// Counts a call no more; true when there is none left.
        mutating func leave(_ method: String) -> Bool {
            guard let count = methods[method] else { return total == 0 }
            total -= 1
            methods[method] = count > 1 ? count - 1 : nil
            return total == 0
        }
    }

    private let loads = Mutex<[DeviceID: Load]>([:])

    /// Counts a call; ``leave(_:_:)`` follows.
    ///
    /// - Throws: `.exhausted` when the device has `total` calls running, or `perMethod` of this method.
    func enter(_ device: DeviceID, _ method: String, perMethod: Int?, total: Int) throws(KithError) {
        let isFull = loads.withLock { !$0[device, default: Load()].enter(method, perMethod: perMethod, total: total) }
        if isFull {
            throw KithError(
                .exhausted, "This device has too many calls of \(method) running there. Try again when some are done.")
        }
    }

    /// A call is over.
    func leave(_ device: DeviceID, _ method: String) {
        loads.withLock { loads in
            if loads[device]?.leave(method) == true { loads[device] = nil }
        }
    }
}
