import KithTesting
import KithWire
import Testing

@Suite struct NetworkAddressTests {
    @Test(arguments: [
        "0.0.0.0:0", "127.0.0.1:4433", "255.255.255.255:65535", "[::]:1", "[::1]:443", "[2001:db8::1]:4433",
        "[fe80::1%2]:9", "[2001:db8:1:2:3:4:5:6]:7", "[1::2:0:0:3]:4", "[1:0:0:2::]:4",
    ])
    func `a plain text form is read and written the same`(text: String) throws {
        #expect(try #require(NetworkAddress(text)).description == text)
    }

    @Test func `one zero group alone is not shortened, as RFC 5952 4 2 2 asks`() {
        #expect(NetworkAddress("[2001:db8::1:1:1:1:1]:80")?.description == "[2001:db8:0:1:1:1:1:1]:80")
    }

    @Test func `an IPv4 address mapped into IPv6 is the IPv4 address`() throws {
        #expect(NetworkAddress("[::ffff:192.0.2.1]:5") == NetworkAddress("192.0.2.1:5"))
        #expect(NetworkAddress("[0:0:0:0:0:FFFF:C000:201]:5") == NetworkAddress("192.0.2.1:5"))
        #expect(NetworkAddress("[64:ff9b::192.0.2.33]:5")?.description == "[64:ff9b::c000:221]:5")
    }

    @Test(arguments: [
        "", ":", "1.2.3.4", "1.2.3:4", "1.2.3.4.5:6", "1.2.3.256:1", "01.2.3.4:5", "1.2.3.4:65536", "1.2.3.4:-1",
        "1.2.3.4:+1", "1.2.3.4:01", "1.2.3.4:", "::1:443", "[::1]", "[::1]:", "[:::]:1", "[1::2::3]:1", "[1:2:3]:1",
        "[1:2:3:4:5:6:7:8:9]:1", "[1:2:3:4:5:6:7::8]:1", "[12345::]:1", "[g::]:1", "[::1%]:1", "[::1%0]:1",
        "[::1%eth0]:1", "[1:2:3:4:5:6:7:]:1", "[+1::]:1", "host:1", "[::1.2.3.4:5]:1", " 1.2.3.4:5",
    ])
    func `anything else is refused`(text: String) {
        #expect(NetworkAddress(text) == nil)
    }

    @Test func `addresses know what they are for`() throws {
        func address(_ text: String) throws -> NetworkAddress { try #require(NetworkAddress(text)) }
        #expect(try address("127.9.9.9:1").isLoopback && address("[::1]:1").isLoopback)
        #expect(try !address("128.0.0.1:1").isLoopback && !address("[::2]:1").isLoopback)
        #expect(try address("0.0.0.0:1").isUnspecified && address("[::]:1").isUnspecified)
        #expect(try address("169.254.1.1:1").isLinkLocal && address("[fe80::1]:1").isLinkLocal)
        #expect(try address("[febf::1]:1").isLinkLocal && !address("[fec0::1]:1").isLinkLocal)
        for text in ["10.1.1.1:1", "172.16.0.1:1", "172.31.0.1:1", "192.168.3.4:1", "100.64.0.1:1", "[fd00::1]:1"] {
            #expect(try address(text).isPrivate, "\(text)")
        }
        for text in ["11.1.1.1:1", "172.32.0.1:1", "192.169.3.4:1", "100.128.0.1:1", "[fe00::1]:1"] {
            #expect(try !address(text).isPrivate, "\(text)")
        }
        #expect(try address("224.0.0.251:1").isMulticast && address("[ff02::fb]:1").isMulticast)
    }

    @Test func `random addresses survive text, bytes and their parts`() throws {
        var random = SeededRandom(seed: 20_261_121)
        for _ in 0..<2_000 {
            var ip = random.bytes(Bool.random(using: &random) ? 4 : 16)
            for index in ip.indices where Int.random(in: 0..<3, using: &random) == 0 { ip[index] = 0 }
            let address = try #require(NetworkAddress(ip: ip, port: UInt16.random(in: 0...65_535, using: &random)))
            #expect(NetworkAddress(address.description) == address, "\(address), seed \(random.seed)")
            var writer = ByteWriter()
            writer.address(address)
            let bytes = writer.bytes
            var reader = ByteReader(bytes)
            let back = try reader.address()
            #expect(back == address, "\(address), seed \(random.seed)")
            try reader.finish()
            #expect(NetworkAddress(ip: address.ip, port: address.port) == address)
        }
        #expect(NetworkAddress(ip: [1, 2, 3], port: 4) == nil)
    }
}
