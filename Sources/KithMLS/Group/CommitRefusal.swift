/// A member's signed word that it cannot follow a commit that the delivery service has taken, or cannot tell.
///
/// A commit's content is hidden from the service, which takes the first of an epoch whatever it is. When more than half
/// of the members that could follow it say that they cannot, it was none, and the service takes another one of the epoch.
/// Whom the commit removes cannot tell, and says that: it is then not one of those that could follow.
///
/// ```
///  bytes        what
///  opaque<V>    the group
///  8            the epoch
///  4            the member's leaf
///  opaque<V>    the hash of the commit, by the group's suite
///  1            1 when the commit removes the member, which cannot tell then
///  opaque<V>    the signature: SignWithLabel(leaf's key, "KithCommitRefusal", all before)
/// ```
public struct CommitRefusal: Hashable, Sendable {
    /// The group.
    public let groupID: [UInt8]
    /// The epoch that goes on.
    public let epoch: UInt64
    /// The leaf of the member that says so.
    public let leaf: UInt32
    /// The hash of the commit's bytes.
    let commit: [UInt8]
    /// True when the commit removes the member: it is not one of those that could follow it.
    public let isAbstention: Bool
    private(set) var signature: [UInt8] = []

    fileprivate init(groupID: [UInt8], epoch: UInt64, leaf: UInt32, commit: [UInt8], isAbstention: Bool) {
        self.groupID = groupID
        self.epoch = epoch
        self.leaf = leaf
        self.commit = commit
        self.isAbstention = isAbstention
    }

    /// Reads one.
    public init(_ bytes: [UInt8]) throws(MLSError) { try self.init(decoding: bytes) }

    /// The form on the wire.
    public var bytes: [UInt8] { encoded }

    /// Tells whether the word is about the bytes of a commit, and signed by a key.
    public func isValid(_ suite: any CipherSuite, about commit: [UInt8], by key: SignaturePublicKey) -> Bool {
        self.commit == suite.hash(commit) && suite.isValid(signature, for: signContent, by: key)
    }

    fileprivate mutating func sign(_ suite: any CipherSuite, with key: SignaturePrivateKey) throws(MLSError) {
        signature = try suite.sign(signContent, with: key)
    }

    private var signContent: [UInt8] {
        var writer = TLSWriter()
        writer.label("KithCommitRefusal")
        writer.vector { encodeUnsigned(into: &$0) }
        return writer.bytes
    }

    private func encodeUnsigned(into writer: inout TLSWriter) {
        writer.opaque(groupID)
        writer.integer(epoch)
        writer.integer(leaf)
        writer.opaque(commit)
        writer.flag(isAbstention)
    }
}

extension CommitRefusal: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        groupID = try reader.opaque()
        epoch = try reader.integer()
        leaf = try reader.integer()
        commit = try reader.opaque()
        isAbstention = try reader.flag()
        signature = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        encodeUnsigned(into: &writer)
        writer.opaque(signature)
    }
}

extension Group {
    /// Says that a commit of this epoch, as it came, was refused here.
    public func refusal(of commit: [UInt8]) throws(MLSError) -> CommitRefusal {
        try word(about: commit, isAbstention: false)
    }

    /// Says that a commit of this epoch, as it came, removes this member, which cannot tell whether others can follow it.
    public func abstention(from commit: [UInt8]) throws(MLSError) -> CommitRefusal {
        try word(about: commit, isAbstention: true)
    }

    private func word(about commit: [UInt8], isAbstention: Bool) throws(MLSError) -> CommitRefusal {
        guard reInit == nil else { throw .groupEnded }
        var word = CommitRefusal(
            groupID: groupID, epoch: epoch, leaf: leafIndex, commit: state.suite.hash(commit),
            isAbstention: isAbstention)
        try word.sign(state.suite, with: signatureKey)
        return word
    }
}
