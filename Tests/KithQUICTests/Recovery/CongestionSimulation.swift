import KithTesting

@testable import KithQUIC

/// A sender with endless data, one bottleneck with a queue, and a receiver that acknowledges: only recovery is real.
struct CongestionSimulation {
    var bytesPerSecond = 12_500_000.0
    var roundTrip: Int64 = .milliseconds(50)
    var queue = 625_000
    var loss = 0.0
    var jitter: Int64 = 0
    /// How long the sender's event loop may be late with a timer.
    var lateness: Int64 = 0
    /// How many packets the receiver takes in before it answers.
    var receiverBatch = 2
    var controller = CongestionControllerKind.bbr
    var seed: UInt64 = 1
    let size = 1200

    struct Result {
        var bytesPerSecond: Double
        var packetsLost: UInt64
        var packetsSent: UInt64
        var batches: Int
        var meanRTT: Double
        var recovery: Recovery
    }

    private struct Packet {
        var number: UInt64
        var time: Timestamp
    }

    private struct Ack {
        var ranges: [AckRange]
        var time: Timestamp
    }

    func run(for span: Int64) throws -> Result {
        var random = SeededRandom(seed: seed)
        var configuration = RecoveryConfiguration()
        configuration.controller = controller
        configuration.seed = seed
        var recovery = Recovery(configuration, isClient: false)
        recovery.handshakeConfirmed()
        var receiver = ReceivedPackets(space: .application)
        let start = Timestamp(nanoseconds: .seconds(1_000))
        var now = start
        var busyUntil = start
        var forward: [Packet] = []
        var forwardHead = 0
        var backward: [Ack] = []
        var backwardHead = 0
        var wake = start
        var delivered = 0
        var batches = 0
        var ackDue = Timestamp.distantFuture
        var unanswered = 0
        let half = roundTrip / 2
        var rttSum = 0.0
        var rttCount = 0.0

        while now - start < span {
            // What is next: an arrival there, an acknowledgement here, a timer here.
            let arrival = forwardHead < forward.count ? forward[forwardHead].time : .distantFuture
            let answer = backwardHead < backward.count ? backward[backwardHead].time : .distantFuture
            let timer = recovery.deadline ?? .distantFuture
            let next = min(arrival, answer, timer, wake, ackDue)
            guard next < .distantFuture else { break }
            now = max(now, next)

            while forwardHead < forward.count, forward[forwardHead].time <= now {
                let packet = forward[forwardHead]
                forwardHead += 1
                delivered += size
                receiver.received(packet.number, isAckEliciting: true, ecn: 0, at: now)
                unanswered += 1
            }
            if forwardHead > 4_096 {
                forward.removeFirst(forwardHead)
                forwardHead = 0
            }
            if receiver.hasUnacknowledged {
                if unanswered >= receiverBatch || receiver.shouldAcknowledgeNow(at: now) && receiverBatch <= 2
                    || receiver.deadline.map({ $0 <= now }) ?? false
                {
                    let ack = receiver.ack(at: now)
                    receiver.acknowledgementSent()
                    unanswered = 0
                    ackDue = .distantFuture
                    if let ack, !random.chance(loss) { backward.append(Ack(ranges: ack.ranges, time: now + half)) }
                } else {
                    ackDue = receiver.deadline ?? .distantFuture
                }
            }
            var mayWrite = wake <= now
            while backwardHead < backward.count, backward[backwardHead].time <= now {
                let ack = backward[backwardHead]
                backwardHead += 1
                try recovery.receivedAck(.application, ranges: ack.ranges, delay: 0, ecn: nil, at: now)
                if let range = ack.ranges.first, range.largest > 40 {
                    receiver.acknowledgementAcknowledged(upTo: range.largest - 40)
                }
                mayWrite = true
                rttSum += Double(recovery.rtt.latest)
                rttCount += 1
            }
            if backwardHead > 4_096 {
                backward.removeFirst(backwardHead)
                backwardHead = 0
            }
            if let deadline = recovery.deadline, deadline <= now {
                if case .probe(_, let count) = recovery.timedOut(at: now) {
                    for _ in 0..<count { transmit() }
                }
                mayWrite = true
            }
            while recovery.nextLost() != nil {}
            while recovery.nextAcknowledged() != nil {}
            if mayWrite {
                wake = .distantFuture
                sending: while true {
                    switch recovery.permission(at: now) {
                    case .bytes(let count):
                        batches += 1
                        for _ in 0..<min(44, count / size) { transmit() }
                    case .paced(let until):
                        wake = until + (lateness > 0 ? Int64.random(in: 0...lateness, using: &random) : 0)
                        break sending
                    case .congestionBlocked:
                        break sending
                    }
                }
            }
        }

        func transmit() {
            let number = recovery.nextPacketNumber(.application)
            recovery.sent(
                .application, size: size, isAckEliciting: true, isInFlight: true, content: SentContent(), at: now)
            if random.chance(loss) { return }
            let begin = max(now, busyUntil)
            guard Double(begin - now) * bytesPerSecond / 1e9 + Double(size) <= Double(queue) else { return }
            busyUntil = begin + Int64(Double(size) * 1e9 / bytesPerSecond)
            var time = busyUntil + half
            if jitter > 0 {
                time = time + Int64.random(in: 0...jitter, using: &random)
                // Kept sorted: a later packet may come first.
                var index = forward.count
                while index > forwardHead, forward[index - 1].time > time { index -= 1 }
                forward.insert(Packet(number: number, time: time), at: index)
                return
            }
            forward.append(Packet(number: number, time: time))
        }

        return Result(
            bytesPerSecond: Double(delivered) * 1e9 / Double(span), packetsLost: recovery.statistics.packetsLost,
            packetsSent: recovery.statistics.packetsSent, batches: batches, meanRTT: rttSum / max(1, rttCount),
            recovery: recovery)
    }
}
