import SwiftASN1
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension Certificate {
    /// Decodes one entry of a credential's chain.
    init(chainEntry bytes: [UInt8]) throws(X509Refusal) {
        do { try self.init(derEncoded: bytes) } catch { throw .undecodable }
    }

    /// Checks what can be said about a certificate without its issuer: its time and its critical extensions.
    func checkContents(at now: UInt64) throws(X509Refusal) {
        let now = Double(now)
        guard notValidBefore.timeIntervalSince1970 <= now else { throw .notYetValid }
        guard now <= notValidAfter.timeIntervalSince1970 else { throw .expired }
        let processed: Set<ASN1ObjectIdentifier> = [
            .X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage, .X509ExtensionID.extendedKeyUsage,
            .X509ExtensionID.subjectAlternativeName,
        ]
        for item in extensions where item.critical || item.oid == .X509ExtensionID.nameConstraints {
            guard processed.contains(item.oid) else { throw .unsupportedExtension }
        }
    }

    /// Checks that the key may sign what is not a certificate (RFC 5280 §4.2.1.3).
    func checkMaySignMessages() throws(X509Refusal) {
        do {
            if let usage = try extensions.keyUsage, !usage.digitalSignature { throw X509Refusal.notForSigning }
        } catch { throw .notForSigning }
    }

    /// Checks that `issuer`, with `below` authorities under it, issued this certificate (RFC 5280 §6.1.3, §6.1.4).
    func checkIssued(by issuer: Certificate, below: Int) throws(X509Refusal) {
        guard self.issuer == issuer.subject else { throw .brokenChain }
        let constraints: BasicConstraints?
        let usage: KeyUsage?
        do {
            constraints = try issuer.extensions.basicConstraints
            usage = try issuer.extensions.keyUsage
        } catch { throw .issuerNotAuthority }
        guard case .isCertificateAuthority(let limit)? = constraints, usage?.keyCertSign ?? true else {
            throw .issuerNotAuthority
        }
        if let limit, below > limit { throw .pathTooLong }
        guard issuer.publicKey.isValidSignature(signature, for: self) else { throw .badSignature }
    }

    /// Tells whether a root issued this certificate and is itself valid now.
    func isIssued(by root: Certificate, below: Int, at now: UInt64) -> Bool {
        do {
            try root.checkContents(at: now)
            try checkIssued(by: root, below: below)
            return true
        } catch { return false }
    }
}
