internal import KithQUIC
internal import KithWire

/// Two connections in memory, one of which starts to send what a fuzzer says.
///
/// The input: a byte whose lowest bit says which end is under attack, then packets, each a length of two bytes and
/// so many bytes of frames. Between packets the attacked end sends, reports and lets its timers run.
@safe struct FuzzedConnection: ~Copyable {
    private var client: QUICConnection
    private var server: QUICConnection
    private var now = Timestamp(nanoseconds: 1_000_000_000)
    private let buffer: UnsafeMutableRawBufferPointer

    private static let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)

    /// Runs one input.
    static func run(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 3 else { return }
        var pair = Self()
        let attacksServer = unsafe bytes[0] & 1 == 0
        // Above every number the handshake has used.
        var number: UInt64 = 1_000
        var position = 1
        while position + 2 <= bytes.count {
            let length = unsafe Int(bytes[position]) << 8 | Int(bytes[position + 1])
            position += 2
            let end = min(position + length, bytes.count)
            let frames = unsafe UnsafeRawBufferPointer(rebasing: bytes[position..<end])
            position = end
            unsafe pair.attack(frames, number: number, server: attacksServer)
            number += 1
        }
    }

    private init() {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 16)
        let now = Timestamp(nanoseconds: 1_000_000_000)
        guard
            var client = try? QUICConnection.client(Self.configuration(1), remote: Self.address, at: now),
            let sent = unsafe client.nextTransmit(into: buffer, at: now)
        else { preconditionFailure("A client can be made, and speaks first") }
        let first = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<sent.length])
        guard
            let header = unsafe DatagramHeader(UnsafeRawBufferPointer(first)),
            var server = try? QUICConnection.server(
                Self.configuration(2), remote: Self.address, initial: header, at: now)
        else { preconditionFailure("A server can be made of a client's first datagram") }
        unsafe server.receive(first, from: Self.address, ecn: 0, at: now)
        unsafe self.buffer = buffer
        self.client = client
        self.server = server
        for _ in 0..<8 {
            self.now = self.now.advanced(nanoseconds: 1_000_000)
            unsafe Self.carry(from: &self.server, to: &self.client, buffer, at: self.now)
            unsafe Self.carry(from: &self.client, to: &self.server, buffer, at: self.now)
        }
        precondition(self.client.isConnected && self.server.isConnected, "The handshake completes")
    }

    deinit { unsafe buffer.deallocate() }

    private static func configuration(_ seed: UInt8) -> QUICConfiguration {
        var configuration = QUICConfiguration(
            credentials: [.rawPublicKey(seed: [UInt8](repeating: seed, count: 32))], alpn: ["fuzz"])
        configuration.verify = { _ in true }
        configuration.addressDiscovery = .both
        return configuration
    }

    /// Carries what one end has to say to the other.
    private static func carry(
        from sender: inout QUICConnection, to receiver: inout QUICConnection, _ buffer: UnsafeMutableRawBufferPointer,
        at now: Timestamp
    ) {
        for _ in 0..<32 {
            guard let sent = unsafe sender.nextTransmit(into: buffer, at: now) else { return }
            for offset in stride(from: 0, to: sent.length, by: max(sent.segmentSize, 1)) {
                let end = min(offset + sent.segmentSize, sent.length)
                unsafe receiver.receive(
                    UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<end]), from: address, ecn: 0, at: now)
            }
        }
    }

    /// Gives the attacked end one forged packet, and lets it answer into the void.
    private mutating func attack(_ frames: UnsafeRawBufferPointer, number: UInt64, server isServer: Bool) {
        let forged =
            unsafe isServer
            ? PacketInspection.datagram(of: frames, number: number, from: client)
            : PacketInspection.datagram(of: frames, number: number, from: server)
        guard let forged else { return }
        now = now.advanced(nanoseconds: 2_000_000)
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<forged.count]).copyBytes(from: forged)
        let datagram = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<forged.count])
        if isServer {
            unsafe Self.drive(&server, datagram, buffer, at: now)
        } else {
            unsafe Self.drive(&client, datagram, buffer, at: now)
        }
    }

    /// Does what a driver does with a datagram: hands it over, sends, reads, reports and serves the next deadline.
    private static func drive(
        _ connection: inout QUICConnection, _ datagram: UnsafeMutableRawBufferPointer,
        _ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp
    ) {
        unsafe connection.receive(datagram, from: address, ecn: 0, at: now)
        var sent = 0
        while unsafe connection.nextTransmit(into: buffer, at: now) != nil {
            sent += 1
            precondition(sent < 1_000, "What is sent in answer to one packet ends")
        }
        var events = 0
        while let event = connection.nextEvent() {
            events += 1
            precondition(events < 10_000, "What is reported of one packet ends")
            if case .readable(let stream) = event {
                // A stream that has gone meanwhile is an answer, too.
                _ = unsafe try? connection.read(stream, into: buffer)
            }
        }
        if let deadline = connection.nextDeadline, deadline <= now { connection.timedOut(at: now) }
    }
}
