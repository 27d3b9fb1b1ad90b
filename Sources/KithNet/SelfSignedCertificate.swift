import Crypto
import Foundation
public import KithIdentity
public import KithWire
import SwiftASN1
import X509

/// An X.509 certificate that a device signs for its own key, for peers that know nothing of raw public keys.
public enum SelfSignedCertificate {
    /// The DER of a certificate for `key`, valid for `days` days from an hour ago.
    ///
    /// Subject and issuer are the DeviceID without hyphens.
    public static func make(for key: DeviceKey, names: [String] = [], days: Int = 30) throws(KithError) -> [UInt8] {
        do {
            let name = try DistinguishedName { CommonName(key.id.description.filter { $0 != "-" }) }
            let now = Date()
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.signingKey.publicKey),
                notValidBefore: now.addingTimeInterval(-3_600),
                notValidAfter: now.addingTimeInterval(Double(days) * 86_400), issuer: name, subject: name,
                signatureAlgorithm: .ed25519,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    KeyUsage(digitalSignature: true)
                    if !names.isEmpty { SubjectAlternativeNames(names.map { .dnsName($0) }) }
                },
                issuerPrivateKey: .init(key.signingKey))
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return serializer.serializedBytes
        } catch {
            throw KithError(.internal, "Could not make a certificate.", cause: error)
        }
    }
}
