import KithAPI
import KithIdentity
import KithNet
import KithWire
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Synchronization

/// What the door needs of the device that it belongs to.
struct WebHost: Sendable {
    /// The device's key, and its name.
    var id: DeviceID
    var name: String
    /// Signs with the device's key.
    var sign: @Sendable ([UInt8]) throws(KithError) -> [UInt8]
    /// Calls as the device's own person.
    var client: Client
    /// Serves a caller at one end of a pair of sockets.
    var serve: @Sendable (Int32) async throws -> Void
    /// Who may use the page.
    var browsers: WebBrowsers
    /// The links that let one in.
    var links: LinkBox
    var ticker: any Ticker
    var logger: Logger
}

/// The door for browsers: it listens at this machine's own addresses, at one port.
final class WebDoor: Sendable {
    let host: WebHost
    let names: WebNames
    let files: PageFiles
    let guests: WebGuests
    let connections = WebConnections()
    let uploads = UploadsUnderWay()

    private typealias Listener = NIOAsyncChannel<EventLoopFuture<WebConnection>, Never>
    private let listeners: Mutex<[any Channel]>
    private let running = Mutex<[Task<Void, Never>]>([])

    /// Begins to listen.
    ///
    /// - Throws: `KithError` `.conflict` when another program has the port.
    static func open(port: UInt16, host: WebHost, guests: WebGuests, files: PageFiles) async throws -> WebDoor {
        let names = WebNames(port: port, device: host.name, label: WebNames.newLabel())
        let door = WebDoor(host, names, guests, files)
        var listeners: [Listener] = []
        do {
            for address in [NetworkAddress(ipv4: (127, 0, 0, 1), port: port), NetworkAddress(ipv6: 0, 1, port: port)] {
                do {
                    listeners.append(try await door.listen(at: address))
                } catch let error as IOError
                    where address.isIPv6 && [EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT].contains(error.errnoCode)
                {
                    continue  // a machine without IPv6
                }
            }
        } catch {
            for listener in listeners { try? await listener.channel.close() }  // closed already: as wanted
            throw KithError(
                .conflict,
                "The page cannot be served at port \(port) of this machine: \(NetworkFailure.words(error)). "
                    + "Choose another port: kith web --port NUMBER, or kith up --web NUMBER",
                cause: error)
        }
        door.run(listeners)
        return door
    }

    private init(_ host: WebHost, _ names: WebNames, _ guests: WebGuests, _ files: PageFiles) {
        (self.host, self.names, self.guests, self.files) = (host, names, guests, files)
        listeners = Mutex([])
    }

    private func listen(at address: NetworkAddress) async throws -> Listener {
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 128)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 2_048, maximum: 256 << 10)
            )
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(
                .writeBufferWaterMark,
                value: ChannelOptions.Types.WriteBufferWaterMark(low: 64 << 10, high: 256 << 10))
        let place = try SocketAddress(packedIPAddress: ByteBuffer(bytes: address.ip), port: Int(address.port))
        return try await bootstrap.bind(to: place) { [self] channel in
            channel.eventLoop.makeCompletedFuture { try configure(channel) }
        }
    }

    private func run(_ listeners: [Listener]) {
        self.listeners.withLock { $0 = listeners.map(\.channel) }
        let tasks = listeners.map { listener in
            Task(name: "kith web") { [self] in
                do {
                    try await listener.executeThenClose { incoming in
                        try await withThrowingDiscardingTaskGroup { group in
                            for try await connection in incoming {
                                group.addTask { await self.serve(connection) }
                            }
                            group.cancelAll()
                        }
                    }
                } catch {
                    host.logger.debug("the page is not served any more", metadata: ["error": "\(error)"])
                }
            }
        }
        running.withLock { $0 = tasks }
    }

    /// Ends all connections, and listens no more.
    func close() async {
        for channel in listeners.withLock({ $0 }) { try? await channel.close() }  // closed already: as wanted
        guests.cutAll()
        connections.closeAll()
        for task in running.withLock({ $0 }) {
            task.cancel()
            await task.value
        }
    }

    // MARK: - Connections

    /// The limits of a request's head.
    private static var headLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        (limits.maxHeaderFieldSize, limits.maxHeaderListSize, limits.maxHeaderFieldCount) = (8 << 10, 32 << 10, 64)
        return limits
    }

    private func configure(_ channel: any Channel) throws -> EventLoopFuture<WebConnection> {
        guard let number = connections.enter(channel) else {
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
        }
        channel.closeFuture.whenComplete { [connections] _ in connections.leave(number) }
        let upgrader = NIOTypedWebSocketServerUpgrader<WebConnection>(
            maxFrameSize: PageConnection.messageLimit,
            // A frame that is against the rules ends the connection.
            enableAutomaticErrorHandling: true,
            shouldUpgrade: { channel, _ in
                // Others than those that may do not come here.
                channel.eventLoop.makeCompletedFuture {
                    // What comes after the head is no part of a request any more.
                    let pipeline = channel.pipeline.syncOperations
                    pipeline.removeHandler(try pipeline.handler(type: RequestGate.self), promise: nil)
                    return [:]
                }
            },
            upgradePipelineHandler: { [names] channel, head in
                channel.eventLoop.makeCompletedFuture {
                    guard case .socket(let origin) = try WebRoute(head, names: names) else {
                        throw ChannelError.inappropriateOperationForState
                    }
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(LoginMeter(), position: .first)
                    let socket = try NIOAsyncChannel<WebSocketFrame, WebSocketFrame>(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(
                            backPressureStrategy: .init(lowWatermark: 1, highWatermark: 2),
                            isOutboundHalfClosureEnabled: false))
                    return .page(socket, origin: origin, number)
                }
            })
        let upgrade = NIOTypedHTTPServerUpgradeConfiguration<WebConnection>(
            upgraders: [upgrader],
            notUpgradingCompletionHandler: { channel in
                channel.eventLoop.makeCompletedFuture {
                    let requests = try NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8)))
                    return .requests(requests, number)
                }
            })
        var configuration = NIOUpgradableHTTPServerPipelineConfiguration(upgradeConfiguration: upgrade)
        configuration.decoderConfiguration = Self.headLimits
        let pipeline = channel.pipeline.syncOperations
        let future = try pipeline.configureUpgradableHTTPServerPipeline(configuration: configuration)
        // It has to see requests and answers as they are.
        let handler = try pipeline.handler(type: HTTPServerProtocolErrorHandler.self)
        try pipeline.addHandler(RequestGate(names: names), position: .after(handler))
        return future
    }

    private func serve(_ connection: EventLoopFuture<WebConnection>) async {
        do {
            switch try await connection.get() {
            case .page(let socket, let origin, let number):
                await PageConnection(door: self, origin: origin, number: number).serve(socket)
            case .requests(let channel, let number):
                await RequestConnection(door: self, number: number).serve(channel)
            }
        } catch {
            // It ended before it had asked anything.
        }
    }
}

/// What a connection has become with its first request.
enum WebConnection: Sendable {
    case page(NIOAsyncChannel<WebSocketFrame, WebSocketFrame>, origin: String, UInt64)
    case requests(NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>, UInt64)
}

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
