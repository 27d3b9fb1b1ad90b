import Foundation
import KithIdentity
import KithNet
import KithReach
import KithTesting
import KithWire
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import KithRelayServer

/// A relay at pebble's address, and what sees to its certificate.
private struct CertifiedRelay {
    /// The name that is in every certificate, beside the address.
    static let name = "relay.example.org"

    /// A clock that a test moves on, and what a keeper has told.
    final class Record: Sendable {
        let ahead = Mutex<Int64>(0)
        let events = Mutex<[String]>([])

        var now: Int64 { Int64(Date().timeIntervalSince1970) + ahead.withLock { $0 } }

        func add(_ event: CertificateKeeper.Event) {
            let text =
                switch event {
                case .stage(let stage): "\(stage)"
                case .using(_, let isNew): isNew ? "new" : "kept"
                case .failed(let error, _): "failed: \(error.message)"
                }
            events.withLock { $0.append(text) }
        }
    }

    let pebble: Pebble
    let server: RelayServer
    let keeper: CertificateKeeper
    let record: Record

    var events: [String] { record.events.withLock { $0 } }

    /// Runs one while `body` does; authorities look for it at `challengeHost`, by default pebble's address.
    static func with(
        _ pebble: Pebble, _ folder: TemporaryFolder, agrees: Bool = true, challengeHost: String? = nil,
        _ body: (CertifiedRelay) async throws -> Void
    ) async throws {
        let http = try #require(NetworkAddress("\(challengeHost ?? pebble.host):\(Pebble.challengePort)"))
        let address = try #require(NetworkAddress("\(pebble.host):1"))
        let names = try [name, pebble.host].map { try #require(ACMEIdentifier($0)) }
        var settings = CertificateKeeper.Options(names, folder: "\(folder.path)/relay")
        settings.directory = try #require(ACMEURL(pebble.directory))
        settings.roots = Array(try Data(contentsOf: URL(filePath: pebble.rootFile)))
        settings.agreesToTerms = agrees
        try await RelayServer.with {
            $0.address = address
            $0.address.port = 0
            $0.awaitsCertificate = true
            $0.httpAddress = http
        } _: { server in
            let record = Record()
            let keeper = try CertificateKeeper(
                settings, challenges: server.challenges, clock: { record.now },
                use: { certificate throws(KithError) in try server.use(certificate) }, onEvent: { record.add($0) })
            try await body(CertifiedRelay(pebble: pebble, server: server, keeper: keeper, record: record))
        }
    }

    /// What curl fetches by the relay's name, with trust in pebble's certificates only.
    func fetch(_ path: String) async throws -> String {
        let port = server.address.port
        return try await Pebble.output(
            "curl",
            [
                "--silent", "--show-error", "--cacert", pebble.issuerFile, "--resolve",
                "\(Self.name):\(port):\(pebble.host)", "https://\(Self.name):\(port)\(path)",
            ])
    }

    /// The first lines of the certificate that the relay shows to whoever connects now.
    func shown() async throws -> String {
        let text = try await Pebble.output(
            "openssl", ["s_client", "-connect", server.address.description, "-servername", Self.name])
        let start = try #require(text.range(of: "-----BEGIN CERTIFICATE-----\n"))
        return String(text[start.upperBound...].prefix { $0 != "-" }.filter { $0 != "\n" })
    }

    /// The base64 of the certificate that the keeper has.
    var kept: String {
        get throws {
            let text = String(decoding: try #require(keeper.certificate).bytes, as: UTF8.self)
            let start = try #require(text.range(of: "-----BEGIN CERTIFICATE-----\n"))
            return String(text[start.upperBound...].prefix { $0 != "-" }.filter { $0 != "\n" })
        }
    }

    /// A device that is connected to the relay by its address, until it is closed.
    func connect() async throws -> RelayClient {
        let address = try #require(RelayAddress(host: pebble.host, port: server.address.port))
        var options = RelayClient.Options(address)
        options.trustedCertificates = pebble.issuerFile
        let client = RelayClient(
            key: DeviceKey(), options: options, on: MultiThreadedEventLoopGroup.singleton.any()
        ) { _ in }
        client.connect()
        try await eventually { if case .connected = client.state { true } else { false } }
        return client
    }
}

/// Certificates from a real authority.
@Suite("A relay's certificate", .timeLimit(.minutes(5)), .enabled(if: Pebble.isInstalled))
struct CertificateKeeperTests {
    @Test func `it is obtained, serves clients by name and by address, and is used again after a restart`() async throws
    {
        let folder = try TemporaryFolder()
        try await Pebble.run { pebble in
            var first = ""
            try await CertifiedRelay.with(pebble, folder) { relay in
                // Nobody is served without one.
                #expect(try await relay.fetch("/ping") == "")
                try await relay.keeper.open()
                #expect(relay.events.first == "asking" && relay.events.last == "new")
                #expect(relay.events.contains { $0.hasPrefix("registering") && $0.contains("thou%20wilt") })
                #expect(try await relay.fetch("/ping") == "pong\n")
                #expect(try await relay.shown() == relay.kept)
                let client = try await relay.connect()
                #expect(relay.server.clientCount == 1)
                await client.close()
                first = try relay.kept
                // The answers to challenges are shown no longer than they are wanted.
                let left = try await Pebble.output(
                    "curl",
                    ["--silent", "-i", "http://\(pebble.host):5002/.well-known/acme-challenge/x"])
                #expect(left.hasPrefix("HTTP/1.1 404 "))
                let portal = try await Pebble.output(
                    "curl",
                    ["--silent", "-i", "-H", "X-Iroh-Challenge: abc", "http://\(pebble.host):5002/generate_204"])
                #expect(portal.hasPrefix("HTTP/1.1 204 ") && portal.contains("response abc"))
            }
            pebble.stop()
            // Neither the authority nor agreement is needed.
            try await CertifiedRelay.with(pebble, folder, agrees: false) { relay in
                try await relay.keeper.open()
                #expect(relay.events == ["kept"])
                #expect(try relay.kept == first)
                #expect(try await relay.fetch("/ping") == "pong\n")
            }
        }
        // What is kept is for its owner alone.
        let authority = try #require(
            try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/relay").first)
        for (name, mode) in [
            ("relay", 0o700), ("relay/\(authority)", 0o700), ("relay/\(authority)/account.json", 0o600),
            ("relay/\(authority)/\(CertifiedRelay.name).pem", 0o600),
        ] {
            #expect(try folder.mode(of: name) == mode, "\(name)")
        }
    }

    @Test func `a newer one is used for those who connect, and whoever is connected stays`() async throws {
        let folder = try TemporaryFolder()
        try await Pebble.run { pebble in
            try await CertifiedRelay.with(pebble, folder) { relay in
                try await relay.keeper.open()
                let (first, certificate) = (try relay.kept, try #require(relay.keeper.certificate))
                let client = try await relay.connect()
                await relay.keeper.renewIfDue()
                #expect(try relay.kept == first)
                let due = RenewalSchedule(notBefore: certificate.notBefore, notAfter: certificate.notAfter).due
                relay.record.ahead.withLock { $0 = due - certificate.notBefore + 60 }
                await relay.keeper.renewIfDue()
                #expect(try relay.kept != first, "\(relay.events)")
                #expect(try await relay.shown() == relay.kept)
                #expect(relay.server.clientCount == 1)
                #expect(relay.server.metrics.contains("kith_relay_accepted_total 1\n"))
                if case .connected = client.state {} else { Issue.record("\(client.state)") }
                await client.close()
            }
        }
    }

    @Test func `when it cannot be renewed the old one serves on, and it is tried again later`() async throws {
        let folder = try TemporaryFolder()
        try await Pebble.run { pebble in
            try await CertifiedRelay.with(pebble, folder) { relay in
                try await relay.keeper.open()
                let (first, certificate) = (try relay.kept, try #require(relay.keeper.certificate))
                pebble.stop()
                relay.record.ahead.withLock { $0 = (certificate.notAfter - certificate.notBefore) / 3 * 2 + 60 }
                await relay.keeper.renewIfDue()
                await relay.keeper.renewIfDue()
                let failures = relay.events.filter { $0.hasPrefix("failed") }
                #expect(failures.count == 1 && failures[0].contains("cannot be reached"), "\(relay.events)")
                #expect(try relay.kept == first)
                #expect(try await relay.fetch("/ping") == "pong\n")
                // An authority that has lost everything is told of the account again, with the agreement that is kept.
                try await pebble.start()
                relay.record.ahead.withLock { $0 += 1_000 }
                await relay.keeper.renewIfDue()
                #expect(relay.events.last == "new" && relay.events.contains { $0.hasPrefix("registering") })
                #expect(try relay.kept != first)
            }
        }
    }

    @Test func `a name that does not lead here is said so, and nothing is left broken`() async throws {
        let folder = try TemporaryFolder()
        try await Pebble.run { pebble in
            // The authority looks at pebble's address; the relay listens elsewhere.
            let elsewhere = NetworkAddress.ownLoopback().ipv4Text
            try await CertifiedRelay.with(pebble, folder, challengeHost: elsewhere) { relay in
                let error = await #expect(throws: KithError.self) { try await relay.keeper.open() }
                #expect(error?.code == .denied)
                #expect(error?.message.contains("port 80") == true, "\(error?.message ?? "")")
                #expect(
                    error.map { $0.message.contains(CertifiedRelay.name) || $0.message.contains(pebble.host) } == true)
                #expect(relay.keeper.certificate == nil)
            }
            try await CertifiedRelay.with(pebble, folder, agrees: false) { relay in
                try await relay.keeper.open()
                #expect(try await relay.fetch("/ping") == "pong\n")
                #expect(!relay.events.contains { $0.hasPrefix("registering") })
            }
        }
    }

    @Test func `an authority that refuses most nonces gives one all the same`() async throws {
        try await Pebble.run(environment: ["PEBBLE_WFE_NONCEREJECT": "50"]) { pebble in
            try await CertifiedRelay.with(pebble, try TemporaryFolder()) { relay in
                try await relay.keeper.open()
                #expect(relay.events.last == "new")
            }
        }
    }

    @Test func `without agreement to the terms no account is made`() async throws {
        let folder = try TemporaryFolder()
        try await Pebble.run { pebble in
            try await CertifiedRelay.with(pebble, folder, agrees: false) { relay in
                let error = await #expect(throws: KithError.self) { try await relay.keeper.open() }
                #expect(error?.code == .denied && error?.message.contains("thou%20wilt") == true)
            }
        }
        let authority = try #require(
            try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/relay").first)
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/relay/\(authority)").isEmpty)
    }

    @Test func `an authority that is not trusted is told nothing`() async throws {
        try await Pebble.run { pebble in
            let folder = try TemporaryFolder()
            var settings = CertificateKeeper.Options([try #require(ACMEIdentifier("a.example"))], folder: folder.path)
            settings.directory = try #require(ACMEURL(pebble.directory))
            settings.agreesToTerms = true
            let keeper = try CertificateKeeper(
                settings, challenges: ChallengeTable(), clock: { 0 }, use: { _ in }, onEvent: { _ in })
            let error = await #expect(throws: KithError.self) { try await keeper.open() }
            #expect(error?.code == .unreachable && error?.message.contains("--acme-root") == true)
        }
    }

    @Test func `what a killed process left is removed, and what is damaged is replaced or named`() async throws {
        let folder = try TemporaryFolder()
        try await Pebble.run { pebble in
            try await CertifiedRelay.with(pebble, folder) { try await $0.keeper.open() }
            let authority = try #require(
                try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/relay").first)
            let place = "relay/\(authority)"
            let (certificate, account) = ("\(place)/\(CertifiedRelay.name).pem", "\(place)/account.json")
            // No process has that number.
            let rests = ["\(account).4194305.7.new", "\(certificate).4194305.8.new"]
            for rest in rests { try folder.write([1, 2, 3], to: rest) }
            for damage in [[], Array(try folder.bytes(certificate).dropLast(700)), [UInt8](repeating: 0xFF, count: 99)]
            {
                try folder.write(damage, to: certificate)
                try await CertifiedRelay.with(pebble, folder, agrees: false) { relay in
                    try await relay.keeper.open()
                    #expect(relay.events.last == "new")
                }
            }
            let left = try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/\(place)").sorted()
            #expect(left == ["account.json", "\(CertifiedRelay.name).pem"])
            // A key that others may read is for a person to look at.
            try folder.setMode(0o644, of: certificate)
            try await CertifiedRelay.with(pebble, folder) { relay in
                let error = await #expect(throws: KithError.self) { try await relay.keeper.open() }
                #expect(error?.code == .denied && error?.message.contains("chmod 600") == true)
            }
            try folder.setMode(0o600, of: certificate)
            // An account is not replaced without being asked.
            try folder.write([], to: account)
            try folder.write([], to: certificate)
            try await CertifiedRelay.with(pebble, folder) { relay in
                let error = await #expect(throws: KithError.self) { try await relay.keeper.open() }
                #expect(error?.code == .corrupt && error?.message.contains("account.json") == true)
            }
        }
    }
}
