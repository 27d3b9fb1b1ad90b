import KithIdentity
import KithReach
import Testing

@Suite("Relay addresses") struct RelayAddressTests {
    @Test(arguments: [
        ("https://relay.example.org", "https://relay.example.org"),
        ("HTTPS://Relay.Example.org.:443/relay?x", "https://relay.example.org"),
        ("wss://relay.example.org:8443/", "https://relay.example.org:8443"),
        ("http://192.0.2.1:3340", "http://192.0.2.1:3340"), ("ws://192.0.2.1", "http://192.0.2.1"),
        ("https://[2001:db8:0::1]:7", "https://[2001:db8::1]:7"), ("http://[2001:db8::1]", "http://[2001:db8::1]"),
    ])
    func `an address is written in one way only`(text: String, expected: String) throws {
        let address = try #require(RelayAddress(text))
        #expect(address.description == expected)
        #expect(RelayAddress(address.description) == address)
    }

    @Test func `the key of a relay stands behind the hash sign`() throws {
        let key = try DeviceKey(seed: [UInt8](repeating: 7, count: 32)).id
        let address = try #require(RelayAddress("https://relay.example.org#\(key)"))
        #expect(address.key == key)
        #expect(RelayAddress(address.description) == address)
        #expect(RelayAddress("https://relay.example.org#\(String(key.description.dropLast()))") == nil)
    }

    @Test func `a relay with and without its key is one, two keys are two`() throws {
        let keys = [DeviceKey().id, DeviceKey().id]
        let plain = try #require(RelayAddress("https://relay.example.org"))
        let relays = try keys.map { try #require(RelayAddress("https://relay.example.org#\($0)")) }
        let certified = try #require(RelayAddress("https://relay.example.org#\(keys[0])+ca"))
        let others = ["https://relay.example.org:8443", "http://relay.example.org:443", "https://relay2.example.org"]
            .compactMap { RelayAddress($0) }
        #expect([plain, relays[0], plain].distinct == [relays[0]])
        #expect([relays[0], plain].distinct == [relays[0]])
        #expect([others[0], plain, others[1], relays[0]].distinct == [others[0], relays[0], others[1]])
        #expect([plain, relays[0], relays[1]].distinct == relays)
        #expect([certified, relays[0]].distinct == [certified])
        #expect(([plain] + others).distinct == [plain] + others)
    }

    @Test(arguments: [
        "", "relay.example.org", "ftp://relay.example.org", "https://", "https://:443", "https://host:0",
        "https://host:65536", "https://host:", "https://ho st", "https://user@host", "https://a=b", "https://[::1",
        "https://[host]:4", "https://[::1]4", "https://::1", "https://224.0.0.1", "https://0.0.0.0",
        "https://[fe80::1%3]", "https://host#", "https://" + String(repeating: "a.", count: 120) + "org:12345/aaaaaaaa",
    ])
    func `what is no address is refused`(text: String) {
        #expect(RelayAddress(text) == nil)
    }
}
