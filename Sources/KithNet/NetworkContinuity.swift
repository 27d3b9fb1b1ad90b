import CKithSystem
import KithQUIC
import KithWire
import Logging
import NIOCore
import NIOPosix

/// The state of the network under an endpoint's sockets, as the endpoint knows it.
struct NetworkState {
    /// The number the next socket gets.
    var nextSocket: UInt32 = 0
    /// The addresses of the running interfaces when last looked at.
    var interfaces: [NetworkAddress] = []
    var sleep = SleepWatch(kith_network_suspended(), at: .now())
    var heartbeat: RepeatedTask?
    var watch: (any Channel)?
    /// Indicates whether the system reports changes; otherwise they are polled for.
    var isWatched = false
    var isExaminationScheduled = false
    /// The time a failed send last led to an examination.
    var lastFailure = Timestamp(nanoseconds: .min)
}

/// Notices that the machine has slept, by the clock that goes on meanwhile, or that this process has stood still.
///
/// A process stands still where the system suspends apps, and in a virtual machine that is paused: no clock tells of it.
struct SleepWatch {
    /// The delay from which on a check that comes so late has not only waited for a processor.
    static let longestDelay: Int64 = .seconds(5)

    private var suspended: Int64
    private var last: Timestamp

    /// Begins with the time asleep so far, in nanoseconds.
    init(_ suspended: Int64, at now: Timestamp) { (self.suspended, last) = (suspended, now) }

    /// Returns whether the machine has slept since last asked, for half a second at least, or the process stood still;
    /// it is asked each second.
    mutating func hasSlept(_ suspended: Int64, at now: Timestamp) -> Bool {
        defer { (self.suspended, last) = (suspended, now) }
        return suspended - self.suspended > 500_000_000 || now - last > Self.longestDelay
    }
}

// The network changes, goes away and comes back; the machine sleeps. Connections that were dialed from here look for
// their way anew and go on with it; everything that waits for a time-out is tried at once.
extension EndpointDriver {
    /// The interval of checks for sleep of the machine, and for changes where the system does not tell of them.
    private static var heartbeat: TimeAmount { .seconds(1) }
    /// The time for which notifications are collected: one change of address causes several.
    private static var settling: TimeAmount { .milliseconds(10) }
    /// The time a socket that was left is still read.
    static var lingering: TimeAmount { .seconds(5) }

    /// Begins to follow what happens to the local network.
    func watchNetwork() {
        network.interfaces = LocalAddresses.interfaceAddresses()
        network.heartbeat = loop.scheduleRepeatedTask(every: Self.heartbeat) {
            [weak self] in self?.beat()
        }
        openWatch()
    }

    /// Follows it no more.
    func unwatchNetwork() {
        network.heartbeat?.cancel()
        network.heartbeat = nil
        network.watch?.close(promise: nil)
        network.watch = nil
    }

    private func openWatch() {
        let descriptor = kith_network_watch()
        guard descriptor >= 0 else { return }
        network.isWatched = true
        NIOPipeBootstrap(group: loop.eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(WatchHandler(self))
                }
            }
            .takingOwnershipOfDescriptor(input: descriptor)
            .whenComplete { result in
                self.loop.withLock {
                    switch result {
                    case .success(let channel):
                        if self.isClosing { channel.close(promise: nil) } else { self.network.watch = channel }
                    case .failure(let error):
                        self.network.isWatched = false
                        self.logger.debug("network changes are polled for", metadata: ["error": "\(error)"])
                    }
                }
            }
    }

    fileprivate func watchClosed() {
        guard !isClosing else { return }
        network.watch = nil
        network.isWatched = false
        // The heartbeat looks by itself until it is open again.
        loop.scheduleTask(in: .seconds(10)) { [weak self] in self?.reopenWatch() }
    }

    private func reopenWatch() {
        if !isClosing { openWatch() }
    }

    private func beat() {
        if network.sleep.hasSlept(kith_network_suspended(), at: .now()) {
            examineNetwork(isNews: true)
            reach?.onWake?()
        } else if !network.isWatched, LocalAddresses.interfaceAddresses() != network.interfaces {
            examineNetwork(isNews: true)
        }
    }

    /// Schedules an examination, because something of the network may have changed.
    func networkMayHaveChanged() {
        guard !network.isExaminationScheduled, !isClosing else { return }
        network.isExaminationScheduled = true
        loop.scheduleTask(in: Self.settling) { [weak self] in
            self?.network.isExaminationScheduled = false
            self?.examineNetwork(isNews: false)
        }
    }

    /// Notes that the system refused to send what it used to: perhaps an address is gone.
    ///
    /// Looks at most once a second.
    func sendFailed() {
        let now = Timestamp.now()
        guard now - network.lastFailure > .seconds(1) else { return }
        network.lastFailure = now
        networkMayHaveChanged()
    }

    /// Looks at the interfaces, and lets every connection look for its way.
    func examineNetwork(isNews: Bool) {
        guard !isClosing else { return }
        let interfaces = LocalAddresses.interfaceAddresses()
        let isElsewhere = interfaces != network.interfaces
        let hasChanged = isNews || isElsewhere
        network.interfaces = interfaces
        if isElsewhere { localChanges.continuation.yield() }
        for driver in Array(drivers.values) { driver.networkChanged(isNews: hasChanged, interfaces: interfaces) }
    }

    /// Returns whether an address is of this very machine.
    func isOwn(_ address: NetworkAddress) -> Bool {
        address.isLoopback || network.interfaces.contains { $0.hasSameIP(as: address) }
    }

    // MARK: - Sockets

    /// Opens another socket in place of one that the system closed.
    func replace(_ closed: UDPSocket) {
        closed.stopWaiting()
        sockets.removeAll { $0 === closed }
        openSocket(like: closed, at: closed.address) { [weak self] socket in
            guard let self, let socket else { return }
            for driver in Array(self.drivers.values) {
                if driver.socket === closed {
                    driver.move(to: socket, isForced: true)
                } else {
                    driver.socketIsGone(closed.number)
                }
            }
        }
    }

    /// Opens a socket at another address of this device, on the same port if it is free there, or finds one that is.
    ///
    /// `then` gets nil where none can be opened.
    func openSocket(like old: UDPSocket, at address: NetworkAddress, _ then: @escaping @Sendable (UDPSocket?) -> Void) {
        if let open = sockets.first(where: { $0 !== old && $0.address.hasSameIP(as: address) }) { return then(open) }
        var wanted = address
        wanted.port = old.address.port
        do throws(IOError) {
            let bound: UDPSocket.Bound
            do throws(IOError) {
                bound = try UDPSocket.open(at: wanted, buffer: options.socketBuffer)
            } catch {
                wanted.port = 0
                bound = try UDPSocket.open(at: wanted, buffer: options.socketBuffer)
            }
            add(bound, then)
        } catch {
            logger.warning(
                "no socket could be opened where the network is now",
                metadata: ["address": "\(address)", "error": "\(error)"])
            then(nil)
        }
    }

    /// The next number for a socket: one that no open socket has.
    private func nextSocketNumber() -> UInt32 {
        while socket(network.nextSocket) != nil || network.nextSocket > LocalLink.maximumNumber {
            network.nextSocket = network.nextSocket >= LocalLink.maximumNumber ? 0 : network.nextSocket + 1
        }
        defer { network.nextSocket += 1 }
        return network.nextSocket
    }

    /// Takes a bound socket into use.
    private func add(_ bound: UDPSocket.Bound, _ then: @escaping @Sendable (UDPSocket?) -> Void) {
        start(bound) { [weak self] socket in
            if let self, let socket { self.sockets.append(socket) }
            then(socket)
        }
    }

    /// Has a bound socket read; `then` gets nil when that fails, or the endpoint is being shut down.
    func start(_ bound: UDPSocket.Bound, _ then: @escaping @Sendable (UDPSocket?) -> Void) {
        let number = nextSocketNumber()
        let handler: @Sendable (any Channel) -> DatagramHandler = { _ in DatagramHandler(self, socket: number) }
        UDPSocket.start(bound, on: loop.eventLoop, handler: handler).whenComplete { result in
            self.loop.withLock {
                switch result {
                case .success(let channel):
                    let socket = UDPSocket(bound, number: number, channel: channel)
                    if self.isClosing {
                        channel.close(promise: nil)
                        then(nil)
                    } else {
                        then(socket)
                    }
                case .failure(let error):
                    self.logger.warning("a UDP socket could not be read", metadata: ["error": "\(error)"])
                    then(nil)
                }
            }
        }
    }

    /// Moves to other sockets; connections whose peers do not follow stay at the old ones.
    func rebind(to sockets: [UDPSocket.Bound], _ done: @escaping @Sendable () -> Void) {
        let old = self.sockets
        let left = NIOLoopBoundBox(sockets.count, eventLoop: loop.eventLoop)
        for bound in sockets {
            add(bound) { socket in
                if let socket {
                    for driver in Array(self.drivers.values) where old.contains(where: { $0 === driver.socket }) {
                        driver.move(to: socket)
                    }
                }
                left.value -= 1
                guard left.value == 0 else { return }
                done()
                self.closeWhenUnused(old)
            }
        }
    }

    /// Closes sockets that were left when no connection is at them any more, and looks now and then until all are.
    func closeWhenUnused(_ old: [UDPSocket]) {
        loop.scheduleTask(in: Self.lingering) { [weak self] in
            guard let self, !self.isClosing else { return }
            var used: [UDPSocket] = []
            for socket in old {
                guard !self.drivers.values.contains(where: { $0.socket === socket }) else {
                    used.append(socket)
                    continue
                }
                self.sockets.removeAll { $0 === socket }
                socket.close()
                for driver in Array(self.drivers.values) { driver.socketIsGone(socket.number) }
            }
            if !used.isEmpty { self.closeWhenUnused(used) }
        }
    }
}

/// Notes that something changed; what it was is looked up.
private final class WatchHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private weak var endpoint: EndpointDriver?

    init(_ endpoint: EndpointDriver) { self.endpoint = endpoint }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let endpoint else { return }
        endpoint.loop.withLock { endpoint.networkMayHaveChanged() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelInactive(context: ChannelHandlerContext) {
        guard let endpoint else { return }
        endpoint.loop.withLock { endpoint.watchClosed() }
    }
}
