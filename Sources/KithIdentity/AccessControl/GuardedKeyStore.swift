public import KithWire
import Synchronization

/// A key store whose secrets can be read only as an ``AccessControl`` allows, in the device's state and by its person.
///
/// For stores that have no such rules of their own, memory and files: what it refuses is refused by this process alone. A
/// keychain enforces the same rules itself. The group means nothing here.
///
/// Operations wait for each other while the person is asked, and what waited gets the same answer. Call it from threads
/// that may block.
public final class GuardedKeyStore: KeyStore {
    private let base: any KeyStore
    private let access: AccessControl
    private let device: any DeviceConditions
    private let authenticator: any Authenticator
    private let clock: any Ticker
    private let gate: Mutex<AccessGate>
    /// The number of answers so far, for operations that wait for their turn.
    private let answers = Atomic(0)

    /// Guards the secrets of `base`; an answer of the person holds for `reuse`, at most five minutes.
    public convenience init(
        _ base: any KeyStore, access: AccessControl, device: any DeviceConditions,
        authenticator: any Authenticator, reuse: Duration = .zero
    ) {
        self.init(
            base, access: access, device: device, authenticator: authenticator, reuse: reuse, clock: ContinuousClock())
    }

    package init(
        _ base: any KeyStore, access: AccessControl, device: any DeviceConditions,
        authenticator: any Authenticator, reuse: Duration, clock: any Ticker
    ) {
        self.base = base
        self.access = access
        self.device = device
        self.authenticator = authenticator
        self.clock = clock
        gate = Mutex(AccessGate(access, reuse: reuse))
    }

    /// The secret of that name, or `nil` when there is none; the person may be asked first.
    ///
    /// - Throws: `KithError` `.denied` when the device's state or its person does not allow it, `.cancelled` when the
    ///   person calls it off, `.exhausted` when biometrics are locked, `.unsupported` when there are none; and what the
    ///   store throws that is guarded.
    public func secret(named name: String) throws(KithError) -> [UInt8]? {
        try checkOwn(name)
        let before = answers.load(ordering: .acquiring)
        return try gate.withLock { (gate) throws(KithError) in
            // Nobody is asked for what is not there.
            guard try base.secretNames().contains(name) else { return nil }
            try pass(&gate, "read the secret \(name)", after: before)
            return try base.secret(named: name)
        }
    }

    /// Stores a secret, in place of one of the same name; nobody is asked.
    ///
    /// - Throws: as ``secret(named:)``.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try checkOwn(name)
        try check(name, secret)
        try gate.withLock { (gate) throws(KithError) in
            try prepareStoring(name, &gate)
            try base.store(secret, named: name)
        }
    }

    /// Stores a secret unless there is one of that name; nobody is asked.
    ///
    /// - Throws: as ``secret(named:)``.
    public func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool {
        try checkOwn(name)
        try check(name, secret)
        return try gate.withLock { (gate) throws(KithError) in
            guard try !base.secretNames().contains(name) else { return false }
            try prepareStoring(name, &gate)
            return try base.add(secret, named: name)
        }
    }

    /// Forgets a secret, in any state of the device; nothing happens when there is none.
    public func removeSecret(named name: String) throws(KithError) {
        try checkOwn(name)
        try gate.withLock { (_) throws(KithError) in
            try base.removeSecret(named: name)
            // What is stored next is for whoever is enrolled then.
            if try base.secretNames() == [Self.enrolment] { try base.removeSecret(named: Self.enrolment) }
        }
    }

    /// The names of all secrets, in order, in any state of the device.
    public func secretNames() throws(KithError) -> [String] {
        try base.secretNames().filter { $0 != Self.enrolment }
    }

    /// The number of changes to the store that is guarded, in any state of the device.
    public func generation() throws(KithError) -> UInt64? { try base.generation() }

    /// The name of what was enrolled when the first secret was stored.
    private static let enrolment = "access.enrolment"

    private func checkOwn(_ name: String) throws(KithError) {
        try check(name)
        guard name != Self.enrolment else {
            throw KithError(.invalid, "No secret of a guarded store can be named \(name).")
        }
    }

    /// Refuses to store what may not be stored now, and notes who is enrolled when nothing is stored yet.
    private func prepareStoring(_ name: String, _ gate: inout AccessGate) throws(KithError) {
        let enrolled = authenticator.enrolledBiometrics
        func check(_ stored: [UInt8]?) throws(KithError) {
            if let refusal = gate.checkStoring(in: device.condition, enrolled: enrolled, stored: stored) {
                throw refusal.error("store the secret \(name)")
            }
        }
        let stored = try storedEnrolment()
        try check(stored)
        guard access.biometrics == .currentSet, stored == nil, let enrolled else { return }
        // Another process may have noted somebody else meanwhile.
        if try !base.add(enrolled, named: Self.enrolment) { try check(try storedEnrolment()) }
    }

    private func storedEnrolment() throws(KithError) -> [UInt8]? {
        access.biometrics == .currentSet ? try base.secret(named: Self.enrolment) : nil
    }

    /// Asks the person if the gate says so.
    private func pass(_ gate: inout AccessGate, _ operation: String, after before: Int) throws(KithError) {
        let stored = try storedEnrolment()
        let decision = gate.check(
            in: device.condition, enrolled: authenticator.enrolledBiometrics, stored: stored, after: before,
            at: clock.now)
        switch decision {
        case .allow: return
        case .refuse(let refusal): throw refusal.error(operation)
        case .ask(let means):
            let answer = authenticator.authenticate(AuthenticationRequest(means, reason: "Kith wants to \(operation)."))
            let refusal = gate.answered(answer, at: clock.now)
            answers.store(gate.answers, ordering: .releasing)
            if let refusal { throw refusal.error(operation) }
            // The person may have locked it meanwhile.
            guard device.condition.lock == .unlocked else { throw AccessGate.Refusal.locked.error(operation) }
        }
    }
}
