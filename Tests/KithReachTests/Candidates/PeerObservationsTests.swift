import KithIdentity
import KithReach
import KithWire
import Testing

@Suite("Observations of peers") struct PeerObservationsTests {
    private func address(_ text: String) throws -> NetworkAddress { try #require(NetworkAddress(text)) }
    private let peers = (0..<100).map { _ in DeviceKey().id }

    @Test func `a device's word is told where no server has answered`() throws {
        var observations = PeerObservations()
        #expect(observations.observed(try address("203.0.113.7:4433"), by: peers[0]))
        #expect(observations.observed(try address("[2001:db8::7]:4433"), by: peers[0]))
        let told = [try address("203.0.113.7:4433"), try address("[2001:db8::7]:4433")]
        #expect(observations.addresses(besides: []) == told)
        observations.remove(peers[0])
        #expect(observations.addresses(besides: []).isEmpty)
    }

    @Test(arguments: [
        "192.168.1.2:4433", "10.0.0.1:4433", "100.64.0.1:4433", "169.254.1.1:4433", "127.0.0.1:4433",
        "224.0.0.1:4433", "255.255.255.255:4433", "0.0.0.0:4433", "203.0.113.7:0", "[::1]:4433", "[fd00::1]:4433",
        "[fe80::1]:4433", "[ff02::1]:4433", "[::]:4433", "[64:ff9b::1]:4433",
    ])
    func `only an address of the internet counts`(text: String) throws {
        var observations = PeerObservations()
        #expect(!observations.observed(try address(text), by: peers[0]))
        #expect(observations.addresses(besides: []).isEmpty)
    }

    @Test func `a lie does not displace what servers say, nor stand beside it`() throws {
        var observations = PeerObservations()
        let server = try address("203.0.113.7:4433")
        #expect(observations.observed(try address("198.51.100.1:80"), by: peers[0]))
        #expect(observations.addresses(besides: [server]).isEmpty)
        // Of another family, servers have said nothing.
        #expect(observations.observed(try address("[2001:db8::7]:4433"), by: peers[0]))
        #expect(observations.addresses(besides: [server]) == [try address("[2001:db8::7]:4433")])
        // Another port of the same address is what a hard NAT gives.
        #expect(observations.observed(try address("203.0.113.7:5000"), by: peers[1]))
        #expect(observations.addresses(besides: [server]).contains(try address("203.0.113.7:5000")))
    }

    @Test func `one device has one word of a family, and most devices count more than one`() throws {
        var observations = PeerObservations()
        for port in 1...1_000 {
            _ = observations.observed(NetworkAddress(ipv4: (198, 51, 100, 1), port: UInt16(port)), by: peers[0])
        }
        #expect(observations.addresses(besides: []).count == 1)
        let honest = try address("203.0.113.7:4433")
        for peer in peers[1...2] { _ = observations.observed(honest, by: peer) }
        _ = observations.observed(try address("198.51.100.2:1"), by: peers[3])
        let told = observations.addresses(besides: [])
        #expect(told.first == honest && told.count == PeerObservations.maxAddresses)
    }

    @Test func `what is kept is bounded`() {
        var observations = PeerObservations()
        for (index, _) in (0..<10_000).enumerated() {
            _ = observations.observed(NetworkAddress(ipv4: UInt32(0x0900_0000 + index), port: 1), by: DeviceKey().id)
            if index > 300 { break }
        }
        #expect(observations.addresses(besides: []).count == PeerObservations.maxAddresses)
    }
}
