import KithNet
import KithRelayServer
import KithTesting
import KithWire
import Logging
import Testing

/// Address discovery over QUIC with aioquic, which has its own hand-written form of it (`qad_peer.py`).
@Suite(.serialized, .enabled(if: PythonPeer.isInstalled("aioquic")), .timeLimit(.minutes(4)))
struct AddressDiscoveryInteropTests {
    /// What the peer says, a line each.
    private struct Line: Decodable {
        var listening: UInt16?
        var own: UInt16?
        var role: Int?
        var observed: String?
        var port: UInt16?
        var sequence: UInt64?
        var closed: UInt64?
    }

    /// Waits for the first line that `accepts` does.
    private func line(of peer: PythonPeer, _ accepts: (Line) -> Bool) async throws -> Line {
        while true {
            let line = try await peer.next(Line.self)
            if accepts(line) { return line }
        }
    }

    @Test func `aioquic is told by a relay from where it is seen`() async throws {
        let server = try await AddressDiscoveryServer.open(
            at: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0), logger: Logger(label: "test"))
        let arguments = ["dial", AddressDiscovery.alpn, "1", "127.0.0.1", "\(server.address.port)"]
        try await PythonPeer.run("qad_peer.py", arguments) { peer in
            let role = try await line(of: peer) { $0.role != nil }
            #expect(role.role == 0)
            var (own, seen): (UInt16?, Line?)
            while own == nil || seen == nil {
                let line = try await peer.next(Line.self)
                own = line.own ?? own
                if line.observed != nil { seen = line }
            }
            #expect(seen?.observed == "127.0.0.1" && seen?.port == own && own != nil)
        }
        // Its process has ended without a word: nobody waits for that.
        await server.close()
    }

    @Test func `aioquic tells an endpoint from where it is seen, and is left with code 1`() async throws {
        try await PythonPeer.run("qad_peer.py", ["serve", AddressDiscovery.alpn, "0"]) { peer in
            let port = try #require(try await line(of: peer) { $0.listening != nil }.listening)
            try await withEndpoint { endpoint in
                let server = NetworkAddress(ipv4: (127, 0, 0, 1), port: port)
                let answer = try #require(await endpoint.observedAddress(by: server))
                #expect(answer.mapped == NetworkAddress(ipv4: (127, 0, 0, 1), port: endpoint.port))
                let said1 = try await line(of: peer) { $0.role != nil }
                #expect(said1.role == 1)
                let said2 = try await line(of: peer) { $0.closed != nil }
                #expect(said2.closed == 1)
            }
        }
    }
}
