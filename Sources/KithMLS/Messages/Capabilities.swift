/// The features a client supports (RFC 9420 §7.2).
public struct Capabilities: Hashable, Sendable {
    /// Versions of the protocol.
    public var versions: [ProtocolVersion]
    /// Cipher suites.
    public var cipherSuites: [CipherSuiteID]
    /// Kinds of extensions beyond the defaults.
    public var extensions: [ExtensionType]
    /// Kinds of proposals beyond the defaults.
    public var proposals: [ProposalType]
    /// Kinds of credentials.
    public var credentials: [CredentialType]

    /// Takes the five lists; by default what this engine has.
    public init(
        versions: [ProtocolVersion] = [.mls10], cipherSuites: [CipherSuiteID] = CipherSuites.all.map(\.id),
        extensions: [ExtensionType] = [], proposals: [ProposalType] = [],
        credentials: [CredentialType] = [.basic, .x509]
    ) {
        self.versions = versions
        self.cipherSuites = cipherSuites
        self.extensions = extensions
        self.proposals = proposals
        self.credentials = credentials
    }

    /// Tells whether extensions of some kinds may be used with this client.
    func supports(_ types: [ExtensionType]) -> Bool { types.filter { !$0.isDefault }.isCovered(by: extensions) }
}

extension Capabilities: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        versions = try reader.list()
        cipherSuites = try reader.list()
        extensions = try reader.list()
        proposals = try reader.list()
        credentials = try reader.list()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.list(versions)
        writer.list(cipherSuites)
        writer.list(extensions)
        writer.list(proposals)
        writer.list(credentials)
    }
}

/// The time in which a leaf from a key package is valid, in seconds since 1970 (RFC 9420 §7.2).
public struct Lifetime: Hashable, Sendable {
    /// The first second.
    public var notBefore: UInt64
    /// The last second.
    public var notAfter: UInt64

    /// Takes both ends.
    public init(notBefore: UInt64, notAfter: UInt64) {
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    /// Tells whether `now` is within.
    public func contains(_ now: UInt64) -> Bool { notBefore <= now && now <= notAfter }
}

extension Lifetime: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        notBefore = try reader.integer()
        notAfter = try reader.integer()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.integer(notBefore)
        writer.integer(notAfter)
    }
}
