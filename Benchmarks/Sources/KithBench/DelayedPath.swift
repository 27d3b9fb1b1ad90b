import KithWire
import NIOCore
import NIOPosix

/// A way to a server on loopback that takes a while in each direction, for one client.
final class DelayedPath: Sendable {
    /// Where the client dials.
    let address: NetworkAddress
    private let group: MultiThreadedEventLoopGroup
    private let near: any Channel
    private let far: any Channel

    /// Opens a way to the server on `port`.
    init(toPort port: UInt16, delay: Duration) async throws {
        let delay = TimeAmount(delay)
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let ends = Ends()
        let server = try SocketAddress(ipAddress: "127.0.0.1", port: Int(port))
        near = try await DatagramBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    ends.near = channel
                    try channel.pipeline.syncOperations.addHandler(Forwarder(ends, delay, target: server))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        far = try await DatagramBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    ends.far = channel
                    try channel.pipeline.syncOperations.addHandler(Forwarder(ends, delay, target: nil))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        address = NetworkAddress(ipv4: (127, 0, 0, 1), port: UInt16(near.localAddress?.port ?? 0))
    }

    /// Closes it.
    func close() async throws {
        try await near.close()
        try await far.close()
        try await group.shutdownGracefully()
    }

    /// The two sockets, and where the client was last heard from; used on their one event loop.
    private final class Ends: @unchecked Sendable {
        var near: (any Channel)?
        var far: (any Channel)?
        var client: SocketAddress?
    }

    private final class Forwarder: ChannelInboundHandler {
        typealias InboundIn = AddressedEnvelope<ByteBuffer>

        private let ends: Ends
        private let delay: TimeAmount
        private let target: SocketAddress?

        /// Without a `target`, to the client.
        init(_ ends: Ends, _ delay: TimeAmount, target: SocketAddress?) {
            (self.ends, self.delay, self.target) = (ends, delay, target)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let envelope = unwrapInboundIn(data)
            if target != nil { ends.client = envelope.remoteAddress }
            guard let to = target ?? ends.client, let out = target == nil ? ends.near : ends.far else { return }
            context.eventLoop.scheduleTask(in: delay) {
                out.writeAndFlush(AddressedEnvelope(remoteAddress: to, data: envelope.data), promise: nil)
            }
        }
    }
}
