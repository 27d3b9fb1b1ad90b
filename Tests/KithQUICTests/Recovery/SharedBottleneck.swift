import KithTesting

@testable import KithQUIC

/// Several senders with endless data behind one bottleneck with one drop-tail queue: only recovery is real.
///
/// ```
///  sender 0 ──┐                          ┌── receiver 0
///  sender 1 ──┼──▶ queue ──▶ bottleneck ─┼── receiver 1
///  sender 2 ──┘                          └── receiver 2
/// ```
/// Acknowledgements come back along a path of their own, which is never full.
struct SharedBottleneck {
    /// One of the senders, and what happens to its packets alone.
    struct Sender {
        var controller = CongestionControllerKind.bbr
        /// The round trip without a queue, in nanoseconds.
        var roundTrip: Int64 = .milliseconds(30)
        /// The time after which it begins.
        var start: Int64 = 0
        /// The share of its packets that is lost before the queue (0…1) from ``lossStart`` on.
        var loss = 0.0
        /// The time after which packets are lost.
        var lossStart: Int64 = 0
        /// The share of its acknowledgements that is lost (0…1) from ``acknowledgementLossStart`` on.
        var acknowledgementLoss = 0.0
        /// The time after which acknowledgements are lost.
        var acknowledgementLossStart: Int64 = 0
        /// The most by which one of its packets is late, each by another time, so that they overtake each other.
        var jitter: Int64 = 0
        /// Indicates whether its packets can carry congestion marks.
        var marks = false
    }

    /// The rate of the bottleneck, in bytes a second.
    var bytesPerSecond = 2_500_000.0
    /// The bytes its queue holds.
    var queue = 125_000
    /// The bytes in the queue above which a packet that can be marked is marked.
    var markingThreshold = Int.max
    var senders: [Sender]
    var seed: UInt64 = 1
    let size = 1_200

    /// A queue that takes so long to empty.
    init(_ senders: [Sender], queue time: Int64) {
        self.senders = senders
        queue = Int(bytesPerSecond * Double(time) / 1e9)
    }

    /// What one sender got.
    struct Result {
        /// Bytes a second that arrived in the time measured.
        var bytesPerSecond = 0.0
        var statistics = RecoveryStatistics()
        /// The mean of the round trips it measured in that time, in nanoseconds.
        var roundTrip = 0.0

        var megabits: Double { bytesPerSecond * 8 / 1e6 }
    }

    private struct Packet {
        var number: UInt64
        var time: Timestamp
        var isMarked: Bool
    }

    private struct Acknowledgement {
        var frame: ReadAck
        var time: Timestamp
    }

    private struct Flow {
        let sender: Sender
        var recovery: Recovery
        var receiver = ReceivedPackets(space: .application)
        var forward = Line<Packet>()
        var backward = Line<Acknowledgement>()
        var wake: Timestamp
        var unanswered = 0
        var answerDue = Timestamp.distantFuture
        var delivered = 0
        var roundTrips = (sum: 0.0, count: 0.0)

        var next: Timestamp {
            min(
                forward.first?.time ?? .distantFuture, backward.first?.time ?? .distantFuture,
                recovery.deadline ?? .distantFuture, min(wake, answerDue))
        }
    }

    /// Lets them send for `span`, and counts what arrived from `begin` on, both in nanoseconds.
    ///
    /// `observe` is called after every step with the time since the start, and each sender's recovery.
    func run(
        for span: Int64, from begin: Int64 = 0, observe: (Int64, [Recovery]) -> Void = { _, _ in },
        observes: Bool = false
    ) throws -> [Result] {
        var random = SeededRandom(seed: seed)
        let start = Timestamp(nanoseconds: .seconds(1_000))
        var now = start
        var busyUntil = start
        var flows = senders.map { sender in
            var configuration = RecoveryConfiguration()
            configuration.controller = sender.controller
            configuration.seed = random.next()
            configuration.marksECN = sender.marks
            var recovery = Recovery(configuration, isClient: false)
            recovery.handshakeConfirmed()
            return Flow(sender: sender, recovery: recovery, wake: start.advanced(nanoseconds: sender.start))
        }

        func transmit(_ index: Int) {
            let sender = flows[index].sender
            let number = flows[index].recovery.nextPacketNumber(.application)
            let isMarkable = flows[index].recovery.isMarkingECN
            flows[index].recovery.sent(
                .application, size: size, isAckEliciting: true, isInFlight: true, isMarkable: isMarkable,
                content: SentContent(), at: now)
            if now - start >= sender.lossStart, random.chance(sender.loss) { return }
            let free = max(now, busyUntil)
            let waiting = Double(free - now) * bytesPerSecond / 1e9
            guard waiting + Double(size) <= Double(queue) else { return }
            busyUntil = free.advanced(nanoseconds: Int64(Double(size) * 1e9 / bytesPerSecond))
            var time = busyUntil.advanced(nanoseconds: sender.roundTrip / 2)
            if sender.jitter > 0 {
                time = time.advanced(nanoseconds: Int64.random(in: 0...sender.jitter, using: &random))
            }
            let isMarked = isMarkable && waiting > Double(markingThreshold)
            flows[index].forward.insert(Packet(number: number, time: time, isMarked: isMarked), at: time) { $0.time }
        }

        while true {
            var index = 0
            var next = Timestamp.distantFuture
            for candidate in flows.indices where flows[candidate].next < next {
                (index, next) = (candidate, flows[candidate].next)
            }
            now = max(now, next)
            guard now - start < span else { break }
            let isCounted = now - start >= begin

            while let packet = flows[index].forward.first, packet.time <= now {
                flows[index].forward.removeFirst()
                if isCounted { flows[index].delivered += size }
                flows[index].receiver.received(
                    packet.number, isAckEliciting: true, ecn: packet.isMarked ? 3 : flows[index].sender.marks ? 2 : 0,
                    at: now)
                flows[index].unanswered += 1
            }
            if flows[index].receiver.hasUnacknowledged {
                if flows[index].unanswered >= 2 || flows[index].receiver.shouldAcknowledgeNow(at: now)
                    || flows[index].receiver.deadline.map({ $0 <= now }) ?? false
                {
                    let ack = flows[index].receiver.ack(at: now)
                    flows[index].receiver.acknowledgementSent()
                    flows[index].unanswered = 0
                    flows[index].answerDue = .distantFuture
                    let isLossy = now - start >= flows[index].sender.acknowledgementLossStart
                    if let ack, !isLossy || !random.chance(flows[index].sender.acknowledgementLoss) {
                        let time = now.advanced(nanoseconds: flows[index].sender.roundTrip / 2)
                        flows[index].backward.append(Acknowledgement(frame: ack, time: time))
                    }
                } else {
                    flows[index].answerDue = flows[index].receiver.deadline ?? .distantFuture
                }
            } else {
                flows[index].answerDue = .distantFuture
            }
            var mayWrite = flows[index].wake <= now
            while let ack = flows[index].backward.first, ack.time <= now {
                flows[index].backward.removeFirst()
                let counts =
                    ack.frame.ecn.isEmpty
                    ? nil : ECNCounts(ect0: ack.frame.ecn[0], ect1: ack.frame.ecn[1], ce: ack.frame.ecn[2])
                try flows[index].recovery.receivedAck(
                    .application, ranges: ack.frame.ranges, delay: Int64(ack.frame.delay) * 8_000, ecn: counts, at: now)
                if let range = ack.frame.ranges.first, range.largest > 400 {
                    flows[index].receiver.acknowledgementAcknowledged(upTo: range.largest - 400)
                }
                if isCounted {
                    flows[index].roundTrips.sum += Double(flows[index].recovery.rtt.latest)
                    flows[index].roundTrips.count += 1
                }
                mayWrite = true
            }
            if let deadline = flows[index].recovery.deadline, deadline <= now {
                if case .probe(_, let count) = flows[index].recovery.timedOut(at: now) {
                    for _ in 0..<count { transmit(index) }
                }
                mayWrite = true
            }
            while flows[index].recovery.nextLost() != nil {}
            while flows[index].recovery.nextAcknowledged() != nil {}
            if mayWrite, now - start >= flows[index].sender.start {
                flows[index].wake = .distantFuture
                sending: while true {
                    switch flows[index].recovery.permission(at: now) {
                    case .bytes(let count):
                        for _ in 0..<max(1, min(44, count / size)) { transmit(index) }
                        flows[index].recovery.batchEnded()
                    case .paced(let until):
                        // A timer is a little late, so that the senders do not march in step.
                        let late = Int64.random(in: 0...Int64.microseconds(200), using: &random)
                        flows[index].wake = until.advanced(nanoseconds: late)
                        break sending
                    case .congestionBlocked:
                        break sending
                    }
                }
            }
            if observes { observe(now - start, flows.map(\.recovery)) }
        }
        return flows.map { flow in
            let counted = span - max(begin, flow.sender.start)
            return Result(
                bytesPerSecond: Double(flow.delivered) * 1e9 / Double(counted), statistics: flow.recovery.statistics,
                roundTrip: flow.roundTrips.sum / max(1, flow.roundTrips.count))
        }
    }
}

/// What is on its way along a line, in order of arrival.
private struct Line<Element> {
    private var elements: [Element] = []
    private var head = 0

    var first: Element? { head < elements.count ? elements[head] : nil }

    mutating func removeFirst() {
        head += 1
        if head > 4_096 {
            elements.removeFirst(head)
            head = 0
        }
    }

    mutating func append(_ element: Element) { elements.append(element) }

    /// Inserts what may overtake others.
    mutating func insert(_ element: Element, at time: Timestamp, _ timeOf: (Element) -> Timestamp) {
        var index = elements.count
        while index > head, timeOf(elements[index - 1]) > time { index -= 1 }
        elements.insert(element, at: index)
    }
}
