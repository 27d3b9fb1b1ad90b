import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire
import Synchronization

/// The sockets this device listens on: for another device, or for its own person.
enum Listening {
    case connections([ListeningSocket])
    case datagrams([DatagramSocket])

    /// The endpoints it listens at, with the actual ports.
    var endpoints: [Forward.Endpoint] {
        switch self {
        case .connections(let listeners): listeners.map(\.endpoint)
        case .datagrams(let sockets): sockets.map { .address($0.address) }
        }
    }

    /// The addresses a place to listen at stands for; `nil` of a Unix socket.
    ///
    /// - Throws: `.invalid` for a name other than `localhost`.
    static func addresses(of endpoint: Forward.Endpoint) throws(KithError) -> [NetworkAddress]? {
        switch endpoint {
        case .address(let address): return [address]
        case .every(let port):
            return [NetworkAddress(ipv4: 0, port: port), NetworkAddress(ipv6: 0, 0, port: port)]
        case .name(let name, let port):
            guard HostName.isLocalhost(name) else {
                throw KithError(
                    .invalid, "Cannot listen at “\(name)”: give an address of the device, localhost, or * for all.")
            }
            return [NetworkAddress(ipv4: 0x7F00_0001, port: port), NetworkAddress(ipv6: 0, 1, port: port)]
        case .socket: return nil
        }
    }

    /// Begins to listen.
    ///
    /// Of several addresses the first counts; where the system lacks the family of another, that is left out. They get
    /// one port, also where the system chooses it.
    static func open(
        _ endpoint: Forward.Endpoint, _ transport: Forward.Transport, on reactor: Reactor,
        protecting protection: ProtectedFiles? = nil
    ) throws(KithError) -> Listening {
        guard let addresses = try addresses(of: endpoint), let first = addresses.first else {
            guard case .socket(let path) = endpoint, transport == .tcp else {
                throw KithError(.invalid, "UDP needs an address to listen at, not \(endpoint).")
            }
            return .connections([try ListeningSocket(path: path, on: reactor, protecting: protection)])
        }
        var attempt = 0
        while true {
            attempt += 1
            do throws(KithError) {
                switch transport {
                case .tcp:
                    let listener = try ListeningSocket(at: first, on: reactor)
                    return .connections(
                        [listener]
                            + (try others(addresses, port: listener.endpoint.port) { address throws(KithError) in
                                try ListeningSocket(at: address, on: reactor)
                            }))
                case .udp:
                    let socket = try DatagramSocket(at: first, on: reactor)
                    return .datagrams(
                        [socket]
                            + (try others(addresses, port: socket.address.port) { address throws(KithError) in
                                try DatagramSocket(at: address, on: reactor)
                            }))
                }
            } catch {
                // The port the system chose for one address may be taken at the other.
                guard error.code == .conflict, endpoint.port == 0, attempt < 16 else { throw error }
            }
        }
    }

    private static func others<Socket>(
        _ addresses: [NetworkAddress], port: UInt16?, _ open: (NetworkAddress) throws(KithError) -> Socket
    ) throws(KithError) -> [Socket] {
        var sockets: [Socket] = []
        for address in addresses.dropFirst() {
            var address = address
            address.port = port ?? 0
            do throws(KithError) {
                sockets.append(try open(address))
            } catch {
                if error.code == .conflict { throw error }
            }
        }
        return sockets
    }
}

/// A listener of another device, and what arrived at it and was not yet taken up.
final class DeviceListener: Sendable {
    /// Something that arrived.
    enum Arrived: Sendable {
        case connection(StreamSocket)
        case partner(DatagramPartner)
    }

    /// The secret name of the listener, which nobody can guess.
    let token: [UInt8] = (0..<16).map { _ in .random(in: .min ... .max) }
    let caller: Caller
    private let waiting = Mutex<(last: UInt64, arrived: [UInt64: Arrived])>((0, [:]))

    /// The most that may wait to be taken up; more wait in the system's queue, or are not heard.
    static let waitingLimit = 128

    init(caller: Caller) { self.caller = caller }

    /// True while there is room for one more.
    var hasRoom: Bool { waiting.withLock { $0.arrived.count < Self.waitingLimit } }

    /// Keeps what arrived; returns its number.
    func put(_ arrived: Arrived) -> UInt64 {
        waiting.withLock { waiting in
            waiting.last += 1
            waiting.arrived[waiting.last] = arrived
            return waiting.last
        }
    }

    /// Takes it, once.
    func take(_ number: UInt64) -> Arrived? { waiting.withLock { $0.arrived.removeValue(forKey: number) } }
}

extension ForwardService {
    func listen(
        _ input: Forward.Listen.Input, _ context: CallContext, _ pending: PendingStream<Forward.Listen>
    ) async throws {
        let shown = "\(input.transport.rawValue) \(input.at)"
        let call = try core.enter(context, Forward.Listen.name, shown, limit: options.limitPerCaller)
        defer { core.leave(call) }
        let permission = GrantedPermission(context)
        if let addresses = try Listening.addresses(of: input.at) {
            try permission.checkListening(at: addresses, input.at)
        } else if case .socket(let path) = input.at {
            try permission.checkListening(atSocket: path)
        }
        let listening = try Listening.open(
            input.at, input.transport, on: try core.connector().reactor, protecting: context.foreignProtection)
        let listener = DeviceListener(caller: context.caller)
        core.add(listener)
        defer { core.remove(listener) }
        let stream = try await pending.accept(
            Forward.Listen.Output(listener: ByteString(listener.token), endpoints: listening.endpoints))
        try await announce(listening, listener, over: stream)
    }

    /// Tells the caller of what arrives, until it ends the stream.
    private func announce(
        _ listening: Listening, _ listener: DeviceListener, over stream: MethodStream<Nothing, Forward.Arrival>
    ) async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Forward.Arrival.self)
        let (expiries, expiry) = AsyncStream.makeStream(of: UInt64.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            @Sendable func announce(_ arrived: DeviceListener.Arrived, from: NetworkAddress?) {
                let number = listener.put(arrived)
                arrival.yield(Forward.Arrival(number: number, from: from))
                expiry.yield(number)
            }
            switch listening {
            case .connections(let listeners):
                for socket in listeners {
                    group.addTask {
                        while true {
                            while !listener.hasRoom { try await options.clock.sleep(for: .milliseconds(20)) }
                            let (connection, from) = try await socket.accept()
                            announce(.connection(connection), from: from)
                        }
                    }
                }
            case .datagrams(let sockets):
                let datagrams = DatagramListener(sockets)
                group.addTask {
                    try await datagrams.run { partner in
                        guard listener.hasRoom else { return partner.close() }
                        announce(.partner(partner), from: partner.address)
                    }
                }
            }
            group.addTask {
                for await arrival in arrivals { try await stream.send(arrival) }
                try Task.checkCancellation()
            }
            group.addTask {
                await withDiscardingTaskGroup { waits in
                    for await number in expiries {
                        waits.addTask {
                            // Ends early only when all ends.
                            try? await options.clock.sleep(for: options.arrivalPatience)
                            if case .partner(let partner) = listener.take(number) { partner.close() }
                        }
                    }
                    waits.cancelAll()
                }
                try Task.checkCancellation()
            }
            group.addTask {
                // The caller has nothing to say but that it has had enough.
                try await stream.end()
            }
            try await group.next()
        }
    }

    func accept(
        _ input: Forward.Accept.Input, _ context: CallContext, _ pending: PendingStream<Forward.Accept>
    ) async throws {
        guard let listener = core.listener(input.listener.bytes), Core.isSame(listener.caller, context.caller),
            let arrived = listener.take(input.number)
        else {
            throw KithError(
                .notFound,
                "No connection of that number waits at the listener: it was accepted, or has waited too long.")
        }
        let from: String
        switch arrived {
        case .connection: from = "\(input.number)"
        case .partner(let partner): from = "\(partner.address)"
        }
        // What it sends next would reach nobody, and is to make it a new one.
        var isTaken = false
        defer { if !isTaken, case .partner(let partner) = arrived { partner.close() } }
        let call = try core.enter(context, Forward.Accept.name, from, limit: options.limitPerCaller)
        defer { core.leave(call) }
        let stream = try await pending.accept().bytes
        isTaken = true
        switch arrived {
        case .connection(let socket):
            try await splice(ForwardStream(stream, room: core.room), socket) { count, isSent in
                if isSent { call.traffic.sent(count) } else { call.traffic.received(count) }
            }
        case .partner(let partner):
            try await partner.carry(over: stream, idle: options.datagramIdle, on: options.clock, traffic: call.traffic)
        }
    }
}
