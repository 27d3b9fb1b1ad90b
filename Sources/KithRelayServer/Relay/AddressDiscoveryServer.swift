import KithIdentity
import KithNet
package import KithQUIC
package import KithWire
package import Logging

/// Tells clients over QUIC from where it sees them: iroh's QAD, `/iroh-qad/0`
/// (draft-ietf-quic-address-discovery).
///
/// It asks nobody who they are, takes no stream and no datagram, and forgets a client that is silent for 35 seconds.
/// What one address may have is bounded.
package final class AddressDiscoveryServer: Sendable {
    /// The bounds.
    package struct Limits: Sendable {
        /// The most connections of one address: of IPv4, or a /64 of IPv6.
        package var perHost = 16
        /// The most connections in all.
        package var all = 4_096

        /// The usual ones.
        package init() {}
    }

    private let endpoint: Endpoint
    private let limits: Limits
    private let accepting: Task<Void, Never>

    /// The address at which it answers.
    package let address: NetworkAddress

    /// The connections that are open now.
    package var connectionCount: Int { endpoint.connections.count }

    /// Starts one.
    ///
    /// - Parameters:
    ///   - address: where it listens; the address that stands for every other listens at those of both families.
    ///   - credentials: what it shows, best first; its own certificate for a key of its own where it has none.
    ///   - limits: its bounds.
    ///   - logger: where faults go.
    ///   - accepted: called for each client.
    /// - Returns: the server, which answers already.
    /// - Throws: `KithError` `.conflict` when the port is taken, `.denied` or `.invalid` as ``Endpoint`` says.
    package static func open(
        at address: NetworkAddress, credentials: [Credential] = [], limits: Limits = Limits(), logger: Logger,
        accepted: @escaping @Sendable () -> Void = {}
    ) async throws(KithError) -> AddressDiscoveryServer {
        var options = Endpoint.Options()
        options.port = address.port
        if !address.isUnspecified { options.bindAddresses = [address] }
        options.alpn = [AddressDiscovery.alpn]
        options.idleTimeout = AddressDiscovery.idleTimeout
        options.keepAlive = nil
        options.maxIncomingStreams = 0
        options.maxConnections = limits.all
        options.earlyData = false
        options.foreign = .acceptCertificates
        options.admit = { _, _ in .refused }
        options.socketBuffer = 256 << 10
        // Nothing large is ever sent: no need to look for what a path carries.
        options.udpPayloadSize = 1_200
        options.adjust = { configuration in
            if !credentials.isEmpty { configuration.credentials = credentials }
            configuration.addressDiscovery = .reports
            configuration.eitherEndMoves = false
            configuration.maxDatagramFrameSize = 0
            configuration.maxIncomingUnidirectionalStreams = 0
            configuration.maxPaths = 2
        }
        let endpoint = try await Endpoint.bind(key: DeviceKey(), options: options, logger: logger)
        return AddressDiscoveryServer(endpoint, at: address, limits, accepted)
    }

    private init(
        _ endpoint: Endpoint, at address: NetworkAddress, _ limits: Limits, _ accepted: @escaping @Sendable () -> Void
    ) {
        (self.endpoint, self.limits) = (endpoint, limits)
        var address = address
        address.port = endpoint.port
        self.address = address
        // Ends with the endpoint.
        accepting = Task(name: "kith qad") { [established = endpoint.established] in
            var hosts = HostConnections()
            for await connection in established {
                guard hosts.add(connection, limit: limits.perHost) else {
                    connection.close(code: .exhausted, reason: "too many connections of this address")
                    continue
                }
                accepted()
            }
        }
    }

    /// Shows other credentials to clients that come from now on.
    package func use(_ credentials: [Credential]) { endpoint.use(credentials) }

    /// Shows a certificate that an authority gave to clients that come from now on.
    func use(_ certificate: RelayCertificate) {
        let (chain, key) = certificate.der
        use([.certificate(chain: chain, privateKey: key)])
    }

    /// Ends it.
    package func close() async {
        await endpoint.shutdown()
        await accepting.value
    }
}

/// The connections of each address.
private struct HostConnections {
    private var hosts: [[UInt8]: [Connection]] = [:]
    /// Those that have ended are forgotten when there are so many addresses.
    private var sweepAbove = 256

    /// Keeps one more; false when its address has as many as it may.
    mutating func add(_ connection: Connection, limit: Int) -> Bool {
        guard let host = connection.firstAddress?.networkPrefix else { return false }
        if hosts.count > sweepAbove {
            hosts = hosts.compactMapValues { connections in
                let open = connections.filter(\.isOpen)
                return open.isEmpty ? nil : open
            }
            sweepAbove = max(256, 2 * hosts.count)
        }
        var open = hosts[host, default: []].filter(\.isOpen)
        let isAllowed = open.count < limit
        if isAllowed { open.append(connection) }
        hosts[host] = open
        return isAllowed
    }
}

extension RelayServerOptions {
    /// What the relay shows to clients of QUIC: its certificate, or its key.
    var credentials: [Credential] {
        get throws(KithError) {
            if let certificate { return [try CertificateFiles(certificate).read().credential()] }
            guard let identity else { return [] }
            return [
                .rawPublicKey(seed: identity.secret),
                .x509(chain: [try SelfSignedCertificate.make(for: identity, days: 3_650)], seed: identity.secret),
            ]
        }
    }
}
