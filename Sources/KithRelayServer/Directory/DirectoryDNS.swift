import KithReach
import KithWire
import NIOCore

/// Answers questions over UDP.
final class DirectoryDatagramHandler: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>

    private let service: DirectoryService
    private let zone: DirectoryZone

    init(_ service: DirectoryService, _ zone: DirectoryZone) {
        self.service = service
        self.zone = zone
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let datagram = unwrapInboundIn(data)
        // Before it is known what there is, silence is no lie: who asks, asks again.
        guard let peer = NetworkAddress(datagram.remoteAddress), service.store.isComplete else { return }
        let (bytes, result) = zone.answer(
            Array(datagram.data.readableBytesView), overUDP: true,
            isLimited: !service.admits(.datagram, from: peer), record: service.store.record(of:))
        service.counters.count(.init(result))
        guard let bytes else { return }
        // An answer that the system has no room for is lost like any other datagram.
        context.write(
            wrapOutboundOut(AddressedEnvelope(remoteAddress: datagram.remoteAddress, data: ByteBuffer(bytes: bytes))),
            promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A datagram could not be sent to somebody: the others are still answered.
    }
}

/// Answers questions over TCP, each behind its length in two bytes (RFC 7766).
final class DirectoryStreamHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The most bytes of a question.
    static let questionLimit = 1_024

    private let service: DirectoryService
    private let zone: DirectoryZone
    private let peer: NetworkAddress
    private var input = ByteBuffer()
    /// Ends the connection, whatever it does meanwhile, a byte at a time.
    private var end: Scheduled<Void>?

    init(_ service: DirectoryService, _ zone: DirectoryZone, peer: NetworkAddress) {
        self.service = service
        self.zone = zone
        self.peer = peer
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        end = context.eventLoop.scheduleTask(in: .seconds(service.limits.requestSeconds)) {
            channel.close(promise: nil)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) { end?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var more = unwrapInboundIn(data)
        input.writeBuffer(&more)
        while let length = input.getInteger(at: input.readerIndex, as: UInt16.self) {
            guard length <= Self.questionLimit, context.channel.isWritable, service.store.isComplete,
                service.admits(.read, from: peer)
            else {
                return context.close(promise: nil)
            }
            guard input.readableBytes >= 2 + Int(length),
                let question = input.getBytes(
                    at: input.readerIndex + 2, length: Int(length))
            else { break }
            input.moveReaderIndex(forwardBy: 2 + question.count)
            let (bytes, result) = zone.answer(question, overUDP: false, record: service.store.record(of:))
            service.counters.count(.init(result))
            guard let bytes else { return context.close(promise: nil) }
            var output = ByteBuffer()
            output.writeInteger(UInt16(clamping: bytes.count))
            output.writeBytes(bytes)
            context.write(wrapOutboundOut(output), promise: nil)
        }
        input.discardReadBytes()
        context.flush()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

extension DirectoryCounters.Event {
    init(_ result: DirectoryZone.Result) {
        switch result {
        case .answered: self = .dnsAnswered
        case .missing: self = .dnsMissing
        case .truncated: self = .dnsTruncated
        case .refused: self = .dnsRefused
        }
    }
}

extension NetworkAddress {
    /// The same address of NIO's; `nil` for one that is not of IP.
    init?(_ address: SocketAddress?) {
        guard let address, let port = address.port, let ip = address.ipAddress else { return nil }
        self.init(ip.contains(":") ? "[\(ip)]:\(port)" : "\(ip):\(port)")
    }

    /// The same address for NIO.
    var socketAddress: SocketAddress {
        get throws { try SocketAddress(packedIPAddress: ByteBuffer(bytes: ip), port: Int(port)) }
    }
}
