#if os(Linux)
import KithIO
import KithIdentity
import KithReach
import KithWire
import Logging
import Synchronization

/// A responder of this device's own: multicast DNS on every network that it is announced on, for machines where no other
/// responder serves it.
///
/// One engine for each interface and version of IP. The port is open only while there is something to offer, so that
/// another responder of the machine has it to itself otherwise.
final class MulticastDNS: ServiceResponder {
    private struct Link: Hashable {
        let interface: UInt32
        let isIPv6: Bool
    }

    private struct State {
        var isActive = false
        var records: [ServiceRecord] = []
        var interfaces: [UInt32: NetworkInterface] = [:]
        var sockets: [MDNSSocket] = []
        var engines: [Link: MDNSEngine] = [:]
        var sent = SentDatagrams()
        var problem: String?
        var timer: TimerQueue.Ticket?

        var isNeeded: Bool { isActive && records.contains { interfaces[$0.interface] != nil } }
    }

    /// A text that a service says.
    private struct Text {
        let service: String
        let strings: [[UInt8]]
        let interface: UInt32
    }

    /// The time after which a port that could not be opened is tried again.
    private static let pause = Duration.seconds(30)
    private static let irohType = "_irohv1._udp"

    private let iroh: DeviceID?
    private let clock: any Ticker
    private let logger: Logger
    private let isWanted: @Sendable (String, UInt32) -> Bool
    private let heard: @Sendable (String, [[UInt8]], UInt32) -> Void
    private let timers: TimerQueue
    private let mutex = Mutex(State())
    /// One message: something has changed, or is due.
    private let alarm = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// Makes one that does nothing before ``activate(_:)``.
    ///
    /// `iroh` is the device, if it is to go by iroh's name as well. `isWanted` tells whether to ask about a service by its
    /// label, on an interface; `heard` takes what it says, which anybody can have written.
    init(
        iroh: DeviceID?, clock: any Ticker, logger: Logger, isWanted: @escaping @Sendable (String, UInt32) -> Bool,
        heard: @escaping @Sendable (String, [[UInt8]], UInt32) -> Void
    ) {
        (self.iroh, self.clock, self.logger, self.isWanted, self.heard) = (iroh, clock, logger, isWanted, heard)
        timers = TimerQueue(on: clock)
    }

    /// Begins, or ends with a goodbye.
    func activate(_ isActive: Bool) {
        let hasChanged = mutex.withLock { state in
            defer { state.isActive = isActive }
            return state.isActive != isActive
        }
        if hasChanged { alarm.continuation.yield() }
    }

    /// True while it is to serve the device.
    var isActive: Bool { mutex.withLock { $0.isActive } }

    var state: LocalDiscovery.Responder {
        mutex.withLock { state in
            if let problem = state.problem { return .unavailable(problem) }
            guard !state.engines.isEmpty else { return .unavailable("no network has an address of this device") }
            if state.engines.values.contains(where: \.isRegistered) { return .answering }
            if state.engines.values.contains(where: \.hasFailed) {
                return .unavailable("others on this network have all names of this device")
            }
            return .unavailable("it still asks whether its name is free")
        }
    }

    func publish(_ records: [ServiceRecord]) {
        mutex.withLock { $0.records = records }
        alarm.continuation.yield()
    }

    func examine(isNew: Bool) {
        guard isNew else { return }
        act { state, now in for link in state.engines.keys { state.engines[link]?.examine(at: now) } }
    }

    func use(_ interfaces: [NetworkInterface]) {
        act { state, now in
            let before = state.interfaces
            state.interfaces = Dictionary(interfaces.map { ($0.index, $0) }) { first, _ in first }
            for link in state.engines.keys where before[link.interface] != state.interfaces[link.interface] {
                let networks = state.interfaces[link.interface]?.linkNetworks ?? []
                state.engines[link]?.restart(networks: networks, at: now)
            }
        }
        alarm.continuation.yield()
    }

    func leave(_ records: [ServiceRecord]) async {
        act { state, now in
            for link in state.engines.keys {
                state.engines[link]?.leave(services(records, on: link), at: now)
            }
            state.records = []
        }
    }

    // MARK: - Running

    func run(on reactor: Reactor) async {
        defer { timers.removeAll() }
        while !Task.isCancelled {
            if mutex.withLock({ $0.isNeeded }) {
                if let sockets = open(on: reactor) {
                    await serve(by: sockets)
                    continue
                }
                _ = timers.schedule(at: clock.now + Self.pause) { [alarm] in alarm.continuation.yield() }
            }
            for await _ in alarm.stream { break }
        }
    }

    private func open(on reactor: Reactor) -> [MDNSSocket]? {
        var sockets: [MDNSSocket] = []
        for isIPv6 in [false, true] {
            do {
                sockets.append(try MDNSSocket(isIPv6: isIPv6, on: reactor))
            } catch {
                // A machine without IPv6 does with IPv4.
                guard !isIPv6 else { continue }
                mutex.withLock { $0.problem = "port \(MDNS.port) cannot be opened: \(error)" }
                logger.debug("no port for multicast DNS", metadata: ["error": "\(error)"])
                return nil
            }
        }
        return sockets
    }

    private func serve(by sockets: [MDNSSocket]) async {
        mutex.withLock { state in
            (state.sockets, state.problem, state.engines) = (sockets, nil, [:])
        }
        await withDiscardingTaskGroup { group in
            for socket in sockets { group.addTask { await self.listen(at: socket) } }
            act { state, now in follow(&state, at: now) }
            for await _ in alarm.stream {
                guard mutex.withLock({ $0.isNeeded }) else { break }
                act { state, now in follow(&state, at: now) }
            }
            group.cancelAll()
        }
        act { state, now in for link in state.engines.keys { state.engines[link]?.leave(at: now) } }
        mutex.withLock { state in
            (state.sockets, state.engines) = ([], [:])
        }
    }

    private func listen(at socket: MDNSSocket) async {
        while let received = await socket.receive() {
            act { state, now in
                let link = Link(interface: received.interface, isIPv6: socket.isIPv6)
                guard state.engines[link] != nil, !isOwn(received, link, &state, at: now) else { return }
                state.engines[link]?.receive(
                    received.bytes, from: received.source, isUnicast: received.isUnicast, at: now)
            }
        }
    }

    /// True for what this very responder has sent: the system gives a copy to everybody at the port, and a cable may lead
    /// back to another interface.
    private func isOwn(
        _ received: MDNSSocket.Received, _ link: Link, _ state: inout State, at now: ContinuousClock.Instant
    ) -> Bool {
        guard !received.isUnicast, received.source.port == MDNS.port,
            state.interfaces.values.contains(where: { interface in
                interface.addresses.contains { $0.hasSameIP(as: received.source) }
            })
        else { return false }
        return state.sent.take(received.bytes, isIPv6: link.isIPv6, interface: link.interface, at: now)
    }

    /// Has an engine for each network that something is offered on, and offers that.
    private func follow(_ state: inout State, at now: ContinuousClock.Instant) {
        var wanted: Set<Link> = []
        for record in state.records {
            guard let interface = state.interfaces[record.interface] else { continue }
            for socket in state.sockets
            where interface.addresses.contains(where: { $0.isIPv6 == socket.isIPv6 }) {
                wanted.insert(Link(interface: record.interface, isIPv6: socket.isIPv6))
            }
        }
        for link in state.engines.keys where !wanted.contains(link) {
            state.engines[link]?.leave(at: now)
            flush(&state, link)
            state.engines[link] = nil
            state.sockets.first { $0.isIPv6 == link.isIPv6 }?.leave(link.interface)
        }
        for link in wanted {
            if state.engines[link] == nil {
                guard let socket = state.sockets.first(where: { $0.isIPv6 == link.isIPv6 }) else { continue }
                if let error = socket.join(link.interface) {
                    logger.debug(
                        "multicast DNS is not heard", metadata: ["interface": "\(link.interface)", "error": "\(error)"])
                    continue
                }
                state.engines[link] = MDNSEngine(
                    type: ServiceRecord.type, networks: state.interfaces[link.interface]?.linkNetworks ?? [],
                    random: SystemRandomNumberGenerator(), at: now
                ) { [isWanted] in isWanted($0, link.interface) }
            }
            state.engines[link]?.offer(services(state.records, on: link), at: now)
        }
    }

    private func services(_ records: [ServiceRecord], on link: Link) -> [MDNSService] {
        records.filter { $0.interface == link.interface }.flatMap { record -> [MDNSService] in
            let addresses = record.addresses.filter { !($0.isIPv6 && $0.isLinkLocal) }
            let names = record.attempts.map {
                MDNSService.Identity(instance: $0.name.service, host: $0.name.host, text: $0.text)
            }
            var services = [
                MDNSService(type: ServiceRecord.type, identities: names, port: record.port, addresses: addresses)
            ]
            if let iroh {
                let key = Base32.encode(iroh.bytes)
                services.append(
                    MDNSService(
                        type: Self.irohType,
                        identities: [MDNSService.Identity(instance: key, host: key, text: [[]])],
                        port: record.port, addresses: addresses))
            }
            return services.compactMap(\.self)
        }
    }

    /// Tells the engines something, does what is due, sends what they want sent, and passes on what they have heard.
    private func act(_ body: (inout State, ContinuousClock.Instant) -> Void) {
        let now = clock.now
        let texts = mutex.withLock { state -> [Text] in
            body(&state, now)
            var texts: [Text] = []
            for link in state.engines.keys {
                state.engines[link]?.timedOut(at: now)
                flush(&state, link)
                texts += (state.engines[link]?.takeTexts() ?? []).map {
                    Text(service: $0.service, strings: $0.strings, interface: link.interface)
                }
            }
            if let timer = state.timer { timers.cancel(timer) }
            state.timer = state.engines.values.map(\.nextDeadline).min().map { deadline in
                timers.schedule(at: deadline) { [weak self] in self?.act { _, _ in } }
            }
            return texts
        }
        for text in texts { heard(text.service, text.strings, text.interface) }
    }

    private func flush(_ state: inout State, _ link: Link) {
        guard let datagrams = state.engines[link]?.takeDatagrams(),
            let socket = state.sockets.first(where: { $0.isIPv6 == link.isIPv6 })
        else { return }
        for datagram in datagrams {
            if datagram.destination == nil { state.sent.note(datagram.bytes, isIPv6: link.isIPv6, at: clock.now) }
            // The network has gone, or has no room: whatever matters is said again.
            if !socket.send(datagram, by: link.interface) {
                logger.debug("a message of multicast DNS was not sent", metadata: ["interface": "\(link.interface)"])
            }
        }
    }
}

/// The datagrams that were sent to the group lately, to know their copies by.
struct SentDatagrams {
    private struct Sent {
        let hash: Int
        let isIPv6: Bool
        let end: ContinuousClock.Instant
        /// The interfaces on which its copy has come.
        var interfaces: Set<UInt32> = []
    }

    private static let limit = 128
    private var sent: [Sent] = []

    mutating func note(_ bytes: [UInt8], isIPv6: Bool, at now: ContinuousClock.Instant) {
        if sent.count >= Self.limit { sent.removeFirst() }
        sent.append(Sent(hash: bytes.hashValue, isIPv6: isIPv6, end: now + .seconds(2)))
    }

    /// Returns whether a datagram is the copy of one, each but once on an interface: another device may say the same.
    mutating func take(_ bytes: [UInt8], isIPv6: Bool, interface: UInt32, at now: ContinuousClock.Instant) -> Bool {
        sent.removeAll { $0.end <= now }
        let hash = bytes.hashValue
        for index in sent.indices where sent[index].hash == hash && sent[index].isIPv6 == isIPv6 {
            if sent[index].interfaces.insert(interface).inserted { return true }
        }
        return false
    }
}
#endif
