public import KithQUIC
public import KithWire
import Synchronization

/// Two QUIC engines on a simulated network, run event by event in simulated time.
///
/// The server comes to be when the client's first datagram arrives, as it would behind a socket. After each
/// ``step()`` take the events of ``client`` and ``server`` and use their streams; then step again.
public struct ConnectionPair: ~Copyable {
    /// The address of the client.
    public static let clientAddress = NetworkAddress(ipv4: 0xC000_0201, port: 4_001)
    /// The address of the server.
    public static let serverAddress = NetworkAddress(ipv4: 0xC000_0202, port: 4_002)

    /// The dialing end.
    public var client: QUICConnection
    /// The answering end, once a datagram has reached it.
    public var server: QUICConnection?
    /// The client's apparent address: a NAT may give it another, and nothing sent to the old one arrives.
    public var clientPlace = ConnectionPair.clientAddress
    /// The largest datagram the client's system sends; what is larger it refuses, as an interface does.
    public var interfaceSize = Int.max
    /// The network between the two.
    public var network: SimulatedNetwork<NetworkAddress>
    /// The simulated time.
    public private(set) var now: Timestamp
    /// True while datagrams of the server are dropped, as when it lost its power.
    public var isServerGone = false
    /// True while datagrams of the client are dropped.
    public var isClientGone = false
    /// The number of calls of ``step()`` that did something.
    public private(set) var steps = 0
    private let serverConfiguration: QUICConfiguration
    private var buffer: [UInt8]

    /// Dials.
    ///
    /// - Throws: `KithError` when the client's configuration cannot be used.
    public init(
        client: QUICConfiguration, server: QUICConfiguration, network: SimulatedNetwork<NetworkAddress>,
        at now: Timestamp = Timestamp(nanoseconds: 1_000_000_000_000)
    ) throws {
        self.now = now
        self.network = network
        serverConfiguration = server
        buffer = [UInt8](capacity: 24 * 1024)
        self.client = try QUICConnection.client(client, remote: Self.serverAddress, at: now)
    }

    /// Moves everything the two have to say onto the network.
    public mutating func pump() {
        while let transmit = client.nextTransmit(into: &buffer, at: now) {
            if transmit.segmentSize > interfaceSize {
                client.datagramRefused(size: transmit.segmentSize, at: now)
            } else if !isClientGone {
                put(transmit, from: clientPlace)
            }
        }
        while let transmit = server?.nextTransmit(into: &buffer, at: now) {
            if !isServerGone { put(transmit, from: Self.serverAddress) }
        }
    }

    private mutating func put(_ transmit: Transmit, from source: NetworkAddress) {
        var start = 0
        while start < transmit.length {
            let end = min(start + max(1, transmit.segmentSize), transmit.length)
            network.send(Array(buffer[start..<end]), ecn: transmit.ecn, from: source, to: transmit.remote, at: now)
            start = end
        }
    }

    /// Goes on to whatever happens next, and lets it happen.
    ///
    /// - Returns: false when nothing ever will.
    public mutating func step() -> Bool {
        pump()
        var next = Timestamp.distantFuture
        if let arrival = network.nextArrival { next = min(next, arrival) }
        if let deadline = client.nextDeadline { next = min(next, deadline) }
        if let deadline = server?.nextDeadline { next = min(next, deadline) }
        guard next < .distantFuture else { return false }
        steps += 1
        now = max(now, next)
        while var datagram = network.receive(by: now) {
            if datagram.destination == clientPlace {
                unsafe datagram.bytes.withUnsafeMutableBytes {
                    unsafe client.receive($0, from: datagram.source, ecn: datagram.ecn, at: now)
                }
            } else if datagram.destination == Self.serverAddress {
                arrive(&datagram.bytes, from: datagram.source, ecn: datagram.ecn)
            }
        }
        if let deadline = client.nextDeadline, deadline <= now { client.timedOut(at: now) }
        if let deadline = server?.nextDeadline, deadline <= now { server?.timedOut(at: now) }
        return true
    }

    private mutating func arrive(_ bytes: inout [UInt8], from source: NetworkAddress, ecn: UInt8) {
        if server == nil {
            let header = unsafe bytes.withUnsafeBytes { unsafe DatagramHeader($0) }
            guard let header, header.form == .initial, bytes.count >= 1_200 else { return }
            // A configuration that cannot be used leaves the client unanswered, and its test with a time-out.
            server = try? QUICConnection.server(serverConfiguration, remote: source, initial: header, at: now)
        }
        unsafe bytes.withUnsafeMutableBytes { unsafe server?.receive($0, from: source, ecn: ecn, at: now) }
    }

    /// Lets time pass with nothing but the engines' own deadlines and what is on its way.
    public mutating func run(until time: Timestamp) {
        while true {
            pump()
            var next = network.nextArrival ?? .distantFuture
            if let deadline = client.nextDeadline { next = min(next, deadline) }
            if let deadline = server?.nextDeadline { next = min(next, deadline) }
            guard next <= time else { break }
            guard step() else { break }
        }
        now = max(now, time)
    }
}

extension QUICConnection {
    /// Fills an array's memory; the first `length` bytes are the datagrams.
    public mutating func nextTransmit(into buffer: inout [UInt8], at now: Timestamp) -> Transmit? {
        var result: Transmit?
        unsafe buffer.withUnsafeMutableBytes { result = unsafe nextTransmit(into: $0, at: now) }
        return result
    }
}

extension [UInt8] {
    /// Memory to be written before it is read; filling it with zeros takes longer than a conversation without optimizer.
    fileprivate init(capacity: Int) {
        unsafe self.init(unsafeUninitializedCapacity: capacity) { _, count in count = capacity }
    }
}

/// A source of seeded random numbers that a configuration's closure can hold.
public final class SharedRandom: Sendable {
    private let random: Mutex<SeededRandom>

    /// Starts the sequence of a seed.
    public init(seed: UInt64) {
        random = Mutex(SeededRandom(seed: seed))
    }

    /// The next 64 bits.
    public func next() -> UInt64 { random.withLock { $0.next() } }
}
