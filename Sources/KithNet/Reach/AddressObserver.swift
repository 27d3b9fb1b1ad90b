import KithIO
package import KithIdentity
package import KithQUIC
package import KithWire
import NIOCore

/// The address discovery over QUIC that relays serve (QAD).
package enum AddressDiscovery {
    /// The application protocol.
    package static let alpn = "/iroh-qad/0"
    /// The UDP port.
    package static let port: UInt16 = 7_842
    /// The code with which a client closes.
    static let doneCode: UInt64 = 1
    /// The time a connection without traffic lives.
    package static let idleTimeout = Duration.seconds(35)

    /// The answer of a server.
    package struct Answer: Hashable, Sendable {
        /// The address from which the server sees this device's packets come.
        package let mapped: NetworkAddress
        /// The round trip to the server.
        package let roundTrip: Duration
    }
}

/// One question to a server, from where it sees this device: a QUIC connection from the endpoint's own socket.
///
/// The connection ends with the answer. Who the server is, is checked only where its key is known: its answer counts no
/// more than that of a STUN server, which nobody proves either.
///
/// `@unchecked Sendable`: touched with the lock of the endpoint's loop only.
final class AddressObserver: @unchecked Sendable {
    /// The most questions at a time; one more is not asked.
    static let maxCount = 8
    /// The time a server has to answer.
    static let patience = Duration.seconds(4)

    private unowned let endpoint: EndpointDriver
    private let socket: UInt32
    private var engine: QUICConnection
    private let answer: Promise<AddressDiscovery.Answer?>
    private let givesUp: Timestamp
    private var ids: [ConnectionID] = []
    private var timer: Scheduled<Void>?
    private var isOver = false

    init(
        of server: NetworkAddress, named name: String?, key: DeviceID?, by endpoint: EndpointDriver,
        from socket: UInt32,
        _ answer: Promise<AddressDiscovery.Answer?>
    ) throws(KithError) {
        var configuration = QUICConfiguration(credentials: [], alpn: [AddressDiscovery.alpn])
        configuration.serverName = name
        configuration.verify = { credential in
            switch credential {
            case .rawPublicKey(let bytes): key == nil || bytes == key?.bytes
            case .x509: key == nil
            default: false
            }
        }
        configuration.addressDiscovery = .asks
        configuration.handshakeTimeout = Self.patience
        configuration.maxIdleTimeout = AddressDiscovery.idleTimeout
        // One datagram each way does it.
        configuration.offersPostQuantumKeyShare = false
        configuration.maxIncomingBidirectionalStreams = 0
        configuration.maxIncomingUnidirectionalStreams = 0
        configuration.maxDatagramFrameSize = 0
        let now = Timestamp.now()
        engine = try QUICConnection.client(configuration, remote: server, local: .socket(socket), at: now)
        givesUp = now.advanced(by: Self.patience)
        (self.endpoint, self.socket, self.answer) = (endpoint, socket, answer)
    }

    /// Takes a datagram in that was sent to one of its connection ids.
    func receive(_ datagram: UnsafeMutableRawBufferPointer, from remote: NetworkAddress, ecn: UInt8) {
        unsafe engine.receive(datagram, from: remote, to: .socket(socket), ecn: ecn, at: .now())
        service()
    }

    /// Sends and reports what there is, and waits for what comes next.
    func service() {
        let buffer = unsafe UnsafeMutableRawBufferPointer(rebasing: endpoint.sendBuffer[..<4_096])
        repeat {
            while let transmit = unsafe engine.nextTransmit(into: buffer, at: .now()) {
                let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<transmit.length])
                // What is not taken is lost, and sent again.
                _ = unsafe endpoint.socket(socket)?.send(
                    bytes, segmentSize: transmit.segmentSize, to: transmit.remote, ecn: transmit.ecn)
            }
        } while handleEvents()
        timer?.cancel()
        timer = nil
        guard !isOver else { return }
        var deadline = engine.nextDeadline ?? givesUp
        if !answer.isFulfilled { deadline = min(deadline, givesUp) }
        timer = endpoint.loop.scheduleTask(in: .nanoseconds(max(0, deadline - .now()))) { [weak self] in
            self?.timedOut()
        }
    }

    private func timedOut() {
        let now = Timestamp.now()
        if !answer.isFulfilled, givesUp <= now { finish(nil) }
        engine.timedOut(at: now)
        service()
    }

    private func handleEvents() -> Bool {
        var hadEvents = false
        while let event = engine.nextEvent() {
            hadEvents = true
            switch event {
            case .connectionIDAdded(let id):
                ids.append(id)
                endpoint.observers[id] = self
            case .connectionIDRetired(let id):
                ids.removeAll { $0 == id }
                endpoint.observers[id] = nil
            case .observedAddress(let address, _):
                finish(.init(mapped: address, roundTrip: .nanoseconds(engine.statistics.smoothedRTT)))
            case .closed: answer.fulfil(nil)
            case .drained: end()
            default: break
            }
        }
        return hadEvents
    }

    private func finish(_ result: AddressDiscovery.Answer?) {
        answer.fulfil(result)
        engine.close(code: AddressDiscovery.doneCode, at: .now())
    }

    /// Forgets the connection.
    func end() {
        guard !isOver else { return }
        isOver = true
        answer.fulfil(nil)
        timer?.cancel()
        for id in ids { endpoint.observers[id] = nil }
        ids = []
        endpoint.observerCount -= 1
    }
}

extension EndpointDriver {
    /// Asks a server from where it sees this endpoint's socket.
    func observe(
        by server: NetworkAddress, named name: String?, key: DeviceID?, _ answer: Promise<AddressDiscovery.Answer?>
    ) {
        guard !isClosing, observerCount < AddressObserver.maxCount, let socket = route(to: server),
            socket.address.isIPv6 == server.isIPv6,
            let observer = try? AddressObserver(
                of: server, named: name, key: key, by: self, from: socket.number, answer)
        else {
            answer.fulfil(nil)
            return
        }
        observerCount += 1
        observer.service()
    }
}

extension Endpoint {
    /// Shows other credentials in the handshakes that begin from now on.
    package func use(_ credentials: [Credential]) {
        let driver = self.driver
        driver.loop.execute { driver.use(credentials) }
    }

    /// Asks a server by QUIC from which address it sees this endpoint's packets come.
    ///
    /// - Parameters:
    ///   - server: the address of the server.
    ///   - name: the name that its certificate is for (SNI).
    ///   - key: its key, where it is known: nobody else is believed then.
    /// - Returns: its answer; `nil` when there is none.
    package func observedAddress(
        by server: NetworkAddress, named name: String? = nil, key: DeviceID? = nil
    ) async -> AddressDiscovery.Answer? {
        let answer = Promise<AddressDiscovery.Answer?>()
        let driver = self.driver
        driver.loop.execute { driver.observe(by: server, named: name, key: key, answer) }
        return await answer.value()
    }
}
