package import Crypto
public import KithIdentity
public import KithWire
import SwiftASN1
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The certificate of one device under a person's root.
///
/// Its key is the device's Ed25519 key: who it is for is computed from that, and subject and alternative name must say the
/// same. It is for TLS, at either end, and signs nothing below itself.
public struct DeviceCertificate: Hashable, Sendable {
    /// The longest one read, in bytes.
    public static let sizeLimit = 2_048
    /// The days for which one is issued unless another number is asked for.
    public static let days = 90
    /// The most days.
    public static let maxDays = 400

    /// The DER.
    public let bytes: [UInt8]
    /// The device, computed from the key.
    public let id: DeviceID
    let certificate: Certificate

    /// Reads one, and checks all that can be said of it alone: that its key, its subject and its one alternative name are
    /// the same device, and its uses.
    ///
    /// - Throws: `KithError` `.corrupt` when it is not one.
    public init(_ bytes: [UInt8]) throws(KithError) {
        guard bytes.count <= Self.sizeLimit, let certificate = try? Certificate(derEncoded: bytes) else {
            throw Self.refusal("it cannot be read")
        }
        guard let key = Curve25519.Signing.PublicKey(certificate.publicKey) else {
            throw Self.refusal("its key is not a device's")
        }
        id = try DeviceID(publicKey: Array(key.rawRepresentation))
        guard let name = try? Self.name(of: id), certificate.subject == name else {
            throw Self.refusal("it is named for another device than its key's")
        }
        let names: SubjectAlternativeNames?
        let constraints: BasicConstraints?
        let usage: KeyUsage?
        let uses: ExtendedKeyUsage?
        do {
            names = try certificate.extensions.subjectAlternativeNames
            constraints = try certificate.extensions.basicConstraints
            usage = try certificate.extensions.keyUsage
            uses = try certificate.extensions.extendedKeyUsage
        } catch {
            throw Self.refusal("its extensions cannot be read")
        }
        guard let names, Array(names) == [.dnsName(Self.letters(id))] else {
            throw Self.refusal("its alternative name is not its key's device")
        }
        guard case .notCertificateAuthority? = constraints, usage == KeyUsage(digitalSignature: true) else {
            throw Self.refusal("it may sign certificates")
        }
        guard let uses, Set(uses) == [.serverAuth, .clientAuth] else {
            throw Self.refusal("it is for other uses than a connection")
        }
        let known: Set<ASN1ObjectIdentifier> = [.X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage]
        guard certificate.extensions.allSatisfy({ !$0.critical || known.contains($0.oid) }) else {
            throw Self.refusal("it has a critical extension that is not known here")
        }
        guard certificate.version == .v3, (16...20).contains(certificate.serialNumber.bytes.count),
            certificate.notBefore < certificate.notAfter
        else { throw Self.refusal("its number or its times are wrong") }
        self.bytes = bytes
        self.certificate = certificate
    }

    /// The random number that its issuer gave it, as hexadecimal digits.
    public var serial: String { Hex.encode(certificate.serialNumber.bytes) }
    /// The time from which it holds, in seconds since 1970.
    public var notBefore: Int64 { certificate.notBefore }
    /// The time until which it holds, in seconds since 1970.
    public var notAfter: Int64 { certificate.notAfter }
    /// The time from which it is to be renewed: two thirds of its life.
    public var renewsAt: Int64 { notBefore + (notAfter - notBefore) / 3 * 2 }

    /// The name of a device in certificates: its DeviceID without hyphens, which is one label of a host name.
    static func letters(_ id: DeviceID) -> String { id.description.filter { $0 != "-" } }

    static func name(of id: DeviceID) throws -> DistinguishedName {
        try DistinguishedName { CommonName(letters(id)) }
    }

    private static func refusal(_ why: String) -> KithError {
        KithError(.corrupt, "That is not the certificate of a device: \(why).")
    }

    /// Compares the DER.
    public static func == (left: DeviceCertificate, right: DeviceCertificate) -> Bool { left.bytes == right.bytes }
    /// Hashes the DER.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

/// The holder of a root key as the authority that issues certificates to devices.
public struct CertificateAuthority: Sendable {
    /// The certificate of the root.
    public let root: RootCertificate
    private let key: P256.Signing.PrivateKey

    /// Signs by `key`, as `root` says.
    ///
    /// - Throws: `KithError` `.corrupt` when the certificate is another key's.
    package init(_ root: RootCertificate, key: P256.Signing.PrivateKey) throws(KithError) {
        guard Array(key.publicKey.x963Representation) == root.publicKey else {
            throw KithError(.corrupt, "The root certificate here is not the root key's.")
        }
        self.root = root
        self.key = key
    }

    /// Issues a certificate to the device whose request was checked.
    ///
    /// Everything in it is computed from the device's key: nothing is copied from the request.
    ///
    /// - Throws: `KithError` `.invalid` for a lifetime out of 1…``DeviceCertificate/maxDays``.
    public func issue(
        to request: CheckedRequest, days: Int = DeviceCertificate.days, now: Int64
    ) throws(KithError) -> DeviceCertificate {
        try issue(to: request.id, days: days, now: now)
    }

    /// Issues a certificate to the device that holds the root key itself.
    public func issue(
        toItself key: DeviceKey, days: Int = DeviceCertificate.days, now: Int64
    ) throws(KithError) -> DeviceCertificate {
        try issue(to: key.id, days: days, now: now)
    }

    private func issue(to id: DeviceID, days: Int, now: Int64) throws(KithError) -> DeviceCertificate {
        guard (1...DeviceCertificate.maxDays).contains(days) else {
            throw KithError(.invalid, "A certificate holds for 1 to \(DeviceCertificate.maxDays) days.")
        }
        do {
            let public32 = try Curve25519.Signing.PublicKey(rawRepresentation: id.bytes)
            let certificate = try Certificate(
                version: .v3, serialNumber: Self.serial(), publicKey: .init(public32),
                notValidBefore: Date(timeIntervalSince1970: Double(now - 3_600)),
                notValidAfter: Date(timeIntervalSince1970: Double(now + Int64(days) * 86_400)),
                issuer: root.certificate.subject, subject: try DeviceCertificate.name(of: id),
                signatureAlgorithm: .ecdsaWithSHA256,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    Critical(KeyUsage(digitalSignature: true))
                    try ExtendedKeyUsage([.serverAuth, .clientAuth])
                    SubjectAlternativeNames([.dnsName(DeviceCertificate.letters(id))])
                    SubjectKeyIdentifier(hash: .init(public32))
                    AuthorityKeyIdentifier(
                        keyIdentifier: SubjectKeyIdentifier(hash: root.certificate.publicKey).keyIdentifier)
                },
                issuerPrivateKey: .init(key))
            return try DeviceCertificate(try der(certificate))
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "Could not issue a certificate.", cause: error)
        }
    }

    /// 18 random bytes behind one that makes it positive and as long as it looks.
    private static func serial() -> Certificate.SerialNumber {
        Certificate.SerialNumber(bytes: [0x4B] + (0..<18).map { _ in UInt8.random(in: 0 ... .max) })
    }

    /// Signs `message` (ECDSA on P-256 with SHA-256, 64 bytes).
    func signature(for message: [UInt8]) throws(KithError) -> [UInt8] {
        do {
            return Array(try key.signature(for: message).rawRepresentation)
        } catch {
            throw KithError(.internal, "The root key could not sign.", cause: error)
        }
    }
}
