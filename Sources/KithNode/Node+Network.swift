public import KithAPI
public import KithIdentity
public import KithNet
import KithReach
public import KithStore
public import KithWire
public import Logging

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

extension Node {
    /// Makes the node of the device `id`, whose paired devices and audit log are in `store`.
    ///
    /// `methods` are those it passes on to other devices without serving them itself. `protection`: what no other
    /// device reaches, which is the store's directory at the least. `interceptors` stand around its calls, the first
    /// outermost. `events`: the topics of a node of the same device that was stopped; else new ones. `now` is the time in
    /// seconds since 1970, by which certificates end; as a rule the system's.
    public convenience init(
        id: DeviceID, store: Store, protection: ProtectedFiles? = nil, methods: [AnyMethod] = [],
        interceptors: [any CallInterceptor] = [], options: Options = Options(), events: EventHub? = nil,
        now: (@Sendable () -> Int64)? = nil, logger: Logger
    ) {
        self.init(
            id: id, directory: StoreDirectory(store: store, wallClock: now ?? { StoreDirectory.now }),
            protection: protection, methods: methods,
            interceptors: interceptors, options: options, events: events, logger: logger)
        hub.use(Outbox(store, own: id, logger: logger))
    }

    /// Makes calls to other devices through `endpoint`, whether or not its connections are served yet.
    public func call(through endpoint: Endpoint) { call(through: endpoint, by: nil) }

    /// As ``call(through:)``; devices that their addresses do not reach are called through the relays that `reach` knows.
    package func call(through endpoint: Endpoint, by reach: DeviceReach?) {
        dialer = EndpointDialer(endpoint: endpoint, reach: reach)
    }

    /// Serves every connection of `endpoint`, and makes calls to other devices through it.
    ///
    /// With `isListening`, paired devices are told the addresses this one listens on, and again whenever they change.
    /// Returns when the endpoint shuts down, after a graceful shutdown, or when the task is cancelled, which ends every
    /// call at once. The endpoint stays open: its owner closes it.
    public func serve(_ endpoint: Endpoint, isListening: Bool = true) async {
        let addresses: @Sendable () -> [NetworkAddress] = { endpoint.localAddresses }
        await serve(endpoint, announcing: isListening ? addresses : nil)
    }

    /// Serves every connection of `endpoint`, and tells paired devices what `addresses` returns; `nil` tells them none.
    public func serve(_ endpoint: Endpoint, announcing addresses: (@Sendable () -> [NetworkAddress])?) async {
        await serve(endpoint, announcing: addresses, by: nil)
    }

    /// As ``serve(_:announcing:)``, and reaches devices through the relays that `reach` knows.
    package func serve(
        _ endpoint: Endpoint, announcing addresses: (@Sendable () -> [NetworkAddress])?, by reach: DeviceReach?
    ) async {
        dialer = EndpointDialer(endpoint: endpoint, reach: reach)
        defer { dialer = nil }
        announcement = addresses
        defer { announcement = nil }
        followsServices = addresses != nil
        await serve { accept in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    for await _ in endpoint.localAddressChanges { self.announceEverywhere() }
                }
                for await connection in endpoint.established {
                    guard let link = ConnectionLink(connection, reach) else {
                        connection.close(code: .unpaired, reason: "Only devices with a key of this network are served.")
                        continue
                    }
                    accept(link)
                }
                group.cancelAll()
            }
        }
    }
}

/// A QUIC connection as the node sees it.
private final class ConnectionLink: PeerLink {
    private let connection: Connection
    private let reach: DeviceReach?
    let peer: DeviceID
    private let incoming: Incoming

    /// Only the one task that asks for streams touches it.
    private final class Incoming: @unchecked Sendable {  // `nextStream` says so
        var iterator: Connection.IncomingStreams.AsyncIterator
        init(_ streams: Connection.IncomingStreams) { iterator = streams.makeAsyncIterator() }
    }

    init?(_ connection: Connection, _ reach: DeviceReach?) {
        guard let peer = connection.peerID else { return nil }
        self.reach = reach
        self.connection = connection
        self.peer = peer
        incoming = Incoming(connection.incomingStreams)
    }

    var address: NetworkAddress? { connection.firstAddress }
    var isDialed: Bool { connection.isDialed }
    func liftLimits() { connection.liftLimits() }
    func watch(closely: Bool) { connection.watch(closely: closely) }
    func silence(_ body: @escaping @Sendable (Duration) -> Void) { connection.silence(body) }
    var isOpen: Bool { connection.isOpen }
    func openStream() async throws -> any ByteStream { try await connection.openStream() }
    func openStreamNow() -> (any ByteStream)? { connection.openStreamNow() }
    func isUndelivered(_ stream: any ByteStream) -> Bool { (stream as? QUICStream)?.isUndelivered ?? false }
    func isInBackground(_ stream: any ByteStream) { (stream as? QUICStream)?.isInBackground() }
    func handshakeCompleted() async -> Bool { await connection.handshakeCompleted() }
    func isEarly(_ stream: any ByteStream) -> Bool { (stream as? QUICStream)?.isEarly ?? false }
    var executor: (any TaskExecutor)? { connection.executor }
    func explainFailures(by explainer: @escaping @Sendable (UInt64, KithError) async -> Void) {
        connection.explainFailures(by: explainer)
    }
    func explain(_ stream: UInt64, _ error: KithError) { connection.explain(stream, error) }
    func nextStream() async -> (any ByteStream)? { await incoming.iterator.next() }
    var pathChanges: AsyncStream<Void> { connection.pathChanges }
    func close(_ code: KithError.Code, reason: String) { connection.close(code: code, reason: reason) }
    func closeReason() async -> CloseReason? { await connection.closed() }
    func drain(_ limit: Duration) async { await connection.drain(deadline: limit) }

    func status() async -> LinkStatus? {
        let statistics = await connection.statistics()
        func url(of relay: UInt32) -> String { reach?.url(of: relay) ?? "relay \(relay)" }
        let number = statistics.paths.first { $0.isActive }?.relay
        var status = LinkStatus(
            address: statistics.remoteAddress, roundTrip: statistics.roundTrip, quiet: statistics.quiet,
            statistics: statistics, relay: number.map(url),
            relayCarrier: number.flatMap { reach?.carrier(of: $0)?.rawValue })
        status.paths = statistics.paths.filter(\.isValidated).compactMap { path in
            let roundTrip = path.isActive ? statistics.roundTrip : path.roundTrip
            guard let place = path.relay.map(url) ?? path.remoteAddress?.description else { return nil }
            return Devices.HeldPath(
                kind: path.relay == nil ? path.remoteAddress.map(\.pathKind) ?? .direct : .relay, place: place,
                roundTripMilliseconds: roundTrip.map { $0 / .milliseconds(1) }, isActive: path.isActive)
        }
        return status
    }

    func exportKeyingMaterial(label: String, context: [UInt8]) async throws -> [UInt8] {
        try await connection.exportKeyingMaterial(label: label, context: context, count: 32)
    }
}

extension NetworkAddress {
    /// The kind of way that leads to the address.
    var pathKind: Devices.HeldPath.Kind { isPrivate || isLinkLocal || isLoopback ? .lan : .direct }
}

/// Dials through an endpoint.
///
/// Its links are for calling only: `nextStream` belongs to the task that serves.
private struct EndpointDialer: PeerDialer {
    let endpoint: Endpoint
    let reach: DeviceReach?

    func current(_ id: DeviceID) -> (any PeerLink)? {
        endpoint.connection(to: id).flatMap { ConnectionLink($0, reach) }
    }

    var relays: [String] { reach?.announcedRelays.map(\.description) ?? [] }

    var relayTokens: [String: String] {
        guard let reach else { return [:] }
        return Dictionary(
            reach.announcedRelays.compactMap { relay in reach.token(for: relay).map { (relay.description, $0) } },
            uniquingKeysWith: { first, _ in first })
    }

    func learn(relayTokens: [String: String]) {
        for (relay, token) in relayTokens { RelayAddress(relay).map { reach?.learn(token, for: $0) } }
    }

    func isRelayKnown(of id: DeviceID) -> Bool { reach?.relays(of: id).isEmpty == false }

    func note(_ relays: [String], of id: DeviceID) { reach?.note(relays.compactMap { RelayAddress($0) }, of: id) }

    var reachStatus: DeviceReach.Status? { reach?.status }

    var asksDirectories: Bool { reach?.asksDirectories ?? false }

    func isParticular(about id: DeviceID) -> Bool { reach.map { $0.preference(for: id) != .auto } ?? false }

    func forget(_ id: DeviceID) async { await reach?.forget(id) }

    func adopt(_ relays: [String]) async { await reach?.adopt(relays.compactMap { RelayAddress($0) }) }

    func found(_ id: DeviceID, at addresses: [NetworkAddress]) {
        endpoint.found(id, at: reach?.addresses(addresses, for: id) ?? addresses)
    }

    func dial(
        _ id: DeviceID, at addresses: [NetworkAddress], isEarly: Bool, timeout: Duration
    ) async throws -> any PeerLink {
        let connection: Connection
        if let reach {
            connection = try await reach.connect(to: id, at: addresses, isEarly: isEarly, timeout: timeout)
        } else {
            connection =
                isEarly
                ? try await endpoint.connectEarly(to: id, at: addresses, timeout: timeout)
                : try await endpoint.connect(to: id, at: addresses, timeout: timeout)
        }
        guard let link = ConnectionLink(connection, reach) else {
            throw KithError(
                .denied,
                "What answers at \(addresses.map(\.description).joined(separator: ", ")) is not a device of Kith.")
        }
        return link
    }
}

/// The store as the node sees it.
private struct StoreDirectory: DeviceDirectory {
    let store: Store
    /// The time by which certificates end, in seconds since 1970.
    let wallClock: @Sendable () -> Int64

    func device(_ id: DeviceID) throws -> KnownDevice? {
        try store.device(id).map(known).flatMap { $0.isExpired ? nil : $0 }
    }

    func devices() throws -> [KnownDevice] { try store.devices().map(known) }

    func isOpen(_ method: String, to id: DeviceID) -> Bool {
        let now = wallClock()
        if method == Trust.Introduce.name { return store.mayIntroduceItself(id, now: now) }
        // Whom nothing but a certificate lets in presents nothing else.
        return store.reception(of: id, now: now) != .enrolled
    }

    func record(_ records: [AuditRecord]) throws {
        // What an unpaired device may do is to present an invitation, and what comes of that is noted then.
        for record in records where !record.isPaired && !record.isAllowed {
            store.countAttempt(
                UnpairedAttempt(
                    device: record.device, address: record.address, method: record.method, detail: record.detail),
                now: Self.now)
        }
        try store.record(
            calls: records.filter(\.isPaired).map { record in
                AuditEntry(
                    time: Self.now, device: record.name, method: record.method,
                    decision: record.isAllowed ? .allowed : .denied, detail: record.detail)
            })
    }

    func seen(_ id: DeviceID, at addresses: [NetworkAddress]) throws {
        try store.sawDevice(id, at: addresses, time: Self.now)
    }

    func announced(_ id: DeviceID, _ addresses: [NetworkAddress]) throws {
        try store.deviceAnnounced(id, addresses, time: Self.now)
    }

    func standing(_ id: DeviceID, _ grants: [Grant]?) throws {
        let standing = Standing(isForgotten: grants == nil, grants: grants ?? [], time: Self.now)
        // The disk need not be written each minute when nothing has changed.
        if let known = try store.standing(at: id), standing.time - known.time < 60,
            known.isForgotten == standing.isForgotten,
            known.grants == standing.grants
        {
            return
        }
        try store.setStanding(standing, at: id)
    }

    func grantedRoot(_ root: String) throws -> String { try store.grantedRoot(root) }

    private func known(_ device: PairedDevice) -> KnownDevice {
        KnownDevice(
            id: device.id, name: device.name, grants: device.grants(at: wallClock()), addresses: device.addresses,
            isExpired: !device.isCurrent(at: wallClock()))
    }

    static var now: Int64 { Int64(time(nil)) }
}
