@testable import KithMLS
import Foundation
import Testing

/// SplitMix64: the same numbers for the same seed everywhere.
struct Chance: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// Many members, whatever comes: `KITH_SEED` names the history, `KITH_STEPS` its length.
@Suite struct RandomGroupTests {
    @Test func `all members agree on every epoch of a random history`() throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["KITH_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...1 << 48)
        let steps = environment["KITH_STEPS"].flatMap(Int.init) ?? 60
        print("KITH_SEED=\(seed) KITH_STEPS=\(steps)")
        var history = History(seed: seed)
        for step in 0..<steps {
            do {
                try history.step()
            } catch {
                Issue.record("step \(step) of KITH_SEED=\(seed): \(error)")
                return
            }
        }
        print(
            "\(history.epochs) epochs, \(history.largest) members at most, \(history.counts.sorted { $0.key < $1.key })"
        )
        #expect(history.epochs > steps / 2)
    }
}

private struct History {
    var chance: Chance
    var members: [Member] = []
    var names = 0
    var epochs = 0
    var largest = 1
    var counts: [String: Int] = [:]
    let psks: PreSharedKeys

    init(seed: UInt64) {
        chance = Chance(state: seed)
        var keys = PreSharedKeys()
        for id in 0..<4 as Range<UInt8> { keys.add(external: [id], Secret(copying: [id, 1, 2])) }
        psks = keys
    }

    mutating func newcomer() -> Member {
        names += 1
        return Member("member \(names)")
    }

    mutating func step() throws {
        if members.isEmpty {
            let first = newcomer()
            try first.create(handshake: Bool.random(using: &chance) ? .publicMessage : .privateMessage)
            members = [first]
        }
        switch Int.random(in: 0..<10, using: &chance) {
        case 0: try joinFromOutside()
        case 1 where members.count > 1: try replace()
        case 2: try talk()
        default: try commit()
        }
        largest = max(largest, members.count)
    }

    private mutating func count(_ what: String) { counts[what, default: 0] += 1 }

    /// Some proposals by reference, some by value, one commit, perhaps a rival that loses.
    private mutating func commit() throws {
        let committer = members[Int.random(in: 0..<members.count, using: &chance)]
        var removed: Set<UInt32> = []
        var added: [(member: Member, bundle: KeyPackageBundle)] = []
        var byValue: [Proposal] = []
        var updating: Set<UInt32> = []
        for _ in 0..<Int.random(in: 0...4, using: &chance) {
            let other = members[Int.random(in: 0..<members.count, using: &chance)]
            let isByValue = Bool.random(using: &chance)
            let proposer = members[Int.random(in: 0..<members.count, using: &chance)]
            var proposal: Proposal?
            switch Int.random(in: 0..<6, using: &chance) {
            case 0, 1,
                2 where members.count + added.count < 50:
                let member = newcomer()
                let bundle = try member.keyPackage()
                added.append((member, bundle))
                proposal = .add(bundle.keyPackage)
                count("add")
            case 3 where other !== committer && !updating.contains(other.leaf) && removed.insert(other.leaf).inserted:
                proposal = .remove(other.leaf)
                count("remove")
            case 4 where other !== committer && !removed.contains(other.leaf) && updating.insert(other.leaf).inserted:
                let message = try other.with { group throws in try group.proposeUpdate() }
                for member in members where member !== other { try member.queue(message) }
                count("update")
            case 5:
                let id = UInt8.random(in: 0..<4, using: &chance)
                proposal = .psk(proposer.with { $0.presharedKeyID(.external(id: [id])) })
                count("psk")
            default: break
            }
            guard let proposal else { continue }
            if isByValue {
                byValue.append(proposal)
            } else {
                let message = try proposer.with { group throws in try group.propose(proposal, at: noon) }
                for member in members where member !== proposer { try member.queue(message) }
            }
        }
        if Int.random(in: 0..<4, using: &chance) == 0 {
            let rival = members[Int.random(in: 0..<members.count, using: &chance)]
            if rival !== committer {
                var options = CommitOptions()
                options.includesQueuedProposals = false
                _ = try rival.with { group throws in try group.stageCommit(options, at: noon) }
                count("lost commit")
            }
        }
        var options = CommitOptions(byValue)
        options.forcesPath = Bool.random(using: &chance)
        let output = try committer.commit(options, psks: psks)
        try deliver(output.commit, from: committer)
        var join = JoinOptions()
        join.psks = psks
        for (member, bundle) in added { try member.join(output.welcome, bundle, join) }
        members.removeAll { member in member.with { $0.isRemoved } }
        members += added.map(\.member)
        try check()
    }

    private mutating func deliver(_ commit: MLSMessage, from committer: Member?) throws {
        for member in members where member !== committer { try member.follow(commit, psks: psks) }
        // Whoever got it twice takes no harm.
        if let member = members.first(where: { $0 !== committer }), !member.with({ $0.isRemoved }) {
            do {
                try member.follow(commit, psks: psks)
                Issue.record("a commit was followed twice")
            } catch MLSError.wrongEpoch {}
        }
        epochs += 1
    }

    private mutating func joinFromOutside() throws {
        let joiner = newcomer()
        let helper = members[Int.random(in: 0..<members.count, using: &chance)]
        let info = try helper.with { group throws in try group.groupInfo() }
        let join = try ExternalJoin(
            info, profile: joiner.profile, signatureKey: joiner.signatureKey,
            configuration: helper.with { $0.configuration })
        let commit = join.commit
        joiner.take(join.confirm())
        try deliver(commit, from: nil)
        members.append(joiner)
        count("external join")
        try check()
    }

    private mutating func replace() throws {
        let lost = members[Int.random(in: 0..<members.count, using: &chance)]
        guard let helper = members.first(where: { $0 !== lost }) else { return }
        let info = try helper.with { group throws in try group.groupInfo() }
        var options = ExternalJoinOptions()
        options.replacing = lost.leaf
        let join = try ExternalJoin(
            info, profile: lost.profile, signatureKey: lost.signatureKey, options,
            configuration: helper.with { $0.configuration })
        let commit = join.commit
        try deliver(commit, from: lost)
        lost.take(join.confirm())
        count("resync")
        try check()
    }

    /// Messages from one member in a random order, some lost, one twice.
    private mutating func talk() throws {
        let sender = members[Int.random(in: 0..<members.count, using: &chance)]
        var messages: [(text: [UInt8], message: MLSMessage)] = []
        for number in 0..<Int.random(in: 1...6, using: &chance) {
            let text = [UInt8](repeating: UInt8(number), count: Int.random(in: 0...300, using: &chance))
            messages.append((text, try sender.with { group throws in try group.encrypt(text) }))
        }
        for member in members where member !== sender {
            for (text, message) in messages.shuffled(using: &chance) where Int.random(in: 0..<5, using: &chance) > 0 {
                #expect(try member.read(message).data == text)
                #expect(throws: MLSError.messageKeyUsed) { try member.read(message) }
            }
        }
        count("talk")
    }

    private func check() throws {
        let first = members[0]
        let exported = try first.with { group throws in
            try group.export(label: "test", context: [], count: 32).reveal()
        }
        for member in members.dropFirst() {
            let other = try member.with { group throws in
                try group.export(label: "test", context: [], count: 32).reveal()
            }
            guard other == exported else { throw MLSError.treeHashMismatch }
        }
        let tree = first.with { $0.tree }
        for member in members {
            try member.with { group throws in try group.state.keys.check(in: tree) }
        }
    }
}
