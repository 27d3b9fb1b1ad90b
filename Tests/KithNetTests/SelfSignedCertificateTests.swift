import Foundation
import KithIdentity
import KithNet
import KithTesting
import KithWire
import Testing

@Suite struct SelfSignedCertificateTests {
    static let openssl = ["/usr/bin/openssl", "/opt/homebrew/bin/openssl"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    @Test func `it is DER that holds the device's key`() throws {
        let key = try DeviceKey(seed: [UInt8](repeating: 11, count: 32))
        let der = try SelfSignedCertificate.make(for: key, names: ["kith.invalid"])
        #expect(der.first == 0x30 && der.count < 600)
        // SubjectPublicKeyInfo of Ed25519 (RFC 8410 §4).
        let info: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00] + key.id.bytes
        #expect(der.indices.contains { der[$0...].starts(with: info) })
        #expect(!der.indices.contains { der[$0...].starts(with: key.seed) })
    }

    @Test(.enabled(if: openssl != nil, "openssl is not installed"))
    func `another program finds it signed by itself and valid now`() throws {
        let key = DeviceKey()
        let folder = try TemporaryFolder()
        try folder.write(try SelfSignedCertificate.make(for: key, names: ["kith.invalid"]), to: "certificate.der")
        let file = "\(folder.path)/certificate.der"
        let text = try run("x509", "-inform", "DER", "-in", file, "-noout", "-text", "-checkend", "60")
        #expect(text.contains("ED25519") && text.contains("DNS:kith.invalid") && text.contains("CA:FALSE"))
        #expect(text.contains("Certificate will not expire"))
        #expect(text.contains(key.id.description.filter { $0 != "-" }))
        _ = try run("x509", "-inform", "DER", "-in", file, "-out", "\(folder.path)/certificate.pem")
        let pem = "\(folder.path)/certificate.pem"
        #expect(try run("verify", "-check_ss_sig", "-CAfile", pem, pem).contains("OK"))
    }

    private func run(_ arguments: String...) throws -> String {
        let process = try ChildProcess(
            #require(Self.openssl), arguments, output: .connected, errors: .merged)
        let text = try process.output?.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self)
    }
}
