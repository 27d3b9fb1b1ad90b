import KithReach
import KithWire
import NIOCore
import NIOPosix

/// One question to a relay's host, to learn whether a captive portal answers in its place.
final class CaptivePortalCheck: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The time it may take.
    private static let time = TimeAmount.seconds(5)
    /// The most bytes of an answer's head.
    private static let maxLength = 8 << 10

    private let host: String
    private let port: UInt16
    private let refusesThisMachine: Bool
    private let challenge: String
    private let answer: EventLoopPromise<CaptivePortal?>
    private var bytes: [UInt8] = []

    private init(
        _ host: String, port: UInt16, refusesThisMachine: Bool, challenge: String,
        answer: EventLoopPromise<CaptivePortal?>
    ) {
        (self.host, self.port, self.refusesThisMachine) = (host, port, refusesThisMachine)
        (self.challenge, self.answer) = (challenge, answer)
    }

    /// Asks a host; nil when the relay answers, when nobody does, or when what answers says nothing of a portal.
    static func ask(
        _ host: String, port: UInt16, refusesThisMachine: Bool, on eventLoop: any EventLoop
    ) -> EventLoopFuture<CaptivePortal?> {
        let answer = eventLoop.makePromise(of: CaptivePortal?.self)
        var random = SystemRandomNumberGenerator()
        let challenge = CaptivePortal.challenge(using: &random)
        let late = eventLoop.scheduleTask(in: time) { answer.succeed(nil) }
        let connecting = ClientBootstrap(group: eventLoop)
            .connectTimeout(time)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        CaptivePortalCheck(
                            host, port: port, refusesThisMachine: refusesThisMachine, challenge: challenge,
                            answer: answer))
                }
            }
            .connect(host: host, port: Int(port))
        // Where nobody answers, nothing is known of a portal.
        connecting.whenFailure { _ in answer.succeed(nil) }
        answer.futureResult.whenComplete { _ in
            late.cancel()
            connecting.whenSuccess { $0.close(promise: nil) }
        }
        return answer.futureResult
    }

    func channelActive(context: ChannelHandlerContext) {
        guard !refusesThisMachine || context.channel.leadsElsewhere else { return answer.succeed(nil) }
        let request = CaptivePortal.request(to: host, port: port, challenge: challenge)
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: request)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytesView.prefix(Self.maxLength - bytes.count)
        do throws(WireError) {
            let head = try HTTPAnswerHead(bytes)
            answer.succeed(CaptivePortal(answer: head, from: host, challenge: challenge))
        } catch {
            if case .truncated = error, bytes.count < Self.maxLength { return }
            answer.succeed(nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { answer.succeed(nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { answer.succeed(nil) }
}

extension Channel {
    /// Indicates whether the other end is neither this machine nor on its link only.
    var leadsElsewhere: Bool {
        guard let remote = remoteAddress.flatMap(NetworkAddress.init) else { return false }
        // A connection to an address of this machine comes from that very address.
        let isHere = localAddress.flatMap(NetworkAddress.init)?.hasSameIP(as: remote) != false
        return remote.mayBeNamedByPeers && !isHere
    }
}
