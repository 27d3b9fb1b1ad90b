package import KithIdentity
package import KithWire
import Synchronization

/// Bounds what other devices can make this one send to addresses that they name, however often they connect anew.
///
/// Shared by the connections of an endpoint. Rounds and attempts are counted for each device, probes for each IP address,
/// whichever devices name it. What is at its full credit again is forgotten.
package final class PunchBudget: Sendable {
    /// What may be sent, and how often.
    package struct Limits: Hashable, Sendable {
        /// Rounds of a device that may follow each other at once.
        package var roundBurst = 4
        /// After which time a device may have one more.
        package var roundInterval = Duration.seconds(5)
        /// How long after an attempt by chance a device's next may begin.
        ///
        /// Once a minute, less what the two ends' rounds differ by: else one end would skip the round that the other
        /// does not, and they would never meet again.
        package var attemptInterval = Duration.seconds(58)
        /// Probes to one IP address that may follow each other at once: as many as one device may ask for.
        package var addressBurst = 2_176
        /// Probes to one IP address in a second, after those.
        package var addressRate: UInt64 = 75
        /// The most devices that are counted; the rounds of others wait.
        package var devices = 1_024
        /// The most IP addresses that are counted; no others are probed.
        package var addresses = 16_384

        /// The documented values.
        package init() {}
    }

    private struct Device {
        /// The rounds it may begin, as of `at`.
        var credit: Double
        var at: ContinuousClock.Instant
        var lastAttempt: ContinuousClock.Instant?
    }

    private struct Tables {
        var devices: [DeviceID: Device] = [:]
        var addresses: [[UInt8]: TokenBucket] = [:]
        /// The number of addresses at which those with their full credit are forgotten.
        var sweepAbove = 1_024
    }

    /// The limits.
    package let limits: Limits
    private let tables = Mutex(Tables())

    /// Starts with the full credit for everybody.
    package init(limits: Limits = Limits()) { self.limits = limits }

    /// The numbers of devices and of IP addresses that are remembered.
    package var counts: (devices: Int, addresses: Int) {
        tables.withLock { ($0.devices.count, $0.addresses.count) }
    }

    /// The time until a device may have its next round.
    package func wait(of device: DeviceID, at now: ContinuousClock.Instant) -> Duration {
        tables.withLock { tables in
            guard let credit = credit(of: device, in: &tables, at: now)?.credit else { return limits.roundInterval }
            return credit >= 1 ? .zero : limits.roundInterval * (1 - credit)
        }
    }

    /// Begins a round of a device; returns whether it may.
    package func takeRound(of device: DeviceID, at now: ContinuousClock.Instant) -> Bool {
        tables.withLock { tables in
            guard var entry = credit(of: device, in: &tables, at: now), entry.credit >= 1 else { return false }
            entry.credit -= 1
            tables.devices[device] = entry
            return true
        }
    }

    /// The time of the last attempt by chance with a device; `nil` when that is long ago.
    package func lastAttempt(of device: DeviceID) -> ContinuousClock.Instant? {
        tables.withLock { $0.devices[device]?.lastAttempt }
    }

    /// Notes that an attempt by chance with a device begins.
    package func attempted(_ device: DeviceID, at now: ContinuousClock.Instant) {
        tables.withLock { tables in
            guard var entry = credit(of: device, in: &tables, at: now) else { return }
            entry.lastAttempt = now
            tables.devices[device] = entry
        }
    }

    /// Sends one probe to an address, at whatever port; returns whether it may.
    package func takeProbe(to address: NetworkAddress, at now: ContinuousClock.Instant) -> Bool {
        tables.withLock { tables in
            let host = address.ip
            if tables.addresses[host] == nil, tables.addresses.count >= min(tables.sweepAbove, limits.addresses) {
                tables.addresses = tables.addresses.filter { !$0.value.isFull(at: now) }
                guard tables.addresses.count < limits.addresses else { return false }
                tables.sweepAbove = max(1_024, 2 * tables.addresses.count)
            }
            let full = TokenBucket(rate: limits.addressRate, burst: UInt64(max(1, limits.addressBurst)), at: now)
            return tables.addresses[host, default: full].takeIfThere(at: now)
        }
    }

    /// What a device may have now; `nil` when it is not counted, and too many others are.
    private func credit(
        of device: DeviceID, in tables: inout Tables, at now: ContinuousClock.Instant
    ) -> Device? {
        guard let entry = tables.devices[device] else {
            if tables.devices.count >= limits.devices {
                tables.devices = tables.devices.filter { !isForgettable(refilled($0.value, at: now), at: now) }
                guard tables.devices.count < limits.devices else { return nil }
            }
            return Device(credit: Double(limits.roundBurst), at: now)
        }
        return refilled(entry, at: now)
    }

    private func refilled(_ entry: Device, at now: ContinuousClock.Instant) -> Device {
        var entry = entry
        let earned = max(0, (now - entry.at) / limits.roundInterval)
        (entry.credit, entry.at) = (min(entry.credit + earned, Double(limits.roundBurst)), max(now, entry.at))
        return entry
    }

    private func isForgettable(_ entry: Device, at now: ContinuousClock.Instant) -> Bool {
        let isPast = entry.lastAttempt.map { now - $0 >= limits.attemptInterval } ?? true
        return isPast && entry.credit >= Double(limits.roundBurst)
    }
}
