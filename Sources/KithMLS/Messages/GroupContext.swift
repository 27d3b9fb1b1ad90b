/// The state that all members of a group agree on in an epoch (RFC 9420 §8.1).
public struct GroupContext: Hashable, Sendable {
    /// The protocol's version.
    public var version: ProtocolVersion
    /// The group's cipher suite.
    public var cipherSuite: CipherSuiteID
    /// The group's name.
    public var groupID: [UInt8]
    /// The number of commits so far.
    public var epoch: UInt64
    /// The hash of the members and their keys (§7.8).
    public var treeHash: [UInt8]
    /// The hash of all commits (§8.2).
    public var confirmedTranscriptHash: [UInt8]
    /// The group's parameters.
    public var extensions: [Extension]

    package init(
        version: ProtocolVersion = .mls10, cipherSuite: CipherSuiteID, groupID: [UInt8], epoch: UInt64,
        treeHash: [UInt8], confirmedTranscriptHash: [UInt8], extensions: [Extension]
    ) {
        self.version = version
        self.cipherSuite = cipherSuite
        self.groupID = groupID
        self.epoch = epoch
        self.treeHash = treeHash
        self.confirmedTranscriptHash = confirmedTranscriptHash
        self.extensions = extensions
    }
}

extension GroupContext: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        version = try ProtocolVersion(from: &reader)
        cipherSuite = try CipherSuiteID(from: &reader)
        groupID = try reader.opaque()
        epoch = try reader.integer()
        treeHash = try reader.opaque()
        confirmedTranscriptHash = try reader.opaque()
        extensions = try reader.list()
    }

    package func encode(into writer: inout TLSWriter) {
        version.encode(into: &writer)
        cipherSuite.encode(into: &writer)
        writer.opaque(groupID)
        writer.integer(epoch)
        writer.opaque(treeHash)
        writer.opaque(confirmedTranscriptHash)
        writer.list(extensions)
    }
}
