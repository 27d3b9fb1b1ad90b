import Crypto
import KithAPI
import KithIdentity
import KithNet
import KithTesting
import KithWire
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// The loopback of one address family.
enum Family: String, CaseIterable, Sendable {
    case v4, v6

    var loopback: NetworkAddress {
        self == .v4 ? NetworkAddress(ipv4: (127, 0, 0, 1), port: 0) : NetworkAddress(ipv6: 0, 1, port: 0)
    }
}

/// Opens an endpoint on loopback, runs `body`, and shuts it down.
@discardableResult
func withEndpoint<Result: Sendable>(
    _ family: Family = .v4, key: DeviceKey = DeviceKey(), _ options: Endpoint.Options = Endpoint.Options(),
    _ body: (Endpoint) async throws -> Result
) async throws -> Result {
    var options = options
    if options.bindAddresses.isEmpty { options.bindAddresses = [family.loopback] }
    let endpoint = try await Endpoint.bind(key: key, options: options, logger: Logger(label: "test"))
    do {
        let result = try await body(endpoint)
        await endpoint.shutdown()
        return result
    } catch {
        await endpoint.shutdown()
        throw error
    }
}

/// Two endpoints and a connection between them, seen from both ends.
struct Pair: Sendable {
    let client: Endpoint
    let server: Endpoint
    let outgoing: Connection
    let incoming: Connection

    /// A stream the client opened, at both ends.
    ///
    /// The server learns of it by its first byte, which is read here.
    func stream() async throws -> (near: QUICStream, far: QUICStream) {
        let near = try await outgoing.openStream()
        try await near.write([0x2A])
        let far = try await next(incoming.incomingStreams)
        guard try await far.read(upTo: 1) == [0x2A] else { throw TestError("the first byte is another one") }
        return (near, far)
    }
}

@discardableResult
func withPair<Result: Sendable>(
    _ family: Family = .v4, clientOptions: Endpoint.Options = Endpoint.Options(),
    serverOptions: Endpoint.Options = Endpoint.Options(), _ body: (Pair) async throws -> Result
) async throws -> Result {
    try await withEndpoint(family, serverOptions) { server in
        try await withEndpoint(family, clientOptions) { client in
            let outgoing = try await client.connect(to: server.id, at: server.localAddresses)
            let incoming = try await next(server.established)
            return try await body(Pair(client: client, server: server, outgoing: outgoing, incoming: incoming))
        }
    }
}

/// Two endpoints at one relay, and a connection through it.
func withRelayedPair(
    _ relay: MemoryRelay, _ body: (Pair) async throws -> Void
) async throws {
    try await withEndpoint { server in
        try await withEndpoint { client in
            relay.connect(server, as: 5)
            relay.connect(client, as: 3)
            let outgoing = try await client.connect(to: server.id, at: [], through: [3])
            let incoming = try await next(server.established)
            try await body(Pair(client: client, server: server, outgoing: outgoing, incoming: incoming))
        }
    }
}

func next<Sequence: AsyncSequence>(_ sequence: Sequence) async throws -> Sequence.Element
where Sequence.Failure == Never {
    var iterator = sequence.makeAsyncIterator()
    guard let element = await iterator.next(isolation: nil) else { throw TestError("the sequence ended") }
    return element
}

struct TestError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension ByteStream {
    /// Reads to the end.
    func readAll() async throws -> [UInt8] {
        var all: [UInt8] = []
        while let more = try await read(upTo: 256 << 10) { all += more }
        return all
    }

    /// Reads to the end, keeping only the count and the digest.
    func readDigest() async throws -> (count: Int, digest: [UInt8]) {
        var hash = SHA256()
        var count = 0
        while let more = try await read(upTo: 256 << 10) {
            count += more.count
            hash.update(data: more)
        }
        return (count, Array(hash.finalize()))
    }

    /// Writes `count` seeded bytes in pieces, ends, and returns their digest.
    func writeSeeded(_ count: Int, seed: UInt64, piece: Int = 256 << 10) async throws -> [UInt8] {
        var random = SplitMix(seed: seed)
        var hash = SHA256()
        var left = count
        while left > 0 {
            let bytes = random.bytes(min(piece, left))
            hash.update(data: bytes)
            try await write(bytes)
            left -= bytes.count
        }
        try await finish()
        return Array(hash.finalize())
    }
}

/// A small seeded generator.
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: count)
        result.withUnsafeMutableBytes { bytes in
            var offset = 0
            while offset + 8 <= count {
                bytes.storeBytes(of: next(), toByteOffset: offset, as: UInt64.self)
                offset += 8
            }
            while offset < count {
                bytes[offset] = UInt8(truncatingIfNeeded: next())
                offset += 1
            }
        }
        return result
    }
}

/// A UDP forwarder between one client and one server that can be cut, as a cable can.
final class Cable: ChannelInboundHandler, @unchecked Sendable {  // `client` and `context` are the event loop's
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>

    private let server: SocketAddress
    private var client: SocketAddress?
    private var context: ChannelHandlerContext?
    /// Set once, before anybody else has the cable.
    private var channel: (any Channel)?
    private let isCut = Mutex(false)
    /// What the server sent while it was held, in order; nil when nothing is held.
    private let held = Mutex<[ByteBuffer]?>(nil)
    /// Whether what the client sends is dropped.
    private let isDeaf = Mutex(false)
    private let probed = Mutex(0)

    private init(server: SocketAddress) { self.server = server }

    /// Runs `body` with a cable to `server`, an IPv4 loopback port; given a port, in the place of the server, and given an
    /// address, there.
    static func to(
        _ server: NetworkAddress, port: UInt16 = 0, at address: NetworkAddress? = nil,
        _ body: (Cable, NetworkAddress) async throws -> Void
    ) async throws {
        let cable = Cable(server: try SocketAddress(ipAddress: server.ipv4Text, port: Int(server.port)))
        let place = address ?? (port == 0 ? .ownLoopback() : server)
        let channel = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(cable) }
            }
            .bind(host: place.ipv4Text, port: Int(address?.port ?? port)).get()
        let address = NetworkAddress(ip: place.ip, port: UInt16(channel.localAddress?.port ?? 0)) ?? place
        cable.channel = channel
        do {
            try await body(cable, address)
        } catch {
            try await channel.close()
            throw error
        }
        try await channel.close()
    }

    /// The address the client's newest datagram came from, without the port; nil before the first.
    func clientIP() async throws -> String? {
        guard let channel else { return nil }
        return try await channel.eventLoop.submit { self.client?.ipAddress }.get()
    }

    /// The number of datagrams of a byte, with which either end asks whether anybody listens here.
    var probeCount: Int { probed.withLock { $0 } }

    /// From now on nothing arrives any more, either way.
    func cut() { isCut.withLock { $0 = true } }

    /// Everything arrives again.
    func mend() { isCut.withLock { $0 = false } }

    /// From now on what the server sends waits.
    func hold() { held.withLock { $0 = $0 ?? [] } }

    /// The number of datagrams of the server that wait.
    var heldCount: Int { held.withLock { $0?.count ?? 0 } }

    /// What waits arrives now, and what the client sends is dropped from now on if `deafens`.
    func release(deafens: Bool) {
        isDeaf.withLock { $0 = deafens }
        channel?.eventLoop.execute {
            let waiting = self.held.withLock { held in
                defer { held = nil }
                return held ?? []
            }
            guard let client = self.client, let context = self.context else { return }
            for data in waiting {
                context.writeAndFlush(
                    self.wrapOutboundOut(AddressedEnvelope(remoteAddress: client, data: data)), promise: nil)
            }
        }
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let envelope = unwrapInboundIn(data)
        if envelope.data.readableBytes == 1 { probed.withLock { $0 += 1 } }
        guard !isCut.withLock({ $0 }) else { return }
        let target: SocketAddress
        if envelope.remoteAddress == server {
            guard let client else { return }
            let isHeld = held.withLock { held in
                held?.append(envelope.data)
                return held != nil
            }
            if isHeld { return }
            target = client
        } else {
            guard !isDeaf.withLock({ $0 }) else { return }
            // A probe of the machine, a byte from a socket of its own, says nothing of where the client is.
            if envelope.data.readableBytes > 1 { client = envelope.remoteAddress }
            target = server
        }
        context.writeAndFlush(
            wrapOutboundOut(AddressedEnvelope(remoteAddress: target, data: envelope.data)), promise: nil)
    }
}
