import KithReach
import KithWire
import NIOCore

/// Answers clients that ask from where the relay sees their datagrams come (RFC 8489).
///
/// Nothing is remembered of them, and no answer is longer than its question.
final class STUNHandler: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>

    private let responder: STUNResponder
    private let counters: RelayCounters
    private let local: NetworkAddress

    init(at local: NetworkAddress, _ counters: RelayCounters, _ responder: STUNResponder = STUNResponder()) {
        (self.local, self.counters, self.responder) = (local, counters, responder)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let question = unwrapInboundIn(data)
        guard let source = NetworkAddress(question.remoteAddress as SocketAddress?),
            let answer = responder.answer(Array(question.data.readableBytesView), from: source, to: local)
        else { return }
        counters.stunAnswers.count()
        let output = AddressedEnvelope(remoteAddress: question.remoteAddress, data: ByteBuffer(bytes: answer.bytes))
        context.write(wrapOutboundOut(output), promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    // What cannot be sent is lost, as any datagram may be; the socket stays.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
}
