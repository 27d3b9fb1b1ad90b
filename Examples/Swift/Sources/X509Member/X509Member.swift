import Crypto
import Foundation
import KithMLS
import KithMLSX509
import SwiftASN1
import X509

/// Members of a group (MLS) who are known by certificates of an authority.
@main struct X509Member {
    static func main() throws {
        let suite = CipherSuites.all[0]
        let authority = try Authority()
        let clock: @Sendable () -> UInt64 = { UInt64(Date().timeIntervalSince1970) }
        let trust = try X509AuthenticationService(roots: [authority.certificate], now: clock)
        let configuration = GroupConfiguration(authentication: trust)
        let lifetime = KithMLS.Lifetime(notBefore: clock() - 60, notAfter: clock() + 3_600)

        let (anna, annaKey) = try authority.member("anna", suite)
        let (ben, benKey) = try authority.member("ben", suite)
        var group = try Group(
            suite, profile: anna, signatureKey: annaKey, lifetime: lifetime, configuration: configuration)
        let package = try KeyPackageBundle(suite, profile: ben, signatureKey: benKey, lifetime: lifetime)
        let commit = try group.stageCommit(CommitOptions([.add(package.keyPackage)]), at: clock())
        _ = try group.confirmPendingCommit()
        guard case .welcome(let welcome)? = commit.welcome else { return print("there is no Welcome") }
        let joined = try Group(joining: welcome, with: package, configuration: configuration)
        print("in one group:", joined.epochAuthenticator == group.epochAuthenticator)

        // Somebody else with ben's certificate, and a key of their own.
        let stolen = try KeyPackageBundle(
            suite, profile: ben, signatureKey: suite.generateSignatureKey(), lifetime: lifetime)
        do {
            _ = try group.stageCommit(CommitOptions([.add(stolen.keyPackage)]), at: clock())
        } catch {
            print("refused:", error)
        }
    }
}

/// An authority that vouches for names.
struct Authority {
    private let key = P256.Signing.PrivateKey()
    private let name: DistinguishedName
    /// Its own certificate, as DER: the root that members trust.
    let certificate: [UInt8]

    init() throws {
        name = try DistinguishedName { CommonName("Example Authority") }
        certificate = try Self.sign(
            .init(key.publicKey), as: name, issuer: name, with: key,
            Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                KeyUsage(keyCertSign: true)
            })
    }

    /// A new member: what it shows of itself, and the key that it keeps.
    func member(_ name: String, _ suite: any CipherSuite) throws -> (LeafProfile, SignaturePrivateKey) {
        let key = suite.generateSignatureKey()
        let own = try Self.sign(
            .init(Curve25519.Signing.PublicKey(rawRepresentation: key.publicKey)),
            as: DistinguishedName { CommonName(name) }, issuer: self.name, with: self.key,
            Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                KeyUsage(digitalSignature: true)
                SubjectAlternativeNames([.dnsName("\(name).example")])
            })
        return (LeafProfile(credential: .x509(certificates: [own])), key)
    }

    private static func sign(
        _ key: Certificate.PublicKey, as subject: DistinguishedName, issuer: DistinguishedName,
        with signer: P256.Signing.PrivateKey, _ extensions: Certificate.Extensions
    ) throws -> [UInt8] {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: key,
            notValidBefore: Date(timeIntervalSinceNow: -60), notValidAfter: Date(timeIntervalSinceNow: 3_600),
            issuer: issuer, subject: subject, signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions,
            issuerPrivateKey: .init(signer))
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}
