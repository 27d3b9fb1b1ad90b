import KithQUIC
import KithTesting
import Testing

@Suite struct SimulatedNetworkTests {
    let start = Timestamp(nanoseconds: .seconds(5))

    private func everything(_ network: inout SimulatedNetwork<Int>) -> [(bytes: [UInt8], time: Timestamp)] {
        var result: [(bytes: [UInt8], time: Timestamp)] = []
        while let datagram = network.receive(by: .distantFuture) { result.append((datagram.bytes, datagram.time)) }
        return result
    }

    @Test func `a datagram arrives after the delay, and not before`() {
        var network = SimulatedNetwork<Int>(random: SeededRandom(seed: 1))
        network.send([7], from: 1, to: 2, at: start)
        let early = network.receive(by: start + .milliseconds(9))
        #expect(early == nil)
        #expect(network.nextArrival == start + .milliseconds(10))
        let datagram = network.receive(by: start + .milliseconds(10))
        #expect(datagram?.bytes == [7] && datagram?.source == 1 && datagram?.destination == 2)
    }

    @Test func `jitter alone keeps the order, reordering does not`() {
        for reordering in [0.0, 0.3] {
            var conditions = NetworkConditions()
            conditions.jitter = .milliseconds(20)
            conditions.reordering = reordering
            var network = SimulatedNetwork<Int>(conditions, random: SeededRandom(seed: 2))
            for index in 0..<200 { network.send([UInt8(index)], from: 1, to: 2, at: start + Int64(index) * 1_000) }
            let order = everything(&network).map { $0.bytes[0] }
            #expect((order == order.sorted()) == (reordering == 0))
            #expect(Set(order).count == 200)
        }
    }

    @Test func `loss, duplication and corruption come as often as asked`() {
        var conditions = NetworkConditions()
        conditions.loss = 0.2
        conditions.duplication = 0.1
        conditions.corruption = 0.05
        var network = SimulatedNetwork<Int>(conditions, random: SeededRandom(seed: 3))
        for _ in 0..<10_000 { network.send([0, 0, 0], from: 1, to: 2, at: start) }
        let arrived = everything(&network)
        #expect((1_800...2_200).contains(network.dropped))
        #expect((8_600...9_000).contains(arrived.count))
        #expect((300...600).contains(arrived.count { $0.bytes != [0, 0, 0] }))
    }

    @Test func `a bottleneck passes its rate and drops what its queue cannot hold`() {
        var conditions = NetworkConditions()
        conditions.bytesPerSecond = 100_000
        conditions.queue = 10_000
        var network = SimulatedNetwork<Int>(conditions, random: SeededRandom(seed: 4))
        for _ in 0..<50 { network.send([UInt8](repeating: 1, count: 1_000), from: 1, to: 2, at: start) }
        let arrived = everything(&network)
        #expect(arrived.count == 10)
        #expect(arrived.last?.time == start + .milliseconds(110))
    }

    @Test func `what is too large vanishes`() {
        var network = SimulatedNetwork<Int>(random: SeededRandom(seed: 5))
        network.send([UInt8](repeating: 0, count: 1_501), from: 1, to: 2, at: start)
        #expect(network.inFlight == 0 && network.dropped == 1)
    }

    @Test func `the same seed gives the same accidents`() {
        var conditions = NetworkConditions()
        conditions.loss = 0.5
        conditions.jitter = .milliseconds(5)
        let runs = (0..<2).map { _ in
            var network = SimulatedNetwork<Int>(conditions, random: SeededRandom(seed: 6))
            for index in 0..<100 { network.send([UInt8(index)], from: 1, to: 2, at: start) }
            return everything(&network).map { "\($0.bytes) \($0.time.nanoseconds)" }
        }
        #expect(runs[0] == runs[1])
    }
}

@Suite struct ManualClockTests {
    @Test func `sleepers wake when their time has come`() async throws {
        let clock = ManualClock()
        let deadline = clock.now.advanced(by: .seconds(1))
        let sleeper = Task { try await clock.sleep(until: deadline, tolerance: nil) }
        while clock.sleeperCount == 0 { await Task.yield() }
        clock.advance(by: .milliseconds(999))
        #expect(clock.sleeperCount == 1)
        clock.advance(by: .milliseconds(1))
        try await sleeper.value
        #expect(clock.timestamp == Timestamp(nanoseconds: .seconds(1)))
    }

    @Test func `a cancelled sleep ends at once`() async {
        let clock = ManualClock()
        let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
        while clock.sleeperCount == 0 { await Task.yield() }
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        #expect(clock.sleeperCount == 0)
    }
}
