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

/// A UDP socket at one end; everything waits at most ten seconds.
private final class Socket: Sendable {
    private let file: CInt
    let address: sockaddr_in

    init(at end: Link.End) throws {
        file = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        guard file >= 0 else { throw LinkError("no socket: \(String(cString: strerror(errno)))") }
        var yes: CInt = 1
        setsockopt(file, CInt(IPPROTO_IP), IP_RECVTOS, &yes, socklen_t(MemoryLayout<CInt>.size))
        var patience = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = (UInt32(0x0A07_0000) + (end == .left ? 1 : 2)).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let file = self.file
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(file, pointer, size) == 0 ? getsockname(file, pointer, &size) : -1
            }
        }
        self.address = address
        guard status == 0 else { throw LinkError("bind: \(String(cString: strerror(errno)))") }
    }

    deinit { close(file) }

    func send(_ bytes: [UInt8], to peer: Socket, ecn: CInt = 0) throws { try send(bytes, to: peer.address, ecn: ecn) }

    func send(_ bytes: [UInt8], to peer: sockaddr_in, ecn: CInt = 0) throws {
        var (peer, ecn) = (peer, ecn)
        setsockopt(file, CInt(IPPROTO_IP), IP_TOS, &ecn, socklen_t(MemoryLayout<CInt>.size))
        let sent = withUnsafePointer(to: &peer) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                sendto(file, bytes, bytes.count, 0, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard sent == bytes.count else { throw LinkError("sendto: \(String(cString: strerror(errno)))") }
    }

    func receive() throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 2048)
        let count = recv(file, &bytes, bytes.count, 0)
        guard count >= 0 else { throw LinkError("recv: \(String(cString: strerror(errno)))") }
        return Array(bytes[..<count])
    }

    /// Takes one datagram and returns where it came from.
    func receiveFrom() throws -> sockaddr_in {
        var byte: UInt8 = 0
        var peer = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let count = withUnsafeMutablePointer(to: &peer) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { recvfrom(file, &byte, 1, 0, $0, &size) }
        }
        guard count >= 0 else { throw LinkError("recvfrom: \(String(cString: strerror(errno)))") }
        return peer
    }

    /// Takes one datagram, whose ECN field must be `ecn`.
    func receive(ecn: UInt8, sourceLocation: SourceLocation = #_sourceLocation) throws {
        var byte: UInt8 = 0
        var control = [UInt8](repeating: 0, count: 64)
        let seen: UInt8? = withUnsafeMutableBytes(of: &byte) { payload in
            control.withUnsafeMutableBytes { control in
                var part = iovec(iov_base: payload.baseAddress, iov_len: 1)
                return withUnsafeMutablePointer(to: &part) { part in
                    var message = msghdr()
                    message.msg_iov = part
                    message.msg_iovlen = 1
                    message.msg_control = control.baseAddress
                    message.msg_controllen = control.count
                    guard recvmsg(file, &message, 0) == 1, message.msg_controllen >= 17 else { return nil }
                    // One control message: a header of 16 bytes, then the TOS byte.
                    return control[16] & 3
                }
            }
        }
        #expect(seen == ecn, sourceLocation: sourceLocation)
    }
}
