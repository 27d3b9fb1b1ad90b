@testable import KithMLS

extension Rule {
    private static func change(
        _ stage: Stage, _ change: (inout PublicMessage) -> Void
    ) throws {
        let message = try stage.evil.with { group throws in try group.forged(.proposal(.remove(2))) }
        guard case .publicMessage(var content) = message else { return }
        change(&content)
        try stage.deliver(.publicMessage(content))
    }

    static let framing: [Rule] = [
        Rule("6", "a message belongs to the group", .wrongGroup) { stage in
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(.proposal(.remove(2)), change: { $0.groupID = [1] })
                })
        },
        Rule("12.1", "a proposal's epoch is the current one", .wrongEpoch) { stage in
            try stage.deliver(
                stage.evil.with { group throws in try group.forged(.proposal(.remove(2)), change: { $0.epoch += 1 }) })
        },
        Rule("12.4.2", "a commit's epoch is the current one", .wrongEpoch) { stage in
            var forgery = Forgery()
            forgery.content = { $0.epoch += 1 }
            try stage.commit(forgery)
        },
        Rule("6.1", "a member's message is from a leaf with a member", .senderNotMember) { stage in
            try stage.deliver(
                stage.evil.with { group throws in try group.forged(.proposal(.remove(2)), sender: .member(4)) })
        },
        Rule("6.1", "a message's signature is its sender's", .invalidMessageSignature) { stage in
            let key = cipherSuite().generateSignatureKey()
            try stage.deliver(
                stage.evil.with { group throws in try group.forged(.proposal(.remove(2)), key: key) })
        },
        Rule("6.1", "a commit's signature is its sender's", .invalidMessageSignature) { stage in
            var forgery = Forgery()
            forgery.content = { $0.sender = .member(3) }
            try stage.commit(forgery)
        },
        Rule("6.2", "a member's public message has the group's tag", .invalidMembershipTag) { stage in
            try change(stage) { $0.membershipTag?[0] ^= 1 }
        },
        Rule("6.2", "application data is not sent as a public message", .applicationDataNotEncrypted) { stage in
            try stage.deliver(stage.evil.with { group throws in try group.forged(.application([1])) })
        },
        Rule("6.1", "an external sender sends proposals only", .contentNotAllowedFromSender) { stage in
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(
                        .commit(Commit(proposals: [], path: nil)), sender: .external(0),
                        tag: [UInt8](repeating: 0, count: 32))
                })
        },
        Rule("6.1", "a client that proposes itself sends proposals only", .contentNotAllowedFromSender) { stage in
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(
                        .commit(Commit(proposals: [], path: nil)), sender: .newMemberProposal,
                        tag: [UInt8](repeating: 0, count: 32))
                })
        },
        Rule("6.1", "a client that joins by a commit sends a commit", .contentNotAllowedFromSender) { stage in
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(.proposal(.remove(2)), sender: .newMemberCommit)
                })
        },
        Rule("6.3.1", "padding is all zero", .nonZeroPadding) { stage in
            try stage.deliver(
                .privateMessage(
                    stage.evil.with { group throws in
                        try group.forgedPrivate(.application) { $0 += [0, 0, 1] }
                    }))
        },
        Rule("6.3.1", "what is attached is what was encrypted with it", .decryptionFailed) { stage in
            try stage.deliver(
                .privateMessage(
                    stage.evil.with { group throws in
                        var message = try group.forgedPrivate(.application)
                        message.authenticatedData = [1]
                        return message
                    }))
        },
        Rule("6.3.1", "the signature within a private message is its sender's", .invalidMessageSignature) { stage in
            try stage.deliver(
                .privateMessage(
                    stage.evil.with { group throws in
                        try group.forgedPrivate(.application) { $0[1] ^= 1 }
                    }))
        },
        Rule("6.3.2", "sender data names a leaf with a member", .senderNotMember) { stage in
            try stage.deliver(
                .privateMessage(stage.evil.with { group throws in try group.forgedPrivate(.application, leaf: 5) }))
        },
        Rule("6.3.2", "sender data is encrypted by the group", .decryptionFailed) { stage in
            try stage.deliver(
                .privateMessage(
                    stage.evil.with { group throws in
                        var message = try group.forgedPrivate(.application)
                        message.encryptedSenderData[3] ^= 1
                        return message
                    }))
        },
        Rule("6.3.2", "sender data is as long as its tag at least", .decryptionFailed) { stage in
            try stage.deliver(
                .privateMessage(
                    stage.evil.with { group throws in
                        var message = try group.forgedPrivate(.application)
                        message.encryptedSenderData = [1]
                        return message
                    }))
        },
        Rule("15.3", "a late message's sender data names a leaf with a member", .senderNotMember) { stage in
            let message = try stage.evil.with { group throws in try group.forgedPrivate(.application, leaf: 5) }
            let commit = try stage.evil.commit().commit
            for member in stage.members.dropFirst() { try member.follow(commit) }
            try stage.deliver(.privateMessage(message))
        },
        Rule("6.2", "the client sends no application data as a public message", .applicationDataNotEncrypted) { stage in
            try stage.victim.with { group throws in
                var content = try group.signed(.application([1]), [], .publicMessage)
                _ = try group.protect(&content)
            }
        },
        Rule("9.1", "a generation is not too far ahead", .generationTooFarAhead) { stage in
            try stage.deliver(
                .privateMessage(
                    stage.evil.with { group throws in
                        try group.forgedPrivate(.application, generation: .max)
                    }))
        },
        Rule("9.2", "no message key is used twice", .messageKeyUsed) { stage in
            let message = try stage.evil.with { group throws in try group.encrypt([1]) }
            try stage.deliver(message)
            for member in stage.members.dropFirst(2) { _ = try member.read(message) }
            try stage.deliver(message)
        },
    ]
}
