import KithIdentity
import KithReach
import KithWire
import NIOCore
import Synchronization

/// The carrier's end of a client that has proven its key; on its loop.
protocol RelayClientPort: AnyObject {
    /// Queues a frame of another client; true when this is the first since the last ``pump()``.
    func enqueue(_ frame: RelayedFrame, from sender: DeviceID, at now: ContinuousClock.Instant) -> Bool
    /// Sends what the network takes.
    func pump()
    func sendGone(_ key: DeviceID)
    func send(_ status: RelayStatus)
    /// Tells the client when to come back; the future is done when it is gone.
    func restart(_ frame: RelayFrame) -> EventLoopFuture<Void>
    func close()
}

/// A client that has proven its key.
final class RelayLink: Sendable {
    let key: DeviceID
    let role: RelayAccess.Role
    let carrier: RelayCarrier
    let loop: RelayLoop
    /// Its handler, until it is gone; the loop's alone.
    let handler: NIOLoopBoundBox<(any RelayClientPort)?>

    init(
        _ key: DeviceID, _ role: RelayAccess.Role, by carrier: RelayCarrier, on loop: RelayLoop,
        _ handler: any RelayClientPort
    ) {
        (self.key, self.role, self.carrier, self.loop) = (key, role, carrier, loop)
        self.handler = NIOLoopBoundBox(handler, eventLoop: loop.eventLoop)
    }
}

extension RelayLink: Hashable {
    static func == (left: RelayLink, right: RelayLink) -> Bool { left === right }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// A frame on its way to a client.
struct RelayParcel: Sendable {
    let link: RelayLink
    let sender: DeviceID
    let frame: RelayedFrame
}

/// An event loop, and what other loops have for its clients: handed over in batches.
final class RelayLoop: Sendable {
    /// The most bytes that wait to be handed over; the newest are dropped.
    static let mailboxLimit = 8 << 20

    private struct Mailbox {
        var parcels: [RelayParcel] = []
        var bytes = 0
    }

    private final class Clients {
        var handlers: [ObjectIdentifier: RelayClientHandler] = [:]
    }

    let index: Int
    let eventLoop: any EventLoop
    private let mailbox = Mutex(Mailbox())
    /// Its clients by WebSocket that have proven their keys; the loop's alone.
    private let clients: NIOLoopBoundBox<Clients?>
    /// How often it looks after them all: a timer for each would wake the thread for each.
    private static let rounds = TimeAmount.seconds(3)

    init(_ index: Int, _ eventLoop: any EventLoop) {
        (self.index, self.eventLoop) = (index, eventLoop)
        clients = .makeEmptyBox(valueType: Clients.self, eventLoop: eventLoop)
        // Ends with the loop.
        eventLoop.scheduleRepeatedTask(initialDelay: Self.rounds, delay: Self.rounds) { [weak self] _ in self?.round() }
    }

    /// Looks after a client from now on; on this loop.
    func add(_ handler: RelayClientHandler) {
        if clients.value == nil { clients.value = Clients() }
        clients.value?.handlers[ObjectIdentifier(handler)] = handler
    }

    /// Looks after a client no more; on this loop.
    func remove(_ handler: RelayClientHandler) { clients.value?.handlers[ObjectIdentifier(handler)] = nil }

    private func round() {
        let now = ContinuousClock.now
        for handler in clients.value.map({ Array($0.handlers.values) }) ?? [] { handler.tick(at: now) }
    }

    /// Hands over parcels for clients of this loop; returns the number that were dropped.
    func post(_ parcels: [RelayParcel]) -> Int {
        var dropped = 0
        let wakes = mailbox.withLock { mailbox in
            let isFirst = mailbox.parcels.isEmpty
            for parcel in parcels {
                guard mailbox.bytes + parcel.frame.count <= Self.mailboxLimit else {
                    dropped += 1
                    continue
                }
                mailbox.bytes += parcel.frame.count
                mailbox.parcels.append(parcel)
            }
            return isFirst && !mailbox.parcels.isEmpty
        }
        if wakes {
            eventLoop.execute {
                let parcels = self.mailbox.withLock { mailbox in
                    let parcels = mailbox.parcels
                    mailbox = Mailbox()
                    return parcels
                }
                self.deliver(parcels)
            }
        }
        return dropped
    }

    /// Queues parcels for clients of this loop, and sends; on this loop.
    func deliver(_ parcels: [RelayParcel]) {
        let now = ContinuousClock.now
        var touched: [any RelayClientPort] = []
        for parcel in parcels {
            guard let handler = parcel.link.handler.value else { continue }
            if handler.enqueue(parcel.frame, from: parcel.sender, at: now) { touched.append(handler) }
        }
        for handler in touched { handler.pump() }
    }
}

/// What all clients of a relay share.
final class RelayHub: Sendable {
    private final class Shard: Sendable {
        let clients = Mutex(RelayClients<RelayLink>())
    }

    let options: RelayServerOptions
    let counters = RelayCounters()
    let limiter: Mutex<AddressLimiter>
    /// The sockets whose handshakes are under way.
    let openings = OpeningClients()
    /// What clients have begun to say and not finished.
    let unfinished: UnfinishedMessages
    let loops: [RelayLoop]
    private let shards = (0..<16).map { _ in Shard() }
    /// Changes whenever a client comes or goes: what was looked up before may be wrong.
    let generation = Atomic<UInt64>(0)

    init(_ options: RelayServerOptions, _ loops: [any EventLoop]) {
        self.options = options
        limiter = Mutex(AddressLimiter(limits: options.limits))
        unfinished = UnfinishedMessages(limit: options.unfinishedBytes)
        self.loops = loops.enumerated().map { RelayLoop($0, $1) }
    }

    func loop(of eventLoop: any EventLoop) -> RelayLoop? { loops.first { $0.eventLoop === eventLoop } }

    private func shard(of key: DeviceID) -> Shard {
        shards[Int(truncatingIfNeeded: key.words.0 & 15)]
    }

    func active(_ key: DeviceID) -> RelayLink? { shard(of: key).clients.withLock { $0.active(key) } }

    var all: [RelayLink] { shards.flatMap { $0.clients.withLock { $0.all } } }

    func add(_ link: RelayLink) {
        perform(shard(of: link.key).clients.withLock { $0.add(link, of: link.key) })
        counters.clients.wrappingAdd(1, ordering: .relaxed)
        options.onPresence?(link.key)
        if link.carrier == .quic { counters.quicClients.wrappingAdd(1, ordering: .relaxed) }
    }

    /// Removes a client, which has sent to `peers` lately.
    func remove(_ link: RelayLink, whoSentTo peers: [DeviceID]) {
        counters.clients.wrappingSubtract(1, ordering: .relaxed)
        if link.carrier == .quic { counters.quicClients.wrappingSubtract(1, ordering: .relaxed) }
        perform(shard(of: link.key).clients.withLock { $0.remove(link, of: link.key) }, peers)
        options.onPresence?(link.key)
    }

    private func perform(_ effects: [RelayClients<RelayLink>.Effect], _ peers: [DeviceID] = []) {
        generation.wrappingAdd(1, ordering: .releasing)
        for effect in effects {
            switch effect {
            case .status(let link, let status): on(link) { $0.send(status) }
            case .close(let link): on(link) { $0.close() }
            case .left(let key):
                for peer in peers where peer != key { active(peer).map { on($0) { $0.sendGone(key) } } }
            }
        }
    }

    /// What bounds the bytes of a client in one direction; `nil` for no bound.
    func bucket(for role: RelayAccess.Role, at now: ContinuousClock.Instant) -> TokenBucket? {
        switch role {
        case .member:
            options.rate.map { TokenBucket(rate: max(1, $0), burst: max($0 / 2, 64 << 10), at: now) }
        // A handshake of QUIC passes at once.
        case .guest: TokenBucket(rate: max(1, options.guestRate), burst: 64 << 10, at: now)
        }
    }

    /// Runs `body` with a client's handler, on its loop, if it is still there.
    func on(_ link: RelayLink, _ body: @escaping @Sendable (any RelayClientPort) -> Void) {
        link.loop.eventLoop.execute { if let handler = link.handler.value { body(handler) } }
    }
}

/// A socket, from the moment it is accepted: what it holds of the limits, and the time it has to finish opening.
final class RelaySocket: Sendable {
    private let hub: RelayHub
    private let ip: [UInt8]
    private let opening = Mutex<Scheduled<Void>?>(nil)
    /// Its number among those that are opening.
    private let number: UInt64

    /// Counts a socket; `nil` when its address has too many.
    static func accept(_ channel: any Channel, _ hub: RelayHub) -> RelaySocket? {
        let ip = channel.remoteAddress.flatMap(NetworkAddress.init)?.ip ?? []
        guard hub.limiter.withLock({ $0.open(from: ip, at: .now) }) else {
            hub.counters.refusedSockets.count()
            return nil
        }
        let socket = RelaySocket(channel, hub, ip)
        hub.makeRoom()
        return socket
    }

    private init(_ channel: any Channel, _ hub: RelayHub, _ ip: [UInt8]) {
        (self.hub, self.ip) = (hub, ip)
        number = hub.openings.add { channel.close(promise: nil) }
        // Whatever it does meanwhile, a byte at a time.
        let timeout = channel.eventLoop.scheduleTask(in: .seconds(Int64(hub.options.openingTime))) {
            channel.close(promise: nil)
        }
        opening.withLock { $0 = timeout }
        channel.closeFuture.whenComplete { _ in
            self.opened()
            hub.limiter.withLock { $0.close(from: ip) }
        }
    }

    /// The handshake is over, either way.
    func opened() {
        guard let timeout = opening.withLock({ $0.take() }) else { return }
        timeout.cancel()
        hub.openings.remove(number)
        hub.limiter.withLock { $0.handshakeEnded() }
    }
}

extension RelayHub {
    /// Closes the oldest client that has proven nothing, when there are too many of them.
    ///
    /// A flood of such clients, by TCP or QUIC, displaces itself; whoever proves a key does so in a few round trips.
    func makeRoom() {
        guard limiter.withLock({ $0.isCrowded }), let close = openings.takeOldest() else { return }
        counters.refusedSockets.count()
        close()
    }
}

/// The clients that have not proven a key yet, in the order in which they came: how each is closed.
final class OpeningClients: Sendable {
    private struct State {
        var clients: [UInt64: @Sendable () -> Void] = [:]
        var next: UInt64 = 0
        /// No number below it is there.
        var oldest: UInt64 = 0
    }

    private let state = Mutex(State())

    func add(_ close: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            defer { state.next += 1 }
            state.clients[state.next] = close
            return state.next
        }
    }

    func remove(_ number: UInt64) { state.withLock { _ = $0.clients.removeValue(forKey: number) } }

    func takeOldest() -> (@Sendable () -> Void)? {
        state.withLock { state in
            while state.oldest < state.next {
                defer { state.oldest += 1 }
                if let close = state.clients.removeValue(forKey: state.oldest) { return close }
            }
            return nil
        }
    }
}

extension NetworkAddress {
    /// The address of a socket; `nil` for one that is not of IP.
    init?(_ address: SocketAddress) {
        guard let ip = address.ipAddress?.prefix(while: { $0 != "%" }) else { return nil }
        self.init(ip.contains(":") ? "[\(ip)]:1" : "\(ip):1")
    }
}
