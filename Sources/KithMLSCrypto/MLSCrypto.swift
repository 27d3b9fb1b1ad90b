public import Foundation
import KithMLS

/// Secure groups behind eleven calls, for applications written against a bridge of this shape: change the import.
///
/// Commits are merged at once, as such applications expect, so two members that commit at the same time part ways; nothing
/// is kept on disk; the delivery service is the application's. Whoever starts anew uses `KithGroups`, which has none of
/// these limits.
///
/// Own messages can be read, each once, for the last 256 of an epoch. Calls may come from anywhere at once: groups do not
/// wait for each other. Several members of one group may live in one value, for tests: what is read, is read by whichever
/// of them can.
public actor MLSCrypto {
    private let suite: any CipherSuite = CipherSuites.all[0]
    private var isInitialized = false
    private var groups: [[UInt8]: [MLSCryptoMember]] = [:]
    private var identities: [String: SignaturePrivateKey] = [:]
    private var keyPackages: [[UInt8]: (identity: String, bundle: KeyPackageBundle)] = [:]

    /// Makes a value that is of use after ``initialize()``.
    public init() {}

    /// Gets ready; a second call does nothing.
    public func initialize() async throws { isInitialized = true }

    /// Makes a group with one member.
    ///
    /// - Throws: ``MLSCryptoError/invalidIdentity`` for an empty one.
    public func createGroup(identity: String) async throws -> MLSGroupCreationResult {
        let (profile, key) = try member(identity)
        do {
            let group = try Group(
                suite, profile: profile, signatureKey: key, lifetime: Self.lifetime(),
                configuration: Self.configuration)
            let groupID = group.groupID
            groups[groupID] = [MLSCryptoMember(group, identity: identity)]
            return MLSGroupCreationResult(groupId: Data(groupID))
        } catch { throw MLSCryptoError.groupCreationFailed("\(error)") }
    }

    /// Adds the clients of some key packages, one after the other in the bytes, in one commit that takes effect here at
    /// once.
    public func addMembers(groupId: Data, keyPackages: Data) async throws -> MLSAddMembersResult {
        try checkInitialized()
        guard let member = groups[Array(groupId)]?.first else {
            throw MLSCryptoError.addMembersFailed("there is no group of that name here")
        }
        do {
            let packages = try Self.keyPackages([UInt8](keyPackages))
            guard !packages.isEmpty else { throw MLSError.truncated }
            let output = try await member.add(packages)
            return MLSAddMembersResult(
                commitData: Data(output.commit.bytes), welcomeData: Data(output.welcome?.bytes ?? []))
        } catch { throw MLSCryptoError.addMembersFailed("\(error)") }
    }

    /// Adds one client.
    public func addMember(groupId: Data, keyPackage: Data) async throws -> MLSAddMembersResult {
        try await addMembers(groupId: groupId, keyPackages: keyPackage)
    }

    /// Encrypts data of any length, none included, to the group.
    public func encryptMessage(groupId: Data, plaintext: Data) async throws -> MLSEncryptedMessage {
        try checkInitialized()
        guard let member = groups[Array(groupId)]?.first else {
            throw MLSCryptoError.encryptionFailed("there is no group of that name here")
        }
        do {
            return MLSEncryptedMessage(ciphertext: Data(try await member.encrypt([UInt8](plaintext))))
        } catch { throw MLSCryptoError.encryptionFailed("\(error)") }
    }

    /// Reads a message, once.
    public func decryptMessage(groupId: Data, ciphertext: Data) async throws -> MLSDecryptedMessage {
        try checkInitialized()
        guard let members = groups[Array(groupId)], !members.isEmpty else {
            throw MLSCryptoError.decryptionFailed("there is no group of that name here")
        }
        let bytes = [UInt8](ciphertext)
        var reason = MLSCryptoError.decryptionFailed("nobody here can read it")
        // Its sender last: others read it as it is meant to be read.
        for isOwn in [false, true] {
            for member in members {
                do throws(MLSError) {
                    if let data = try await member.decrypt(bytes, own: isOwn) {
                        return MLSDecryptedMessage(plaintext: Data(data))
                    }
                } catch { reason = .decryptionFailed("\(error)") }
            }
        }
        throw reason
    }

    /// Makes a key package, whose private keys stay here until a Welcome names it.
    ///
    /// - Throws: ``MLSCryptoError/invalidIdentity`` for an empty identity.
    public func createKeyPackage(identity: String) async throws -> MLSKeyPackage {
        let (profile, key) = try member(identity)
        do {
            let bundle = try KeyPackageBundle(
                suite, profile: profile, signatureKey: key, lifetime: Self.lifetime())
            keyPackages[bundle.keyPackage.reference(suite)] = (identity, bundle)
            return MLSKeyPackage(keyPackageData: Data(MLSMessage.keyPackage(bundle.keyPackage).bytes))
        } catch { throw MLSCryptoError.keyPackageCreationFailed("\(error)") }
    }

    /// Joins a group with the key package that the Welcome names, which is used up.
    public func processWelcome(welcomeData: Data, identity: String) async throws -> MLSWelcomeResult {
        try checkInitialized()
        guard !identity.isEmpty else { throw MLSCryptoError.invalidIdentity }
        do {
            guard case .welcome(let welcome) = try MLSMessage([UInt8](welcomeData)) else {
                throw MLSError.unexpectedWireFormat
            }
            let bundles = keyPackages.values.filter { $0.identity == identity }.map(\.bundle)
            guard let bundle = welcome.recipient(of: bundles, suite) else { throw MLSError.keyPackageNotInWelcome }
            var options = JoinOptions()
            options.now = Self.now
            let group = try Group(joining: welcome, with: bundle, options, configuration: Self.configuration)
            let groupID = group.groupID
            guard !(groups[groupID] ?? []).contains(where: { $0.identity == identity }) else {
                throw MLSError.groupAlreadyKnown
            }
            keyPackages[bundle.keyPackage.reference(suite)] = nil
            groups[groupID, default: []].append(MLSCryptoMember(group, identity: identity))
            return MLSWelcomeResult(groupId: Data(groupID))
        } catch { throw MLSCryptoError.welcomeProcessingFailed("\(error)") }
    }

    /// Derives a secret that all members of the epoch can derive, and nobody else.
    public func exportSecret(
        groupId: Data, label: String, context: Data, keyLength: Int
    ) async throws -> MLSExportedSecret {
        try checkInitialized()
        guard let member = groups[Array(groupId)]?.first else {
            throw MLSCryptoError.secretExportFailed("there is no group of that name here")
        }
        do {
            let secret = try await member.export(label: label, context: [UInt8](context), count: keyLength)
            return MLSExportedSecret(secret: secret.withBytes { Data($0) })
        } catch { throw MLSCryptoError.secretExportFailed("\(error)") }
    }

    /// The epoch of a group: how many commits there have been.
    public func getEpoch(groupId: Data) async throws -> UInt64 {
        try checkInitialized()
        guard let member = groups[Array(groupId)]?.first else { throw MLSCryptoError.invalidGroupId }
        return await member.epoch
    }

    /// Follows another member's commit, at once; gives the new epoch.
    ///
    /// - Throws: ``MLSCryptoError/invalidGroupId``, ``MLSCryptoError/invalidData`` for bytes that are not a message,
    ///   ``MLSCryptoError/decryptionFailed(_:)`` for a commit that is not to be followed.
    @discardableResult
    public func processCommit(groupId: Data, commitData: Data) async throws -> UInt64 {
        try checkInitialized()
        guard let members = groups[Array(groupId)], !members.isEmpty else { throw MLSCryptoError.invalidGroupId }
        let message: MLSMessage
        do { message = try MLSMessage([UInt8](commitData)) } catch { throw MLSCryptoError.invalidData }
        var epoch: UInt64?
        var reason = MLSError.wrongEpoch
        for member in members {
            do throws(MLSError) { epoch = try await member.follow(message) } catch { reason = error }
        }
        guard let epoch else { throw MLSCryptoError.decryptionFailed("\(reason)") }
        return epoch
    }

    // MARK: What the calls share

    private func checkInitialized() throws(MLSCryptoError) {
        guard isInitialized else { throw .contextNotInitialized }
    }

    /// The profile and key of an identity: the same key whenever it is named.
    private func member(_ identity: String) throws(MLSCryptoError) -> (LeafProfile, SignaturePrivateKey) {
        try checkInitialized()
        guard !identity.isEmpty else { throw .invalidIdentity }
        let key = identities[identity] ?? suite.generateSignatureKey()
        identities[identity] = key
        return (LeafProfile(credential: .basic(identity: Array(identity.utf8))), key)
    }

    /// Reads key packages one after the other, each an `MLSMessage` or bare.
    private static func keyPackages(_ bytes: [UInt8]) throws(MLSError) -> [KeyPackage] {
        var reader = TLSReader(bytes)
        var packages: [KeyPackage] = []
        while !reader.isAtEnd {
            // After the version a message says 5, a key package its suite, which is 1.
            let rest = bytes[reader.offset...].prefix(4)
            if rest.count == 4, rest.last == 5 {
                guard case .keyPackage(let package) = try MLSMessage(from: &reader) else {
                    throw .unexpectedWireFormat
                }
                packages.append(package)
            } else {
                packages.append(try KeyPackage(from: &reader))
            }
        }
        return packages
    }

    fileprivate static var now: UInt64 { UInt64(max(0, Date().timeIntervalSince1970)) }

    private static func lifetime() -> Lifetime {
        Lifetime(notBefore: now - min(now, 3_600), notAfter: now + 12 * 7 * 86_400)
    }

    private static var configuration: GroupConfiguration {
        var configuration = GroupConfiguration(authentication: TrustingAuthenticationService())
        configuration.readableOwnMessages = 256
        return configuration
    }
}

/// One identity's membership in one group.
private actor MLSCryptoMember {
    nonisolated let identity: String
    private var group: Group

    init(_ group: consuming Group, identity: String) {
        self.group = group
        self.identity = identity
    }

    var epoch: UInt64 { group.epoch }

    func add(_ packages: [KeyPackage]) throws(MLSError) -> CommitOutput {
        let output = try group.stageCommit(CommitOptions(packages.map { .add($0) }), at: MLSCrypto.now)
        _ = try group.confirmPendingCommit(at: MLSCrypto.now)
        return output
    }

    func encrypt(_ data: [UInt8]) throws(MLSError) -> [UInt8] { try group.encrypt(data).bytes }

    /// Reads data; nil when it is this member's own and that is not wanted, or the other way round.
    func decrypt(_ bytes: [UInt8], own: Bool) throws(MLSError) -> [UInt8]? {
        let message = try MLSMessage(bytes)
        guard case .privateMessage(let content) = message, content.contentType == .application else {
            throw .unexpectedWireFormat
        }
        guard group.isOwn(content) == own else { return nil }
        guard case .application(let data) = try group.process(message, at: MLSCrypto.now) else { return nil }
        return data.data
    }

    func export(label: String, context: [UInt8], count: Int) throws(MLSError) -> StoredBytes {
        let secret = try group.export(label: label, context: context, count: count)
        return StoredBytes(copying: secret.reveal())
    }

    func follow(_ message: MLSMessage) throws(MLSError) -> UInt64 {
        switch try group.process(message, at: MLSCrypto.now) {
        case .commit(let staged): _ = try group.confirm(staged, at: MLSCrypto.now)
        default: throw .unexpectedWireFormat
        }
        return group.epoch
    }
}
