/// The key that an epoch of a group left behind (RFC 9420 §8.6), of which a client that joins anew asks for a proof.
public struct ResumptionKey: Sendable {
    /// The group.
    public let groupID: [UInt8]
    /// The epoch.
    public let epoch: UInt64
    let key: SecretBox

    /// The newest that is stored of a group, though the rest may be damaged; nil when none can be read.
    public init?(newestOf stored: StoredGroup) {
        for row in stored.rows(.resumption).reversed() {
            // A damaged row is passed over: an older key proves less, and is better than none.
            guard let key = try? row.read({ reader throws(MLSError) in SecretBox(try reader.secret()) }) else {
                continue
            }
            self.init(groupID: stored.groupID, epoch: row.key.number, key: key)
            return
        }
        return nil
    }

    init(groupID: [UInt8], epoch: UInt64, key: SecretBox) {
        self.groupID = groupID
        self.epoch = epoch
        self.key = key
    }

    /// The tag over a group's public state that only somebody can make who knows the key.
    fileprivate func proof(_ suite: any CipherSuite, _ state: [UInt8]) -> [UInt8] {
        suite.mac(suite.expand(key.secret, label: "kith resync", context: [], count: suite.secretLength), state)
    }
}

extension Group {
    /// Proofs for a group info that this member was there in the epochs whose keys it still has, and so for whoever was
    /// a member in one of them that it is no fork by somebody removed before.
    ///
    /// Pass it to ``groupInfo(withTree:withExternalKey:extensions:)`` with the external key. Implementations that do not
    /// know the extension pass it over (RFC 9420 §12.4.3).
    public func resumptionProofs() throws(MLSError) -> Extension {
        let external = try state.secrets.externalKey(state.suite).publicKey
        let bytes = GroupInfo.provenState(context, state.shared.confirmationTag, external)
        var writer = TLSWriter()
        writer.list(
            resumption.keys.map { epoch, key in
                ResumptionProof(
                    epoch: epoch,
                    tag: ResumptionKey(groupID: groupID, epoch: epoch, key: key).proof(state.suite, bytes))
            })
        return Extension(type: .resumptionProofs, data: writer.bytes)
    }

    /// The resumption keys of earlier epochs, for the group info of a Welcome, which only the new members can read:
    /// with them they make proofs for members who are further behind.
    public func resumptionKeys() -> Extension {
        Extension(type: .resumptionKeys, data: resumption.encoded)
    }
}

extension GroupInfo {
    /// Checks that the maker knew a key.
    func checkProof(_ suite: any CipherSuite, of key: ResumptionKey) throws(MLSError) {
        guard key.groupID == groupContext.groupID,
            let external: ExternalPub = try extensions.decoded(.externalPub),
            let proofs: ResumptionProofs = try extensions.decoded(.resumptionProofs),
            let proof = proofs.all.first(where: { $0.epoch == key.epoch }),
            constantTimeEqual(
                proof.tag, key.proof(suite, Self.provenState(groupContext, confirmationTag, external.key)))
        else { throw .resumptionNotProven }
    }

    /// The bytes that proofs are over: everything on which a joiner's keys depend.
    fileprivate static func provenState(
        _ context: GroupContext, _ confirmationTag: [UInt8], _ external: HPKEPublicKey
    ) -> [UInt8] {
        var writer = TLSWriter()
        context.encode(into: &writer)
        writer.opaque(confirmationTag)
        writer.opaque(external)
        return writer.bytes
    }
}

/// One epoch's proof.
private struct ResumptionProof: TLSCodable {
    let epoch: UInt64
    let tag: [UInt8]

    init(epoch: UInt64, tag: [UInt8]) {
        self.epoch = epoch
        self.tag = tag
    }

    init(from reader: inout TLSReader) throws(MLSError) {
        epoch = try reader.integer()
        tag = try reader.opaque()
    }

    func encode(into writer: inout TLSWriter) {
        writer.integer(epoch)
        writer.opaque(tag)
    }
}

/// The content of the extension with proofs.
private struct ResumptionProofs: TLSCodable {
    let all: [ResumptionProof]

    init(from reader: inout TLSReader) throws(MLSError) { all = try reader.list() }
    func encode(into writer: inout TLSWriter) { writer.list(all) }
}

extension ResumptionKeys: TLSCodable {
    init(from reader: inout TLSReader) throws(MLSError) {
        var keys: [(epoch: UInt64, key: SecretBox)] = []
        for _ in 0..<(try reader.integer(as: UInt8.self)) {
            let epoch: UInt64 = try reader.integer()
            guard keys.last.map({ $0.epoch < epoch }) ?? true else { throw .invalidPSKType }
            keys.append((epoch, SecretBox(try reader.secret())))
        }
        self.init(keys)
    }

    func encode(into writer: inout TLSWriter) {
        let newest = keys.suffix(Int(UInt8.max))
        writer.integer(UInt8(newest.count))
        for (epoch, key) in newest {
            writer.integer(epoch)
            writer.secret(key.secret)
        }
    }
}
