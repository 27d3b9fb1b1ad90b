import KithWire
import NIOCore
import NIOHTTP1
import Synchronization

/// The number of those that read the page.
final class Readers: Sendable {
    private let count = Mutex(0)

    /// Counts one more; false when there are too many.
    func enter() -> Bool {
        count.withLock { count in
            count += 1
            return count <= MetricsPage.readerLimit
        }
    }

    /// Notes that a reader has gone, admitted or not.
    func leave() { count.withLock { $0 -= 1 } }
}

/// One reader of the page: one request, one answer, the end.
final class PageHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let text: @Sendable () async -> String
    private var head: HTTPRequestHead?
    private var limit: Scheduled<Void>?

    init(_ text: @escaping @Sendable () async -> String) { self.text = text }

    func channelActive(context: ChannelHandlerContext) {
        let channel = context.channel
        limit = context.eventLoop.scheduleTask(in: MetricsPage.patience) { channel.close(promise: nil) }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        limit?.cancel()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): if self.head == nil { self.head = head }
        case .body: break  // nobody asked for one
        case .end: answer(context)
        }
    }

    private func answer(_ context: ChannelHandlerContext) {
        guard let head else { return }
        if let refusal = Self.refusal(of: head) {
            return Self.send(
                refusal.status, refusal.reason + "\n", "text/plain; charset=utf-8", head, on: context.channel)
        }
        let (text, channel) = (text, context.channel)
        context.eventLoop.makeFutureWithTask { await text() }.whenSuccess { text in
            Self.send(.ok, text, PrometheusMetrics.contentType, head, on: channel)
        }
    }

    /// The reason a request is not answered; `nil` for one that is.
    static func refusal(of head: HTTPRequestHead) -> (status: HTTPResponseStatus, reason: String)? {
        let host = head.headers["host"]
        // A browser could be made to read the page by another site's name that resolves to this address.
        guard host.count <= 1, host.allSatisfy(Self.isAddress) else {
            return (.misdirectedRequest, "Ask by the address, not by a name.")
        }
        guard head.method == .GET || head.method == .HEAD else { return (.methodNotAllowed, "Only GET is answered.") }
        guard head.uri.prefix(while: { $0 != "?" }) == "/metrics" else {
            return (.notFound, "There is nothing but /metrics.")
        }
        return nil
    }

    private static func isAddress(_ host: String) -> Bool {
        if host == "localhost" || host.hasPrefix("localhost:") { return true }
        return [host, "\(host):0"].contains { NetworkAddress($0) != nil }
    }

    private static func send(
        _ status: HTTPResponseStatus, _ text: String, _ type: String, _ request: HTTPRequestHead,
        on channel: any Channel
    ) {
        let body = ByteBuffer(string: text)
        let headers: HTTPHeaders = [
            "content-type": type, "content-length": String(body.readableBytes), "cache-control": "no-store",
            "x-content-type-options": "nosniff", "connection": "close",
        ]
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        channel.write(HTTPServerResponsePart.head(head), promise: nil)
        if request.method != .HEAD { channel.write(HTTPServerResponsePart.body(.byteBuffer(body)), promise: nil) }
        channel.writeAndFlush(HTTPServerResponsePart.end(nil)).whenComplete { _ in channel.close(promise: nil) }
    }
}
