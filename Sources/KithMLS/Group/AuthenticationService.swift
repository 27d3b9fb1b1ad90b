/// The occasion on which a credential is checked (RFC 9420 §5.3.1).
@nonexhaustive
public enum CredentialEvent: Hashable, Sendable {
    /// It stands in a key package that is to be added.
    case keyPackage
    /// It belongs to a member of a group that is being joined.
    case joining
    /// It stands in an Add proposal that was received.
    case add
    /// It replaces a member's credential by an Update proposal.
    case update
    /// It replaces a committer's credential, or is a joiner's, in a commit's path.
    case commit
    /// It belongs to somebody who may send proposals from outside.
    case externalSender
}

/// A member whose key a service is asked to note.
public struct Admission: Hashable, Sendable {
    /// The member's credential.
    public let credential: Credential
    /// The key it signs with.
    public let signatureKey: SignaturePublicKey
    /// The key that it had as a member; nil for one that is new.
    public let replaced: SignaturePublicKey?

    /// Takes all three.
    public init(_ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey?) {
        self.credential = credential
        self.signatureKey = signatureKey
        replaced = old
    }
}

/// Says who is who: the application's half of authentication (RFC 9420 §5.3.1).
///
/// It is asked in the middle of an operation and must answer at once; an application that has to ask others does so
/// beforehand, from the message or the staged commit, and answers here from what it learnt.
public protocol AuthenticationService: Sendable {
    /// Tells whether the credential's identity belongs to the signature key.
    func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool
    /// Tells whether a member's leaf may have another signature key or credential than before, in a message that the
    /// old key has signed.
    ///
    /// By default that is to be answered as if the key were a new member's.
    func isValid(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey,
        for event: CredentialEvent
    ) -> Bool
    /// Notes whose key is a member's from now on, once everything else about its group or commit was found good; false
    /// refuses the group or the commit.
    ///
    /// `old` is the key that it had as a member. By default nothing is noted, and nobody refused.
    func admit(_ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey?) -> Bool
    /// Notes the keys of all members that a group or a commit brings, as ``admit(_:signatureKey:replacing:)`` does each.
    ///
    /// A service that keeps what it notes overrides this, to note either all or, when it refuses one, nothing.
    func admit(_ members: [Admission]) -> Bool
    /// Tells whether a member may replace one credential by another.
    func isSuccessor(_ new: Credential, of old: Credential) -> Bool
    /// Tells whether two credentials stand for the same participant in two groups (§11.2, §11.3).
    func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool
}

extension AuthenticationService {
    /// Answers as if the key were a new member's.
    public func isValid(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey,
        for event: CredentialEvent
    ) -> Bool { isValid(credential, signatureKey: signatureKey, for: event) }

    /// Notes nothing and returns true.
    public func admit(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey?
    ) -> Bool { true }

    /// Notes one after the other, to the first that is refused.
    public func admit(_ members: [Admission]) -> Bool {
        members.allSatisfy { admit($0.credential, signatureKey: $0.signatureKey, replacing: $0.replaced) }
    }
}

/// Believes every credential and holds a member to its first; for tests, and where signature keys are pinned elsewhere.
public struct TrustingAuthenticationService: AuthenticationService {
    /// Makes one.
    public init() {}
    /// Always true.
    public func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool
    {
        true
    }
    /// Returns true when both are the same.
    public func isSuccessor(_ new: Credential, of old: Credential) -> Bool { new == old }
    /// Returns true when both are the same.
    public func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool { one == other }
}
