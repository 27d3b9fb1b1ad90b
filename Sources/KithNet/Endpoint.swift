import KithIO
public import KithIdentity
import KithQUIC
public import KithWire
public import Logging
import NIOCore
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// This device on the network: its UDP sockets, its connections, and the way to dial others.
///
/// It runs on one event loop of its own, which every one of its connections shares.
/// Letting the last reference go shuts it down at once; ``shutdown(grace:)`` does so politely.
public final class Endpoint: Sendable {
    /// The identity of this device.
    public let id: DeviceID
    /// The UDP port it was opened on; ``rebind(to:)`` may change it.
    public let port: UInt16
    private let bound: Mutex<[NetworkAddress]>
    let driver: EndpointDriver

    private init(driver: EndpointDriver, bound: [NetworkAddress]) {
        id = driver.id
        self.driver = driver
        self.bound = Mutex(bound)
        port = bound.first?.port ?? 0
    }

    deinit {
        let driver = self.driver
        driver.loop.execute { driver.terminate() }
    }

    /// Opens the sockets and starts answering.
    ///
    /// - Throws: `KithError` `.conflict` when the port is taken, `.denied` when the system forbids it,
    ///   `.invalid` for an address this machine does not have.
    public static func bind(
        key: DeviceKey, options: Options = Options(), logger: Logger
    ) async throws(KithError) -> Endpoint {
        var credentials: [Credential] = [.rawPublicKey(seed: key.secret)]
        if options.foreign == .acceptCertificates {
            credentials.append(.x509(chain: [try SelfSignedCertificate.make(for: key)], seed: key.secret))
        }
        let sockets = try open(options)
        let driver = EndpointDriver(
            id: key.id, credentials: credentials, statelessResetKey: key.derivedSecret("kith stateless reset 1"),
            options: options, logger: logger)
        var running: [UDPSocket] = []
        do {
            for (index, socket) in sockets.enumerated() {
                let number = UInt32(index)
                let channel = try await UDPSocket.start(socket, on: driver.loop.eventLoop) { _ in
                    DatagramHandler(driver, socket: number)
                }.get()
                running.append(UDPSocket(socket, number: number, channel: channel))
            }
        } catch {
            for socket in running { socket.close() }
            for socket in sockets.dropFirst(running.count) { socket.close() }
            throw KithError(.internal, "The UDP sockets could not be read.", cause: error)
        }
        let ready = Promise<Void>()
        let started = Started(sockets: running)
        driver.loop.execute {
            driver.start(started.sockets)
            ready.fulfil(())
        }
        await ready.value()
        return Endpoint(driver: driver, bound: sockets.map(\.address))
    }

    /// Carries the sockets to the event loop, which is the only one to touch them from then on.
    private struct Started: @unchecked Sendable {  // handed over once, at the start
        let sockets: [UDPSocket]
    }

    private static func open(_ options: Options) throws(KithError) -> [UDPSocket.Bound] {
        let anyIPv4 = NetworkAddress(ipv4: (0, 0, 0, 0), port: options.port)
        let anyIPv6 = NetworkAddress(ipv6: 0, 0, port: options.port)
        guard options.bindAddresses.isEmpty else {
            var opened: [UDPSocket.Bound] = []
            for address in options.bindAddresses {
                do throws(IOError) {
                    opened.append(try UDPSocket.open(at: address, buffer: options.socketBuffer))
                } catch {
                    for socket in opened { socket.close() }
                    throw failure(address, error)
                }
            }
            return opened
        }
        // Both families on one port. When the system chooses it for one, it may be taken for the other: try again.
        for _ in 0..<16 {
            let v6: UDPSocket.Bound
            do throws(IOError) {
                v6 = try UDPSocket.open(at: anyIPv6, buffer: options.socketBuffer)
            } catch {
                guard error.errnoCode == EAFNOSUPPORT || error.errnoCode == EADDRNOTAVAIL else {
                    throw failure(anyIPv6, error)
                }
                // A machine without IPv6.
                do throws(IOError) {
                    return [try UDPSocket.open(at: anyIPv4, buffer: options.socketBuffer)]
                } catch {
                    throw failure(anyIPv4, error)
                }
            }
            do throws(IOError) {
                let same = NetworkAddress(ipv4: (0, 0, 0, 0), port: v6.address.port)
                return [try UDPSocket.open(at: same, buffer: options.socketBuffer), v6]
            } catch {
                v6.close()
                if options.port != 0 || error.errnoCode != EADDRINUSE { throw failure(anyIPv4, error) }
            }
        }
        throw KithError(.conflict, "No UDP port is free for both IPv4 and IPv6.")
    }

    private static func failure(_ address: NetworkAddress, _ error: IOError) -> KithError {
        switch error.errnoCode {
        case EADDRINUSE:
            KithError(.conflict, "UDP port \(address.port) is taken; choose another one.", cause: error)
        case EACCES, EPERM:
            KithError(.denied, "The system does not allow listening on \(address).", cause: error)
        default:
            KithError(.invalid, "Listening on \(address) is not possible.", cause: error)
        }
    }

    /// The addresses where peers can reach it: those of this machine's interfaces, never a wildcard, with the port.
    ///
    /// Those of the local network come first, loopback comes last. Asks the system each time.
    public var localAddresses: [NetworkAddress] { LocalAddresses.concrete(bound.withLock { $0 }) }

    /// Listens at other addresses from now on, and takes its connections along (RFC 9000 §9.2).
    ///
    /// Connections dialed by others than Kith's devices stay at the old addresses, which are closed once there are none.
    ///
    /// - Throws: as ``bind(key:options:logger:)``; everything stays as it was then.
    public func rebind(to addresses: [NetworkAddress]) async throws(KithError) {
        guard !addresses.isEmpty else { throw KithError(.invalid, "No address to listen at was given.") }
        var options = driver.options
        options.bindAddresses = addresses
        let sockets = try Self.open(options)
        let done = Promise<Void>()
        let driver = self.driver
        driver.loop.execute {
            guard !driver.isClosing else {
                for socket in sockets { socket.close() }
                _ = done.fulfil(())
                return
            }
            driver.rebind(to: sockets) { _ = done.fulfil(()) }
        }
        await done.value()
        bound.withLock { $0 = sockets.map(\.address) }
        driver.localChanges.continuation.yield()
    }

    /// Yields when ``localAddresses`` have changed: an interface came or went, or got another address.
    ///
    /// One consumer; what happens while it is busy is one piece of news. Ends with the shutdown.
    public var localAddressChanges: AsyncStream<Void> { driver.localChanges.stream }

    /// The open connection to `peer`, or a new one.
    ///
    /// The addresses race, each getting a head start over the next, and the first completed handshake wins.
    /// Only an end that proves to hold `peer`'s key counts. Concurrent calls for one peer share one attempt.
    ///
    /// - Throws: `KithError` `.invalid` without an address or for this device itself, `.unreachable` when nobody
    ///   answers, `.denied` when another key answers, `.unpaired` when the peer refuses ours, `.timedOut`, `.cancelled`, `.closed`.
    public func connect(
        to peer: DeviceID, at addresses: [NetworkAddress], timeout: Duration = .seconds(10)
    ) async throws(KithError) -> Connection {
        guard peer != id else { throw KithError(.invalid, "A device cannot connect to itself.") }
        return try await connect(to: .device(peer), at: addresses, timeout: timeout)
    }

    /// The open connection to `peer`, or a new one through one of `links`, or at one of `addresses`.
    ///
    /// The links are dialed at once, beside the first address. As ``connect(to:at:timeout:)`` otherwise, and as
    /// ``connectEarly(to:at:timeout:)`` with `isEarly`.
    package func connect(
        to peer: DeviceID, at addresses: [NetworkAddress], through links: [UInt32], isEarly: Bool = false,
        timeout: Duration = .seconds(10)
    ) async throws(KithError) -> Connection {
        guard peer != id else { throw KithError(.invalid, "A device cannot connect to itself.") }
        return try await connect(
            to: .device(peer), at: addresses, through: links, isEarly: isEarly && driver.options.earlyData,
            timeout: timeout)
    }

    /// The open connection to `peer`, or one that resumes the last session and can be asked before the peer has answered.
    ///
    /// Without a ticket of `peer`'s this is ``connect(to:at:timeout:)``. With one, streams opened on the connection go
    /// out in the first flight and are answered after one round trip. An eavesdropper can replay them to the
    /// peer, so send only idempotent requests until ``Connection/handshakeCompleted()`` returns. If the peer does not
    /// accept early data, the streams are sent again automatically.
    ///
    /// - Throws: as ``connect(to:at:timeout:)``. A connection given out early fails later, with its streams.
    public func connectEarly(
        to peer: DeviceID, at addresses: [NetworkAddress], timeout: Duration = .seconds(10)
    ) async throws(KithError) -> Connection {
        guard peer != id else { throw KithError(.invalid, "A device cannot connect to itself.") }
        return try await connect(to: .device(peer), at: addresses, isEarly: driver.options.earlyData, timeout: timeout)
    }

    /// Connects to whoever presents a certificate at one of `addresses`; for peers that are not devices.
    package func connectForeign(
        at addresses: [NetworkAddress], serverName: String? = nil, isEarly: Bool = false,
        timeout: Duration = .seconds(10)
    ) async throws(KithError) -> Connection {
        try await connect(to: .foreign(serverName: serverName), at: addresses, isEarly: isEarly, timeout: timeout)
    }

    private func connect(
        to target: Dial.Target, at addresses: [NetworkAddress], through links: [UInt32] = [], isEarly: Bool = false,
        timeout: Duration
    ) async throws(KithError) -> Connection {
        if case .device(let peer) = target, let open = connection(to: peer) { return open }
        let cancelled = KithError(.cancelled, "Dialing was cancelled.")
        if Task.isCancelled { throw cancelled }
        let waiter = Promise<Result<Connection, KithError>>()
        let driver = self.driver
        let result = await withTaskCancellationHandler {
            driver.loop.execute {
                driver.connect(
                    to: target, at: addresses, through: links, isEarly: isEarly, timeout: timeout, waiter)
            }
            return await waiter.value()
        } onCancel: {
            waiter.fulfil(.failure(cancelled))
            driver.loop.execute { driver.pruneDials() }
        }
        return try result.get()
    }

    /// Notes that `peer` was heard at `addresses`: an attempt to reach it that is under way tries these at once.
    ///
    /// Does nothing when there is none.
    public func found(_ peer: DeviceID, at addresses: [NetworkAddress]) {
        let driver = self.driver
        driver.loop.execute { driver.found(.device(peer), at: addresses) }
    }

    /// The connection to `peer` if one is open now.
    public func connection(to peer: DeviceID) -> Connection? {
        driver.shared.withLock { $0.peers.current(peer) }
    }

    /// All open connections, one per peer, and those to foreign peers.
    public var connections: [Connection] {
        driver.shared.withLock { $0.peers.current + $0.foreign }
    }

    /// Every connection that completes its handshake, whichever end dialed it, once each, until the shutdown.
    ///
    /// One that a peer dialed to resume a session comes as soon as the peer can ask something, see
    /// ``Connection/handshakeCompleted()``.
    /// One consumer. At most 256 wait; beyond that a peer's new connection is closed with `.exhausted`,
    /// and one this device dialed is not reported here.
    public var established: Connections { Connections(queue: driver.established) }

    /// Shuts down: takes no new connections, lets open streams finish for `grace`, closes everything and the sockets.
    ///
    /// Calling it again does nothing. Cancelling the task cuts the grace short.
    public func shutdown(grace: Duration = .zero) async {
        let driver = self.driver
        let stopped = Promise<[Connection]?>()
        driver.loop.execute {
            let isFirst = !driver.shared.withLock { $0.isClosed }
            driver.stopAccepting()
            stopped.fulfil(isFirst ? driver.shared.withLock { $0.peers.all + $0.foreign } : nil)
        }
        guard let open = await stopped.value() else { return }
        if grace > .zero {
            await withTaskGroup { group in
                for connection in open {
                    group.addTask { await connection.drain(deadline: grace) }
                }
            }
        }
        let closed = Promise<Void>()
        driver.loop.execute {
            driver.terminate()
            closed.fulfil(())
        }
        await closed.value()
    }

    /// Takes out the tickets and tokens devices gave this one, for ``Options/sessionCache`` of the next endpoint.
    ///
    /// Call it after ``shutdown(grace:)``. As secret as the connections were.
    public func takeSessionCache() async -> [UInt8] {
        let answer = Promise<[UInt8]>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(driver.sessionCache.takeAll(at: SessionCache.now)) }
        return await answer.value()
    }

    /// The connections of an endpoint as they are established.
    public struct Connections: AsyncSequence, Sendable {
        fileprivate let queue: BoundedQueue<Connection>

        /// Starts, or continues, taking connections.
        public func makeAsyncIterator() -> Iterator { Iterator(queue: queue) }

        /// Takes one connection after the other.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let queue: BoundedQueue<Connection>

            /// Waits for the next connection; `nil` after the shutdown or when the task is cancelled.
            public mutating func next() async -> Connection? { await queue.next() }

            /// Waits for the next connection; `nil` after the shutdown or when the task is cancelled.
            public mutating func next(isolation actor: isolated (any Actor)?) async -> Connection? {
                await queue.next()
            }
        }
    }
}
