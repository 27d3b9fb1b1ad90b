import KithTesting
import KithWire
import Testing

@testable import KithNet

/// What the system says of the IPv6 addresses of a network interface.
@Suite(.enabled(if: Bridge.isPossible), .timeLimit(.minutes(2))) struct AddressFlagTests {
    @Test func `an address that the system gives up is known as such, also when it becomes so`() async throws {
        let bridge = try Bridge()
        defer { bridge.remove() }
        try bridge.run(at: 0, "ip", "address", "add", "2001:db8::1/64", "dev", "eth0", "nodad")
        try bridge.run(at: 0, "ip", "address", "add", "2001:db8::2/64", "dev", "eth0", "nodad", "preferred_lft", "0")
        let namespace = try Namespace(path: bridge.path(of: 0))
        defer { namespace.end() }
        let (kept, left) = (
            NetworkAddress(ipv6: 0x2001_0DB8 << 32, 1, port: 0), NetworkAddress(ipv6: 0x2001_0DB8 << 32, 2, port: 0)
        )
        func interface() async throws -> NetworkInterface {
            try await withTaskExecutorPreference(namespace) {
                try #require(NetworkInterface.all.first { $0.name == "eth0" })
            }
        }
        var found = try await interface()
        #expect(found.addresses.contains(kept) && found.addresses.contains(left))
        #expect(found.deprecated == [left] && found.temporary.isEmpty)
        try bridge.run(at: 0, "ip", "address", "change", "2001:db8::1/64", "dev", "eth0", "preferred_lft", "0")
        found = try await interface()
        #expect(found.deprecated == [kept, left])
    }
}
