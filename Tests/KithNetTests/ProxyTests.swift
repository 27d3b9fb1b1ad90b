import Foundation
import KithIdentity
import KithNet
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import NIOCore
import NIOPosix
import Testing

/// Relays behind HTTP proxies: those of Debian, and one that does what no proxy should.
@Suite(.timeLimit(.minutes(3)), .enabled(if: PythonPeer.isInstalled("asyncio"))) struct ProxyTests {
    private struct Line: Decodable {
        var port: UInt16?
        var request: String?
        var authorization: String?
        var mode: String?
        var count: Int?
    }

    private func withRelay(
        _ change: (inout RelayServerOptions) -> Void = { _ in }, _ body: (RelayServer) async throws -> Void
    ) async throws {
        var options = RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
        change(&options)
        let server = try await RelayServer.open(
            options, logger: Logger(label: "test", factory: SwiftLogNoOpLogHandler.init))
        do {
            try await body(server)
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    /// Runs the proxy of `hostile_network.py` in front of a place while `body` does.
    private func withProxy(
        to target: String, password: String? = nil, _ body: (PythonPeer, String) async throws -> Void
    ) async throws {
        try await PythonPeer.run("hostile_network.py", ["proxy", target] + (password.map { [$0] } ?? [])) { peer in
            let port = try #require(try await peer.next(Line.self).port)
            try await body(peer, "127.0.0.1:\(port)")
        }
    }

    private func settings(_ url: String) throws -> ProxySettings {
        var settings = ProxySettings(try ProxyServer(url))
        settings.includesLoopback = true
        return settings
    }

    private func exchange(at relay: RelayAddress, by proxy: ProxySettings) async throws {
        let (one, two) = (DeviceKey(), DeviceKey())
        let first = ObservedClient(relay, key: one) { $0.proxy = proxy }
        let second = ObservedClient(relay, key: two) { $0.proxy = proxy }
        first.client.connect()
        second.client.connect()
        await first.connected()
        await second.connected()
        let batch = (0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        #expect(
            await first.send(batch, segmentSize: 1_200, to: second, of: two.id)
                == .received(RelayedDatagrams(batch, segmentSize: 1_200), from: one.id))
        #expect(
            await second.send([1, 2, 3], segmentSize: 3, to: first, of: one.id)
                == .received(RelayedDatagrams([1, 2, 3]), from: two.id))
        await first.client.close()
        await second.client.close()
    }

    // MARK: - Real proxies

    @Test(arguments: RealProxy.Kind.allCases.filter(\.isInstalled), [false, true])
    func `two devices exchange datagrams through a real proxy`(kind: RealProxy.Kind, hasPassword: Bool) async throws {
        try await withRelay { server in
            try await RealProxy.with(kind, password: hasPassword ? ("kith", "open.sesame") : nil) { proxy in
                let relay = try #require(RelayAddress("http://\(server.address)"))
                let user = hasPassword ? "kith:open%2Esesame@" : ""
                try await exchange(at: relay, by: settings("http://\(user)\(proxy)"))
            }
        }
    }

    @Test(arguments: RealProxy.Kind.allCases.filter(\.isInstalled), ["", "kith:shut@", "other:open%2Esesame@"])
    func `a real proxy that refuses the password says so`(kind: RealProxy.Kind, user: String) async throws {
        try await RealProxy.with(kind, password: ("kith", "open.sesame")) { proxy in
            let relay = try #require(RelayAddress("http://127.0.0.1:1"))
            let settings = try settings("http://\(user)\(proxy)")
            let device = ObservedClient(relay) { $0.proxy = settings }
            device.client.connect()
            let reason = try #require(await device.waiting())
            #expect(
                reason.hasPrefix(
                    user.isEmpty
                        ? "the proxy http://\(proxy) wants a name and a password"
                        : "the proxy http://\(proxy) does not accept the name and password"), "\(reason)")
            await device.client.close()
        }
    }

    @Test(arguments: RealProxy.Kind.allCases.filter(\.isInstalled))
    func `a real proxy says when the relay is not there`(kind: RealProxy.Kind) async throws {
        try await RealProxy.with(kind, password: nil) { proxy in
            let relay = try #require(RelayAddress("http://127.0.0.1:1"))
            let settings = try settings(proxy)
            let device = ObservedClient(relay) { $0.proxy = settings }
            device.client.connect()
            let reason = try #require(await device.waiting())
            #expect(reason.hasPrefix("the proxy http://\(proxy) "), "\(reason)")
            await device.client.close()
        }
    }

    // MARK: - What no proxy should do

    @Test func `a relay's name and its TLS are for the relay alone`() async throws {
        let key = DeviceKey()
        let folder = try TemporaryFolder()
        func pem(_ name: String, _ bytes: [UInt8]) -> [UInt8] {
            Array("-----BEGIN \(name)-----\n\(Base64.encode(bytes))\n-----END \(name)-----\n".utf8)
        }
        try folder.write(
            pem("CERTIFICATE", try SelfSignedCertificate.make(for: key, names: ["relay.example"])), to: "chain.pem")
        // PKCS #8 of an Ed25519 key (RFC 8410 §7).
        let head: [UInt8] = [0x30, 0x2E, 2, 1, 0, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 4, 0x22, 4, 0x20]
        try folder.write(pem("PRIVATE KEY", head + key.seed), to: "key.pem")
        try await withRelay({ $0.certificate = ("\(folder.path)/chain.pem", "\(folder.path)/key.pem") }) { server in
            try await withProxy(to: "127.0.0.1:\(server.address.port)", password: "who:secret") { peer, proxy in
                // Nobody but the proxy knows where that is.
                let relay = try #require(RelayAddress("https://relay.example:8443#\(key.id)"))
                let settings = ProxySettings(try ProxyServer("who:secret@\(proxy)"))
                let device = ObservedClient(relay) { $0.proxy = settings }
                device.client.connect()
                await device.connected()
                let line = try await peer.next(Line.self)
                #expect(line.request == "CONNECT relay.example:8443 HTTP/1.1")
                #expect(line.authorization == "Basic d2hvOnNlY3JldA==")
                await device.client.close()
                // One with another key is not the relay, whoever led there.
                let other = try #require(RelayAddress("https://relay.example:8443#\(DeviceKey().id)"))
                let deceived = ObservedClient(other) { $0.proxy = settings }
                deceived.client.connect()
                let reason = try #require(await deceived.waiting())
                #expect(reason == "what answers there does not have the key that its URL names", "\(reason)")
                await deceived.client.close()
            }
        }
    }

    @Test(arguments: [
        ("garbage", "what answers in place of the proxy "), ("huge", "gives an answer that has no end"),
        ("endless", "gives an answer that has no end"), ("close", "ends the connection without an answer"),
        ("hang", "did not answer in time"), ("status 403", "does not allow connections to 127.0.0.1:1 (403)"),
        ("status 503", "does not reach 127.0.0.1:1 (503)"), ("status 200", "what answers there is not a relay"),
    ])
    func `a proxy that misbehaves is named with what it does`(mode: String, expected: String) async throws {
        try await withProxy(to: "127.0.0.1:1") { peer, proxy in
            peer.send(mode)
            #expect(try await peer.next(Line.self).mode != nil)
            let settings = try settings(proxy)
            let device = ObservedClient(try #require(RelayAddress("http://127.0.0.1:1"))) {
                $0.proxy = settings
                $0.openingTime = .seconds(mode == "hang" ? 1 : 30)
            }
            device.client.connect()
            let reason = try #require(await device.waiting())
            #expect(reason.contains(expected), "\(reason)")
            #expect(mode == "status 200" || reason.contains("the proxy http://\(proxy)"), "\(reason)")
            await device.client.close()
        }
    }

    @Test func `a proxy that is down is named`() async throws {
        let settings = ProxySettings(try ProxyServer("http://who:secret@127.0.0.1:1"))
        let device = ObservedClient(try #require(RelayAddress("https://relay.example"))) { $0.proxy = settings }
        device.client.connect()
        let reason = try #require(await device.waiting())
        #expect(reason.hasPrefix("the proxy http://127.0.0.1:1 cannot be reached: "), "\(reason)")
        #expect(!reason.contains("secret"))
        await device.client.close()
    }

    @Test func `a variable that names no proxy keeps the relay unreachable, and says so`() async throws {
        try await withRelay { server in
            let device = ObservedClient(try #require(RelayAddress("http://\(server.address)"))) {
                $0.proxy = ProxySettings { $0 == "all_proxy" ? "socks5://secret:1" : nil }
                $0.proxy?.includesLoopback = true
            }
            device.client.connect()
            let reason = "all_proxy names no proxy: a SOCKS proxy cannot be used; one of http:// can"
            #expect(await device.waiting() == reason)
            device.client.networkChanged()
            #expect(await device.waiting() == reason)
            await device.client.close()
        }
    }

    @Test func `a refused password is not tried again and again, whoever asks`() async throws {
        try await withProxy(to: "127.0.0.1:1", password: "who:secret") { peer, proxy in
            let settings = try settings("who:wrong@\(proxy)")
            let device = ObservedClient(try #require(RelayAddress("http://127.0.0.1:1"))) { $0.proxy = settings }
            device.client.connect()
            #expect(try #require(await device.waiting()).contains("does not accept the name and password"))
            #expect(try await peer.next(Line.self).request != nil)
            for _ in 0..<20 {
                device.client.networkChanged()
                device.client.connect()
                // Whoever waits for the attempt hears at once how it ends.
                #expect(try #require(await device.waiting()).contains("does not accept the name and password"))
            }
            await device.client.close()
            peer.send("count")
            #expect(try await peer.next(Line.self).count == 1)
        }
    }

    @Test func `a proxy that comes to itself is used, and another relay of a peer goes through it`() async throws {
        try await withRelay { server in
            try await withProxy(to: "\(server.address)") { peer, proxy in
                peer.send("status 503")
                #expect(try await peer.next(Line.self).mode == "status")
                let settings = ProxySettings(try ProxyServer(proxy))
                let device = ObservedClient(try #require(RelayAddress("http://peer.example"))) {
                    $0.proxy = settings
                    // The proxy is on this machine; the relay that a peer named is wherever the proxy says.
                    $0.refusesThisMachine = true
                }
                device.client.connect()
                #expect(try #require(await device.waiting()).contains("503"))
                peer.send("open")
                await device.connected()
                await device.client.close()
            }
        }
    }
}

/// A proxy of Debian, on an address of its own.
struct RealProxy {
    enum Kind: String, CaseIterable, Sendable {
        case tinyproxy, squid

        var path: String { self == .tinyproxy ? "/usr/bin/tinyproxy" : "/usr/sbin/squid" }

        var isInstalled: Bool {
            let isThere = FileManager.default.isExecutableFile(atPath: path)
            if !isThere { print("skipped: \(rawValue) is not installed") }
            return isThere
        }
    }

    /// Runs one while `body` does, and gives it its place.
    static func with(
        _ kind: Kind, password: (name: String, word: String)?, _ body: (String) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        // Nobody else has it, so that no port is met again.
        let host = NetworkAddress.ownLoopback().ipv4Text
        let arguments: [String]
        switch kind {
        case .tinyproxy:
            var lines = ["Listen \(host)", "Port 3128", "Timeout 60", "MaxClients 20", "LogLevel Critical"]
            lines.append("LogFile \"\(folder.path)/log\"")
            if let password { lines.append("BasicAuth \(password.name) \(password.word)") }
            try folder.write(lines.joined(separator: "\n").utf8, to: "settings")
            arguments = ["-d", "-c", "\(folder.path)/settings"]
        case .squid:
            var lines = [
                "http_port \(host):3128", "pid_filename none", "cache_log /dev/null", "access_log none",
                "cache deny all", "shutdown_lifetime 0 seconds", "visible_hostname kith.test",
            ]
            if let password {
                try folder.write(
                    """
                    #!/bin/bash
                    while read -r name word; do [[ $name == \(password.name) && $word == \(password.word) ]] && echo OK || echo ERR; done

                    """.utf8, to: "check")
                lines.append("auth_param basic program \(folder.path)/check")
                lines += ["acl known proxy_auth REQUIRED", "http_access allow known", "http_access deny all"]
                // Started by root it becomes another user.
                try folder.setMode(0o755, of: "")
                try folder.setMode(0o755, of: "check")
            } else {
                lines.append("http_access allow all")
            }
            try folder.write(lines.joined(separator: "\n").utf8, to: "settings")
            arguments = ["-N", "-f", "\(folder.path)/settings"]
        }
        let process = try ChildProcess(kind.path, arguments)
        defer { process.kill() }
        try await eventually {
            try #require(process.isRunning, "\(kind) ended at once")
            do {
                try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(host: host, port: 3_128)
                    .get().close()
                return true
            } catch {
                return false
            }
        }
        try await body("\(host):3128")
    }
}
