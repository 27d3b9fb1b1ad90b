/// The device's person, as far as a program can ask: Face ID and Touch ID, or a script in a test.
public protocol Authenticator: Sendable {
    /// A value that changes when a finger or face is enrolled or removed; `nil` when none is, or none can be used.
    var enrolledBiometrics: [UInt8]? { get }

    /// Asks the person, and blocks until there is an answer.
    func authenticate(_ request: AuthenticationRequest) -> AuthenticationAnswer
}

/// A question for the device's person.
public struct AuthenticationRequest: Hashable, Sendable {
    /// The means that will do.
    @nonexhaustive
    public enum Means: Sendable {
        /// Biometrics alone.
        case biometrics
        /// Biometrics, or the passcode instead.
        case biometricsOrPasscode
        /// The passcode alone: biometrics are locked out, or there are none.
        case passcode
    }

    /// The means that will do.
    public let means: Means
    /// The reason that the person is shown.
    public let reason: String

    /// Asks for the sake of `reason`.
    public init(_ means: Means, reason: String) {
        self.means = means
        self.reason = reason
    }
}

/// The answer to an ``AuthenticationRequest``.
@nonexhaustive
public enum AuthenticationAnswer: CaseIterable, Sendable {
    /// It is the person.
    case accepted
    /// It is somebody else, as far as the device can tell.
    case rejected
    /// The person, or the system, called it off.
    case cancelled
    /// Too many were rejected: until the passcode is entered, biometrics are of no use.
    case lockedOut
    /// The device cannot ask: there is no sensor, or no passcode.
    case unavailable
}

/// The state of the device that a program runs on.
public protocol DeviceConditions: Sendable {
    /// The state now.
    var condition: DeviceCondition { get }
}

/// The state of a device, as far as reading secrets depends on it.
public struct DeviceCondition: Hashable, Sendable {
    /// The states of its lock.
    @nonexhaustive
    public enum Lock: CaseIterable, Sendable {
        /// Switched on, and not unlocked since.
        case neverUnlocked
        /// Locked, after it was unlocked.
        case locked
        /// Unlocked.
        case unlocked
    }

    /// The state of its lock.
    public var lock: Lock
    /// True when the program is in the background, where it cannot ask anybody.
    public var isInBackground: Bool

    /// Describes a state.
    public init(_ lock: Lock, isInBackground: Bool = false) {
        self.lock = lock
        self.isInBackground = isInBackground
    }
}
