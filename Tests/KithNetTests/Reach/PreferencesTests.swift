import KithIdentity
import KithReach
import Testing

@testable import KithNet

@Suite struct PreferencesTests {
    @Test func `what is held counts before what is set, and the newest of it`() {
        let device = DeviceKey().id
        var preferences = Preferences(.auto, [:])
        preferences.set(.local, for: nil)
        #expect(preferences.preference(for: device) == .local && preferences.special.isEmpty)
        preferences.set(.direct, for: device)
        let first = preferences.hold(.relay, for: device)
        let second = preferences.hold(.auto, for: device)
        #expect(preferences.preference(for: device) == .auto && preferences.special == [device: .auto])
        preferences.release(second, of: device)
        #expect(preferences.preference(for: device) == .relay)
        preferences.release(first, of: device)
        #expect(preferences.preference(for: device) == .direct)
        preferences.set(nil, for: device)
        #expect(preferences.preference(for: device) == .local && preferences.special.isEmpty)
    }
}
