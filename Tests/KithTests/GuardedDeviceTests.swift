import Kith
import KithTesting
import Testing

/// A device whose key is read as an access control allows.
@Suite struct GuardedDeviceTests {
    @Test func `a device does not open, nor is it made, while its keys are locked or its person calls it off`()
        async throws
    {
        let folder = try TemporaryFolder()
        let (keys, phone) = (MemoryKeyStore(), ScriptedDevice())
        var options = Device.Options()
        options.listens = false
        options.keyStore = GuardedKeyStore(
            keys, access: try AccessControl(.whenUnlocked, biometrics: .any), device: phone, authenticator: phone)
        phone.condition.lock = .locked
        await #expect(throws: KithError(.denied, "")) {
            _ = try await Device.open(directory: folder.path, options: options)
        }
        #expect(keys.secretNames() == [])
        phone.condition.lock = .unlocked
        let id = try await opened(folder, options)
        #expect(keys.secretNames() == ["identity"])

        phone.answer(.cancelled)
        await #expect(throws: KithError(.cancelled, "")) {
            _ = try await Device.open(directory: folder.path, options: options)
        }
        phone.condition.isInBackground = true
        await #expect(throws: KithError(.denied, "")) {
            _ = try await Device.open(directory: folder.path, options: options)
        }
        phone.condition.isInBackground = false
        phone.answer(.accepted)
        #expect(try await opened(folder, options) == id)
    }

    private func opened(_ folder: TemporaryFolder, _ options: Device.Options) async throws -> DeviceID {
        let device = try await Device.open(directory: folder.path, options: options)
        return try await device.whileRunning { device.id }
    }
}
