import NIOCore
import NIOHTTP1

/// Closes a connection whose head of a request, or the next part of whose body, does not come.
final class RequestPatience: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The time for the head of the first request.
    static let head = TimeAmount.seconds(10)
    /// The time from an answer to the head of the next request.
    static let idle = TimeAmount.seconds(60)
    /// The time for the next part of a body that is waited for.
    static let part = TimeAmount.seconds(60)

    private var timer: Scheduled<Void>?
    /// True between the head of a request and its end.
    private var isInBody = false

    func handlerAdded(context: ChannelHandlerContext) { wait(Self.head, context) }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        timer?.cancel()
        switch unwrapInboundIn(data) {
        case .head, .body: isInBody = true
        case .end: isInBody = false
        }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        // Whoever does not read is not waiting for the other end.
        if isInBody { wait(Self.part, context) }
        context.read()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { wait(Self.idle, context) }
        context.write(data, promise: promise)
    }

    private func wait(_ time: TimeAmount, _ context: ChannelHandlerContext) {
        timer?.cancel()
        let channel = context.channel
        timer = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
    }
}

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
