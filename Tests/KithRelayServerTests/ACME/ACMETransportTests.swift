import KithTesting
import KithWire
import NIOCore
import NIOPosix
import Testing

@testable import KithRelayServer

/// Answers whoever connects with bytes, then closes, or repeats them for as long as they are taken.
private final class RawAnswer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let (text, isEndless): (String, Bool)
    private var hasBegun = false

    init(_ text: String, isEndless: Bool) { (self.text, self.isEndless) = (text, isEndless) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasBegun else { return }
        hasBegun = true
        let channel = context.channel
        let sent = context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)))
        if isEndless { next(context) } else { sent.whenComplete { _ in channel.close(promise: nil) } }
    }

    private func next(_ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        // No more than the other end takes, and nothing once it is gone.
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: String(repeating: "x", count: 1_000))))
            .whenSuccess {
                let (handler, context) = bound.value
                handler.next(context)
            }
    }
}

@Suite(.timeLimit(.minutes(4))) struct ACMETransportTests {
    /// What comes of a request that is answered with `text`.
    private func ask(_ text: String, isEndless: Bool = false) async throws -> ACMEIssuance.Response {
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RawAnswer(text, isEndless: isEndless))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        let url = try #require(ACMEURL("http://127.0.0.1:\(port)/dir", scheme: "http://"))
        let result: Result<ACMEIssuance.Response, KithError>
        do throws(KithError) {
            result = .success(
                try await ACMETransport(roots: nil).response(to: ACMEIssuance.Request(method: .get, url: url)))
        } catch {
            result = .failure(error)
        }
        try await server.close()
        return try result.get()
    }

    @Test func `an answer has its status, the headers that matter and its body`() async throws {
        let answer = try await ask(
            """
            HTTP/1.1 404 Not Found\r\nReplay-Nonce: abc\r\nlocation: https://a.example/1\r\nRETRY-AFTER: 5\r
            Content-Length: 2\r\n\r\n{}
            """)
        #expect(
            answer
                == ACMEIssuance.Response(
                    status: 404, nonce: "abc", location: "https://a.example/1", retryAfter: "5", body: Array("{}".utf8))
        )
    }

    @Test func `a redirect is not followed`() async throws {
        let answer = try await ask(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
        #expect(answer.status == 302)
    }

    @Test func `a body without end is not read to it`() async throws {
        let error = await #expect(throws: KithError.self) {
            try await ask("HTTP/1.1 200 OK\r\n\r\n", isEndless: true)
        }
        #expect(error?.code == .corrupt)
    }

    @Test func `what is no answer is an error`() async throws {
        for text in [
            "", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            "HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: 200_000),
        ] {
            let error = await #expect(throws: KithError.self) { try await ask(text) }
            #expect(error?.code == .unreachable, "\(text.prefix(40))")
        }
    }

    @Test func `roots that are no certificates are refused`() {
        let error = #expect(throws: KithError.self) { try ACMETransport(roots: Array("hello".utf8)) }
        #expect(error?.code == .invalid)
    }
}
