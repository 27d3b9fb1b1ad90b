import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire

/// Opens connections from this device.
struct Connector: Sendable {
    let reactor: Reactor
    let resolver: Resolver
    /// Which sockets are not connected to; `nil`: for this device's own person.
    var protection: ProtectedFiles?
    var clock: any Ticker = ContinuousClock()

    /// The outcome of an attempt.
    struct Connection: Sendable {
        /// The answer for the caller.
        var opening: Forward.Opening
        /// The connection, when it stands.
        var stream: StreamSocket?
    }

    /// The time opening may take when the caller does not say.
    static let patience = Duration.seconds(30)

    /// Opens a connection on behalf of somebody.
    ///
    /// - Throws: `.denied` when nothing of it is allowed, `.invalid` for an endpoint nobody can connect to, `.exhausted` at a
    ///   limit, `CancellationError`. What the host or the network answers is not an error.
    func connect(
        to endpoint: Forward.Endpoint, permission: some ForwardPermission, deadline: ContinuousClock.Instant? = nil
    ) async throws -> Connection {
        try endpoint.checkAsTarget()
        let now = clock.now
        let limit = min(deadline ?? now + Self.patience, now + Self.patience * 4)
        do {
            return try await withDeadline(limit, on: clock) {
                switch endpoint {
                case .socket(let path):
                    try permission.checkSocket(path)
                    return try await self.connect(path: path)
                default:
                    let addresses = try await self.addresses(of: endpoint, permission: permission)
                    guard !addresses.isEmpty else {
                        return Connection(
                            opening: Forward.Opening(outcome: .notFound, message: "\(endpoint) has no address there."))
                    }
                    let connection = try await self.race(to: addresses, endpoint)
                    if case .address(let address) = connection.opening.address {
                        try permission.check(address, of: endpoint)
                    }
                    return connection
                }
            }
        } catch let error as KithError where error.code == .timedOut {
            return Connection(
                opening: Forward.Opening(outcome: .timedOut, message: "\(endpoint) did not answer in time."))
        }
    }

    /// The addresses of an endpoint that may be used; none when it has none.
    func addresses(of endpoint: Forward.Endpoint, permission: some ForwardPermission) async throws -> [NetworkAddress] {
        switch endpoint {
        case .address(let address):
            return try permission.allowed([address], of: endpoint)
        case .name(let name, let port):
            try permission.checkName(name, port: port)
            let found: [NetworkAddress]
            do {
                found = try await resolver.addresses(of: name, port: port, for: permission.caller)
            } catch is SystemError {
                return []
            }
            let usable = found.filter { !$0.isUnspecified && $0.port != 0 }
            return usable.isEmpty ? [] : try permission.allowed(usable, of: endpoint)
        case .every, .socket:
            return []
        }
    }

    /// Tries the addresses as RFC 8305 says.
    private func race(to addresses: [NetworkAddress], _ endpoint: Forward.Endpoint) async throws -> Connection {
        enum Event: Sendable {
            case outcome(NetworkAddress, Result<StreamSocket, any Error>)
            case tick
        }
        return try await withThrowingTaskGroup(of: Event.self) { group in
            defer { group.cancelAll() }
            var engine = HappyEyeballs(addresses)
            var armed: ContinuousClock.Instant?
            var worst: Forward.Opening?
            while true {
                try Task.checkCancellation()
                switch engine.action(at: clock.now) {
                case .attempt(let address):
                    group.addTask { .outcome(address, await Self.catching { try await self.attempt(address) }) }
                case .wait(let until):
                    if let until, until != armed {
                        armed = until
                        group.addTask {
                            try? await clock.sleep(until: until, tolerance: nil)  // ends early only when cancelled
                            return .tick
                        }
                    }
                    switch try await group.next() {
                    case .outcome(let address, .success(let stream)):
                        return Connection(
                            opening: Forward.Opening(outcome: .connected, address: .address(address)), stream: stream)
                    case .outcome(let address, .failure(let error)):
                        let opening = try Self.opening(error, .address(address))
                        // A host that refuses says more than one that is silent.
                        if worst?.outcome != .refused { worst = opening }
                        engine.attemptFailed()
                    case .tick, nil: break
                    }
                case .failed:
                    return Connection(
                        opening: worst
                            ?? Forward.Opening(outcome: .unreachable, message: "\(endpoint) cannot be reached."))
                }
            }
        }
    }

    private func attempt(_ address: NetworkAddress) async throws -> StreamSocket {
        var remote = kith_udp_address(address)
        let descriptor = unsafe kith_stream_connect(&remote)
        guard descriptor >= 0 else { throw SystemError(-descriptor) }
        let stream = try StreamSocket(owning: descriptor, on: reactor)
        try await stream.connected()
        return stream
    }

    private func connect(path: String) async throws -> Connection {
        let endpoint = Forward.Endpoint.socket(path: path)
        while true {
            let descriptor =
                if let protection {
                    unsafe protection.with { unsafe kith_protection_connect($0, path) }
                } else {
                    unsafe kith_stream_connect_path(path)
                }
            if descriptor >= 0 {
                return Connection(
                    opening: Forward.Opening(outcome: .connected, address: endpoint),
                    stream: try StreamSocket(owning: descriptor, on: reactor))
            }
            if descriptor == -Int32(KITH_ERROR_PROTECTED) { throw ProtectedFiles.refusal(of: endpoint) }
            let error = SystemError(-descriptor)
            // Its queue is full; there is nothing to be told by when it no longer is.
            guard error.isWouldBlock else { return Connection(opening: try Self.opening(error, endpoint)) }
            try await clock.sleep(for: .milliseconds(20))
        }
    }

    private static func catching(
        _ body: () async throws -> StreamSocket
    ) async -> Result<StreamSocket, any Error> {
        do { return .success(try await body()) } catch { return .failure(error) }
    }

    /// The answer to a caller about a failure; one of ours is thrown.
    static func opening(_ error: any Error, _ endpoint: Forward.Endpoint) throws -> Forward.Opening {
        guard let error = error as? SystemError else { throw error }
        switch error.number {
        case ECONNREFUSED, ECONNRESET, EACCES, EPERM:
            return Forward.Opening(outcome: .refused, address: endpoint, message: "\(endpoint) refused: \(error).")
        case ETIMEDOUT:
            return Forward.Opening(
                outcome: .timedOut, address: endpoint, message: "\(endpoint) did not answer in time.")
        case EMFILE, ENFILE, ENOBUFS, ENOMEM:
            throw KithError(
                .exhausted,
                "Cannot connect to \(endpoint): the device can open no more connections (\(error)). Close some.")
        default:
            return Forward.Opening(
                outcome: .unreachable, address: endpoint, message: "\(endpoint) cannot be reached: \(error).")
        }
    }
}

extension Forward.Endpoint {
    /// Refuses what nobody can connect to.
    func checkAsTarget() throws(KithError) {
        switch self {
        case .every: throw KithError(.invalid, "Cannot connect to \(self): name a host.")
        case .address(let address) where address.isUnspecified:
            throw KithError(.invalid, "Cannot connect to \(self): it stands for no one host.")
        default: break
        }
        if port == 0 { throw KithError(.invalid, "Cannot connect to \(self): give a port from 1 to 65535.") }
    }
}

/// The endpoints somebody may connect to.
protocol ForwardPermission: Sendable {
    /// Whom lookups are counted for.
    var caller: String { get }
    /// Refuses a Unix socket.
    func checkSocket(_ path: String) throws
    /// Refuses a name that no grant could allow, before anybody is asked for it.
    func checkName(_ name: String, port: UInt16) throws
    /// Those of the addresses that may be used, which is at least one.
    func allowed(_ addresses: [NetworkAddress], of endpoint: Forward.Endpoint) throws -> [NetworkAddress]
    /// Refuses the address that was connected to, unless the grants still allow it.
    func check(_ address: NetworkAddress, of endpoint: Forward.Endpoint) throws
}

/// The device's own person may connect to anything.
struct OwnersPermission: ForwardPermission {
    var caller: String { "" }
    func checkSocket(_ path: String) {}
    func checkName(_ name: String, port: UInt16) {}
    func allowed(_ addresses: [NetworkAddress], of endpoint: Forward.Endpoint) -> [NetworkAddress] { addresses }
    func check(_ address: NetworkAddress, of endpoint: Forward.Endpoint) {}
}
