import KithWire
import Testing

@Suite struct NetworkPrefixTests {
    private func address(_ text: String) throws -> NetworkAddress { try #require(NetworkAddress(text)) }

    @Test(arguments: [
        ("10.9.0.1:0", 24, "10.9.0.255:7", true), ("10.9.0.1:0", 24, "10.9.1.1:7", false),
        ("10.9.0.1:0", 32, "10.9.0.1:7", true), ("10.9.0.1:0", 32, "10.9.0.2:7", false),
        ("10.9.0.1:0", 0, "192.0.2.1:7", true), ("10.9.0.129:0", 25, "10.9.0.127:0", false),
        ("[2001:db8::1]:0", 64, "[2001:db8::ffff:1]:7", true), ("[2001:db8::1]:0", 64, "[2001:db8:0:1::1]:7", false),
        ("[2001:db8::1]:0", 120, "[2001:db8::ff]:7", true), ("[2001:db8::1]:0", 120, "[2001:db8::1ff]:7", false),
        ("[fe80::1%2]:0", 64, "[fe80::2%3]:7", true), ("[::1]:0", 0, "10.9.0.1:7", false),
        ("[2001:db8::1]:0", 200, "[2001:db8::2]:7", false),
    ]) func `a network has the addresses with its bits`(of: String, length: Int, other: String, isIn: Bool) throws {
        #expect(NetworkPrefix(of: try address(of), length: length).contains(try address(other)) == isIn)
    }
}
