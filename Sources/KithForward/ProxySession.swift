import Foundation
import KithAPI
import KithIO
import KithNode
import KithWire

/// One connection of a program that asks a proxy for where it wants to go: by SOCKS5, or as to an HTTP proxy.
///
/// The first byte decides. An answer of success is given only when the connection stands.
final class ProxySession: Sendable {
    /// Opens a connection; none when the host does not want it.
    typealias Open = @Sendable (Forward.Endpoint) async throws -> (Forward.Opening, (any ByteStream)?)

    private let client: any ByteStream
    private let credentials: String?
    private let open: Open
    private let associate: (@Sendable (Forward.Endpoint?) async throws -> any ByteStream)?
    private let reactor: Reactor
    private let idle: Duration
    private let clock: any Ticker
    private let traffic: Traffic

    /// The time a client may take to say what it wants.
    private static let patience = Duration.seconds(30)

    init(
        client: any ByteStream, credentials: String?, open: @escaping Open,
        associate: (@Sendable (Forward.Endpoint?) async throws -> any ByteStream)?, reactor: Reactor, idle: Duration,
        clock: any Ticker, traffic: Traffic
    ) {
        self.client = client
        self.credentials = credentials
        self.open = open
        self.associate = associate
        self.reactor = reactor
        self.idle = idle
        self.clock = clock
        self.traffic = traffic
    }

    /// Serves the connection until it is over.
    ///
    /// - Throws: why what was asked for could not be opened; the client was told.
    func run() async throws {
        var input = Input(client)
        let request: Request
        do {
            let start = input
            (request, input) = try await withDeadline(clock.now + Self.patience, on: clock) {
                var input = start
                let request = try await self.readRequest(&input)
                return (request, input)
            }
        } catch {
            client.abort(.invalid)
            throw error
        }
        switch request {
        case .nothing: try await end()
        case .refused(let answer, let error):
            try await finish(with: answer)
            throw error
        case .socks(let endpoint): try await connect(endpoint, rest: input.bytes)
        case .associate: try await associateDatagrams()
        case .http(let request): try await serve(request, rest: input.bytes)
        }
    }

    // MARK: - Requests

    private enum Request: Sendable {
        case nothing
        case refused([UInt8], KithError)
        case socks(Forward.Endpoint)
        case associate
        case http(HTTPProxyRequest)
    }

    /// The bytes that have come and are not used yet.
    private struct Input: Sendable {
        private let stream: any ByteStream
        var bytes: [UInt8] = []

        init(_ stream: any ByteStream) { self.stream = stream }

        /// Waits for a message that `parse` recognises.
        mutating func next<Message>(
            limit: Int, _ parse: ([UInt8]) throws -> (Message, Int)?
        ) async throws -> Message? {
            while true {
                if let (message, count) = try parse(bytes) {
                    bytes.removeFirst(count)
                    return message
                }
                guard bytes.count < limit else {
                    throw KithError(.invalid, "A client sent a request of more than \(limit) bytes.")
                }
                guard let more = try await stream.read(upTo: 16 << 10) else {
                    if bytes.isEmpty { return nil }
                    throw KithError(.closed, "The client stopped in the middle of a message.")
                }
                bytes += more
            }
        }
    }

    private func readRequest(_ input: inout Input) async throws -> Request {
        guard let first = try await input.next(limit: 1, { $0.first.map { ($0, 0) } }) else { return .nothing }
        switch first {
        case 5: return try await readSOCKSRequest(&input)
        case 4:
            // A reply of version 4: request rejected.
            return .refused([0, 0x5B, 0, 0, 0, 0, 0, 0], KithError(.unsupported, "A client spoke version 4 of SOCKS."))
        case 65...90, 97...122: return try await readHTTPRequest(&input)
        default: throw KithError(.invalid, "A client spoke neither SOCKS nor HTTP.")
        }
    }

    private func readSOCKSRequest(_ input: inout Input) async throws -> Request {
        guard
            let methods = try await input.next(limit: 1_024, { try SOCKS.greeting($0).map { ($0.methods, $0.count) } })
        else { return .nothing }
        let wanted: SOCKS.Authentication = credentials == nil ? .none : .password
        guard methods.contains(wanted.rawValue) else {
            return .refused(
                [5, SOCKS.Authentication.unacceptable.rawValue], KithError(.denied, "A client showed no password."))
        }
        try await client.write([5, wanted.rawValue])
        if let credentials {
            let shown = try await input.next(limit: 1_024) {
                try SOCKS.password($0).map { ($0.user + [58] + $0.password, $0.count) }
            }
            guard let shown, Self.isSame(shown, Array(credentials.utf8)) else {
                return .refused([1, 1], KithError(.denied, "A client showed a wrong password."))
            }
            try await client.write([1, 0])
        }
        guard
            let request = try await input.next(limit: 1_024, { try SOCKS.request($0).map { ($0.request, $0.count) } })
        else { return .nothing }
        guard request.isAddressTypeKnown else {
            return .refused(
                SOCKS.reply(.addressTypeNotSupported),
                KithError(.unsupported, "A client named an address of an unknown kind."))
        }
        switch request.command {
        case .connect:
            guard let endpoint = request.endpoint, endpoint.port != 0 else {
                return .refused(
                    SOCKS.reply(.hostUnreachable), KithError(.invalid, "A client named a host that cannot be one."))
            }
            return .socks(endpoint)
        case .associate where associate != nil: return .associate
        case .associate, .bind, nil:
            return .refused(
                SOCKS.reply(.commandNotSupported),
                KithError(.unsupported, "A client asked for a SOCKS command that is not offered here."))
        }
    }

    private func readHTTPRequest(_ input: inout Input) async throws -> Request {
        let head = try await input.next(limit: HTTPProxyRequest.longestHead) { bytes in
            HTTPProxyRequest.endOfHead(bytes).map { (Array(bytes[..<$0]), $0) }
        }
        guard let head else { return .nothing }
        do throws(HTTPProxyError) {
            let request = try HTTPProxyRequest(parsing: head)
            if let credentials {
                let shown = request.credentials.map { Array($0.utf8) } ?? []
                guard Self.isSame(shown, Array(Data(credentials.utf8).base64EncodedString().utf8)) else {
                    let answer = HTTPProxyAnswer(
                        407, "Proxy Authentication Required", "This proxy is another program's own.")
                    return .refused(answer.bytes, KithError(.denied, "A client showed no or a wrong password."))
                }
            }
            return .http(request)
        } catch .malformed(let reason) {
            return .refused(HTTPProxyAnswer(400, "Bad Request", reason).bytes, KithError(.invalid, reason))
        }
    }

    /// Compares without telling by the time it takes how much was right.
    private static func isSame(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) } == 0
    }

    // MARK: - Answers

    /// Sends a last answer, and waits until the client has read it: a reset would discard it.
    private func finish(with answer: [UInt8]) async throws {
        try await client.write(answer)
        try await end()
    }

    private func end() async throws {
        try await client.finish()
        let client = client
        // A client that says more than is good for it is cut off.
        try? await withDeadline(.seconds(5), on: clock) {
            while try await client.read(upTo: 64 << 10) != nil {}
        }
    }

    private func opened(
        _ endpoint: Forward.Endpoint, refused: (Forward.Opening) -> [UInt8], failed: (any Error) -> [UInt8]
    ) async throws -> any ByteStream {
        let opening: Forward.Opening
        let stream: (any ByteStream)?
        do {
            (opening, stream) = try await open(endpoint)
        } catch {
            try await finish(with: failed(error))
            throw error
        }
        guard let stream else {
            try await finish(with: refused(opening))
            throw opening.error
        }
        return stream
    }

    private func carry(_ rest: [UInt8], _ stream: any ByteStream) async throws {
        let traffic = traffic
        let client: any ByteStream = rest.isEmpty ? client : PrefixedStream(rest, before: client)
        // It stood: how it ends is the two ends' affair.
        try? await splice(client, stream) { count, isSent in
            if isSent { traffic.sent(count) } else { traffic.received(count) }
        }
    }

    private func connect(_ endpoint: Forward.Endpoint, rest: [UInt8]) async throws {
        let stream = try await opened(
            endpoint, refused: { SOCKS.reply(SOCKS.Reply($0)) }, failed: { SOCKS.reply(SOCKS.Reply($0)) })
        do {
            try await client.write(SOCKS.reply(.succeeded))
        } catch {
            stream.abort(.cancelled)
            throw error
        }
        try await carry(rest, stream)
    }

    private func serve(_ request: HTTPProxyRequest, rest: [UInt8]) async throws {
        let stream = try await opened(
            request.endpoint, refused: { HTTPProxyAnswer($0).bytes }, failed: { HTTPProxyAnswer($0).bytes })
        do {
            if request.isTunnel {
                try await client.write(HTTPProxyAnswer.established)
            } else {
                try await stream.write(request.head)
            }
        } catch {
            stream.abort(.cancelled)
            throw error
        }
        let metered = MeteredBody(
            rest.isEmpty ? client : PrefixedStream(rest, before: client), HTTPBodyMeter(request.body))
        let traffic = traffic
        // It stood: how it ends is the two ends' affair.
        try? await splice(metered, stream) { count, isSent in
            if isSent { traffic.sent(count) } else { traffic.received(count) }
        }
    }

    // MARK: - Datagrams

    /// Serves UDP ASSOCIATE (RFC 1928 §7): a port for datagrams that lives as long as the connection that asked.
    private func associateDatagrams() async throws {
        let relay: DatagramSocket
        let stream: any ByteStream
        do {
            guard let associate else { throw KithError(.unsupported, "UDP is not carried here.") }
            var here = (client as? StreamSocket)?.local ?? NetworkAddress(ipv4: 0x7F00_0001, port: 0)
            here.port = 0
            relay = try DatagramSocket(at: here, on: reactor)
            stream = try await associate(nil)
        } catch {
            try await finish(with: SOCKS.reply(SOCKS.Reply(error)))
            throw error
        }
        try await client.write(SOCKS.reply(.succeeded, relay.address))
        let client = client
        let traffic = traffic
        let host = (client as? StreamSocket)?.peer?.ip
        let partner = Locked<NetworkAddress?>(nil)
        let outgoing = DatagramQueue<DatagramFrame>()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while true {
                    let (bytes, from) = try await relay.receive()
                    // The first to speak from the host of the one who asked is that one; nobody else is listened to.
                    if partner.value == nil, host == nil || host == from.ip { partner.set(from) }
                    guard partner.value == from, let (endpoint, payload) = SOCKS.datagram(bytes) else { continue }
                    traffic.sent(payload.count)
                    outgoing.push(DatagramFrame(other: endpoint, payload: payload), bytes: payload.count + 64)
                }
            }
            group.addTask {
                try await carryDatagrams(
                    over: stream, idle: self.idle, on: self.clock, outgoing: { await outgoing.next() },
                    incoming: { frame in
                        guard case .address(let address) = frame.other, let to = partner.value else { return }
                        traffic.received(frame.payload.count)
                        relay.send(SOCKS.datagram(from: address, frame.payload), to: to)
                    })
            }
            group.addTask {
                while try await client.read(upTo: 4_096) != nil {}
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}

/// A stream whose reader sees no more than the body of one request, and then waits for the other end to close.
final class MeteredBody: StreamWrapper {
    let base: any ByteStream
    private let reading: Reading

    /// Only the one reading task touches it.
    private final class Reading: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        var meter: HTTPBodyMeter
        init(_ meter: HTTPBodyMeter) { self.meter = meter }
    }

    init(_ base: any ByteStream, _ meter: HTTPBodyMeter) {
        self.base = base
        reading = Reading(meter)
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        while true {
            guard let bytes = try await base.read(upTo: limit) else { return nil }
            // What follows is another request, maybe for another host: it is not answered, and the client asks again.
            if reading.meter.hasEnded { continue }
            do throws(HTTPProxyError) {
                let count = try reading.meter.take(bytes)
                if count > 0 { return count == bytes.count ? bytes : Array(bytes[..<count]) }
            } catch .malformed(let reason) {
                throw KithError(.invalid, reason)
            }
        }
    }
}
