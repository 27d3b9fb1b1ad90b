import KithIdentity
import KithReach
import KithWire

/// The relays of other devices that this one uses to reach them.
///
/// A value, and the bound on what other devices can have this one connect to: two relays for each device, another choice
/// of them every ten seconds, and sixteen for all devices. A device that was neither called nor connected for a minute
/// has no part in it.
struct PeerRelays {
    /// The most relays for one device.
    static let maxPerDevice = 2
    /// The most relays for all devices.
    static let maxRelays = 16
    /// The time after which a device that is not connected is forgotten.
    static let idleTime = Duration.seconds(60)
    /// The shortest time between two changes that a device announces.
    static let changeInterval = Duration.seconds(10)

    private struct Entry {
        var relays: [RelayAddress]
        var lastUse: ContinuousClock.Instant
        var nextChange: ContinuousClock.Instant
        /// Announced too early, and not yet used.
        var pending: [RelayAddress]?
    }

    private var entries: [DeviceID: Entry] = [:]

    /// The devices that have a part in it.
    var devices: [DeviceID] { Array(entries.keys) }

    /// The relays in use for all devices.
    var relays: Set<RelayAddress> { Set(entries.values.flatMap(\.relays)) }

    /// The relays in use for a device.
    func relays(of device: DeviceID) -> [RelayAddress] { entries[device]?.relays ?? [] }

    /// Uses relays to call a device, and returns those that the bounds leave.
    ///
    /// `own` are used anyway, and count for nobody.
    mutating func use(
        _ relays: [RelayAddress], for device: DeviceID, own: Set<RelayAddress>, at now: ContinuousClock.Instant
    ) -> [RelayAddress] {
        let kept = bounded(relays, for: device, own: own)
        let nextChange = entries[device]?.nextChange ?? now
        entries[device] = Entry(
            relays: kept, lastUse: now, nextChange: nextChange, pending: entries[device]?.pending)
        return kept
    }

    /// Uses the relays that a connected device announces: now, or when it may choose others again.
    ///
    /// One that was at none so far has just come to its relays, and need not wait.
    mutating func announced(
        _ relays: [RelayAddress], by device: DeviceID, own: Set<RelayAddress>, at now: ContinuousClock.Instant
    ) {
        if let entry = entries[device] {
            entries[device]?.lastUse = now
            guard entry.nextChange <= now || entry.relays.isEmpty else {
                entries[device]?.pending = relays
                return
            }
        }
        entries[device] = Entry(
            relays: bounded(relays, for: device, own: own), lastUse: now, nextChange: now + Self.changeInterval)
    }

    /// Applies what was announced too early, and returns the devices whose relays are others now.
    mutating func applyPending(own: Set<RelayAddress>, at now: ContinuousClock.Instant) -> [DeviceID] {
        let due = entries.filter { $0.value.pending != nil && $0.value.nextChange <= now }
        for (device, entry) in due { announced(entry.pending ?? [], by: device, own: own, at: now) }
        return Array(due.keys)
    }

    /// Forgets devices that are not connected, and were not for a while.
    mutating func expire(at now: ContinuousClock.Instant, isConnected: (DeviceID) -> Bool) {
        for device in entries.keys where isConnected(device) { entries[device]?.lastUse = now }
        entries = entries.filter { now - $0.value.lastUse < Self.idleTime }
    }

    /// Indicates whether a device has announced relays that are not used yet.
    func isPending(_ device: DeviceID) -> Bool { entries[device]?.pending != nil }

    /// Forgets a device.
    mutating func remove(_ device: DeviceID) { entries[device] = nil }

    /// The time at which ``applyPending(own:at:)`` is to be called; nil for never.
    var nextDeadline: ContinuousClock.Instant? {
        entries.values.compactMap { $0.pending == nil ? nil : $0.nextChange }.min()
    }

    private func bounded(
        _ relays: [RelayAddress], for device: DeviceID, own: Set<RelayAddress>
    ) -> [RelayAddress] {
        var others = Set(entries.filter { $0.key != device }.values.flatMap(\.relays)).subtracting(own)
        return relays.prefix(Self.maxPerDevice).filter { relay in
            if own.contains(relay) || others.contains(relay) { return true }
            guard others.count < Self.maxRelays else { return false }
            others.insert(relay)
            return true
        }
    }
}

extension RelayAddress {
    /// Indicates whether a device may send another one there: not to services of that device's own machine, nor of its link.
    var mayBeNamedByPeers: Bool {
        if host == "localhost" || host.hasSuffix(".localhost") { return false }
        return literal?.mayBeNamedByPeers ?? true
    }

    /// Indicates whether its host is an address of a local network: on any other it is nobody's, or somebody else's.
    package var isOfLocalNetwork: Bool {
        guard let literal else { return false }
        return literal.isPrivate || literal.isLinkLocal
    }

    /// The host, where it is an address and no name.
    private var literal: NetworkAddress? { NetworkAddress(host.contains(":") ? "[\(host)]:1" : "\(host):1") }
}

extension NetworkAddress {
    /// Indicates whether a device may send another one there; connecting to `0.0.0.0` or `::` leads to this machine as well.
    var mayBeNamedByPeers: Bool { !isLoopback && !isLinkLocal && !isUnspecified && !isMulticast }
}
