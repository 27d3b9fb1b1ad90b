import KithReach
import NIOCore

/// Has a proxy connect to the relay first: whoever stands behind it in the pipeline hears only of the tunnel.
final class ProxyTunnelHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var tunnel: ProxyTunnel
    private let proxy: ProxyServer
    private weak var driver: RelayClientDriver?
    private let attempt: Int
    private var isOver = false

    init(_ proxy: ProxyServer, to relay: RelayAddress, _ driver: RelayClientDriver, attempt: Int) {
        tunnel = ProxyTunnel(by: proxy, to: relay)
        (self.proxy, self.driver, self.attempt) = (proxy, driver, attempt)
    }

    func channelActive(context: ChannelHandlerContext) {
        // Nobody waits for it any more, and a wrong password counts each time it is sent.
        guard driver?.attempt == attempt else { return context.close(promise: nil) }
        // The others begin once they are connected to the relay.
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: tunnel.request)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        switch tunnel.received(Array(unwrapInboundIn(data).readableBytesView)) {
        case .wait: return
        case .open(let rest):
            isOver = true
            driver?.tunnelled(attempt: attempt)
            context.fireChannelActive()
            if !rest.isEmpty { context.fireChannelRead(wrapInboundOut(ByteBuffer(bytes: rest))) }
            context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
            return
        case .refused(let reason): driver?.failed(reason, attempt: attempt)
        case .signInRefused(let reason): driver?.signInRefused(reason, attempt: attempt)
        case .captive(let portal): driver?.isCaptive(of: portal, attempt: attempt)
        }
        isOver = true
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        if !isOver { driver?.failed("the proxy \(proxy) ends the connection without an answer", attempt: attempt) }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        driver?.failed("the connection to the proxy \(proxy) broke: \(NetworkFailure.words(error))", attempt: attempt)
        context.close(promise: nil)
    }
}
