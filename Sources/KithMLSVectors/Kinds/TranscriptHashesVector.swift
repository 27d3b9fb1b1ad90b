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
