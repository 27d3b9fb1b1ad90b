import KithTesting
import Testing

@testable import KithQUIC

/// Two senders at one bottleneck, and the shares of it that are held to be fair.
struct Rivalry: CustomTestStringConvertible, Sendable {
    var name: String
    var first: CongestionControllerKind
    var second: CongestionControllerKind
    /// The time after which the second begins.
    var delay: Int64
    /// The least share, in percent, either may get.
    var floor: Double
    /// The seeds of the runs, of which the mean is taken.
    var seeds: ClosedRange<UInt64> = 1...1
    var testDescription: String { name }

    static let all = [
        Rivalry(name: "BBR and CUBIC at once", first: .bbr, second: .cubic, delay: 0, floor: 25),
        Rivalry(name: "CUBIC, then BBR", first: .cubic, second: .bbr, delay: .seconds(5), floor: 25),
        Rivalry(name: "BBR, then CUBIC", first: .bbr, second: .cubic, delay: .seconds(5), floor: 25),
        Rivalry(name: "BBR, then BBR", first: .bbr, second: .bbr, delay: .seconds(5), floor: 40, seeds: 7...10),
        Rivalry(name: "CUBIC, then CUBIC", first: .cubic, second: .cubic, delay: .seconds(5), floor: 33),
    ]
    /// The queues of the bottleneck, in milliseconds.
    static let queues: [Int64] = [5, 25, 50, 100, 200]

    /// The least share with a queue, in milliseconds: with a short one BBR and CUBIC share as two of a kind do.
    func floor(queue: Int64) -> Double { first != second && queue < 200 ? 30 : floor }

    /// Runs it over 20 Mbit/s and 30 ms with each of the seeds, from the start of the second on.
    func run(queue: Int64) throws -> (share: Double, megabits: Double) {
        var share = 0.0
        var megabits = 0.0
        for seed in seeds {
            var one = SharedBottleneck.Sender()
            one.controller = first
            var two = one
            two.controller = second
            two.start = delay
            var bottleneck = SharedBottleneck([one, two], queue: .milliseconds(queue))
            bottleneck.seed = seed
            let begin = delay == 0 ? Int64.seconds(5) : delay
            let results = try bottleneck.run(for: begin + .seconds(20), from: begin)
            let sum = results[0].megabits + results[1].megabits
            share += results[0].megabits / sum * 100 / Double(seeds.count)
            megabits += sum / Double(seeds.count)
        }
        return (share, megabits)
    }
}

@Suite struct FairnessTests {
    @Test(arguments: Rivalry.all, Rivalry.queues)
    func `two flows share a bottleneck, whatever its queue`(rivalry: Rivalry, queue: Int64) throws {
        let (share, megabits) = try rivalry.run(queue: queue)
        let floor = rivalry.floor(queue: queue)
        print(
            "fairness \(rivalry.name), queue of \(queue) ms: \(Int(share.rounded())):\(Int((100 - share).rounded())),",
            "\((megabits * 10).rounded() / 10) Mbit/s together (least share \(Int(floor)))")
        #expect(share >= floor && share <= 100 - floor)
        #expect(megabits >= 18)
    }

    @Test func `a random loss is no evidence of a full queue`() throws {
        for loss in [0.01, 0.03] {
            var sender = SharedBottleneck.Sender()
            sender.roundTrip = .milliseconds(50)
            sender.loss = loss
            var bottleneck = SharedBottleneck([sender], queue: .milliseconds(50))
            bottleneck.bytesPerSecond = 12_500_000
            bottleneck.queue = 625_000
            let result = try bottleneck.run(for: .seconds(8))[0]
            #expect(result.megabits >= 85)
        }
    }

    @Test func `a sender alone fills a link with a short queue`() throws {
        var sender = SharedBottleneck.Sender()
        sender.roundTrip = .milliseconds(50)
        var bottleneck = SharedBottleneck([sender], queue: .milliseconds(5))
        bottleneck.bytesPerSecond = 12_500_000
        bottleneck.queue = 62_500
        let result = try bottleneck.run(for: .seconds(8))[0]
        #expect(result.megabits >= 85)
        #expect(Double(result.statistics.packetsLost) < 0.02 * Double(result.statistics.packetsSent))
    }
}
