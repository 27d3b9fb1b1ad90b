import Crypto
import Foundation
import KithQUIC
import KithWire
import NIOSSL
import SwiftASN1
import Synchronization
import X509

/// The files of a relay's certificate chain and private key, PEM, which somebody else renews.
final class CertificateFiles: Sendable {
    /// What was in them at one time.
    struct Content: Sendable {
        let files: (chain: String, key: String)
        let chain: [UInt8]
        let key: SecretBytes

        /// Tells contents apart.
        var digest: [UInt8] {
            var hash = SHA256()
            hash.update(data: SHA256.hash(data: chain).map { $0 })
            unsafe key.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
            return Array(hash.finalize())
        }

        /// The settings of TLS for whoever connects.
        ///
        /// - Throws: `KithError` `.invalid` when they cannot be used, or do not belong together.
        func context() throws(KithError) -> NIOSSLContext {
            do {
                let certificates = try NIOSSLCertificate.fromPEMBytes(chain)
                let privateKey = try unsafe key.withUnsafeBytes {
                    try unsafe NIOSSLPrivateKey(bytes: Array($0), format: .pem)
                }
                return try NIOSSLContext(
                    configuration: .relay(certificates.map { .certificate($0) }, .privateKey(privateKey)))
            } catch {
                throw unusable(error)
            }
        }

        /// What is shown to clients of QUIC.
        ///
        /// - Throws: `KithError` `.invalid` when they cannot be used.
        func credential() throws(KithError) -> Credential {
            do {
                let certificates = try PEMDocument.parseMultiple(pemString: String(decoding: chain, as: UTF8.self))
                    .filter { $0.discriminator == Certificate.defaultPEMDiscriminator }
                let text = unsafe key.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
                let keys = try PEMDocument.parseMultiple(pemString: text)
                    .filter { $0.discriminator.hasSuffix("PRIVATE KEY") }
                guard let first = keys.first, !certificates.isEmpty else {
                    throw KithError(.invalid, "That is not a certificate with its key.")
                }
                var bytes = first.derBytes
                defer { bytes.clear() }
                return .certificate(chain: certificates.map(\.derBytes), privateKey: SecretBytes(bytes))
            } catch {
                throw unusable(error)
            }
        }

        private func unusable(_ cause: any Error) -> KithError {
            CertificateFiles.unusable(files, cause)
        }
    }

    /// The most bytes of either file.
    private static let limit = 1 << 20

    private let files: (chain: String, key: String)
    /// Of what is in use.
    private let digest = Mutex<[UInt8]>([])

    init(_ files: (chain: String, key: String)) { self.files = files }

    /// Reads them.
    ///
    /// - Throws: `KithError` `.invalid` when they cannot be read.
    func read() throws(KithError) -> Content {
        do {
            func bytes(of path: String) throws -> [UInt8] {
                let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
                defer { try? file.close() }  // it was only read
                let bytes = try file.read(upToCount: Self.limit + 1) ?? Data()
                guard bytes.count <= Self.limit else { throw WireError.tooLong(limit: Self.limit, actual: bytes.count) }
                return Array(bytes)
            }
            var key = try bytes(of: files.key)
            defer { key.clear() }
            return Content(files: files, chain: try bytes(of: files.chain), key: SecretBytes(key))
        } catch {
            throw Self.unusable(files, error)
        }
    }

    /// Notes that this content is in use.
    func use(_ content: Content) { digest.withLock { $0 = content.digest } }

    /// Tells whether this content is in use.
    func isUsed(_ content: Content) -> Bool { digest.withLock { $0 == content.digest } }

    private static func unusable(_ files: (chain: String, key: String), _ cause: any Error) -> KithError {
        KithError(
            .invalid,
            "The certificate in \(files.chain) with the key in \(files.key) cannot be used: both are PEM files, and belong together.",
            cause: cause)
    }
}
