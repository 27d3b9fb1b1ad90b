import KithAPI
import KithIO
import KithNet
import KithRPC
import KithSocket
import KithStore
import KithWire
import Logging
import NIOCore
import NIOPosix
import NIOWebSocket
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// One WebSocket: a page that signs in, and is then a caller of the device like any at its Unix socket.
///
/// Each text frame of it is one line there, and each line one frame. Neither direction waits in memory: who does not read is
/// not read from.
struct PageConnection {
    /// The longest message of a page, in bytes: that of a line.
    static let messageLimit = LineFramer.defaultLimit
    /// The most frames of a message.
    static let partLimit = 1_024
    /// The time for a login.
    static let loginTime = Duration.seconds(20)
    /// The time between two pings; a page that has sent nothing for two of them is gone.
    static let pingInterval = Duration.seconds(30)
    /// The time between two notes that a browser is used.
    static let useInterval = 20

    let door: WebDoor
    let origin: String
    let number: UInt64

    typealias Socket = NIOAsyncChannel<WebSocketFrame, WebSocketFrame>

    /// Serves the page until it is gone, or its right ends.
    func serve(_ socket: Socket) async {
        do {
            try await socket.executeThenClose { inbound, outbound in
                let output = PageOutput(writer: outbound, channel: socket.channel)
                do {
                    let input = PageInput(inbound.makeAsyncIterator(), output)
                    guard let (browser, stay) = try await signIn(input, output) else { return }
                    defer { door.guests.leave(stay) }
                    door.connections.prove(number)
                    let isSignedOut = try await serve(browser, input, output)
                    await output.close(.normalClosure, "")
                    if isSignedOut { door.guests.cut(browser.id) }
                } catch let error as WebSocketError {
                    switch error {
                    case .notAllowed(let why): await output.close(.protocolError, why)
                    case .tooLong: await output.close(.messageTooLarge, "a message is longer than any may be")
                    }
                }
            }
        } catch {
            door.host.logger.debug("the connection of a page ended", metadata: ["error": "\(error)"])
        }
    }

    // MARK: - Login

    /// Lets the page in, or says why not; `nil` then.
    private func signIn(
        _ input: PageInput, _ output: PageOutput
    ) async throws -> (BrowserRecord, WebGuests.Stay)? {
        let host = door.host
        let nonce = Base64.encodeURL((0..<32).map { _ in UInt8.random(in: .min ... .max) })
        let hello = WebLogin.Hello(nonce: nonce, device: host.id.description, version: WebLogin.version)
        try await output.send(try WebLogin.frame(hello))
        do {
            let message: [UInt8]?
            do {
                message = try await withDeadline(Self.loginTime, on: host.ticker) { try await input.next() }
            } catch let error as KithError where error.code == .timedOut {
                return nil
            }
            guard let message else { return nil }
            let claim = try WebLogin.claim(message, nonce: nonce, device: host.id.description, origin: origin)
            let browser = try await admit(claim)
            let stay = door.guests.enter(browser.id) { output.cut() }
            // Between the two it may have been forgotten.
            guard let browser = try host.browsers.use(browser.id) else {
                door.guests.leave(stay)
                throw Self.unknown
            }
            do {
                try await output.allowAll()
                var welcome = Self.welcome(browser, host)
                welcome.key = Base64.encodeURL(host.id.bytes)
                welcome.signature = Base64.encodeURL(
                    try host.sign(WebLogin.welcomeText(claim.transcript, challenge: claim.challenge)))
                try await output.send(try WebLogin.frame(welcome))
            } catch {
                door.guests.leave(stay)
                throw error
            }
            return (browser, stay)
        } catch let refused as WebLogin.Refused {
            try await output.send(try WebLogin.frame(refused))
            await output.close(.policyViolation, refused.code.rawValue)
            return nil
        }
    }

    /// The browser that a claim is of, once it may come in.
    private func admit(_ claim: WebLogin.Claim) async throws -> BrowserRecord {
        let browsers = door.host.browsers
        let known = try browsers.find(key: claim.key)
        let isGood = known.map { $0.ends > browsers.now() } ?? false
        if let proof = claim.proof {
            switch door.host.links.use(proof, over: claim.transcript, at: door.host.ticker.now) {
            case .accepted:
                do throws(KithError) {
                    return try browsers.add(key: claim.key, name: claim.name)
                } catch {
                    throw WebLogin.Refused(code: .wrong, message: error.message)
                }
            // An old link, from the history or from elsewhere, takes nothing from who may come in.
            case .wrong where isGood, .crowded where isGood: break
            case .wrong:
                try browsers.refused(claim.name, "its link is not valid")
                throw WebLogin.Refused(
                    code: .wrong,
                    message: "This link was used already, or is older than five minutes. Make a new one: kith web")
            case .crowded:
                throw WebLogin.Refused(
                    code: .crowded, message: "Too many links are being tried. Try again in a second.")
            }
        }
        guard let browser = known else { throw Self.unknown }
        guard isGood else {
            throw WebLogin.Refused(
                code: .expired,
                message: "This browser has not been used for twelve hours, or was let in a week ago. "
                    + "Let it in again: kith web"
            )
        }
        try browsers.entered(browser)
        return browser
    }

    private static let unknown = WebLogin.Refused(
        code: .unknown, message: "This device does not know this browser. To let it in, run on the device: kith web")

    static func welcome(_ browser: BrowserRecord, _ host: WebHost) -> WebLogin.Welcome {
        let ends = Date(timeIntervalSince1970: TimeInterval(browser.ends))
        return WebLogin.Welcome(
            device: host.id.description, name: host.name, browser: browser.id, ends: ends.ISO8601Format())
    }

    // MARK: - Calls

    /// Passes calls on until the page is gone; true when it has signed out.
    private func serve(_ browser: BrowserRecord, _ input: PageInput, _ output: PageOutput) async throws -> Bool {
        let ends = try SocketServer.makePair()
        let host = door.host
        let served = Task(name: "kith web caller") {
            do {
                try await host.serve(ends.served)
            } catch {
                host.logger.debug("a page could not be served", metadata: ["error": "\(error)"])
            }
        }
        defer { served.cancel() }
        let device = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 4_096, maximum: 256 << 10)
            )
            .channelOption(.maxMessagesPerRead, value: 1)
            .withConnectedSocket(ends.caller) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(backPressureStrategy: .init(lowWatermark: 1, highWatermark: 2)))
                }
            }
        let requests = WebRequests(door: door, browser: browser)
        try await device.executeThenClose { lines, caller in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await Self.pass(lines, to: output) }
                group.addTask { try await Self.pass(input, to: caller, output, requests) }
                group.addTask { try await self.watch(browser, input, output) }
                defer { group.cancelAll() }
                // Whichever ends first ends the others.
                try await group.next()
            }
        }
        return requests.hasEnded
    }

    /// Passes the device's lines on to the page, each as a frame.
    private static func pass(
        _ lines: NIOAsyncChannelInboundStream<ByteBuffer>, to output: PageOutput
    ) async throws {
        var framer = LineFramer(limit: 4 * LineFramer.defaultLimit)
        for try await bytes in lines {
            framer.append(Array(bytes.readableBytesView))
            while let line = try framer.next() { try await output.send(line) }
        }
    }

    /// Passes the page's messages on to the device, each as a line; those that are the door's own are answered here.
    private static func pass(
        _ input: PageInput, to caller: NIOAsyncChannelOutboundWriter<ByteBuffer>, _ output: PageOutput,
        _ requests: WebRequests
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            var running = 0
            while var message = try await input.next() {
                switch requests.kind(of: message) {
                case .line:
                    // Line feeds are white space in JSON.
                    for index in message.indices where message[index] == 0x0A { message[index] = 0x20 }
                    message.append(0x0A)
                    try await caller.write(ByteBuffer(bytes: message))
                case .refused(let answer): try await output.send(answer)
                case .own(let request) where requests.isLast(request):
                    return try await output.send(await requests.answer(request).json)
                case .own(let request):
                    if running >= WebRequests.limit {
                        try await group.next()
                        running -= 1
                    }
                    running += 1
                    group.addTask {
                        let answer = await requests.answer(request)
                        if request.id != nil { try await output.send(answer.json) }
                    }
                }
            }
            group.cancelAll()
        }
    }

    /// Pings the page, and ends the connection when it is gone, or its right is.
    private func watch(_ browser: BrowserRecord, _ input: PageInput, _ output: PageOutput) async throws {
        let ticker = door.host.ticker
        var count = 0
        while true {
            try await ticker.sleep(for: Self.pingInterval)
            count += 1
            if input.isSilent() { return output.cut() }
            if count % Self.useInterval == 0 {
                guard try door.host.browsers.use(browser.id) != nil else { return door.guests.cut(browser.id) }
            }
            try await output.ping()
        }
    }
}

/// The messages of a page, put together.
///
/// One task reads.
final class PageInput: @unchecked Sendable {  // only the one reading task touches the iterator and the inbox
    private var frames: NIOAsyncChannelInboundStream<WebSocketFrame>.AsyncIterator
    private let output: PageOutput
    private var inbox = WebSocketInbox(
        limit: PageConnection.messageLimit, expectsMask: true, kind: .text, partLimit: PageConnection.partLimit)
    /// The intervals since something came, and whether anybody waits for it.
    private let silence = Mutex((intervals: 0, isWaiting: false))

    init(_ frames: NIOAsyncChannelInboundStream<WebSocketFrame>.AsyncIterator, _ output: PageOutput) {
        (self.frames, self.output) = (frames, output)
    }

    /// Waits for the next message; `nil` when the page has closed.
    func next() async throws -> [UInt8]? {
        while true {
            silence.withLock { $0.isWaiting = true }
            let frame = try await frames.next()
            silence.withLock { $0 = (0, false) }
            guard let frame else { return nil }
            guard frame.opcode != .binary else { throw WebSocketError.notAllowed("messages are text") }
            switch try inbox.received(frame) {
            case .message(let message):
                let bytes = Array(message.readableBytesView)
                guard JSONText.isUTF8(bytes) else {
                    await output.close(.dataInconsistentWithMessage, "a message is not UTF-8")
                    return nil
                }
                return bytes
            case .ping(let bytes): try await output.pong(bytes)
            case .close: return nil
            case .nothing: continue
            }
        }
    }

    /// Notes that another interval is over; true when nothing came for two of them though it was waited for.
    func isSilent() -> Bool {
        silence.withLock { silence in
            guard silence.isWaiting else { return false }
            silence.intervals += 1
            return silence.intervals > 2
        }
    }
}

/// The way to a page.
struct PageOutput: Sendable {
    let writer: NIOAsyncChannelOutboundWriter<WebSocketFrame>
    let channel: any Channel

    /// Sends a message, once there is room for it.
    func send(_ text: [UInt8]) async throws {
        try await writer.write(WebSocketFrame(fin: true, opcode: .text, data: ByteBuffer(bytes: text)))
    }

    func ping() async throws {
        try await writer.write(WebSocketFrame(fin: true, opcode: .ping, data: ByteBuffer()))
    }

    func pong(_ bytes: ByteBuffer) async throws {
        try await writer.write(WebSocketFrame(fin: true, opcode: .pong, data: bytes))
    }

    /// Says why the connection ends.
    func close(_ code: WebSocketErrorCode, _ why: String) async {
        var data = ByteBuffer()
        data.write(webSocketErrorCode: code)
        data.writeString(String(why.prefix(100)))
        let frame = WebSocketFrame(fin: true, opcode: .connectionClose, data: data)
        // The page may be gone, or may not read.
        _ = try? await withDeadline(.seconds(1)) { try await writer.write(frame) }
    }

    /// Ends the connection at once.
    func cut() { channel.close(promise: nil) }

    /// Allows what a login does not take.
    func allowAll() async throws {
        try await channel.eventLoop.flatSubmit { [channel] in
            let pipeline = channel.pipeline.syncOperations
            do {
                return pipeline.removeHandler(try pipeline.handler(type: LoginMeter.self))
            } catch {
                return channel.eventLoop.makeFailedFuture(error)
            }
        }.get()
    }
}
