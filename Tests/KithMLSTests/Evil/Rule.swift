@testable import KithMLS
import Testing

/// One sentence of RFC 9420 that must hold, the error that names its violation, and a violation of exactly that.
struct Rule: Sendable, CustomTestStringConvertible {
    let section: String
    let sentence: String
    let error: MLSError
    let attempt: @Sendable (Stage) throws -> Void

    init(
        _ section: String, _ sentence: String, _ error: MLSError, _ attempt: @escaping @Sendable (Stage) throws -> Void
    ) {
        self.section = section
        self.sentence = sentence
        self.error = error
        self.attempt = attempt
    }

    var testDescription: String { "§\(section) \(sentence)" }

    static let all: [Rule] =
        bytes + framing + leaves + keyPackages + proposals + externalProposals + commits + externalCommits + joining
        + successors + observing + use
}

/// A group of four whose first member forges, the second being the one who must notice.
final class Stage {
    private(set) lazy var members: [Member] = start()
    private var extensions: [Extension] = []
    private var capabilities = Capabilities()
    private(set) var isSet = false
    /// True when commits are so large that the victim checks them on two threads.
    private let isLarge: Bool

    init(isLarge: Bool = false) { self.isLarge = isLarge }

    private func start() -> [Member] {
        isSet = true
        do {
            let members = try party(
                ["evil", "victim", "third", "fourth"], extensions: extensions, handshake: .publicMessage,
                capabilities: capabilities)
            if isLarge { members[1].with { $0.configuration.executor = ThreadedExecutor() } }
            return members
        } catch { preconditionFailure("the honest group could not be made: \(error)") }
    }

    /// Gives the group parameters, before it is used.
    func use(_ extensions: [Extension], _ capabilities: Capabilities = Capabilities()) {
        self.extensions = extensions
        self.capabilities = capabilities
    }

    var evil: Member { members[0] }
    var victim: Member { members[1] }

    /// The victim takes in a message, whatever it is.
    func deliver(_ message: MLSMessage) throws {
        try victim.with { group throws in
            switch try group.process(MLSMessage(message.bytes), at: noon) {
            case .commit(let staged): _ = try group.confirm(staged)
            default: break
            }
        }
    }

    /// The evil member commits.
    func commit(_ forgery: Forgery) throws {
        var forgery = forgery
        if isLarge {
            forgery.content = { [change = forgery.content] in
                $0.authenticatedData = [UInt8](repeating: 1, count: 1 << 16)
                change(&$0)
            }
        }
        try deliver(try evil.with { group throws in try group.forged(forgery) })
    }

    /// The evil member commits proposals by value, with a path.
    func commit(_ proposals: Proposal...) throws { try commit(Forgery(proposals)) }

    /// The evil member proposes.
    func propose(_ proposal: Proposal) throws {
        try deliver(try evil.with { group throws in try group.forged(.proposal(proposal)) })
    }

    /// An outsider joins by its own commit.
    func join(_ forgery: Forgery, by joiner: Member = Member("joiner"), externalInit: Bool = true) throws {
        try deliver(
            try evil.with { group throws in try group.forgedJoin(forgery, by: joiner, externalInit: externalInit) })
    }

    /// An honest proposal of the third member that both the evil one and the victim know.
    func honest(_ proposal: Proposal) throws -> ProposalReference {
        let message = try members[2].with { group throws in try group.propose(proposal, at: noon) }
        try evil.queue(message)
        try victim.queue(message)
        return try #require(evil.with { $0.queuedProposals.last?.reference })
    }

    func pskID(_ key: PreSharedKeyID.Key = .external(id: [7]), nonce: Int = 32) -> PreSharedKeyID {
        PreSharedKeyID(key: key, nonce: [UInt8](repeating: 5, count: nonce))
    }

    /// A key package of a newcomer, changed and signed again.
    func package(
        _ name: String = "newcomer", leaf: (inout LeafNode) -> Void = { _ in },
        signedLeaf: (inout LeafNode) -> Void = { _ in }, change: (inout KeyPackage) -> Void = { _ in },
        signed: (inout KeyPackage) -> Void = { _ in }, by client: Member? = nil
    ) throws -> KeyPackage {
        let client = client ?? Member(name)
        var package = try client.keyPackage().keyPackage
        leaf(&package.leafNode)
        try package.leafNode.sign(
            client.suite, with: client.signatureKey, at: LeafLocation(groupID: [], leafIndex: 0))
        signedLeaf(&package.leafNode)
        change(&package)
        try package.sign(client.suite, with: client.signatureKey)
        signed(&package)
        return package
    }

    /// An Update of the third member, changed and signed again.
    func update(
        leaf: (inout LeafNode) -> Void = { _ in }, signed: (inout LeafNode) -> Void = { _ in }
    ) throws -> MLSMessage {
        let third = members[2]
        return try third.with { group throws in
            var node = try LeafNode(
                third.profile, suite: third.suite, encryptionKey: third.suite.generateHPKEKey().publicKey,
                signatureKey: third.signatureKey, source: .update,
                at: LeafLocation(groupID: group.groupID, leafIndex: group.leafIndex))
            leaf(&node)
            try node.sign(
                third.suite, with: third.signatureKey,
                at: LeafLocation(groupID: group.groupID, leafIndex: group.leafIndex))
            signed(&node)
            return try group.forged(.proposal(.update(node)))
        }
    }
}

@Suite struct ValidationTests {
    @Test(arguments: Rule.all)
    func `a violation of one rule is refused with its own error, and the group goes on`(rule: Rule) throws {
        try check(rule, Stage())
    }

    @Test(arguments: Rule.framing + Rule.leaves + Rule.commits)
    func `of a commit that two threads check, too`(rule: Rule) throws { try check(rule, Stage(isLarge: true)) }

    private func check(_ rule: Rule, _ stage: Stage) throws {
        #expect(throws: rule.error) { try rule.attempt(stage) }
        guard stage.isSet else { return }
        // Nothing has changed: an honest commit is still followed by all.
        for member in stage.members { member.with { $0.discardProposals() } }
        let output = try stage.evil.commit()
        for member in stage.members.dropFirst() { try member.follow(output.commit) }
        try agree(stage.members)
    }
}

/// The value, which the test needs.
func present<Value>(_ value: Value?) throws -> Value { try #require(value) }
