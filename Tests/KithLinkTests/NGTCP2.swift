import Foundation
import KithIdentity
import KithNet
import KithTesting

/// The programs that come with libngtcp2 (Debian: ngtcp2-client and ngtcp2-server); they speak HTTP/3.
enum NGTCP2 {
    static let isClientInstalled = isInstalled("gtlsclient")
    static let isServerInstalled = isInstalled("gtlsserver")
    /// Where the server listens; it has its network for itself.
    static let port: UInt16 = 4433

    private static let quiet = ["-q", "--no-quic-dump", "--no-http-dump", "--handshake-timeout=60s"]
    private static let onlyChaCha20 =
        "--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305"

    private static func isInstalled(_ program: String) -> Bool {
        let isThere = Program.succeeds(["sh", "-c", "PATH=$PATH:/usr/sbin command -v \(program)"])
        if !isThere { print("skipped: \(program) is not installed") }
        return isThere
    }

    /// The command for a server at the right end that has `files`; it keeps its key and its certificate in `folder`.
    static func server(_ name: Case, ipv6: Bool, files: [String: [UInt8]], in folder: URL) throws -> [String] {
        let key = DeviceKey()
        // RFC 8410 §7: an Ed25519 key as PKCS #8.
        let secret = [0x30, 0x2E, 2, 1, 0, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 4, 0x22, 4, 0x20] + key.seed
        let documents = folder.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        try write(pem("PRIVATE KEY", secret), to: folder.appendingPathComponent("key.pem"))
        try write(
            pem("CERTIFICATE", try SelfSignedCertificate.make(for: key)), to: folder.appendingPathComponent("cert.pem"))
        for (name, bytes) in files { try Data(bytes).write(to: documents.appendingPathComponent(name)) }
        var options = quiet + ["-d", documents.path]
        switch name {
        case .retry: options.append("--validate-addr")
        case .chacha20: options.append(onlyChaCha20)
        default: break
        }
        return ["env", "PATH=/usr/sbin:/usr/bin:/bin", "gtlsserver"] + options
            + [ipv6 ? "fd07::2" : "10.7.0.2", "\(port)", "\(folder.path)/key.pem", "\(folder.path)/cert.pem"]
    }

    /// The command for a client at the left end that asks `streams` times for a file and keeps it in `folder`.
    static func client(_ name: Case, _ scenario: Scenario, port: UInt16, in folder: URL) throws -> [String] {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var options = quiet + ["--exit-on-all-streams-close", "--sni=localhost", "-n", "\(scenario.streams)"]
        // Requests at the same time would write to one file.
        if scenario.streams == 1 { options.append("--download=\(folder.path)") }
        let body = folder.appendingPathComponent("body")
        try Data(HTTP3.body(scenario.up)).write(to: body)
        options += ["-m", "POST", "-d", body.path]
        let remembering = ["--session-file=\(folder.path)/session", "--tp-file=\(folder.path)/parameters"]
        switch name {
        case .chacha20: options.append(onlyChaCha20)
        case .keyupdate: options.append("--key-update=200ms")
        case .resumption: options += remembering + ["--disable-early-data"]
        case .zerortt: options += remembering
        case .connectionmigration: options.append("--change-local-addr=300ms")
        default: break
        }
        return ["gtlsclient"] + options
            + [scenario.ipv6 ? "fd07::2" : "10.7.0.2", "\(port)", "https://localhost/answer"]
    }

    /// Waits until somebody at the right end of `link` listens.
    static func listens(on link: Link) async throws {
        let hex = String(port, radix: 16, uppercase: true)
        let command = link.command(at: .right, ["grep", "-q", ":\(hex) ", "/proc/net/udp", "/proc/net/udp6"])
        try await eventually { Program.succeeds(command) }
    }

    private static func pem(_ label: String, _ bytes: [UInt8]) -> String {
        let text = Data(bytes).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN \(label)-----\n\(text)\n-----END \(label)-----\n"
    }

    private static func write(_ text: String, to file: URL) throws { try Data(text.utf8).write(to: file) }
}

/// Runs `body` with a folder that exists only for it.
func withTemporaryFolder<Result>(_ body: (URL) async throws -> Result) async throws -> Result {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-link-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }  // of no use to anybody afterwards
    return try await body(folder)
}
