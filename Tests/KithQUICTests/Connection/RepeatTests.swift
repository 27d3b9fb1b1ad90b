import Testing

@testable import KithQUIC

/// Keys typed over a path that loses packets: one at a time, each echoed.
@Suite struct RepeatTests {
    /// Round trips of keys in milliseconds, sorted; `nil` when one never came back.
    private func echoes(_ count: Int, loss: Double, seed: UInt64) throws -> (times: [Double], packets: Int)? {
        let pair = try Pair()
        pair.delay = 50_000_000
        #expect(pair.connect())
        let keys = try pair.clientOpen(.bidirectional)
        var generator = SeededGenerator(state: seed)
        // The first two hundred keys show what the path is like; what counts comes then.
        pair.filter = { Double.random(in: 0..<1, using: &generator) < loss ? [] : [$0] }
        var times: [Double] = []
        var before = 0
        for number in 0..<count {
            if number == 200 { before = pair.sentByClient }
            let typed = pair.now
            _ = try [UInt8(truncatingIfNeeded: number)].withUnsafeBytes { try pair.client.write($0, to: keys) }
            var isEchoed = false
            var isBack = false
            let limit = pair.now + 20_000_000_000
            while !isBack, pair.now < limit, pair.step(until: limit) {
                if !isEchoed, pair.serverEvents.contains(.streamOpened(keys)) {
                    let got = try pair.serverRead(keys).bytes
                    if !got.isEmpty {
                        isEchoed = true
                        _ = try got.withUnsafeBytes { try pair.server?.write($0, to: keys) ?? 0 }
                    }
                }
                isBack = !(try pair.clientRead(keys).bytes.isEmpty)
            }
            guard isBack else { return nil }
            if number >= 200 { times.append(Double(pair.now - typed) / 1_000_000) }
            // A person's pause.
            let next = pair.now + 120_000_000
            while pair.step(until: next) {}
            pair.now = next
        }
        return (times.sorted(), pair.sentByClient - before)
    }

    @Test(arguments: [1 as UInt64, 2, 3])
    func `at 5 % loss the slowest key in a hundred is hardly slower than the others`(seed: UInt64) throws {
        let (times, packets) = try #require(try echoes(1_000, loss: 0.05, seed: seed))
        print("p50 \(times[400]) p99 \(times[792]) ms, \(packets) packets for 800 keys")
        #expect(times[400] < 102)
        #expect(times[792] < 160)
    }

    @Test(arguments: [1 as UInt64, 2, 3])
    func `at 20 % loss no key is missed`(seed: UInt64) throws {
        let (times, packets) = try #require(try echoes(1_000, loss: 0.2, seed: seed))
        print("p50 \(times[400]) p99 \(times[792]) max \(times[799]) ms, \(packets) packets for 800 keys")
        #expect(times[792] < 260)
        #expect(times[799] < 1_000)
    }

    @Test func `where nothing is lost nothing is sent twice`() throws {
        let (_, packets) = try #require(try echoes(400, loss: 0, seed: 1))
        // A key, and the acknowledgement of its echo.
        #expect(packets <= 2 * 200 + 4)
    }
}
