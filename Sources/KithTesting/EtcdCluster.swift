import Foundation
import KithWire
import Synchronization

/// etcd for tests: Debian's, with an address of this machine to itself (of 127.0.0.0/8).
public final class EtcdCluster: Sendable {
    /// What is asked of those who speak to it.
    public struct Security: Sendable {
        /// True for TLS on both sides: who connects shows a certificate.
        public var usesTLS = false
        /// The password of the user `root`, whom everybody must be; `nil` when nobody is asked.
        public var password: String?

        /// Asks for nothing.
        public init() {}
    }

    /// True when there can be one; says so if not.
    public static let isInstalled: Bool = {
        #if os(Linux)
        for program in ["etcd", "etcdctl", "openssl"]
        where !FileManager.default.isExecutableFile(atPath: "/usr/bin/\(program)") {
            print("skipped: \(program) is not installed (scripts/bootstrap --test)")
            return false
        }
        return true
        #else
        print("skipped: etcd is run on Linux, where 127.0.0.0/8 is this machine")
        return false
        #endif
    }()

    /// The URLs of its members.
    public let endpoints: [String]
    /// A PEM file of what to trust.
    public var rootFile: String { "\(folder.path)/ca.pem" }
    /// The PEM files of a certificate that is taken.
    public var certificate: (chain: String, key: String) { ("\(folder.path)/cert.pem", "\(folder.path)/key.pem") }

    private let host: String
    private let security: Security
    private let folder: TemporaryFolder
    private let members: Mutex<[ChildProcess?]>
    /// True while its clients would have to know other addresses.
    private let isHidden = Mutex(false)

    /// The port of the first member's clients while it is hidden, and at other times.
    private static let (hiddenPort, port) = (4_379, 2_379)

    /// Runs one while `body` does.
    public static func run(
        members: Int = 1, security: Security = Security(), _ body: (EtcdCluster) async throws -> Void
    ) async throws {
        let cluster = try await EtcdCluster(members, security)
        defer { for member in 0..<members { cluster.stop(member) } }
        for member in 0..<members { try cluster.start(member) }
        try await cluster.isReady()
        if let password = security.password {
            _ = try await cluster.control(["user", "add", "root:\(password)"])
            _ = try await cluster.control(["auth", "enable"])
        }
        try await body(cluster)
    }

    private init(_ count: Int, _ security: Security) async throws {
        host = NetworkAddress.ownLoopback().ipv4Text
        folder = try TemporaryFolder()
        self.security = security
        let (host, scheme) = (host, security.usesTLS ? "https" : "http")
        endpoints = (0..<count).map { "\(scheme)://\(host):\(Self.port + $0)" }
        members = Mutex([ChildProcess?](repeating: nil, count: count))
        guard security.usesTLS else { return }
        // One certificate for all: etcd's gateway shows a member's own to the member. It has no common name, which would
        // be a user beside the one of the password.
        try folder.write("subjectAltName=IP:\(host)\nextendedKeyUsage=serverAuth,clientAuth\n".utf8, to: "names.cnf")
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        for arguments in [
            ["req", "-x509"] + curve + [
                "-keyout", "\(folder.path)/ca.key", "-out", rootFile, "-days", "2", "-subj", "/CN=etcd",
            ],
            ["req"] + curve + [
                "-keyout", certificate.key, "-out", "\(folder.path)/request.pem", "-subj", "/O=member",
            ],
            [
                "x509", "-req", "-in", "\(folder.path)/request.pem", "-CA", rootFile, "-CAkey", "\(folder.path)/ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "\(folder.path)/names.cnf", "-out", certificate.chain,
            ],
        ] { _ = try await Pebble.output("openssl", arguments) }
    }

    /// Starts a member: anew at first, then with what it had.
    ///
    /// A hidden one is found by ``control(_:)`` alone.
    public func start(_ member: Int, hidden: Bool = false) throws {
        isHidden.withLock { $0 = hidden }
        let place = place(of: member)
        let peers = endpoints.indices.map { "m\($0)=http://\(host):\(3_380 + $0)" }.joined(separator: ",")
        var arguments = [
            "--name", "m\(member)", "--data-dir", "\(folder.path)/m\(member)", "--log-level", "fatal", "--logger",
            "zap",
            "--listen-client-urls", place, "--advertise-client-urls", place,
            "--listen-peer-urls", "http://\(host):\(3_380 + member)",
            "--initial-advertise-peer-urls", "http://\(host):\(3_380 + member)", "--initial-cluster", peers,
            "--initial-cluster-state", "new", "--heartbeat-interval", "100", "--election-timeout", "1000",
        ]
        if security.usesTLS {
            arguments += [
                "--cert-file", certificate.chain, "--key-file", certificate.key, "--trusted-ca-file", rootFile,
                "--client-cert-auth",
            ]
        }
        let process = try ChildProcess("/usr/bin/etcd", arguments)
        members.withLock { $0[member] = process }
    }

    /// The URL of the first member while it is hidden.
    public var hiddenEndpoint: String { "\(security.usesTLS ? "https" : "http")://\(host):\(Self.hiddenPort)" }

    private func place(of member: Int) -> String {
        guard isHidden.withLock({ $0 }) else { return endpoints[member] }
        return "\(security.usesTLS ? "https" : "http")://\(host):\(Self.hiddenPort + member)"
    }

    /// Kills a member.
    public func stop(_ member: Int) {
        members.withLock { members in
            members[member]?.kill()
            members[member]?.waitUntilExit()
            members[member] = nil
        }
    }

    /// Stops a member, which still has its connections, or lets it go on.
    public func send(_ signal: Int32, to member: Int) { members.withLock { $0[member] }?.send(signal) }

    /// Forgets what a member holds.
    public func erase(_ member: Int) throws { try FileManager.default.removeItem(atPath: "\(folder.path)/m\(member)") }

    /// Waits until the members agree on a leader.
    public func isReady() async throws {
        try await eventually { try await control(["get", "nothing", "-w", "fields"]).contains("Revision") }
    }

    /// What `etcdctl` prints, of the members that run.
    public func control(_ arguments: [String]) async throws -> String {
        let alive = members.withLock { members in endpoints.indices.filter { members[$0] != nil } }
        var options = ["--endpoints", alive.map { place(of: $0) }.joined(separator: ",")]
        if security.usesTLS {
            options += ["--cacert", rootFile, "--cert", certificate.chain, "--key", certificate.key]
        }
        if let password = security.password, arguments.first != "user", arguments.first != "auth" {
            options += ["--user", "root:\(password)"]
        }
        let process = try ChildProcess(
            "/usr/bin/etcdctl", options + arguments, environment: ["ETCDCTL_API": "3"], output: .connected)
        return await onThread {
            let data = process.output?.readDataToEndOfFile() ?? Data()
            process.waitUntilExit()
            return String(decoding: data, as: UTF8.self)
        }
    }
}
