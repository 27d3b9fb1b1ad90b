public import KithAPI
public import KithIdentity
public import KithNet
public import KithNode
public import KithReach
import KithStore
public import KithWire
public import Logging
import Synchronization

/// The version of this software.
public let kithVersion = "0.1.0"

/// A whole device: a data directory in, a running member of a private network out.
///
/// ```swift
/// let device = try await Device.open(directory: "/var/lib/ana")
/// try await device.whileRunning {
///     let entries = try await device.client.call(Files.List.self, .init(path: "/srv"), on: "laptop")
///     print(entries)
/// }
/// ```
///
/// Any number of devices live in one process, each with a directory of its own. ``run()`` holds a device up;
/// cancelling it stops hard, ``beginGracefulShutdown()`` softly. It can be run again.
///
/// Its abilities are a set of services: ours, chosen by ``Options/services``, and an application's own, added there or
/// with ``add(_:)`` at any time.
public final class Device: Sendable {
    /// The options for opening a device.
    public struct Options: Sendable {
        /// The name it gives itself when it pairs; kept.
        ///
        /// `nil`: the name kept, at first the host's.
        public var name: String?
        /// The UDP port; kept.
        ///
        /// `nil`: the port kept, at first any.
        public var port: UInt16?
        /// True to accept connections of other devices and of local clients (the socket in its directory).
        ///
        /// Otherwise it only calls others, from a port the system chooses.
        public var listens = true
        /// True to let other commands of this user use the device of a command, which does not listen.
        ///
        /// They find it at a socket of its own in the data directory; a command that needs a device which stays does not
        /// look there.
        package var servesCommands = false
        /// The TCP port at which it accepts local clients as well, on 127.0.0.1 and ::1; 0 is any that is free.
        ///
        /// `nil` turns that off. A client needs the token in `api.json` of the directory (`KithSocket/APIEndpoint`), and
        /// is then the device's own person, as at the socket. It goes with ``listens``.
        public var apiPort: UInt16?
        /// The store of the identity.
        ///
        /// `nil`: a file in the directory, sealed as ``passphrase`` says.
        public var keyStore: (any KeyStore)?
        /// The passphrase that seals the identity's file.
        ///
        /// `nil`: a key of the desktop's keyring where that seals it (`kith passphrase keyring`), else one of the machine,
        /// beside the file.
        public var passphrase: SecretBytes?
        /// The folder that gets a qlog file of every connection, `ID_client.sqlog` or `ID_server.sqlog`; `nil` costs nothing.
        ///
        /// They show who communicated when and how much, not the content. For debugging: each record is written at once.
        public var qlogDirectory: String?
        /// The file that the TLS secrets of every connection are appended to, as `SSLKEYLOGFILE`.
        ///
        /// Dangerous: whoever has it can read everything that was sent, and speak in this device's name as long as a
        /// connection lasts.
        public var keyLogFile: String?
        /// The shell that others get here, absolute; `nil`: the one of the account.
        public var shell: String?
        /// The variables that others may set in shells here, beside those of language, time zone and colours; a `*` at the
        /// end of a name stands for anything.
        ///
        /// Whoever may run one command alone (`shell:command=`) sets none. A variable can be as good as a command
        /// (`LD_PRELOAD`).
        public var acceptedEnvironment: [String] = []
        /// The screen it shows: `auto` is the X server that `DISPLAY` names, or the only one of the machine; `x11::0` that
        /// one; `vnc://localhost:5901` that of a VNC server; `none`.
        public var screen = "auto"
        /// The file whose first line is the VNC server's password, read whenever the screen is opened; `nil`: it asks for none.
        public var screenPasswordFile: String?
        /// The services it offers: ours, chosen, and an application's own.
        public var services = Services()
        /// The limits of its node.
        public var node = Node.Options()
        /// The options for listening and dialing.
        ///
        /// The device itself decides, whatever these say: the port (except that of an address to listen at, where it is
        /// not 0), the application protocol, who is admitted, what is remembered of peers, and both logs.
        public var endpoint = Endpoint.Options()
        /// The finding of paired devices on the local network; `nil` turns it off, and so does ``listens``.
        ///
        /// Whoever is on the network learns this device's key and addresses from its announcements.
        public var discovery: LocalDiscovery.Options?
        /// Addresses at which paired devices are looked for first, by their names here or their DeviceIDs.
        public var peerAddresses: [String: [NetworkAddress]] = [:]
        /// Hosts at which they are looked for, likewise; looked up each time a device is dialed.
        public var peerHosts: [String: [HostAndPort]] = [:]
        /// The relays at which it is to be found, the preferred first; kept.
        ///
        /// `nil`: those kept, or those of the invitation it was paired by. A relay learns who meets whom and when, never
        /// what they say.
        public var relays: [RelayAddress]?
        /// The token that relays want; kept with ``relays``.
        public var relayToken: String?
        /// The directories that know where devices are, and are told at which relays this one is; kept.
        ///
        /// `nil`: those kept, at first none. A directory learns the addresses of those who ask it, and for whom.
        public var directories: [DirectoryAddress]?
        /// Publishes this device's addresses outside in them as well; kept.
        ///
        /// `nil`: as kept, at first false. Whoever knows the device's key can ask for them, and so learns where it is.
        public var publishesAddresses: Bool?
        /// A relay that runs in this process, beside the device.
        package var hostedRelay: HostedRelay?
        /// The HTTP proxy by which relays are reached; kept.
        ///
        /// `nil`: the one kept, or as the environment says (`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`).
        public var proxy: ProxyChoice?
        /// Has the router pass its port on, where it is to be found at relays: by PCP, NAT-PMP or UPnP.
        public var mapsPort = false
        /// Saves a phone's battery: while nobody uses it, it keeps one link to one relay, with a ping each 60 to 240 s,
        /// and sends hardly anything else.
        ///
        /// It has no standby relay, maps no port, closes connections two minutes after their last use, and announces
        /// itself on the local network three times an hour. Others reach it as ever, through its relay first. Default:
        /// true on iOS, false elsewhere.
        public var savesPower = Options.platformSavesPower
        /// The networks it uses.
        ///
        /// Where they are restricted, it listens at the addresses it has there when it starts, unless
        /// ``endpoint`` has addresses.
        public var network = NetworkPolicy()
        /// The interceptors of its node's calls, the first outermost.
        public var interceptors: [any CallInterceptor] = []
        /// The logger for what happens; it never receives a secret.
        public var logger = Logger(label: "kith", factory: { _ in SwiftLogNoOpLogHandler() })

        /// The defaults.
        public init() {}
    }

    /// A relay that runs in the process of a device, for that device and those it is paired with.
    package struct HostedRelay: Hashable, Sendable {
        /// The name or address at which others reach it.
        package var host: String
        /// The TCP port at which others reach it.
        package var port: UInt16
        /// The address at which it listens.
        package var listen: NetworkAddress

        /// Describes a relay.
        package init(host: String, port: UInt16, listen: NetworkAddress) {
            (self.host, self.port, self.listen) = (host, port, listen)
        }
    }

    /// The key of the relay in this process.
    package var relayKey: DeviceKey {
        get throws(KithError) { try DeviceParts.relayKey(of: key) }
    }

    /// Decides who may use the relay in this process: paired devices, and whoever an invitation waits for as a guest.
    package func relayAccess(of device: DeviceID) -> RelayAccess.Decision {
        parts?.relayAccess(of: device) ?? .deny("this device is not up")
    }

    /// The services of a device.
    ///
    /// The basic ones are always there: devices and their grants, pairing, being found, and the device's own
    /// description.
    public struct Services: Sendable {
        /// True to open shells: the methods of `Shell`.
        public var shell = true
        /// True to list, read, write and copy files: the methods of `Files`.
        public var files = true
        /// True to forward connections: the methods of `Forward`.
        public var forward = true
        /// True to accept offers of files to its person: the methods of `Inbox`.
        public var inbox = true
        /// True to keep a library of files and search it: the methods of `Locations`, `Search` and `Tags`.
        public var library = true
        /// True to show the screen to devices with a `screen` grant: the methods of `Screen`.
        public var screen = true
        /// The application's own.
        public var own: [any Service]

        /// All of ours, and those in `own`.
        public init(own: [any Service] = []) { self.own = own }

        /// None of ours, and those in `own`.
        public static func only(_ own: [any Service]) -> Services {
            var services = Services(own: own)
            (services.shell, services.files, services.forward) = (false, false, false)
            (services.inbox, services.library, services.screen) = (false, false, false)
            return services
        }
    }

    /// Its identifier, which is its key.
    public let id: DeviceID
    /// The name it gives itself.
    public let name: String
    /// Calls methods as the device's own person: here, and on the devices it is paired with.
    ///
    /// One client serves every ``run()``; between two of them its calls fail.
    public var client: Client { Client(DeviceCarrier(device: self)) }
    /// The addresses it listens on, or listened on last.
    public var addresses: [NetworkAddress] {
        state.withLock { state in state.parts.map { $0.endpoint.localAddresses } ?? state.lastAddresses }
    }

    /// The addresses at which it accepts local clients over TCP; empty when ``Options/apiPort`` is off, or it is not open.
    public var apiAddresses: [String] { parts?.apiAddresses ?? [] }

    /// Its topics: they outlast a stop, with all subscriptions and retained events.
    public let events: EventHub?

    private let options: Options
    private let key: DeviceKey
    private let directory: String
    private let state: Mutex<State>

    private struct State {
        /// What is open; `nil` after the end, when nothing is.
        var parts: DeviceParts?
        /// Its node, or after the end the one it had: it knows the services.
        var node: Node
        /// The addresses it listened on last.
        var lastAddresses: [NetworkAddress] = []
        var phase = Phase.open
        /// The application's own, in the order in which they were added.
        var own: [OwnService] = []
    }

    private struct OwnService {
        let id = ServiceID()
        let service: any Service
        let handlers: [Handler]

        init(_ service: any Service) {
            self.service = service
            handlers = service.handlers
        }
    }

    private enum Phase {
        /// Everything is open and waits to be run.
        case open
        /// It is being opened to be run again; it may be told to stop before it is.
        case opening(isStopping: Bool)
        /// It runs.
        case running
        /// Everything is closed.
        case ended
    }

    /// Opens a data directory, making it and the device's key when they are not there, and opens its sockets.
    ///
    /// - Throws: `KithError` `.conflict` when another process uses the directory or the port, or two services have a
    ///   method of one name, `.denied` when the key does not open, `.corrupt` when a file is damaged; nothing is
    ///   overwritten then.
    public static func open(directory: String, options: Options = Options()) async throws -> Device {
        let parts = try await DeviceParts.open(directory: directory, options: options)
        do {
            return try Device(parts, options)
        } catch {
            await parts.close()
            throw error
        }
    }

    private init(_ parts: DeviceParts, _ options: Options) throws {
        id = parts.key.id
        name = parts.name
        key = parts.key
        events = parts.node.events
        directory = parts.store.directory
        // From now on it has its key, its name and its services.
        var kept = options
        (kept.keyStore, kept.passphrase, kept.name, kept.services.own) = (nil, nil, nil, [])
        self.options = kept
        var state = State(parts: parts, node: parts.node)
        for service in options.services.own { try Self.add(OwnService(service), to: &state) }
        self.state = Mutex(state)
        node.startServices()
    }

    fileprivate var node: Node { state.withLock { $0.node } }

    /// What it has open; `nil` after the end.
    var parts: DeviceParts? { state.withLock { $0.parts } }

    // MARK: - Services

    /// Begins to serve the methods of `service`, to this device's person and, as each says, to other devices, and starts
    /// it; calls wait until it has started.
    ///
    /// May be called at any time: a running device serves them from now on, another one as soon as it runs.
    ///
    /// - Returns: the identifier for ``remove(_:)``.
    /// - Throws: `KithError` `.conflict` when its path or one of its methods is there already; nothing is added then.
    @discardableResult public func add(_ service: any Service) throws -> ServiceID {
        let own = OwnService(service)
        let node = try state.withLock { state throws in
            try Self.add(own, to: &state)
            return state.node
        }
        // Not before: a service that starts may ask for anything of this device.
        node.startServices()
        return own.id
    }

    private static func add(_ own: OwnService, to state: inout State) throws {
        try state.node.add(own.service, with: own.handlers, as: own.id, startsAtOnce: false)
        state.own.append(own)
    }

    /// Stops serving the methods of a service that was added, ends those of its calls that run, and stops it.
    ///
    /// Returns when it is stopped; its calls have `KithNode/Node/Options/drain` to end. Does nothing if
    /// it is not there any more.
    public func remove(_ id: ServiceID) async {
        let node = state.withLock { state in
            state.own.removeAll { $0.id == id }
            return state.node
        }
        await node.remove(id)
    }

    /// Calls the query or the action at a path, as `Client/request(_:_:from:as:options:)`.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider = .any, as type: Output.Type = Output.self,
        options: CallOptions = CallOptions()
    ) async throws -> Output {
        try await client.request(path, input, from: provider, as: type, options: options)
    }

    /// Calls the query or the action at a path, which needs no input.
    public func request<Output: Codable & Sendable>(
        _ path: String, from provider: Provider = .any, as type: Output.Type = Output.self,
        options: CallOptions = CallOptions()
    ) async throws -> Output {
        try await client.request(path, from: provider, as: type, options: options)
    }

    /// Opens the stream at a path, as `Client/open(_:_:from:options:)`.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider = .any, options: CallOptions = CallOptions()
    ) async throws -> ValueStream<Incoming, Outgoing> {
        try await client.open(path, input, from: provider, options: options)
    }

    /// Sets the way in which requests to the paths of a pattern find their provider, as
    /// `KithNode/Node/setPolicy(_:for:)`, until it stops.
    public func setPolicy(_ policy: RequestPolicy?, for pattern: String) throws {
        try node.setPolicy(policy, for: pattern)
    }

    /// Waits until this device or a connected one serves a path.
    public func waitUntilServed(_ path: String) async throws { try await node.waitUntilServed(path) }

    /// The services that connected devices have announced to this one.
    public var announcedServices: [Registry.Service] { node.announcedServices }

    /// The paired devices that are connected, then each that comes or goes, until this device stops.
    public func peerChanges() -> AsyncStream<Registry.Peer> { node.peerChanges() }

    /// Returns the state of the service at a path, as `math`; `nil` when there is none.
    public func state(of path: String) -> ServiceState? { node.state(of: path) }

    /// Has a service answer nothing until it is resumed, as `KithNode/Node/pause(_:)`.
    public func pause(_ path: String) throws { try node.pause(path) }

    /// Has a paused service answer again, as `KithNode/Node/resume(_:)`.
    public func resume(_ path: String) throws { try node.resume(path) }

    // MARK: - Running

    /// Holds the device up until it is told to stop or the task is cancelled, then closes everything.
    ///
    /// Afterwards the directory is free for another process. Running again opens it anew, with the same key and the
    /// services that are there, ours from their beginning.
    ///
    /// - Throws: `KithError` `.conflict` while it runs already; when run again, also as ``open(directory:options:)``.
    public func run() async throws { try await run(begin()) }

    /// Runs it; calls `started` as soon as it is up, and then reaches `peers`.
    package func run(reaching peers: Set<DeviceID> = [], started: () -> Void) async throws {
        let parts = try await begin()
        started()
        try await run(parts, reaching: peers)
    }

    private func run(_ parts: DeviceParts, reaching peers: Set<DeviceID> = []) async throws {
        defer {
            // Nothing that was open stays: no socket, no thread, no task.
            state.withLock { state in
                state.phase = .ended
                state.lastAddresses = parts.endpoint.localAddresses
                state.parts = nil
            }
        }
        events?.wake()
        defer { events?.sleep() }
        try await parts.run(reaching: peers)
    }

    /// Takes what is open, or opens it again.
    private func begin() async throws -> DeviceParts {
        let ready = try state.withLock { state throws -> DeviceParts? in
            switch state.phase {
            case .opening, .running: throw KithError(.conflict, "The device \(name) runs already.")
            case .open:
                guard let parts = state.parts else { preconditionFailure("what is open has parts") }
                state.phase = .running
                return parts
            case .ended:
                state.phase = .opening(isStopping: false)
                return nil
            }
        }
        if let ready { return ready }
        do {
            let parts = try await DeviceParts.open(
                directory: directory, options: options, as: key, events: events)
            do {
                try state.withLock { state in
                    for own in state.own {
                        try parts.node.add(own.service, with: own.handlers, as: own.id, startsAtOnce: false)
                    }
                    if case .opening(isStopping: true) = state.phase { parts.stop() }
                    state.parts = parts
                    state.node = parts.node
                    state.phase = .running
                }
                parts.node.startServices()
            } catch {
                await parts.close()
                throw error
            }
            return parts
        } catch {
            state.withLock { $0.phase = .ended }
            throw error
        }
    }

    /// Asks the device to stop: it takes no new calls, gives running ones five seconds, then ``run()`` returns.
    ///
    /// One that is open, or being opened, and not yet run stops as soon as it is.
    public func beginGracefulShutdown() {
        state.withLock { state in
            switch state.phase {
            case .open, .running: state.parts?.stop()
            case .opening: state.phase = .opening(isStopping: true)
            case .ended: break
            }
        }
    }

    // MARK: - Lifecycle

    /// The paired devices a connection stands with.
    public var onlineDevices: Set<DeviceID> { node.onlineDevices }

    /// Lets go of memory that can be had again: what other devices described of their methods, and what the database
    /// has read.
    public func shrinkCaches() { parts?.shrinkCaches() }

    /// Announces the device rarely, because nobody looks at it, or as often as ever.
    func reduceActivity(_ isReduced: Bool) { parts?.discovery?.reduce(isReduced) }

    /// Notes that no network leads to other machines, or that one does again.
    ///
    /// A device finds that out by itself on Linux. While none does, calls of other devices fail at once with
    /// `.unreachable`; then this one is announced again, and the devices that were connected are reached at once.
    public func networkChanged(isReachable: Bool) {
        parts?.networkChanged(isReachable: isReachable)
    }

    /// The time that other commands have to end which use the device of one that is done.
    private static let commandPatience = Duration.seconds(2)

    /// Runs `body` while the device is up, then stops it; other commands that use it are given two seconds to end.
    ///
    /// - Throws: what `body` throws; as ``run()`` when the device cannot be run.
    public func whileRunning<Result>(_ body: () async throws -> Result) async throws -> Result {
        let parts = try await begin()
        let running = Task(name: "kith device") { try await self.run(parts) }
        let result: Swift.Result<Result, any Error>
        do {
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        await parts.endCommands(within: Self.commandPatience)
        running.cancel()
        _ = await running.result
        return try result.get()
    }

    /// Tells whether a data directory is a device's: whether it holds a key, or a database.
    ///
    /// Changes nothing.
    public static func exists(directory: String) -> Bool { DataDirectory.isOfWholeDevice(directory) }

    /// Makes a data directory when it is not there, for its owner alone.
    ///
    /// - Throws: `KithError` `.invalid` for a folder that holds other things, `.denied` for one that others may look
    ///   into. Its mode is not changed, whatever it is.
    public static func prepare(directory: String) throws(KithError) { try DataDirectory.prepare(directory) }

    /// Refuses what ``prepare(directory:)`` would; makes nothing.
    public static func check(directory: String) throws(KithError) { try DataDirectory.check(directory) }

    /// Tells whether a process has a data directory open now.
    public static func isRunning(directory: String) -> Bool { Store.holder(of: directory) != nil }

    /// Returns the directory of a person's device unless told otherwise: the platform's place for application data.
    public static func defaultDirectory(environment: [String: String]) -> String {
        let home = environment["HOME"] ?? "/"
        #if canImport(Darwin)
        return home + "/Library/Application Support/Kith"
        #else
        let base = environment["XDG_DATA_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home + "/.local/share"
        return base + "/kith"
        #endif
    }
}

extension Device: EventSpace {}

/// Calls through the node that a device has at that moment.
private struct DeviceCarrier: Carrier {
    let device: Device

    func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        try await self.device.node.call(method, input, on: device, options: options)
    }

    func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        try await self.device.node.open(method, input, on: device, options: options)
    }

    func call(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws -> [UInt8] {
        try await self.device.node.call(named: name, json: json, on: device, options: options)
    }

    func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        try await self.device.node.open(named: name, json: json, on: device, options: options)
    }

    func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        try await device.node.request(path, input, from: provider, as: type, options: options)
    }

    func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        try await device.node.open(path: path, input, from: provider, options: options)
    }

    func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        try await self.device.node.begin(method, input, on: device, options: options)
    }
}
