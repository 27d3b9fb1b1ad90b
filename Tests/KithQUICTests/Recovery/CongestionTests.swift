import KithTesting
import Testing

@testable import KithQUIC

@Suite struct CongestionTests {
    private func megabits(_ result: CongestionSimulation.Result) -> Double { result.bytesPerSecond * 8 / 1e6 }

    @Test(arguments: [0.0, 0.01, 0.02, 0.03]) func `BBR fills 100 Mbit/s over 50 ms at up to 3 % loss`(loss: Double)
        throws
    {
        var simulation = CongestionSimulation()
        simulation.loss = loss
        let result = try simulation.run(for: .seconds(5))
        #expect(megabits(result) >= 60)
    }

    @Test func `NewReno at 1 % loss moves a fraction of it`() throws {
        var simulation = CongestionSimulation()
        simulation.loss = 0.01
        simulation.controller = .newReno
        let result = try simulation.run(for: .seconds(5))
        #expect(megabits(result) < 20)
    }

    @Test func `BBR leaves the queue short`() throws {
        var simulation = CongestionSimulation()
        simulation.queue = 5_000_000
        let result = try simulation.run(for: .seconds(5))
        #expect(result.meanRTT < Double(Int64.milliseconds(75)))
    }

    @Test func `BBR does not flood a bottleneck without a queue`() throws {
        var simulation = CongestionSimulation()
        simulation.queue = 60_000
        let result = try simulation.run(for: .seconds(5))
        #expect(megabits(result) >= 60)
        #expect(Double(result.packetsLost) < 0.1 * Double(result.packetsSent))
    }

    @Test(arguments: [Int64.microseconds(50), .microseconds(200), .milliseconds(1)])
    func `BBR reaches full speed over a loopback in batches`(roundTrip: Int64) throws {
        var simulation = CongestionSimulation()
        simulation.bytesPerSecond = 600_000_000
        simulation.roundTrip = roundTrip
        simulation.queue = 4_000_000
        simulation.lateness = .microseconds(100)
        simulation.receiverBatch = 32
        let result = try simulation.run(for: .milliseconds(250))
        #expect(result.bytesPerSecond >= 450_000_000)
        #expect(result.packetsSent / UInt64(result.batches) >= 20)
    }

    @Test func `jitter that reorders costs BBR little`() throws {
        var simulation = CongestionSimulation()
        simulation.jitter = .milliseconds(5)
        let result = try simulation.run(for: .seconds(5))
        #expect(megabits(result) >= 60)
    }

    @Test func `a long path with loss is filled`() throws {
        var simulation = CongestionSimulation()
        simulation.roundTrip = .milliseconds(200)
        simulation.loss = 0.005
        simulation.queue = 2_500_000
        let result = try simulation.run(for: .seconds(7))
        #expect(megabits(result) >= 60)
    }

    @Test func `a slow path is not overrun`() throws {
        var simulation = CongestionSimulation()
        simulation.bytesPerSecond = 125_000
        simulation.queue = 60_000
        let result = try simulation.run(for: .seconds(20))
        #expect(megabits(result) >= 0.7)
        #expect(Double(result.packetsLost) < 0.1 * Double(result.packetsSent))
    }
}
