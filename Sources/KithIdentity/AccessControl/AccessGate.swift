package import KithWire

/// Decides whether a secret may be read now, and whether the person is asked before.
///
/// A pure state machine: it neither asks nor reads a clock.
///
///     check ──allowed──▶ read
///       │ ask                ▲
///       ▼                    │ accepted
///     (the person) ──▶ answered ──refused──▶ error
package struct AccessGate {
    /// The next step for one operation.
    package enum Decision: Hashable {
        case allow
        /// Ask the person, then call ``answered(_:at:)``.
        case ask(AuthenticationRequest.Means)
        case refuse(Refusal)
    }

    /// A reason to refuse.
    package enum Refusal: Hashable, CaseIterable {
        /// Not unlocked since it was switched on.
        case neverUnlocked
        case locked
        case inBackground
        case enrolmentChanged
        case noBiometrics
        case rejected
        case cancelled
        case lockedOut
        case unavailable
    }

    /// The longest time for which an answer holds: that of Touch ID.
    package static let reuseLimit = Duration.seconds(300)

    private let access: AccessControl
    private let reuse: Duration
    /// The number of answers so far.
    private(set) package var answers = 0
    /// What the last answer led to: nothing, when it was accepted.
    private var last: (refusal: Refusal?, instant: ContinuousClock.Instant)?
    private var isLockedOut = false

    /// Keeps to `access`; an answer holds for `reuse`, and until the device is locked.
    package init(_ access: AccessControl, reuse: Duration) {
        self.access = access
        self.reuse = min(max(reuse, .zero), Self.reuseLimit)
    }

    /// Decides about one operation.
    ///
    /// `answers` is the number of answers there were when it was asked for: what waited while the person was asked for
    /// something else gets the same answer. `enrolled` is what is enrolled now, `stored` what was when it was stored.
    package mutating func check(
        in condition: DeviceCondition, enrolled: [UInt8]?, stored: [UInt8]?, after answers: Int,
        at now: ContinuousClock.Instant
    ) -> Decision {
        if condition.lock != .unlocked {
            // Whoever unlocks it next enters the passcode, or is recognised anew.
            last = nil
            isLockedOut = false
        }
        if let refusal = refusal(in: condition) { return .refuse(refusal) }
        guard access.biometrics != .none else { return .allow }
        guard condition.lock == .unlocked else { return .refuse(.locked) }
        guard !condition.isInBackground else { return .refuse(.inBackground) }
        if access.biometrics == .currentSet, enrolled != stored { return .refuse(.enrolmentChanged) }
        if let last {
            if answers < self.answers { return last.refusal.map { .refuse($0) } ?? .allow }
            if last.refusal == nil, last.instant.duration(to: now) < reuse { return .allow }
        }
        if access.allowsPasscode {
            return .ask(isLockedOut || enrolled == nil ? .passcode : .biometricsOrPasscode)
        }
        if isLockedOut { return .refuse(.lockedOut) }
        return enrolled == nil ? .refuse(.noBiometrics) : .ask(.biometrics)
    }

    /// Decides whether a secret may be stored: for that nobody is asked, but the keys must be at hand.
    ///
    /// `stored` is what was enrolled when others were, if any.
    package func checkStoring(in condition: DeviceCondition, enrolled: [UInt8]?, stored: [UInt8]?) -> Refusal? {
        if let refusal = refusal(in: condition) { return refusal }
        guard access.biometrics == .currentSet else { return nil }
        guard let enrolled else { return .noBiometrics }
        return stored == nil || stored == enrolled ? nil : .enrolmentChanged
    }

    /// Notes an answer; returns why the operation that asked is refused.
    package mutating func answered(_ answer: AuthenticationAnswer, at now: ContinuousClock.Instant) -> Refusal? {
        let refusal: Refusal? =
            switch answer {
            case .accepted: nil
            case .rejected: .rejected
            case .cancelled: .cancelled
            case .lockedOut: .lockedOut
            case .unavailable: .unavailable
            }
        if refusal == nil { isLockedOut = false }
        if refusal == .lockedOut { isLockedOut = true }
        answers += 1
        last = (refusal, now)
        return refusal
    }

    /// A refusal for what the class of the secrets says.
    private func refusal(in condition: DeviceCondition) -> Refusal? {
        switch condition.lock {
        case .neverUnlocked: return .neverUnlocked
        case .locked where access.accessibility.needsUnlocked: return .locked
        case .locked, .unlocked: return condition.isInBackground && !access.allowsBackground ? .inBackground : nil
        }
    }
}

extension AccessGate.Refusal {
    /// The error for an operation, such as "read the secret identity".
    package func error(_ operation: String) -> KithError {
        let (code, why): (KithError.Code, String) =
            switch self {
            case .neverUnlocked:
                (.denied, "the device was not unlocked since it was switched on. Unlock it, and try again")
            case .locked: (.denied, "the device is locked. Unlock it, and try again")
            case .inBackground: (.denied, "the app is in the background. Open it, and try again")
            case .enrolmentChanged:
                (
                    .denied,
                    "fingers or faces were enrolled or removed since secrets were stored. Remove those, and store new ones"
                )
            case .noBiometrics:
                (.unsupported, "this device has no fingers or faces enrolled. Enrol one in its settings")
            case .rejected: (.denied, "the person was not recognised. Try again")
            case .cancelled: (.cancelled, "the person called it off")
            case .lockedOut:
                (.exhausted, "biometrics are locked after too many attempts. Unlock the device with its passcode")
            case .unavailable: (.unsupported, "this device cannot ask for biometrics or a passcode now")
            }
        return KithError(code, "Could not \(operation): \(why).")
    }
}
