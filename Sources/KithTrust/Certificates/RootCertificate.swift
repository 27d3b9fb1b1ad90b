package import Crypto
public import KithWire
import SwiftASN1
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A person's self-signed root certificate: the one thing a device of that person pins.
///
/// Its key is the root key (ECDSA on P-256), its name holds that key's id, so that no two roots have one name:
/// `O=Kith, CN=Kith root KEYID`. It signs certificates of devices and nothing below them (path length 0).
public struct RootCertificate: Hashable, Sendable {
    /// The longest one read, in bytes.
    public static let sizeLimit = 2_048
    /// The days for which one is made.
    public static let days = 3_650

    /// The DER.
    public let bytes: [UInt8]
    /// The id of the root key.
    public let id: KeyID
    /// The root's public key, 65 bytes (X9.63).
    public let publicKey: [UInt8]
    let certificate: Certificate

    /// Makes one, valid from an hour before `now` (seconds since 1970).
    package static func make(by key: P256.Signing.PrivateKey, now: Int64) throws(KithError) -> RootCertificate {
        do {
            let public65 = Array(key.publicKey.x963Representation)
            let name = try name(of: KeyID(publicKey: public65))
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.publicKey),
                notValidBefore: Date(timeIntervalSince1970: Double(now - 3_600)),
                notValidAfter: Date(timeIntervalSince1970: Double(now + Int64(days) * 86_400)),
                issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                    Critical(KeyUsage(keyCertSign: true, cRLSign: true))
                    SubjectKeyIdentifier(hash: .init(key.publicKey))
                },
                issuerPrivateKey: .init(key))
            return try RootCertificate(try der(certificate))
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "Could not make the root certificate.", cause: error)
        }
    }

    /// Reads one, and checks all that can be said of it alone: its key, its name, its extensions, its own signature.
    ///
    /// - Throws: `KithError` `.corrupt` when it is not one.
    public init(_ bytes: [UInt8]) throws(KithError) {
        guard bytes.count <= Self.sizeLimit, let certificate = try? Certificate(derEncoded: bytes) else {
            throw Self.refusal("it cannot be read")
        }
        guard let key = P256.Signing.PublicKey(certificate.publicKey) else {
            throw Self.refusal("its key is not P-256")
        }
        publicKey = Array(key.x963Representation)
        id = KeyID(publicKey: publicKey)
        guard let name = try? Self.name(of: id), certificate.subject == name, certificate.issuer == name else {
            throw Self.refusal("it is named for another key")
        }
        let constraints: BasicConstraints?
        let usage: KeyUsage?
        let identifier: SubjectKeyIdentifier?
        do {
            constraints = try certificate.extensions.basicConstraints
            usage = try certificate.extensions.keyUsage
            identifier = try certificate.extensions.subjectKeyIdentifier
        } catch {
            throw Self.refusal("its extensions cannot be read")
        }
        guard case .isCertificateAuthority(maxPathLength: 0)? = constraints, usage?.keyCertSign == true,
            identifier == SubjectKeyIdentifier(hash: certificate.publicKey)
        else { throw Self.refusal("it is not an authority for devices alone") }
        let known: Set<ASN1ObjectIdentifier> = [.X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage]
        guard certificate.extensions.allSatisfy({ !$0.critical || known.contains($0.oid) }) else {
            throw Self.refusal("it has a critical extension that is not known here")
        }
        guard certificate.publicKey.isValidSignature(certificate.signature, for: certificate) else {
            throw Self.refusal("its signature is wrong")
        }
        self.bytes = bytes
        self.certificate = certificate
    }

    /// The time at which it ends, in seconds since 1970.
    public var notAfter: Int64 { certificate.notAfter }

    /// Tells whether the root key made `signature` (64 bytes) of `message`.
    func isValid(signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let key = P256.Signing.PublicKey(certificate.publicKey),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
        else { return false }
        return key.isValidSignature(signature, for: message)
    }

    static func name(of id: KeyID) throws -> DistinguishedName {
        try DistinguishedName {
            OrganizationName("Kith")
            CommonName("Kith root \(id)")
        }
    }

    private static func refusal(_ why: String) -> KithError {
        KithError(.corrupt, "That is not a root certificate: \(why).")
    }

    /// Compares the DER.
    public static func == (left: RootCertificate, right: RootCertificate) -> Bool { left.bytes == right.bytes }
    /// Hashes the DER.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

func der(_ certificate: Certificate) throws -> [UInt8] {
    var serializer = DER.Serializer()
    try serializer.serialize(certificate)
    return serializer.serializedBytes
}

extension Certificate {
    /// The time from which it holds, in seconds since 1970.
    var notBefore: Int64 { Self.seconds(notValidBefore) }
    /// The time until which it holds, in seconds since 1970.
    var notAfter: Int64 { Self.seconds(notValidAfter) }

    /// X.509 writes years 0 to 9999: far from what overflows.
    private static func seconds(_ date: Date) -> Int64 { Int64(date.timeIntervalSince1970.rounded(.down)) }
}
