import KithMLS

struct MessagesVector: Vector {
    let mlsWelcome: Hex
    let mlsGroupInfo: Hex
    let mlsKeyPackage: Hex
    let ratchetTree: Hex
    let groupSecrets: Hex
    let addProposal: Hex
    let updateProposal: Hex
    let removeProposal: Hex
    let preSharedKeyProposal: Hex
    let reInitProposal: Hex
    let externalInitProposal: Hex
    let groupContextExtensionsProposal: Hex
    let commit: Hex
    let publicMessageApplication: Hex
    let publicMessageProposal: Hex
    let publicMessageCommit: Hex
    let privateMessage: Hex
    var suite: UInt16? { nil }

    func verify(_ suite: any CipherSuite) throws {
        let messages: [(Hex, WireFormat)] = [
            (mlsWelcome, .welcome), (mlsGroupInfo, .groupInfo), (mlsKeyPackage, .keyPackage),
            (publicMessageApplication, .publicMessage), (publicMessageProposal, .publicMessage),
            (publicMessageCommit, .publicMessage), (privateMessage, .privateMessage),
        ]
        for (hex, format) in messages {
            let message = try MLSMessage(hex.bytes)
            try check(message.wireFormat == format, "wire format")
            try check(message.bytes == hex.bytes, "encoding of \(format)")
        }
        try check(try RatchetTreeNodes(decoding: ratchetTree.bytes).encoded == ratchetTree.bytes, "ratchet tree")
        try check(try Commit(decoding: commit.bytes).encoded == commit.bytes, "commit")
        let secrets = try GroupSecrets(Secret(copying: groupSecrets.bytes))
        try check(secrets.encode() == groupSecrets.bytes, "group secrets")
        let proposals: [(Hex, ProposalType)] = [
            (addProposal, .add), (updateProposal, .update), (removeProposal, .remove), (preSharedKeyProposal, .psk),
            (reInitProposal, .reInit), (externalInitProposal, .externalInit),
            (groupContextExtensionsProposal, .groupContextExtensions),
        ]
        for (hex, type) in proposals {
            var reader = TLSReader(hex.bytes)
            let proposal = try Proposal(type: type, from: &reader)
            try reader.finish()
            var writer = TLSWriter()
            proposal.encodeContent(into: &writer)
            try check(writer.bytes == hex.bytes, "proposal \(type.rawValue)")
        }
    }
}
