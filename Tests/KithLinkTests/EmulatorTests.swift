import CoreFoundation
import Foundation
import Glibc
import KithTesting
import KithWire
import Testing

/// What the emulator does to packets, measured with plain UDP.
@Suite(.enabled(if: Link.isPossible)) struct EmulatorTests {
    @Test func `a packet takes the delay to cross, and a link without one adds next to nothing`() async throws {
        try await Link.with(["up-delay": "40ms", "down-delay": "20ms"]) { link in
            let (left, right) = try await sockets(link)
            // The least of ten: a busy machine makes single ones late, nothing makes one early.
            var quickest = Duration.seconds(10)
            for number in 0..<10 {
                let start = ContinuousClock.now
                try left.send([UInt8(number)], to: right)
                #expect(try right.receive() == [UInt8(number)])
                try right.send([UInt8(number)], to: left)
                #expect(try left.receive() == [UInt8(number)])
                quickest = min(quickest, ContinuousClock.now - start)
            }
            #expect(quickest >= .milliseconds(60))
        }
    }

    @Test func `the share of lost packets is the one asked for, within what chance allows`() async throws {
        try await Link.with(["up-loss": "10%", "seed": "11"]) { link in
            let (left, right) = try await sockets(link)
            try await send(2000, from: left, to: right)
            let up = try await settled(link, packets: 2000)
            // Five standard deviations of a binomial distribution.
            let deviation = (2000 * 0.1 * 0.9).squareRoot()
            #expect(abs(Double(up.lost) - 200) < 5 * deviation)
            #expect(up.lost + up.delivered == 2000)
            #expect(try await link.statistics().down.lost == 0)
        }
    }

    @Test func `a queue that is full drops what comes, and what waits leaves at the rate`() async throws {
        try await Link.with(["up-rate": "1mbit", "up-queue": "10000"]) { link in
            let (left, right) = try await sockets(link)
            // 1000 bytes of payload are 1028 on the wire: nine fit, and the one that is being sent.
            for number in 0..<40 { try left.send([UInt8](repeating: UInt8(number), count: 1000), to: right) }
            let up = try await settled(link, packets: 40)
            #expect(up.overflowed > 0)
            #expect(up.longestWaitMilliseconds <= 80)
            for number in 0..<5 { #expect(try right.receive().first == UInt8(number)) }
        }
    }

    @Test func `a reordered packet overtakes, a duplicated one comes twice, a corrupted one comes with a bit wrong`()
        async throws
    {
        try await Link.with(["up-delay": "30ms", "up-reorder": "50%", "up-reorder-by": "20ms", "seed": "5"]) { link in
            let (left, right) = try await sockets(link)
            for number in 0..<20 { try left.send([UInt8(number)], to: right) }
            var received: [UInt8] = []
            for _ in 0..<20 { received += try right.receive() }
            #expect(received.sorted() == Array(0..<20))
            #expect(received != Array(0..<20))
            try await link.set("up-reorder=0")
            try await link.set("up-duplicate=100%")
            try left.send([99], to: right)
            #expect(try right.receive() == [99])
            #expect(try right.receive() == [99])
            try await link.set("up-duplicate=0")
            try await link.set("up-corrupt=1")
            let sent = [UInt8](repeating: 0, count: 64)
            try left.send(sent, to: right)
            let wrong = try right.receive().map(\.nonzeroBitCount)
            #expect(wrong.reduce(0, +) == 1)
        }
    }

    @Test func `ECN marks are set and cleared on the way`() async throws {
        try await Link.with(["up-congest": "100%"]) { link in
            let (left, right) = try await sockets(link)
            try left.send([1], to: right, ecn: 2)
            try right.receive(ecn: 3)
            try left.send([1], to: right, ecn: 0)
            try right.receive(ecn: 0)
            try await link.set("up-bleach=on")
            try left.send([1], to: right, ecn: 1)
            try right.receive(ecn: 0)
        }
    }

    @Test func `after a rebinding the left end looks like another one, and the old address reaches nobody`()
        async throws
    {
        try await Link.with([:]) { link in
            let (left, right) = try await sockets(link)
            try left.send([1], to: right)
            let first = try right.receiveFrom()
            try right.send([2], to: first)
            #expect(try left.receive() == [2])
            for change in ["rebind=port", "rebind=address"] {
                let before = try await link.statistics().down.unbound
                try await link.set(change)
                try left.send([3], to: right)
                let second = try right.receiveFrom()
                #expect(second.sin_port != first.sin_port)
                try right.send([4], to: first)
                try right.send([5], to: second)
                #expect(try left.receive() == [5])
                #expect(try await link.statistics().down.unbound == before + 1)
            }
        }
    }

    @Test func `a black hole swallows everything until it is gone`() async throws {
        try await Link.with([:]) { link in
            let (left, right) = try await sockets(link)
            try await link.set("blackhole=on")
            try left.send([1], to: right)
            #expect(try await settled(link, packets: 1).blackholed == 1)
            try await link.set("blackhole=off")
            try left.send([2], to: right)
            #expect(try right.receive() == [2])
        }
    }

    @Test func `nothing of a link is left when it was killed`() async throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: Link.path)
        // A number of seconds that no other process on the machine sleeps.
        let mark = "86400.\(getpid())"
        process.arguments = ["--right", "sleep \(mark) & sleep \(mark)", "--left", "sleep \(mark)"]
        process.standardError = FileHandle.nullDevice
        try process.run()
        func sleepers() -> Bool { Program.succeeds(["pgrep", "-f", "^sleep \(mark)"]) }
        try await eventually { sleepers() }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try await eventually { !sleepers() }
    }

    private func sockets(_ link: Link) async throws -> (left: Socket, right: Socket) {
        let left = try await link.inside(.left) { try Socket(at: .left) }
        return (left, try await link.inside(.right) { try Socket(at: .right) })
    }

    private func send(_ count: Int, from left: Socket, to right: Socket) async throws {
        for number in 0..<count {
            try left.send([UInt8(truncatingIfNeeded: number)], to: right)
            // Real time: the kernel's queue holds a few hundred, and nobody says when it has room.
            if number % 100 == 99 { try await Task.sleep(for: .milliseconds(2)) }
        }
    }

    /// Waits until the link has seen `packets` from the left end and nothing is under way.
    private func settled(_ link: Link, packets: Int) async throws -> Link.Direction {
        var up = try await link.statistics().up
        try await eventually {
            up = try await link.statistics().up
            return up.packets >= packets && up.delivered + up.lost + up.overflowed + up.blackholed >= packets
        }
        return up
    }
}
