import KithReach
import KithWire
import NIOCore
import NIOHTTP1
import NIOSSL

/// One request to a directory, on a connection of its own, and the answer.
struct RecordExchange {
    /// What a directory answered.
    struct Answer: Hashable {
        var status: Int
        var body: [UInt8]
    }

    let group: any EventLoopGroup
    let tls: NIOSSLContext
    let patience: Duration

    /// Sends a request; ends when the task is cancelled.
    ///
    /// - Throws: `KithError` `.unreachable`, `.timedOut`, `.cancelled`, or `.corrupt` for what is no answer.
    func answer(
        _ method: HTTPMethod, _ directory: DirectoryAddress, _ key: String, body: [UInt8] = []
    ) async throws(KithError) -> Answer {
        let loop = group.any()
        let promise = loop.makePromise(of: Answer.self)
        let patience = TimeAmount.nanoseconds(Int64(clamping: Int(patience / .nanoseconds(1))))
        let timer = loop.scheduleTask(in: patience) {
            promise.fail(
                KithError(.timedOut, "The directory \(directory) did not answer in time. Try again later."))
        }
        promise.futureResult.whenComplete { _ in timer.cancel() }
        HTTPClientChannel.connect(
            to: directory.host, port: directory.port, tls: directory.isSecure ? tls : nil, patience: patience, on: loop
        ) { RecordExchangeHandler(directory, method, key, body, promise) }
        .whenComplete { result in
            switch result {
            case .success(let channel): promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
            case .failure(let error): promise.fail(Self.unreachable(directory, error))
            }
        }
        do {
            return try await withTaskCancellationHandler {
                try await promise.futureResult.get()
            } onCancel: {
                promise.fail(KithError(.cancelled, "The question to the directory \(directory) was withdrawn."))
            }
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.unreachable(directory, error)
        }
    }

    static func unreachable(_ directory: DirectoryAddress, _ error: any Error) -> KithError {
        KithError(
            .unreachable, "The directory \(directory) cannot be reached. See that its address is right.", cause: error)
    }
}

/// The connection of one request.
private final class RecordExchangeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let directory: DirectoryAddress
    private let method: HTTPMethod
    private let key: String
    private let body: [UInt8]
    private let promise: EventLoopPromise<RecordExchange.Answer>
    private var status: Int?
    private var received: [UInt8] = []

    init(
        _ directory: DirectoryAddress, _ method: HTTPMethod, _ key: String, _ body: [UInt8],
        _ promise: EventLoopPromise<RecordExchange.Answer>
    ) {
        self.directory = directory
        self.method = method
        self.key = key
        self.body = body
        self.promise = promise
    }

    func channelActive(context: ChannelHandlerContext) {
        var headers: HTTPHeaders = ["host": directory.authority, "connection": "close"]
        if !body.isEmpty {
            headers.add(name: "content-length", value: String(body.count))
            headers.add(name: "content-type", value: "application/octet-stream")
        }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: "\(directory.path)/\(key)", headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !body.isEmpty { context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): status = Int(head.status.code)
        case .body(let part):
            // The text of a refusal is not read.
            guard status == 200 else { return }
            guard received.count + part.readableBytes <= SignedRecord.maxBodyLength else {
                return promise.fail(
                    KithError(.corrupt, "The directory \(directory) answered with more than a record holds."))
            }
            received += part.readableBytesView
        case .end: if let status { promise.succeed(RecordExchange.Answer(status: status, body: received)) }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        promise.fail(RecordExchange.unreachable(directory, error))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // Too late when there was an answer: then it changes nothing.
        promise.fail(KithError(.unreachable, "The directory \(directory) closed the connection without an answer."))
        context.fireChannelInactive()
    }
}
