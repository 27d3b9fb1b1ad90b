import KithIO
package import KithIdentity
package import KithReach
import KithWire
package import Logging
import NIOCore
import NIOPosix
import Synchronization

/// Keeps a device where others can reach it: connected to its relays, its outside addresses known, its port mapped.
///
/// ``run()`` does that, and has the endpoint announce it to the connected devices.
/// ``connect(to:at:isEarly:timeout:)`` dials through the relays at which another device is to be found, beside its
/// addresses.
package actor DeviceReach {
    /// The settings.
    package struct Options: Sendable {
        /// The relays at which this device may be found, the preferred first.
        package var relays: [RelayAddress] = []
        /// Indicates whether this device connects to its relays; else it only announces them, and dials through them.
        package var attaches = true
        /// A relay in this very process, and the address at which it listens; it is the first of this device's relays.
        package var hosted: (relay: RelayAddress, address: NetworkAddress)?
        /// The directories that know where devices are, and are told where this one is.
        package var directories: DirectoryClient?
        /// Keeps this device's record in them; nil where it does not attach.
        package var publisher: RecordPublisher?
        /// Indicates whether the record has this device's addresses outside as well, for everybody who knows its key.
        package var publishesAddresses = false
        /// The ways by which this device reaches others and is reached, where nothing else holds for one of them.
        package var preference = ReachPreference.auto
        /// The same for single devices.
        package var preferences: [DeviceID: ReachPreference] = [:]
        /// The tokens that relays want.
        package var tokens: [RelayAddress: String] = [:]
        /// A PEM file of certificates to trust in place of the system's.
        package var trustedCertificates: String?
        /// The proxies by which relays are reached; nil: none.
        package var proxy: ProxySettings?
        /// Indicates whether the router is asked to map the port, once this device has a relay.
        package var mapsPort = false
        /// How often something is sent to stay reachable.
        package var times = ReachTimes.usual

        /// Nothing is asked of anybody.
        package init() {}
    }

    /// A relay in use, and the state of the connection to it.
    package struct RelayInUse: Hashable, Sendable {
        /// The relay.
        package var address: RelayAddress
        /// The link's number.
        package var number: UInt32
        /// The state of the connection.
        package var state: RelayClient.State
        /// The transport of the connection, while there is one.
        package var carrier: RelayCarrier?
        /// Indicates whether this device may be found there; else it only leads to others.
        package var isOwn: Bool
        /// The way to it: a proxy's, or none but the network's.
        package var route = ProxySettings.Route.direct
        /// The reason of the last attempt that failed since it was connected; `nil` for none.
        package var failure: String?
        /// The time since when it is not connected.
        package var lostAt: ContinuousClock.Instant?

        /// Indicates whether it is not known to be the relay of the key in its URL: plain TCP proves no key.
        package var isUnproven: Bool { carrier == .tcp && !address.isSecure && address.key != nil }
    }

    /// The ways to reach this device now.
    package struct Status: Hashable, Sendable {
        /// The relay at which it is to be found.
        package var home: RelayAddress?
        /// The relay that takes over.
        package var standby: RelayAddress?
        /// Every relay it is connected to, or tries to be.
        package var relays: [RelayInUse] = []
        /// The network, as servers outside see it.
        package var report = NetworkReport()
        /// The only server there is to ask, when it does not answer by UDP: whether UDP is blocked cannot be told.
        package var silentServer: String?
        /// What became of the last publication in each directory, and of the last question to it.
        package var directories: [DirectoryClient.Standing] = []
        /// The port that a router maps to this device's.
        package var mapping: PortMapping?
        /// The opening for IPv6 in a router's firewall.
        package var pinhole: PortMapping?
        /// The NAT64 by which IPv4 is reached, in a network of IPv6 alone.
        package var nat64: NAT64Prefix?
        /// The reason there is none; `nil` while that is not known, or not wanted.
        package var mappingFailure: PortMappingFailure?
        /// Indicates whether the device saves its battery.
        package var savesPower = false
    }

    /// The relays that are remembered beyond the end of the process.
    package struct RelayStore: Sendable {
        /// Returns the relays at which a device was to be found last.
        package var relays: @Sendable (DeviceID) -> [RelayAddress]
        /// Keeps the relays that a device announces.
        package var keepRelays: @Sendable (DeviceID, [RelayAddress]) -> Void
        /// Keeps the relays at which this device may be found from now on, and the tokens that they want.
        package var keepOwnRelays: @Sendable ([RelayAddress], _ tokens: [RelayAddress: String]) -> Void

        /// Makes it of its three functions.
        package init(
            relays: @escaping @Sendable (DeviceID) -> [RelayAddress],
            keepRelays: @escaping @Sendable (DeviceID, [RelayAddress]) -> Void,
            keepOwnRelays: @escaping @Sendable ([RelayAddress], _ tokens: [RelayAddress: String]) -> Void
        ) {
            (self.relays, self.keepRelays, self.keepOwnRelays) = (relays, keepRelays, keepOwnRelays)
        }
    }

    enum Input: Sendable {
        case relay(RelayAddress, link: UInt32, RelayClient.State)
        case announcements
        case network([NetworkInterface])
        case awake
        case datagrams
        case mappingWanted
        case spare(UInt32?)
        case servers([NetworkAddress], of: RelayAddress)
        case observations
        case nat64(NAT64Prefix?, generation: UInt32)
        case routerOptions([RouterOption])
        case observed(AddressDiscovery.Answer?, by: NetworkAddress, generation: UInt32)
        case mapping(PortMappingUpdate)
        case pinhole(PortMappingUpdate)
        case mappingEnded
        case deadline
    }

    /// What comes from outside, between two looks at it: so much at most, whoever sends.
    struct Mailbox {
        static let maxDatagrams = 64

        /// The relays that devices announced last.
        var announcements: [DeviceID: [RelayAddress]] = [:]
        /// The addresses at which devices see this one.
        var observations: [DeviceID: [NetworkAddress]] = [:]
        /// Answers of servers.
        var datagrams: [(bytes: [UInt8], source: NetworkAddress, socket: UInt32)] = []
        /// The servers that were asked; from nobody else anything is taken.
        var servers: Set<NetworkAddress> = []
    }

    struct Relay {
        let link: RelayLink
        var state = RelayClient.State.idle
        /// Indicates whether it has ever let this device in.
        var wasLetIn = false
        /// The reason of the last attempt that failed since it was connected.
        var failure: String?
        /// The time since when it is not connected.
        var lostAt: ContinuousClock.Instant?
        /// Indicates whether this device is to be found there.
        var isAttached = false
        /// The time since when nothing needs it.
        var unneeded: ContinuousClock.Instant?
        /// The end of the attempt to open it, while somebody waits for that: the link's number, or nil.
        var opening: Promise<UInt32?>?

        /// Notes why it is not connected, and since when.
        mutating func noteFailure(in state: RelayClient.State, at now: ContinuousClock.Instant) {
            switch state {
            case .connected: (failure, lostAt) = (nil, nil)
            case .waiting(let reason), .denied(let reason): (failure, lostAt) = (reason, lostAt ?? now)
            case .captive, .idle, .connecting, .restarting, .closed: lostAt = lostAt ?? now
            }
        }

        /// Indicates whether it has not failed, or is likely to be back.
        var isPromising: Bool {
            switch state {
            case .idle, .connecting, .connected, .restarting: true
            case .waiting, .captive, .denied, .closed: wasLetIn
            }
        }
    }

    /// What has the router map the port.
    struct Mapper {
        /// Those that do now, one of each family.
        var services: [PortMappingService] = []
        /// Indicates whether there is to be no other.
        var isOver = false
    }

    /// A device's relays, and whether the device itself has announced them since the start.
    struct Known {
        var relays: [RelayAddress]
        var isAnnounced: Bool
    }

    enum Phase { case idle, running, stopped }

    /// The port of STUN (RFC 8489 §18.6).
    static let stunPort: UInt16 = 3_478
    /// The time after which a server that does not answer over QUIC is asked again: where UDP is blocked, a question a
    /// minute is enough to notice that it no longer is.
    static let unansweredInterval = Duration.seconds(60)
    /// The same where it answers STUN, and its other port is asked: it may well have none.
    static let portInterval = Duration.seconds(600)
    /// The time for which a relay stays that nothing needs but a connection that still sends by it.
    static let farewell = Duration.seconds(60)
    /// The time for which a relay that refused this device is not asked again on behalf of others.
    static let refusalTime = Duration.seconds(600)
    /// The time a dial may take before directories are asked.
    static let directoryWait = Duration.milliseconds(500)
    /// The time a dial may take where nothing but the local network may be used.
    static let localWait = Duration.seconds(3)
    /// The most tokens that are remembered.
    static let maxTokens = 64
    /// The most relays that are open, or being opened, for other devices.
    static let maxForeign = PeerRelays.maxRelays + 4

    let key: DeviceKey
    let endpoint: Endpoint
    let options: Options
    let logger: Logger
    let inputs = AsyncStream.makeStream(of: Input.self)
    /// What the directories are to be told, the newest only; nil for nothing any more.
    let records = AsyncStream.makeStream(of: DeviceRecord?.self, bufferingPolicy: .bufferingNewest(1))
    nonisolated let mailbox = Mutex(Mailbox())
    nonisolated let snapshot = Mutex(Status())
    nonisolated let known = Mutex<[DeviceID: Known]>([:])
    /// The addresses that devices have published in directories, as far as those were asked.
    nonisolated let published = Mutex<[DeviceID: [NetworkAddress]]>([:])
    /// The relays at which this device may be found.
    nonisolated let own: Mutex<[RelayAddress]>
    nonisolated let store: RelayStore
    /// The tokens that relays want.
    nonisolated let tokens: Mutex<[RelayAddress: String]>
    nonisolated let preferences: Mutex<Preferences>
    /// Fulfilled when another path to a device is used, for whoever waits for that.
    nonisolated let pathChanges = Mutex<[DeviceID: Promise<Void>]>([:])
    /// Whether the router is to map the port, the newest only: once others can learn of it by a relay, and not where
    /// nothing is to leave the local network.
    let mappingWishes = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(1))
    nonisolated let mapper = Mutex(Mapper())
    /// The NAT64 by which IPv4 is reached; nil where there is none, or no need.
    nonisolated let nat64 = Mutex<NAT64Prefix?>(nil)
    let timers = TimerQueue()
    /// Is told of every change of the status.
    nonisolated let onStatus = Mutex<(@Sendable (Status) -> Void)?>(nil)

    var choice: RelayChoice
    var relays: [RelayAddress: Relay] = [:]
    var peers = PeerRelays()
    var refusals: [RelayAddress: ContinuousClock.Instant] = [:]
    var nextNumber: UInt32 = 0
    var info = ReachInfo()
    var announced: ReachInfo?
    var interfaces: [NetworkInterface]?
    /// What routers say of a NAT64.
    var advertised = AdvertisedPrefixes()
    var stun = STUNClient()
    /// The addresses at which devices see this one.
    var observations = PeerObservations()
    /// The servers that did not answer over QUIC, and the time they did not.
    var unanswered: [NetworkAddress: ContinuousClock.Instant] = [:]
    /// The servers that are being asked over QUIC.
    var askedByQUIC: Set<NetworkAddress> = []
    var nextMapping: NextMapping?
    /// Fulfilled when the servers that were asked have answered, or are not waited for.
    var answers: [Promise<Void>] = []
    var reporter = NetworkReporter(localAddresses: [])
    var servers: [RelayAddress: [NetworkAddress]] = [:]
    var mapping: PortMapping?
    var pinhole: PortMapping?
    var mappingFailure: PortMappingFailure?
    var nextQuestions: ContinuousClock.Instant? = .now
    var lastQuestions: ContinuousClock.Instant?
    var nextSweep = ContinuousClock.Instant.now
    var random = SystemRandomNumberGenerator()
    var phase = Phase.idle

    /// Makes it for an endpoint that finds paths.
    package init(key: DeviceKey, endpoint: Endpoint, options: Options, store: RelayStore, logger: Logger) {
        (self.key, self.endpoint, self.options, self.logger) = (key, endpoint, options, logger)
        self.store = store
        tokens = Mutex(options.tokens)
        preferences = Mutex(Preferences(options.preference, options.preferences))
        let relays = ([options.hosted?.relay].compactMap(\.self) + options.relays).distinct
        own = Mutex(relays)
        var limits = RelayChoice.Limits()
        limits.keepsStandby = options.times.keepsStandby
        choice = RelayChoice(
            options.attaches && options.preference != .local ? relays : [], limits: limits, at: .now)
        (info.preference, info.preferences) = (options.preference, options.preferences)
    }

    /// The ways to reach this device now.
    package nonisolated var status: Status {
        var status = snapshot.withLock { $0 }
        status.directories = options.directories?.standings ?? []
        return status
    }

    /// Asks the servers from where they see this device, and waits for their answers, for ``NetworkReporter/patience`` at
    /// most: from then on the status says how UDP goes now.
    package func askAgain() async {
        guard phase == .running else { return }
        nextQuestions = .now
        act()
        guard reporter.awaitsAnswers(at: .now) else { return }
        let answered = Promise<Void>()
        answers.append(answered)
        await answered.value()
    }

    /// Calls `handler` with each status that differs from the one before; it must not wait.
    package nonisolated func onStatusChange(_ handler: @escaping @Sendable (Status) -> Void) {
        onStatus.withLock { $0 = handler }
    }

    /// The relays to announce in invitations: where this device is to be found, or is going to be.
    package nonisolated var announcedRelays: [RelayAddress] {
        if preferences.withLock({ $0.general }) == .local { return [] }
        let status = status
        let attached = [status.home, status.standby].compactMap(\.self)
        return attached + own.withLock { $0 }.filter { !attached.contains($0) }
    }

    /// Indicates whether directories are asked where devices are.
    package nonisolated var asksDirectories: Bool { options.directories != nil }

    /// The relays at which a device is to be found.
    package nonisolated func relays(of device: DeviceID) -> [RelayAddress] {
        known.withLock { $0[device]?.relays } ?? store.relays(device)
    }

    /// Notes the relays of a device, as its invitation names them; what it announces itself while connected counts more.
    package nonisolated func note(_ relays: [RelayAddress], of device: DeviceID) {
        let isConnected = endpoint.connection(to: device) != nil
        known.withLock { known in
            guard !isConnected || known[device]?.isAnnounced != true else { return }
            known[device] = Known(relays: relays, isAnnounced: false)
        }
    }

    /// The token that a relay wants; `nil` for none.
    package nonisolated func token(for relay: RelayAddress) -> String? { tokens.withLock { $0[relay] } }

    /// Notes the token that a relay wants; one that is known stays.
    package nonisolated func learn(_ token: String, for relay: RelayAddress) {
        tokens.withLock { tokens in
            guard tokens.count < Self.maxTokens else { return }
            tokens[relay] = tokens[relay] ?? token
        }
    }

    /// Forgets the relays of a device that is not paired any more.
    package func forget(_ device: DeviceID) {
        known.withLock { $0[device] = nil }
        published.withLock { $0[device] = nil }
        preferences.withLock { $0.set(nil, for: device) }
        peers.remove(device)
        observations.remove(device)
        endpoint.setLinks([], of: device)
        needsChanged(at: .now)
        arm(at: .now)
    }

    /// The preference that holds for a device now.
    package nonisolated func preference(for device: DeviceID) -> ReachPreference {
        preferences.withLock { $0.preference(for: device) }
    }

    /// The addresses among `addresses` that may be dialed for a device, and that it may learn of this one.
    package nonisolated func addresses(_ addresses: [NetworkAddress], for device: DeviceID) -> [NetworkAddress] {
        switch preference(for: device) {
        case .auto, .direct: addresses
        case .relay: []
        case .local:
            // The system is asked once.
            addresses.filter(OnLinkNetworks.now.contains)
        }
    }

    /// The addresses among `addresses` that anybody may learn of this device, as in an invitation.
    package nonisolated func announced(_ addresses: [NetworkAddress]) -> [NetworkAddress] {
        switch preferences.withLock({ $0.general }) {
        case .auto, .direct: addresses
        case .relay: []
        case .local: addresses.filter(OnLinkNetworks.now.contains)
        }
    }

    /// Sets the preference for a device, nil to have the general one hold; or the general one, for no device.
    package func set(_ preference: ReachPreference?, for device: DeviceID?) {
        preferences.withLock { $0.set(preference, for: device) }
        preferencesChanged(for: device)
    }

    /// Has a preference hold for a device until ``release(_:of:)``, whatever is set; the newest holds.
    package func hold(_ preference: ReachPreference, for device: DeviceID) -> UInt64 {
        let number = preferences.withLock { $0.hold(preference, for: device) }
        preferencesChanged(for: device)
        return number
    }

    /// Ends what ``hold(_:for:)`` began.
    package func release(_ number: UInt64, of device: DeviceID) {
        preferences.withLock { $0.release(number, of: device) }
        preferencesChanged(for: device)
    }

    /// Indicates whether this device connects to its relays: not where nothing is to leave the local network.
    private var isAttaching: Bool { options.attaches && info.preference != .local }

    private func preferencesChanged(for device: DeviceID?) {
        let now = ContinuousClock.now
        let wasLocal = info.preference == .local
        (info.preference, info.preferences) = preferences.withLock { ($0.general, $0.special) }
        if options.attaches, wasLocal != (info.preference == .local) {
            let relays = own.withLock { $0 }
            choice.set(isAttaching ? relays : [], at: now)
            servers = [:]
            if isAttaching {
                for relay in relays { lookUp(relay) }
            }
            wishMapping()
            if let interfaces { lookForNAT64(in: interfaces) }
        }
        // Relays that lead to whom none is to be used for are left, whatever still goes by them.
        var left: Set<RelayAddress> = []
        for device in peers.devices where self.preference(for: device) == .local {
            left.formUnion(peers.relays(of: device))
            peers.remove(device)
            endpoint.setLinks([], of: device)
        }
        needsChanged(at: now)
        for address in left where relays[address]?.unneeded != nil {
            relays[address]?.unneeded = now - Self.farewell * 2
            nextSweep = now
        }
        // A path by a relay is held only where a relay is known to lead there.
        if let device, preference(for: device) == .relay {
            _ = peers.use(relays(of: device), for: device, own: ownRelays, at: now)
            usePeerRelays(of: device, at: now)
        }
        act()
    }

    /// The URL of the relay whose link has that number.
    package nonisolated func url(of number: UInt32) -> String? {
        status.relays.first { $0.number == number }?.address.description
    }

    /// The transport to the relay of a link.
    package nonisolated func carrier(of number: UInt32) -> RelayCarrier? {
        status.relays.first { $0.number == number }?.carrier
    }

    /// Has this device be found at those relays, unless it has some of its own.
    package func adopt(_ relays: [RelayAddress]) {
        let hosted = [options.hosted?.relay].compactMap(\.self)
        guard !relays.isEmpty, own.withLock({ $0 == hosted }) else { return }
        let all = (hosted + relays).distinct
        own.withLock { $0 = all }
        store.keepOwnRelays(relays.distinct, tokens.withLock { known in known.filter { relays.contains($0.key) } })
        guard isAttaching else { return }
        choice.set(all, at: .now)
        wishMapping()
        for relay in relays { lookUp(relay) }
        act()
    }

    private func takeAnswers() -> [Promise<Void>] {
        defer { answers = [] }
        return answers
    }

    // MARK: - Running

    /// Ends ``run()``.
    package nonisolated func stop() { inputs.continuation.finish() }

    /// Does it all until it is stopped or the task is cancelled, then leaves the relays and gives the mapped port back.
    package func run() async {
        phase = .running
        let feed = inputs.continuation
        await listen()
        async let mapped: Void = mapPort()
        await withDiscardingTaskGroup { group in
            group.addTask { await NetworkMonitor.follow { feed.yield(.network($0)) } }
            group.addTask { await NetworkMonitor.followRouterOptions { feed.yield(.routerOptions($0)) } }
            if let publisher = options.publisher {
                group.addTask { await publisher.run() }
                group.addTask { [records] in
                    for await record in records.stream { await publisher.publish(record) }
                }
            }
            await withTaskCancellationHandler {
                let relays = isAttaching ? own.withLock { $0 } : []
                wishMapping()
                for relay in relays { lookUp(relay) }
                act()
                for await input in inputs.stream {
                    handle(input)
                    if nextSweep <= .now { await sweep() }
                    act()
                }
            } onCancel: {
                feed.finish()
            }
            await leave()
            group.cancelAll()
        }
        await mapped
    }

    /// Has the endpoint deliver what comes from other devices and from servers.
    func listen() async {
        let feed = inputs.continuation
        endpoint.onWake { feed.yield(.awake) }
        endpoint.onMappingWanted { feed.yield(.mappingWanted) }
        endpoint.onPathChange { [weak self] device in
            self?.pathChanges.withLock { $0.removeValue(forKey: device) }?.fulfil(())
        }
        endpoint.onPeerRelays { [weak self] device, relays in
            let isFirst = self?.mailbox.withLock { mailbox in
                defer { mailbox.announcements[device] = relays }
                return mailbox.announcements.isEmpty
            }
            if isFirst == true { feed.yield(.announcements) }
        }
        endpoint.onObservedAddress { [weak self] device, address in
            let isFirst = self?.mailbox.withLock { mailbox in
                let isFirst = mailbox.observations.isEmpty
                // The newest of each family.
                let others = (mailbox.observations[device] ?? []).filter { $0.isIPv6 != address.isIPv6 }
                mailbox.observations[device] = others + [address]
                return isFirst
            }
            if isFirst == true { feed.yield(.observations) }
        }
        await endpoint.onOtherDatagram { [weak self] bytes, source, socket in
            let isFirst = self?.mailbox.withLock { mailbox in
                guard mailbox.servers.contains(source), mailbox.datagrams.count < Mailbox.maxDatagrams else {
                    return false
                }
                mailbox.datagrams.append((bytes, source, socket))
                return mailbox.datagrams.count == 1
            }
            if isFirst == true { feed.yield(.datagrams) }
        }
    }

    /// Has the router map the port while that is wished, and gives it back.
    private nonisolated func mapPort() async {
        guard options.mapsPort, options.times.mapsPort, options.attaches else { return }
        let feed = inputs.continuation
        for await isWished in mappingWishes.stream where isWished {
            let service = PortMappingService(port: endpoint.port)
            let service6 = PortMappingService(port: endpoint.port, isIPv6: true)
            let isOver = mapper.withLock { mapper in
                mapper.services = [service, service6]
                return mapper.isOver
            }
            if isOver { return }
            // It may not be wished any more.
            if preferences.withLock({ $0.general }) == .local {
                service.stop()
                service6.stop()
            }
            async let opened: Void = service6.run { feed.yield(.pinhole($0)) }
            await service.run { feed.yield(.mapping($0)) }
            await opened
            mapper.withLock { $0.services = [] }
            feed.yield(.mappingEnded)
        }
    }

    /// Says whether the port is to be mapped now.
    private func wishMapping() {
        let isWished = isAttaching && own.withLock { !$0.isEmpty }
        mappingWishes.continuation.yield(isWished)
        if !isWished { for service in mapper.withLock({ $0.services }) { service.stop() } }
    }

    func leave() async {
        phase = .stopped
        timers.removeAll()
        mappingWishes.continuation.finish()
        mapper.withLock { mapper in
            mapper.isOver = true
            for service in mapper.services { service.stop() }
        }
        endMapping()
        await endpoint.onOtherDatagram(nil)
        for address in Array(relays.keys) { await close(address) }
        publish(at: .now)
        for answered in takeAnswers() { answered.fulfil(()) }
    }

    func handle(_ input: Input) {
        let now = ContinuousClock.now
        switch input {
        case .relay(let address, let link, let state): relayChanged(address, link, to: state, at: now)
        case .announcements:
            let news = mailbox.withLock { mailbox in
                defer { mailbox.announcements = [:] }
                return mailbox.announcements
            }
            for (device, relays) in news { peerAnnounced(relays, device, at: now) }
        case .nat64(let prefix, let generation): foundNAT64(prefix, generation: generation)
        case .routerOptions(let options): routersAdvertised(options, at: now)
        case .observations:
            let news = mailbox.withLock { mailbox in
                defer { mailbox.observations = [:] }
                return mailbox.observations
            }
            devicesObserved(news, at: now)
        case .observed(let answer, let server, let generation):
            serverObserved(answer, by: server, generation: generation, at: now)
        case .network(let found): networkChanged(to: found, at: now)
        case .awake: lookAgain(isElsewhere: false, at: now)
        case .servers(let addresses, let relay):
            // It may have been left meanwhile.
            guard servers[relay] != nil else { break }
            servers[relay] = addresses
            if !addresses.isEmpty { nextQuestions = now }
        case .datagrams:
            let datagrams = mailbox.withLock { mailbox in
                defer { mailbox.datagrams = [] }
                return mailbox.datagrams
            }
            for datagram in datagrams {
                if datagram.socket == nextMapping?.socket {
                    _ = nextMapping?.stun.receive(datagram.bytes, from: datagram.source, at: now)
                } else {
                    _ = stun.receive(datagram.bytes, from: datagram.source, at: now)
                }
            }
        case .mappingWanted: observeMapping(at: now)
        case .spare(let socket): askForMapping(from: socket, at: now)
        case .mapping(.mapped(let new)):
            (mapping, mappingFailure) = (new, nil)
            mappingChanged()
        case .mapping(.unavailable(let failure)):
            (mapping, mappingFailure) = (nil, failure)
            mappingChanged()
        case .pinhole(.mapped(let new)): pinhole = new
        case .pinhole(.unavailable): pinhole = nil
        case .mappingEnded:
            (mapping, pinhole, mappingFailure) = (nil, nil, nil)
            mappingChanged()
        case .deadline: break
        }
    }

    /// Does what is due, and announces what is new.
    func act() {
        let now = ContinuousClock.now
        guard phase == .running else { return }
        choice.timedOut(at: now)
        while let action = choice.nextAction() { perform(action, at: now) }
        for device in peers.applyPending(own: ownRelays, at: now) { usePeerRelays(of: device, at: now) }
        advertisementsChanged { $0.timedOut(at: now) }
        askServers(at: now)
        // What they answer may show a nearer relay.
        while let action = choice.nextAction() { perform(action, at: now) }
        followMapping(at: now)
        publish(at: now)
        if !reporter.awaitsAnswers(at: now) { for answered in takeAnswers() { answered.fulfil(()) } }
        arm(at: now)
    }

    func arm(at now: ContinuousClock.Instant) {
        timers.removeAll()
        guard phase == .running else { return }
        let deadlines = [
            choice.nextDeadline(after: now), stun.nextDeadline, nextQuestions, nextSweep, peers.nextDeadline,
            reporter.nextDeadline(after: now), nextMapping?.stun.nextDeadline, advertised.nextDeadline,
        ]
        guard let next = deadlines.compactMap(\.self).min() else { return }
        let feed = inputs.continuation
        _ = timers.schedule(at: max(next, now + .milliseconds(5))) { feed.yield(.deadline) }
    }

    /// Announces what is new to connected devices, and to whoever asks for the status.
    func publish(at now: ContinuousClock.Instant) {
        (info.home, info.standby) = (choice.home, choice.standby)
        var report = reporter.report(at: now)
        // Where a relay is reached by QUIC, UDP goes through, whether or not a server says from where.
        if relays.values.contains(where: { $0.link.client.carrier == .quic }) { report.udp = .works }
        var silentServer: String?
        if report.udp == .blocked, let only = servers.first(where: { !$0.value.isEmpty })?.key.host,
            servers.allSatisfy({ $0.value.isEmpty || $0.key.host == only })
        {
            // It may be its own fault.
            (report.udp, silentServer) = (.unknown, only)
        }
        info.nat = report.nat
        if info != announced {
            endpoint.announce(info)
            let record = DeviceRecord(
                relays: [info.home, info.standby].compactMap(\.self), addresses: publishedAddresses(by: report))
            // While it is at none, what directories know may well become true again.
            if info.preference == .local {
                records.continuation.yield(nil)
            } else if !record.isEmpty {
                records.continuation.yield(record)
            }
            announced = info
        }
        let mine = ownRelays
        let status = Status(
            home: choice.home, standby: choice.standby,
            relays: relays.map {
                RelayInUse(
                    address: $0, number: $1.link.number, state: $1.state, carrier: $1.link.client.carrier,
                    isOwn: mine.contains($0),
                    route: options.hosted?.relay == $0 ? .direct : options.proxy?.route(to: $0) ?? .direct,
                    failure: $1.failure, lostAt: $1.lostAt)
            }
            .sorted { $0.number < $1.number },
            report: report, silentServer: silentServer, mapping: mapping, pinhole: pinhole,
            nat64: nat64.withLock { $0 },
            mappingFailure: mappingFailure, savesPower: options.times == .saving)
        let isNew = snapshot.withLock { snapshot in
            defer { snapshot = status }
            return snapshot != status
        }
        if isNew { onStatus.withLock(\.self)?(status) }
    }
}
