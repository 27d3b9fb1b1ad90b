import KithTesting
import Testing

@testable import KithQUIC

/// A row of the lossy links (16 MiB, Mbit/s): the link, and the rate below which something broke.
struct LinkRow: CustomTestStringConvertible, Sendable {
    var name: String
    var roundTrip = Duration.milliseconds(50)
    var loss = 0.0
    var jitter = Duration.zero
    var reordering = 0.0
    var earliness = 0.5
    var floor: Double
    var testDescription: String { name }

    static let all = [
        LinkRow(name: "clean", floor: 60),
        LinkRow(name: "1 % loss", loss: 0.01, floor: 55),
        LinkRow(name: "3 % loss", loss: 0.03, floor: 50),
        LinkRow(name: "5 ms jitter and 2 % reordering", jitter: .milliseconds(5), reordering: 0.02, floor: 65),
        LinkRow(
            name: "the same, by the whole delay", jitter: .milliseconds(5), reordering: 0.02, earliness: 1, floor: 65),
        LinkRow(name: "200 ms and 0.5 % loss", roundTrip: .milliseconds(200), loss: 0.005, floor: 22),
    ]
}

@Suite struct LinkTransferTests {
    @Test(arguments: LinkRow.all) func `BBR holds its rate on a bad link`(row: LinkRow) throws {
        var slowest = Double.infinity
        for seed in 1...3 as ClosedRange<UInt64> {
            var transfer = LinkTransfer(roundTrip: row.roundTrip)
            transfer.conditions.loss = row.loss
            transfer.conditions.jitter = row.jitter
            transfer.conditions.reordering = row.reordering
            transfer.conditions.earliness = row.earliness
            transfer.seed = seed
            let result = try transfer.run()
            #expect(result.isComplete)
            print(
                "link \(row.name), seed \(seed): \(result.megabits) Mbit/s, \(result.datagramsSent) datagrams,",
                "\(result.sender)")
            slowest = min(slowest, result.megabits)
        }
        #expect(slowest >= row.floor)
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `packets that are only late do not end BBR's startup`(seed: UInt64) throws {
        var transfer = LinkTransfer()
        transfer.conditions.jitter = .milliseconds(5)
        transfer.conditions.reordering = 0.02
        transfer.seed = seed
        // A few windows, fewer than the link's buffer holds: nothing is lost.
        transfer.size = 256 << 10
        var states: Set<BBR.State> = []
        var dropped = 0
        let result = try transfer.run(observe: { pair in
            if case .bbr(let controller) = pair.client.recovery.path.congestion { states.insert(controller.state) }
            dropped = pair.network.dropped
        })
        #expect(result.isComplete && dropped == 0 && result.sender.packetsLost > 0)
        #expect(states == [.startup])
    }

    /// 20 Mbit/s and 40 ms; without acknowledgements that are sent again, both ends wait for probes of each other: 1.8.
    @Test func `a transfer goes on where 95 % of the acknowledgements are lost`() throws {
        var sum = 0.0
        for seed in 1...6 as ClosedRange<UInt64> {
            var transfer = LinkTransfer(roundTrip: .milliseconds(40))
            transfer.conditions.bytesPerSecond = 2_500_000
            transfer.conditions.queue = 125_000
            transfer.size = 64 << 20
            transfer.seed = seed
            transfer.answerLoss = 0.95
            let result = try transfer.run(limit: .seconds(16))
            print("95 % of acknowledgements lost, seed \(seed): \(result.megabits) Mbit/s of 20")
            sum += result.megabits
        }
        #expect(sum / 6 >= 5)
    }
}
