public import KithQUIC

/// The treatment of datagrams by a simulated network.
public struct NetworkConditions: Hashable, Sendable {
    /// The least time a datagram takes, one way.
    public var delay: Duration = .milliseconds(10)
    /// By how much more it may take, evenly spread; without ``reordering`` the order is kept.
    public var jitter: Duration = .zero
    /// The share that is lost, 0…1.
    public var loss = 0.0
    /// The share that overtakes, 0…1.
    public var reordering = 0.0
    /// By what part of the delay such a datagram is early, 0…1.
    public var earliness = 0.5
    /// The share that arrives twice.
    public var duplication = 0.0
    /// The share with one bit turned.
    public var corruption = 0.0
    /// The largest datagram that passes; larger ones vanish.
    public var maximumSize = 1_500
    /// The bytes a second that pass, or nil for no bound.
    public var bytesPerSecond: Int?
    /// The bytes that wait for the bottleneck before the newest are dropped.
    public var queue = 256 * 1024

    /// The fate of ECN marks.
    public var marks = Marks.kept
    /// The bytes waiting for the bottleneck above which datagrams that can be marked are, as congestion experienced.
    public var markingQueue: Int?

    /// The ways a network may treat the ECN bits of what passes.
    public enum Marks: Hashable, Sendable {
        /// They arrive as they were sent.
        case kept
        /// They arrive as zero.
        case cleared
        /// Everything that can be marked arrives as congestion experienced.
        case alwaysCongested
        /// ECT(0) arrives as ECT(1).
        case swapped
        /// Marked datagrams do not arrive.
        case dropped
    }

    /// Makes the conditions of a good link: 10 ms, nothing lost.
    public init() {}
}

/// A network in memory: datagrams go in with the time, and come out later, elsewhere, changed, twice or never.
///
/// A value: what happens depends on the seed and the calls alone. Addresses are whatever a test tells ends apart by.
/// Each pair of sender and receiver has its own bottleneck, each with the network's conditions.
public struct SimulatedNetwork<Address: Hashable & Sendable>: Sendable {
    /// A datagram as it arrives.
    public struct Datagram: Sendable {
        /// The address of the sender.
        public var source: Address
        /// The address of the recipient.
        public var destination: Address
        /// The payload.
        public var bytes: [UInt8]
        /// Its two ECN bits.
        public var ecn: UInt8
        /// When it arrives.
        public var time: Timestamp
    }

    private struct Link: Hashable {
        var source: Address
        var destination: Address
    }

    private struct Flow {
        /// When the bottleneck will have sent what it holds.
        var busyUntil = Timestamp.zero
        var lastArrival = Timestamp.zero
    }

    private struct Flight {
        var datagram: Datagram
        var order: UInt64
    }

    /// The present conditions; may be changed at any time, for datagrams sent from then on.
    public var conditions: NetworkConditions
    /// The share that is lost of what goes to an address, where it is another than ``NetworkConditions/loss``.
    public var losses: [Address: Double] = [:]
    /// The number of datagrams dropped.
    public private(set) var dropped = 0
    /// The number of datagrams marked as having met congestion.
    public private(set) var marked = 0
    /// The number of datagrams delivered.
    public private(set) var delivered = 0
    private var random: SeededRandom
    private var heap: [Flight] = []
    private var order: UInt64 = 0
    private var flows: [Link: Flow] = [:]

    /// Makes a network whose accidents follow from the generator.
    public init(_ conditions: NetworkConditions = NetworkConditions(), random: SeededRandom) {
        self.conditions = conditions
        self.random = random
    }

    /// The number of datagrams on their way.
    public var inFlight: Int { heap.count }

    /// When the next datagram arrives, or nil when none is on its way.
    public var nextArrival: Timestamp? { heap.first?.datagram.time }

    /// Puts a datagram on its way.
    public mutating func send(
        _ bytes: [UInt8], ecn: UInt8 = 0, from source: Address, to destination: Address, at now: Timestamp
    ) {
        var ecn = ecn
        if ecn != 0 {
            switch conditions.marks {
            case .kept: break
            case .cleared: ecn = 0
            case .alwaysCongested: ecn = 3
            case .swapped: ecn = ecn == 2 ? 1 : ecn
            case .dropped:
                dropped += 1
                return
            }
        }
        guard bytes.count <= conditions.maximumSize, !random.chance(losses[destination] ?? conditions.loss)
        else {
            dropped += 1
            return
        }
        var departure = now
        let link = Link(source: source, destination: destination)
        if let rate = conditions.bytesPerSecond {
            var flow = flows[link] ?? Flow()
            let start = max(now, flow.busyUntil)
            let waiting = Double(start - now) * Double(rate) / 1e9
            guard waiting + Double(bytes.count) <= Double(conditions.queue) else {
                dropped += 1
                return
            }
            if ecn != 0, let threshold = conditions.markingQueue, waiting > Double(threshold) {
                ecn = 3
                marked += 1
            }
            departure = start + Int64(Double(bytes.count) * 1e9 / Double(rate))
            flow.busyUntil = departure
            flows[link] = flow
        }
        var bytes = bytes
        if !bytes.isEmpty, random.chance(conditions.corruption) {
            let position = Int.random(in: 0..<bytes.count, using: &random)
            bytes[position] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        }
        deliver(bytes, ecn, link, departure: departure)
        if random.chance(conditions.duplication) { deliver(bytes, ecn, link, departure: departure) }
    }

    private mutating func deliver(_ bytes: [UInt8], _ ecn: UInt8, _ link: Link, departure: Timestamp) {
        let delay = nanoseconds(conditions.delay)
        var arrival = departure + delay
        if conditions.jitter > .zero {
            arrival = arrival + Int64.random(in: 0...nanoseconds(conditions.jitter), using: &random)
        }
        if random.chance(conditions.reordering) {
            arrival = departure + Int64(Double(delay) * (1 - conditions.earliness))
        } else {
            var flow = flows[link] ?? Flow()
            if conditions.reordering == 0 { arrival = max(arrival, flow.lastArrival) }
            flow.lastArrival = arrival
            flows[link] = flow
        }
        push(
            Datagram(source: link.source, destination: link.destination, bytes: bytes, ecn: ecn, time: arrival))
    }

    private func nanoseconds(_ duration: Duration) -> Int64 {
        Timestamp.zero.advanced(by: duration).nanoseconds
    }

    /// Takes the next datagram that has arrived by `now`.
    public mutating func receive(by now: Timestamp) -> Datagram? {
        guard let first = heap.first, first.datagram.time <= now else { return nil }
        delivered += 1
        return pop()
    }

    /// Forgets everything on its way, as a cable that is pulled.
    public mutating func clear() {
        dropped += heap.count
        heap.removeAll()
    }

    // MARK: - A binary heap by time, then by order of sending

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        let (a, b) = (heap[left], heap[right])
        return a.datagram.time == b.datagram.time ? a.order < b.order : a.datagram.time < b.datagram.time
    }

    private mutating func push(_ datagram: Datagram) {
        heap.append(Flight(datagram: datagram, order: order))
        order += 1
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func pop() -> Datagram {
        heap.swapAt(0, heap.count - 1)
        let datagram = heap.removeLast().datagram
        var parent = 0
        while true {
            var smallest = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && isBefore(child, smallest) {
                smallest = child
            }
            if smallest == parent { return datagram }
            heap.swapAt(parent, smallest)
            parent = smallest
        }
    }
}
