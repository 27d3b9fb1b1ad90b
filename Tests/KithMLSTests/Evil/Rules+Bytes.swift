@testable import KithMLS

extension Rule {
    /// Decodes a proposal whose bytes were changed.
    private static func decode(_ bytes: [UInt8]) throws { _ = try Proposal(decoding: bytes) }

    private static func node(_ change: (inout [UInt8]) -> Void) throws {
        let leaf = try Stage().package().leafNode
        var bytes = leaf.encoded
        change(&bytes)
        _ = try LeafNode(decoding: bytes)
    }

    static let bytes: [Rule] = [
        Rule("2.1", "a value does not end before it is whole", .truncated) { _ in try decode([0, 3, 0, 0, 0]) },
        Rule("2.1", "nothing follows a value that takes a whole message", .trailingBytes) { _ in
            try decode([0, 3, 0, 0, 0, 1, 9])
        },
        Rule("2.1.2", "a vector's length is not longer than what is left", .truncated) { _ in
            try decode([0, 6, 0xBF, 0xFF, 0xFF, 0xFF, 1, 2, 3])
        },
        Rule("2.1.2", "a vector's length does not begin with the bits 11", .invalidVectorLength) { _ in
            try decode([0, 6, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])
        },
        Rule("2.1.2", "a vector's length has its shortest form, of two bytes", .nonMinimalVectorLength) { _ in
            try decode([0, 6, 0x40, 1, 0])
        },
        Rule("2.1.2", "a vector's length has its shortest form, of four bytes", .nonMinimalVectorLength) { _ in
            try decode([0, 6, 0x80, 0, 0, 1, 0])
        },
        Rule("2.1.1", "an optional value is present or absent", .invalidOptional) { _ in
            _ = try Commit(decoding: [0, 2])
        },
        Rule("6", "a sender has a known type", .invalidSenderType) { _ in
            _ = try FramedContent(decoding: [0, 0, 0, 0, 0, 0, 0, 0, 0, 5])
        },
        Rule("6", "content has a known type", .invalidContentType) { _ in
            _ = try FramedContent(decoding: [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 4])
        },
        Rule("6", "a message is of this version", .unsupportedVersion) { _ in _ = try MLSMessage([0, 2, 0, 1]) },
        Rule("6", "a message has a known wire format", .unexpectedWireFormat) { _ in _ = try MLSMessage([0, 1, 0, 9]) },
        Rule("7.1", "unmerged leaves stand in rising order", .unsortedUnmergedLeaves) { _ in
            _ = try ParentNode(decoding: [0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 1])
        },
        Rule("7.1", "no unmerged leaf stands twice", .unsortedUnmergedLeaves) { _ in
            _ = try ParentNode(decoding: [0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 2])
        },
        Rule("7.2", "a leaf has a known source", .invalidLeafNodeSource) { _ in
            _ = try LeafNode(decoding: [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4])
        },
        Rule("7.8", "a node has a known type", .invalidNodeType) { _ in _ = try RatchetTreeNode(decoding: [3]) },
        Rule("8.4", "a pre-shared key has a known type", .invalidPSKType) { _ in try decode([0, 4, 3, 0, 0]) },
        Rule("8.4", "a resumption key has a known usage", .invalidPSKType) { _ in
            try decode([0, 4, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        },
        Rule("12.4", "a proposal in a commit is whole or a reference", .invalidProposalOrRefType) { _ in
            _ = try Commit(decoding: [1, 3, 0])
        },
    ]
}
