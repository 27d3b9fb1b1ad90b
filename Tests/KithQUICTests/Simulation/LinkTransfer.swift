import KithTesting
import KithWire

@testable import KithQUIC

/// One file over one link, both ends whole engines: a connection is dialed, a stream carries the bytes, the clock is
/// simulated.
struct LinkTransfer {
    var conditions = NetworkConditions()
    var controller = CongestionControllerKind.bbr
    var size = 16 << 20
    /// The largest datagram the sender's system takes.
    var interfaceSize = Int.max
    var seed: UInt64 = 1
    /// The share of the receiver's datagrams that is lost once the connection has run for a second.
    var answerLoss = 0.0

    /// The links of the requirements: 100 Mbit/s, 50 ms there and back, a queue of 50 ms.
    init(roundTrip: Duration = .milliseconds(50)) {
        conditions.delay = roundTrip / 2
        conditions.bytesPerSecond = 12_500_000
        conditions.queue = 625_000
    }

    struct Result {
        /// From dialing to the last byte read.
        var megabits: Double
        var seconds: Double
        var sender: RecoveryStatistics
        var datagramsSent: UInt64
        var isComplete: Bool
        var datagramSize: Int
        /// Datagrams the network marked.
        var congestionMarks: Int
    }

    static func configuration(seed: UInt64) -> QUICConfiguration {
        var configuration = QUICConfiguration(
            credentials: [.rawPublicKey(seed: [UInt8](repeating: UInt8(truncatingIfNeeded: seed), count: 32))],
            alpn: ["kith-test"])
        let shared = SharedRandom(seed: seed)
        configuration.random = { shared.next() }
        configuration.verify = { _ in true }
        return configuration
    }

    /// Runs until all bytes are read, or until `limit` of simulated time has passed.
    ///
    /// `observe` sees the sender after every step.
    func run(
        limit: Int64 = .seconds(60), change: (inout QUICConfiguration) -> Void = { _ in },
        observe: (inout ConnectionPair) -> Void = { _ in }
    ) throws -> Result {
        var client = Self.configuration(seed: seed)
        client.congestionController = controller
        change(&client)
        var pair = try ConnectionPair(
            client: client, server: Self.configuration(seed: seed + 1_000),
            network: SimulatedNetwork(conditions, random: SeededRandom(seed: seed)))
        pair.interfaceSize = interfaceSize
        let start = pair.now
        let chunk = [UInt8](repeating: 0x5A, count: 128 << 10)
        var stream: StreamID?
        var written = 0
        var received = 0
        var mayWrite = false
        var end: Timestamp?
        while end == nil, pair.now - start < limit, pair.step() {
            while let event = pair.client.nextEvent() {
                switch event {
                case .connected:
                    stream = pair.client.openStream(.unidirectional)
                    mayWrite = true
                case .writable: mayWrite = true
                default: break
                }
            }
            while mayWrite, let stream, written < size {
                let count = min(chunk.count, size - written)
                let taken = try pair.client.write(chunk[..<count], to: stream)
                written += taken
                if written == size { try pair.client.finish(stream) }
                mayWrite = taken == count
            }
            while let event = pair.server?.nextEvent() {
                guard case .readable(let id) = event else { continue }
                while let part = try pair.server?.read(id, upTo: 256 << 10) {
                    received += part.bytes.count
                    if part.isFinished { end = pair.now }
                    if part.bytes.isEmpty || part.isFinished { break }
                }
            }
            if answerLoss > 0, pair.now - start >= .seconds(1) {
                pair.network.losses[ConnectionPair.clientAddress] = answerLoss
            }
            observe(&pair)
        }
        let seconds = Double((end ?? pair.now) - start) / 1e9
        return Result(
            megabits: Double(received) * 8 / 1e6 / seconds, seconds: seconds, sender: pair.client.recovery.statistics,
            datagramsSent: pair.client.traffic.datagramsSent, isComplete: end != nil && received == size,
            datagramSize: pair.client.datagramSize, congestionMarks: pair.network.marked)
    }
}
