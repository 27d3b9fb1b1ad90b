@testable import KithMLS

extension Rule {
    /// Somebody without keys starts to follow the group by a group info that was changed on its way.
    private static func observe(
        _ stage: Stage, _ change: (inout GroupInfo) -> Void = { _ in }
    ) throws -> GroupObserver {
        var info = try stage.evil.with { group throws in try group.groupInfo() }
        change(&info)
        return try GroupObserver(info, at: noon, configuration: configuration())
    }

    /// An observer takes in a message of the evil member.
    private static func observe(_ stage: Stage, _ message: MLSMessage) throws {
        var observer = try observe(stage)
        guard case .publicMessage(let message) = message else { return }
        _ = try observer.process(message, at: noon)
    }

    static let observing: [Rule] = [
        Rule("3.2", "an observer checks the signature of the group info it starts with", .invalidGroupInfoSignature) {
            stage in
            _ = try observe(stage) { $0.signature[0] ^= 1 }
        },
        Rule("3.2", "an observer checks that the group info's signer is a member", .signerNotMember) { stage in
            _ = try observe(stage) { $0.signer = 7 }
        },
        Rule("3.2", "an observer has the group's tree", .treeMissing) { stage in
            _ = try observe(stage) { $0.extensions = [] }
        },
        Rule("3.2", "an observer takes messages of the group", .wrongGroup) { stage in
            try observe(
                stage,
                stage.evil.with { group throws in
                    try group.forged(.proposal(.remove(2)), change: { $0.groupID = [1] })
                })
        },
        Rule("3.2", "an observer takes messages of the current epoch", .wrongEpoch) { stage in
            try observe(
                stage,
                stage.evil.with { group throws in try group.forged(.proposal(.remove(2)), change: { $0.epoch += 1 }) })
        },
        Rule("3.2", "an observer checks signatures", .invalidMessageSignature) { stage in
            let key = cipherSuite().generateSignatureKey()
            try observe(stage, stage.evil.with { group throws in try group.forged(.proposal(.remove(2)), key: key) })
        },
        Rule("3.2", "an observer takes no application data in the clear", .applicationDataNotEncrypted) { stage in
            try observe(stage, stage.evil.with { group throws in try group.forged(.application([1])) })
        },
        Rule("3.2", "an observer checks proposals", .removeOfBlankLeaf) { stage in
            try observe(stage, stage.evil.with { group throws in try group.forged(.proposal(.remove(9))) })
        },
        Rule("3.2", "an observer keeps no more proposals than it should", .tooManyProposals) { stage in
            var observer = try observe(stage)
            observer.configuration.queuedProposals = 1
            for leaf in 2...3 as ClosedRange<UInt32> {
                let message = try stage.evil.with { group throws in try group.forged(.proposal(.remove(leaf))) }
                guard case .publicMessage(let proposal) = message else { return }
                _ = try observer.process(proposal, at: noon)
            }
        },
        Rule("3.2", "an observer checks commits", .removeOfCommitter) { stage in
            try observe(stage, stage.evil.with { group throws in try group.forged(Forgery([.remove(0)])) })
        },
    ]
}
