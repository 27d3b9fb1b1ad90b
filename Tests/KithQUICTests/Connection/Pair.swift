import Crypto
import KithQUIC
import KithWire

/// A small seeded generator (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}

/// A device for tests: an Ed25519 key.
struct TestIdentity {
    let seed: [UInt8]
    let publicKey: [UInt8]

    init(_ number: UInt8) throws {
        seed = [UInt8](repeating: number, count: 32)
        publicKey = [UInt8](try Curve25519.Signing.PrivateKey(rawRepresentation: seed).publicKey.rawRepresentation)
    }

    /// A configuration that proves this identity and trusts `peer`.
    func configuration(trusting peer: TestIdentity) -> QUICConfiguration {
        var configuration = QUICConfiguration(credentials: [.rawPublicKey(seed: seed)], alpn: ["kith/1"])
        let expected = peer.publicKey
        configuration.verify = { $0 == .rawPublicKey(expected) }
        return configuration
    }
}

/// Two engines joined by a wire that keeps order and takes `delay` each way; tests may bend it.
final class Pair {
    struct Datagram {
        var bytes: [UInt8]
        var from: NetworkAddress
        var due: Timestamp
        var toServer: Bool
        /// The receiver's link it comes by.
        var local: LocalLink = 0
    }

    static let clientAddress = NetworkAddress(ipv4: (192, 0, 2, 1), port: 1111)
    static let serverAddress = NetworkAddress(ipv4: (192, 0, 2, 2), port: 2222)

    var now: Timestamp
    var client: QUICConnection
    var server: QUICConnection?
    let serverConfiguration: QUICConfiguration
    var wire: [Datagram] = []
    var delay: Int64 = 5_000_000
    var clientFrom = Pair.clientAddress
    /// Where the client's other sockets are; 0 is at `clientFrom`.
    var clientLocals: [LocalLink: NetworkAddress] = [:]
    var serverFrom = Pair.serverAddress
    /// Where the server's other sockets are; 0 is at `serverFrom`.
    var serverLocals: [LocalLink: NetworkAddress] = [:]
    /// How long datagrams along one of the client's addresses take, where it is not `delay`.
    var delays: [NetworkAddress: Int64] = [:]
    /// What the server received from each address, and sent to it.
    var traffic: [NetworkAddress: (received: Int, sent: Int)] = [:]
    var clientEvents: [QUICConnection.Event] = []
    var serverEvents: [QUICConnection.Event] = []
    /// Answers what becomes of a datagram: the copies that arrive.
    var filter: (Datagram) -> [Datagram] = { [$0] }
    var sentByClient = 0
    var sentByServer = 0
    var bytesSentByServer = 0
    /// Whether the server answers a client without a proof of its address by a Retry.
    var retries = false
    /// What the server's endpoint answered without a connection.
    var statelessAnswers: [DatagramHeader.Form] = []
    private var buffer = [UInt8](repeating: 0, count: 65536)

    static let start = Timestamp(nanoseconds: 1_000_000_000)

    init(
        _ clientConfiguration: QUICConfiguration, _ serverConfiguration: QUICConfiguration, at start: Timestamp = start
    ) throws {
        now = start
        self.serverConfiguration = serverConfiguration
        client = try QUICConnection.client(clientConfiguration, remote: Pair.serverAddress, at: start)
    }

    /// A pair of devices that trust each other.
    convenience init(
        client changeClient: (inout QUICConfiguration) -> Void = { _ in },
        server changeServer: (inout QUICConfiguration) -> Void = { _ in }, at start: Timestamp = start
    ) throws {
        let alice = try TestIdentity(1)
        let bob = try TestIdentity(2)
        var clientConfiguration = alice.configuration(trusting: bob)
        var serverConfiguration = bob.configuration(trusting: alice)
        changeClient(&clientConfiguration)
        changeServer(&serverConfiguration)
        try self.init(clientConfiguration, serverConfiguration, at: start)
    }

    /// Takes everything both engines want to send, and their events.
    func flush() {
        while let transmit = buffer.withUnsafeMutableBytes({ client.nextTransmit(into: $0, at: now) }) {
            queue(transmit, toServer: true)
        }
        while let event = client.nextEvent() { clientEvents.append(event) }
        guard server != nil else { return }
        while let transmit = buffer.withUnsafeMutableBytes({ server?.nextTransmit(into: $0, at: now) ?? nil }) {
            queue(transmit, toServer: false)
        }
        while let event = server?.nextEvent() ?? nil { serverEvents.append(event) }
    }

    private func queue(_ transmit: Transmit, toServer: Bool) {
        if let path = transmit.copy {
            var copy = transmit
            (copy.remote, copy.local, copy.copy) = (path.remote, path.local, nil)
            queue(copy, toServer: toServer)
        }
        var offset = 0
        while offset < transmit.length {
            let end = min(offset + transmit.segmentSize, transmit.length)
            if toServer {
                sentByClient += 1
            } else {
                sentByServer += 1
                bytesSentByServer += end - offset
            }
            let near = toServer ? clientLocals[transmit.local] ?? clientFrom : transmit.remote
            if !toServer { traffic[near, default: (0, 0)].sent += end - offset }
            var datagram = Datagram(
                bytes: Array(buffer[offset..<end]),
                from: toServer ? near : serverLocals[transmit.local] ?? serverFrom,
                due: now + (delays[near] ?? delay), toServer: toServer)
            if toServer {
                // What goes to an address the server has left is lost.
                guard transmit.remote == serverFrom || serverLocals.values.contains(transmit.remote) else {
                    offset = end
                    continue
                }
                datagram.local = serverLocals.first { $0.value == transmit.remote }?.key ?? 0
                wire += filter(datagram)
            } else if near == clientFrom {
                wire += filter(datagram)
            } else if let local = clientLocals.first(where: { $0.value == near })?.key {
                datagram.local = local
                wire += filter(datagram)
            }
            offset = end
        }
    }

    /// Hands one datagram over.
    func deliver(_ datagram: Datagram) {
        var bytes = datagram.bytes
        bytes.withUnsafeMutableBytes { buffer in
            guard datagram.toServer else {
                client.receive(buffer, from: datagram.from, to: datagram.local, ecn: 0, at: now)
                return
            }
            if server == nil, let header = DatagramHeader(UnsafeRawBufferPointer(buffer)) {
                accept(header, UnsafeRawBufferPointer(buffer), from: datagram.from)
            }
            traffic[datagram.from, default: (0, 0)].received += buffer.count
            server?.receive(buffer, from: datagram.from, to: datagram.local, ecn: 0, at: now)
        }
    }

    /// What an endpoint does with the datagram of no connection.
    private func accept(_ header: DatagramHeader, _ datagram: UnsafeRawBufferPointer, from remote: NetworkAddress) {
        var answer = [UInt8](repeating: 0, count: 256)
        var length = 0
        let isSpoken = QUICVersion(rawValue: header.version).map(serverConfiguration.versions.contains) ?? false
        if !isSpoken, header.form == .initial || header.form == .unknownVersion {
            length = answer.withUnsafeMutableBytes {
                StatelessPackets.versionNegotiation(
                    for: header, versions: serverConfiguration.versions, into: $0, random: 77)
            }
        } else if header.form == .initial {
            let tokens = serverConfiguration.addressTokens
            let proof = tokens?.proof(in: datagram, header, from: remote, at: now) ?? .none
            if proof == .invalid {
                length = answer.withUnsafeMutableBytes { StatelessPackets.refuse(header, code: 0xB, into: $0) }
            } else if proof == .none, retries, let tokens {
                length = answer.withUnsafeMutableBytes {
                    StatelessPackets.retry(
                        for: header, from: remote, tokens: tokens, into: $0, at: now, random: UInt64.random(in: 1...99))
                }
            } else {
                server = try? QUICConnection.server(
                    serverConfiguration, remote: remote, initial: header, proof: proof, at: now)
            }
        }
        guard length > 0 else { return }
        let bytes = Array(answer.prefix(length))
        if let form = bytes.withUnsafeBytes({ DatagramHeader($0)?.form }) { statelessAnswers.append(form) }
        wire += filter(Datagram(bytes: bytes, from: Pair.serverAddress, due: now + delay, toServer: false))
    }

    /// Moves on to the next thing that happens; false when nothing will.
    func step(until limit: Timestamp) -> Bool {
        flush()
        var next = Timestamp.distantFuture
        for datagram in wire { next = min(next, datagram.due) }
        if let deadline = client.nextDeadline { next = min(next, deadline) }
        if let deadline = server?.nextDeadline ?? nil { next = min(next, deadline) }
        guard next <= limit, next != .distantFuture else { return false }
        now = max(now, next)
        let arriving = wire.filter { $0.due <= now }
        wire.removeAll { $0.due <= now }
        for datagram in arriving { deliver(datagram) }
        client.timedOut(at: now)
        server?.timedOut(at: now)
        flush()
        return true
    }

    /// Runs until `condition` holds or `seconds` have passed; answers whether it holds.
    @discardableResult
    func run(seconds: Int64 = 30, until condition: (Pair) -> Bool) -> Bool {
        let limit = now + seconds * 1_000_000_000
        var steps = 0
        while !condition(self) {
            steps += 1
            guard steps < 2_000_000, step(until: limit) else { return condition(self) }
        }
        return true
    }

    /// Runs for a time.
    func run(seconds: Int64) {
        let limit = now + seconds * 1_000_000_000
        while step(until: limit) {}
        now = max(now, limit)
    }

    /// Completes the handshake.
    @discardableResult
    func connect() -> Bool {
        run {
            $0.client.isConnected && $0.server?.isConnected ?? false && $0.clientEvents.contains(.handshakeConfirmed)
        }
    }
}

extension Pair {
    struct NoStream: Error {}

    /// Opens a stream of the client's.
    func clientOpen(_ direction: StreamDirection) throws -> StreamID {
        guard let id = client.openStream(direction) else { throw NoStream() }
        return id
    }

    /// Opens a stream of the server's.
    func serverOpen(_ direction: StreamDirection) throws -> StreamID {
        guard let id = server?.openStream(direction) else { throw NoStream() }
        return id
    }

    /// Reads all that is there.
    func clientRead(_ id: StreamID) throws -> (bytes: [UInt8], isFinished: Bool) {
        try Self.read(id, from: &client)
    }

    /// Reads all that is there.
    func serverRead(_ id: StreamID) throws -> (bytes: [UInt8], isFinished: Bool) {
        guard server != nil else { return ([], false) }
        var result: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16384)
        while let part = try chunk.withUnsafeMutableBytes({ try server?.read(id, into: $0) }) {
            result += chunk[..<part.count]
            if part.isFinished { return (result, true) }
            if part.count == 0 { break }
        }
        return (result, false)
    }

    private static func read(
        _ id: StreamID, from connection: inout QUICConnection
    ) throws -> (bytes: [UInt8], isFinished: Bool) {
        var result: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16384)
        while true {
            let part = try chunk.withUnsafeMutableBytes { try connection.read(id, into: $0) }
            result += chunk[..<part.count]
            if part.isFinished { return (result, true) }
            if part.count == 0 { return (result, false) }
        }
    }

    /// Why an end's connection closed, if it did.
    static func closeReason(_ events: [QUICConnection.Event]) -> QUICConnection.CloseReason? {
        for event in events {
            if case .closed(let reason) = event { return reason }
        }
        return nil
    }
}

/// Bytes that repeat nowhere soon.
func patterned(_ count: Int, seed: UInt64 = 7) -> [UInt8] {
    var generator = SeededGenerator(state: seed)
    var bytes = [UInt8](repeating: 0, count: count)
    bytes.withUnsafeMutableBytes { buffer in
        var index = 0
        while index + 8 <= count {
            buffer.storeBytes(of: generator.next(), toByteOffset: index, as: UInt64.self)
            index += 8
        }
        while index < count {
            buffer[index] = UInt8(truncatingIfNeeded: generator.next())
            index += 1
        }
    }
    return bytes
}
