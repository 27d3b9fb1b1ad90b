import KithMLS

/// A client of a generated history with its keys, and the group it is in.
final class GroupMember {
    let suite: any CipherSuite
    let profile: LeafProfile
    let signatureKey: SignaturePrivateKey
    private var stored: Group?

    init(_ suite: any CipherSuite, _ name: String) {
        self.suite = suite
        profile = LeafProfile(credential: .basic(identity: Array(name.utf8)))
        signatureKey = suite.generateSignatureKey()
    }

    /// A key package that never ends: nobody knows when a vector is verified.
    func keyPackage() throws -> KeyPackageBundle {
        try KeyPackageBundle(suite, profile: profile, signatureKey: signatureKey, lifetime: Self.forever)
    }

    static let forever = Lifetime(notBefore: 0, notAfter: .max)

    static func configuration(_ format: WireFormat) -> GroupConfiguration {
        var configuration = GroupConfiguration(authentication: TrustingAuthenticationService())
        configuration.maximumLifetime = .max
        configuration.handshakeFormat = format
        return configuration
    }

    func create(_ format: WireFormat, groupID: [UInt8]) throws {
        stored = try Group(
            suite, groupID: groupID, profile: profile, signatureKey: signatureKey, lifetime: Self.forever,
            configuration: Self.configuration(format))
    }

    func take(_ group: consuming Group) { stored = consume group }

    /// Uses the group where it lies.
    func with<Result: ~Copyable>(_ body: (inout Group) throws(MLSError) -> Result) throws(MLSError) -> Result {
        guard var group = stored.take() else { preconditionFailure("a member of a history is in its group") }
        do throws(MLSError) {
            let result = try body(&group)
            stored = consume group
            return result
        } catch {
            stored = consume group
            throw error
        }
    }

    var leaf: UInt32 { (try? with { $0.leafIndex }) ?? 0 }  // reading it throws nothing

    /// Takes in a commit and follows it, or a proposal and keeps it.
    func receive(_ message: MLSMessage, psks: PreSharedKeys) throws {
        try with { group throws(MLSError) in
            switch try group.process(MLSMessage(message.bytes), psks: psks) {
            case .commit(let staged): _ = try group.confirm(staged)
            default: break
            }
        }
    }
}
