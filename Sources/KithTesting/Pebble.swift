import Foundation
import KithWire
import Synchronization

/// A certificate authority for tests: Debian's pebble, with a DNS server that knows every name.
///
/// It has an address of this machine to itself (of 127.0.0.0/8), to which all names lead: there, at port 5002 in place
/// of 80, it looks for the answers to its challenges.
public final class Pebble: Sendable {
    /// The port at which it looks for the answers to its challenges.
    public static let challengePort: UInt16 = 5_002

    /// True when there can be one; says so if not.
    public static let isInstalled: Bool = {
        #if os(Linux)
        for program in ["pebble", "pebble-challtestsrv", "openssl", "curl"]
        where !FileManager.default.isExecutableFile(atPath: "/usr/bin/\(program)") {
            print("skipped: \(program) is not installed (scripts/bootstrap --test)")
            return false
        }
        return true
        #else
        print("skipped: pebble is for Linux, where 127.0.0.0/8 is this machine")
        return false
        #endif
    }()

    /// Its address, and that of every name.
    public let host: String
    /// A PEM file of what to trust when asking it.
    public var rootFile: String { "\(folder.path)/tls.pem" }
    /// A PEM file of what to trust to believe its certificates.
    public var issuerFile: String { "\(folder.path)/issuer.pem" }
    /// The URL of its directory.
    public var directory: String { "https://\(host):14000/dir" }

    private let folder: TemporaryFolder
    private let environment: [String: String]
    private let names: ChildProcess
    private let authority = Mutex<ChildProcess?>(nil)

    /// Runs one while `body` does; `environment` holds its `PEBBLE_…` settings.
    public static func run(
        environment: [String: String] = [:], _ body: (Pebble) async throws -> Void
    ) async throws {
        let pebble = try await Pebble(environment)
        defer { pebble.end() }
        try await pebble.start()
        try await body(pebble)
    }

    private init(_ environment: [String: String]) async throws {
        host = NetworkAddress.ownLoopback().ipv4Text
        folder = try TemporaryFolder()
        self.environment = ["PEBBLE_VA_NOSLEEP": "1"].merging(environment) { $1 }
        names = try ChildProcess(
            "/usr/bin/pebble-challtestsrv",
            [
                "-defaultIPv4", host, "-defaultIPv6", "", "-dns01", "\(host):8053", "-http01", "", "-https01", "",
                "-tlsalpn01", "", "-management", "\(host):8055",
            ])
        _ = try await Self.output(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                "\(folder.path)/key.pem", "-out", rootFile, "-days", "2", "-subj", "/CN=pebble", "-addext",
                "subjectAltName=IP:\(host)",
            ])
        let settings = """
            {"pebble": {"listenAddress": "\(host):14000", "managementListenAddress": "\(host):15000",
            "certificate": "\(rootFile)", "privateKey": "\(folder.path)/key.pem",
            "httpPort": \(Self.challengePort), "tlsPort": 5001}}
            """
        try folder.write(settings.utf8, to: "settings.json")
    }

    /// Starts the authority: it knows no account and no certificate, and has another key each time.
    public func start() async throws {
        let process = try ChildProcess(
            "/usr/bin/pebble", ["-config", "\(folder.path)/settings.json", "-dnsserver", "\(host):8053"],
            environment: environment)
        authority.withLock { $0 = process }
        try await eventually {
            let root = try await Self.output(
                "curl", ["--silent", "--cacert", rootFile, "https://\(host):15000/roots/0"])
            let directory = try await Self.output("curl", ["--silent", "--cacert", rootFile, directory])
            guard root.contains("END CERTIFICATE"), directory.contains("newNonce") else { return false }
            try folder.write(root.utf8, to: "issuer.pem")
            return true
        }
    }

    /// Ends the authority.
    public func stop() {
        authority.withLock { process in
            process?.kill()
            process?.waitUntilExit()
            process = nil
        }
    }

    private func end() {
        stop()
        names.kill()
    }

    /// What a program prints, whatever its status.
    public static func output(_ program: String, _ arguments: [String]) async throws -> String {
        let process = try ChildProcess("/usr/bin/\(program)", arguments, output: .connected)
        return await onThread {
            let data = process.output?.readDataToEndOfFile() ?? Data()
            process.waitUntilExit()
            return String(decoding: data, as: UTF8.self)
        }
    }
}
