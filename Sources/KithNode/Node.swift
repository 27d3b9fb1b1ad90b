public import KithAPI
import KithIO
public import KithIdentity
import KithNet
package import KithWire
package import Logging
import Synchronization

/// A running device: its services, the checks of who may call them, and its calls to other devices.
///
/// A node serves the calls of its own person, who is allowed everything, and those of other devices, which are
/// allowed what the store says at that moment: the check comes before a service sees anything, and what loses its
/// grant while it runs is called off. Refusals are written to the audit log, and so are the actions and streams of
/// other devices that were allowed; queries that were, and the owner's calls, are not.
///
/// ```swift
/// let node = Node(id: key.id, store: store, logger: logger)
/// try node.add(MathService())
/// async let serving: Void = node.serve(endpoint)
/// let sum = try await node.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
/// ```
public final class Node: Sendable {
    /// The limits of a node.
    public struct Options: Hashable, Sendable {
        /// The most calls of one connection that run at once; the next is refused with `.exhausted`.
        public var callsPerConnection = 2_048
        /// The most calls of one device that run at once, over all its connections; the next is refused with
        /// `.exhausted`.
        public var callsPerDevice = 2_048
        /// The most connections of unpaired devices that may be open at once.
        ///
        /// They are shared among networks (`NetworkAddress/networkPrefix`): a connection from a network that has fewer replaces one of
        /// the network that has most, if that is idle or the network has at least two more.
        public var unpairedConnections = 16
        /// The most of them from one network.
        public var unpairedConnectionsPerNetwork = 4
        /// The most of them for one device; a newer one replaces the oldest.
        public var unpairedConnectionsPerDevice = 2
        /// The longest input of a call of an unpaired device, in bytes.
        public var unpairedInputLimit = StreamHeader.unpairedInputLimit
        /// The most calls that run at once on a connection of an unpaired device.
        public var callsPerUnpairedConnection = 2
        /// The time after which an idle connection of an unpaired device is closed.
        public var unpairedIdle = Duration.seconds(30)
        /// The time after which a connection of an unpaired device is closed in any case: pairing waits for two people.
        public var unpairedLifetime = Duration.seconds(300)
        /// The time in which the header of a stream must arrive.
        public var headerTimeout = Duration.seconds(10)
        /// The time in which connecting to another device must succeed.
        public var connectTimeout = Duration.seconds(10)
        /// The silence of another device after which a call without a time limit of its own is given up.
        ///
        /// A device is silent when something waits for its acknowledgement and nothing comes. Streams wait as long as the
        /// connection lasts.
        public var silence = Duration.seconds(30)
        /// The silence after which a request to any provider goes to the next one, and the least time that a call waits.
        public var heartbeat = Duration.seconds(10)
        /// The most services of other processes; the next is refused with `.exhausted`.
        public var externalServices = 32
        /// The time that the start of a service may take.
        public var serviceStart = Duration.seconds(30)
        /// The time for which a device whose connection has ended still counts as connected: it may have another soon.
        public var peerGrace = Duration.milliseconds(500)
        /// The time for which a graceful shutdown waits for running calls.
        public var drain = Duration.seconds(5)
        /// The version of the software, as told to other devices.
        public var version = ""

        /// The defaults.
        public init() {}
    }

    /// This device's identifier, which is its key.
    public let id: DeviceID
    /// The limits.
    public let options: Options
    /// The topics: subscriptions, and retained events.
    public var events: EventHub? { hub }

    let hub: EventHub
    let directory: any DeviceDirectory
    let protection: ProtectedFiles?
    let interceptors: [any CallInterceptor]
    /// The clock of every limit and deadline.
    let clock: any Ticker
    let logger: Logger
    let audit: AuditWriter
    let deviceCalls = DeviceCalls()
    /// The deadlines of calls.
    let timers: TimerQueue
    let shutdown = AsyncEvent()
    /// What other devices have announced, and how requests to them went.
    let providers = Providers()
    /// The changes of what this device and others serve.
    let proxyChanges = ServiceChanges()
    /// The changes of services, and of what other devices may do.
    let serviceChanges = ServiceChanges()
    /// The devices that are connected.
    let peerStates: PeerStates
    /// The methods, and the services that have them.
    let methods: MethodTable
    let following = FollowLocks()
    /// The calls of the owner.
    let calls = RunningCalls(.open)
    /// The streams, of whomever, that end as soon as the device begins to stop.
    let endless = RunningCalls(.open)
    /// True once somebody waits until nothing runs.
    private let isIdleAwaited = Atomic(false)
    private let state: Mutex<State>
    /// Grants are read and applied by one at a time.
    private let grantChanges = Mutex<Void>(())

    private struct State {
        var sessions: [ObjectIdentifier: Session] = [:]
        /// The number of connections that have come.
        var arrivals: UInt64 = 0
        /// Whether it asks connected devices for their services.
        var followsServices = false
        var dialer: (any PeerDialer)?
        var isShuttingDown = false
        /// Returns the addresses this device listens on; `nil` while it does not listen.
        var announcement: (@Sendable () -> [NetworkAddress])?
        var hints = AddressHints()
        var isReachable = true
        var budgets: [DeviceID: WriteBudget] = [:]
        /// The event that nothing runs any more.
        var idle: AsyncEvent?
    }

    package init(
        id: DeviceID, directory: any DeviceDirectory, protection: ProtectedFiles? = nil, methods: [AnyMethod] = [],
        interceptors: [any CallInterceptor] = [], options: Options = Options(), events: EventHub? = nil,
        clock: any Ticker = ContinuousClock(), logger: Logger
    ) {
        let hub = events ?? EventHub(publisher: id, clock: clock, now: { Node.now })
        self.hub = hub
        self.id = id
        self.directory = directory
        self.protection = protection
        self.interceptors = interceptors
        self.options = options
        self.clock = clock
        let timers = TimerQueue(on: clock)
        self.timers = timers
        peerStates = PeerStates(grace: options.peerGrace, clock: clock, timers: timers) { peer in
            hub.note(peer.isConnected ? "connected" : "disconnected", of: "$registry/peers/\(peer.device)/state")
        }
        self.logger = logger
        audit = AuditWriter(directory, logger: logger)
        self.methods = MethodTable(knowing: methods)
        state = Mutex(State())
        let announcing = Handler.stream(Services.Watch.self) { [weak self] _, context, pending in
            try await self?.announceServices(to: context, pending)
        }.unaudited().limited(to: 8)
        let describe = Handler.call(API.Describe.self) { [weak self] _, _ in
            API.Describe.Output(methods: self?.table ?? [])
        }
        let document = Handler.call(API.Document.self) { [weak self] input, _ in
            let document = OpenRPC(describing: self?.methods.served.map(\.method) ?? [])
            guard let name = input.method else { return document }
            guard let one = document.only(name) else {
                throw KithError(.notFound, "This device does not serve a method \(name.prefix(128)).")
            }
            return one
        }.limited(to: 1)
        do {
            try self.methods.serve(
                [describe, document, announcing] + EventsService(hub: hub, shutdown: shutdown).handlers)
            try add(RegistryService(node: self))
            try add(HealthService(node: self))
        } catch {
            preconditionFailure("two of a node's own methods have one name: \(error)")
        }
    }

    /// Calls methods as this device's own person: here, and on the devices it is paired with.
    public var client: Client { Client(self) }

    /// The number of lines missing from the audit log and the reason, in words; `nil` when all could be written.
    package var auditProblem: String? {
        audit.lost.map { lost in
            "\(lost.lines == 1 ? "A line" : "\(lost.lines) lines") of the audit log could not be written: \(lost.why)"
        }
    }

    // MARK: - Who is connected

    /// True when it can call other devices: `serve(_:)` runs.
    public var isOnNetwork: Bool { dialer != nil }

    /// The paired devices a connection stands with.
    public var onlineDevices: Set<DeviceID> { Set(sessions.filter { $0.isPaired && $0.link.isOpen }.map(\.link.peer)) }

    /// Returns the state of the connection with a device; `nil` while there is none.
    public func link(to device: DeviceID) async -> LinkStatus? {
        // A connection just made may not be served yet.
        let link = sessions(with: device).lazy.map(\.link).first { $0.isOpen } ?? dialer?.current(device)
        return await link?.status()
    }

    /// Finds the paired device a name, a DeviceID or the beginning of one stands for.
    ///
    /// `byWholeName` takes no beginning of a name for it.
    ///
    /// - Throws: `KithError` `.notFound` for none, `.invalid` naming the candidates for several.
    package func resolve(_ device: String, byWholeName: Bool = false) throws -> KnownDevice {
        // Devices that are connected are known without asking the disk; but what may begin an id is looked for among all.
        if [KnownDevice].mayBeID(device) {
            if let id = DeviceID(device), let known = sessions(with: id).first?.known { return known }
        } else if let known = sessions.lazy.compactMap(\.known).first(where: { $0.name == device }) {
            return known
        }
        return try directory.devices().resolve(device, byWholeName: byWholeName)
    }

    /// Cuts a device off at once: ends what it is doing here and closes its connections.
    ///
    /// Call it after the store has forgotten the device.
    public func revoke(_ device: DeviceID) {
        let reason = KithError(.unpaired, "This device is not paired with the other one any more.")
        for session in sessions(with: device) {
            session.update(nil)
            session.end(reason)
            session.link.close(.unpaired, reason: reason.message)
        }
        hints.discovery?.forget(device)
        for service in methods.services.map(\.service) { service.grantsChanged(for: device, to: []) }
        serviceChanges.happen()
        state.withLock { _ = $0.budgets.removeValue(forKey: device) }
    }

    /// Checks a device's grants again, and ends the calls they no longer allow.
    ///
    /// Call it after the store has changed: grants given or taken, a device paired, renamed or forgotten.
    public func grantsChanged(for device: DeviceID) {
        // One after the other: what was read last is what holds in the end.
        let known = grantChanges.withLock { _ in
            let known: KnownDevice?
            do {
                known = try directory.device(device)
            } catch {
                logger.error("the store could not be read; the device is cut off", metadata: ["error": "\(error)"])
                known = nil
            }
            for session in sessions(with: device) { session.update(known) }
            return known
        }
        for service in methods.services.map(\.service) { service.grantsChanged(for: device, to: known?.grants ?? []) }
        hub.wakeFollowers()
        notePeer(device)
        serviceChanges.happen()
    }

    /// Treats a device that has just been paired as paired on its present connection.
    public func paired(_ device: DeviceID) {
        grantsChanged(for: device)
        for session in sessions(with: device) { session.wasSeen() }
        hints.discovery?.pairedDevicesChanged()
    }

    var sessions: [Session] { state.withLock { Array($0.sessions.values) } }

    func sessions(with device: DeviceID) -> [Session] {
        state.withLock { $0.sessions.values.filter { $0.link.peer == device } }
    }

    /// Adds a connection; that of an unpaired device may displace another.
    ///
    /// - Throws: `.exhausted` when it is one too many of those that are not paired.
    func admit(_ link: any PeerLink) throws -> (session: Session, displaced: Session?) {
        let known = try directory.device(link.peer)
        let admitted = try add(link, known)
        // Whoever changed it meanwhile found no session to change.
        do {
            let current = try directory.device(link.peer)
            if current != known { grantsChanged(for: link.peer) }
            if known != nil, current == nil { revoke(link.peer) }
        } catch {
            // It may do nothing then, until it can be read.
            grantsChanged(for: link.peer)
        }
        return admitted
    }

    /// Puts a connection among the others, or in the place of one.
    private func add(
        _ link: any PeerLink, _ known: KnownDevice?
    ) throws -> (session: Session, displaced: Session?) {
        try state.withLock { state throws in
            guard !state.isShuttingDown else { throw Self.stopping }
            state.arrivals += 1
            let session = Session(link, known: known, arrival: state.arrivals)
            var displaced: Session?
            // What this device dialed it wanted.
            if known == nil, !link.isDialed {
                let others = state.sessions.values.filter { !$0.isPaired && !$0.link.isDialed && !$0.isDisplaced }
                    .sorted { $0.arrival < $1.arrival }
                let limit = UnpairedConnectionLimit(
                    total: options.unpairedConnections, perNetwork: options.unpairedConnectionsPerNetwork,
                    perDevice: options.unpairedConnectionsPerDevice)
                switch limit.verdict(
                    on: UnpairedConnectionLimit.Connection(session),
                    among: others.map { UnpairedConnectionLimit.Connection($0) })
                {
                case .admit: break
                case .displace(let index):
                    others[index].isDisplaced = true
                    displaced = others[index]
                case .refuse: throw Self.crowded
                }
            }
            state.sessions[ObjectIdentifier(session)] = session
            return (session, displaced)
        }
    }

    func dismiss(_ session: Session) {
        state.withLock { _ = $0.sessions.removeValue(forKey: ObjectIdentifier(session)) }
        notePeer(session.link.peer)
        noteIdle()
    }

    /// Checks whether a connected device is still there, each second while people wait for it, otherwise now and then.
    func watch(_ device: DeviceID, closely: Bool) { dialer?.current(device)?.watch(closely: closely) }

    /// Makes calls to other devices through `dialer`; ``serve(_:)`` does so with its endpoint.
    package func use(_ dialer: (any PeerDialer)?) { self.dialer = dialer }

    var dialer: (any PeerDialer)? {
        get { state.withLock { $0.dialer } }
        set { state.withLock { $0.dialer = newValue } }
    }

    /// Returns the addresses this device listens on, to be told to others; `nil` while it does not listen.
    var announcement: (@Sendable () -> [NetworkAddress])? {
        get { state.withLock { $0.announcement } }
        set { state.withLock { $0.announcement = newValue } }
    }

    /// True while this device listens, and tells others where.
    var isAnnouncing: Bool { state.withLock { $0.announcement != nil } }

    /// False while no network leads to other machines: calls of other devices fail at once.
    public var isReachable: Bool {
        get { state.withLock { $0.isReachable } }
        set { state.withLock { $0.isReachable = newValue } }
    }

    /// Lets go of what can be asked for again: other devices' descriptions of their methods.
    package func shrinkCaches() { methods.forgetRemoteMethods() }

    /// The addresses to try besides those at which devices were reached.
    var hints: AddressHints {
        get { state.withLock { $0.hints } }
        set { state.withLock { $0.hints = newValue } }
    }

    /// True when it asks connected devices for their services; one that only makes a few calls does not.
    package var followsServices: Bool {
        get { state.withLock { $0.followsServices } }
        set { state.withLock { $0.followsServices = newValue } }
    }

    /// Counts one write about a paired device; returns `nil` when it may be made now, else the time when it may.
    func claimWrite(_ device: DeviceID) -> ContinuousClock.Instant? {
        state.withLock { $0.budgets[device, default: WriteBudget()].take(at: clock.now) }
    }

    // MARK: - Lifecycle

    static let stopping = KithError(.closed, "The device is stopping.")

    /// Refuses new calls from now on, here and from other devices, and lets those that run end.
    ///
    /// `serve(_:)` returns when they have, or after ``Options/drain``.
    public func beginGracefulShutdown() {
        state.withLock { $0.isShuttingDown = true }
        calls.set(.closed(Self.stopping))
        endless.set(.closed(Self.stopping))
        for stream in endless.all { stream.cancel(Self.stopping) }
        shutdown.happen()
    }

    /// Waits until no call runs.
    func waitUntilIdle() async {
        let idle = state.withLock { state -> AsyncEvent in
            let idle = state.idle ?? AsyncEvent()
            state.idle = idle
            return idle
        }
        // Before the calls are counted: the last one that ends afterwards says so.
        isIdleAwaited.store(true, ordering: .sequentiallyConsistent)
        noteIdle()
        await idle.wait()
    }

    func noteIdle() {
        guard isIdleAwaited.load(ordering: .sequentiallyConsistent), calls.isEmpty else { return }
        state.withLock { state in
            state.sessions.values.allSatisfy { $0.running == 0 } ? state.idle : nil
        }?.happen()
    }

    /// Ends every call of the owner.
    func cancelOwnCalls(_ reason: KithError) {
        for scope in calls.all { scope.cancel(reason) }
    }

    /// A call of the owner is over.
    func end(_ scope: CallScope) {
        calls.leave(scope)
        noteIdle()
    }

    var isShuttingDown: Bool { state.withLock { $0.isShuttingDown } }
}
