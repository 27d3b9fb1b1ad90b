public import KithMLS
import X509

/// Believes X.509 credentials whose chain leads to a trusted root (RFC 9420 §5.3, RFC 5280 §6).
///
/// It answers at once, as the engine asks in the middle of an operation: the chain comes whole and in order in the
/// credential, so that nothing has to be searched or fetched. Revocation is not looked up; an application that wants it
/// wraps this service.
public struct X509AuthenticationService: AuthenticationService {
    private let roots: [Certificate]
    private let now: @Sendable () -> UInt64
    private let isAcceptable: @Sendable (X509Identity, CredentialEvent) -> Bool
    private let others: (any AuthenticationService)?

    /// Trusts chains to some roots.
    ///
    /// - Parameters:
    ///   - roots: DER certificates.
    ///   - now: seconds since 1970.
    ///   - others: answers for credentials of other kinds, which are refused without it.
    ///   - isAcceptable: the application's reference identifiers: whether it wants to deal with this identity.
    /// - Throws: ``X509Refusal/undecodable`` for a root that is not a certificate.
    public init(
        roots: [[UInt8]], now: @escaping @Sendable () -> UInt64, others: (any AuthenticationService)? = nil,
        isAcceptable: @escaping @Sendable (X509Identity, CredentialEvent) -> Bool = { _, _ in true }
    ) throws(X509Refusal) {
        var decoded: [Certificate] = []
        for root in roots { decoded.append(try Certificate(chainEntry: root)) }
        self.roots = decoded
        self.now = now
        self.others = others
        self.isAcceptable = isAcceptable
    }

    /// Tells whether the chain is good, is for the signature key, and the application accepts the identity.
    public func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool
    {
        guard case .x509(let chain) = credential else {
            return others?.isValid(credential, signatureKey: signatureKey, for: event) ?? false
        }
        // Why not is asked with ``identity(of:signatureKey:)``.
        guard let identity = try? identity(of: chain, signatureKey: signatureKey) else { return false }
        return isAcceptable(identity, event)
    }

    /// Tells whether the chain is good as for a new member; of another kind's, what the service for it says.
    public func isValid(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey,
        for event: CredentialEvent
    ) -> Bool {
        guard case .x509 = credential else {
            return others?.isValid(credential, signatureKey: signatureKey, replacing: old, for: event) ?? false
        }
        return isValid(credential, signatureKey: signatureKey, for: event)
    }

    /// Lets the service for other kinds note the keys of theirs; of X.509 credentials the chain says enough.
    public func admit(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey?
    ) -> Bool {
        if case .x509 = credential { return true }
        return others?.admit(credential, signatureKey: signatureKey, replacing: old) ?? false
    }

    /// Lets the service for other kinds note the keys of theirs, all or none.
    public func admit(_ members: [Admission]) -> Bool {
        let rest = members.filter { if case .x509 = $0.credential { false } else { true } }
        guard !rest.isEmpty else { return true }
        return others?.admit(rest) ?? false
    }

    /// Tells whether both present the same identifiers; of another kind's, what the service for it says.
    public func isSuccessor(_ new: Credential, of old: Credential) -> Bool {
        guard case .x509 = new, case .x509 = old else { return others?.isSuccessor(new, of: old) ?? false }
        return isSameParticipant(new, old)
    }

    /// Tells whether both present the same identifiers.
    public func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool {
        guard case .x509(let first) = one, case .x509(let second) = other else {
            return others?.isSameParticipant(one, other) ?? false
        }
        // Their chains were checked when they came into their groups; what cannot be read is nobody's.
        guard let first = first.first, let second = second.first, let mine = try? Certificate(chainEntry: first),
            let theirs = try? Certificate(chainEntry: second)
        else { return false }
        return X509Identity(mine) == X509Identity(theirs)
    }

    /// Checks a chain and says who it is.
    ///
    /// - Throws: the first reason not to believe it.
    public func identity(
        of chain: [[UInt8]], signatureKey: SignaturePublicKey
    ) throws(X509Refusal) -> X509Identity {
        guard chain.count <= 8 else { throw .chainTooLong }
        var certificates: [Certificate] = []
        for entry in chain { certificates.append(try Certificate(chainEntry: entry)) }
        guard let own = certificates.first, let last = certificates.last else { throw .empty }
        guard Array(own.publicKey.subjectPublicKeyInfoBytes) == signatureKey else { throw .keyMismatch }
        try own.checkMaySignMessages()
        let now = now()
        for certificate in certificates { try certificate.checkContents(at: now) }
        for (index, issuer) in certificates.enumerated().dropFirst() {
            try certificates[index - 1].checkIssued(by: issuer, below: index - 1)
        }
        if !roots.contains(last) {
            let issuers = roots.filter { $0.subject == last.issuer }
            guard !issuers.isEmpty else { throw .untrusted }
            guard issuers.contains(where: { last.isIssued(by: $0, below: certificates.count - 1, at: now) }) else {
                throw .badSignature
            }
        }
        return X509Identity(own)
    }
}
