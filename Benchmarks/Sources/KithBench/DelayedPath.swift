import KithWire
import NIOCore
import NIOPosix

/// A way to a server on loopback that takes a while in each direction, and may lose and reorder, for one client.
final class DelayedPath: Sendable {
    /// Where the client dials.
    let address: NetworkAddress
    private let group: MultiThreadedEventLoopGroup
    private let near: any Channel
    private let far: any Channel

    /// Opens a way to the server on `port` that loses the share `loss` of the packets, and lets the share `late` arrive
    /// behind those that were sent up to 10 ms later.
    init(toPort port: UInt16, delay: Duration, loss: Double = 0, late: Double = 0) async throws {
        let delay = TimeAmount(delay)
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let ends = Ends(loss: loss, late: late)
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
        private let loss: Double
        private let late: Double
        /// The same losses each time.
        private var seed: UInt64 = 16

        init(loss: Double, late: Double) { (self.loss, self.late) = (loss, late) }

        private func happens(_ share: Double) -> Bool {
            guard share > 0 else { return false }
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Double(seed >> 11) / Double(1 << 53) < share
        }

        /// What the next packet takes longer; `nil`: it is lost.
        func fate() -> TimeAmount? {
            happens(loss) ? nil : happens(late) ? .milliseconds(10) : .zero
        }
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
            guard let more = ends.fate() else { return }
            context.eventLoop.scheduleTask(in: delay + more) {
                out.writeAndFlush(AddressedEnvelope(remoteAddress: to, data: envelope.data), promise: nil)
            }
        }
    }
}
