import Foundation
import KithIdentity
import KithReach
import NIOCore
import NIOPosix
import NIOSSL

/// A client of a relay, which does as little as a client can: what is measured is the relay.
///
/// On one event loop; it speaks version 2 of the protocol.
final class Client: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum State {
        case upgrading
        case proving(RelayHandshake.Client)
        case open
    }

    private let key: DeviceKey
    var id: DeviceID { key.id }
    private var state = State.upgrading
    private var inbox = ByteBuffer()
    private var context: ChannelHandlerContext?
    /// The time after which the relay said to come back.
    private(set) var returnsAfter: TimeAmount?
    /// When it pings, as a device does, if it has been asked to.
    private var keepAlive: RelayKeepAlive?
    private var random = SystemRandomNumberGenerator()

    var onOpen: () -> Void = {}
    var onEnd: (Client) -> Void = { _ in }
    /// Gets the contents of each frame of another client, and the number of datagrams in it.
    var onDatagrams: (_ contents: ByteBuffer, _ count: Int) -> Void = { _, _ in }

    /// The mask of what it sends: a relay has to take any off.
    private static let mask: [UInt8] = [0x5A, 0x3C, 0x96, 0xE1]

    init(key: DeviceKey) { self.key = key }

    /// Connects, from an address of this machine.
    static func connect(
        _ relay: RelayLoad.Relay, from source: String = "127.0.0.1", tls: NIOSSLContext?, on loop: any EventLoop,
        _ make: @escaping @Sendable () -> Client
    ) -> EventLoopFuture<any Channel> {
        let origin: SocketAddress
        do { origin = try SocketAddress(ipAddress: source, port: 0) } catch { return loop.makeFailedFuture(error) }
        return ClientBootstrap(group: loop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(
                .writeBufferWaterMark,
                value: ChannelOptions.Types.WriteBufferWaterMark(low: 16 << 10, high: 64 << 10)
            )
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: nil)) }
                    try pipeline.addHandler(make())
                }
            }
            .bind(to: origin)
            .connect(host: "127.0.0.1", port: relay.port)
    }

    static func context(_ relay: RelayLoad.Relay) throws -> NIOSSLContext? {
        guard relay.tls else { return nil }
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }

    func channelActive(context: ChannelHandlerContext) {
        self.context = context
        let request =
            "GET /relay HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            + "Sec-WebSocket-Protocol: iroh-relay-v2\r\n\r\n"
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        onEnd(self)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        keepAlive?.heard(at: .now)
        if inbox.readableBytes == 0 { inbox = bytes } else { inbox.writeBuffer(&bytes) }
        if case .upgrading = state { upgrade(context) }
        guard case .upgrading = state else {
            while let frame = nextFrame() { received(frame, context) }
            return
        }
    }

    private func upgrade(_ context: ChannelHandlerContext) {
        guard let end = inbox.readableBytesView.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let head = inbox.readString(length: end.upperBound - inbox.readerIndex) ?? ""
        guard head.contains(" 101 ") else { return context.close(promise: nil) }
        state = .proving(RelayHandshake.Client(key: key))
    }

    /// Takes a frame of the relay out of what has come; it masks nothing and splits nothing.
    private func nextFrame() -> ByteBuffer? {
        let start = inbox.readerIndex
        guard let short = inbox.getInteger(at: start + 1, as: UInt8.self) else { return nil }
        var (header, length) = (2, Int(short))
        if short == 126 {
            guard let long = inbox.getInteger(at: start + 2, as: UInt16.self) else { return nil }
            (header, length) = (4, Int(long))
        } else if short == 127 {
            guard let long = inbox.getInteger(at: start + 2, as: UInt64.self) else { return nil }
            (header, length) = (10, Int(long))
        }
        guard inbox.readableBytes >= header + length else { return nil }
        inbox.moveReaderIndex(forwardBy: header)
        return inbox.readSlice(length: length)
    }

    private func received(_ frame: ByteBuffer, _ context: ChannelHandlerContext) {
        if case .open = state, let type = frame.getInteger(at: frame.readerIndex, as: UInt8.self),
            type == 6 || type == 7
        {
            var contents = frame
            contents.moveReaderIndex(forwardBy: type == 6 ? 34 : 36)
            var count = 1
            if type == 7, let size = frame.getInteger(at: frame.readerIndex + 34, as: UInt16.self), size > 0 {
                count = (contents.readableBytes + Int(size) - 1) / Int(size)
            }
            return onDatagrams(contents, count)
        }
        guard let frame = try? RelayFrame(Array(frame.readableBytesView), version: .v2, from: .relay) else { return }
        if case .proving(var handshake) = state {
            let step = try? handshake.received(frame)
            state = .proving(handshake)
            switch step {
            case .send(let proof): send(proof.bytes)
            case .begin:
                state = .open
                onOpen()
            case .refused, nil: context.close(promise: nil)
            }
            return
        }
        switch frame {
        case .ping(let bytes): send(RelayFrame.pong(bytes).bytes)
        case .pong(let bytes): _ = keepAlive?.received(pong: bytes, at: .now)
        case .restarting(let after, _): returnsAfter = .milliseconds(Int64(after))
        default: break
        }
    }

    /// Begins to ping.
    func keepUp() {
        keepAlive = RelayKeepAlive(.client, at: .now, using: &random)
        tick()
    }

    /// Pings when it is time; to be called now and then.
    func tick() {
        switch keepAlive?.next(at: .now, using: &random) {
        case .ping(let bytes): send(RelayFrame.ping(bytes).bytes)
        case .dead: close()
        case .wait, nil: break
        }
    }

    private func send(_ frame: [UInt8]) { write(Self.message(frame)) }

    /// Sends what ``message(_:)`` made.
    func write(_ messages: ByteBuffer) { context?.writeAndFlush(wrapOutboundOut(messages), promise: nil) }

    var isWritable: Bool { context?.channel.isWritable ?? false }

    func close() { context?.close(promise: nil) }

    /// A frame as a WebSocket message of a client.
    static func message(_ frame: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.writeInteger(UInt8(0x82))
        if frame.count < 126 {
            buffer.writeInteger(0x80 | UInt8(frame.count))
        } else if let short = UInt16(exactly: frame.count) {
            buffer.writeInteger(UInt8(0x80 | 126))
            buffer.writeInteger(short)
        } else {
            buffer.writeInteger(UInt8(0x80 | 127))
            buffer.writeInteger(UInt64(frame.count))
        }
        buffer.writeBytes(mask)
        buffer.writeBytes(frame.indices.map { frame[$0] ^ mask[$0 % 4] })
        return buffer
    }
}
