import KithAPI
import KithWire
import Synchronization

/// UDP sockets that talk with any number of partners, each of which gets a queue of its own.
final class DatagramListener: Sendable {
    /// The endpoints it listens at.
    var endpoints: [Forward.Endpoint] { sockets.map { .address($0.address) } }
    private let sockets: [DatagramSocket]
    private let limit: Int
    private let partners = Mutex<[Key: DatagramPartner]>([:])

    private struct Key: Hashable {
        var socket: Int
        var address: NetworkAddress
    }

    /// Takes over sockets; beyond `limit` partners at once new ones are not heard.
    init(_ sockets: [DatagramSocket], limit: Int = 256) {
        self.sockets = sockets
        self.limit = limit
    }

    /// Reports each new partner, until cancelled.
    func run(_ found: @escaping @Sendable (DatagramPartner) -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, socket) in sockets.enumerated() {
                group.addTask {
                    while true {
                        let (payload, from) = try await socket.receive()
                        self.deliver(payload, Key(socket: index, address: from), found)
                    }
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func deliver(_ payload: [UInt8], _ key: Key, _ found: (DatagramPartner) -> Void) {
        let (partner, isNew) = partners.withLock { partners -> (DatagramPartner?, Bool) in
            if let partner = partners[key] { return (partner, false) }
            guard partners.count < limit else { return (nil, false) }
            let partner = DatagramPartner(key.address, socket: sockets[key.socket]) { [weak self] in
                self?.partners.withLock { _ = $0.removeValue(forKey: key) }
            }
            partners[key] = partner
            return (partner, true)
        }
        guard let partner else { return }
        partner.queue.push(payload, bytes: payload.count + 64)
        if isNew { found(partner) }
    }
}

/// Somebody who sends datagrams to a listener.
final class DatagramPartner: Sendable {
    let address: NetworkAddress
    /// The datagrams it sent; the oldest is dropped first when nobody takes them.
    let queue = DatagramQueue<[UInt8]>(limit: 256, byteLimit: 512 << 10)
    private let socket: DatagramSocket
    private let forget: @Sendable () -> Void

    init(_ address: NetworkAddress, socket: DatagramSocket, forget: @escaping @Sendable () -> Void) {
        self.address = address
        self.socket = socket
        self.forget = forget
    }

    /// Lets go of it: what it sends next makes it a new one.
    func close() {
        queue.finish()
        forget()
    }

    /// Carries its datagrams over a stream and back, until either end is silent for `idle` or the stream ends.
    func carry(
        over stream: any ByteStream, idle: Duration, on clock: any Ticker, traffic: Traffic
    ) async throws {
        defer { close() }
        try await carryDatagrams(
            over: stream, idle: idle, on: clock,
            outgoing: {
                guard let payload = await self.queue.next() else { return nil }
                traffic.sent(payload.count)
                return DatagramFrame(other: nil, payload: payload)
            },
            incoming: { frame in
                traffic.received(frame.payload.count)
                self.socket.send(frame.payload, to: self.address)
            })
    }
}

/// Writes what `outgoing` gives as frames on a stream and hands the frames that come to `incoming`.
///
/// Ends well when the stream does, when `outgoing` gives `nil`, or when nothing was carried for `idle`; then the stream
/// is finished.
func carryDatagrams(
    over stream: any ByteStream, idle: Duration, on clock: any Ticker,
    outgoing: @escaping @Sendable () async -> DatagramFrame?,
    incoming: @escaping @Sendable (DatagramFrame) async throws -> Void
) async throws {
    let activity = Activity(clock)
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            while let frame = await outgoing() {
                activity.note()
                try await stream.write(frame.encoded)
            }
            try Task.checkCancellation()
        }
        group.addTask {
            var decoder = DatagramFrameDecoder()
            while let bytes = try await stream.read(upTo: 128 << 10) {
                activity.note()
                decoder.append(bytes)
                while let frame = try decoder.next() { try await incoming(frame) }
            }
        }
        group.addTask { try await activity.waitUntilIdle(for: idle) }
        defer { group.cancelAll() }
        do {
            try await group.next()
        } catch {
            stream.abort((error as? KithError)?.code ?? .cancelled)
            throw error
        }
        group.cancelAll()
        // The writer may be in the middle of a frame: the end of the stream must not cut it.
        while let result = await group.nextResult() { _ = result }
        try? await stream.finish()  // the other end may be gone already
    }
}

/// When something happened last.
final class Activity: Sendable {
    private let clock: any Ticker
    private let last: Mutex<ContinuousClock.Instant>

    init(_ clock: any Ticker) {
        self.clock = clock
        last = Mutex(clock.now)
    }

    /// Something happened.
    func note() { last.withLock { $0 = clock.now } }

    /// Waits until nothing has happened for as long as that.
    func waitUntilIdle(for limit: Duration) async throws {
        while true {
            let end = last.withLock { $0 } + limit
            if end <= clock.now { return }
            try await clock.sleep(until: end, tolerance: nil)
        }
    }
}
