import KithMLS

/// A delivery service with made-up records: for fuzzers.
package enum DeliveryInspection {
    /// Gives a new service these records, as its file has them, and asks it for all that they changed.
    ///
    /// - Returns: how many of them it took.
    package static func take(_ records: [[UInt8]]) -> UInt64 {
        var state = DeliveryState()
        for bytes in records {
            // A refusal is an answer.
            guard let record = try? DeliveryState.Record(decoding: bytes) else { continue }
            guard let again = try? DeliveryState.Record(decoding: record.encoded), again.encoded == record.encoded
            else { preconditionFailure("A record survives") }
            if case .message(let groupID, let message) = record { _ = try? state.answer(message, to: groupID) }
            if case .groupInfo(let groupID, let info, _) = record { _ = try? state.standing(ofInfo: info, of: groupID) }
            guard (try? DeliveryState.check(record)) != nil else { continue }
            guard (try? state.apply(record)) != nil else { preconditionFailure("What was checked can be kept") }
            switch record {
            case .message(let groupID, let message):
                for position in [0, UInt64.max] { _ = state.messages(of: groupID, from: position, limit: 1) }
                let count = state.messages(of: groupID, from: 0, limit: .max).count
                precondition(count > 0 && count <= records.count, "A message is kept once")
                if let answer = try? state.answer(message, to: groupID) {
                    precondition(!answer.isNew, "What is kept is not new")
                }
            case .welcome(let message): precondition(state.isKnown(welcome: message), "A Welcome is known")
            case .keyPackage(let client, _), .taken(let client):
                let (count, hasLastResort) = state.keyPackageCount(of: client)
                precondition(
                    (state.nextKeyPackage(of: client) != nil) == (count > 0 || hasLastResort), "The next is one")
                _ = state.welcomes(for: client, from: 0, limit: 10)
            case .groupInfo(let groupID, let info, _):
                precondition(
                    state.groupInfo(of: groupID) != nil || (try? state.standing(ofInfo: info, of: groupID)) == .void,
                    "A group has a state, or that of the epoch before")
            case .refusal(let groupID, let word):
                if case .some(.good) = try? state.word(word, of: groupID) {
                    preconditionFailure("A word counts once")
                }
            }
        }
        return state.count
    }
}
