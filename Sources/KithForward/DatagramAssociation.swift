import KithAPI
import KithWire
import Synchronization

/// UDP ports of this device's own, used for somebody: sends where it is told and allowed to, and hears back from there.
final class DatagramAssociation: Sendable {
    private let connector: Connector
    private let permission: any ForwardPermission
    private let fixed: [NetworkAddress]?
    private let sockets: [DatagramSocket]
    private let incoming = DatagramQueue<DatagramFrame>()
    private let state = Mutex(State())

    private struct State {
        /// The addresses datagrams were sent to lately, and so may come from.
        var partners: [NetworkAddress: ContinuousClock.Instant] = [:]
        var names: [Forward.Endpoint: Name] = [:]
    }

    /// A name that was looked up, or is being.
    private struct Name {
        var addresses: [NetworkAddress] = []
        var until: ContinuousClock.Instant?
        /// The datagrams that wait for the lookup; the oldest is dropped first.
        var waiting: [[UInt8]] = []
    }

    /// The most partners, and names, that are remembered; the longest unused go.
    private static let partnerLimit = 1_024
    private static let nameLimit = 64
    private static let waitingLimit = 16
    /// The time a lookup counts.
    private static let nameLifetime = Duration.seconds(30)

    /// Opens the ports.
    ///
    /// `fixed` are the addresses of the only partner, of which the first that can be used is; `nil`: each datagram says
    /// where it goes.
    init(_ connector: Connector, permission: any ForwardPermission, fixed: [NetworkAddress]?) throws {
        self.connector = connector
        self.permission = permission
        var sockets: [DatagramSocket] = []
        var failure: KithError?
        for isIPv6 in [false, true] where fixed?.first.map({ $0.isIPv6 == isIPv6 }) ?? true {
            do throws(KithError) {
                let any = isIPv6 ? NetworkAddress(ipv6: 0, 0, port: 0) : NetworkAddress(ipv4: 0, port: 0)
                sockets.append(try DatagramSocket(at: any, on: connector.reactor))
            } catch {
                // A device without one of the families has the other.
                failure = error
            }
        }
        if sockets.isEmpty, let failure { throw failure }
        self.sockets = sockets
        self.fixed = fixed
    }

    /// Carries datagrams between a stream and the ports, until either is silent for `idle` or the stream ends.
    func carry(over stream: any ByteStream, idle: Duration, traffic: Traffic) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let (lookups, lookup) = AsyncStream.makeStream(of: Forward.Endpoint.self)
            for socket in sockets {
                group.addTask {
                    while true {
                        let (payload, from) = try await socket.receive()
                        self.heard(payload, from: from)
                    }
                }
            }
            group.addTask {
                await withDiscardingTaskGroup { names in
                    for await endpoint in lookups { names.addTask { await self.lookUp(endpoint) } }
                    names.cancelAll()
                }
                try Task.checkCancellation()
            }
            group.addTask {
                try await carryDatagrams(
                    over: stream, idle: idle, on: self.connector.clock,
                    outgoing: {
                        let frame = await self.incoming.next()
                        if let frame { traffic.received(frame.payload.count) }
                        return frame
                    },
                    incoming: { frame in
                        traffic.sent(frame.payload.count)
                        self.send(frame) { lookup.yield($0) }
                    })
            }
            defer {
                lookup.finish()
                group.cancelAll()
            }
            try await group.next()
        }
    }

    // MARK: - Out

    private func send(_ frame: DatagramFrame, lookUp: (Forward.Endpoint) -> Void) {
        if let fixed {
            if let address = fixed.first { deliver(frame.payload, to: address) }
            return
        }
        switch frame.other {
        case .address(let address):
            // What is not allowed is lost, as on a network that does not carry it.
            guard !address.isUnspecified,
                let allowed = try? permission.allowed([address], of: .address(address)), !allowed.isEmpty
            else { return }
            deliver(frame.payload, to: address)
        case .name(_, let port) where port != 0:
            guard let endpoint = frame.other else { return }
            let (address, wants) = resolved(endpoint, or: frame.payload)
            if let address { deliver(frame.payload, to: address) }
            if wants { lookUp(endpoint) }
        default: break
        }
    }

    /// The address of a name that was looked up lately; else keeps the payload, and says whether to look it up.
    private func resolved(_ endpoint: Forward.Endpoint, or payload: [UInt8]) -> (NetworkAddress?, wants: Bool) {
        let now = connector.clock.now
        return state.withLock { state in
            if let name = state.names[endpoint], let until = name.until, until > now {
                return (name.addresses.first, false)
            }
            let isNew = state.names[endpoint].map { $0.until != nil } ?? true
            if isNew {
                if state.names.count >= Self.nameLimit {
                    let oldest = state.names.filter { $0.value.until != nil }.min { left, right in
                        (left.value.until ?? now) < (right.value.until ?? now)
                    }
                    guard let oldest else { return (nil, false) }
                    state.names[oldest.key] = nil
                }
                state.names[endpoint] = Name()
            }
            state.names[endpoint]?.waiting.append(payload)
            if let count = state.names[endpoint]?.waiting.count, count > Self.waitingLimit {
                state.names[endpoint]?.waiting.removeFirst()
            }
            return (nil, isNew)
        }
    }

    private func lookUp(_ endpoint: Forward.Endpoint) async {
        // A name that leads nowhere, or nowhere allowed, is asked for again only after a while.
        let addresses = (try? await connector.addresses(of: endpoint, permission: permission)) ?? []
        let usable = addresses.filter { address in sockets.contains { $0.address.isIPv6 == address.isIPv6 } }
        let waiting = state.withLock { state in
            defer { state.names[endpoint] = Name(addresses: usable, until: connector.clock.now + Self.nameLifetime) }
            return state.names[endpoint]?.waiting ?? []
        }
        guard let address = usable.first else { return }
        for payload in waiting { deliver(payload, to: address) }
    }

    private func deliver(_ payload: [UInt8], to address: NetworkAddress) {
        state.withLock { state in
            if state.partners.count >= Self.partnerLimit, state.partners[address] == nil,
                let oldest = state.partners.min(by: { $0.value < $1.value })
            {
                state.partners[oldest.key] = nil
            }
            state.partners[address] = connector.clock.now
        }
        sockets.first { $0.address.isIPv6 == address.isIPv6 }?.send(payload, to: address)
    }

    // MARK: - In

    /// Only those who were spoken to may answer: nobody else was granted.
    private func heard(_ payload: [UInt8], from address: NetworkAddress) {
        guard state.withLock({ $0.partners[address] != nil }) else { return }
        let other: Forward.Endpoint? = fixed == nil ? .address(address) : nil
        incoming.push(DatagramFrame(other: other, payload: payload), bytes: payload.count + 64)
    }
}
