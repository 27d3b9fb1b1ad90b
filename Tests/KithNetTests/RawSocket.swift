import KithNet
import NIOCore
import NIOPosix

/// A UDP socket that belongs to no connection.
final class RawSocket: Sendable {
    private let channel: any Channel
    private let server: SocketAddress
    private let inbox: Inbox

    /// Keeps what comes; `@unchecked Sendable`: touched on the event loop only.
    private final class Inbox: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = AddressedEnvelope<ByteBuffer>
        private(set) var datagrams: [[UInt8]] = []
        private let isKeeping: Bool
        private var waiter: EventLoopPromise<[UInt8]>?

        init(isKeeping: Bool = true) { self.isKeeping = isKeeping }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard isKeeping else { return }
            let bytes = Array(unwrapInboundIn(data).data.readableBytesView)
            if let waiter {
                self.waiter = nil
                waiter.succeed(bytes)
            } else {
                datagrams.append(bytes)
            }
        }

        func next(on loop: any EventLoop) -> EventLoopFuture<[UInt8]> {
            guard datagrams.isEmpty else { return loop.makeSucceededFuture(datagrams.removeFirst()) }
            let promise = loop.makePromise(of: [UInt8].self)
            waiter = promise
            return promise.futureResult
        }
    }

    private init(channel: any Channel, server: SocketAddress, inbox: Inbox) {
        self.channel = channel
        self.server = server
        self.inbox = inbox
    }

    /// Makes one at an address of the loopback that writes to `endpoint`, and keeps what comes unless told otherwise.
    static func to(_ endpoint: Endpoint, from host: String = "127.0.0.1", isKeeping: Bool = true) async throws
        -> RawSocket
    {
        let inbox = Inbox(isKeeping: isKeeping)
        let channel = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(inbox) }
            }
            .bind(host: host, port: 0).get()
        let server = try SocketAddress(ipAddress: "127.0.0.1", port: Int(endpoint.port))
        return RawSocket(channel: channel, server: server, inbox: inbox)
    }

    /// A socket that answers nobody.
    static func silent() async throws -> RawSocket {
        let inbox = Inbox()
        let channel = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(inbox) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return RawSocket(channel: channel, server: try SocketAddress(ipAddress: "127.0.0.1", port: 9), inbox: inbox)
    }

    /// Its own port.
    var port: UInt16 { UInt16(channel.localAddress?.port ?? 0) }

    func send(_ bytes: [UInt8]) async throws {
        let envelope = AddressedEnvelope(remoteAddress: server, data: ByteBuffer(bytes: bytes))
        try await channel.writeAndFlush(envelope)
    }

    /// Sends without waiting; what does not fit is dropped, as on any network.
    func spill(_ datagrams: [[UInt8]]) {
        for bytes in datagrams {
            channel.write(AddressedEnvelope(remoteAddress: server, data: ByteBuffer(bytes: bytes)), promise: nil)
        }
        channel.flush()
    }

    func next() async throws -> [UInt8] {
        try await channel.eventLoop.flatSubmit { self.inbox.next(on: self.channel.eventLoop) }.get()
    }

    func close() async throws { try await channel.close() }
}

func withRawSocket(to endpoint: Endpoint, _ body: (RawSocket) async throws -> Void) async throws {
    let raw = try await RawSocket.to(endpoint)
    do {
        try await body(raw)
    } catch {
        try await raw.close()
        throw error
    }
    try await raw.close()
}
