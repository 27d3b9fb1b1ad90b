public import KithAPI
public import KithIdentity
import KithFiles
import KithForward
import KithNet
import KithNode
import KithShell
import KithSocket
import KithStore
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

/// The version of this software.
public let kithVersion = "0.1.0"

/// A whole device: a data directory in, a running member of a private network out.
///
/// ```swift
/// let device = try await Device.open(directory: "/var/lib/ana")
/// try await device.whileRunning {
///     let entries = try await device.client.call(Files.List.self, .init(path: "/srv"), on: "laptop")
/// }
/// ```
///
/// Any number of devices live in one process, each with a directory of its own. ``run()`` holds a device up;
/// cancelling it stops hard, ``beginGracefulShutdown()`` softly.
public final class Device: Sendable {
    /// How a device is opened.
    public struct Options: Sendable {
        /// What it calls itself when it pairs; kept.
        ///
        /// `nil`: the name kept, at first the host's.
        public var name: String?
        /// The UDP port; kept.
        ///
        /// `nil`: the port kept, at first any.
        public var port: UInt16?
        /// Whether it takes connections of other devices and of local clients (the socket in its directory).
        ///
        /// Without, it only calls others, from a port of its own choice.
        public var listens = true
        /// Where the identity is kept.
        ///
        /// `nil`: a file in the directory, sealed as ``passphrase`` says.
        public var keyStore: (any KeyStore)?
        /// What seals the identity's file.
        ///
        /// `nil`: a key of the machine, beside it.
        public var passphrase: SecretBytes?
        /// The folder that gets a qlog file of every connection, `ID_client.sqlog` or `ID_server.sqlog`; `nil` costs nothing.
        ///
        /// They say who talked when and how much, not what. Meant for finding faults: each record is written at once.
        public var qlogDirectory: String?
        /// The file that the TLS secrets of every connection are appended to, as `SSLKEYLOGFILE`.
        ///
        /// Dangerous: whoever has it can read everything that was sent, and speak in this device's name as long as a
        /// connection lasts.
        public var keyLogFile: String?
        /// Where it says what happens; never a secret.
        public var logger = Logger(label: "kith", factory: { _ in SwiftLogNoOpLogHandler() })

        /// The defaults.
        public init() {}
    }

    /// Who it is.
    public let id: DeviceID
    /// What it calls itself.
    public let name: String
    /// Calls methods as the device's own person: here, and on the devices it is paired with.
    public var client: Client { node.client }
    /// Where it listens.
    public var addresses: [NetworkAddress] { endpoint.localAddresses }

    private let node: Node
    private let store: Store
    private let endpoint: Endpoint
    private let memory: SealedMemory
    private let socket: SocketServer?
    private let pairing: PairingService
    private let forwards: ForwardService
    private let logger: Logger
    private let stopping = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// Opens a data directory, making it and the device's key when they are not there, and opens its sockets.
    ///
    /// - Throws: `KithError` `.conflict` when another process uses the directory or the port, `.denied` when the key
    ///   does not open, `.corrupt` when a file is damaged; nothing is overwritten then.
    public static func open(directory: String, options: Options = Options()) async throws -> Device {
        let store = try Store.open(directory: directory, logger: options.logger)
        do {
            return try await Device(store: store, options: options)
        } catch {
            store.close()
            throw error
        }
    }

    private init(store: Store, options: Options) async throws {
        let keys =
            options.keyStore
            ?? FileKeyStore(
                directory: store.directory,
                seal: options.passphrase.map { .passphrase($0) } ?? .machineKey)
        let key = try Self.key(in: keys, of: store)
        id = key.id
        self.store = store
        logger = options.logger

        if let name = options.name { try store.setSetting("name", Self.ownName(name, of: key.id)) }
        name = try store.setting("name") ?? Self.hostName()

        memory = SealedMemory(key: key, store: store, logger: options.logger)
        let endpoint = try await Self.bind(key, store, memory, options)
        self.endpoint = endpoint
        let protection = try ProtectedFiles(directory: store.directory)
        let node = Node(id: key.id, store: store, protection: protection, logger: options.logger)
        self.node = node

        let ownName = name
        let now: @Sendable () -> Int64 = { Int64(time(nil)) }
        try node.add(DevicesService(node: node, store: store, now: now))
        pairing = PairingService(
            node: node, store: store, name: { ownName }, addresses: { endpoint.localAddresses }, now: now)
        try node.add(pairing)
        try node.add(ShellService(logger: options.logger))
        try node.add(FilesService(logger: options.logger))
        forwards = ForwardService(memory: Self.forwardMemory(of: store, node: node), logger: options.logger)
        try node.add(forwards)
        forwards.restore(client: node.client)
        try node.add(InboxService(Self.inboxMemory(of: store, node: node, now: now), logger: options.logger))
        socket =
            options.listens
            ? try SocketServer(directory: store.directory, dispatcher: node, logger: options.logger) : nil
        if let socket {
            for place in socket.places { try protection.protect(place) }
        }
        try node.add(
            ReachService(
                node: node, store: store, version: kithVersion, listens: options.listens,
                addresses: { endpoint.localAddresses }, now: { Self.milliseconds() }))
        try node.add(LoadService(node: node))
        let stop = stopping.continuation
        try node.add(
            ThisDeviceService(
                status: {
                    ThisDevice.Status.Output(
                        name: ownName, id: key.id, addresses: endpoint.localAddresses,
                        ticket: Ticket(id: key.id, addresses: endpoint.localAddresses).text, version: kithVersion,
                        pid: getpid(), devices: try store.devices().count)
                },
                stop: { stop.yield() }))
    }

    /// The device's key: the stored one, or a new one in a directory where nothing was ever noted.
    ///
    /// - Throws: `.corrupt` when the key is missing, or another device's: nobody who is paired would know a new one.
    private static func key(in keys: any KeyStore, of store: Store) throws(KithError) -> DeviceKey {
        let stored = try keys.storedDeviceKey()
        let owner = try store.owner()
        if let stored, owner == nil || owner == stored.id {
            if owner == nil { try store.setOwner(stored.id) }
            return stored
        }
        guard stored == nil else {
            throw KithError(
                .corrupt,
                "The key in \(store.directory) belongs to another device than the database there. "
                    + "Restore both from one backup.")
        }
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
        return key
    }

    /// Opens the UDP port: the one asked for, the one used last, or any.
    private static func bind(
        _ key: DeviceKey, _ store: Store, _ memory: SealedMemory, _ options: Options
    ) async throws -> Endpoint {
        let remembered = memory.take()
        func open(_ port: UInt16) async throws -> Endpoint {
            var endpointOptions = Endpoint.Options()
            endpointOptions.qlog = try options.qlogDirectory.map(Traces.qlog)
            endpointOptions.keyLog = try options.keyLogFile.map(Traces.keyLog)
            endpointOptions.port = port
            endpointOptions.memory = remembered
            // Nobody gets further than proving a key where nothing waits for it.
            endpointOptions.admit = { device, address in
                let now = Int64(time(nil))
                switch store.reception(of: device, now: now) {
                case .paired: return .full
                case .invited: return .limited
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
            // Somebody else has the port of last time: devices find us again once we have reached them.
            options.logger.warning("port \(kept) is taken; listening on another")
            return try await open(0)
        }
    }

    /// Holds the device up until it is told to stop or the task is cancelled, then closes everything.
    ///
    /// Call it once. Afterwards the directory is free for another process.
    public func run() async throws {
        defer { store.close() }
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await self.node.serve(self.endpoint, isListening: self.socket != nil) }
                if let socket {
                    forwards.runRestored()
                    group.addTask { try await socket.run() }
                }
                group.addTask {
                    for await _ in self.stopping.stream { break }
                    self.pairing.close()
                    self.node.beginGracefulShutdown()
                    self.socket?.beginGracefulShutdown()
                }
                defer { group.cancelAll() }
                try await group.waitForAll()
            }
        } catch {
            await endpoint.shutdown()
            memory.keep(await endpoint.takeMemory())
            throw error
        }
        await endpoint.shutdown(grace: .milliseconds(500))
        memory.keep(await endpoint.takeMemory())
    }

    /// Asks the device to stop: nothing new is taken, what runs may finish for five seconds, then ``run()`` returns.
    public func beginGracefulShutdown() { stopping.continuation.yield() }

    /// Runs `body` while the device is up, then stops it.
    public func whileRunning<Result>(_ body: () async throws -> Result) async throws -> Result {
        // The task may begin late, and the body call another device first thing.
        node.call(through: endpoint)
        let running = Task(name: "kith device") { try await self.run() }
        let result: Swift.Result<Result, any Error>
        do {
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        running.cancel()
        _ = await running.result
        return try result.get()
    }

    /// Whether a data directory is a device's: holds its key, or its database; looks and makes nothing.
    public static func exists(directory: String) -> Bool { DataDirectory.isOfWholeDevice(directory) }

    /// Makes a data directory when it is not there, for its owner alone.
    ///
    /// - Throws: `KithError` `.invalid` for a folder that holds other things, `.denied` for one that others may look
    ///   into. Its mode is not changed, whatever it is.
    public static func prepare(directory: String) throws(KithError) { try DataDirectory.prepare(directory) }

    /// Refuses what ``prepare(directory:)`` would; makes nothing.
    public static func check(directory: String) throws(KithError) { try DataDirectory.check(directory) }

    /// The process that has a data directory open now, if any does.
    public static func isRunning(directory: String) -> Bool { Store.holder(of: directory) != nil }

    /// Where a person's device keeps its state unless told otherwise: the platform's place for application data.
    public static func defaultDirectory(environment: [String: String]) -> String {
        let home = environment["HOME"] ?? "/"
        #if canImport(Darwin)
        return home + "/Library/Application Support/Kith"
        #else
        let base = environment["XDG_DATA_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home + "/.local/share"
        return base + "/kith"
        #endif
    }

    /// The time, in milliseconds since 1970.
    private static func milliseconds() -> Int64 {
        var time = timespec()
        guard unsafe clock_gettime(CLOCK_REALTIME, &time) == 0 else { return 0 }
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// What the inbox keeps, and whom it knows.
    private static func inboxMemory(of store: Store, node: Node, now: @escaping @Sendable () -> Int64) -> InboxMemory {
        InboxMemory(
            setting: { try store.setting($0) }, setSetting: { try store.setSetting($0, $1) },
            peer: { [unowned node] reference in
                let known = try node.resolve(reference)
                guard let device = try store.device(known.id) else {
                    throw KithError(.unpaired, "\(known.name) is not paired with this device any more.")
                }
                return InboxMemory.Peer(id: device.id, name: device.name, pairedAt: device.pairedAt)
            }, now: now)
    }

    /// What the forwards keep, and whom they know.
    private static func forwardMemory(of store: Store, node: Node) -> ForwardMemory {
        ForwardMemory(
            own: node.id.short, load: { try store.setting("forwards") }, save: { try store.setSetting("forwards", $0) },
            resolve: { [unowned node] reference in
                let known = try node.resolve(reference)
                return (known.id.description, known.name)
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
