import KithIdentity
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithNet

/// What a relay lets guests do.
@Suite(.timeLimit(.minutes(4))) struct RelayGuestTests {
    private let silent = Logger(label: "test", factory: SwiftLogNoOpLogHandler.init)

    @Test func `a guest is held to its rate, however small its datagrams`() async throws {
        let (member, guest) = (DeviceKey(), DeviceKey())
        var options = RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
        options.access = RelayAccess(keys: [member.id], admitsGuests: true)
        options.guestRate = 2_000
        let server = try await RelayServer.open(options, logger: silent)
        let address = try #require(RelayAddress("http://\(server.address)"))
        let (receiver, sender) = (ObservedClient(address, key: member), ObservedClient(address, key: guest))
        for client in [receiver, sender] {
            client.client.connect()
            await client.connected()
        }
        for _ in 0..<60 {
            for _ in 0..<100 {
                sender.client.send([UInt8](repeating: 1, count: 100), segmentSize: 100, to: member.id)
            }
            // Real time: the relay reads meanwhile, as far as it lets itself.
            try await Task.sleep(for: .milliseconds(25))
        }
        // A handshake's worth at once, some 500 frames, and what one read brings beyond, 256 KiB at most; then 15 a second.
        // 6,000 were sent.
        let frames = try #require(
            server.metrics.split(separator: "\n").first { $0.hasPrefix("kith_relay_received_frames_total ") }?
                .split(separator: " ").last.flatMap { Int($0) })
        #expect((100...3_000).contains(frames))
        for client in [receiver, sender] { await client.client.close() }
        await server.close()
    }
}
