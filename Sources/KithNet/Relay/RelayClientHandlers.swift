import KithIdentity
import KithReach
import NIOCore
import NIOHTTP1
import NIOSSL
import NIOWebSocket

/// Asks for the WebSocket, and hears when that is refused.
final class RelayRequestHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let options: RelayClient.Options
    private weak var driver: RelayClientDriver?
    private let attempt: Int

    init(_ options: RelayClient.Options, _ driver: RelayClientDriver, attempt: Int) {
        (self.options, self.driver, self.attempt) = (options, driver, attempt)
    }

    /// The head of the request; what the upgrade needs is added by ``RelayClientUpgrader``.
    ///
    /// `silence` asks for rare pings (``RelayKeepAlive/Times/header``).
    static func head(for address: RelayAddress, token: String?, silence: String? = nil) -> HTTPRequestHead {
        let isDefault = address.port == RelayAddress.defaultPort(isSecure: address.isSecure)
        let host =
            (address.host.contains(":") ? "[\(address.host)]" : address.host) + (isDefault ? "" : ":\(address.port)")
        var headers: HTTPHeaders = ["Host": host]
        if let token, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
            headers.add(name: "Authorization", value: "Bearer \(token)")
        }
        if let silence { headers.add(name: RelayKeepAlive.Times.header, value: silence) }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: "/relay", headers: headers)
    }

    func channelActive(context: ChannelHandlerContext) {
        // Through a proxy this device connects to nobody but the proxy its person named, which may well be near; where
        // that connects to is for its own rules to bound.
        if options.refusesThisMachine, options.route == .direct, !context.channel.leadsElsewhere {
            driver?.failed("its name leads to this machine, or to its own link", attempt: attempt)
            return context.close(promise: nil)
        }
        let head = Self.head(
            for: options.address, token: options.token, silence: options.keepAlive.headerValue)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data) {
            driver?.refused(status: Int(head.status.code), attempt: attempt)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        driver?.failed(reason(error), attempt: attempt)
        context.close(promise: nil)
    }

    /// The words for an error, as a person needs them.
    private func reason(_ error: any Error) -> String {
        switch error {
        case NIOSSLError.handshakeFailed, is NIOSSLExtraError:
            options.address.pinnedKey == nil
                ? "its certificate is not trusted here, is for another name, or is not valid now; this device's clock may be wrong, too"
                : "what answers there does not have the key that its URL names"
        case is HTTPParserError: "what answers there is not a relay"
        default: NetworkFailure.words(error)
        }
    }
}

/// The upgrade of a client's connection to a WebSocket of the relay protocol.
final class RelayClientUpgrader: NIOHTTPClientProtocolUpgrader {
    let supportedProtocol = "websocket"
    let requiredUpgradeHeaders: [String] = []
    private weak var driver: RelayClientDriver?
    private let attempt: Int
    private let key = NIOWebSocketClientUpgrader.randomRequestKey()

    init(_ driver: RelayClientDriver, attempt: Int) { (self.driver, self.attempt) = (driver, attempt) }

    func addCustom(upgradeRequestHeaders: inout HTTPHeaders) {
        // iroh's server compares letter by letter.
        upgradeRequestHeaders.replaceOrAdd(name: "Connection", value: "Upgrade")
        upgradeRequestHeaders.replaceOrAdd(name: "Upgrade", value: "websocket")
        upgradeRequestHeaders.add(name: "Sec-WebSocket-Version", value: "13")
        upgradeRequestHeaders.add(name: "Sec-WebSocket-Key", value: key)
        upgradeRequestHeaders.add(name: "Sec-WebSocket-Protocol", value: RelayVersion.offer)
    }

    private func version(_ response: HTTPResponseHead) -> RelayVersion? {
        let names = response.headers["sec-websocket-protocol"]
        return names.count == 1 ? RelayVersion(name: names[0]) : nil
    }

    func shouldAllowUpgrade(upgradeResponse: HTTPResponseHead) -> Bool {
        upgradeResponse.headers["sec-websocket-accept"] == [WebSocketInbox.accept(key)]
            && upgradeResponse.headers["sec-websocket-extensions"].isEmpty && version(upgradeResponse) != nil
    }

    func upgrade(context: ChannelHandlerContext, upgradeResponse: HTTPResponseHead) -> EventLoopFuture<Void> {
        context.eventLoop.makeCompletedFuture {
            guard let driver, let version = version(upgradeResponse) else { return }
            let pipeline = context.pipeline.syncOperations
            if let request = try? pipeline.handler(type: RelayRequestHandler.self) {
                pipeline.removeHandler(request, promise: nil)
            }
            driver.upgraded(context.channel, version, attempt: attempt)
            try pipeline.addHandler(ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: RelayFrame.maxLength)))
            try pipeline.addHandler(RelayFrameHandler(driver, attempt: attempt))
        }
    }
}

/// Passes messages to the driver.
final class RelayFrameHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame

    private weak var driver: RelayClientDriver?
    private let attempt: Int
    private var inbox = WebSocketInbox(limit: RelayFrame.maxLength, expectsMask: false)

    init(_ driver: RelayClientDriver, attempt: Int) { (self.driver, self.attempt) = (driver, attempt) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        do {
            switch try inbox.received(unwrapInboundIn(data)) {
            case .message(let message): driver?.received(message, attempt: attempt)
            case .ping(let bytes): driver?.answer(ping: bytes, attempt: attempt)
            case .close: context.close(promise: nil)
            case .nothing: break
            }
        } catch {
            driver?.failed("it breaks the protocol: \(error)", attempt: attempt)
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { driver?.writable(attempt: attempt) }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        driver?.failed(NetworkFailure.words(error), attempt: attempt)
        context.close(promise: nil)
    }
}
