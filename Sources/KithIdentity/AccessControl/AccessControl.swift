public import KithWire

/// The conditions under which stored secrets can be read, as the keychains of Apple's systems have them.
///
/// Combinations that make no sense are refused when they are made, not when a secret is needed.
public struct AccessControl: Hashable, Sendable {
    /// The states of the device in which secrets can be read.
    @nonexhaustive
    public enum Accessibility: Int, CaseIterable, Sendable {
        /// While it is unlocked.
        case whenUnlocked = 0
        /// While it is unlocked; they are in no backup that another device can use.
        case whenUnlockedThisDeviceOnly = 1
        /// From the first unlocking after it was switched on.
        case afterFirstUnlock = 2
        /// From the first unlocking after it was switched on; they are in no backup that another device can use.
        case afterFirstUnlockThisDeviceOnly = 3

        /// True when they need an unlocked device each time.
        public var needsUnlocked: Bool { self == .whenUnlocked || self == .whenUnlockedThisDeviceOnly }
        /// True when they never leave the device.
        public var isThisDeviceOnly: Bool {
            self == .whenUnlockedThisDeviceOnly || self == .afterFirstUnlockThisDeviceOnly
        }
    }

    /// The fingers and faces that are asked for.
    @nonexhaustive
    public enum Biometrics: CaseIterable, Sendable {
        /// Nobody is asked.
        case none
        /// Any that the device knows at the time.
        case any
        /// Those it knew when the secret was stored: after another is enrolled, the secret is out of reach.
        case currentSet
    }

    /// The states of the device in which secrets can be read.
    public let accessibility: Accessibility
    /// The fingers and faces that are asked for.
    public let biometrics: Biometrics
    /// True when the device's passcode will do instead.
    public let allowsPasscode: Bool
    /// True when secrets can be read while the app is in the background.
    public let allowsBackground: Bool
    /// True when a key in the Secure Enclave seals the secrets.
    public let usesSecureEnclave: Bool
    /// The group of apps that share the secrets; `nil`: this app alone.
    public let group: String?

    /// Combines conditions.
    ///
    /// - Throws: `KithError` `.invalid` for a combination that cannot be kept: see the message.
    public init(
        _ accessibility: Accessibility, biometrics: Biometrics = .none, allowsPasscode: Bool = false,
        allowsBackground: Bool = false, usesSecureEnclave: Bool = false, group: String? = nil
    ) throws(KithError) {
        func require(_ condition: Bool, _ why: String) throws(KithError) {
            guard condition else { throw KithError(.invalid, "This access control cannot be kept: \(why).") }
        }
        try require(
            !allowsPasscode || biometrics != .none, "a passcode stands in for biometrics, and none are asked for")
        try require(
            !allowsPasscode || biometrics != .currentSet,
            "whoever knows the passcode can enrol a finger, which the current set is to keep out")
        try require(
            !allowsBackground || biometrics == .none, "nobody can be asked for biometrics in the background")
        try require(
            !allowsBackground || !accessibility.needsUnlocked,
            "in the background the device is locked, and secrets need it unlocked")
        try require(
            !usesSecureEnclave || accessibility.isThisDeviceOnly,
            "a key in the Secure Enclave never leaves its device, so what it seals is of no use elsewhere")
        if let group {
            let isPlain = group.utf8.allSatisfy {
                (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0) || $0 == 45 || $0 == 46
            }
            try require(
                isPlain && (1...255).contains(group.utf8.count),
                "a group is named by 1 to 255 letters, digits, hyphens and dots")
        }
        self.accessibility = accessibility
        self.biometrics = biometrics
        self.allowsPasscode = allowsPasscode
        self.allowsBackground = allowsBackground
        self.usesSecureEnclave = usesSecureEnclave
        self.group = group
    }
}
