import Foundation
import KithNet
import KithReach
import KithWire
import NIOCore
import NIOHTTP1
import NIOWebSocket
import Synchronization

/// The upgrade of `GET /relay` to a WebSocket of the relay protocol.
final class RelayUpgrader: HTTPServerProtocolUpgrader, Sendable {
    let supportedProtocol = "websocket"
    let requiredUpgradeHeaders: [String] = []
    private let hub: RelayHub
    private let loop: RelayLoop
    private let socket: RelaySocket

    init(_ hub: RelayHub, _ loop: RelayLoop, _ socket: RelaySocket) {
        (self.hub, self.loop, self.socket) = (hub, loop, socket)
    }

    /// The reason a request for a WebSocket is not granted: it is answered with 400.
    struct Refusal: Error {}

    /// The version a request asks for, and the answer to its key; `nil` when it is not one of the relay protocol.
    static func opening(_ head: HTTPRequestHead) -> (version: RelayVersion, accept: String)? {
        guard head.method == .GET, head.version == .http1_1, head.uri.prefix(while: { $0 != "?" }) == "/relay",
            head.headers["upgrade"] == ["websocket"], head.headers["sec-websocket-version"] == ["13"],
            let key = head.headers["sec-websocket-key"].first, head.headers["sec-websocket-key"].count == 1,
            Base64.decode(key)?.count == 16,
            let version = RelayVersion.best(
                of: head.headers[canonicalForm: "sec-websocket-protocol"].joined(separator: ","))
        else { return nil }
        return (version, WebSocketInbox.accept(key))
    }

    /// The token a request shows: `Authorization: Bearer TOKEN`, or for browsers `?token=TOKEN`.
    static func token(_ head: HTTPRequestHead) -> String? {
        if let header = head.headers.first(name: "authorization") {
            let parts = header.split(separator: " ", maxSplits: 1)
            return parts.count == 2 && parts[0].lowercased() == "bearer" ? String(parts[1]) : nil
        }
        let query = head.uri.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        return query.split(separator: "&").first { $0.hasPrefix("token=") }
            .flatMap { String($0.dropFirst(6)).removingPercentEncoding }
    }

    func buildUpgradeResponse(
        channel: any Channel, upgradeRequest: HTTPRequestHead, initialResponseHeaders: HTTPHeaders
    ) -> EventLoopFuture<HTTPHeaders> {
        guard let (version, accept) = Self.opening(upgradeRequest) else {
            return channel.eventLoop.makeFailedFuture(Refusal())
        }
        var headers = initialResponseHeaders
        headers.replaceOrAdd(name: "upgrade", value: "websocket")
        headers.add(name: "sec-websocket-accept", value: accept)
        headers.add(name: "sec-websocket-protocol", value: version.name)
        return channel.eventLoop.makeSucceededFuture(headers)
    }

    func upgrade(context: ChannelHandlerContext, upgradeRequest: HTTPRequestHead) -> EventLoopFuture<Void> {
        context.eventLoop.makeCompletedFuture {
            guard let version = Self.opening(upgradeRequest)?.version else { throw Refusal() }
            let pipeline = context.pipeline.syncOperations
            if let pages = try? pipeline.handler(type: RelayPages.self) { pipeline.removeHandler(pages, promise: nil) }
            let reader = RelayFrameReader(maxFrameSize: RelayFrame.maxLength)
            try pipeline.addHandler(reader)
            try pipeline.addHandler(
                RelayClientHandler(
                    hub, loop, socket, reader, version, token: Self.token(upgradeRequest),
                    times: .asked(
                        upgradeRequest.headers[RelayKeepAlive.Times.header], usual: hub.options.keepAlive,
                        saving: hub.options.savingKeepAlive)))
        }
    }
}

extension HTTPRequestHead {
    /// Indicates whether a proxy says that it asks for somebody else, who may be anywhere.
    var isForwarded: Bool {
        ["x-forwarded-for", "forwarded", "x-real-ip", "via"].contains { headers.contains(name: $0) }
    }
}

/// The pages of a relay: one request, one answer, the end.
final class RelayPages: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// An answer.
    struct Page: Hashable {
        var status: HTTPResponseStatus
        var text = ""
        var type = "text/plain; charset=utf-8"
        var headers: [String: String] = [:]
    }

    private let answer: (_ request: HTTPRequestHead, _ isLocal: Bool) -> Page
    private var head: HTTPRequestHead?

    /// Answers with what `answer` says; `isLocal` is true for requests of this machine.
    init(_ answer: @escaping (_ request: HTTPRequestHead, _ isLocal: Bool) -> Page) { self.answer = answer }

    /// Answers with the pages of a relay.
    convenience init(_ hub: RelayHub) {
        self.init { Self.page(for: $0, hub, showsMetrics: $1 || hub.options.showsMetrics) }
    }

    // A request that asks for a WebSocket wrongly is answered like any other.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if !(error is RelayUpgrader.Refusal) { context.close(promise: nil) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body: break  // no page takes one
        case .end:
            guard let head else { return }
            self.head = nil
            let isFromHere = context.remoteAddress.flatMap(NetworkAddress.init)?.isLoopback ?? false
            send(answer(head, isFromHere && !head.isForwarded), head, context)
        }
    }

    /// The answer to a request.
    static func page(for head: HTTPRequestHead, _ hub: RelayHub, showsMetrics: Bool) -> Page {
        let path = head.uri.prefix { $0 != "?" }
        if path == "/relay" {
            return Page(status: .badRequest, text: "A relay: WebSocket with iroh-relay-v1 or -v2.\n")
        }
        guard head.method == .GET || head.method == .HEAD else { return Page(status: .methodNotAllowed) }
        switch path {
        case "/": return Page(status: .ok, text: "A relay of Kith.\n")
        case "/ping": return Page(status: .ok, text: "pong\n", headers: ["access-control-allow-origin": "*"])
        case "/healthz":
            let clients = hub.counters.clients.load(ordering: .relaxed)
            let text = showsMetrics ? #"{"status":"ok","clients":\#(clients)}"# : #"{"status":"ok"}"#
            return Page(status: .ok, text: text + "\n", type: "application/json")
        case "/generate_204": return portal(head)
        case "/metrics" where showsMetrics:
            return Page(status: .ok, text: hub.counters.text, type: "text/plain; version=0.0.4; charset=utf-8")
        default: return Page(status: .notFound)
        }
    }

    /// The page that devices ask for to see that no portal stands between them and the internet.
    private static func portal(_ head: HTTPRequestHead) -> Page {
        guard let challenge = head.headers.first(name: "x-iroh-challenge"), isChallenge(challenge) else {
            return Page(status: .noContent)
        }
        return Page(status: .noContent, headers: ["x-iroh-response": "response \(challenge)"])
    }

    /// The answer to a request at port 80: what an authority looks for, and the page for portals.
    static func plainPage(for head: HTTPRequestHead, _ challenges: ChallengeTable) -> Page {
        guard head.method == .GET || head.method == .HEAD else { return Page(status: .methodNotAllowed) }
        let path = head.uri.prefix { $0 != "?" }
        if path == "/generate_204" { return portal(head) }
        let folder = "/.well-known/acme-challenge/"
        guard path.hasPrefix(folder), let text = challenges.answer(to: path.dropFirst(folder.count)) else {
            return Page(status: .notFound)
        }
        return Page(status: .ok, text: text, type: "application/octet-stream")
    }

    /// Fewer than 64 letters, digits, dots, hyphens and underscores: nothing else is sent back.
    static func isChallenge(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count < 64
            && text.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || [45, 46, 95].contains(byte)
            }
    }

    private func send(_ page: Page, _ request: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let channel = context.channel
        let body = ByteBuffer(string: page.text)
        var headers: HTTPHeaders = [
            "cache-control": "no-store", "connection": "close", "x-content-type-options": "nosniff",
        ]
        if page.status != .noContent {
            headers.add(name: "content-type", value: page.type)
            headers.add(name: "content-length", value: String(body.readableBytes))
        }
        for (name, value) in page.headers { headers.add(name: name, value: value) }
        let head = HTTPResponseHead(version: .http1_1, status: page.status, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if request.method != .HEAD, page.status != .noContent, body.readableBytes > 0 {
            context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}
