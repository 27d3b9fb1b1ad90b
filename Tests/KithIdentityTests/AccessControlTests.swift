import Foundation
@testable import KithIdentity
import KithTesting
import KithWire
import Testing

/// Reading secrets as an access control allows.
@Suite struct AccessControlTests {
    // MARK: - Combinations

    /// Every combination there is, and what it was made of.
    static var all: [(access: AccessControl?, wanted: Wanted)] {
        var all: [(AccessControl?, Wanted)] = []
        for accessibility in AccessControl.Accessibility.allCases {
            for biometrics in AccessControl.Biometrics.allCases {
                for bits in 0..<16 {
                    let wanted = Wanted(
                        accessibility: accessibility, biometrics: biometrics, passcode: bits & 1 != 0,
                        background: bits & 2 != 0, enclave: bits & 4 != 0, group: bits & 8 != 0 ? "A1B2.kith" : nil)
                    all.append((wanted.made, wanted))
                }
            }
        }
        return all
    }

    struct Wanted {
        var accessibility: AccessControl.Accessibility
        var biometrics: AccessControl.Biometrics
        var passcode, background, enclave: Bool
        var group: String?

        var made: AccessControl? {
            try? AccessControl(
                accessibility, biometrics: biometrics, allowsPasscode: passcode, allowsBackground: background,
                usesSecureEnclave: enclave, group: group)
        }
    }

    @Test func `only combinations that can be kept are made`() throws {
        for (access, wanted) in Self.all {
            let isAfterFirst = [.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly].contains(wanted.accessibility)
            let isHereOnly = [.whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly]
                .contains(wanted.accessibility)
            let canBeKept =
                (!wanted.passcode || wanted.biometrics == .any)
                && (!wanted.background || (isAfterFirst && wanted.biometrics == .none))
                && (!wanted.enclave || isHereOnly)
            #expect((access != nil) == canBeKept, "\(wanted)")
        }
        // Four ways to ask, and from the first unlocking one in the background; with and without a group. Those of this
        // device only twice, with and without the enclave.
        #expect(Self.all.count { $0.access != nil } == 4 * 2 + 4 * 2 * 2 + 5 * 2 + 5 * 2 * 2)
        for group in ["", "a b", "a/b", "é", String(repeating: "a", count: 256)] {
            #expect(throws: KithError(.invalid, "")) { try AccessControl(.whenUnlocked, group: group) }
        }
        #expect(AccessControl.Accessibility.allCases.map(\.rawValue) == [0, 1, 2, 3])
    }

    // MARK: - States

    private let now = ContinuousClock.now

    @Test func `a class is read in the states it names, and in no others`() throws {
        for (access, _) in Self.all where access?.biometrics == AccessControl.Biometrics.none {
            guard let access else { continue }
            for lock in DeviceCondition.Lock.allCases {
                for isInBackground in [false, true] {
                    var gate = AccessGate(access, reuse: .zero)
                    let condition = DeviceCondition(lock, isInBackground: isInBackground)
                    let expected: AccessGate.Refusal? =
                        switch (lock, access.accessibility) {
                        case (.neverUnlocked, _): .neverUnlocked
                        case (.locked, .whenUnlocked), (.locked, .whenUnlockedThisDeviceOnly): .locked
                        case (.locked, _), (.unlocked, _):
                            isInBackground && !access.allowsBackground ? .inBackground : nil
                        }
                    #expect(
                        gate.check(in: condition, enrolled: nil, stored: nil, after: 0, at: now)
                            == expected.map { .refuse($0) } ?? .allow)
                    #expect(gate.checkStoring(in: condition, enrolled: nil, stored: nil) == expected)
                }
            }
        }
    }

    @Test func `nobody is asked while the device is locked or the program in the background`() throws {
        for (access, _) in Self.all where access?.biometrics == .any || access?.biometrics == .currentSet {
            guard let access else { continue }
            for lock in DeviceCondition.Lock.allCases {
                for isInBackground in [false, true] where lock != .unlocked || isInBackground {
                    var gate = AccessGate(access, reuse: .seconds(60))
                    let decision = gate.check(
                        in: DeviceCondition(lock, isInBackground: isInBackground), enrolled: [1], stored: [1],
                        after: 0, at: now)
                    guard case .refuse = decision else {
                        Issue.record("\(access) \(lock) \(isInBackground): \(decision)")
                        continue
                    }
                }
            }
        }
    }

    // MARK: - The person

    private let unlocked = DeviceCondition(.unlocked)

    @Test func `the means that are asked for follow what is enrolled and locked out`() throws {
        var gate = AccessGate(try AccessControl(.whenUnlocked, biometrics: .any), reuse: .zero)
        func check(_ enrolled: [UInt8]? = [1]) -> AccessGate.Decision {
            gate.check(in: unlocked, enrolled: enrolled, stored: nil, after: gate.answers, at: now)
        }
        #expect(check() == .ask(.biometrics))
        #expect(check(nil) == .refuse(.noBiometrics))
        #expect(gate.answered(.lockedOut, at: now) == .lockedOut)
        // Nobody is asked again before the passcode was entered, which unlocking is.
        #expect(check() == .refuse(.lockedOut))
        #expect(
            gate.check(in: DeviceCondition(.locked), enrolled: [1], stored: nil, after: gate.answers, at: now)
                == .refuse(.locked))
        #expect(check() == .ask(.biometrics))

        gate = AccessGate(try AccessControl(.whenUnlocked, biometrics: .any, allowsPasscode: true), reuse: .zero)
        #expect(check() == .ask(.biometricsOrPasscode))
        #expect(check(nil) == .ask(.passcode))
        #expect(gate.answered(.lockedOut, at: now) == .lockedOut)
        #expect(check() == .ask(.passcode))
        #expect(gate.answered(.accepted, at: now) == nil)
        #expect(check() == .ask(.biometricsOrPasscode))
    }

    @Test func `an answer holds for its time, until the device is locked, and a refusal for nobody`() throws {
        var gate = AccessGate(try AccessControl(.afterFirstUnlock, biometrics: .any), reuse: .seconds(10))
        func check(after seconds: Int64, _ lock: DeviceCondition.Lock = .unlocked) -> AccessGate.Decision {
            gate.check(
                in: DeviceCondition(lock), enrolled: [1], stored: nil, after: gate.answers, at: now + .seconds(seconds))
        }
        #expect(check(after: 0) == .ask(.biometrics))
        #expect(gate.answered(.accepted, at: now) == nil)
        #expect(check(after: 9) == .allow)
        #expect(check(after: 10) == .ask(.biometrics))
        #expect(check(after: 8) == .allow)
        #expect(check(after: 8, .locked) == .refuse(.locked))
        #expect(check(after: 8) == .ask(.biometrics))
        for answer in [AuthenticationAnswer.rejected, .cancelled, .unavailable] {
            #expect(gate.answered(answer, at: now) != nil)
            #expect(check(after: 0) == .ask(.biometrics))
        }
        // However long is asked for, five minutes are the most.
        gate = AccessGate(try AccessControl(.afterFirstUnlock, biometrics: .any), reuse: .seconds(100_000))
        #expect(gate.answered(.accepted, at: now) == nil)
        #expect(check(after: 299) == .allow)
        #expect(check(after: 300) == .ask(.biometrics))
    }

    @Test func `what waited while the person was asked gets the same answer`() throws {
        for (answer, expected) in [
            (.accepted, .allow), (.cancelled, .refuse(.cancelled)), (.rejected, .refuse(.rejected)),
        ] as [(AuthenticationAnswer, AccessGate.Decision)] {
            var gate = AccessGate(try AccessControl(.whenUnlocked, biometrics: .any), reuse: .zero)
            #expect(
                gate.check(in: unlocked, enrolled: [1], stored: nil, after: 0, at: now) == .ask(.biometrics))
            _ = gate.answered(answer, at: now)
            #expect(gate.check(in: unlocked, enrolled: [1], stored: nil, after: 0, at: now) == expected)
            // What comes later is asked for itself.
            #expect(gate.check(in: unlocked, enrolled: [1], stored: nil, after: 1, at: now) == .ask(.biometrics))
        }
    }

    // MARK: - Guarded stores

    private func guarded(
        _ base: any KeyStore, _ access: AccessControl, _ device: ScriptedDevice, reuse: Duration = .zero,
        clock: any Ticker = ManualClock()
    ) -> GuardedKeyStore {
        GuardedKeyStore(base, access: access, device: device, authenticator: device, reuse: reuse, clock: clock)
    }

    @Test(arguments: [false, true])
    func `while the device is locked a secret is neither read nor stored, and stays as it is`(isFile: Bool) throws {
        let folder = try TemporaryFolder()
        let base: any KeyStore =
            isFile ? FileKeyStore(directory: folder.path, seal: .machineKey) : MemoryKeyStore()
        let device = ScriptedDevice()
        let store = guarded(base, try AccessControl(.whenUnlocked), device)
        try store.store([1], named: "a")
        let key = try store.deviceKey().id
        for lock in [DeviceCondition.Lock.locked, .neverUnlocked] {
            device.condition.lock = lock
            #expect(throws: KithError(.denied, "")) { _ = try store.secret(named: "a") }
            #expect(throws: KithError(.denied, "")) { try store.store([2], named: "a") }
            #expect(throws: KithError(.denied, "")) { _ = try store.deviceKey() }
            #expect(try store.secretNames() == ["a", "identity"])
        }
        device.condition.lock = .unlocked
        device.condition.isInBackground = true
        #expect(throws: KithError(.denied, "")) { _ = try store.secret(named: "a") }
        device.condition.isInBackground = false
        #expect(try store.secret(named: "a") == [1])
        #expect(try store.deviceKey().id == key)
        device.condition.lock = .locked
        try store.removeSecret(named: "a")
        #expect(try store.secretNames() == ["identity"])
        #expect(device.takeRequests() == [])
    }

    @Test func `each answer of the person has its error, and a secret that is not there asks nobody`() throws {
        let device = ScriptedDevice()
        let store = guarded(MemoryKeyStore(), try AccessControl(.whenUnlocked, biometrics: .any), device)
        #expect(try store.secret(named: "a") == nil)
        try store.store([1], named: "a")
        #expect(device.takeRequests() == [])
        for (answer, code) in [
            (.rejected, .denied), (.cancelled, .cancelled), (.unavailable, .unsupported), (.lockedOut, .exhausted),
        ] as [(AuthenticationAnswer, KithError.Code)] {
            device.answer(answer)
            #expect(throws: KithError(code, "")) { _ = try store.secret(named: "a") }
            #expect(
                device.takeRequests()
                    == [AuthenticationRequest(.biometrics, reason: "Kith wants to read the secret a.")])
        }
        #expect(throws: KithError(.exhausted, "")) { _ = try store.secret(named: "a") }
        #expect(device.takeRequests() == [])
    }

    @Test func `many threads that read at once ask the person once`() throws {
        let device = ScriptedDevice()
        let clock = ManualClock()
        let store = guarded(
            MemoryKeyStore(), try AccessControl(.whenUnlocked, biometrics: .any), device, reuse: .seconds(30),
            clock: clock)
        try store.store([1], named: "a")
        device.answer(.accepted)
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            #expect((try? store.secret(named: "a")) == [1])
        }
        #expect(device.takeRequests().count == 1)
        clock.advance(by: .seconds(30))
        device.answer(.accepted)
        #expect(try store.secret(named: "a") == [1])
        #expect(device.takeRequests().count == 1)
    }

    @Test func `a device that is locked while its person is asked gives nothing away`() throws {
        let locking = ScriptedDevice()
        let device = ScriptedDevice { locking.condition.lock = .locked }
        let store = GuardedKeyStore(
            MemoryKeyStore(), access: try AccessControl(.whenUnlocked, biometrics: .any), device: locking,
            authenticator: device)
        try store.store([1], named: "a")
        device.answer(.accepted)
        #expect(throws: KithError(.denied, "")) { _ = try store.secret(named: "a") }
    }

    @Test func `a finger enrolled later does not read what was stored before`() throws {
        let device = ScriptedDevice()
        let base = MemoryKeyStore()
        let access = try AccessControl(.whenUnlocked, biometrics: .currentSet)
        let store = guarded(base, access, device)
        try store.store([1], named: "a")
        device.enrolledBiometrics = [1, 2]
        for store in [store, guarded(base, access, device)] {
            #expect(throws: KithError(.denied, "")) { _ = try store.secret(named: "a") }
            #expect(throws: KithError(.denied, "")) { try store.store([2], named: "b") }
            #expect(try store.secretNames() == ["a"])
        }
        device.enrolledBiometrics = nil
        #expect(throws: KithError(.denied, "")) { _ = try store.secret(named: "a") }
        #expect(device.takeRequests() == [])
        device.enrolledBiometrics = [1]
        device.answer(.accepted, .accepted)
        #expect(try store.secret(named: "a") == [1])
        // Where nothing is left, whoever is enrolled now counts.
        try store.removeSecret(named: "a")
        #expect(base.secretNames() == [])
        device.enrolledBiometrics = [2]
        try store.store([3], named: "a")
        #expect(try store.secret(named: "a") == [3])
        #expect(throws: KithError(.invalid, "")) { _ = try store.secret(named: "access.enrolment") }
    }
}
