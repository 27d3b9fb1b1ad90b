import NIOCore

/// Closes a WebSocket that sends more than a login takes, until it has signed in.
final class LoginMeter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The most bytes until then.
    static let limit = 16 << 10

    private var count = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        count += unwrapInboundIn(data).readableBytes
        guard count <= Self.limit else { return context.close(promise: nil) }
        context.fireChannelRead(data)
    }
}
