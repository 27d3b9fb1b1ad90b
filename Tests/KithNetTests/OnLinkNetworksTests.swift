import KithWire
import Testing

@testable import KithNet

@Suite("The networks this machine is on") struct OnLinkNetworksTests {
    private func address(_ text: String) throws -> NetworkAddress { try #require(NetworkAddress(text)) }

    private func networks() throws -> OnLinkNetworks {
        OnLinkNetworks([
            NetworkPrefix(of: try address("192.168.1.7:0"), length: 24),
            NetworkPrefix(of: try address("10.1.2.3:0"), length: 15),
            NetworkPrefix(of: try address("93.184.200.9:0"), length: 32),
            NetworkPrefix(of: try address("[2001:db8:1::7]:0"), length: 64),
        ])
    }

    @Test(arguments: [
        "192.168.1.200:4433", "10.0.255.255:1", "10.1.0.0:1", "93.184.200.9:1", "[2001:db8:1::ffff]:1", "127.0.0.1:1",
        "[::1]:1", "169.254.7.7:1", "[fe80::1]:1",
    ])
    func `an address there, of a link or of this machine is on one of them`(text: String) throws {
        #expect(try networks().contains(address(text)))
    }

    @Test(arguments: [
        "192.168.2.200:4433", "10.2.0.0:1", "172.16.0.1:1", "93.184.200.8:1", "[2001:db8:2::7]:1", "[fd00::1]:1",
    ])
    func `another private address is not, though it looks near`(text: String) throws {
        #expect(try !networks().contains(address(text)))
    }

    @Test func `a route to everywhere makes nothing near`() throws {
        let networks = OnLinkNetworks([NetworkPrefix(of: try address("10.0.0.1:0"), length: 0)])
        #expect(try !networks.contains(address("10.0.0.2:1")))
    }

    @Test func `this machine's own addresses are on its networks, but for those of tunnels`() {
        let networks = OnLinkNetworks.now
        #expect(networks.contains(NetworkAddress(ipv4: (127, 0, 0, 1), port: 1)))
        #expect(!networks.contains(NetworkAddress(ipv4: (203, 0, 113, 77), port: 1)))
        if let own = outsideAddress { #expect(networks.contains(own)) }
    }
}
