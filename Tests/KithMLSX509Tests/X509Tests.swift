import Crypto
import Foundation
import KithMLS
import KithMLSX509
import SwiftASN1
import Testing
import X509

private let noon: UInt64 = 1_800_000_000

/// An authority, an authority below it, and a client's chain; anything in it may be made wrong.
private struct Chain {
    var rootKey = P256.Signing.PrivateKey()
    var middleKey = P256.Signing.PrivateKey()
    var rootLimit: Int? = 1
    var middleIsAuthority = true
    var middleIssuer = "root"
    var ownIssuer = "middle"
    var ownKey: Certificate.PublicKey
    var name = "anna"
    var start = noon - 60
    var end = noon + 3_600
    var ownUsage = KeyUsage(digitalSignature: true)
    var critical: ASN1ObjectIdentifier?
    /// Signs the client's certificate, the authority below the root by default.
    var signer: P256.Signing.PrivateKey?

    init(_ key: Certificate.PublicKey) { ownKey = key }

    private func certificate(
        _ subject: String, issuer: String, key: Certificate.PublicKey, signer: P256.Signing.PrivateKey,
        extensions: Certificate.Extensions
    ) throws -> [UInt8] {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: key,
            notValidBefore: Date(timeIntervalSince1970: Double(start)),
            notValidAfter: Date(timeIntervalSince1970: Double(end)),
            issuer: DistinguishedName { CommonName(issuer) }, subject: DistinguishedName { CommonName(subject) },
            signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions, issuerPrivateKey: .init(signer))
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }

    func root() throws -> [UInt8] {
        try certificate(
            "root", issuer: "root", key: .init(rootKey.publicKey), signer: rootKey,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: rootLimit))
                KeyUsage(keyCertSign: true)
            })
    }

    func make() throws -> [[UInt8]] {
        let middle = try certificate(
            "middle", issuer: middleIssuer, key: .init(middleKey.publicKey), signer: rootKey,
            extensions: Certificate.Extensions {
                if middleIsAuthority {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                } else {
                    Critical(BasicConstraints.notCertificateAuthority)
                }
            })
        var extensions = try Certificate.Extensions {
            Critical(BasicConstraints.notCertificateAuthority)
            ownUsage
            SubjectAlternativeNames([.dnsName("\(name).example")])
        }
        if let critical { try extensions.append(Certificate.Extension(oid: critical, critical: true, value: [5, 0])) }
        let own = try certificate(
            name, issuer: ownIssuer, key: ownKey, signer: signer ?? middleKey, extensions: extensions)
        return [own, middle]
    }

    func service() throws -> X509AuthenticationService {
        try X509AuthenticationService(roots: [root()], now: { noon })
    }
}

/// Says yes, and remembers what it was asked.
private final class RecordingService: AuthenticationService {
    nonisolated(unsafe) var asked: [String] = []

    func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool {
        asked.append("valid")
        return true
    }
    func isValid(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey,
        for event: CredentialEvent
    ) -> Bool {
        asked.append("replacing")
        return true
    }
    func admit(_ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey?) -> Bool {
        asked.append("admit")
        return true
    }
    func admit(_ members: [Admission]) -> Bool {
        asked.append("admit \(members.count)")
        return true
    }
    func isSuccessor(_ new: Credential, of old: Credential) -> Bool {
        asked.append("successor")
        return true
    }
    func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool {
        asked.append("same")
        return true
    }
}

@Suite struct X509Tests {
    @Test func `everything about other credentials is asked of the service for them`() throws {
        let chain = Credential.x509(certificates: [[1]])
        let (one, key) = (Credential.basic(identity: [1]), Array("key".utf8))
        let others = RecordingService()
        let service = try X509AuthenticationService(roots: [], now: { noon }, others: others)
        #expect(service.isValid(one, signatureKey: key, for: .add))
        #expect(service.isValid(one, signatureKey: key, replacing: key, for: .update))
        #expect(service.admit(one, signatureKey: key, replacing: nil))
        let members = [one, chain, one].map { Admission($0, signatureKey: key, replacing: nil) }
        #expect(service.admit(members))
        #expect(service.isSuccessor(one, of: one))
        #expect(service.isSameParticipant(one, one))
        #expect(others.asked == ["valid", "replacing", "admit", "admit 2", "successor", "same"])
        #expect(service.admit(chain, signatureKey: key, replacing: nil) && service.admit([members[1]]))
        #expect(others.asked.count == 6)
        let alone = try X509AuthenticationService(roots: [], now: { noon })
        #expect(!alone.admit(one, signatureKey: key, replacing: nil) && !alone.admit(members))
        #expect(!alone.isValid(one, signatureKey: key, replacing: key, for: .update))
    }

    @Test func `keys beside chains are pinned`() throws {
        let service = try X509AuthenticationService(
            roots: [], now: { noon }, others: PinningAuthenticationService())
        let ben = Credential.basic(identity: Array("ben".utf8))
        #expect(service.admit([Admission(ben, signatureKey: [1], replacing: nil)]))
        #expect(!service.isValid(ben, signatureKey: [2], for: .add))
        #expect(service.isValid(ben, signatureKey: [2], replacing: [1], for: .update))
        #expect(!service.admit([Admission(ben, signatureKey: [2], replacing: nil)]))
    }

    private func key() -> Curve25519.Signing.PrivateKey { Curve25519.Signing.PrivateKey() }

    /// The refusal of a chain that was made wrong.
    private func refusal(_ change: (inout Chain) -> Void) throws -> X509Refusal? {
        let key = key()
        var chain = Chain(.init(key.publicKey))
        change(&chain)
        do {
            _ = try chain.service().identity(of: chain.make(), signatureKey: Array(key.publicKey.rawRepresentation))
            return nil
        } catch let refusal as X509Refusal { return refusal }
    }

    @Test func `a chain to a trusted root is believed, with the root in it or without`() throws {
        let key = key()
        let chain = Chain(.init(key.publicKey))
        let service = try chain.service()
        let made = try chain.make()
        let raw = Array(key.publicKey.rawRepresentation)
        let identity = try service.identity(of: made, signatureKey: raw)
        #expect(identity.names == ["dns:anna.example"])
        #expect(identity.subject == "CN=anna")
        // A P-256 signature differs each time: the root in the chain must be the very one that is trusted.
        let root = try chain.root()
        let same = try X509AuthenticationService(roots: [root], now: { noon })
        #expect(try same.identity(of: made + [root], signatureKey: raw) == identity)
        #expect(service.isValid(.x509(certificates: made), signatureKey: raw, for: .add))
        #expect(!service.isValid(.basic(identity: [1]), signatureKey: raw, for: .add))
    }

    @Test func `what is wrong with a chain is named`() throws {
        #expect(try refusal { _ in } == nil)
        #expect(try refusal { $0.ownKey = .init(key().publicKey) } == .keyMismatch)
        #expect(try refusal { $0.start = noon + 1 } == .notYetValid)
        #expect(try refusal { $0.end = noon - 1 } == .expired)
        #expect(try refusal { $0.ownIssuer = "somebody" } == .brokenChain)
        #expect(try refusal { $0.middleIssuer = "somebody" } == .untrusted)
        #expect(try refusal { $0.signer = P256.Signing.PrivateKey() } == .badSignature)
        #expect(try refusal { $0.middleIsAuthority = false } == .issuerNotAuthority)
        #expect(try refusal { $0.ownUsage = KeyUsage(keyEncipherment: true) } == .notForSigning)
        #expect(try refusal { $0.critical = [1, 2, 3, 4] } == .unsupportedExtension)
        #expect(try refusal { $0.rootLimit = 0 } == .badSignature)
        let chain = Chain(.init(key().publicKey))
        #expect(throws: X509Refusal.empty) { try chain.service().identity(of: [], signatureKey: []) }
        #expect(throws: X509Refusal.undecodable) { try chain.service().identity(of: [[1, 2]], signatureKey: []) }
        #expect(throws: X509Refusal.chainTooLong) {
            try chain.service().identity(of: [[UInt8]](repeating: [1], count: 9), signatureKey: [])
        }
        // Another root of the same name has another key.
        let other = Chain(.init(key().publicKey))
        let own = self.key()
        let honest = Chain(.init(own.publicKey))
        #expect(throws: X509Refusal.badSignature) {
            try other.service().identity(of: honest.make(), signatureKey: Array(own.publicKey.rawRepresentation))
        }
    }

    @Test(arguments: [1, 2] as [UInt16])
    func `a group of members with certificates`(number: UInt16) throws {
        let suite = try #require(CipherSuites[id: CipherSuiteID(rawValue: number)])
        var authority = Chain(.init(key().publicKey))
        let service = try authority.service()
        func client(_ name: String) throws -> (LeafProfile, SignaturePrivateKey) {
            let signature = suite.generateSignatureKey()
            authority.name = name
            authority.ownKey =
                number == 1
                ? .init(try Curve25519.Signing.PublicKey(rawRepresentation: signature.publicKey))
                : .init(try P256.Signing.PublicKey(x963Representation: signature.publicKey))
            return (LeafProfile(credential: .x509(certificates: try authority.make())), signature)
        }
        let lifetime = KithMLS.Lifetime(notBefore: noon - 60, notAfter: noon + 60)
        let configuration = GroupConfiguration(authentication: service)
        let (anna, annaKey) = try client("anna")
        let (ben, benKey) = try client("ben")
        var group = try Group(
            suite, profile: anna, signatureKey: annaKey, lifetime: lifetime, configuration: configuration)
        let bundle = try KeyPackageBundle(suite, profile: ben, signatureKey: benKey, lifetime: lifetime)
        let output = try group.stageCommit(CommitOptions([.add(bundle.keyPackage)]), at: noon)
        _ = try group.confirmPendingCommit()
        guard case .welcome(let welcome)? = output.welcome else {
            Issue.record("no Welcome")
            return
        }
        let joined = try Group(joining: welcome, with: bundle, configuration: configuration)
        let (theirs, ours) = (joined.epochAuthenticator, group.epochAuthenticator)
        #expect(theirs == ours)
        // Whoever has somebody else's certificate is not let in.
        let thief = suite.generateSignatureKey()
        let stolen = try KeyPackageBundle(suite, profile: ben, signatureKey: thief, lifetime: lifetime)
        #expect(throws: MLSError.credentialRejected) {
            _ = try group.stageCommit(CommitOptions([.add(stolen.keyPackage)]), at: noon)
        }
    }
}
