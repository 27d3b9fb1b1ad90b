import KithTesting
import Testing

@testable import KithQUIC

@Suite struct PathMTUDiscoveryTests {
    let start = Timestamp(nanoseconds: .seconds(100))

    /// Searches a path that carries `carried` bytes; answers the sizes probed.
    private func search(_ probe: inout PathMTUDiscovery, carried: Int, at now: Timestamp) -> [Int] {
        var sizes: [Int] = []
        while let size = probe.wanted(at: now) {
            sizes.append(size)
            probe.sent()
            if size <= carried {
                _ = probe.acknowledged(size, at: now)
            } else {
                probe.lost(size, at: now)
            }
        }
        return sizes
    }

    @Test func `one probe is enough where the largest size allowed gets through`() {
        var probe = PathMTUDiscovery()
        #expect(probe.wanted(at: start) == nil)
        probe.start(limit: 1_452)
        #expect(search(&probe, carried: 1_472, at: start) == [1_452])
        #expect(probe.isComplete && probe.known == 1_452)
    }

    @Test(arguments: [1_200, 1_231, 1_232, 1_300, 1_444, 1_451, 1_472, 8_952, 12_000, 65_488, 65_527])
    func `the search comes within eight bytes of any path, RFC 8899 5_3`(carried: Int) {
        var probe = PathMTUDiscovery()
        probe.start(limit: 65_527)
        let sizes = search(&probe, carried: carried, at: start)
        #expect(probe.isComplete)
        #expect(probe.known <= carried && carried - probe.known < PathMTUDiscovery.granularity)
        #expect(sizes.count <= 60)
        for size in Set(sizes) where size > carried { #expect(sizes.count { $0 == size } == 3) }
    }

    @Test func `a size fails after three losses, and at once when the system refuses it, RFC 8899 5_1_2`() {
        var probe = PathMTUDiscovery()
        probe.start(limit: 1_452)
        for _ in 0..<3 {
            #expect(probe.wanted(at: start) == 1_452)
            probe.sent()
            #expect(probe.wanted(at: start) == nil)
            probe.lost(1_452, at: start)
        }
        #expect(probe.wanted(at: start) == 1_444)
        probe.sent()
        probe.refused(1_444, at: start)
        #expect(probe.wanted(at: start) == 1_372)
        // What is known about another size changes nothing.
        probe.sent()
        let stale = probe.acknowledged(1_452, at: start)
        #expect(stale == nil)
        probe.lost(1_444, at: start)
        #expect(probe.wanted(at: start) == nil)
    }

    @Test func `a larger size is tried again after 600 seconds, RFC 8899 5_1_1`() {
        var probe = PathMTUDiscovery()
        probe.start(limit: 1_452)
        _ = search(&probe, carried: 1_372, at: start)
        #expect(probe.known >= 1_365 && probe.known <= 1_372)
        #expect(probe.wanted(at: start + .seconds(599)) == nil)
        #expect(probe.wanted(at: start + .seconds(600)) == 1_452)
        #expect(probe.known >= 1_365)
    }

    // MARK: - Whole connections

    private func transfer(
        carrying maximum: Int, size: Int = 1 << 20, change: (inout QUICConfiguration) -> Void = { _ in },
        observe: (inout ConnectionPair) -> Void = { _ in }
    ) throws -> LinkTransfer.Result {
        var transfer = LinkTransfer(roundTrip: .milliseconds(20))
        transfer.conditions.maximumSize = maximum
        transfer.size = size
        return try transfer.run(change: change, observe: observe)
    }

    @Test(arguments: [1_200, 1_300, 1_444, 1_500])
    func `a connection finds the size of its path, and lost probes are no congestion, RFC 9000 14_4`(maximum: Int)
        throws
    {
        let result = try transfer(carrying: maximum, size: 8 << 20)
        #expect(result.isComplete)
        #expect(result.datagramSize <= maximum && result.datagramSize >= min(maximum, 1_452) - 8)
    }

    @Test func `the limits of both ends are kept`() throws {
        let result = try transfer(carrying: 65_527, change: { $0.udpPayloadSize = 9_000 })
        #expect(result.isComplete && result.datagramSize == 9_000)
    }

    @Test(arguments: [1_472, 4_052, 8_972])
    func `probes the interface refuses cost nothing, RFC 9000 14_4`(interface: Int) throws {
        func transfer(limit: Int) throws -> LinkTransfer.Result {
            var transfer = LinkTransfer(roundTrip: .milliseconds(20))
            transfer.conditions.maximumSize = 65_527
            transfer.interfaceSize = interface
            transfer.size = 4 << 20
            return try transfer.run(change: { $0.udpPayloadSize = limit })
        }
        let known = try transfer(limit: interface)
        let found = try transfer(limit: 65_507)
        #expect(known.isComplete && known.datagramSize == interface)
        #expect(found.isComplete && found.datagramSize <= interface && found.datagramSize > interface - 8)
        #expect(found.sender.packetsLost == known.sender.packetsLost)
        #expect(found.seconds <= known.seconds * 1.02)
    }

    @Test func `what does not fit the buffer of a call is not waited for`() throws {
        // The buffer of the simulation has 24 KiB.
        let result = try transfer(carrying: 65_527, size: 8 << 20, change: { $0.udpPayloadSize = 65_507 })
        #expect(result.isComplete && result.datagramSize > 24_576 - 8 && result.datagramSize <= 24_576)
    }

    @Test func `a path that shrinks in the middle is noticed, RFC 8899 4_3`() throws {
        let result = try transfer(
            carrying: 1_500, size: 8 << 20,
            observe: { pair in
                if pair.client.datagramSize == 1_452, pair.client.recovery.statistics.packetsSent > 400 {
                    pair.network.conditions.maximumSize = 1_300
                }
            })
        #expect(result.isComplete)
        #expect(result.datagramSize <= 1_300 && result.datagramSize >= 1_292)
        #expect(result.seconds < 10)
    }

    @Test func `large packets that vanish while small ones arrive are noticed, RFC 8899 4_3`() {
        var hole = BlackHoleDetection()
        func at(_ milliseconds: Int64) -> Timestamp { start + .milliseconds(milliseconds) }
        hole.acknowledged(size: 1_452, sentAt: at(0))
        // One burst is one occasion, however many packets it held.
        for time: Int64 in 1...20 { hole.lost(size: 1_452, sentAt: at(time), now: at(50)) }
        hole.lost(size: 1_452, sentAt: at(60), now: at(110))
        #expect(!hole.isFound)
        // Losses of small packets say nothing about size.
        hole.lost(size: 1_200, sentAt: at(120), now: at(170))
        #expect(!hole.isFound)
        var other = hole
        hole.lost(size: 1_452, sentAt: at(120), now: at(170))
        #expect(hole.isFound)
        other.acknowledged(size: 1_452, sentAt: at(115))
        other.lost(size: 1_452, sentAt: at(120), now: at(170))
        #expect(!other.isFound)
    }

    @Test func `a size the system refuses while in use is given up, RFC 9000 14`() throws {
        var refused = false
        let result = try transfer(
            carrying: 1_500,
            observe: { pair in
                if !refused, pair.client.datagramSize == 1_452 {
                    refused = true
                    pair.client.datagramRefused(size: 1_452, at: pair.now)
                    #expect(pair.client.datagramSize == 1_200)
                    // The probe that follows is refused too, and the search goes on below.
                    pair.client.datagramRefused(size: 1_452, at: pair.now)
                    pair.network.conditions.maximumSize = 1_444
                }
            })
        #expect(refused && result.isComplete && result.datagramSize == 1_444)
    }
}
