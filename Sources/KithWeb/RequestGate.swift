import KithWire
import NIOCore
import NIOHTTP1

/// The first that sees what a connection asks: it closes one whose head, or the next part of whose body, does not come, and
/// takes offers to upgrade away that are not to be taken, so that they are answered as what else they are.
final class RequestGate: ChannelDuplexHandler, RemovableChannelHandler {
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

    private let names: WebNames
    private var timer: Scheduled<Void>?
    /// True between the head of a request and its end.
    private var isInBody = false
    /// True once something came that is no request.
    private var isBroken = false

    init(names: WebNames) { self.names = names }

    func handlerAdded(context: ChannelHandlerContext) { wait(Self.head, context) }

    func handlerRemoved(context: ChannelHandlerContext) { timer?.cancel() }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        timer?.cancel()
        switch unwrapInboundIn(data) {
        case .head(var head):
            isInBody = true
            if !mayUpgrade(head) { head.headers.remove(name: "upgrade") }
            return context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body: isInBody = true
        case .end: isInBody = false
        }
        context.fireChannelRead(data)
    }

    private func mayUpgrade(_ head: HTTPRequestHead) -> Bool {
        let keys = head.headers["sec-websocket-key"]
        guard head.version == .http1_1, head.headers["sec-websocket-version"] == ["13"], keys.count == 1,
            Base64.decode(keys[0])?.count == 16,
            // A body would be read as frames, or waited for.
            head.headers["content-length"].allSatisfy({ $0 == "0" }), head.headers["transfer-encoding"].isEmpty,
            // A refusal is for who answers requests.
            case .socket? = try? WebRoute(head, names: names)
        else { return false }
        return true
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isBroken = true
        context.fireErrorCaught(error)
        // What follows something that is no request is nothing, either.
        context.close(promise: nil)
    }

    func read(context: ChannelHandlerContext) {
        // Whoever does not read is not waiting for the other end.
        if isInBody { wait(Self.part, context) }
        context.read()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        // Who has sent something that is no request has been told so; NIO takes no other answer after that.
        guard !isBroken else { return promise?.fail(ChannelError.ioOnClosedChannel) ?? () }
        if case .end = unwrapOutboundIn(data) { wait(Self.idle, context) }
        context.write(data, promise: promise)
    }

    private func wait(_ time: TimeAmount, _ context: ChannelHandlerContext) {
        timer?.cancel()
        let channel = context.channel
        timer = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
    }
}
