import Foundation
import KithNet
public import KithWire
public import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import KithReach

/// A directory: devices put their signed records in, and whoever knows a device's key gets its record.
///
/// It needs not be trusted with what it says: records are signed. It learns who publishes, who asks for whom, and when;
/// it writes none of that down. Nobody can list what it holds.
public final class DirectoryServer: Sendable {
    /// Where a directory listens, and what it serves.
    public struct Options: Sendable {
        /// The folder of the records; not used with ``etcd``.
        public var folder: String
        /// Where the records are kept when several directories share them.
        package var etcd: EtcdOptions?
        /// The address of the HTTP server; port 0 is one that is free.
        public var address: NetworkAddress
        /// The name below which records are served over DNS; `nil` for HTTP alone.
        public var origin: String?
        /// The address of the DNS server, UDP and TCP; port 0 is one that is free.
        public var dnsAddress: NetworkAddress
        /// The addresses that are named as those of the DNS server; none when it is not said.
        public var publicAddresses: [NetworkAddress] = []
        /// The limits.
        public var limits = DirectoryLimits()
        /// The time in seconds since 1970.
        public var clock: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
        /// What is worth telling the operator.
        public var logger: Logger

        /// Makes options for a folder and an address.
        public init(
            folder: String, address: NetworkAddress, origin: String? = nil,
            dnsAddress: NetworkAddress = NetworkAddress(ipv4: 0, port: 53), logger: Logger
        ) {
            self.folder = folder
            self.address = address
            self.origin = origin
            self.dnsAddress = dnsAddress
            self.logger = logger
        }
    }

    /// The address of the HTTP server.
    public let address: NetworkAddress
    /// The address of the DNS server; `nil` when there is none.
    public let dnsAddress: NetworkAddress?

    let service: DirectoryService
    private let channels: [any Channel]
    private let group: MultiThreadedEventLoopGroup

    /// Opens the folder, and listens.
    ///
    /// - Throws: `KithError` `.conflict` when an address or the folder is taken, `.denied` when one of them is not
    ///   permitted, `.invalid` for a name that is none, `.corrupt` for a damaged database.
    public static func open(_ options: Options) async throws(KithError) -> DirectoryServer {
        var zone: DirectoryZone?
        if let origin = options.origin {
            var addresses = options.publicAddresses
            if addresses.isEmpty, !options.dnsAddress.isUnspecified { addresses = [options.dnsAddress] }
            guard let name = DNSName(origin), let made = DirectoryZone(origin: name, addresses: addresses) else {
                throw KithError(.invalid, "\(origin) is not a domain name with room for keys below it.")
            }
            zone = made
        }
        let store: any RecordStorage =
            if let etcd = options.etcd {
                try EtcdRecordStore(etcd, limits: options.limits, logger: options.logger, clock: options.clock)
            } else {
                try RecordStore(
                    folder: options.folder, limits: options.limits, logger: options.logger, clock: options.clock)
            }
        let service = DirectoryService(store, limits: options.limits)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: System.coreCount)
        var channels: [any Channel] = []
        do throws(KithError) {
            let pages = try await Self.listen(at: options.address, "--listen") { address in
                try await Self.pages(service, on: group).bind(to: address).get()
            }
            channels.append(pages)
            var dnsAddress: NetworkAddress?
            if let zone {
                let (stream, datagrams, bound) = try await Self.listen(to: service, zone, options.dnsAddress, on: group)
                channels += [stream, datagrams]
                dnsAddress = bound
            }
            _ = pages.eventLoop.scheduleRepeatedTask(initialDelay: .minutes(1), delay: .minutes(10)) { _ in
                store.expire()
            }
            return DirectoryServer(
                NetworkAddress(pages.localAddress) ?? options.address, dnsAddress, service, channels, group)
        } catch {
            await Self.close(channels, group, store)
            throw error
        }
    }

    private init(
        _ address: NetworkAddress, _ dnsAddress: NetworkAddress?, _ service: DirectoryService,
        _ channels: [any Channel], _ group: MultiThreadedEventLoopGroup
    ) {
        self.address = address
        self.dnsAddress = dnsAddress
        self.service = service
        self.channels = channels
        self.group = group
    }

    /// The number of records it holds.
    public var recordCount: Int { service.store.count }

    /// False until it is known which records there are, as at first with etcd.
    package var isComplete: Bool { service.store.isComplete }

    /// The reason that new records are not kept now; `nil` when they are.
    package var failure: String? {
        switch service.store.health {
        case .good: nil
        case .degraded(let reason), .failing(let reason): reason
        }
    }

    /// Ends all connections, and returns once everything is on disk.
    public func close() async { await Self.close(channels, group, service.store) }

    private static func close(
        _ channels: [any Channel], _ group: MultiThreadedEventLoopGroup, _ store: any RecordStorage
    ) async {
        for channel in channels { try? await channel.close() }  // closed already: as wanted
        // Those who wait for a record to be kept are told, so their event loops are still needed.
        await store.close()
        try? await group.shutdownGracefully()  // nothing can be done about an event loop that does not end
    }

    // MARK: - Listening

    /// Listens to questions of DNS over TCP and over UDP, at one port.
    ///
    /// One that the system chose for the one may be taken for the other: then it chooses again.
    private static func listen(
        to service: DirectoryService, _ zone: DirectoryZone, _ address: NetworkAddress,
        on group: MultiThreadedEventLoopGroup
    ) async throws(KithError) -> (stream: any Channel, datagrams: any Channel, address: NetworkAddress) {
        var attempts = address.port == 0 ? 8 : 1
        while true {
            let stream = try await listen(at: address, "--dns") { address in
                try await streams(service, zone, on: group).bind(to: address).get()
            }
            let bound = NetworkAddress(stream.localAddress) ?? address
            attempts -= 1
            do throws(KithError) {
                let datagrams = try await listen(at: bound, "--dns") { address in
                    try await DatagramBootstrap(group: group)
                        .channelInitializer { channel in
                            channel.eventLoop.makeCompletedFuture {
                                try channel.pipeline.syncOperations.addHandler(DirectoryDatagramHandler(service, zone))
                            }
                        }
                        .bind(to: address).get()
                }
                return (stream, datagrams, bound)
            } catch {
                try? await stream.close()  // it is closed, then
                guard error.code == .conflict, attempts > 0 else { throw error }
            }
        }
    }

    private static func listen(
        at address: NetworkAddress, _ option: String, _ bind: (SocketAddress) async throws -> any Channel
    ) async throws(KithError) -> any Channel {
        do {
            return try await bind(try address.socketAddress)
        } catch {
            let number = (error as? IOError)?.errnoCode
            switch number {
            case EADDRINUSE:
                throw KithError(
                    .conflict,
                    "Another program listens at \(address). Stop it, or choose another address with \(option).",
                    cause: error)
            case EACCES, EPERM:
                throw KithError(
                    .denied,
                    "Listening at \(address) is not permitted: ports below 1024 are for the administrator. Choose another "
                        + "address with \(option).", cause: error)
            case EADDRNOTAVAIL:
                throw KithError(
                    .invalid, "\(address) is not an address of this machine. Choose another with \(option).",
                    cause: error)
            default:
                throw KithError(
                    .internal, "Could not listen at \(address): \(NetworkFailure.words(error)).", cause: error)
            }
        }
    }

    /// A server each of whose connections is counted, and is given what `setUp` adds.
    private static func server(
        _ service: DirectoryService, byDNS: Bool = false, on group: MultiThreadedEventLoopGroup,
        _ setUp: @escaping @Sendable (ChannelPipeline.SynchronousOperations, NetworkAddress) throws -> Void
    ) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1_024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                guard let peer = NetworkAddress(channel.remoteAddress), service.connected(peer, byDNS: byDNS) else {
                    return channel.close()
                }
                channel.closeFuture.whenComplete { _ in service.disconnected(peer, byDNS: byDNS) }
                return channel.eventLoop.makeCompletedFuture { try setUp(channel.pipeline.syncOperations, peer) }
            }
    }

    private static func pages(
        _ service: DirectoryService, on group: MultiThreadedEventLoopGroup
    ) -> ServerBootstrap {
        server(service, on: group) { pipeline, peer in
            try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: true, withErrorHandling: true)
            try pipeline.addHandler(DirectoryHandler(service, peer: peer))
        }
    }

    private static func streams(
        _ service: DirectoryService, _ zone: DirectoryZone, on group: MultiThreadedEventLoopGroup
    ) -> ServerBootstrap {
        server(service, byDNS: true, on: group) { pipeline, peer in
            try pipeline.addHandler(DirectoryStreamHandler(service, zone, peer: peer))
        }
    }
}
