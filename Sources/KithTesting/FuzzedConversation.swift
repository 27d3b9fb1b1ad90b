internal import KithQUIC
internal import KithWire

/// A whole conversation, from the first datagram to the close, over a wire that does what a fuzzer says.
///
/// The client sends 30,000 bytes, the server sends them back. Each datagram that leaves either end takes one byte of
/// the input: it arrives, arrives twice, arrives late, arrives damaged at a place the next two bytes name, or is lost.
/// After the input's end all arrive. Whatever the wire did, bytes come out as they went in, nobody is accused of
/// breaking the protocol, and there is an end.
struct FuzzedConversation: ~Copyable {
    private struct Datagram {
        var bytes: [UInt8]
        var due: Timestamp
        var isToServer: Bool
    }

    private static let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)
    private static let content = (0..<30_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }

    private let input: [UInt8]
    private var position = 0
    private var now = Timestamp(nanoseconds: 1_000_000_000)
    private var client: QUICConnection
    private var server: QUICConnection?
    private var wire: [Datagram] = []

    private var sent = 0
    private var stream: StreamID?
    private var received = 0
    private var isAnswered = false
    private var pending: [UInt8] = []
    private var isAsked = false
    private var isEchoed = false

    /// Runs one input.
    static func run(_ bytes: UnsafeRawBufferPointer) {
        var conversation = unsafe Self(Array(bytes.prefix(2_000)))
        conversation.talk()
    }

    private init(_ input: [UInt8]) {
        self.input = input
        guard let client = try? QUICConnection.client(Self.configuration(1), remote: Self.address, at: now) else {
            preconditionFailure("A client can be made")
        }
        self.client = client
    }

    private static func configuration(_ seed: UInt8) -> QUICConfiguration {
        var configuration = QUICConfiguration(
            credentials: [.rawPublicKey(seed: [UInt8](repeating: seed, count: 32))], alpn: ["fuzz"])
        configuration.verify = { _ in true }
        return configuration
    }

    private mutating func talk() {
        for _ in 0..<50_000 {
            react()
            collect()
            guard !client.isDrained else { return }
            var next = client.nextDeadline ?? .distantFuture
            if let deadline = server?.nextDeadline { next = min(next, deadline) }
            for datagram in wire { next = min(next, datagram.due) }
            guard next < .distantFuture else { preconditionFailure("Somebody is always waiting for something") }
            now = max(now, next)
            deliver()
            if let deadline = client.nextDeadline, deadline <= now { client.timedOut(at: now) }
            if let deadline = server?.nextDeadline, deadline <= now { server?.timedOut(at: now) }
        }
        preconditionFailure("A conversation ends")
    }

    // MARK: - The wire

    private mutating func nextByte() -> UInt8? {
        guard position < input.count else { return nil }
        defer { position += 1 }
        return input[position]
    }

    private mutating func collect() {
        for (bytes, _) in client.datagrams(at: now) { put(bytes, isToServer: true) }
        for (bytes, _) in server?.datagrams(at: now) ?? [] { put(bytes, isToServer: false) }
    }

    private mutating func put(_ bytes: [UInt8], isToServer: Bool) {
        var datagram = Datagram(bytes: bytes, due: now.advanced(nanoseconds: 5_000_000), isToServer: isToServer)
        switch nextByte().map({ $0 & 7 }) {
        case 3: return
        case 4: wire.append(datagram)
        case 5: datagram.due = datagram.due.advanced(nanoseconds: 12_000_000)
        case 6:
            let place = Int(nextByte() ?? 0) << 3 % bytes.count
            datagram.bytes[min(place, bytes.count - 1)] ^= max(1, nextByte() ?? 1)
        case 7: datagram.bytes.removeLast(min(bytes.count - 1, Int(nextByte() ?? 0) + 1))
        default: break
        }
        wire.append(datagram)
    }

    private mutating func deliver() {
        let arrived = wire.filter { $0.due <= now }
        wire.removeAll { $0.due <= now }
        for datagram in arrived {
            guard datagram.isToServer else {
                client.receive(datagram.bytes, from: Self.address, at: now)
                continue
            }
            if server == nil {
                guard let header = DatagramHeader(datagram.bytes), header.form == .initial,
                    datagram.bytes.count >= 1_200
                else { continue }
                do {
                    server = try QUICConnection.server(
                        Self.configuration(2), remote: Self.address, initial: header, at: now)
                } catch {
                    preconditionFailure("A server can be made of any first datagram: \(error)")
                }
            }
            server?.receive(datagram.bytes, from: Self.address, at: now)
        }
    }

    // MARK: - The two who talk

    private mutating func react() {
        while let event = client.nextEvent() {
            switch event {
            case .connected: stream = client.openStream(.bidirectional)
            case .readable(let stream): readAnswer(stream)
            case .closed(let reason): check(reason)
            default: break
            }
        }
        if let stream, sent < Self.content.count, !client.isClosed {
            sent += (try? client.write(Self.content[sent...], to: stream)) ?? 0
            if sent == Self.content.count { try? client.finish(stream) }
        }
        while let event = server?.nextEvent() {
            switch event {
            case .readable(let stream), .writable(let stream): echo(stream)
            case .closed(let reason): check(reason)
            default: break
            }
        }
    }

    private mutating func readAnswer(_ stream: StreamID) {
        while let (bytes, isFinished) = try? client.read(stream) {
            precondition(
                Self.content[received...].starts(with: bytes), "What comes back is what was sent, in order")
            received += bytes.count
            if isFinished {
                precondition(received == Self.content.count, "The end comes after everything")
                isAnswered = true
                client.close(code: 0, at: now)
            }
            if isFinished || bytes.isEmpty { return }
        }
    }

    private mutating func echo(_ stream: StreamID) {
        while !isAsked, let (bytes, isFinished) = try? server?.read(stream) {
            pending += bytes
            isAsked = isFinished
            if bytes.isEmpty { break }
        }
        let taken = (try? server?.write(pending, to: stream)) ?? 0
        pending.removeFirst(taken)
        if isAsked, pending.isEmpty, !isEchoed {
            isEchoed = true
            try? server?.finish(stream)
        }
    }

    /// A wire can silence a conversation; it cannot make one end believe that the other breaks the rules.
    private func check(_ reason: QUICConnection.CloseReason) {
        switch reason {
        case .application, .idleTimeout, .handshakeTimeout: break
        case .transport, .statelessReset, .versionMismatch:
            preconditionFailure("Closed by what a wire did: \(reason)")
        }
    }
}
