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
        let steps = environment["KITH_STEPS"].flatMap(Int.init) ?? 80
        print("KITH_SEED=\(seed) KITH_STEPS=\(steps)")
        var history = try History(seed: seed)
        for step in 0..<steps {
            do {
                try history.step()
            } catch {
                Issue.record("step \(step) of KITH_SEED=\(seed): \(error)")
                return
            }
        }
        try history.settle()
        print(
            "\(history.epochs) epochs, \(history.largest) members at most, \(history.counts.sorted { $0.key < $1.key })"
        )
        #expect(history.epochs > steps / 4)
    }
}

/// One of the group's clients, and what was sent to it and has not arrived.
private final class Device {
    let member: Member
    var mailbox: [Envelope] = []
    /// Proposals whose sending failed, to be sent again before it commits.
    var unsent: [Envelope] = []
    /// The messages that it has read, which it reads once.
    var read: Set<Int> = []

    private let storage = MemoryGroupStorage()
    private var version: UInt64?

    init(_ member: Member) { self.member = member }

    /// Writes what has changed, as must be done before anything that follows from it leaves.
    func save() throws {
        var changes = member.with { $0.takeChanges() }
        guard !changes.isEmpty else { return }
        changes.expectedVersion = version
        try storage.commit(StorageChanges(changes))
        version = changes.nextVersion
    }

    /// Forgets everything but what is stored, and starts again.
    func crash() throws {
        let (groupID, configuration) = member.with { ($0.groupID, $0.configuration) }
        guard let stored = try storage.load(groupID) else { throw Failure("\(member.name) has stored nothing") }
        member.take(try Group.restored(from: stored, configuration: configuration))
    }

    var epoch: UInt64 { member.epoch }
    var isRemoved: Bool { member.with { $0.isRemoved } }
}

/// A message on its way.
private struct Envelope {
    let number: Int
    let bytes: [UInt8]
    let epoch: UInt64
    /// The text, if it is the application's.
    let text: [UInt8]?
}

/// A group whose messages are late, out of order, doubled and lost, over a delivery service that takes one commit for
/// each epoch and loses no other handshake message for some and not for all.
private struct History {
    var chance: Chance
    var devices: [Device] = []
    /// The largest number of members, drawn from 2 to 50.
    let crowd: Int
    var epochs = 0
    var largest = 1
    var counts: [String: Int] = [:]
    let psks: PreSharedKeys
    /// Clients that were proposed and not yet added, by signature key.
    private var offers: [SignaturePublicKey: (member: Member, bundle: KeyPackageBundle)] = [:]
    /// The exports of each epoch of each group, from the first device to get there.
    private var exported: [GroupEpoch: [UInt8]] = [:]
    private var names = 0
    private var envelopes = 0
    /// The newest epoch: what the delivery service knows.
    private var epoch: UInt64 = 0

    private struct GroupEpoch: Hashable {
        let group: [UInt8]
        let epoch: UInt64
    }

    init(seed: UInt64) throws {
        chance = Chance(state: seed)
        crowd = Int.random(in: 2...50, using: &chance)
        var keys = PreSharedKeys()
        for id in 0..<4 as Range<UInt8> { keys.add(external: [id], Secret(copying: [id, 1, 2])) }
        psks = keys
        let first = newcomer()
        try first.create(handshake: Bool.random(using: &chance) ? .publicMessage : .privateMessage)
        try enter(Device(first))
    }

    private mutating func newcomer() -> Member {
        names += 1
        return Member("member \(names)")
    }

    private mutating func any<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: elements.indices, using: &chance)]
    }

    private mutating func odds(_ one: Int, in all: Int) -> Bool { Int.random(in: 0..<all, using: &chance) < one }

    private mutating func count(_ what: String) { counts[what, default: 0] += 1 }

    mutating func step() throws {
        switch Int.random(in: 0..<26, using: &chance) {
        case 0, 1: try joinFromOutside()
        case 2: try resync()
        case 3, 4, 5, 6: try talk()
        case 7: try settle()
        case 24, 25:
            try any(devices).crash()
            count("crash")
        case 8: if odds(1, in: 4) { try succeed() } else { try branch() }
        case 9, 10, 11, 12, 13: try propose()
        default: try commit()
        }
        for device in devices where odds(1, in: 3) { try deliver(to: device) }
        devices.removeAll { $0.isRemoved }
        largest = max(largest, devices.count)
    }

    /// Delivers everything to everybody.
    mutating func settle() throws {
        for device in devices { try deliver(to: device) }
        devices.removeAll { $0.isRemoved }
        for device in devices {
            guard device.epoch == epoch, device.mailbox.isEmpty else { throw Failure("somebody is left behind") }
        }
    }
}

private struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

// Delivery.
extension History {
    private mutating func envelope(_ message: MLSMessage, from epoch: UInt64, text: [UInt8]? = nil) -> Envelope {
        envelopes += 1
        return Envelope(number: envelopes, bytes: message.bytes, epoch: epoch, text: text)
    }

    /// Sends a message to everybody; one of the application is lost for some.
    private mutating func post(_ envelope: Envelope) {
        for device in devices where envelope.text == nil || odds(5, in: 6) { device.mailbox.append(envelope) }
    }

    /// Offers a commit to the delivery service, which takes the first of an epoch.
    private mutating func submit(_ commit: MLSMessage, from epoch: UInt64) -> Bool {
        guard epoch == self.epoch else { return false }
        self.epoch += 1
        epochs += 1
        post(envelope(commit, from: epoch))
        return true
    }

    /// Hands a device what waits for it, in any order and some of it twice; what comes too early is handed in again.
    private mutating func deliver(to device: Device) throws {
        var waiting = device.mailbox
        device.mailbox = []
        for envelope in waiting where odds(1, in: 6) {
            waiting.append(envelope)
            count("doubled")
        }
        waiting.shuffle(using: &chance)
        var isStuck = false
        while !waiting.isEmpty, !isStuck {
            isStuck = true
            var early: [Envelope] = []
            for envelope in waiting {
                guard !device.isRemoved else { return }
                if try hand(envelope, to: device) { isStuck = false } else { early.append(envelope) }
            }
            waiting = early
        }
        guard waiting.isEmpty else { throw Failure("\(device.member.name) waits for \(waiting.count) messages") }
    }

    /// Hands a device one message; false when it comes too early.
    private mutating func hand(_ envelope: Envelope, to device: Device) throws -> Bool {
        let before = device.epoch
        do {
            let psks = psks
            try device.member.with { group throws in
                switch try group.process(MLSMessage(envelope.bytes), psks: psks, at: noon) {
                case .commit(let staged): _ = try group.confirm(staged, at: noon)
                case .own(let own) where own.kind == .pendingCommit: _ = try group.confirmPendingCommit(at: noon)
                case .application(let received):
                    guard received.data == envelope.text else { throw Failure("other words came than were sent") }
                default: break
                }
            }
        } catch MLSError.wrongEpoch {
            if envelope.epoch > before { count("early") }
            return envelope.epoch <= before
        } catch MLSError.unknownProposal {
            count("early")
            return false
        } catch MLSError.messageKeyUsed {
            guard device.read.contains(envelope.number) else { throw Failure("a key was gone before its message came") }
            return true
        }
        if odds(1, in: 80) {
            // It comes again, as nobody said that it had arrived.
            try device.crash()
            count("crash with a message in hand")
            return try hand(envelope, to: device)
        }
        try device.save()
        device.read.insert(envelope.number)
        guard !device.isRemoved else { return true }
        if device.epoch != before { try compare(device) }
        return true
    }

    /// Compares what a device exports in its epoch with what others did.
    private mutating func compare(_ device: Device) throws {
        let (place, secret, tree) = try device.member.with { group throws(MLSError) in
            (
                GroupEpoch(group: group.groupID, epoch: group.epoch),
                try group.export(label: "test", context: [], count: 32).reveal(), group.tree
            )
        }
        guard exported[place, default: secret] == secret else { throw Failure("\(device.member.name) disagrees") }
        exported[place] = secret
        try device.member.with { group throws(MLSError) in try group.state.keys.check(in: tree) }
    }

    private mutating func enter(_ device: Device) throws {
        devices.append(device)
        try device.save()
        try compare(device)
    }

    /// A device that has everything that was sent to it, and has sent everything of its own.
    private mutating func current() throws -> Device {
        let device = any(devices)
        try deliver(to: device)
        guard !device.isRemoved else {
            devices.removeAll { $0 === device }
            return try current()
        }
        for envelope in device.unsent { post(envelope) }
        device.unsent = []
        return device
    }

    /// The leaf of a device in a tree, if it has one.
    private func leaf(of device: Device, in tree: RatchetTree) -> UInt32? {
        tree.members.first { $0.leaf.signatureKey == device.member.signatureKey.publicKey }?.index
    }
}

// What members do.
extension History {
    /// A proposal of somebody, who may be behind; a few fail to be sent.
    private mutating func propose() throws {
        let sender = any(devices)
        guard !sender.isRemoved, !sender.member.with({ $0.hasPendingCommit }) else { return }
        let tree = sender.member.with { $0.tree }
        let (message, name) = try proposal(of: sender, tree)
        guard let message else { return }
        try sender.save()
        let envelope = envelope(message, from: sender.epoch)
        guard !odds(1, in: 8) else {
            sender.unsent.append(envelope)
            return count("unsent proposal")
        }
        count("\(name) by reference")
        post(envelope)
    }

    private mutating func proposal(of sender: Device, _ tree: RatchetTree) throws -> (MLSMessage?, String) {
        if odds(1, in: 4) {
            return (try sender.member.with { group throws in try group.proposeUpdate() }, "update")
        }
        guard let (proposal, name) = try draw(for: sender, tree) else { return (nil, "") }
        return (try sender.member.with { group throws in try group.propose(proposal, at: noon) }, name)
    }

    /// An Add, a Remove, a pre-shared key or new parameters.
    private mutating func draw(for sender: Device, _ tree: RatchetTree) throws -> (Proposal, String)? {
        switch Int.random(in: 0..<6, using: &chance) {
        case 0, 1, 2:
            guard tree.memberCount + offers.count < crowd else { return nil }
            let member = newcomer()
            let bundle = try member.keyPackage()
            offers[member.signatureKey.publicKey] = (member, bundle)
            return (.add(bundle.keyPackage), "add")
        case 3:
            let other = any(devices)
            guard other !== sender, tree.memberCount > 2, let leaf = leaf(of: other, in: tree) else { return nil }
            return (.remove(leaf), "remove")
        case 4:
            let id = UInt8.random(in: 0..<4, using: &chance)
            return (.psk(sender.member.with { $0.presharedKeyID(.external(id: [id])) }), "psk")
        default:
            let required = RequiredCapabilities(credentials: odds(1, in: 2) ? [.basic] : [])
            return (.groupContextExtensions([.requiredCapabilities(required)]), "parameters")
        }
    }

    /// A commit, and sometimes a rival's, of which the delivery service takes one.
    private mutating func commit() throws {
        let committer = try current()
        let tree = committer.member.with { $0.tree }
        var options = CommitOptions()
        var names: [String] = []
        for _ in 0..<Int.random(in: 0...3, using: &chance) {
            // One of each kind: what goes with what is another test's.
            guard let (proposal, name) = try draw(for: committer, tree), !names.contains(name) else { continue }
            names.append(name)
            options.proposals.append(proposal)
        }
        options.forcesPath = odds(1, in: 2)
        var isAhead = true
        if odds(1, in: 4), devices.count > 1 {
            let rival = try current()
            if rival !== committer, !rival.isRemoved, !rival.member.with({ $0.hasPendingCommit }) {
                let commit = try stage(rival, CommitOptions())
                if odds(1, in: 2) { isAhead = !submit(commit.commit, from: rival.epoch) }
                if isAhead {
                    rival.member.with { $0.discardPendingCommit() }
                    try rival.save()
                    count("lost commit")
                } else {
                    try welcome(commit)
                }
            }
        }
        guard !committer.isRemoved, !committer.member.with({ $0.hasPendingCommit }) else { return }
        let output = try stage(committer, options)
        guard submit(output.commit, from: committer.epoch) else {
            // It learns so from the winner's commit.
            return count("lost commit")
        }
        for name in names { count(name) }
        try welcome(output)
    }

    private func stage(_ device: Device, _ options: CommitOptions) throws -> CommitOutput {
        let psks = psks
        let output = try device.member.with { group throws in
            try group.stageCommit(options, psks: psks, at: noon)
        }
        try device.save()
        return output
    }

    /// Lets the clients of a commit join that was taken.
    private mutating func welcome(_ output: CommitOutput) throws {
        guard let message = output.welcome else { return offers = [:] }
        var options = JoinOptions()
        options.psks = psks
        for added in output.change.added {
            guard let (member, bundle) = offers.removeValue(forKey: added.node.signatureKey) else { continue }
            try member.join(message, bundle, options, handshake: odds(1, in: 2) ? .publicMessage : .privateMessage)
            try enter(Device(member))
        }
        // Whoever was proposed in the epoch that is over must be proposed again.
        offers = [:]
    }

    private mutating func joinFromOutside() throws {
        let helper = try current()
        guard helper.member.memberCount < crowd else { return }
        let joiner = newcomer()
        let info = try helper.member.with { group throws in try group.groupInfo() }
        let join = try ExternalJoin(
            info, profile: joiner.profile, signatureKey: joiner.signatureKey,
            configuration: helper.member.with { $0.configuration })
        guard submit(join.commit, from: info.groupContext.epoch) else { throw Failure("the helper was not current") }
        offers = [:]
        joiner.take(join.confirm())
        try enter(Device(joiner))
        count("external join")
    }

    /// Somebody loses everything and comes back by its own commit.
    private mutating func resync() throws {
        let helper = try current()
        let lost = any(devices)
        let tree = helper.member.with { $0.tree }
        guard lost !== helper, let leaf = leaf(of: lost, in: tree) else { return }
        let info = try helper.member.with { group throws in try group.groupInfo() }
        var options = ExternalJoinOptions()
        options.replacing = leaf
        let join = try ExternalJoin(
            info, profile: lost.member.profile, signatureKey: lost.member.signatureKey, options,
            configuration: helper.member.with { $0.configuration })
        devices.removeAll { $0 === lost }
        guard submit(join.commit, from: info.groupContext.epoch) else { throw Failure("the helper was not current") }
        offers = [:]
        lost.member.take(join.confirm())
        try enter(Device(lost.member))
        count("resync")
    }

    /// Some words of one member, who may be behind.
    private mutating func talk() throws {
        let sender = any(devices)
        for number in 0..<Int.random(in: 1...6, using: &chance) {
            let text = [UInt8](repeating: UInt8(number), count: Int.random(in: 0...300, using: &chance))
            guard sender.member.with({ $0.queuedProposals.isEmpty && !$0.isRemoved }) else { return }
            let message = try sender.member.with { group throws in try group.encrypt(text) }
            try sender.save()
            post(envelope(message, from: sender.epoch, text: text))
        }
        count("talk")
    }

    /// Some members begin a group of their own, and leave it again.
    private mutating func branch() throws {
        try settle()
        let chosen = devices.shuffled(using: &chance).prefix(4)
        let next = chosen.map { Member($0.member.name) }
        try found(Array(chosen), next) { group, packages throws(MLSError) in
            try group.foundBranch(
                keyPackages: packages, profile: next[0].profile, signatureKey: next[0].signatureKey,
                lifetime: lifetime(), at: noon)
        }
        try agree(next)
        count("branch")
    }

    /// The group ends, and all go on in another.
    private mutating func succeed() throws {
        try settle()
        let reInit = ReInit(
            groupID: Array("group \(envelopes)".utf8), cipherSuite: devices[0].member.suite.id)
        let output = try stage(devices[0], CommitOptions([.reInit(reInit)]))
        _ = submit(output.commit, from: epoch)
        try settle()
        let next = devices.map { Member($0.member.name) }
        try found(devices, next) { group, packages throws(MLSError) in
            try group.foundSuccessor(
                keyPackages: packages, profile: next[0].profile, signatureKey: next[0].signatureKey,
                lifetime: lifetime(), at: noon)
        }
        devices = []
        offers = [:]
        epoch = next[0].epoch
        for member in next { try enter(Device(member)) }
        count("successor")
    }

    /// Lets `next` be in a group that `devices` come from; the first founds it.
    private func found(
        _ devices: [Device], _ next: [Member],
        _ make: (inout Group, [KeyPackage]) throws(MLSError) -> GroupFounding
    ) throws {
        let bundles = try next.dropFirst().map { try $0.keyPackage() }
        let founding = try devices[0].member.with { group throws in try make(&group, bundles.map(\.keyPackage)) }
        let welcome = founding.output.welcome
        next[0].take(founding.take())
        _ = try next[0].with { group throws in try group.confirmPendingCommit(at: noon) }
        var options = JoinOptions()
        for (index, member) in next.dropFirst().enumerated() {
            options.lineages = [devices[index + 1].member.with { $0.lineage }]
            try member.join(welcome, bundles[index], options)
        }
    }
}
