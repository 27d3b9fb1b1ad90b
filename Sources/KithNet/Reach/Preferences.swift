import KithIdentity
import KithReach

/// The ways by which devices are reached: in general, for one of them, and for as long as somebody holds to it.
struct Preferences {
    /// The one that holds for devices without one of their own.
    private(set) var general: ReachPreference
    private var own: [DeviceID: ReachPreference]
    private var held: [DeviceID: [(number: UInt64, preference: ReachPreference)]] = [:]
    private var lastNumber: UInt64 = 0

    init(_ general: ReachPreference, _ own: [DeviceID: ReachPreference]) {
        (self.general, self.own) = (general, own)
    }

    /// The preferences that differ from the general one.
    var special: [DeviceID: ReachPreference] {
        own.merging(held.compactMapValues(\.last?.preference)) { $1 }
    }

    /// The preference that holds for a device.
    func preference(for device: DeviceID) -> ReachPreference {
        held[device]?.last?.preference ?? own[device] ?? general
    }

    /// Indicates whether somebody holds to the one that holds for a device.
    func isHeld(for device: DeviceID) -> Bool { held[device]?.isEmpty == false }

    /// Sets the preference of a device, or the general one for no device; nil forgets it.
    mutating func set(_ preference: ReachPreference?, for device: DeviceID?) {
        if let device { own[device] = preference } else { general = preference ?? .auto }
    }

    /// Has a preference hold for a device until it is released.
    mutating func hold(_ preference: ReachPreference, for device: DeviceID) -> UInt64 {
        lastNumber += 1
        held[device, default: []].append((lastNumber, preference))
        return lastNumber
    }

    /// Ends what ``hold(_:for:)`` began.
    mutating func release(_ number: UInt64, of device: DeviceID) {
        held[device]?.removeAll { $0.number == number }
        if held[device]?.isEmpty == true { held[device] = nil }
    }
}
