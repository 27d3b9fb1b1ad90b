import KithIdentity
import KithReach
import KithWire
import NIOCore
import NIOHTTP1

/// One connection of a directory's HTTP server: records in and out, the health page, the metrics.
///
/// ```
///  PUT /pkarr/KEY   all of a record but the key: 204, 202 kept later; 400 no record, 409 older, 413 too long,
///                   429 too many, 503
///  GET /pkarr/KEY   200 and the same bytes; 404; 429; 503 before a front end of etcd knows what there is
///  GET /healthz     200, also while writes wait for etcd; 503 while nothing can be written
///  GET /metrics     for this machine, as Prometheus reads it
///  GET /relay/KEY   for this machine, with etcd: the relay that the device is connected to, as that relay says
/// ```
/// Whatever else is asked for is not there, and looks like a record that is not.
final class DirectoryHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// What a request asks for.
    private enum Request {
        case read(DeviceID)
        case write(DeviceID)
        case badWrite
        case health
        case metrics
        case place(DeviceID)
        case missing
        case wrongMethod
    }

    /// The rest of a connection, once a request has gone wrong: what follows is not read.
    private var isEnding = false
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var deadline = NIODeadline.now()
    private var check: RepeatedTask?

    private let service: DirectoryService
    private let peer: NetworkAddress

    init(_ service: DirectoryService, peer: NetworkAddress) {
        self.service = service
        self.peer = peer
    }

    // MARK: - The connection

    func channelActive(context: ChannelHandlerContext) {
        let (channel, patience) = (context.channel, TimeAmount.seconds(service.limits.requestSeconds))
        deadline = .now() + patience
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        check = context.eventLoop.scheduleRepeatedTask(initialDelay: patience, delay: .seconds(5)) { _ in
            // One that waits for the disk is answered; one that does not send or take is not waited for.
            if NIODeadline.now() >= handler.value.deadline { channel.close(promise: nil) }
        }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        check?.cancel()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isEnding else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
            let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
            if length > SignedRecord.maxBodyLength { refuseLong(head, context) }
        case .body(let part):
            guard let head else { return }
            guard body.count + part.readableBytes <= SignedRecord.maxBodyLength else {
                return refuseLong(head, context)
            }
            body += part.readableBytesView
        case .end:
            guard let head else { return }
            self.head = nil
            answer(head, context)
        }
    }

    private func refuseLong(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        isEnding = true
        service.counters.count(.writeBad)
        send(.payloadTooLarge, "A record has at most \(SignedRecord.maxBodyLength) bytes.", head, context, isLast: true)
    }

    // MARK: - Requests

    private static func request(_ head: HTTPRequestHead) -> Request {
        let path = head.uri.prefix { $0 != "?" }
        let isRead = head.method == .GET || head.method == .HEAD
        switch path {
        case "/healthz": return isRead ? .health : .wrongMethod
        case "/metrics": return isRead ? .metrics : .wrongMethod
        default: break
        }
        if path.hasPrefix("/relay/"), isRead {
            return device(path.dropFirst("/relay/".count)).map { .place($0) } ?? .missing
        }
        guard path.hasPrefix("/pkarr/") else { return .missing }
        let device = device(path.dropFirst("/pkarr/".count))
        if head.method == .PUT { return device.map { .write($0) } ?? .badWrite }
        guard isRead else { return .wrongMethod }
        return device.map { .read($0) } ?? .missing
    }

    /// A key as pkarr writes it, or as Kith shows it to people.
    private static func device(_ text: Substring) -> DeviceID? { DeviceID(zBase32: text) ?? DeviceID(String(text)) }

    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        switch Self.request(head) {
        case .read(let device): read(device, head, context)
        case .write(let device): write(device, head, context)
        case .badWrite:
            service.counters.count(.writeBad)
            send(.badRequest, "The address does not end in a key in z-base-32.", head, context)
        case .health:
            switch service.store.health {
            case .good: send(.ok, "ok", head, context)
            case .degraded(let reason): send(.ok, "degraded: \(reason)", head, context)
            case .failing(let reason): send(.serviceUnavailable, reason, head, context)
            }
        case .metrics:
            guard isOperator(head) else { return missing(head, context) }
            send(.ok, service.metrics, head, context, type: "text/plain; version=0.0.4; charset=utf-8")
        case .place(let device):
            guard isOperator(head), let place = service.store.place(of: device) else { return missing(head, context) }
            send(.ok, place, head, context, type: "application/json")
        case .missing: missing(head, context)
        case .wrongMethod: send(.methodNotAllowed, "Only GET, and PUT of records.", head, context)
        }
    }

    /// True for a program on this machine, where a proxy's visitors come from as well.
    private func isOperator(_ head: HTTPRequestHead) -> Bool {
        peer.isLoopback && !head.isForwarded
    }

    private func missing(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        send(.notFound, "Not found.", head, context)
    }

    private func read(_ device: DeviceID, _ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard service.admits(.read, from: peer) else {
            service.counters.count(.lookupLimited)
            return send(.tooManyRequests, "Too many requests.", head, context)
        }
        guard let record = service.store.record(of: device) else {
            service.counters.count(.lookupMissing)
            // It must not be said of a record that is merely not known yet.
            guard service.store.isComplete else {
                return send(.serviceUnavailable, "The records are not read yet.", head, context)
            }
            return missing(head, context)
        }
        service.counters.count(.lookupFound)
        send(.ok, ByteBuffer(bytes: record.body), "application/octet-stream", head, context)
    }

    private func write(_ device: DeviceID, _ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard service.admits(.write, from: peer) else {
            service.counters.count(.writeLimited)
            return send(.tooManyRequests, "Too many requests.", head, context)
        }
        let record: SignedRecord
        do {
            let claimed = try SignedRecord(unverified: device, body: body)
            // What would be refused anyway is not worth the check of a signature.
            if let outcome = service.store.outcome(of: claimed) { return answer(outcome, head, context) }
            record = try SignedRecord(device, body: body)
            _ = try DNSMessage(record.message)
        } catch {
            service.counters.count(.writeBad)
            return send(.badRequest, "That is not a record signed by this key.", head, context)
        }
        guard service.admitsWrite(of: device) else {
            service.counters.count(.writeLimited)
            return send(.tooManyRequests, "Too many records of this key.", head, context)
        }
        let network = RecordNetwork(of: peer, forwardedFor: head.headers["x-forwarded-for"].last)
        guard service.store.record(of: device) != nil || service.admitsNewKey(from: network) else {
            service.counters.count(.writeLimited)
            return send(.tooManyRequests, "Too many new keys of this network.", head, context)
        }
        let promise = context.eventLoop.makePromise(of: StorageOutcome.self)
        let (handler, bound) = (
            NIOLoopBound(self, eventLoop: context.eventLoop), NIOLoopBound(context, eventLoop: context.eventLoop)
        )
        promise.futureResult.whenSuccess { outcome in
            guard bound.value.channel.isActive else { return }
            handler.value.answer(outcome, head, bound.value)
        }
        service.store.put(record, from: network, promise: promise)
    }

    private func answer(_ outcome: StorageOutcome, _ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        switch outcome {
        case .stored:
            service.counters.count(.writeStored)
            send(.noContent, ByteBuffer(), nil, head, context)
        case .queued:
            service.counters.count(.writeQueued)
            send(.accepted, "The record is answered, and will be kept.", head, context)
        case .same:
            service.counters.count(.writeSame)
            send(.noContent, ByteBuffer(), nil, head, context)
        case .older:
            service.counters.count(.writeOlder)
            send(.conflict, "A newer record of this key is known.", head, context)
        case .full, .failed:
            service.counters.count(.writeFailed)
            send(.serviceUnavailable, "Records cannot be kept now.", head, context)
        }
    }

    // MARK: - Answers

    private func send(
        _ status: HTTPResponseStatus, _ text: String, _ head: HTTPRequestHead, _ context: ChannelHandlerContext,
        type: String = "text/plain; charset=utf-8", isLast: Bool = false
    ) {
        send(status, ByteBuffer(string: text + "\n"), type, head, context, isLast: isLast)
    }

    private func send(
        _ status: HTTPResponseStatus, _ body: ByteBuffer, _ type: String?, _ request: HTTPRequestHead,
        _ context: ChannelHandlerContext, isLast: Bool = false
    ) {
        var headers: HTTPHeaders = ["cache-control": "no-store", "x-content-type-options": "nosniff"]
        if let type {
            headers.add(name: "content-type", value: type)
            headers.add(name: "content-length", value: String(body.readableBytes))
        }
        if status == .tooManyRequests || status == .serviceUnavailable { headers.add(name: "retry-after", value: "30") }
        let isLast = isLast || !request.isKeepAlive
        if isLast { headers.add(name: "connection", value: "close") }
        let version = HTTPVersion(major: 1, minor: min(1, request.version.minor))
        context.write(
            wrapOutboundOut(.head(HTTPResponseHead(version: version, status: status, headers: headers))), promise: nil)
        if request.method != .HEAD, type != nil {
            context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        }
        let (handler, bound) = (
            NIOLoopBound(self, eventLoop: context.eventLoop), NIOLoopBound(context, eventLoop: context.eventLoop)
        )
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
            if isLast { return bound.value.close(promise: nil) }
            handler.value.deadline = .now() + .seconds(handler.value.service.limits.requestSeconds)
        }
    }
}
