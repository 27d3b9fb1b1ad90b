import KithReach

extension Device.Options {
    #if canImport(UIKit)
    /// A platform of batteries.
    static let platformSavesPower = true
    #else
    /// A platform of machines on mains, and of laptops, which are awake while somebody uses them.
    static let platformSavesPower = false
    #endif

    /// How often the device sends something to stay reachable.
    var times: ReachTimes { savesPower ? .saving : .usual }
}
