internal import KithNet
internal import KithRelayServer
internal import NIOCore
internal import NIOEmbedded
internal import NIOWebSocket

/// Frames of WebSocket, as a relay reads them of anybody, and as a client reads them of a relay.
enum FuzzedWebSocket {
    /// The longest frame and message: short ones, so that they are exceeded.
    private static let limit = 300

    /// What came of a connection: what its messages were, and whether it was ended.
    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = WebSocketFrame

        var inbox: WebSocketInbox
        var events: [WebSocketInbox.Event] = []
        var isEnded = false
        let onEnd: () -> Void

        init(expectsMask: Bool, onEnd: @escaping () -> Void) {
            inbox = WebSocketInbox(limit: FuzzedWebSocket.limit, expectsMask: expectsMask)
            self.onEnd = onEnd
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard !isEnded else { return }
            do {
                let event = try inbox.received(unwrapInboundIn(data))
                switch event {
                case .message(let message):
                    precondition(message.readableBytes <= FuzzedWebSocket.limit, "A message is bounded")
                case .ping(let bytes): precondition(bytes.readableBytes <= 125, "A control frame is short")
                case .close, .nothing: break
                }
                events.append(event)
            } catch {
                end()
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { end() }

        private func end() {
            isEnded = true
            onEnd()
        }
    }

    /// The first byte says which end reads, and in pieces of how many bytes: they read as the whole does.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let isServer = first & 1 == 0
        let rest = Array(bytes.dropFirst())
        let whole = read([rest], isServer: isServer)
        let length = Int(first >> 1) + 1
        let pieces = stride(from: 0, to: rest.count, by: length).map {
            Array(rest[$0..<min($0 + length, rest.count)])
        }
        let some = read(pieces, isServer: isServer)
        precondition(whole.events == some.events && whole.isEnded == some.isEnded, "Pieces read as the whole does")
    }

    private static func read(
        _ pieces: [[UInt8]], isServer: Bool
    ) -> (events: [WebSocketInbox.Event], isEnded: Bool) {
        let channel = EmbeddedChannel()
        let reader = RelayFrameReader(maxFrameSize: limit)
        let collector = Collector(expectsMask: isServer, onEnd: { [weak reader] in reader?.end() })
        do {
            let pipeline = channel.pipeline.syncOperations
            if isServer {
                try pipeline.addHandlers([reader, collector])
            } else {
                try pipeline.addHandlers([
                    ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: limit)), collector,
                ])
            }
            for piece in pieces {
                try channel.writeInbound(ByteBuffer(bytes: piece))
                if isServer { precondition(reader.held <= 4 * (pieces.joined().count + 64), "Little is held") }
            }
            // As many turns as there can be.
            for _ in 0...(pieces.joined().count / 2) where isServer {
                channel.embeddedEventLoop.advanceTime(by: RelayFrameReader.pause)
            }
            _ = try channel.finish(acceptAlreadyClosed: true)
        } catch {
            preconditionFailure("No handler lets an error through: \(error)")
        }
        return (collector.events, collector.isEnded)
    }

    /// Conversations of both ends, whole, in parts, and against the rules; each whole, and in pieces of 4 and 128 bytes.
    static var seeds: [[UInt8]] {
        var seeds: [[UInt8]] = []
        for isServer in [true, false] {
            for conversation in conversations(mask: isServer ? 0x0102_0304 : nil) {
                for pieces: UInt8 in [0, 6, 254] { seeds.append([pieces | (isServer ? 0 : 1)] + conversation) }
            }
        }
        return seeds
    }

    private static func conversations(mask: UInt32?) -> [[UInt8]] {
        func frame(_ opcode: WebSocketOpcode, _ count: Int, isFinal: Bool = true) -> [UInt8] {
            Self.frame(opcode, count, isFinal: isFinal, mask: mask)
        }
        let bit: UInt8 = mask == nil ? 0 : 0x80
        let parts =
            frame(.binary, 5, isFinal: false) + frame(.ping, 8) + frame(.continuation, 125, isFinal: false)
            + frame(.continuation, 126)
        var all: [[UInt8]] = []
        all.append(frame(.binary, 113) + frame(.pong, 0) + frame(.connectionClose, 2))
        all.append(parts)
        all.append(parts + parts)
        all.append(frame(.binary, limit))
        all.append(frame(.binary, limit + 1))
        all.append(frame(.text, 200, isFinal: false) + frame(.continuation, 0))
        all.append(frame(.binary, 200, isFinal: false) + frame(.continuation, 200))
        // More than a turn of them.
        all.append(Array([[UInt8]](repeating: frame(.ping, 0), count: 200).joined()))
        all.append(Self.frame(.binary, 9, isFinal: true, mask: mask == nil ? 1 : nil))
        // Lengths that nobody can have, and reserved bits and kinds.
        all.append([0x82, bit | 127] + [UInt8](repeating: 255, count: 12))
        all.append([0x82, bit | 127, 0x7F] + [UInt8](repeating: 255, count: 11))
        all.append([0x82, bit | 126, 0, 0, 1, 2, 3, 4])
        all.append([0xF2, bit, 1, 2, 3, 4])
        all.append([0x83, bit, 1, 2, 3, 4])
        return all
    }

    private static func frame(_ opcode: WebSocketOpcode, _ count: Int, isFinal: Bool, mask: UInt32?) -> [UInt8] {
        var buffer = ByteBuffer()
        buffer.writeWebSocketFrame(opcode, ByteBuffer(repeating: 7, count: count), mask: mask)
        var bytes = Array(buffer.readableBytesView)
        if !isFinal { bytes[0] &= 0x7F }
        return bytes
    }
}
