import KithAPI
import KithIO
import KithIdentity
public import KithStore
import KithTrust
import KithWire
import Logging
import Synchronization

/// Certificates as a service: enrolment at both ends, renewal, the revocation list.
///
/// A certificate says that a device is one's own, a grant what it may do: a device that becomes known by its certificate
/// gets the grants that this device's person has named for such devices, none as a rule. Revocation ends both, and the
/// pairing.
public final class TrustService: Service {
    /// The node owns its services, and outlives their calls.
    unowned let node: Node
    let store: Store
    let key: DeviceKey
    let keys: any TrustKeys
    /// The time, in seconds since 1970.
    let now: @Sendable () -> Int64
    /// The name this device gives itself.
    let name: @Sendable () -> String
    /// The addresses at which it listens.
    let addresses: @Sendable () -> [NetworkAddress]
    let state = Mutex(State())
    /// Held while the root key signs a list: each follows the one before.
    let signing = AsyncMutex()

    struct State {
        /// The request of this device that waits for an answer.
        var pending: PendingEnrolment?
        /// Devices to be met.
        var unmet: Set<DeviceID> = []
        /// Devices to be sent the revocation list.
        var untold: Set<DeviceID> = []
        /// The task that does so while the service runs.
        var work: Task<Void, Never>?
        /// Wakes it.
        var signal: AsyncStream<Void>.Continuation?
        /// How often certificates are shown here.
        var limiter = PresentationLimiter()
        /// Devices that were cut off because their certificates are over.
        var expired: Set<DeviceID> = []
        /// The timer for the next one that will be.
        var expiry: TimerQueue.Ticket?
    }

    /// The time between two looks at the certificate of this device.
    static let interval = Duration.seconds(600)
    /// The time another device has for one answer.
    static let patience = Duration.seconds(15)

    package init(
        node: Node, store: Store, key: DeviceKey, keys: any TrustKeys,
        name: @escaping @Sendable () -> String = { "" }, addresses: @escaping @Sendable () -> [NetworkAddress] = { [] },
        now: @escaping @Sendable () -> Int64
    ) {
        self.name = name
        self.addresses = addresses
        self.node = node
        self.store = store
        self.key = key
        self.keys = keys
        self.now = now
    }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Trust.Status.self) { _, _ in try await self.status() },
            .call(Trust.Begin.self) { _, _ in try await self.begin() },
            .stream(Trust.Enrol.self) { input, _, pending in try await self.enrol(input, pending) },
            .call(Trust.Issue.self) { input, context in try await self.issue(input, context) },
            .call(Trust.Revoke.self) { input, _ in try await self.revoke(input) },
            .call(Trust.Admit.self) { input, _ in try await self.admit(input) },
            .call(Trust.Connect.self) { input, _ in try await self.connect(input) },
            .stream(Trust.Introduce.self) { _, context, pending in try await self.takeIntroduction(context, pending) }
                .limited(to: 1),
            .stream(Trust.Offer.self) { _, context, pending in try await self.answerOffer(context, pending) }
                .limited(to: EnrolmentCode.attemptLimit + 1),
            .call(Trust.Meet.self) { input, context in try await self.meeting(input, Self.peer(context)) }
                .limited(to: 2).unaudited(),
            .call(Trust.Update.self) { input, context in
                try self.update(input.list.bytes, from: Self.peer(context))
                return Nothing()
            }.limited(to: 2),
            .call(Trust.Renew.self) { input, context in try self.renew(input.request.bytes, for: Self.peer(context)) }
                .limited(to: 1),
            .call(Trust.Networks.self) { input, context in
                try self.networks(except: input.have, for: Self.peer(context))
            }.limited(to: 2),
        ]
    }

    private static func peer(_ context: CallContext) throws -> DeviceID {
        guard case .device(let id, _, _) = context.caller else {
            throw KithError(.invalid, "That is between two devices: use `kith enrol`.")
        }
        return id
    }

    // MARK: - Life

    /// Begins to meet the devices that are connected, and to look after the certificate of this one.
    public func start(_ context: StartContext) async throws {
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (owner, clock) = (Owner(service: self, node: node), node.clock)
        let task = Task(name: "kith trust") { await Self.run(signals, for: owner, on: clock) }
        state.withLock { ($0.work, $0.signal) = (task, signal) }
        signal.yield()
        await noteOwnStanding()
    }

    /// Ends what runs for a node that was dropped.
    deinit { state.withLock { $0.work }?.cancel() }

    /// Ends what runs, and the request that waits.
    public func stop() async {
        let task = state.withLock { state in
            defer { (state.work, state.signal) = (nil, nil) }
            return state.work
        }
        store.admitEnrolled(until: nil)
        task?.cancel()
        close()
        await task?.value
    }

    /// Takes back the request that waits, so that stopping the device need not wait for people.
    package func close() {
        let pending = state.withLock { state in
            defer { state.pending = nil }
            return state.pending
        }
        pending?.finish(.failed(code: .closed, message: "The device is stopping."))
    }

    /// Meets a device that has connected.
    public func connected(to device: DeviceID) { meet(device) }

    /// Has a device met soon.
    func meet(_ device: DeviceID) {
        let signal = state.withLock { state in
            state.unmet.insert(device)
            return state.signal
        }
        signal?.yield()
    }

    /// Has every connected device but `source` sent the revocation list soon.
    func tellEverybody(except source: DeviceID?) {
        let online = node.onlineDevices
        let signal = state.withLock { state in
            for device in online where device != source { state.untold.insert(device) }
            return state.signal
        }
        signal?.yield()
    }

    /// The service and its node for as long as both are there.
    ///
    /// A node may be dropped without being stopped: what works for it in the background holds neither while it waits.
    private struct Owner: Sendable {
        weak let service: TrustService?
        weak let node: Node?

        /// Runs `body`, during which both stay; does nothing once one of them is gone.
        func perform(_ body: (TrustService) async -> Void) async {
            guard let node, let service else { return }
            await body(service)
            withExtendedLifetime(node) {}
        }
    }

    private static func run(_ signals: AsyncStream<Void>, for owner: Owner, on clock: any Ticker) async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                while !Task.isCancelled {
                    await owner.perform { service in
                        await service.lookAfterCertificate()
                        service.cutOffExpired()
                    }
                    // The sleep ends early only when cancelled.
                    try? await clock.sleep(until: clock.now + Self.interval, tolerance: nil)
                }
            }
            for await _ in signals {
                group.addTask { await owner.perform { await $0.meetAndTell() } }
            }
            group.cancelAll()
        }
    }

    /// Meets and tells the devices that wait for it.
    private func meetAndTell() async {
        let (unmet, untold) = state.withLock { state in
            defer { (state.unmet, state.untold) = ([], []) }
            return (state.unmet, state.untold)
        }
        await withDiscardingTaskGroup { group in
            for device in unmet { group.addTask { await self.goAndMeet(device) } }
            for device in untold { group.addTask { _ = await self.tell(device) } }
        }
    }

    // MARK: - What is known

    /// The root that is pinned and the certificate of this device; `nil` while it is not enrolled.
    func pinned() throws -> (root: RootCertificate, certificate: DeviceCertificate, holder: DeviceID)? {
        guard let trust = try store.trust() else { return nil }
        return (try RootCertificate(trust.root), try DeviceCertificate(trust.certificate), trust.holder)
    }

    /// The revocation list under `root`; `nil` while there is none.
    func revocations(_ root: RootCertificate) throws -> RevocationList? {
        try store.revocations().map { try RevocationList($0, by: root) }
    }

    func status() async throws -> Trust.Status.Output {
        let isHolder = try keys.root() != nil
        let isPending = state.withLock { $0.pending != nil }
        guard let (root, certificate, holder) = try pinned() else {
            var output = Trust.Status.Output(state: isPending ? .pending : .none, isHolder: isHolder)
            output.admission = Trust.Admission(try store.enrolledAdmission())
            return output
        }
        let list = try revocations(root)
        let now = now()
        let standing = await root.status(of: certificate, presentedBy: node.id, revocations: list, now: now)
        var output = Trust.Status.Output(
            state: standing.isValid || !isPending ? standing.state : .pending, isHolder: isHolder)
        if case .invalid(let reason) = standing { output.reason = reason }
        output.admission = Trust.Admission(try store.enrolledAdmission())
        output.root = root.id.description
        output.rootUntil = root.notAfter
        output.isHolder = isHolder
        output.holder = holder
        output.serial = certificate.serial
        output.until = certificate.notAfter
        output.renewsAt = certificate.renewsAt
        output.revocations = list?.number ?? 0
        output.revoked = (list?.entries ?? []).map {
            Trust.Revoked(device: $0.device, time: $0.time, reason: $0.reason.rawValue)
        }
        let names = Dictionary(try store.devices().map { ($0.id, $0.name) }) { first, _ in first }
        for stored in try store.certificates(issuedHere: false) {
            let certificate = try DeviceCertificate(stored.certificate)
            let standing = await root.status(
                of: certificate, presentedBy: stored.device, revocations: list, now: now)
            output.members.append(
                Trust.Member(
                    device: stored.device, name: names[stored.device], state: standing.state,
                    until: certificate.notAfter))
        }
        return output
    }

    /// This device as the authority, with its own certificate; `nil` when it does not hold the root key.
    ///
    /// - Throws: `.conflict` when it pins another root than it holds.
    func authority() throws -> CertificateAuthority? {
        guard let key = try keys.root() else { return nil }
        if let (root, _, _) = try pinned() {
            guard root.isCertificate(of: key) else {
                throw KithError(
                    .conflict,
                    "This device is enrolled under the root \(root.id), and holds another root key. One of them must go: kith enrol --replace"
                )
            }
            return try CertificateAuthority(root, key: key)
        }
        return try begin(by: key, keepsOthers: true)
    }

    /// Begins as the holder of `key`: with its certificate, and one for this device.
    func begin(by key: RootKey, keepsOthers: Bool) throws -> CertificateAuthority {
        let now = now()
        let authority = try CertificateAuthority(RootCertificate.make(by: key, now: now), key: key)
        let own = try authority.issue(toItself: self.key, now: now)
        let ended = try store.pin(
            PinnedTrust(root: authority.root.bytes, certificate: own.bytes, holder: node.id), keepsOthers: keepsOthers,
            now: now)
        for device in ended { node.revoke(device.id) }
        return authority
    }

    /// Notes what this device's own person did.
    func record(_ method: String, _ detail: String) throws {
        try store.record(
            AuditEntry(time: now(), device: Audit.thisDevice, method: method, decision: .allowed, detail: detail))
    }
}

extension CertificateStatus {
    /// The word for it.
    var state: Trust.State {
        switch self {
        case .none: .none
        case .pending: .pending
        case .valid: .valid
        case .expired: .expired
        case .revoked: .revoked
        case .invalid: .invalid
        }
    }
}
