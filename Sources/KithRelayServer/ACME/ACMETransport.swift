import KithNet
import KithReach
import KithWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// The way to an authority: one request on a connection of its own, and the answer.
struct ACMETransport: Sendable {
    private let tls: NIOSSLContext
    private let patience: TimeAmount

    /// Trusts the authorities in `roots`, PEM, instead of the system's where some are given.
    ///
    /// - Throws: `KithError` `.invalid` for roots that cannot be read.
    init(roots: [UInt8]?, patience: TimeAmount = .seconds(30)) throws(KithError) {
        self.patience = patience
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do {
            if let roots { configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(roots)) }
            tls = try NIOSSLContext(configuration: configuration)
        } catch {
            throw KithError(
                .invalid, "The certificates of --acme-root cannot be read: the file is to be PEM.", cause: error)
        }
    }

    /// Sends a request; ends when the task is cancelled.
    ///
    /// A redirect is an answer like another.
    ///
    /// - Throws: `KithError` `.unreachable`, `.timedOut`, `.cancelled`, or `.corrupt` for what is too long.
    func response(to request: ACMEIssuance.Request) async throws(KithError) -> ACMEIssuance.Response {
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        let promise = loop.makePromise(of: ACMEIssuance.Response.self)
        let server = request.url.server
        let timer = loop.scheduleTask(in: patience) {
            promise.fail(
                KithError(
                    .timedOut, "The certificate authority \(server.host) did not answer in time. Try again later."))
        }
        promise.futureResult.whenComplete { _ in timer.cancel() }
        HTTPClientChannel.connect(
            to: server.host, port: server.port, tls: server.isSecure ? tls : nil, patience: patience, on: loop
        ) { ACMEExchangeHandler(request, promise) }
        .whenComplete { result in
            switch result {
            case .success(let channel): promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
            case .failure(let error): promise.fail(Self.unreachable(server.host, error))
            }
        }
        do {
            return try await withTaskCancellationHandler {
                try await promise.futureResult.get()
            } onCancel: {
                promise.fail(KithError(.cancelled, "The question to the authority \(server.host) was withdrawn."))
            }
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.unreachable(server.host, error)
        }
    }

    static func unreachable(_ host: String, _ error: any Error) -> KithError {
        let advice =
            switch error {
            case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
                "its own certificate is not trusted; a private authority's root is given with --acme-root"
            case let error as NIOConnectionError where error.dnsAError != nil && error.connectionErrors.isEmpty:
                "its name has no address; see that this machine can look names up"
            default: "see that this machine reaches it"
            }
        return KithError(.unreachable, "The certificate authority \(host) cannot be reached: \(advice).", cause: error)
    }
}

/// The connection of one request.
private final class ACMEExchangeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let request: ACMEIssuance.Request
    private let promise: EventLoopPromise<ACMEIssuance.Response>
    private var response: ACMEIssuance.Response?

    init(_ request: ACMEIssuance.Request, _ promise: EventLoopPromise<ACMEIssuance.Response>) {
        (self.request, self.promise) = (request, promise)
    }

    private var host: String { request.url.host }

    func channelActive(context: ChannelHandlerContext) {
        var headers: HTTPHeaders = [
            "host": request.url.authority, "user-agent": "kith", "accept-language": "en", "connection": "close",
        ]
        let method: HTTPMethod
        switch request.method {
        case .get: method = .GET
        case .head: method = .HEAD
        case .post:
            method = .POST
            headers.add(name: "content-type", value: "application/jose+json")
            headers.add(name: "content-length", value: String(request.body.count))
        }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: request.url.target, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !request.body.isEmpty {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: request.body)))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            func header(_ name: String) -> String? { head.headers.first(name: name) }
            response = ACMEIssuance.Response(
                status: Int(head.status.code), nonce: header("replay-nonce"), location: header("location"),
                retryAfter: header("retry-after"))
        case .body(let part):
            guard let count = response?.body.count, count + part.readableBytes <= ACMEIssuance.Response.maxBody else {
                promise.fail(
                    KithError(
                        .corrupt,
                        "The certificate authority \(host) answered with more than \(ACMEIssuance.Response.maxBody) bytes."
                    ))
                return context.close(promise: nil)
            }
            response?.body += part.readableBytesView
        case .end: if let response { promise.succeed(response) }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        promise.fail(ACMETransport.unreachable(host, error))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // Too late when there was an answer: then it changes nothing.
        promise.fail(
            KithError(.unreachable, "The certificate authority \(host) closed the connection without an answer."))
        context.fireChannelInactive()
    }
}
