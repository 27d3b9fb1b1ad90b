import KithAPI
import KithCompatibility
import KithExtractor
import KithFiles
import KithForward
import KithIO
import KithIdentity
import KithJobs
import KithLibrary
import KithNet
import KithNode
import KithReach
import KithScreen
import KithShell
import KithSocket
import KithStore
import KithWire
import Logging

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Everything a device has open while it runs, put together; a device that runs again gets new ones.
struct DeviceParts: Sendable {
    let key: DeviceKey
    let name: String
    let store: Store
    let endpoint: Endpoint
    let node: Node
    private let sessionCache: SealedSessionCache
    /// At the Unix socket, and at the loopback addresses; none when it does not listen.
    private let sockets: [SocketServer]
    /// At the socket for other commands, and the end of it; `nil` when there is none.
    private let commandSocket: (server: SocketServer, ended: AsyncEvent)?
    let apiAddresses: [String]
    private let pairing: PairingService
    private let trust: TrustService
    let discovery: LocalDiscovery?
    private let reach: DeviceReach
    private let reachability: AsyncStream<Bool>
    private let reachable: AsyncStream<Bool>.Continuation
    private let network: NetworkPolicy
    private let addresses: @Sendable () -> [NetworkAddress]
    private let forwards: ForwardService?
    private let stopping: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)

    /// Opens a data directory and the sockets; `owner` is the key of a device that had them open before.
    ///
    /// `events` are its topics, then.
    static func open(
        directory: String, options: Device.Options, as owner: DeviceKey? = nil, events: EventHub? = nil
    ) async throws -> DeviceParts {
        let store = try Store.open(directory: directory, logger: options.logger)
        do {
            return try await DeviceParts(store: store, options: options, owner: owner, events: events)
        } catch {
            store.close()
            throw error
        }
    }

    private init(store: Store, options: Device.Options, owner: DeviceKey?, events: EventHub?) async throws {
        // Stretching a passphrase takes half a second, asking a keyring as long as it likes.
        let key = try await DiskExecutor().run {
            try owner.map { try Self.check($0, of: store) } ?? Self.key(of: store, options)
        }
        self.key = key
        self.store = store
        if let name = options.name { try store.setSetting("name", Self.ownName(name, of: key.id)) }
        let ownName = try store.setting("name") ?? Self.hostName()
        name = ownName

        let sessionCache = SealedSessionCache(key: key, store: store, logger: options.logger)
        self.sessionCache = sessionCache
        let endpoint = try await Self.bind(key, store, sessionCache, options)
        self.endpoint = endpoint
        // Whoever asks outlives the endpoint: services stay known to the device while it does not run.
        let addresses: @Sendable () -> [NetworkAddress] = { [weak endpoint, policy = options.network] in
            let all = endpoint?.localAddresses ?? []
            return policy.isUnrestricted ? all : policy.permitted(all, on: NetworkInterface.all)
        }
        self.addresses = addresses
        network = options.network
        (reachability, reachable) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(8))
        let protection = try ProtectedFiles(directory: store.directory)
        var nodeOptions = options.node
        nodeOptions.version = kithVersion
        let node = Node(
            id: key.id, store: store, protection: protection, interceptors: options.interceptors,
            options: nodeOptions, events: events, logger: options.logger)
        self.node = node

        let reach = try Self.reach(of: key, store, endpoint, options)
        self.reach = reach
        node.call(through: endpoint, by: reach)
        node.noteNetwork(of: reach)
        let announced: @Sendable () -> [NetworkAddress] = { reach.announced(addresses()) }
        discovery = try Self.discovery(of: key, store, node, options, addresses: announced)
        node.find(by: discovery, fixed: options.peerAddresses, hosts: options.peerHosts)

        let now: @Sendable () -> Int64 = { Int64(time(nil)) }
        try node.add(DevicesService(node: node, store: store, now: now))
        pairing = PairingService(
            node: node, store: store, name: { ownName }, addresses: announced, now: now)
        try node.add(pairing)
        let ring = DeviceKeyRing(store, of: key)
        trust = TrustService(
            node: node, store: store, key: key, keys: ring, name: { ownName }, addresses: announced, now: now)
        try node.add(trust)
        try node.add(KeysService(ring))
        if options.services.shell {
            var shells = ShellService.Options()
            shells.shell = options.shell
            shells.acceptedEnvironment += options.acceptedEnvironment
            try node.add(ShellService(options: shells, logger: options.logger))
        }
        if options.services.files { try node.add(FilesService(logger: options.logger)) }
        if options.services.forward {
            let service = ForwardService(storage: Self.forwardStorage(of: store, node: node), logger: options.logger)
            try node.add(service)
            service.restore(client: node.client)
            forwards = service
        } else {
            forwards = nil
        }
        if options.services.inbox {
            try node.add(InboxService(Self.inboxStorage(of: store, node: node, now: now), logger: options.logger))
        }
        if options.services.screen {
            let origin = try ScreenOrigin(parsing: options.screen, passwordFile: options.screenPasswordFile)
            if let warning = origin.warning { options.logger.warning("\(warning)") }
            try node.add(
                ScreenService(storage: Self.screenStorage(of: store, now: now), logger: options.logger) {
                    try await origin.open(darkness: HelperProgram.path(of: "kith-dark"))
                })
        }
        let jobs: JobBoard
        if options.services.library {
            let library = LibraryService(
                directory: store.directory, name: { ownName }, keepsUp: options.listens,
                logger: options.logger)
            jobs = library.jobs
            try node.add(library)
            try node.add(VolumesService(jobs))
        } else {
            jobs = JobBoard(path: store.directory + "/jobs.sqlite", logger: options.logger)
        }
        if options.services.files {
            try node.add(
                OperationsService(
                    directory: store.directory, protecting: protection, board: jobs, runsJobs: options.listens))
        }
        let foreign = CompatibilityAdapter(
            client: node.client, id: key.id, name: ownName, directory: store.directory, logger: options.logger)
        (sockets, apiAddresses) = try Self.sockets(in: store.directory, for: node, speaking: foreign, options)
        commandSocket = Self.commandSocket(in: store.directory, for: node, options)
        for place in sockets.flatMap(\.places) + (commandSocket?.server.places ?? []) {
            try protection.protect(place)
        }
        try node.add(
            ReachService(
                node: node, store: store, version: kithVersion, listens: options.listens,
                addresses: addresses, now: { Self.microseconds() / 1_000 }))
        try node.add(LoadService(node: node))
        let stopping = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.stopping = stopping
        try node.add(
            ThisDeviceService(
                // Not the options as a whole: they hold the passphrase, which nobody needs any more.
                status: {
                    [
                        unowned node, reach, discovery, listens = options.listens,
                        keyLogFile = options.keyLogFile
                    ] in
                    let health = Health(
                        directory: store.directory, listens: listens, addresses: addresses(),
                        auditProblem: node.auditProblem, keyLogFile: keyLogFile,
                        unlockedSecrets: SecretBytes.unlockedCount,
                        freeBytes: Health.freeBytes(in: store.directory))
                    let discovered = discovery?.status
                    var status = try ThisDevice.Status.Output(
                        name: ownName, id: key.id, addresses: addresses(),
                        ticket: Ticket(
                            id: key.id, addresses: announced(), relays: reach.announcedRelays.map(\.description)
                        ).text,
                        version: kithVersion,
                        pid: getpid(), devices: store.devices().count,
                        problems: health.problems
                            + (discovered?.problem.map { ["Devices on this network may not be found: \($0)"] } ?? []))
                    let relays = reach.announcedRelays.map(\.description)
                    if !relays.isEmpty { status.relays = relays }
                    let directories = reach.status.directories
                    if !directories.isEmpty { status.directories = directories.map { Reach.Network.Directory($0) } }
                    if let discovered {
                        status.discovery = ThisDevice.Status.Discovery(
                            group: discovered.group, interfaces: discovered.interfaces,
                            heard: discovered.heard.map(\.id))
                    }
                    return status
                },
                stop: { stopping.continuation.yield() }))
    }

    /// Begins to listen for local clients, as the options say.
    ///
    /// - Returns: what serves them, and the addresses of TCP.
    private static func sockets(
        in directory: String, for node: Node, speaking foreign: any ForeignProtocol, _ options: Device.Options
    ) throws(KithError) -> ([SocketServer], addresses: [String]) {
        guard options.listens else { return ([], []) }
        let socket = try SocketServer(
            directory: directory, dispatcher: node, foreign: foreign, logger: options.logger)
        // Of a process that was killed: whoever has its port now is not this device.
        APIEndpoint.remove(directory: directory)
        guard let port = options.apiPort else { return ([socket], []) }
        let access = try LoopbackAccess.open(directory: directory, port: port)
        var sockets = [socket]
        for listener in access.listeners {
            sockets.append(try SocketServer(listener, dispatcher: node, foreign: foreign, logger: options.logger))
        }
        return (sockets, access.endpoint.addresses)
    }

    /// Begins to listen for other commands, where this process is one; without it they have to wait for its end.
    private static func commandSocket(
        in directory: String, for node: Node, _ options: Device.Options
    ) -> (server: SocketServer, ended: AsyncEvent)? {
        guard options.servesCommands, !options.listens else { return nil }
        do throws(KithError) {
            let server = try SocketServer(
                directory: directory, as: .command, dispatcher: node, logger: options.logger)
            return (server, AsyncEvent())
        } catch {
            options.logger.info("other commands cannot use this device meanwhile: \(error.message)")
            return nil
        }
    }

    /// Serves a caller who has the other end of a pair of sockets as one at the Unix socket.
    func serve(caller number: Int32) async throws(KithError) {
        guard let socket = sockets.first else {
            closeDescriptor(number)
            throw KithError(.unsupported, "This device does not listen.")
        }
        try await socket.serve(caller: number)
    }

    /// Admits no more commands, and waits until those that use this device have ended, or the time is over.
    func endCommands(within patience: Duration) async {
        guard let (server, ended) = commandSocket else { return }
        server.beginGracefulShutdown()
        // Whoever is not done then hears that this device has gone.
        _ = try? await withDeadline(patience) { await ended.wait() }
    }

    /// Serves until it is told to stop or the task is cancelled, then closes everything.
    ///
    /// `peers` are reached first thing.
    func run(reaching peers: Set<DeviceID> = []) async throws {
        defer {
            node.beginGracefulShutdown()
            node.events?.closeOutbox()
            store.close()
        }
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await node.serve(endpoint, announcing: sockets.isEmpty ? nil : addresses, by: reach)
                    // Calls that were under way went through its relays.
                    reach.stop()
                    // Whoever does not read what became of them must not keep the device from stopping.
                    for socket in sockets { await socket.end() }
                }
                group.addTask { await reach.run() }
                if let discovery { group.addTask { await announce(by: discovery) } }
                group.addTask { await followNetwork(reaching: peers) }
                if !sockets.isEmpty { forwards?.runRestored() }
                for socket in sockets { group.addTask { try await socket.run() } }
                if let (server, ended) = commandSocket {
                    group.addTask {
                        defer { ended.happen() }
                        // Ended by the command it belongs to, it is not what ends the device.
                        try await server.run()
                    }
                }
                group.addTask {
                    for await _ in stopping.stream { break }
                    // From now on nobody is to begin anything with this device.
                    discovery?.stop()
                    reachable.finish()
                    pairing.close()
                    trust.close()
                    node.beginGracefulShutdown()
                    for socket in sockets { socket.beginGracefulShutdown() }
                    commandSocket?.server.beginGracefulShutdown()
                }
                defer { group.cancelAll() }
                try await group.waitForAll()
            }
        } catch {
            await endpoint.shutdown()
            sessionCache.keep(await endpoint.takeSessionCache())
            throw error
        }
        await endpoint.shutdown(grace: .milliseconds(500))
        sessionCache.keep(await endpoint.takeSessionCache())
    }

    /// Announces the device until it is told to stop, and remembers the number of its last announcement.
    private func announce(by discovery: LocalDiscovery) async {
        await discovery.run()
        do throws(KithError) {
            try store.setSetting(Self.lastAnnouncement, String(discovery.lastNumber))
        } catch {
            // It matters only when the clock is set back before the next start.
        }
    }

    // MARK: - Network

    /// How long a network is away before calls of other devices fail at once: interfaces come and go for a moment.
    private static let absence = Duration.seconds(2)

    /// Notes that no network leads to other machines, or that one does again.
    func networkChanged(isReachable: Bool) { reachable.yield(isReachable) }

    /// Follows the interfaces, and what ``networkChanged(isReachable:)`` says, until the device stops; begins by reaching
    /// `peers`.
    private func followNetwork(reaching peers: Set<DeviceID>) async {
        await withDiscardingTaskGroup { group in
            if !peers.isEmpty { group.addTask { await reach(peers) } }
            // A device that is there for one command is gone before its network is.
            if !sockets.isEmpty { group.addTask { await watchInterfaces() } }
            var peers: Set<DeviceID> = []
            for await isReachable in reachability where isReachable != node.isReachable {
                if isReachable {
                    node.isReachable = true
                    discovery?.addressesChanged()
                    let lost = peers
                    group.addTask { await reach(lost) }
                } else {
                    peers = node.onlineDevices
                    node.isReachable = false
                }
            }
            group.cancelAll()
        }
    }

    private func watchInterfaces() async {
        await NetworkMonitor.follow { interfaces in
            if !network.isReachable(interfaces) {
                // Ends early only when cancelled.
                try? await Task.sleep(for: Self.absence)
            }
            reachable.yield(network.isReachable(NetworkInterface.all))
        }
    }

    /// Connects to devices that were connected before, all at once; one that is not there is none's concern.
    private func reach(_ peers: Set<DeviceID>) async {
        await withDiscardingTaskGroup { group in
            for peer in peers {
                group.addTask {
                    do {
                        try await node.reconnect(to: peer)
                    } catch {
                        // It connects by itself when it is back, or at the next call.
                    }
                }
            }
        }
    }

    /// Lets go of memory that can be had again.
    func shrinkCaches() {
        node.shrinkCaches()
        store.releaseMemory()
    }

    /// Makes what keeps the device where others can reach it, and finds them; one that does not listen only finds them.
    private static func reach(
        of key: DeviceKey, _ store: Store, _ endpoint: Endpoint, _ options: Device.Options
    ) throws(KithError) -> DeviceReach {
        var settings = DeviceReach.Options()
        // A device that is there for one command keeps to the relays of the one that runs, and dials through them.
        settings.attaches = options.listens
        if options.listens, let relays = options.relays {
            let tokens = options.relayToken.map { token in relays.map { ($0, token) } } ?? []
            try keep(relays, tokens: Dictionary(tokens, uniquingKeysWith: { $1 }), in: store)
        }
        for kept in try kept(relaysSetting, in: store) {
            settings.relays.append(kept.relay)
            settings.tokens[kept.relay] = kept.token
        }
        for former in try kept(formerRelaysSetting, in: store) { settings.tokens[former.relay] = former.token }
        settings.proxy = try proxy(store, options)
        settings.mapsPort = options.mapsPort
        settings.times = options.times
        (settings.preference, settings.preferences) = try ReachService.paths(in: store)
        if let hosted = options.hostedRelay, options.listens {
            guard
                let relay = RelayAddress(host: hosted.host, port: hosted.port, key: try relayKey(of: key).id)
            else {
                throw KithError(.invalid, "\(hosted.host) is not a name or an address at which others reach a relay.")
            }
            let loopback =
                hosted.listen.isIPv6
                ? NetworkAddress(ipv6: 0, 1, port: hosted.listen.port)
                : NetworkAddress(ipv4: (127, 0, 0, 1), port: hosted.listen.port)
            settings.hosted = (relay, hosted.listen.isUnspecified ? loopback : hosted.listen)
        }
        try useDirectories(of: key, store, options, in: &settings)
        // Not the options as a whole: they hold the passphrase, which nobody needs any more.
        let logger = options.logger
        let relayStore = DeviceReach.RelayStore(
            relays: { device in
                // One whose record cannot be read is looked for at its addresses.
                ((try? store.device(device)) ?? nil)?.relays.compactMap { RelayAddress($0) } ?? []
            },
            keepRelays: { device, relays in
                do throws(KithError) {
                    try store.setRelays(relays.map(\.description), of: device)
                } catch {
                    logger.warning("could not note where a device is", metadata: ["error": "\(error)"])
                }
            },
            keepOwnRelays: { relays, tokens in
                do throws(KithError) {
                    try keep(relays, tokens: tokens, in: store)
                } catch {
                    logger.warning("could not keep the relays", metadata: ["error": "\(error)"])
                }
            })
        return DeviceReach(key: key, endpoint: endpoint, options: settings, store: relayStore, logger: logger)
    }

    /// The key of a relay in the process of the device with `key`.
    static func relayKey(of key: DeviceKey) throws(KithError) -> DeviceKey {
        var seed = key.derivedSecret("kith relay 1 identity")
        defer { seed.clear() }
        return try DeviceKey(seed: seed)
    }

    /// Decides who may use the relay in this process.
    func relayAccess(of device: DeviceID) -> RelayAccess.Decision {
        if device == key.id { return .admit(.member) }
        switch store.reception(of: device, now: Int64(time(nil))) {
        case .paired: return .admit(.member)
        case .invited: return .admit(.guest)
        // Whoever has a certificate of one root pairs over another relay, or directly: anybody could say so here.
        case .enrolled, .unknown: return .deny("this relay is for the devices of its owner")
        }
    }

    private static func useDirectories(
        of key: DeviceKey, _ store: Store, _ options: Device.Options, in settings: inout DeviceReach.Options
    ) throws(KithError) {
        if options.listens, let directories = options.directories {
            try store.setSetting(directoriesSetting, directories.map(\.description).joined(separator: "\n"))
        }
        if options.listens, let publishes = options.publishesAddresses {
            try store.setSetting(publishedAddressesSetting, publishes ? "yes" : "no")
        }
        settings.publishesAddresses = try store.setting(publishedAddressesSetting) == "yes"
        let directories = (try store.setting(directoriesSetting) ?? "").split(separator: "\n")
            .compactMap { DirectoryAddress(String($0)) }
        guard !directories.isEmpty else { return }
        let client = try DirectoryClient(directories)
        settings.directories = client
        guard options.listens else { return }
        let logger = options.logger
        settings.publisher = RecordPublisher(
            key: key, client: client, after: try store.setting(recordTime).flatMap { UInt64($0) } ?? 0,
            interval: options.times.records,
            clock: { UInt64(max(0, microseconds())) },
            keepTime: { time in
                do throws(KithError) {
                    try store.setSetting(recordTime, String(time))
                } catch {
                    logger.warning("could not note the time of a record", metadata: ["error": "\(error)"])
                }
            })
    }

    /// Keeps the relays of this device; a key and a token that were given before are not asked for again.
    ///
    /// A relay that is no longer used keeps its token, until all relays are forgotten.
    private static func keep(_ relays: [RelayAddress], tokens new: [RelayAddress: String], in store: Store)
        throws(KithError)
    {
        let before = try kept(relaysSetting, in: store) + kept(formerRelaysSetting, in: store)
        let lines = relays.distinct.map { relay in
            let known = before.first { $0.relay.isSameRelay(as: relay) }
            let given = new.first { $0.key.isSameRelay(as: relay) }?.value
            return KeptRelay(
                relay: relay.key == nil ? known?.relay ?? relay : relay, token: given ?? known?.token)
        }
        let former = before.filter { old in
            old.token != nil && !lines.contains { $0.relay.isSameRelay(as: old.relay) }
        }
        try store.setSetting(relaysSetting, lines.map(\.line).joined(separator: "\n"))
        let remembered = relays.isEmpty ? [] : former.prefix(maxFormerRelays)
        try store.setSetting(formerRelaysSetting, remembered.map(\.line).joined(separator: "\n"))
    }

    /// The most relays whose tokens are kept though they are not used.
    private static let maxFormerRelays = 16

    /// A relay and its token, as they are kept.
    private struct KeptRelay {
        var relay: RelayAddress
        var token: String?

        var line: String { token.map { "\(relay) \($0)" } ?? relay.description }
    }

    private static func kept(_ setting: String, in store: Store) throws(KithError) -> [KeptRelay] {
        (try store.setting(setting) ?? "").split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ", maxSplits: 1).map(String.init)
            return words.first.flatMap { RelayAddress($0) }.map {
                KeptRelay(relay: $0, token: words.count > 1 ? words[1] : nil)
            }
        }
    }

    /// The proxy asked for, the one kept, or what the environment says.
    private static func proxy(_ store: Store, _ options: Device.Options) throws(KithError) -> ProxySettings {
        var choice = ProxyChoice.environment
        if let wanted = options.proxy {
            if options.listens { try store.setSetting(proxySetting, wanted.textWithPassword) }
            choice = wanted
        } else if let kept = try store.setting(proxySetting) {
            do throws(ProxyProblem) {
                choice = try ProxyChoice(kept)
            } catch {
                throw KithError(.corrupt, "The proxy that was kept cannot be read; kith up --proxy sets it: \(error).")
            }
        }
        return choice.settings { name in unsafe getenv(name).map { unsafe String(cString: $0) } }
    }

    private static let proxySetting = "proxy"
    private static let relaysSetting = "relays"
    private static let formerRelaysSetting = "former relays"
    private static let directoriesSetting = "directories"
    private static let publishedAddressesSetting = "publish addresses"
    private static let recordTime = "record"
    private static let lastAnnouncement = "announcement"

    /// Makes what finds devices on the local network; `nil` when the device does not listen, or is not to be found.
    private static func discovery(
        of key: DeviceKey, _ store: Store, _ node: Node, _ options: Device.Options,
        addresses: @escaping @Sendable () -> [NetworkAddress]
    ) throws(KithError) -> LocalDiscovery? {
        guard options.listens, var discovery = options.discovery else { return nil }
        discovery.policy = options.network
        if let interval = options.times.announcements { discovery.interval = max(discovery.interval, interval) }
        return LocalDiscovery(
            key: key, options: discovery, lastNumber: try store.setting(lastAnnouncement).flatMap { UInt64($0) } ?? 0,
            addresses: addresses, isPaired: { store.reception(of: $0, now: Int64(time(nil))) == .paired },
            paired: { store.receivedAsPaired(now: Int64(time(nil))) },
            note: { [weak node] in node?.heard($0) }, logger: options.logger)
    }

    /// Asks ``run()`` to end.
    func stop() { stopping.continuation.yield() }

    /// Closes what was never run.
    func close() async {
        await node.stopServices()
        await endpoint.shutdown()
        node.events?.closeOutbox()
        store.close()
    }

    /// The device's key: the stored one, or a new one in a directory where nothing was ever noted.
    ///
    /// - Throws: `.corrupt` when the key is missing, or another device's: nobody who is paired would know a new one.
    private static func key(of store: Store, _ options: Device.Options) throws(KithError) -> DeviceKey {
        let keys: any KeyStore =
            if let keyStore = options.keyStore {
                keyStore
            } else {
                try FileKeyStore.opening(directory: store.directory, passphrase: options.passphrase)
            }
        let stored = try keys.storedDeviceKey()
        let owner = try store.owner()
        if let stored, owner == nil || owner == stored.id {
            if owner == nil { try store.setOwner(stored.id) }
            try noteAge(of: keys, with: stored, in: store)
            return stored
        }
        guard stored == nil else { throw foreign(store) }
        let isNew = try store.isBlank()
        guard owner == nil, isNew else {
            throw KithError(
                .corrupt,
                "This device's key is missing: \(store.directory) has its database and no identity.sealed. Restore it from "
                    + "a backup; or begin anew in another folder (--data) and pair with every device again.")
        }
        // The key first: a database that has an owner must find it.
        let key = try keys.deviceKey()
        try store.setOwner(key.id)
        try noteAge(of: keys, with: key, in: store)
        return key
    }

    /// Refuses keys that were put back from before the device's last start.
    private static func noteAge(of keys: any KeyStore, with key: DeviceKey, in store: Store) throws(KithError) {
        guard let generation = try keys.generation() else { return }
        try store.noteKeys(generation: generation)
        guard generation == 0 else { return }
        // An older Kith made them. With this change they are counted, from the first on.
        var seed = key.seed
        defer { seed.clear() }
        try keys.store(seed, named: "identity")
        try store.noteKeys(generation: try keys.generation() ?? 0)
    }

    /// The key a device had before, for the database that must still be its own.
    private static func check(_ key: DeviceKey, of store: Store) throws(KithError) -> DeviceKey {
        guard try store.owner() == key.id else { throw foreign(store) }
        return key
    }

    private static func foreign(_ store: Store) -> KithError {
        KithError(
            .corrupt,
            "The key in \(store.directory) belongs to another device than the database there. "
                + "Restore both from one backup.")
    }

    /// Opens the UDP port: the one asked for, the one used last, or any.
    private static func bind(
        _ key: DeviceKey, _ store: Store, _ sessionCache: SealedSessionCache, _ options: Device.Options
    ) async throws -> Endpoint {
        let remembered = sessionCache.take()
        func open(_ port: UInt16) async throws -> Endpoint {
            var endpointOptions = options.endpoint
            endpointOptions.alpn = Endpoint.Options().alpn
            endpointOptions.qlog = try options.qlogDirectory.map(Traces.qlog)
            endpointOptions.keyLog = try options.keyLogFile.map(Traces.keyLog)
            endpointOptions.port = port
            if !options.network.isUnrestricted, endpointOptions.bindAddresses.isEmpty {
                endpointOptions.bindAddresses = Self.places(permittedBy: options.network)
            }
            for index in endpointOptions.bindAddresses.indices where endpointOptions.bindAddresses[index].port == 0 {
                endpointOptions.bindAddresses[index].port = port
            }
            endpointOptions.sessionCache = remembered
            endpointOptions.findsPaths = true
            endpointOptions.idleClosing = options.times.idleConnections
            // While no invitation waits and this device has no certificate, an unpaired peer gets no further than proving
            // a key.
            endpointOptions.admit = { device, address in
                let now = Int64(time(nil))
                switch store.reception(of: device, now: now) {
                case .paired: return .full
                // The node lets each present that one thing, and nothing else.
                case .invited, .enrolled: return .limited
                case .unknown:
                    store.countAttempt(
                        UnpairedAttempt(
                            device: device, address: address, method: "connect",
                            detail: "not paired, and no invitation waits"),
                        now: now)
                    return .refused
                }
            }
            let endpoint = try await Endpoint.bind(key: key, options: endpointOptions, logger: options.logger)
            if options.listens { try store.setSetting("port", String(endpoint.port)) }
            return endpoint
        }
        guard options.listens else { return try await open(0) }
        if let port = options.port { return try await open(port) }
        guard let kept = try store.setting("port").flatMap({ UInt16($0) }) else { return try await open(0) }
        do {
            return try await open(kept)
        } catch let error as KithError where error.code == .conflict {
            // Another process has the last port: devices find us again once we have reached them.
            options.logger.warning("port \(kept) is taken; listening on another")
            return try await open(0)
        }
    }

    /// The addresses of the networks that a device may use; its own loopback's are always among them.
    private static func places(permittedBy policy: NetworkPolicy) -> [NetworkAddress] {
        policy.permitted(NetworkInterface.all).flatMap(\.addresses).filter { !($0.isIPv6 && $0.isLinkLocal) }
    }

    /// The time, in microseconds since 1970.
    private static func microseconds() -> Int64 {
        var time = timespec()
        guard unsafe clock_gettime(CLOCK_REALTIME, &time) == 0 else { return 0 }
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }

    /// Connects the inbox to the store and to the paired devices.
    private static func inboxStorage(of store: Store, node: Node, now: @escaping @Sendable () -> Int64) -> InboxStorage
    {
        InboxStorage(
            setting: { try store.setting($0) }, setSetting: { try store.setSetting($0, $1) },
            peer: { [unowned node] reference in
                let known = try node.resolve(reference)
                guard let device = try store.device(known.id) else {
                    throw KithError(.unpaired, "\(known.name) is not paired with this device any more.")
                }
                return InboxStorage.Peer(id: device.id, name: device.name, pairedAt: device.pairedAt)
            }, now: now)
    }

    /// Connects the forwards to the store and to the paired devices.
    private static func forwardStorage(of store: Store, node: Node) -> ForwardStorage {
        ForwardStorage(
            own: node.id.short, load: { try store.setting("forwards") }, save: { try store.setSetting("forwards", $0) },
            resolve: { [unowned node] reference in
                let known = try node.resolve(reference)
                return (known.id.description, known.name)
            })
    }

    /// Connects the screen's rules to the store; own devices are those under this one's root.
    private static func screenStorage(of store: Store, now: @escaping @Sendable () -> Int64) -> ScreenService.Storage {
        ScreenService.Storage(
            load: { try store.setting("screen rules") }, save: { try store.setSetting("screen rules", $0) },
            isOwn: { id in
                // One that cannot be read is treated as anybody's.
                ((try? store.device(id)) ?? nil)?.certifiedUntil.map { $0 > now() } ?? false
            })
    }

    /// The name this device is to call itself, as it is stored.
    private static func ownName(_ wanted: String, of id: DeviceID) throws(KithError) -> String {
        guard wanted.contains(where: { $0.isLetter || $0.isNumber }) else {
            throw KithError(.invalid, "A name has 1 to 63 letters, digits, hyphens, underscores or dots.")
        }
        let name = DeviceName.plain(wanted)
        if DeviceName.conflict(of: DeviceName.Look(name: name, id: id), among: []) == .reserved {
            throw KithError(
                .invalid, "\(name) cannot be this device's name: it says something else. Choose another.")
        }
        return name
    }

    private static func hostName() -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&buffer, buffer.count - 1) == 0 else { return "device" }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return DeviceName.plain(String(name.prefix { $0 != "." }))
    }
}
