import KithMLS

struct TranscriptHashesVector: Vector {
    let cipherSuite: UInt16
    let confirmationKey: Hex
    let authenticatedContent: Hex
    let interimTranscriptHashBefore: Hex
    let confirmedTranscriptHashAfter: Hex
    let interimTranscriptHashAfter: Hex
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        let content = try AuthenticatedContent(decoding: authenticatedContent.bytes)
        guard case .commit = content.content.content, let tag = content.confirmationTag else {
            throw VectorFailure("not a commit")
        }
        let confirmed = suite.confirmedTranscriptHash(interim: interimTranscriptHashBefore.bytes, commit: content)
        try check(confirmed == confirmedTranscriptHashAfter.bytes, "confirmed_transcript_hash")
        try check(suite.mac(Secret(copying: confirmationKey.bytes), confirmed) == tag, "confirmation_tag")
        try check(
            suite.interimTranscriptHash(confirmed: confirmed, confirmationTag: tag)
                == interimTranscriptHashAfter.bytes, "interim_transcript_hash")
    }
}

extension TranscriptHashesVector {
    static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> TranscriptHashesVector {
        var content = AuthenticatedContent(
            wireFormat: draw.flag() ? .publicMessage : .privateMessage,
            content: FramedContent(
                groupID: draw.bytes(draw.number(1...32)), epoch: draw.number(0...UInt64.max),
                sender: .member(draw.number(0...1_000)), authenticatedData: draw.bytes(draw.number(0...32)),
                content: .commit(Commit(proposals: [.reference(draw.bytes(suite.secretLength))], path: nil))))
        try content.sign(suite, with: suite.generateSignatureKey(), context: draw.bytes(100))
        let before = draw.hex(suite.secretLength)
        let key = draw.hex(suite.secretLength)
        let confirmed = suite.confirmedTranscriptHash(interim: before.bytes, commit: content)
        let tag = suite.mac(Secret(copying: key.bytes), confirmed)
        content.confirmationTag = tag
        return TranscriptHashesVector(
            cipherSuite: suite.id.rawValue, confirmationKey: key, authenticatedContent: Hex(content.encoded),
            interimTranscriptHashBefore: before, confirmedTranscriptHashAfter: Hex(confirmed),
            interimTranscriptHashAfter: Hex(suite.interimTranscriptHash(confirmed: confirmed, confirmationTag: tag)))
    }
}
