import Foundation
import KithIdentity
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithNet

/// A relay whose certificate is over or not valid yet, or a device whose clock is wrong by a year: the same to TLS.
@Suite(
    "Certificates of relays and clocks", .timeLimit(.minutes(4)),
    .enabled(if: PythonPeer.isInstalled("cryptography"))
)
struct RelayCertificateTests {
    private struct Line: Decodable { var key: String }

    /// A relay with a certificate for localhost, valid from and to so many days from now.
    private func withRelay(
        _ kind: String, from begin: Int, to end: Int,
        _ body: (RelayServer, _ key: [UInt8], _ chain: String) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        try await PythonPeer.run("certificate.py", [folder.path, "\(begin)", "\(end)", kind]) { peer in
            let key = try #require(Hex.decode(try await peer.next(Line.self).key))
            var options = RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
            options.certificate = ("\(folder.path)/chain.pem", "\(folder.path)/key.pem")
            let server = try await RelayServer.open(
                options, logger: Logger(label: "test", factory: SwiftLogNoOpLogHandler.init))
            do {
                try await body(server, key, "\(folder.path)/chain.pem")
            } catch {
                await server.close()
                throw error
            }
            await server.close()
        }
    }

    @Test func `one that is valid is taken`() async throws {
        try await withRelay("p256", from: -1, to: 30) { server, _, chain in
            let relay = try #require(RelayAddress("https://localhost:\(server.address.port)"))
            let device = ObservedClient(relay) { $0.trustedCertificates = chain }
            device.client.connect()
            await device.connected()
            await device.client.close()
        }
    }

    @Test func `one that was renewed in its files is shown to those who come, and a bad one is not`() async throws {
        let (before, after) = (try TemporaryFolder(), try TemporaryFolder())
        try await withRelay("p256", from: -1, to: 30) { server, _, chain in
            func client(trusting chain: String) throws -> ObservedClient {
                let relay = try #require(RelayAddress("https://localhost:\(server.address.port)"))
                let device = ObservedClient(relay) { $0.trustedCertificates = chain }
                device.client.connect()
                return device
            }
            let folder = String(chain.dropLast("/chain.pem".count))
            func replace(_ name: String, by other: String) throws {
                try Data(contentsOf: URL(fileURLWithPath: other)).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
            }
            let old = "\(before.path)/chain.pem"
            try Data(contentsOf: URL(fileURLWithPath: chain)).write(to: URL(fileURLWithPath: old))
            let first = try client(trusting: old)
            await first.connected()
            #expect(try !server.readCertificate())

            // Half of a pair is written: the one before stays.
            try await PythonPeer.run("certificate.py", [after.path, "-1", "60", "p256"]) { peer in
                _ = try await peer.next(Line.self)
                try replace("chain.pem", by: "\(after.path)/chain.pem")
                #expect(throws: KithError(.invalid, "")) { try server.readCertificate() }
                let second = try client(trusting: old)
                await second.connected()
                await second.client.close()
                try replace("key.pem", by: "\(after.path)/key.pem")
                #expect(try server.readCertificate())
                #expect(try !server.readCertificate())
            }
            let third = try client(trusting: "\(after.path)/chain.pem")
            await third.connected()
            let stale = try client(trusting: old)
            #expect(try #require(await stale.waiting()).contains("its certificate"))
            #expect(server.clientCount == 2)
            for device in [first, third, stale] { await device.client.close() }
        }
    }

    @Test(arguments: [(-400, -35), (330, 700)])
    func `one that is over or not valid yet is refused, and the clock is named`(days: (Int, Int)) async throws {
        try await withRelay("p256", from: days.0, to: days.1) { server, _, chain in
            let relay = try #require(RelayAddress("https://localhost:\(server.address.port)"))
            let device = ObservedClient(relay) { $0.trustedCertificates = chain }
            device.client.connect()
            let reason = try #require(await device.waiting())
            #expect(reason.contains("its certificate"), "\(reason)")
            #expect(reason.contains("clock"), "\(reason)")
            await device.client.close()
        }
    }

    @Test(arguments: [(-400, -35), (330, 700)])
    func `where the key is in the URL, no clock matters`(days: (Int, Int)) async throws {
        try await withRelay("ed25519", from: days.0, to: days.1) { server, key, _ in
            let id = try DeviceID(publicKey: key)
            let relay = try #require(RelayAddress("https://localhost:\(server.address.port)#\(id)"))
            let device = ObservedClient(relay)
            device.client.connect()
            await device.connected()
            await device.client.close()
        }
    }
}
