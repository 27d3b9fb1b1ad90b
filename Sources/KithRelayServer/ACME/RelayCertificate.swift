import Crypto
import Foundation
import KithWire
import NIOSSL
import SwiftASN1
import X509

/// A certificate that an authority has given, with its chain and its private key.
package struct RelayCertificate: Sendable {
    /// The most bytes of one as it is kept.
    static let maxLength = 160 << 10
    /// The most certificates of a chain.
    static let maxChain = 10

    /// The names and addresses it is for.
    package let names: Set<ACMEIdentifier>
    /// The time it begins to hold, in seconds since 1970.
    package let notBefore: Int64
    /// The time it no longer holds, in seconds since 1970.
    package let notAfter: Int64
    private let chain: [[UInt8]]
    private let key: P256.Signing.PrivateKey

    /// Puts together what an authority gave, PEM, and the key that it is for.
    ///
    /// - Throws: `KithError` `.corrupt` for what is no chain, or one of another key.
    init(chain: some Sequence<UInt8>, key: P256.Signing.PrivateKey) throws(KithError) {
        let certificates: [PEMDocument]
        let leaf: Certificate
        do {
            certificates = try PEMDocument.parseMultiple(pemString: String(decoding: Array(chain), as: UTF8.self))
                .filter { $0.discriminator == Certificate.defaultPEMDiscriminator }
            guard let first = certificates.first, certificates.count <= Self.maxChain else {
                throw CertificateError.wrongCount
            }
            leaf = try Certificate(pemDocument: first)
        } catch {
            throw KithError(.corrupt, "That is not a chain of certificates in PEM.", cause: error)
        }
        guard leaf.publicKey == Certificate.PublicKey(key.publicKey) else {
            throw KithError(.corrupt, "The certificate is for another key than this relay's.")
        }
        self.chain = certificates.map(\.derBytes)
        self.key = key
        notBefore = Int64(leaf.notValidBefore.timeIntervalSince1970)
        notAfter = Int64(leaf.notValidAfter.timeIntervalSince1970)
        // One without names is for nobody.
        let alternatives = (try? leaf.extensions.subjectAlternativeNames) ?? SubjectAlternativeNames([])
        names = Set(
            alternatives.compactMap { name in
                switch name {
                case .dnsName(let name): ACMEIdentifier(name)
                case .ipAddress(let octets):
                    NetworkAddress(ip: Array(octets.bytes), port: 1).flatMap { address in
                        let text = address.description.dropLast(2)
                        return ACMEIdentifier(address.isIPv6 ? String(text.dropFirst().dropLast()) : String(text))
                    }
                default: nil
                }
            })
    }

    private enum CertificateError: Error { case wrongCount }

    /// Returns whether it is for all of these.
    func covers(_ identifiers: [ACMEIdentifier]) -> Bool { names.isSuperset(of: identifiers) }

    /// Returns whether it holds at `now`, in seconds since 1970.
    func isValid(at now: Int64) -> Bool { (notBefore..<notAfter).contains(now) }

    // MARK: - On disk

    /// The private key and the chain, PEM: one file, so that they always belong together.
    var bytes: [UInt8] {
        let certificates = chain.map {
            PEMDocument(type: Certificate.defaultPEMDiscriminator, derBytes: $0).pemString
        }
        return Array(([key.pemRepresentation] + certificates).joined(separator: "\n").utf8) + [UInt8(ascii: "\n")]
    }

    /// Reads what was kept.
    ///
    /// - Throws: `KithError` `.corrupt`.
    init(bytes: [UInt8]) throws(KithError) {
        let text = String(decoding: bytes, as: UTF8.self)
        // The key comes first; what follows it is the chain.
        guard let end = text.firstRange(of: "-----END PRIVATE KEY-----"),
            let key = try? P256.Signing.PrivateKey(pemRepresentation: String(text[..<end.upperBound]))
        else { throw KithError(.corrupt, "That is not a private key with its certificates.") }
        try self.init(chain: text[end.upperBound...].utf8, key: key)
    }

    // MARK: - TLS

    /// The settings of TLS for whoever connects.
    ///
    /// - Throws: `KithError` `.corrupt` when BoringSSL refuses what was read.
    func context() throws(KithError) -> NIOSSLContext {
        do {
            return try NIOSSLContext(
                configuration: .relay(
                    try chain.map { .certificate(try NIOSSLCertificate(bytes: $0, format: .der)) },
                    .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem))))
        } catch {
            throw KithError(.corrupt, "The certificate cannot be used.", cause: error)
        }
    }

    /// The chain, the leaf first, and the private key (PKCS #8), DER.
    var der: (chain: [[UInt8]], key: SecretBytes) {
        var bytes = Array(key.derRepresentation)
        defer { bytes.clear() }
        return (chain, SecretBytes(bytes))
    }

    /// A request for a certificate of these names (PKCS #10), DER.
    static func request(
        for identifiers: [ACMEIdentifier], key: P256.Signing.PrivateKey
    ) throws(KithError) -> [UInt8] {
        do {
            let names = SubjectAlternativeNames(
                identifiers.map { identifier in
                    identifier.isAddress
                        ? .ipAddress(ASN1OctetString(contentBytes: identifier.address[...]))
                        : .dnsName(identifier.value)
                })
            let extensions = try Certificate.Extensions { names }
            let request = try CertificateSigningRequest(
                version: .v1, subject: DistinguishedName(), privateKey: .init(key),
                attributes: .init([.init(ExtensionRequest(extensions: extensions))]),
                signatureAlgorithm: .ecdsaWithSHA256)
            var serializer = DER.Serializer()
            try serializer.serialize(request)
            return serializer.serializedBytes
        } catch {
            throw KithError(.internal, "Could not make the request for a certificate.", cause: error)
        }
    }
}

extension TLSConfiguration {
    /// The settings of a relay's TLS.
    static func relay(_ chain: [NIOSSLCertificateSource], _ key: NIOSSLPrivateKeySource) -> TLSConfiguration {
        var configuration = makeServerConfiguration(certificateChain: chain, privateKey: key)
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        return configuration
    }
}
