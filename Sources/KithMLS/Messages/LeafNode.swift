/// A member, as it stands in the group's tree (RFC 9420 §7.2).
public struct LeafNode: Hashable, Sendable {
    /// The way a leaf came into the tree.
    @frozen
    public enum Source: Hashable, Sendable {
        /// It came in a key package, valid for a time.
        case keyPackage(Lifetime)
        /// It came in an Update proposal.
        case update
        /// It came with a commit's path, tied to the nodes above it (§7.9).
        case commit(parentHash: [UInt8])
    }

    /// The key that others encrypt to.
    public var encryptionKey: HPKEPublicKey
    /// The key the member signs with.
    public var signatureKey: SignaturePublicKey
    /// The identity the member presents.
    public var credential: Credential
    /// The features the member supports.
    public var capabilities: Capabilities
    /// The way the leaf came into the tree.
    public var source: Source
    /// The leaf's parameters.
    public var extensions: [Extension]
    /// The member's signature over the rest, and over its location unless the leaf came in a key package.
    public var signature: [UInt8]
}

/// The location of a leaf, which its signature covers unless it came in a key package (RFC 9420 §7.2).
package struct LeafLocation {
    let groupID: [UInt8]
    let leafIndex: UInt32

    package init(groupID: [UInt8], leafIndex: UInt32) {
        self.groupID = groupID
        self.leafIndex = leafIndex
    }
}

extension LeafNode: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        encryptionKey = try reader.opaque()
        signatureKey = try reader.opaque()
        credential = try Credential(from: &reader)
        capabilities = try Capabilities(from: &reader)
        source =
            switch try reader.integer(as: UInt8.self) {
            case 1: .keyPackage(try Lifetime(from: &reader))
            case 2: .update
            case 3: .commit(parentHash: try reader.opaque())
            default: throw .invalidLeafNodeSource
            }
        extensions = try reader.list()
        signature = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        encodeUnsigned(into: &writer)
        writer.opaque(signature)
    }

    private func encodeUnsigned(into writer: inout TLSWriter) {
        writer.opaque(encryptionKey)
        writer.opaque(signatureKey)
        credential.encode(into: &writer)
        capabilities.encode(into: &writer)
        switch source {
        case .keyPackage(let lifetime):
            writer.integer(1 as UInt8)
            lifetime.encode(into: &writer)
        case .update: writer.integer(2 as UInt8)
        case .commit(let parentHash):
            writer.integer(3 as UInt8)
            writer.opaque(parentHash)
        }
        writer.list(extensions)
    }

    /// `LeafNodeTBS`.
    private func toBeSigned(_ location: LeafLocation) -> [UInt8] {
        var writer = TLSWriter(capacity: 512)
        encodeUnsigned(into: &writer)
        switch source {
        case .keyPackage: break
        case .update, .commit:
            writer.opaque(location.groupID)
            writer.integer(location.leafIndex)
        }
        return writer.bytes
    }

    /// Replaces the signature; the location is left out for a leaf from a key package.
    mutating func sign(_ suite: any CipherSuite, with key: SignaturePrivateKey, at location: LeafLocation)
        throws(MLSError)
    {
        signature = try suite.sign(toBeSigned(location), label: "LeafNodeTBS", with: key)
    }

    /// Tells whether the signature is the member's own.
    package func hasValidSignature(_ suite: any CipherSuite, at location: LeafLocation) -> Bool {
        suite.isValid(signature, for: toBeSigned(location), label: "LeafNodeTBS", by: signatureKey)
    }
}

/// The parts of a client's own leaf that it chooses: all but keys for encryption, the source and the signature.
public struct LeafProfile: Hashable, Sendable {
    /// The identity the client presents.
    public var credential: Credential
    /// The features the client supports.
    public var capabilities: Capabilities
    /// The leaf's parameters.
    public var extensions: [Extension]

    /// Describes a client.
    public init(credential: Credential, capabilities: Capabilities = Capabilities(), extensions: [Extension] = []) {
        self.credential = credential
        self.capabilities = capabilities
        self.extensions = extensions
    }

    /// Takes the profile from a leaf.
    package init(_ leaf: LeafNode) {
        self.init(credential: leaf.credential, capabilities: leaf.capabilities, extensions: leaf.extensions)
    }
}

extension LeafNode {
    /// A signed leaf.
    package init(
        _ profile: LeafProfile, suite: any CipherSuite, encryptionKey: HPKEPublicKey,
        signatureKey: SignaturePrivateKey, source: Source, at location: LeafLocation
    ) throws(MLSError) {
        self.init(
            encryptionKey: encryptionKey, signatureKey: signatureKey.publicKey, credential: profile.credential,
            capabilities: profile.capabilities, source: source, extensions: profile.extensions, signature: [])
        try sign(suite, with: signatureKey, at: location)
    }
}
