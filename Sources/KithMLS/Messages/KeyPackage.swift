/// A client's offer to be added to groups (RFC 9420 §10).
public struct KeyPackage: Hashable, Sendable {
    /// The protocol version it is for.
    public var version: ProtocolVersion
    /// The cipher suite it is for.
    public var cipherSuite: CipherSuiteID
    /// The key a Welcome is encrypted to; used once.
    public var initKey: HPKEPublicKey
    /// The leaf that goes into the tree.
    public var leafNode: LeafNode
    /// The package's parameters.
    public var extensions: [Extension]
    /// The client's signature over the rest.
    public var signature: [UInt8]
}

extension KeyPackage: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        version = try ProtocolVersion(from: &reader)
        cipherSuite = try CipherSuiteID(from: &reader)
        initKey = try reader.opaque()
        leafNode = try LeafNode(from: &reader)
        extensions = try reader.list()
        signature = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        encodeUnsigned(into: &writer)
        writer.opaque(signature)
    }

    private func encodeUnsigned(into writer: inout TLSWriter) {
        version.encode(into: &writer)
        cipherSuite.encode(into: &writer)
        writer.opaque(initKey)
        leafNode.encode(into: &writer)
        writer.list(extensions)
    }

    /// `KeyPackageTBS`.
    private var toBeSigned: [UInt8] {
        var writer = TLSWriter(capacity: 640)
        encodeUnsigned(into: &writer)
        return writer.bytes
    }

    mutating func sign(_ suite: any CipherSuite, with key: SignaturePrivateKey) throws(MLSError) {
        signature = try suite.sign(toBeSigned, label: "KeyPackageTBS", with: key)
    }

    func hasValidSignature(_ suite: any CipherSuite) -> Bool {
        suite.isValid(signature, for: toBeSigned, label: "KeyPackageTBS", by: leafNode.signatureKey)
    }
}

extension KeyPackage {
    /// Reads an `MLSMessage` that carries a key package.
    public init(message bytes: [UInt8]) throws(MLSError) {
        guard case .keyPackage(let package) = try MLSMessage(bytes) else { throw .unexpectedWireFormat }
        self = package
    }

    /// `MakeKeyPackageRef` (§5.2): the name a Welcome calls it by.
    public func reference(_ suite: any CipherSuite) -> [UInt8] {
        suite.referenceHash("MLS 1.0 KeyPackage Reference", encoded)
    }
}

/// A key package together with its private halves, as its maker keeps it until a Welcome comes.
public struct KeyPackageBundle: Sendable {
    /// The public part, to be published.
    public let keyPackage: KeyPackage
    /// The private half of ``KeyPackage/initKey``.
    public let initKey: HPKEPrivateKey
    /// The private half of the leaf's encryption key.
    public let encryptionKey: HPKEPrivateKey
    /// The key the client signs with.
    public let signatureKey: SignaturePrivateKey

    /// Puts a bundle together again, from storage.
    public init(
        keyPackage: KeyPackage, initKey: HPKEPrivateKey, encryptionKey: HPKEPrivateKey,
        signatureKey: SignaturePrivateKey
    ) throws(MLSError) {
        guard
            initKey.publicKey == keyPackage.initKey, encryptionKey.publicKey == keyPackage.leafNode.encryptionKey,
            signatureKey.publicKey == keyPackage.leafNode.signatureKey
        else { throw .keyPackageMismatch }
        self.keyPackage = keyPackage
        self.initKey = initKey
        self.encryptionKey = encryptionKey
        self.signatureKey = signatureKey
    }

    /// Makes a key package with fresh keys (§10).
    public init(
        _ suite: any CipherSuite, profile: LeafProfile, signatureKey: SignaturePrivateKey, lifetime: Lifetime,
        extensions: [Extension] = []
    ) throws(MLSError) {
        initKey = suite.generateHPKEKey()
        encryptionKey = suite.generateHPKEKey()
        self.signatureKey = signatureKey
        let leaf = try LeafNode(
            profile, suite: suite, encryptionKey: encryptionKey.publicKey, signatureKey: signatureKey,
            source: .keyPackage(lifetime), at: LeafLocation(groupID: [], leafIndex: 0))
        var package = KeyPackage(
            version: .mls10, cipherSuite: suite.id, initKey: initKey.publicKey, leafNode: leaf,
            extensions: extensions, signature: [])
        try package.sign(suite, with: signatureKey)
        keyPackage = package
    }
}
