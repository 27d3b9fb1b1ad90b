import KithCommandLine
import KithNet
import KithReach
import KithWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// A connection to one member of etcd: one request at a time.
final class EtcdConnection: Sendable {
    /// A request.
    struct Request: Sendable {
        var path: String
        var body: [UInt8]
        var token: String?
        /// The time for the answer; `nil` for one that goes on for as long as it comes, a line at a time.
        var patience: Duration?
    }

    private let endpoint: RelayAddress
    private let channel: any Channel
    private let handler: NIOLoopBound<EtcdExchangeHandler>

    /// True until it is closed.
    var isOpen: Bool { channel.isActive }

    private init(_ endpoint: RelayAddress, _ channel: any Channel, _ handler: NIOLoopBound<EtcdExchangeHandler>) {
        (self.endpoint, self.channel, self.handler) = (endpoint, channel, handler)
    }

    /// Connects.
    ///
    /// - Throws: `KithError` `.unreachable`.
    static func open(
        to endpoint: RelayAddress, tls: NIOSSLContext, patience: Duration
    ) async throws(KithError) -> EtcdConnection {
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        do {
            let channel = try await HTTPClientChannel.connect(
                to: endpoint.host, port: endpoint.port, tls: endpoint.isSecure ? tls : nil,
                patience: TimeAmount(patience), on: loop
            ) { EtcdExchangeHandler(endpoint) }.get()
            let handler = try await loop.submit {
                NIOLoopBound(
                    try channel.pipeline.syncOperations.handler(type: EtcdExchangeHandler.self), eventLoop: loop)
            }.get()
            return EtcdConnection(endpoint, channel, handler)
        } catch {
            throw EtcdFailure.unreachable(endpoint, error)
        }
    }

    /// Sends a request and returns the answer's status and body; `onLine` gets the lines of a stream in place of that,
    /// on the connection's event loop.
    ///
    /// - Throws: `KithError` `.unreachable`, `.timedOut`, `.cancelled`, `.corrupt`; the connection is closed then.
    func answer(
        to request: Request, onLine: (@Sendable ([UInt8]) throws(KithError) -> Void)? = nil
    ) async throws(KithError) -> (status: Int, body: [UInt8]) {
        let (channel, handler, endpoint) = (channel, handler, endpoint)
        let promise = channel.eventLoop.makePromise(of: EtcdExchangeHandler.Answer.self)
        let timer = request.patience.map { patience in
            channel.eventLoop.scheduleTask(in: TimeAmount(patience)) {
                promise.fail(KithError(.timedOut, "etcd at \(endpoint) did not answer in time."))
            }
        }
        promise.futureResult.whenFailure { _ in channel.close(promise: nil) }
        promise.futureResult.whenComplete { _ in timer?.cancel() }
        channel.eventLoop.execute {
            handler.value.start(EtcdExchangeHandler.Exchange(request: request, promise: promise, onLine: onLine))
        }
        do {
            let answer = try await withTaskCancellationHandler {
                try await promise.futureResult.get()
            } onCancel: {
                promise.fail(KithError(.cancelled, "The question to etcd at \(endpoint) was withdrawn."))
            }
            return (answer.status, answer.body)
        } catch let error as KithError {
            throw error
        } catch {
            throw EtcdFailure.unreachable(endpoint, error)
        }
    }

    /// Closes it; what is asked fails.
    func close() { channel.close(promise: nil) }
}

/// What goes wrong with etcd, in words.
enum EtcdFailure {
    static func unreachable(_ endpoint: RelayAddress, _ error: any Error) -> KithError {
        let reason =
            switch error {
            case NIOSSLError.uncleanShutdown: "it has closed the connection, perhaps for want of --etcd-cert"
            case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
                "its certificate is not trusted, or it does not take ours; see --etcd-ca and --etcd-cert"
            default: "nobody answers there"
            }
        return KithError(.unreachable, "etcd at \(endpoint) cannot be reached: \(reason).", cause: error)
    }

    static func closed(_ endpoint: RelayAddress) -> KithError {
        let advice = endpoint.isSecure ? "--etcd-cert may be wanted" : "https:// may be wanted"
        return KithError(.unreachable, "etcd at \(endpoint) has closed the connection without an answer: \(advice).")
    }

    /// A refusal, by the number gRPC has for it.
    static func refused(_ endpoint: RelayAddress, _ refusal: EtcdMessages.Refusal) -> KithError {
        let code: KithError.Code =
            switch refusal.code {
            case 4: .timedOut
            case 5: .notFound
            case 7, 16: .denied
            case 8: .exhausted
            case 14: .unreachable
            default: .internal
            }
        let text = Wording.printable(String(refusal.message.prefix(200)))
        return KithError(code, "etcd at \(endpoint) refuses: \(text.isEmpty ? "no reason is given" : text).")
    }
}

/// The requests of a connection, and their answers.
private final class EtcdExchangeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    struct Answer {
        var status: Int
        var body: [UInt8]
    }

    struct Exchange: Sendable {
        var request: EtcdConnection.Request
        var promise: EventLoopPromise<Answer>
        var onLine: (@Sendable ([UInt8]) throws(KithError) -> Void)?
    }

    private let endpoint: RelayAddress
    private var exchange: Exchange?
    private var context: ChannelHandlerContext?
    private var failure: KithError?
    private var status = 0
    private var body: [UInt8] = []

    init(_ endpoint: RelayAddress) { self.endpoint = endpoint }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func start(_ exchange: Exchange) {
        guard let context, context.channel.isActive, self.exchange == nil else {
            return exchange.promise.fail(failure ?? EtcdFailure.closed(endpoint))
        }
        self.exchange = exchange
        (status, body) = (0, [])
        let request = exchange.request
        var headers: HTTPHeaders = [
            "host": endpoint.authority, "user-agent": "kith", "content-type": "application/json",
            "content-length": String(request.body.count),
        ]
        if let token = request.token { headers.add(name: "authorization", value: token) }
        // A member that has lost the others says so, where it would otherwise be silent for good.
        if request.patience == nil { headers.add(name: "grpc-metadata-hasleader", value: "true") }
        let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: request.path, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: request.body)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let exchange else { return context.close(promise: nil) }
        switch unwrapInboundIn(data) {
        case .head(let head): status = Int(head.status.code)
        case .body(let part):
            guard body.count + part.readableBytes <= EtcdMessages.maxLength else {
                return fail(KithError(.corrupt, "etcd at \(endpoint) answered with more than is ever needed."))
            }
            body += part.readableBytesView
            guard status == 200, let onLine = exchange.onLine else { return }
            do throws(KithError) {
                try lines(of: part, onLine)
            } catch {
                fail(error)
            }
        case .end:
            self.exchange = nil
            exchange.promise.succeed(Answer(status: status, body: body))
            body = []
        }
    }

    /// Hands on the lines that are complete.
    private func lines(
        of part: ByteBuffer, _ onLine: @Sendable ([UInt8]) throws(KithError) -> Void
    ) throws(KithError) {
        // What was there before has no end of a line.
        var end = body[(body.count - part.readableBytes)...].firstIndex(of: 0x0A)
        var start = 0
        while let next = end {
            if next > start { try onLine(Array(body[start..<next])) }
            start = next + 1
            end = body[start...].firstIndex(of: 0x0A)
        }
        body.removeFirst(start)
    }

    private func fail(_ error: KithError) {
        exchange?.promise.fail(error)
        exchange = nil
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // What comes first says the most, and may come before there is a question.
        failure = failure ?? EtcdFailure.unreachable(endpoint, error)
        fail(failure ?? EtcdFailure.closed(endpoint))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(failure ?? EtcdFailure.closed(endpoint))
        context.fireChannelInactive()
    }
}

extension TimeAmount {
    init(_ duration: Duration) { self = .nanoseconds(Int64(clamping: Int(duration / .nanoseconds(1)))) }
}
