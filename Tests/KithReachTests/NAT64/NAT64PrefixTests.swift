import KithReach
import KithWire
import Testing

@Suite struct NAT64PrefixTests {
    private func address(_ text: String) -> NetworkAddress {
        NetworkAddress("[\(text)]:0") ?? NetworkAddress(ipv4: 0, port: 0)
    }

    /// The addresses of the well-known name, as a NAT64 has them.
    private func known(_ prefix: NAT64Prefix) throws -> [NetworkAddress] {
        try ["192.0.0.170:0", "192.0.0.171:0"].map { try #require(NetworkAddress($0).flatMap(prefix.address(of:))) }
    }

    /// RFC 6052 §2.4.
    private static let vectors = [
        (32, "2001:db8::", "2001:db8:c000:221::"), (40, "2001:db8:100::", "2001:db8:1c0:2:21::"),
        (48, "2001:db8:122::", "2001:db8:122:c000:2:2100::"), (56, "2001:db8:122:300::", "2001:db8:122:3c0:0:221::"),
        (64, "2001:db8:122:344::", "2001:db8:122:344:c0:2:2100:0"),
        (96, "2001:db8:122:344::", "2001:db8:122:344::c000:221"), (96, "64:ff9b::", "64:ff9b::c000:221"),
    ]

    @Test(arguments: vectors) func `an IPv4 address stands where RFC 6052 has it`(
        length: Int, prefix: String, whole: String
    ) throws {
        let prefix = try #require(NAT64Prefix(address(prefix), length: length))
        #expect(prefix.address(of: NetworkAddress(ipv4: (192, 0, 2, 33), port: 0)) == address(whole))
        #expect(prefix.address(of: NetworkAddress(ipv4: (192, 0, 2, 33), port: 4_433))?.port == 4_433)
        #expect(prefix.address(of: address("::1")) == nil)
        // And the prefix is found in the addresses of the well-known name, of which one is enough.
        let known = try known(prefix)
        #expect(NAT64Prefix(of: known) == prefix)
        #expect(NAT64Prefix(of: [NetworkAddress(ipv4: (192, 0, 0, 170), port: 0), known[1]]) == prefix)
    }

    @Test func `without a NAT64 there is no prefix, and what could be read in two ways is not guessed at`() throws {
        #expect(NAT64Prefix(of: []) == nil)
        #expect(NAT64Prefix(of: [NetworkAddress(ipv4: (192, 0, 0, 170), port: 0), address("2001:db8::1")]) == nil)
        #expect(NAT64Prefix(address("2001:db8::"), length: 44) == nil)
        #expect(NAT64Prefix(address("2001:db8:0:0:100::"), length: 96) == nil)
        // The prefix has the well-known address in itself.
        let prefix = try #require(NAT64Prefix(address("2001:db8:c000:aa::"), length: 96))
        let known = try known(prefix)
        #expect(NAT64Prefix(of: [known[0]]) == nil)
        #expect(NAT64Prefix(of: known) == prefix)
    }

    @Test func `addresses of IPv4 are reached by the prefix, those of this machine and its link are not`() throws {
        let wellKnown = try #require(NAT64Prefix.wellKnownPrefix)
        let own = try #require(NAT64Prefix(address("2001:db8:64::"), length: 96))
        func way(_ text: String, _ prefix: NAT64Prefix) throws -> String {
            prefix.way(to: try #require(NetworkAddress(text))).description
        }
        #expect(try way("9.1.1.2:3340", wellKnown) == "[64:ff9b::901:102]:3340")
        #expect(try way("[2001:db8::1]:7", wellKnown) == "[2001:db8::1]:7")
        for text in ["127.0.0.1:7", "169.254.1.1:7", "224.0.0.1:7", "0.0.0.0:7"] {
            #expect(try way(text, wellKnown) == text)
            #expect(try way(text, own) == text)
        }
        // The whole internet has no private addresses; a network of one's own may have.
        #expect(try way("10.0.0.1:7", wellKnown) == "10.0.0.1:7")
        #expect(try way("10.0.0.1:7", own) == "[2001:db8:64::a00:1]:7")
    }
}
