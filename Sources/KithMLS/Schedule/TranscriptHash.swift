// The running hashes over all commits (RFC 9420 §8.2).
extension CipherSuite {
    /// `confirmed_transcript_hash` of the epoch that `commit` begins.
    package func confirmedTranscriptHash(interim: [UInt8], commit: AuthenticatedContent) -> [UInt8] {
        hash(commit.confirmedTranscriptHashInput(after: interim))
    }

    /// `interim_transcript_hash` of an epoch.
    package func interimTranscriptHash(confirmed: [UInt8], confirmationTag: [UInt8]) -> [UInt8] {
        var input = TLSWriter(capacity: confirmed.count + confirmationTag.count + 2)
        input.fixed(confirmed)
        input.opaque(confirmationTag)
        return hash(input.bytes)
    }
}
