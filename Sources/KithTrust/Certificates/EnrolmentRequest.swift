import Crypto
public import KithIdentity
public import KithWire
import SwiftASN1
import X509

/// A device's request for a certificate: proof of its key, and its agreement key.
///
/// ```
///  v     1
///  id    the key of the device, 32 bytes
///  sig   the Ed25519 signature of "kith enrolment request 1", a zero byte, the key, and the body
///  body  the CBOR of { n: a nonce of 16 bytes, t: the time it expires, a: the agreement key, 65 bytes,
///        c: the DER of a PKCS #10 request }, as bytes
/// ```
///
/// The PKCS #10 request has the device's key, the subject and the one alternative name that follow from it, and nothing
/// else: one that asks for more is refused.
public struct EnrolmentRequest: Hashable, Sendable {
    /// The longest one read, in bytes.
    public static let sizeLimit = 2_048
    /// The seconds for which one holds.
    public static let lifetime: Int64 = 600
    /// The length of the nonce, in bytes.
    public static let nonceLength = 16

    /// The bytes that are sent.
    public let bytes: [UInt8]

    /// Makes a request of the device whose key is `key`.
    public init(
        by key: DeviceKey, agreement: AgreementPublicKey, nonce: [UInt8], now: Int64
    ) throws(KithError) {
        do {
            let names = SubjectAlternativeNames([.dnsName(DeviceCertificate.letters(key.id))])
            try self.init(
                by: key, agreement: agreement.bytes, nonce: nonce, expiresAt: now + Self.lifetime,
                pkcs10: try Self.pkcs10(by: key, named: key.id, Certificate.Extensions { names }))
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "Could not make the request for a certificate.", cause: error)
        }
    }

    init(
        by key: DeviceKey, agreement: [UInt8], nonce: [UInt8], expiresAt: Int64, pkcs10: [UInt8]
    ) throws {
        let body = try CBOREncoder().encode(
            Body(n: ByteString(nonce), t: expiresAt, a: ByteString(agreement), c: ByteString(pkcs10)))
        let signature = try key.signature(for: Self.message(key.id.bytes, body))
        bytes = try CBOREncoder().encode(
            SignedEnvelope(
                v: 1, id: ByteString(key.id.bytes), sig: ByteString(signature), body: ByteString(body)))
    }

    static func pkcs10(
        by key: DeviceKey, named id: DeviceID, _ extensions: Certificate.Extensions
    ) throws -> [UInt8] {
        let request = try CertificateSigningRequest(
            version: .v1, subject: try DeviceCertificate.name(of: id), privateKey: .init(key.signingKey),
            attributes: .init([.init(ExtensionRequest(extensions: extensions))]), signatureAlgorithm: .ed25519)
        var serializer = DER.Serializer()
        try serializer.serialize(request)
        return serializer.serializedBytes
    }

    /// Checks a request that the device `peer` sent, as its connection proved, at `now`.
    ///
    /// - Throws: `KithError` `.corrupt` for what is no request or whose signatures are wrong, `.denied` for one of another
    ///   device or that asks for more than its own name, `.timedOut` for one that has expired.
    public static func check(
        _ bytes: [UInt8], from peer: DeviceID, now: Int64
    ) throws(KithError) -> CheckedRequest {
        guard bytes.count <= sizeLimit,
            let envelope = try? CBORDecoder().decode(SignedEnvelope.self, from: bytes), envelope.v == 1,
            let id = try? DeviceID(publicKey: envelope.id.bytes),
            let body = try? CBORDecoder().decode(Body.self, from: envelope.body.bytes),
            body.n.bytes.count == nonceLength
        else { throw KithError(.corrupt, "That is not a request for a certificate.") }
        guard id == peer else {
            throw KithError(.denied, "\(peer.short) asked for the certificate of another device, \(id.short).")
        }
        guard id.isValid(signature: envelope.sig.bytes, for: message(id.bytes, envelope.body.bytes)) else {
            throw KithError(.corrupt, "The request for a certificate is not signed by \(id.short).")
        }
        guard body.t >= now - RootCertificate.clockSkew else {
            throw KithError(.timedOut, "The request for a certificate has expired. Begin again: kith enrol")
        }
        guard body.t <= now + lifetime + RootCertificate.clockSkew else {
            throw KithError(.denied, "The request for a certificate would hold for too long. Are both clocks right?")
        }
        let agreement = try AgreementPublicKey(body.a.bytes)
        try check(pkcs10: body.c.bytes, of: id)
        return CheckedRequest(id: id, agreement: agreement, nonce: body.n.bytes, expiresAt: body.t)
    }

    private static func check(pkcs10 bytes: [UInt8], of id: DeviceID) throws(KithError) {
        guard let request = try? CertificateSigningRequest(derEncoded: bytes),
            let key = Curve25519.Signing.PublicKey(request.publicKey)
        else { throw KithError(.corrupt, "The request for a certificate cannot be read.") }
        guard Array(key.rawRepresentation) == id.bytes,
            request.publicKey.isValidSignature(request.signature, for: request)
        else { throw KithError(.denied, "The request of \(id.short) is for another key than its own.") }
        let excess = KithError(.denied, "The request of \(id.short) asks for more than its own name.")
        guard let name = try? DeviceCertificate.name(of: id), request.subject == name, request.attributes.count == 1,
            let attribute = request.attributes.first, let asked = try? ExtensionRequest(attribute).extensions,
            asked.count == 1, let names = try? asked.subjectAlternativeNames,
            Array(names) == [.dnsName(DeviceCertificate.letters(id))]
        else { throw excess }
    }

    /// The bytes that are signed: no other signature of a device's key is of bytes that begin so.
    private static func message(_ id: [UInt8], _ body: [UInt8]) -> [UInt8] {
        Array("kith enrolment request 1".utf8) + [0] + id + body
    }

    private struct Body: Codable {
        var n: ByteString
        var t: Int64
        var a: ByteString
        var c: ByteString
    }
}

/// A request whose every part was checked: the device proved its key, and asks for its own name.
public struct CheckedRequest: Hashable, Sendable {
    /// The device.
    public let id: DeviceID
    /// Its agreement key, to which it has signed.
    public let agreement: AgreementPublicKey
    /// The number used once.
    public let nonce: [UInt8]
    /// The time it expires, in seconds since 1970.
    public let expiresAt: Int64
}

/// A body with the key that signed it.
struct SignedEnvelope: Codable {
    var v: UInt64
    var id: ByteString
    var sig: ByteString
    var body: ByteString
}
