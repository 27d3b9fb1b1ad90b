import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A nats-server of this machine, and two connections to it: one asks, the other gives back what it was asked.
///
/// The baseline of requests to another device: unencrypted, through a broker.
final class NatsServer {
    private let process = Process()
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    private let asking: NatsConnection
    private let answering: NatsConnection

    /// Starts the server; `nil` when it is not installed.
    init?() async throws {
        guard
            let program = ["/usr/sbin/nats-server", "/usr/bin/nats-server", "/usr/local/bin/nats-server"].first(
                where: FileManager.default.isExecutableFile)
        else { return nil }
        let port = 20_000 + Int(getpid()) % 10_000
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = ["-a", "127.0.0.1", "-p", "\(port)"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        (asking, answering) = (NatsConnection(), NatsConnection())
        for connection in [asking, answering] {
            for attempt in 0... {
                do {
                    try await connection.connect(port: port, on: group)
                    break
                } catch  where attempt < 100 {
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
        }
        try await answering.send("SUB echo 1\r\n")
        try await asking.send("SUB inbox.* 1\r\n")
        // What it answers to a ping it has done what came before.
        for connection in [asking, answering] { try await connection.ping() }
    }

    /// Asks for the payload to be given back.
    func request(_ payload: ByteBuffer) async throws { try await asking.request(payload) }

    /// The part of it that tasks share.
    var requests: @Sendable (ByteBuffer) async throws -> Void {
        { [asking] in try await asking.request($0) }
    }

    /// Stops the server.
    func stop() async throws {
        try await asking.close()
        try await answering.close()
        process.terminate()
        process.waitUntilExit()
        try await group.shutdownGracefully()
    }
}

/// A connection in the NATS client protocol, as far as requests need it.
private final class NatsConnection: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private struct State {
        var received = ByteBuffer()
        var channel: (any Channel)?
        var waiting: [Int: EventLoopPromise<Void>] = [:]
        var last = 0
    }
    private let state = Mutex(State())

    func connect(port: Int, on group: any EventLoopGroup) async throws {
        let channel = try await ClientBootstrap(group: group)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in channel.pipeline.addHandler(self) }
            .connect(host: "127.0.0.1", port: port).get()
        state.withLock { $0.channel = channel }
        try await send("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")
    }

    func send(_ text: String) async throws {
        guard let channel = state.withLock({ $0.channel }) else { return }
        try await channel.writeAndFlush(ByteBuffer(string: text))
    }

    func ping() async throws {
        guard let channel = state.withLock({ $0.channel }) else { return }
        let answer = channel.eventLoop.makePromise(of: Void.self)
        state.withLock { $0.waiting[0] = answer }
        channel.writeAndFlush(ByteBuffer(string: "PING\r\n"), promise: nil)
        try await answer.futureResult.get()
    }

    func request(_ payload: ByteBuffer) async throws {
        guard let channel = state.withLock({ $0.channel }) else { return }
        let answer = channel.eventLoop.makePromise(of: Void.self)
        let number = state.withLock { state in
            state.last += 1
            state.waiting[state.last] = answer
            return state.last
        }
        channel.writeAndFlush(Self.publication("echo inbox.\(number)", payload), promise: nil)
        try await answer.futureResult.get()
    }

    func close() async throws { try await state.withLock { $0.channel }?.close() }

    private static func publication(_ subjects: String, _ payload: ByteBuffer) -> ByteBuffer {
        var buffer = ByteBufferAllocator().buffer(capacity: payload.readableBytes + 64)
        buffer.writeString("PUB \(subjects) \(payload.readableBytes)\r\n")
        buffer.writeImmutableBuffer(payload)
        buffer.writeString("\r\n")
        return buffer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var chunk = unwrapInboundIn(data)
        var done: [EventLoopPromise<Void>] = []
        state.withLock { state in
            if state.received.readableBytes == 0 { state.received.clear() }
            state.received.writeBuffer(&chunk)
            while let line = Self.line(of: state.received) {
                let words = line.split(separator: " ")
                var length = line.utf8.count + 2
                if words.first == "MSG", let size = words.last.flatMap({ Int($0) }) {
                    guard state.received.readableBytes >= length + size + 2 else { return }
                    state.received.moveReaderIndex(forwardBy: length)
                    guard let payload = state.received.readSlice(length: size) else { return }
                    length = 2
                    if words.count == 5 {
                        context.write(wrapOutboundOut(Self.publication(String(words[3]), payload)), promise: nil)
                    } else if let number = Int(words[1].dropFirst("inbox.".count)) {
                        if let waiting = state.waiting.removeValue(forKey: number) { done.append(waiting) }
                    }
                } else if words.first == "PING" {
                    context.write(wrapOutboundOut(ByteBuffer(string: "PONG\r\n")), promise: nil)
                } else if words.first == "PONG", let waiting = state.waiting.removeValue(forKey: 0) {
                    done.append(waiting)
                }
                state.received.moveReaderIndex(forwardBy: length)
            }
        }
        for answer in done { answer.succeed() }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    private static func line(of buffer: ByteBuffer) -> String? {
        let view = buffer.readableBytesView
        guard let end = view.firstIndex(of: 0x0A), end > view.startIndex else { return nil }
        return String(decoding: view[..<(end - 1)], as: UTF8.self)
    }
}
