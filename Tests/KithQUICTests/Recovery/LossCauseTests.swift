import KithTesting
import Testing

@testable import KithQUIC

/// Losses of a full queue, and losses that have nothing to do with one.
@Suite struct LossCauseTests {
    private static let minimum = Int64.milliseconds(30)
    private static let full = Int64.milliseconds(50)

    /// Rounds in which the queue fills and empties, and how often it was held to be full meanwhile.
    private func settled(loss: Double = 0) -> (cause: LossCause, alarms: Int) {
        var cause = LossCause()
        var alarms = 0
        var random = SeededRandom(seed: 3)
        for number in 0..<4_000 {
            let rtt = Self.minimum + Int64(number % 100) * .microseconds(200)
            if random.chance(loss) {
                cause.lost(rtt: rtt, minimum: Self.minimum, isProbing: false, isNew: true)
            } else {
                cause.acknowledged(1, rtt: rtt, minimum: Self.minimum, isProbing: false)
            }
            if number % 100 == 99 { cause.roundEnded() }
            if cause.isQueueFull(minimum: Self.minimum) {
                alarms += 1
                cause.answered()
            }
        }
        return (cause, alarms)
    }

    @Test func `a loss beside packets that waited tells of a full queue`() {
        var cause = settled().cause
        #expect(!cause.isQueueFull(minimum: Self.minimum))
        cause.lost(rtt: Self.full, minimum: Self.minimum, isProbing: false, isNew: true)
        #expect(cause.isQueueFull(minimum: Self.minimum))
        cause.answered()
        #expect(!cause.isQueueFull(minimum: Self.minimum))
    }

    @Test func `in a queue that holds much more than the path it takes two`() {
        var cause = LossCause()
        for number in 0..<4_000 {
            let rtt = Self.minimum + Int64(number % 100) * .milliseconds(1)
            cause.acknowledged(1, rtt: rtt, minimum: Self.minimum, isProbing: false)
            if number % 100 == 99 { cause.roundEnded() }
        }
        for _ in 0..<2 {
            #expect(!cause.isQueueFull(minimum: Self.minimum))
            cause.lost(rtt: 4 * Self.minimum, minimum: Self.minimum, isProbing: false, isNew: true)
        }
        #expect(cause.isQueueFull(minimum: Self.minimum))
    }

    @Test func `losses beside packets that did not wait are the path's own`() {
        var cause = settled().cause
        for _ in 0..<100 { cause.lost(rtt: Self.minimum, minimum: Self.minimum, isProbing: false, isNew: true) }
        #expect(!cause.isQueueFull(minimum: Self.minimum))
        #expect(cause.quiet.value > 0.03)
    }

    @Test(arguments: [0.01, 0.03, 0.1]) func `losses at random are no evidence, whatever the queue`(loss: Double) {
        let (cause, alarms) = settled(loss: loss)
        #expect(abs(cause.quiet.value - loss) < loss / 2)
        // 20 to 200 packets were lost beside some that waited.
        #expect(alarms <= 2)
    }

    @Test func `what is sent faster is not made up for where more of it is lost`() {
        var cause = LossCause()
        for number in 0..<1_000 {
            let isProbing = number % 2 == 0
            for lost in [true, false, false, false, false, false, false, false, false, false] {
                if lost {
                    cause.lost(rtt: Self.minimum, minimum: Self.minimum, isProbing: isProbing, isNew: true)
                } else {
                    cause.acknowledged(1, rtt: Self.minimum, minimum: Self.minimum, isProbing: isProbing)
                }
            }
        }
        // A tenth, probing or not.
        #expect(abs(cause.unavoidable - 0.1) < 0.03)
        for _ in 0..<1_000 {
            cause.lost(rtt: Self.minimum, minimum: Self.minimum, isProbing: true, isNew: true)
            cause.acknowledged(1, rtt: Self.minimum, minimum: Self.minimum, isProbing: true)
        }
        // As a policer does it.
        #expect(cause.unavoidable == 0)
    }

    @Test func `a spurious loss is taken back`() {
        var cause = settled().cause
        for _ in 0..<2 {
            cause.lost(rtt: Self.full, minimum: Self.minimum, isProbing: false, isNew: true)
            cause.lossWasSpurious()
        }
        #expect(!cause.isQueueFull(minimum: Self.minimum))
    }

    @Test func `a lost packet met what the one before it met`() {
        var trail = DelayTrail()
        #expect(trail.delay(before: 5) == 0)
        for number in 0..<100 as Range<UInt64> { trail.append(number * 2, Int64(number)) }
        #expect(trail.delay(before: 199) == 99)
        #expect(trail.delay(before: 151) == 75)
        #expect(trail.delay(before: 150) == 74)
        // What is too long ago is forgotten.
        #expect(trail.delay(before: 3) == 0)
    }
}

/// Paths that lose much: 20 Mbit/s, 40 ms, a queue of 50 ms.
@Suite struct HeavyLossTests {
    private func megabits(_ change: (inout SharedBottleneck.Sender) -> Void) throws -> Double {
        var sender = SharedBottleneck.Sender()
        sender.roundTrip = .milliseconds(40)
        change(&sender)
        return try SharedBottleneck([sender], queue: .milliseconds(50)).run(for: .seconds(15))[0].megabits
    }

    @Test(arguments: [(0.1, 15), (0.3, 12)] as [(Double, Double)])
    func `BBR fills a path that loses a tenth, or a third, of what is sent`(loss: Double, floor: Double) throws {
        let result = try megabits { $0.loss = loss }
        print("loss of \(Int(loss * 100)) %: \(result) Mbit/s of 20")
        #expect(result >= floor)
    }

    @Test func `so it does where the loss begins later`() throws {
        let result = try megabits {
            $0.loss = 0.3
            $0.lossStart = .seconds(2)
        }
        print("loss of 30 % from 2 s on: \(result) Mbit/s of 20")
        #expect(result >= 12)
    }

    @Test(arguments: [(0.8, 15), (0.95, 5)] as [(Double, Double)])
    func `BBR keeps sending where most acknowledgements are lost`(loss: Double, floor: Double) throws {
        let result = try megabits {
            $0.acknowledgementLoss = loss
            // They are there for the handshake.
            $0.acknowledgementLossStart = .milliseconds(200)
        }
        print("acknowledgement loss of \(Int(loss * 100)) %: \(result) Mbit/s of 20")
        #expect(result >= floor)
    }

    @Test func `BBR fills a path whose packets are late by up to 100 ms`() throws {
        let result = try megabits { $0.jitter = .milliseconds(100) }
        print("jitter of 100 ms: \(result) Mbit/s of 20")
        #expect(result >= 15)
    }

    @Test func `a queue of a packet or two is not overrun`() throws {
        var sender = SharedBottleneck.Sender()
        sender.roundTrip = .milliseconds(40)
        let bottleneck = SharedBottleneck([sender], queue: .milliseconds(2))
        let result = try bottleneck.run(for: .seconds(15))[0]
        #expect(result.megabits >= 12)
        #expect(Double(result.statistics.packetsLost) < 0.03 * Double(result.statistics.packetsSent))
    }
}
