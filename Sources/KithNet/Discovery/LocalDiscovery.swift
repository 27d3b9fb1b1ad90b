import KithIO
public import KithIdentity
public import KithWire
public import Logging
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Finds paired devices on the local network, and lets them find this one: signed announcements to a group of IPv4 and
/// one of IPv6, on every suitable interface; and the same announcements as a service `_kith._udp` of multicast DNS, by
/// Avahi where that runs, by a responder of this device's own elsewhere.
///
/// What it hears is a hint and nothing else: an address to try, at which only the holder of the device's key is
/// accepted. Nothing is dialed because somebody was heard. Announcements of devices that are not paired with this one
/// are not even checked. Whoever is on the network learns this device's key and addresses from what it sends, and no
/// name.
public final class LocalDiscovery: Sendable {
    /// The options of discovery.
    public struct Options: Hashable, Sendable {
        /// The group and the port of IPv4.
        public var group = NetworkAddress(ipv4: (239, 255, 42, 98), port: 4242)
        /// The group and the port of IPv6, one that stays on its link; `nil`: IPv4 alone.
        public var group6: NetworkAddress? = NetworkAddress(ipv6: 0xFF12 << 48, 0x6B69_7468, port: 4242)
        /// The time between two announcements; what one says holds for three times as long.
        public var interval = Duration.seconds(30)
        /// The networks that are used.
        public var policy = NetworkPolicy()
        /// Whether the device announces itself to the groups, where everybody can read its key.
        ///
        /// Without them multicast DNS alone makes it known, to those who know its key.
        public var usesGroups = true
        /// Whether multicast DNS makes the device known, too, and finds others.
        public var usesResponder = true
        /// Whether the device goes by the name of iroh's own discovery, too, which is its key.
        ///
        /// A responder of this device's own does that, beside whichever else the machine has.
        public var offersIrohName = false
        /// The address of the message bus by which Avahi is asked; `nil`: the system's.
        package var systemBus: String?

        /// The defaults.
        public init() {}
    }

    /// A device that was heard, and has neither left nor fallen silent.
    public struct Heard: Hashable, Sendable {
        /// Its key.
        public let id: DeviceID
        /// The addresses it listens at, best first.
        public let addresses: [NetworkAddress]
        /// The time since it was heard last.
        public let quiet: Duration
    }

    /// What happens to the paired devices on the network.
    @nonexhaustive
    public enum Event: Hashable, Sendable {
        /// A device is there, or listens at other addresses than before.
        case found(DeviceID, [NetworkAddress])
        /// It has left, or has fallen silent.
        case lost(DeviceID)
    }

    /// How multicast DNS makes this device known.
    @nonexhaustive
    public enum Responder: Hashable, Sendable {
        /// It is not used.
        case off
        /// The system's responder does it.
        case registered
        /// This device does it itself.
        case answering
        /// Neither does, or not now, because of that.
        case unavailable(String)
    }

    /// The state of discovery, for a person.
    public struct Status: Hashable, Sendable {
        /// The names of the interfaces on which the device announces itself.
        public var interfaces: [String] = []
        /// The devices that are there.
        public var heard: [Heard] = []
        /// The reason it does not work, or not everywhere.
        public var problem: String?
        /// The number of announcements from which nothing was learned: of unpaired devices, repetitions, forgeries.
        public var refused = 0
        /// What becomes of it in multicast DNS.
        public var responder = Responder.off
        /// The group of IPv4 that announcements go to; `nil` where multicast DNS alone makes the device known.
        public var group: NetworkAddress?
    }

    private struct State {
        var engine: DiscoveryEngine
        /// The interfaces it announces the device on.
        var interfaces: [NetworkInterface] = []
        var joined: Set<Membership> = []
        var problem: String?
        /// Datagrams that are no announcement.
        var malformed = 0
        var timer: TimerQueue.Ticket?
        /// What the responder offers, and when that is to be made anew.
        var kept: [Place] = []
        var hour: UInt64 = 0
        var renewal: ContinuousClock.Instant?
    }

    /// The addresses the device listens at on one network.
    private struct Place: Hashable {
        let interface: UInt32
        let addresses: [NetworkAddress]
    }

    private struct Membership: Hashable {
        let interface: UInt32
        let isIPv6: Bool
    }

    private let key: DeviceKey
    private let options: Options
    private let addresses: @Sendable () -> [NetworkAddress]
    private let isPaired: @Sendable (DeviceID) -> Bool
    private let paired: @Sendable () -> [DeviceID]
    private let names = Mutex(KnownServices())
    private let note: @Sendable (Event) -> Void
    private let clock: any Ticker
    private let time: @Sendable () -> UInt64
    private let logger: Logger
    private let state: Mutex<State>
    private let timers: TimerQueue
    /// Set once, as it calls back.
    private let responder = Mutex<(any ServiceResponder)?>(nil)
    /// One message: something may be due.
    private let alarm = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// Makes the discovery of a device, which ``run()`` starts.
    ///
    /// `key` signs. `lastNumber` is ``lastNumber`` of the discovery before, so that others do not take new announcements
    /// for old ones. `addresses` returns where the device listens now; `isPaired` tells whether a device is paired with
    /// this one, and is asked for every datagram; `paired` returns all that are; `note` hears what happens. All four are
    /// quick.
    public convenience init(
        key: DeviceKey, options: Options = Options(), lastNumber: UInt64 = 0,
        addresses: @escaping @Sendable () -> [NetworkAddress], isPaired: @escaping @Sendable (DeviceID) -> Bool,
        paired: @escaping @Sendable () -> [DeviceID], note: @escaping @Sendable (Event) -> Void, logger: Logger
    ) {
        self.init(
            key: key, options: options, lastNumber: lastNumber, clock: ContinuousClock(), time: Self.milliseconds,
            random: SystemRandomNumberGenerator(), addresses: addresses, isPaired: isPaired, paired: paired, note: note,
            logger: logger)
    }

    package init(
        key: DeviceKey, options: Options, lastNumber: UInt64, clock: any Ticker,
        time: @escaping @Sendable () -> UInt64, random: sending any RandomNumberGenerator,
        addresses: @escaping @Sendable () -> [NetworkAddress], isPaired: @escaping @Sendable (DeviceID) -> Bool,
        paired: @escaping @Sendable () -> [DeviceID], note: @escaping @Sendable (Event) -> Void, logger: Logger
    ) {
        self.key = key
        self.options = options
        self.addresses = addresses
        self.isPaired = isPaired
        self.paired = paired
        self.note = note
        self.clock = clock
        self.time = time
        self.logger = logger
        timers = TimerQueue(on: clock)
        state = Mutex(
            State(
                engine: DiscoveryEngine(
                    id: key.id, interval: options.interval, lastNumber: lastNumber, random: random, at: clock.now)))
        guard options.usesResponder else { return }
        let made = makeResponder()
        responder.withLock { $0 = made }
    }

    #if os(Linux)
    private func makeResponder() -> (any ServiceResponder)? {
        let device: @Sendable (String, UInt32) -> DeviceID? = { [weak self] service, interface in
            guard let self, let device = names.withLock({ $0.device(named: service) }), isPaired(device),
                state.withLock({ state in state.interfaces.contains { $0.index == interface } })
            else { return nil }
            return device
        }
        let heard: @Sendable (String, [[UInt8]], UInt32) -> Void = { [weak self] service, strings, interface in
            self?.received(strings, of: service, on: interface)
        }
        let own = MulticastDNS(
            iroh: options.offersIrohName ? key.id : nil, clock: clock, logger: logger,
            isWanted: { device($0, $1) != nil }, heard: heard)
        guard !options.offersIrohName else {
            own.activate(true)
            return own
        }
        let avahi = AvahiResponder(
            bus: options.systemBus, clock: clock, logger: logger, device: device, heard: heard
        ) { presence in own.activate(presence == .absent || presence == .refusing) }
        return ResponderChoice(avahi, or: own, clock: clock)
    }
    #else
    private func makeResponder() -> (any ServiceResponder)? { nil }
    #endif

    /// The addresses at which a paired device was heard to listen, best first; none when it is not there.
    public func addresses(of device: DeviceID) -> [NetworkAddress] {
        state.withLock { $0.engine.addresses(of: device) }
    }

    /// The state now.
    public var status: Status {
        let now = clock.now
        let offer = responder.withLock(\.self)?.state ?? .off
        return state.withLock { state in
            Status(
                interfaces: state.interfaces.map(\.name),
                heard: state.engine.heard.map { Heard(id: $0.id, addresses: $0.addresses, quiet: now - $0.at) },
                problem: state.problem,
                refused: state.engine.refused.values.reduce(state.malformed) { $0.saturatingAdding($1) },
                responder: offer, group: options.usesGroups ? options.group : nil)
        }
    }

    /// The announcements that were refused for a reason, and those that were none.
    func refused(_ reason: DiscoveryEngine.Refusal) -> Int { state.withLock { $0.engine.refused[reason] ?? 0 } }
    var malformed: Int { state.withLock { $0.malformed } }

    /// The number of the last announcement.
    public var lastNumber: UInt64 { state.withLock { $0.engine.lastNumber } }

    /// Forgets a device that is not paired any more.
    public func forget(_ device: DeviceID) { state.withLock { $0.engine.forget(device) } }

    /// Announces the device anew: it listens elsewhere than before.
    public func addressesChanged() {
        let now = clock.now
        state.withLock { $0.engine.addressesChanged(at: now) }
        alarm.continuation.yield()
    }

    /// Looks at once for a device that has just been paired, and announces this one anew: what it said before meant
    /// nothing to the other.
    public func pairedDevicesChanged() { addressesChanged() }

    /// Announces the device a quarter as often, because nobody looks at it, or as often as ever.
    public func reduce(_ isReduced: Bool) {
        let now = clock.now
        state.withLock { $0.engine.reduce(isReduced, at: now) }
        alarm.continuation.yield()
    }

    /// Ends ``run()``, which says goodbye.
    public func stop() { alarm.continuation.finish() }

    /// Announces the device and listens, until ``stop()`` or until the task is cancelled; then says goodbye.
    ///
    /// Does nothing else where the system gives no socket; ``status`` says why. Call it once.
    public func run() async {
        let reactor: Reactor
        do {
            reactor = try Reactor(name: "kith discovery")
        } catch {
            fail("The system gives no descriptor to wait at: \(error).")
            return logger.warning("devices on this network are not found", metadata: ["why": "\(error)"])
        }
        let sockets = options.usesGroups ? open(on: reactor) : []
        guard !sockets.isEmpty || !options.usesGroups else {
            logger.warning("devices on this network are not found", metadata: ["why": "\(status.problem ?? "")"])
            return
        }
        await withDiscardingTaskGroup { group in
            group.addTask {
                await NetworkMonitor.follow(on: self.clock) { self.use($0, sockets) }
            }
            for socket in sockets {
                group.addTask { await self.listen(at: socket) }
            }
            if let responder = responder.withLock(\.self) {
                group.addTask { await responder.run(on: reactor) }
            }
            await self.announce(at: sockets)
            await self.leave()
            group.cancelAll()
        }
        timers.removeAll()
        sayGoodbye(at: sockets)
    }

    // MARK: - Parts

    private func open(on reactor: Reactor) -> [MulticastSocket] {
        var sockets: [MulticastSocket] = []
        let groups = [options.group] + (options.policy.allowsIPv6 ? [options.group6].compactMap(\.self) : [])
        for group in groups {
            do {
                sockets.append(try MulticastSocket(group: group, on: reactor))
            } catch {
                // A machine without IPv6 does with IPv4.
                if !group.isIPv6 { fail("No socket could be opened for \(group): \(error).") }
            }
        }
        return sockets
    }

    private func fail(_ problem: String?) { state.withLock { $0.problem = problem } }

    /// Joins the groups on interfaces that are new, leaves those that are gone, and announces the device anew.
    private func use(_ all: [NetworkInterface], _ sockets: [MulticastSocket]) {
        let interfaces = options.policy.discoverable(all).prefix(Self.maxInterfaces)
        var wanted: Set<Membership> = []
        for interface in interfaces {
            for socket in sockets where Self.serves(interface, socket) {
                wanted.insert(Membership(interface: interface.index, isIPv6: socket.group.isIPv6))
            }
        }
        let joined = state.withLock { $0.joined }
        for old in joined.subtracting(wanted) {
            sockets.first { $0.group.isIPv6 == old.isIPv6 }?.leave(old.interface)
        }
        var problems: [String] = []
        var served: Set<Membership> = []
        for membership in wanted {
            guard let socket = sockets.first(where: { $0.group.isIPv6 == membership.isIPv6 }) else { continue }
            do {
                // Again where it had joined: the interface may be another one of the same number.
                try socket.join(membership.interface)
                served.insert(membership)
            } catch {
                let name = interfaces.first { $0.index == membership.interface }?.name ?? "\(membership.interface)"
                problems.append("\(name) cannot join \(socket.group): \(error)")
            }
        }
        let usable = interfaces.filter { interface in
            !options.usesGroups || served.contains { $0.interface == interface.index }
        }
        let now = clock.now
        let hasChanged = state.withLock { state in
            defer { (state.interfaces, state.joined) = (usable, served) }
            state.problem = problems.isEmpty ? nil : problems.sorted().joined(separator: "; ")
            guard state.interfaces != usable else { return false }
            state.engine.addressesChanged(at: now)
            return true
        }
        guard hasChanged else { return }
        responder.withLock(\.self)?.use(usable.filter { $0.kind != .loopback })
        logger.info(
            "announcing this device on the local network",
            metadata: ["interfaces": "\(usable.map(\.name).joined(separator: ", "))"])
        alarm.continuation.yield()
    }

    /// More interfaces are not used: the system's limit for one socket is 20.
    private static let maxInterfaces = 16

    private static func serves(_ interface: NetworkInterface, _ socket: MulticastSocket) -> Bool {
        guard interface.addresses.contains(where: { $0.isIPv6 == socket.group.isIPv6 }) else { return false }
        // No route leads from the loopback to a group of IPv6.
        return interface.kind != .loopback || !socket.group.isIPv6
    }

    // MARK: - Announcing

    /// Sends what is due, whenever something is.
    private func announce(at sockets: [MulticastSocket]) async {
        alarm.continuation.yield()
        for await _ in alarm.stream {
            let (now, time) = (clock.now, time())
            let due = state.withLock { $0.engine.timedOut(at: now, time: time) }
            for device in due.gone { report(.lost(device)) }
            if let number = due.announcement {
                send(at: sockets) { addresses in
                    addresses.isEmpty ? nil : state.withLock { $0.engine.announcement(number, addresses: addresses) }
                }
                keep(number)
            }
            schedule()
        }
    }

    /// Has ``announce(at:)`` wake when something is due.
    private func schedule() {
        state.withLock { state in
            if let timer = state.timer { timers.cancel(timer) }
            state.timer = timers.schedule(at: state.engine.nextDeadline) { [alarm] in alarm.continuation.yield() }
        }
    }

    // MARK: - The responder

    /// Has the responder offer what is announced, when that has changed or was made some time ago.
    private func keep(_ number: UInt64) {
        guard let responder = responder.withLock(\.self) else { return }
        let hour = ServiceName.hour(of: time())
        let devices = paired().filter { $0 != key.id }
        responder.examine(isNew: names.withLock { $0.update(hour: hour, devices: devices) })
        let listening = addresses()
        let now = clock.now
        let places = state.withLock { state -> [Place]? in
            // Another machine has nothing of what this one says to itself.
            let places = state.interfaces.filter { $0.kind != .loopback }.compactMap { interface -> Place? in
                let own = Self.own(listening, at: interface)
                return own.isEmpty ? nil : Place(interface: interface.index, addresses: own)
            }
            guard places != state.kept || hour != state.hour || state.renewal.map({ $0 <= now }) ?? true else {
                return nil
            }
            (state.kept, state.hour, state.renewal) = (places, hour, now + state.engine.keptInterval)
            return places
        }
        guard let places else { return }
        responder.publish(
            records(of: places, hour) { addresses in
                state.withLock { $0.engine.keptAnnouncement(number, addresses: addresses) }
            })
    }

    /// Has it say goodbye.
    private func leave() async {
        guard let responder = responder.withLock(\.self) else { return }
        let (places, hour, number) = state.withLock { ($0.kept, $0.hour, $0.engine.nextNumber(time())) }
        await responder.leave(records(of: places, hour) { _ in state.withLock { $0.engine.goodbye(number) } })
    }

    private func records(
        of places: [Place], _ hour: UInt64, _ make: ([NetworkAddress]) -> LocalAnnouncement
    ) -> [ServiceRecord] {
        places.compactMap { place in
            do throws(KithError) {
                let bytes = try make(place.addresses).signed(by: key)
                return ServiceRecord(
                    of: key.id, hour: hour, interface: place.interface, addresses: place.addresses, announcement: bytes)
            } catch {
                logger.debug("no announcement was made for the responder", metadata: ["error": "\(error)"])
                return nil
            }
        }
    }

    /// The addresses among these that are an interface's.
    private static func own(_ addresses: [NetworkAddress], at interface: NetworkInterface) -> [NetworkAddress] {
        addresses.filter { address in interface.addresses.contains { $0.hasSameIP(as: address) } }
    }

    private func sayGoodbye(at sockets: [MulticastSocket]) {
        let number = state.withLock { $0.engine.nextNumber(time()) }
        send(at: sockets) { _ in state.withLock { $0.engine.goodbye(number) } }
    }

    /// Sends what `make` returns for each interface, given the device's addresses there.
    ///
    /// Only those: who listens on one network is not told of the others.
    private func send(at sockets: [MulticastSocket], _ make: ([NetworkAddress]) -> LocalAnnouncement?) {
        let listening = addresses()
        for interface in state.withLock({ $0.interfaces }) {
            let own = Self.own(listening, at: interface)
            guard let announcement = make(own) else { continue }
            do {
                let bytes = try announcement.signed(by: key)
                for socket in sockets where Self.serves(interface, socket) {
                    // The loopback's own address says that it came from this machine.
                    let source = interface.kind == .loopback ? interface.addresses.first { !$0.isIPv6 } : nil
                    try socket.send(bytes, to: interface.index, from: source)
                }
            } catch {
                // The interface has gone, or has no room now: the next one goes out in a while.
                logger.debug(
                    "an announcement was not sent", metadata: ["interface": "\(interface.name)", "error": "\(error)"])
            }
        }
    }

    // MARK: - Listening

    private func listen(at socket: MulticastSocket) async {
        while let (bytes, source) = await socket.receive(limit: LocalAnnouncement.maxBytes) {
            received(bytes, from: source)
        }
    }

    /// Takes a datagram in.
    func received(_ bytes: [UInt8], from source: NetworkAddress) { received(bytes, isFromHere: source.isLoopback) }

    /// Takes in what a service says; only addresses of the network that it is on are believed.
    private func received(_ strings: [[UInt8]], of service: String, on interface: UInt32) {
        guard let bytes = names.withLock({ $0.open(strings, named: service) }),
            let networks = state.withLock({ $0.interfaces.first { $0.index == interface }?.linkNetworks })
        else { return state.withLock { $0.malformed.saturatingAdd(1) } }
        received(bytes, isFromHere: false, networks: networks)
    }

    /// Takes an announcement in, wherever it was heard: by the group, or from a service.
    private func received(_ bytes: [UInt8], isFromHere: Bool, networks: [NetworkPrefix]? = nil) {
        guard let device = ReceivedAnnouncement.device(named: bytes) else {
            return state.withLock { $0.malformed.saturatingAdd(1) }
        }
        let isPaired = device != key.id && isPaired(device)
        guard isPaired else { return state.withLock { $0.engine.refuse(device == key.id ? .own : .unpaired) } }
        let announcement: ReceivedAnnouncement
        do {
            announcement = try ReceivedAnnouncement(bytes)
        } catch {
            return state.withLock { $0.malformed.saturatingAdd(1) }
        }
        let (now, time) = (clock.now, time())
        let reception = state.withLock { state in
            state.engine.receive(
                announcement, isKnown: true, isFromHere: isFromHere, networks: networks, at: now, time: time)
        }
        switch reception {
        case .found(let device, let addresses), .moved(let device, let addresses):
            report(.found(device, addresses))
        case .left(let device): report(.lost(device))
        case .refused: return
        case .renewed: break
        }
        schedule()
    }

    private func report(_ event: Event) {
        switch event {
        case .found(let device, let addresses):
            logger.info(
                "a paired device is on this network",
                metadata: ["device": "\(device.short)", "addresses": "\(addresses.map(\.description))"])
        case .lost(let device):
            logger.info("a paired device has left this network", metadata: ["device": "\(device.short)"])
        }
        note(event)
    }

    /// Milliseconds since 1970.
    @Sendable private static func milliseconds() -> UInt64 {
        var time = timespec()
        guard unsafe clock_gettime(CLOCK_REALTIME, &time) == 0 else { return 0 }
        return UInt64(clamping: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}
