package import NIOCore
package import NIOWebSocket

/// Reads a client's frames of WebSocket, few small ones at a time: between them others have their turn.
///
/// Nothing more is read from the socket meanwhile, so that no more than one read waits.
package final class RelayFrameReader: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = WebSocketFrame
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// The most small frames of a turn; large ones are bounded by what is read at once.
    static let turn = 64
    /// The time until the next turn.
    package static let pause = TimeAmount.milliseconds(1)

    private let decoder: WebSocketFrameDecoder
    private var context: ChannelHandlerContext?
    private var buffer = ByteBuffer()
    /// The next turn, when more waits for it.
    private var next: Scheduled<Void>?
    private var wantsMore = false
    private var isEnded = false

    package init(maxFrameSize: Int) { decoder = WebSocketFrameDecoder(maxFrameSize: maxFrameSize) }

    /// The bytes of memory that a part of a frame holds, and what waits for its turn.
    package var held: Int { buffer.readableBytes > 0 ? buffer.storageCapacity : 0 }

    /// Reads no more of a client that is being closed.
    package func end() { isEnded = true }

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) { forget() }

    package func channelInactive(context: ChannelHandlerContext) {
        forget()
        context.fireChannelInactive()
    }

    private func forget() {
        next?.cancel()
        (next, context, buffer, isEnded) = (nil, nil, ByteBuffer(), true)
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isEnded else { return }
        var more = unwrapInboundIn(data)
        if buffer.readableBytes == 0 { buffer = more } else { buffer.writeBuffer(&more) }
        if next == nil { read(of: context) }
    }

    /// Reads the frames of a turn.
    private func read(of context: ChannelHandlerContext) {
        // Whoever takes a frame may ask what is held.
        var rest = buffer
        buffer = ByteBuffer()
        var small = 0
        do {
            while !isEnded, small < Self.turn {
                let before = rest.readableBytes
                guard try decoder.decode(context: context, buffer: &rest) == .continue else { break }
                if before - rest.readableBytes < RelayWork.small { small += 1 }
            }
        } catch {
            isEnded = true
            context.fireErrorCaught(error)
        }
        guard !isEnded, rest.readableBytes > 0 else { return }
        if rest.readerIndex > rest.readableBytes { rest.discardReadBytes() }
        buffer = rest
        guard small == Self.turn else { return }
        next = context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { [weak self] in self?.goOn() }
    }

    private func goOn() {
        next = nil
        guard let context else { return }
        read(of: context)
        context.fireChannelReadComplete()
        guard next == nil, wantsMore else { return }
        wantsMore = false
        context.read()
    }

    package func read(context: ChannelHandlerContext) {
        guard next == nil else {
            wantsMore = true
            return
        }
        context.read()
    }
}
