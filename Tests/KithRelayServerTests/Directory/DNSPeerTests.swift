import Foundation
import KithIdentity
import KithNet
import KithReach
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithRelayServer

/// A directory, asked over DNS by Debian's dig and by dnspython.
@Suite("A directory over DNS", .timeLimit(.minutes(4))) struct DNSPeerTests {
    private static let origin = "dir.example.org"

    private static let isDigInstalled: Bool = {
        if FileManager.default.isExecutableFile(atPath: "/usr/bin/dig") { return true }
        print("skipped: dig is not installed (scripts/bootstrap --test)")
        return false
    }()

    /// Runs a directory while `body` does; it has a record that fits into a small answer, and one that does not.
    private func withDirectory(
        limits: DirectoryLimits = DirectoryLimits(),
        _ body: (_ server: DirectoryServer, _ small: DeviceID, _ large: DeviceID, _ texts: [String]) async throws ->
            Void
    ) async throws {
        let folder = try TemporaryFolder()
        let loopback = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)
        var options = DirectoryServer.Options(
            folder: folder.path, address: loopback, origin: Self.origin, dnsAddress: loopback,
            logger: Logger(label: "directory", factory: SwiftLogNoOpLogHandler.init))
        options.limits = limits
        let server = try await DirectoryServer.open(options)
        do {
            let relay = try #require(RelayAddress("https://relay.example"))
            let (small, large) = (DeviceKey(), DeviceKey())
            let userData = String(repeating: "x", count: DeviceRecord.maxUserDataLength)
            let address = try #require(DirectoryAddress("http://\(server.address)"))
            let client = try DirectoryClient([address])
            for (key, record) in [
                (small, DeviceRecord(relays: [relay])), (large, DeviceRecord(relays: [relay], userData: userData)),
            ] { #expect(try await client.publish(record.signed(by: key, at: 1)).kept == [address]) }
            try await body(server, small.id, large.id, ["relay=\(relay)", "user-data=\(userData)"])
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    #if os(Linux)
    @Test func `whoever asks a byte at a time is disconnected, and HTTP goes on beside as many as there are`()
        async throws
    {
        var limits = DirectoryLimits()
        (limits.requestSeconds, limits.connections) = (2, 8)
        try await withDirectory(limits: limits) { server, small, _, _ in
            let port = try #require(server.dnsAddress).port
            // A quarter of the connections are for DNS: the third is refused. Each byte is sent before the time is up.
            let said = try await Pebble.output(
                "bash",
                [
                    "-c",
                    """
                    for descriptor in 3 4 5; do eval "exec $descriptor<>/dev/tcp/127.0.0.1/\(port)"; done
                    timeout 60 cat <&5 && echo refused
                    (trap '' PIPE; for _ in $(seq 120); do printf '\\0' >&3; sleep 0.5; done) 2>/dev/null &
                    curl -s -o /dev/null -w '%{http_code}\n' http://\(server.address)/pkarr/\(small.zBase32)
                    timeout 60 cat <&3 && echo closed
                    kill %1
                    """,
                ])
            #expect(said == "refused\n200\nclosed\n")
        }
    }
    #endif

    @Test(.enabled(if: isDigInstalled)) func `dig is answered over UDP, and over TCP what is long`() async throws {
        try await withDirectory { server, small, large, texts in
            let port = try #require(server.dnsAddress).port
            func dig(_ more: String...) async throws -> String {
                try await Pebble.output(
                    "dig", ["@127.0.0.1", "-p", "\(port)", "+tries=1", "+timeout=60", "+nocookie"] + more)
            }
            func name(_ device: DeviceID) -> String { "_iroh.\(device.zBase32).\(Self.origin)" }
            let answer = try await dig("TXT", name(small))
            #expect(answer.contains("status: NOERROR") && answer.contains("\"\(texts[0])\""))
            #expect(answer.contains("flags: qr aa rd;") && !answer.contains("Warning: Message"))
            #expect(try await dig("TXT", name(large), "+ignore").contains("flags: qr aa tc rd;"))
            // By itself it asks again over TCP.
            for how in ["+notcp", "+tcp"] {
                let answer = try await dig("TXT", name(large), how)
                for text in texts { #expect(answer.contains("\"\(text)\"")) }
                #expect(answer.contains("(TCP)"))
            }
            #expect(try await dig("A", name(small)).contains("status: NOERROR"))
            #expect(try await dig("SOA", Self.origin, "+short").contains("ns.\(Self.origin). hostmaster"))
            let nobody = "_iroh.\(DeviceKey().id.zBase32).\(Self.origin)"
            #expect(try await dig("TXT", nobody).contains("status: NXDOMAIN"))
            for refused in [["AXFR", Self.origin], ["TXT", "example.net"]] {
                let answer = try await dig(refused[0], refused[1])
                #expect(answer.contains("REFUSED") || answer.contains("Transfer failed"))
            }
            #expect(try await dig("TXT", name(small), "+edns=1", "+noednsneg").contains("status: BADVERS"))
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("dns.query")))
    func `dnspython is answered over UDP and TCP`() async throws {
        struct Answers: Decodable {
            var udpIsCut: Bool
            var udp: [String]
            var tcp: [String]
            var fallback: [String]
            var fellBack: Bool
            var upperCase: [String]
            var missing: String
            var noKey: String
            var elsewhere: String
            var transfer: String
            var isAuthoritative: Bool
        }
        try await withDirectory { server, small, large, texts in
            let port = try #require(server.dnsAddress).port
            for (device, isLarge) in [(small, false), (large, true)] {
                let arguments = ["127.0.0.1", "\(port)", Self.origin, device.zBase32]
                let wanted = isLarge ? texts : [texts[0]]
                try await PythonPeer.run("dns_peer.py", arguments) { peer in
                    let answers = try await peer.next(Answers.self)
                    #expect(answers.udpIsCut == isLarge && answers.udp == (isLarge ? [] : wanted))
                    #expect(answers.tcp == wanted && answers.fallback == wanted && answers.upperCase == wanted)
                    #expect(answers.fellBack == isLarge && answers.isAuthoritative)
                    #expect(answers.missing == "NXDOMAIN" && answers.noKey == "NXDOMAIN")
                    #expect(answers.elsewhere == "REFUSED" && answers.transfer == "REFUSED")
                }
            }
        }
    }
}
