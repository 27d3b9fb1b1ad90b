import KithIdentity
import KithWire
import Testing

@testable import KithNode

@Suite struct PresentationLimiterTests {
    private let start = ContinuousClock.now

    private func limiter(key: Int = 3, host: Int = 5, memory: Int = 100) -> PresentationLimiter {
        var limits = PresentationLimiter.Limits()
        limits.perKey = .init(burst: key, interval: .seconds(10))
        limits.perHost = .init(burst: host, interval: .seconds(2))
        limits.memory = memory
        return PresentationLimiter(limits)
    }

    private func key(_ number: Int) throws -> DeviceID {
        try DeviceID(publicKey: [UInt8(number >> 8), UInt8(number & 255)] + [UInt8](repeating: 9, count: 30))
    }

    private let here = NetworkAddress(ipv4: (192, 0, 2, 1), port: 4433)

    @Test func `a key has its burst, then one an interval`() throws {
        var limiter = limiter()
        let key = try key(1)
        for _ in 0..<3 { #expect(limiter.present(key, from: nil, at: start) == nil) }
        #expect(limiter.present(key, from: nil, at: start) == .seconds(10))
        #expect(limiter.present(key, from: nil, at: start + .seconds(9)) == .seconds(1))
        #expect(limiter.present(key, from: nil, at: start + .seconds(10)) == nil)
        #expect(limiter.present(key, from: nil, at: start + .seconds(10)) == .seconds(10))
        // What is refused is not counted: an hour later all of the burst is there, and no more.
        for _ in 0..<3 { #expect(limiter.present(key, from: nil, at: start + .seconds(3_600)) == nil) }
        #expect(limiter.present(key, from: nil, at: start + .seconds(3_600)) != nil)
    }

    @Test func `many keys of one address share its places, whatever the port, and a network its 64 bits`() throws {
        var limiter = limiter()
        for number in 0..<5 {
            let address = NetworkAddress(ipv4: (192, 0, 2, 1), port: UInt16(1_000 + number))
            #expect(limiter.present(try key(number), from: address, at: start) == nil)
        }
        #expect(limiter.present(try key(100), from: here, at: start) == .seconds(2))
        #expect(limiter.present(try key(100), from: NetworkAddress(ipv4: (192, 0, 2, 2), port: 1), at: start) == nil)
        for number in 0..<5 as Range<UInt64> {
            let address = NetworkAddress(ipv6: 0x2001_0DB8_0000_0001, number << 40, port: 1)
            #expect(limiter.present(try key(200 + Int(number)), from: address, at: start) == nil)
        }
        let same = NetworkAddress(ipv6: 0x2001_0DB8_0000_0001, 99, port: 1)
        #expect(limiter.present(try key(300), from: same, at: start) != nil)
        let other = NetworkAddress(ipv6: 0x2001_0DB8_0000_0002, 99, port: 1)
        #expect(limiter.present(try key(300), from: other, at: start) == nil)
    }

    @Test func `what is counted against a key alone takes nobody else's place`() throws {
        var limiter = limiter()
        for number in 0..<50 { #expect(limiter.present(try key(number), at: start) == nil) }
        #expect(limiter.present(try key(60), from: nil, at: start) == nil)
        for _ in 0..<2 { #expect(limiter.present(try key(1), at: start) == nil) }
        #expect(limiter.present(try key(1), at: start) == .seconds(10))
    }

    @Test func `all that comes through relays is held to one address's rate`() throws {
        var limiter = limiter()
        var count = 0
        while limiter.present(try key(count), from: nil, at: start) == nil { count += 1 }
        #expect(limiter.present(try key(count), from: nil, at: start) == .seconds(2))
        var direct = self.limiter()
        for number in 0..<count { #expect(direct.present(try key(number), from: here, at: start) == nil) }
        #expect(direct.present(try key(count), from: here, at: start) != nil)
        #expect(direct.present(try key(count), from: nil, at: start) == nil)
    }

    @Test func `whoever was paired is given its place back, and whoever broke off waits`() throws {
        var limiter = limiter()
        for number in 0..<50 {
            let address = NetworkAddress(ipv4: (192, 0, 2, UInt8(number)), port: 1)
            #expect(limiter.present(try key(number % 2), from: address, at: start) == nil)
            limiter.paired(try key(number % 2))
        }
        let broken = try key(7)
        limiter.brokeOff(broken, at: start)
        #expect(limiter.present(broken, from: here, at: start) == .seconds(5))
        #expect(limiter.present(try key(8), from: here, at: start) == nil)
        #expect(limiter.present(broken, from: here, at: start + .seconds(5)) == nil)
    }

    @Test func `it remembers so many, and forgets who could come back anyway`() throws {
        var limiter = limiter(memory: 100)
        let tired = try key(60_000)
        for _ in 0..<3 { _ = limiter.present(tired, from: nil, at: start) }
        for number in 0..<5_000 {
            _ = limiter.present(try key(number), from: nil, at: start)
            #expect(limiter.count <= 100)
        }
        #expect(limiter.present(tired, from: nil, at: start) != nil)
    }
}
