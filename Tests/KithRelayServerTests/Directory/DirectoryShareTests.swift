import KithIdentity
import KithReach
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithRelayServer

@Suite("The share of a network in a directory", .timeLimit(.minutes(4))) struct DirectoryShareTests {
    private func withServer(
        _ change: (inout DirectoryLimits) -> Void, _ body: (DirectoryServer) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        var options = DirectoryServer.Options(
            folder: folder.path, address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0),
            logger: Logger(label: "directory", factory: SwiftLogNoOpLogHandler.init))
        change(&options.limits)
        let server = try await DirectoryServer.open(options)
        do {
            try await body(server)
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    /// Publishes a record as a proxy on the server's machine does for `client`; returns the status.
    private func publish(
        _ key: DeviceKey, at time: UInt64, for client: String?, to server: DirectoryServer
    ) async throws -> Int? {
        let record = try DeviceRecord().signed(by: key, at: time)
        let forwarded = client.map { "X-Forwarded-For: \($0)\r\n" } ?? ""
        let head =
            "PUT /pkarr/\(key.id.zBase32) HTTP/1.1\r\nHost: directory\r\nConnection: close\r\n\(forwarded)"
            + "Content-Length: \(record.body.count)\r\n\r\n"
        let answer = try await RawConnection.exchange(Array(head.utf8) + record.body, with: server.address)
        return answer.split(separator: " ").dropFirst().first.flatMap { Int($0) }
    }

    @Test func `a network has a bounded number of new keys, and renews those it has`() async throws {
        try await withServer {
            $0.newKeysPerNetwork = DirectoryLimits.Rate(perSecond: 0, burst: 1)
        } _: { (server: DirectoryServer) async throws -> Void in
            let (one, two, three) = (DeviceKey(), DeviceKey(), DeviceKey())
            #expect(try await publish(one, at: 1, for: "192.0.2.1", to: server) == 204)
            // What the client itself says of where it comes from does not count.
            #expect(try await publish(two, at: 1, for: "203.0.113.9, 192.0.2.77", to: server) == 429)
            #expect(try await publish(two, at: 1, for: "192.0.2.77:4433", to: server) == 429)
            #expect(try await publish(one, at: 1, for: "192.0.2.1", to: server) == 204)
            #expect(try await publish(one, at: 2, for: "192.0.2.1", to: server) == 204)
            #expect(try await publish(two, at: 1, for: "2001:db8::1", to: server) == 204)
            #expect(try await publish(three, at: 1, for: "[2001:db8:0:ff::2]:80", to: server) == 429)
            // A proxy that does not say for whom it asks limits its clients itself.
            #expect(try await publish(three, at: 1, for: nil, to: server) == 204)
            #expect(server.recordCount == 3)
        }
    }

    @Test func `one network's flood takes the place of no other's records`() async throws {
        try await withServer {
            ($0.records, $0.recordsPerNetwork) = (6, 4)
        } _: { (server: DirectoryServer) async throws -> Void in
            let (honest, late) = (DeviceKey(), DeviceKey())
            #expect(try await publish(honest, at: 1, for: "198.51.100.1", to: server) == 204)
            for number in 0..<12 {
                let client = number % 2 == 0 ? "192.0.2.1" : "192.0.2.200"
                #expect(try await publish(DeviceKey(), at: 1, for: client, to: server) == 204)
            }
            #expect(server.recordCount == 5)
            for _ in 0..<8 { #expect(try await publish(DeviceKey(), at: 1, for: "203.0.113.1", to: server) == 204) }
            #expect(server.recordCount == 6)
            #expect(try await publish(late, at: 1, for: "198.51.100.200", to: server) == 204)
            #expect(try await publish(honest, at: 2, for: "198.51.100.1", to: server) == 204)
            for key in [honest, late] { #expect(server.service.store.record(of: key.id) != nil) }
            #expect(server.recordCount == 6)
        }
    }
}
