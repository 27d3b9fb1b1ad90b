import Testing

@testable import KithMLS

/// Numbers by which a few bytes ask for much: all are refused before anything is reserved or derived for them, or these
/// tests would not end.
@Suite struct HostileSizeTests {
    @Test func `a vector of four gigabytes is refused by its length`() {
        // Four bytes can say 2^30-1; the eight-byte form, with 2^32 in it, is none of RFC 9420's.
        for header in [[0xBF, 0xFF, 0xFF, 0xFF], [0xC0, 0, 0, 1, 0, 0, 0, 0]] as [[UInt8]] {
            let bytes = header + [1, 2, 3]
            #expect(throws: MLSError.self) { try RatchetTree(bytes) }
            #expect(throws: MLSError.self) { try Commit(decoding: bytes) }
            #expect(throws: MLSError.self) { try MLSMessage([0, 1, 0, 1] + bytes) }
            #expect(throws: MLSError.self) { try MLSMessage([0, 1, 0, 3, 0, 1] + bytes) }
        }
    }

    @Test func `data that no message can carry is refused, and the group goes on`() throws {
        let members = try party(["anna", "ben"])
        let much = [UInt8](repeating: 0, count: FramedContent.maximumLength)
        for (data, attached) in [(much + [0], []), ([0], much)] {
            #expect(throws: MLSError.messageTooLong) {
                _ = try members[0].with { group in try group.encrypt(data, authenticatedData: attached) }
            }
        }
        var options = CommitOptions()
        options.authenticatedData = much + [0]
        #expect(throws: MLSError.messageTooLong) { _ = try members[0].commit(options) }
        let message = try members[0].with { group in try group.encrypt([1, 2]) }
        #expect(try members[1].read(message).data == [1, 2])
        try members[1].follow(members[0].commit().commit)
        try agree(members)
    }

    @Test func `a tree that says to have a million leaves and has none of them is refused`() {
        #expect(throws: MLSError.truncated) { try RatchetTree([0x80, 0x20, 0, 0, 0, 0]) }
        // Two million blank nodes and no leaf.
        #expect(throws: MLSError.blankTreeEnd) {
            try RatchetTree([0x80, 0x1E, 0x84, 0x80] + [UInt8](repeating: 0, count: 2_000_000))
        }
    }

    @Test func `a message of the last generation is refused without a step of the ratchet`() throws {
        var tree = SecretTree(cipherSuite(), encryptionSecret: .random(32), leaves: 2)
        for generation in [1_025, 1 << 20, .max] as [UInt32] {
            #expect(throws: MLSError.generationTooFarAhead) {
                try tree.key(leaf: 1, .application, generation: generation, limits: RatchetLimits())
            }
        }
        // Nothing was used up.
        let step = try tree.key(leaf: 1, .application, generation: 0, limits: RatchetLimits())
        tree.apply(step)
        #expect(step.generation == 0)
    }
}
